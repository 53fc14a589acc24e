//! Metrics of claims: figures of one run.

use super::Window;
use crate::results::statistics::{fct_mean_up_to_us, small_fct_mean_us};
use crate::summary::{AddressingCost, ClassSummary, CoreBin, RunSummary, Stat};

/// A metric; [`METRICS`] describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    FctMean,
    FctP50,
    FctP95,
    FctP99,
    FctMax,
    SmallFctMean,
    FctMeanTo1Mb,
    FctMeanTo10Mb,
    SlowdownMean,
    SlowdownP99,
    SlowdownMin,
    GroupMean,
    GroupMax,
    CompletedShare,
    SlowdownLowerBoundMean,
    ThroughputShare,
    FlowShareMin,
    FlowShareMean,
    FlowShareHalf,
    FlowShare80,
    DroppedPackets,
    DeadLinkPackets,
    RetransmittedShare,
    ReorderExtent,
    QueueMax,
    Moves,
    CoreCllblRx,
    CoreCllblTx,
    CoreBbRx,
    CoreBbTx,
    ResponseMean,
    ResponseP10,
    ResponseMedian,
    ResponseP90,
    ResponseP99,
    ResponseSpread,
    DownloadRate,
    ServerShare,
    ServerBusy,
    RulesEdge,
    RulesAggregation,
    RulesCore,
    ControllerCpu,
    ArpAnswered,
    ArpRelayed,
    ArpCopies,
    PacketIns,
}

type OfRun = fn(&RunSummary) -> Option<f64>;

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Microseconds.
    Time,
    /// Part of 1, shown in per cent.
    Share,
    /// Bytes per second.
    BytesPerS,
    /// A number without unit.
    Plain,
}

/// Everything about a metric.
pub struct MetricInfo {
    pub metric: Metric,
    /// Name in experiment files and results.
    pub name: &'static str,
    pub unit: Unit,
    /// Description for users.
    pub doc: &'static str,
    /// Value in a run; `None` if no flow completed that it could be computed from.
    value: OfRun,
}

const fn row(metric: Metric, name: &'static str, unit: Unit, doc: &'static str, value: OfRun) -> MetricInfo {
    MetricInfo { metric, name, unit, doc, value }
}

