//! Metrics of claims: figures of one run.

use super::Window;
use crate::results::statistics::{fct_mean_up_to_us, small_fct_mean_us};
use crate::summary::{ClassSummary, CoreBin, RunSummary, Stat};

/// A figure of one run that claims and numbers of documents are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    FctMean,
    FctP50,
    FctP95,
    FctP99,
    /// Mean completion time of flows up to 100 KB.
    SmallFctMean,
    /// Mean completion time of flows up to 1 MB, the small ones included.
    FctMeanTo1Mb,
    /// Mean completion time of flows up to 10 MB.
    FctMeanTo10Mb,
    SlowdownMean,
    /// Smallest slowdown of any flow; over several runs the smallest of all.
    SlowdownMin,
    /// Mean completion time of groups of flows, such as collectives.
    GroupMean,
    /// Longest completion time of any group.
    GroupMax,
    /// Flows completed / flows started.
    CompletedShare,
    /// Mean slowdown of all flows, where an unfinished one counts with the slowdown it had reached.
    SlowdownBoundMean,
    /// Delivered bytes / capacity of the host links.
    ThroughputShare,
    /// Smallest of the flows' shares of their ideal rate.
    FlowShareMin,
    /// Mean of the flows' shares of their ideal rate.
    FlowShareMean,
    /// Part of the flows with at least half of their ideal rate.
    FlowShareHalf,
    /// Part of the flows with at least 0.8 of their ideal rate.
    FlowShare80,
    /// Packets dropped, all causes.
    DroppedPackets,
    /// Retransmitted packets / packets sent.
    RetransmittedShare,
    /// Largest distance, in segments, from the highest sequence number received to a packet that
    /// arrived below it; over several runs the largest.
    ReorderExtent,
    /// Flow migrations by a controller.
    Moves,
    /// Maximum / mean load of links into the top tier (CLLBL).
    CoreCllblRx,
    /// Maximum / mean load of links out of the top tier.
    CoreCllblTx,
    /// Mean utilisation of links into the top tier (bisection value).
    CoreBbRx,
    /// Mean utilisation of links out of the top tier.
    CoreBbTx,
    /// Mean response time of requests, us; of one class with [`class`](super::Claim::class).
    ResponseMean,
    ResponseP10,
    ResponseMedian,
    ResponseP90,
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
    pub const ALL: [Metric; 34] = [
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
        Metric::RetransmittedShare,
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
    /// Names in experiment files.
    pub const NAMES: [&str; 34] = [
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
        "retransmitted_share",
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

    /// Returns the metric of a name in [`Metric::NAMES`].
    pub fn named(name: &str) -> Option<Metric> {
        Metric::NAMES.iter().position(|known| *known == name).map(|at| Metric::ALL[at])
    }

    /// Returns the name in experiment files.
    pub fn name(self) -> &'static str {
        let position = Metric::ALL.iter().position(|metric| *metric == self);
        position.map_or("", |at| Metric::NAMES[at])
    }

    /// Returns whether the metric has values for time windows.
    pub fn is_of_core(self) -> bool {
        matches!(self, Metric::CoreCllblRx | Metric::CoreCllblTx | Metric::CoreBbRx | Metric::CoreBbTx)
    }

    /// Returns whether the metric is about requests, which may have several classes.
    pub fn is_of_requests(self) -> bool {
        self.of_class(&ClassSummary::default()).is_some() || self == Metric::ServerShare
    }

    /// Returns the value for a request class; `None` for metrics about flows.
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

    /// Returns the value in a run; `None` if no flow completed that it could be computed from.
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
            Metric::RetransmittedShare => (run.flows.started > 0).then_some(run.loss.retransmitted_share),
            Metric::ReorderExtent => (run.flows.started > 0).then_some(f64::from(run.reordering.max_extent)),
            Metric::Moves => {
                let of_switches = || Some(run.testbed.as_ref()?.controller.as_ref()?.moves);
                let moves = run.control.plane.as_ref().map(|plane| plane.moves).or_else(of_switches);
                moves.map(|moves| moves as f64)
            }
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

    /// As [`Metric::of`], for a class with completed requests.
    pub(super) fn of_answered(self, class: &ClassSummary) -> Option<f64> {
        self.of_class(class).filter(|_| class.response_us.count > 0)
    }

    /// Returns the value over seeds.
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
