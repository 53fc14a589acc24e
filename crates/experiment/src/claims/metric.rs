//! What claims can be about: figures of one run.

use super::Window;
use crate::statistics::{fct_mean_up_to_us, small_fct_mean_us};
use crate::summary::{ClassSummary, CoreBin, RunSummary, Stat};

/// What a claim is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Mean completion time.
    FctMean,
    /// Median completion time.
    FctP50,
    /// 95th percentile of completion times.
    FctP95,
    /// 99th percentile of completion times.
    FctP99,
    /// Mean completion time of flows up to 100 KB.
    SmallFctMean,
    /// Mean completion time of flows up to 1 MB, the small ones included.
    FctMeanTo1Mb,
    /// Mean completion time of flows up to 10 MB.
    FctMeanTo10Mb,
    /// Mean slowdown.
    SlowdownMean,
    /// Least slowdown of any flow, and of any run where several are put together.
    SlowdownMin,
    /// Mean completion time of groups of flows, such as collectives.
    GroupMean,
    /// Longest completion time of any group.
    GroupMax,
    /// Flows completed / flows started.
    CompletedShare,
    /// Mean slowdown of all flows, where an unfinished one counts with what it had reached.
    SlowdownBoundMean,
    /// Delivered bytes / what host links could have carried.
    ThroughputShare,
    /// Least of the flows' shares of their ideal rate.
    FlowShareMin,
    /// Mean of them.
    FlowShareMean,
    /// Part of the flows that get at least half of their ideal rate.
    FlowShareHalf,
    /// Part of the flows that get at least 0.8 of it.
    FlowShare80,
    /// Packets dropped, whatever for.
    DroppedPackets,
    /// Largest distance, in segments, from the highest sequence number seen to a packet that arrived below it; over runs the
    /// largest.
    ReorderExtent,
    /// Flows that a controller moved.
    Moves,
    /// Most loaded / mean load of links into the top tier (CLLBL).
    CoreCllblRx,
    /// The same of links out of it.
    CoreCllblTx,
    /// Mean utilisation of links into the top tier (bisection value).
    CoreBbRx,
    /// The same of links out of it.
    CoreBbTx,
    /// Mean response time of requests, us; of one class with [`class`](super::Claim::class).
    ResponseMean,
    /// 10th percentile.
    ResponseP10,
    /// Median.
    ResponseMedian,
    /// 90th percentile.
    ResponseP90,
    /// 99th percentile.
    ResponseP99,
    /// From the 10th to the 90th percentile.
    ResponseSpread,
    /// Mean over requests of the bytes downloaded per second of response time.
    DownloadRate,
    /// Share of pages that [`server`](super::Claim::server) served.
    ServerShare,
}

impl Metric {
    /// All metrics, in the order of [`Metric::NAMES`].
    pub const ALL: [Metric; 33] = [
        Metric::FctMean,
        Metric::FctP50,
        Metric::FctP95,
        Metric::FctP99,
        Metric::SmallFctMean,
        Metric::FctMeanTo1Mb,
        Metric::FctMeanTo10Mb,
        Metric::SlowdownMean,
        Metric::SlowdownMin,
        Metric::GroupMean,
        Metric::GroupMax,
        Metric::CompletedShare,
        Metric::SlowdownBoundMean,
        Metric::ThroughputShare,
        Metric::FlowShareMin,
        Metric::FlowShareMean,
        Metric::FlowShareHalf,
        Metric::FlowShare80,
        Metric::DroppedPackets,
        Metric::ReorderExtent,
        Metric::Moves,
        Metric::CoreCllblRx,
        Metric::CoreCllblTx,
        Metric::CoreBbRx,
        Metric::CoreBbTx,
        Metric::ResponseMean,
        Metric::ResponseP10,
        Metric::ResponseMedian,
        Metric::ResponseP90,
        Metric::ResponseP99,
        Metric::ResponseSpread,
        Metric::DownloadRate,
        Metric::ServerShare,
    ];
    /// Their names in experiment files.
    pub const NAMES: [&str; 33] = [
        "fct_mean_us",
        "fct_p50_us",
        "fct_p95_us",
        "fct_p99_us",
        "small_fct_mean_us",
        "fct_mean_to_1mb_us",
        "fct_mean_to_10mb_us",
        "slowdown_mean",
        "slowdown_min",
        "group_mean_us",
        "group_max_us",
        "completed_share",
        "slowdown_bound_mean",
        "throughput_share",
        "flow_share_min",
        "flow_share_mean",
        "flow_share_half",
        "flow_share_80",
        "dropped_packets",
        "reorder_extent",
        "moves",
        "core_cllbl_rx",
        "core_cllbl_tx",
        "core_bb_rx",
        "core_bb_tx",
        "response_mean",
        "response_p10",
        "response_median",
        "response_p90",
        "response_p99",
        "response_spread",
        "download_rate",
        "server_share",
    ];

    /// The metric of a name of [`Metric::NAMES`].
    pub fn named(name: &str) -> Option<Metric> {
        Metric::NAMES.iter().position(|known| *known == name).map(|at| Metric::ALL[at])
    }