/// Every metric in the order of the enum.
pub const METRICS: [MetricInfo; 47] = [
    row(Metric::FctMean, "fct_mean_us", Unit::Time, "mean completion time of completed flows", |run| {
        completed(run, run.fct_us.mean)
    }),
    row(Metric::FctP50, "fct_p50_us", Unit::Time, "median completion time", |run| completed(run, run.fct_us.p50)),
    row(Metric::FctP95, "fct_p95_us", Unit::Time, "95th percentile of the completion time", |run| {
        completed(run, run.fct_us.p95)
    }),
    row(Metric::FctP99, "fct_p99_us", Unit::Time, "99th percentile of the completion time", |run| {
        completed(run, run.fct_us.p99)
    }),
    row(Metric::FctMax, "fct_max_us", Unit::Time, "largest completion time of a completed flow", |run| {
        completed(run, run.fct_us.max)
    }),
    row(
        Metric::SmallFctMean,
        "small_fct_mean_us",
        Unit::Time,
        "mean completion time of flows up to 100 KB",
        small_fct_mean_us,
    ),
    row(
        Metric::FctMeanTo1Mb,
        "fct_mean_to_1mb_us",
        Unit::Time,
        "mean completion time of flows up to 1 MB, small ones included",
        |run| fct_mean_up_to_us(run, 1_000_000),
    ),
    row(Metric::FctMeanTo10Mb, "fct_mean_to_10mb_us", Unit::Time, "mean completion time of flows up to 10 MB", |run| {
        fct_mean_up_to_us(run, 10_000_000)
    }),
    row(Metric::SlowdownMean, "slowdown_mean", Unit::Plain, "mean slowdown of completed flows", |run| {
        completed(run, run.slowdown.mean)
    }),
    row(Metric::SlowdownP99, "slowdown_p99", Unit::Plain, "99th percentile of the slowdown", |run| {
        completed(run, run.slowdown.p99)
    }),
    row(Metric::SlowdownMin, "slowdown_min", Unit::Plain, "smallest slowdown of any flow of all runs", |run| {
        completed(run, run.slowdown_min)
    }),
    row(
        Metric::GroupMean,
        "group_mean_us",
        Unit::Time,
        "mean completion time of jobs, coflows or collectives",
        |run| grouped(run, run.groups.time_us.mean),
    ),
    row(
        Metric::GroupMax,
        "group_max_us",
        Unit::Time,
        "largest completion time of a job, coflow or collective",
        |run| grouped(run, run.groups.time_us.max),
    ),
    row(Metric::CompletedShare, "completed_share", Unit::Share, "completed flows as a share of those started", |run| {
        started(run, run.flows.completed as f64 / run.flows.started as f64)
    }),
    row(
        Metric::SlowdownLowerBoundMean,
        "slowdown_lower_bound_mean",
        Unit::Plain,
        "mean slowdown of all flows; an unfinished flow counts with the slowdown it had reached",
        |run| started(run, run.slowdown_lower_bound_mean),
    ),
    row(
        Metric::ThroughputShare,
        "throughput_share",
        Unit::Share,
        "delivered bytes as a share of the capacity of the host links",
        |run| started(run, run.throughput_share),
    ),
    row(
        Metric::FlowShareMin,
        "flow_share_min",
        Unit::Share,
        "smallest share of its ideal rate that a flow gets",
        |run| started(run, run.fairness.min),
    ),
    row(
        Metric::FlowShareMean,
        "flow_share_mean",
        Unit::Share,
        "mean share of their ideal rates that flows get",
        |run| started(run, run.fairness.mean),
    ),
    row(
        Metric::FlowShareHalf,
        "flow_share_half",
        Unit::Share,
        "share of the flows that get at least half of their ideal rate",
        |run| started(run, run.fairness.at_least[0]),
    ),
    row(
        Metric::FlowShare80,
        "flow_share_80",
        Unit::Share,
        "share of the flows that get at least 0.8 of their ideal rate",
        |run| started(run, run.fairness.at_least[2]),
    ),
    row(Metric::DroppedPackets, "dropped_packets", Unit::Plain, "lost packets", |run| {
        Some(run.packets.dropped.values().sum::<u64>() as f64)
    }),
    row(
        Metric::DeadLinkPackets,
        "dead_link_packets",
        Unit::Plain,
        "packets lost at links that are down and in black holes",
        |run| {
            let lost = |cause| run.packets.dropped.get(cause).copied().unwrap_or(0);
            Some((lost("link_down") + lost("blackhole")) as f64)
        },
    ),
    row(
        Metric::RetransmittedShare,
        "retransmitted_share",
        Unit::Share,
        "retransmitted packets as a share of those sent",
        |run| started(run, run.loss.retransmitted_share),
    ),
    row(
        Metric::ReorderExtent,
        "reorder_extent",
        Unit::Plain,
        "largest distance, in segments, of a packet below the highest sequence number received before it, of all runs",
        |run| started(run, f64::from(run.reordering.max_extent)),
    ),
    row(
        Metric::QueueMax,
        "queue_max_bytes",
        Unit::Plain,
        "largest queue that a packet found at a port of a switch, bytes",
        |run| run.queues.iter().map(|queue| queue.max_bytes as f64).reduce(f64::max),
    ),
    row(Metric::Moves, "moves", Unit::Plain, "flow migrations by a controller", moves),
    row(
        Metric::CoreCllblRx,
        "core_cllbl_rx",
        Unit::Plain,
        "maximum / mean load of links into the top tier (CLLBL)",
        |run| Some(run.core.cllbl_rx),
    ),
    row(Metric::CoreCllblTx, "core_cllbl_tx", Unit::Plain, "maximum / mean load of links out of the top tier", |run| {
        Some(run.core.cllbl_tx)
    }),
    row(
        Metric::CoreBbRx,
        "core_bb_rx",
        Unit::Plain,
        "mean utilisation of links into the top tier (bisection value)",
        |run| Some(run.core.bb_rx),
    ),
    row(Metric::CoreBbTx, "core_bb_tx", Unit::Plain, "mean utilisation of links out of the top tier", |run| {
        Some(run.core.bb_tx)
    }),
    row(Metric::ResponseMean, "response_mean", Unit::Time, "mean response time of requests", |run| {
        of_requests(run, Metric::ResponseMean)
    }),
    row(Metric::ResponseP10, "response_p10", Unit::Time, "10th percentile of the response time", |run| {
        of_requests(run, Metric::ResponseP10)
    }),
    row(Metric::ResponseMedian, "response_median", Unit::Time, "median response time", |run| {
        of_requests(run, Metric::ResponseMedian)
    }),
    row(Metric::ResponseP90, "response_p90", Unit::Time, "90th percentile of the response time", |run| {
        of_requests(run, Metric::ResponseP90)
    }),
    row(Metric::ResponseP99, "response_p99", Unit::Time, "99th percentile of the response time", |run| {
        of_requests(run, Metric::ResponseP99)
    }),
    row(
        Metric::ResponseSpread,
        "response_spread",
        Unit::Time,
        "difference of the 90th and the 10th percentile of the response time",
        |run| of_requests(run, Metric::ResponseSpread),
    ),
    row(
        Metric::DownloadRate,
        "download_bytes_per_s",
        Unit::BytesPerS,
        "mean over requests of the bytes downloaded per second of response time",
        |run| of_requests(run, Metric::DownloadRate),
    ),
    row(Metric::ServerShare, "server_share", Unit::Share, "share of the pages that one server serves", |_| None),
    row(Metric::ServerBusy, "server_busy_us", Unit::Time, "time for which the cores of one server are busy", |_| None),
    row(
        Metric::RulesEdge,
        "rules_edge_max",
        Unit::Plain,
        "maximum number of rules of a switch of hosts, with `control.arp = \"resolve\"`",
        |run| rules_of_tier(run, 1),
    ),
    row(
        Metric::RulesAggregation,
        "rules_aggregation_max",
        Unit::Plain,
        "the same of a switch of the tier above",
        |run| rules_of_tier(run, 2),
    ),
    row(Metric::RulesCore, "rules_core_max", Unit::Plain, "the same of a switch of the third tier", |run| {
        rules_of_tier(run, 3)
    }),
    row(
        Metric::ControllerCpu,
        "controller_cpu",
        Unit::Share,
        "processor time of the controller per second of traffic, on a testbed: a share of one core",
        |run| run.testbed.as_ref()?.controller_cpu,
    ),
    row(Metric::ArpAnswered, "arp_answered", Unit::Plain, "ARP requests that the controller answered", |run| {
        Some(addressing(run)?.arp_answered as f64)
    }),
    row(
        Metric::ArpRelayed,
        "arp_relayed",
        Unit::Plain,
        "ARP requests that the controller relayed to all edge ports",
        |run| Some(addressing(run)?.arp_relayed as f64),
    ),
    row(Metric::ArpCopies, "arp_copies", Unit::Plain, "frames of the relayed ARP requests", |run| {
        Some(addressing(run)?.arp_copies as f64)
    }),
    row(
        Metric::PacketIns,
        "packet_ins",
        Unit::Plain,
        "packets that switches sent to the controller during the run",
        |run| Some(run.overhead.control_plane.as_ref()?.to_controller.get("packet_in")?.messages as f64),
    ),
];