    /// Its name in experiment files.
    pub fn name(self) -> &'static str {
        let position = Metric::ALL.iter().position(|metric| *metric == self);
        position.map_or("", |at| Metric::NAMES[at])
    }

    /// Whether it can be taken from a part of the time.
    pub fn is_of_core(self) -> bool {
        matches!(self, Metric::CoreCllblRx | Metric::CoreCllblTx | Metric::CoreBbRx | Metric::CoreBbTx)
    }

    /// Whether it is about requests, of which there may be several classes.
    pub fn is_of_requests(self) -> bool {
        self.of_class(&ClassSummary::default()).is_some() || self == Metric::ServerShare
    }

    /// Its value for a class of requests; `None` for metrics that are about something else.
    fn of_class(self, class: &ClassSummary) -> Option<f64> {
        let times = &class.response_us;
        match self {
            Metric::ResponseMean => Some(times.mean),
            Metric::ResponseP10 => Some(times.p10),
            Metric::ResponseMedian => Some(times.p50),
            Metric::ResponseP90 => Some(times.p90),
            Metric::ResponseP99 => Some(times.p99),
            Metric::ResponseSpread => Some(times.p90 - times.p10),
            Metric::DownloadRate => Some(class.download_rate),
            _ => None,
        }
    }

    /// Its mean over the time bins that end in a part of the time; `None` where there are none.
    pub(crate) fn of_window(self, run: &RunSummary, window: Window) -> Option<f64> {
        // A millionth of a bin's width is left for rounding.
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

    /// Its value in a run; `None` where no flow completed that it could be taken from.
    pub fn of(self, run: &RunSummary) -> Option<f64> {
        let completed = |value: f64| (run.fct_us.count > 0).then_some(value);
        let grouped = |value: f64| (run.groups.time_us.count > 0).then_some(value);
        match self {
            Metric::FctMean => completed(run.fct_us.mean),
            Metric::FctP50 => completed(run.fct_us.p50),
            Metric::FctP95 => completed(run.fct_us.p95),
            Metric::FctP99 => completed(run.fct_us.p99),
            Metric::SmallFctMean => small_fct_mean_us(run),
            Metric::FctMeanTo1Mb => fct_mean_up_to_us(run, 1_000_000),
            Metric::FctMeanTo10Mb => fct_mean_up_to_us(run, 10_000_000),
            Metric::SlowdownMean => completed(run.slowdown.mean),
            Metric::SlowdownMin => completed(run.slowdown_min),
            Metric::GroupMean => grouped(run.groups.time_us.mean),
            Metric::GroupMax => grouped(run.groups.time_us.max),
            Metric::SlowdownBoundMean => (run.flows.started > 0).then_some(run.slowdown_bound_mean),
            Metric::ThroughputShare => (run.flows.started > 0).then_some(run.throughput_share),
            Metric::FlowShareMin => (run.flows.started > 0).then_some(run.fairness.min),
            Metric::FlowShareMean => (run.flows.started > 0).then_some(run.fairness.mean),
            Metric::FlowShareHalf => (run.flows.started > 0).then_some(run.fairness.at_least[0]),
            Metric::FlowShare80 => (run.flows.started > 0).then_some(run.fairness.at_least[2]),
            Metric::DroppedPackets => Some(run.packets.dropped.values().sum::<u64>() as f64),
            Metric::ReorderExtent => (run.flows.started > 0).then_some(f64::from(run.reordering.max_extent)),
            Metric::Moves => run.control.plane.as_ref().map(|plane| plane.moves as f64),
            Metric::CoreCllblRx => Some(run.core.cllbl_rx),
            Metric::CoreCllblTx => Some(run.core.cllbl_tx),
            Metric::CoreBbRx => Some(run.core.bb_rx),
            Metric::CoreBbTx => Some(run.core.bb_tx),
            Metric::ServerShare => None,
            Metric::ResponseMean
            | Metric::ResponseP10
            | Metric::ResponseMedian
            | Metric::ResponseP90
            | Metric::ResponseP99
            | Metric::ResponseSpread
            | Metric::DownloadRate => self.of_answered(run.requests.as_ref()?.class(None)?),
            Metric::CompletedShare => {
                (run.flows.started > 0).then(|| run.flows.completed as f64 / run.flows.started as f64)
            }
        }
    }

    /// As [`Metric::of`], for a class in which some requests completed.
    pub(super) fn of_answered(self, class: &ClassSummary) -> Option<f64> {
        self.of_class(class).filter(|_| class.response_us.count > 0)
    }

    /// Its value over seeds.
    pub(crate) fn over(self, stat: &Stat) -> f64 {
        match self {
            Metric::SlowdownMin => stat.min,
            Metric::ReorderExtent => stat.max,
            _ => stat.mean,
        }
    }

    /// Whether it is an extreme, which over seeds is one too and has no interval.
    pub(crate) fn is_extreme(self) -> bool {
        matches!(self, Metric::SlowdownMin | Metric::ReorderExtent)
    }
}