/// The names of [`METRICS`].
pub const NAMES: [&str; METRICS.len()] = {
    let mut names = [""; METRICS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = METRICS[at].name;
        at += 1;
    }
    names
};

fn started(run: &RunSummary, value: f64) -> Option<f64> {
    (run.flows.started > 0).then_some(value)
}

fn completed(run: &RunSummary, value: f64) -> Option<f64> {
    (run.fct_us.count > 0).then_some(value)
}

fn grouped(run: &RunSummary, value: f64) -> Option<f64> {
    (run.groups.time_us.count > 0).then_some(value)
}

fn of_requests(run: &RunSummary, metric: Metric) -> Option<f64> {
    metric.of_answered(run.requests.as_ref()?.class(None)?)
}

fn addressing(run: &RunSummary) -> Option<&AddressingCost> {
    run.overhead.control_plane.as_ref()?.addressing.as_ref()
}

fn rules_of_tier(run: &RunSummary, tier: u8) -> Option<f64> {
    let entries = addressing(run)?.entries.iter().find(|entries| entries.tier == tier)?;
    Some(f64::from(entries.max))
}

fn moves(run: &RunSummary) -> Option<f64> {
    let of_switches = || Some(run.testbed.as_ref()?.controller.as_ref()?.moves);
    let moves = run.overhead.control_plane.as_ref().map(|plane| plane.moves).or_else(of_switches);
    moves.map(|moves| moves as f64)
}

impl Metric {
    pub fn named(name: &str) -> Option<Metric> {
        METRICS.iter().find(|row| row.name == name).map(|row| row.metric)
    }

    pub fn name(self) -> &'static str {
        METRICS[self as usize].name
    }

    /// Returns whether a higher value is better.
    pub fn is_better_high(self) -> bool {
        use Metric::{CompletedShare, CoreBbRx, CoreBbTx, DownloadRate, FlowShare80, FlowShareHalf};
        use Metric::{FlowShareMean, FlowShareMin, ThroughputShare};
        let of_flows = matches!(self, FlowShareMin | FlowShareMean | FlowShareHalf | FlowShare80 | CompletedShare);
        of_flows || matches!(self, ThroughputShare | CoreBbRx | CoreBbTx | DownloadRate)
    }

    pub fn unit(self) -> Unit {
        METRICS[self as usize].unit
    }

    pub fn is_of_core(self) -> bool {
        matches!(self, Metric::CoreCllblRx | Metric::CoreCllblTx | Metric::CoreBbRx | Metric::CoreBbTx)
    }

    pub fn is_of_requests(self) -> bool {
        self.of_class(&ClassSummary::default()).is_some() || self.is_of_server()
    }

    pub fn is_of_server(self) -> bool {
        matches!(self, Metric::ServerShare | Metric::ServerBusy)
    }

    fn of_class(self, class: &ClassSummary) -> Option<f64> {
        let times = &class.response_us;
        match self {
            Metric::ResponseMean => Some(times.mean),
            Metric::ResponseP10 => Some(times.p10),
            Metric::ResponseMedian => Some(times.p50),
            Metric::ResponseP90 => Some(times.p90),
            Metric::ResponseP99 => Some(times.p99),
            Metric::ResponseSpread => Some(times.p90 - times.p10),
            Metric::DownloadRate => Some(class.download_bytes_per_s),
            _ => None,
        }
    }

    /// Returns the mean over the time bins that end in a window; `None` without such bins.
    pub(crate) fn of_window(self, run: &RunSummary, window: Window) -> Option<f64> {
        // A millionth of a bin's width allows for rounding.
        let is_inside = |bin: &&CoreBin| bin.until_s > window.from_s + 1e-6 && bin.until_s <= window.until_s + 1e-6;
        let value = |bin: &CoreBin| match self {
            Metric::CoreCllblRx => bin.cllbl_rx,
            Metric::CoreCllblTx => bin.cllbl_tx,
            Metric::CoreBbRx => bin.bb_rx,
            _ => bin.bb_tx,
        };
        let values: Vec<f64> = run.core.bins.iter().filter(is_inside).map(value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    pub fn of(self, run: &RunSummary) -> Option<f64> {
        (METRICS[self as usize].value)(run)
    }

    pub(super) fn of_answered(self, class: &ClassSummary) -> Option<f64> {
        self.of_class(class).filter(|_| class.response_us.count > 0)
    }

    pub(crate) fn over(self, stat: &Stat) -> f64 {
        match self {
            Metric::SlowdownMin => stat.min,
            Metric::ReorderExtent => stat.max,
            _ => stat.mean,
        }
    }

    /// Returns whether the metric is an extreme. Over seeds it is an extreme, too, without an
    /// interval.
    pub(crate) fn is_extreme(self) -> bool {
        matches!(self, Metric::SlowdownMin | Metric::ReorderExtent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum_and_names_are_unique() {
        for (at, MetricInfo { metric, name, .. }) in METRICS.iter().enumerate() {
            assert_eq!((*metric as usize, Metric::named(name)), (at, Some(*metric)), "{name}");
        }
    }
}
