//! Published claims: what a document says would come out, fixed before running, and whether it did.
//!
//! Balancers are compared as verdicts are: by differences paired over seeds. A difference of the wrong sign is noise
//! where its 95 % interval contains 0 and counts against the claim where it does not.

mod words;

use crate::statistics::{cannot_be_told_above, small_fct_mean_us, stat};
use crate::summary::{ClaimOutcome, ClaimPoint, ClaimVerdict, ClassSummary, CoreBin, PointOutcome, RunSummary, Stat};

/// A claim of a document about an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Short name, such as `E3.2`.
    pub id: String,
    /// The claim in a sentence.
    pub claim: String,
    /// What it is about.
    pub metric: Metric,
    /// Label of the balancer it is about.
    pub balancer: String,
    /// What it says.
    pub comparison: Comparison,
    /// In comparisons with another balancer: how many times the other's metric it is measured against.
    pub times: f64,
    /// For metrics of the core: the time bins it is about; all if `None`.
    pub window: Option<Window>,
    /// Only requests of this class; `None` for all.
    pub class: Option<String>,
    /// The server that [`Metric::ServerShare`] is about.
    pub server: Option<String>,
    /// Where it says so: at least one load in all, and at least two of each variant for a rise.
    pub at: Vec<Selection>,
    /// Why it is not reproduced, if it is not.
    pub reason: Option<String>,
}

/// A part of the time: bins that end in it count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Its beginning, seconds; a bin that ends here does not count.
    pub from_s: f64,
    /// Its end, seconds.
    pub until_s: f64,
}

impl Claim {
    /// What it is about, of a run.
    fn value(&self, run: &RunSummary) -> Option<f64> {
        let class = self.class.as_deref();
        if let (Metric::ServerShare, Some(server)) = (self.metric, &self.server) {
            return run.requests.as_ref()?.share_of(class, server);
        }
        if class.is_some() {
            return self.metric.of_answered(run.requests.as_ref()?.class(class)?);
        }
        match self.window {
            Some(window) => self.metric.of_window(run, window),
            None => self.metric.of(run),
        }
    }
}

/// Loads of one variant, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Label of the variant.
    pub variant: String,
    /// The loads.
    pub loads: Vec<Option<f64>>,
}

/// What a claim says of its metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    /// At most that of another balancer.
    AtMost(String),
    /// At least that of another balancer.
    AtLeast(String),
    /// In a range, both ends included.
    Within(f64, f64),
    /// Grows with load, or stays.
    RisesWithLoad,
}

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
    /// Packets dropped, whatever for.
    DroppedPackets,
    /// Most loaded / mean load of links into the top tier (CLLBL).
    CoreCllblRx,
    /// The same of links out of it.
    CoreCllblTx,
    /// Mean utilisation of links into the top tier (bisection value).
    CoreBbRx,
    /// The same of links out of it.
    CoreBbTx,
    /// Mean response time of requests, us; of one class with [`Claim::class`].
    ResponseMean,
    /// 10th percentile.
    ResponseP10,
    /// Median.
    ResponseMedian,
    /// 90th percentile.
    ResponseP90,
    /// 99th percentile.
    ResponseP99,
    /// Mean over requests of the bytes downloaded per second of response time.
    DownloadRate,
    /// Share of pages that [`Claim::server`] served.
    ServerShare,
}

impl Metric {
    /// All metrics, in the order of [`Metric::NAMES`].
    pub const ALL: [Metric; 27] = [
        Metric::FctMean,
        Metric::FctP50,
        Metric::FctP95,
        Metric::FctP99,
        Metric::SmallFctMean,
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
        Metric::DroppedPackets,
        Metric::CoreCllblRx,
        Metric::CoreCllblTx,
        Metric::CoreBbRx,
        Metric::CoreBbTx,
        Metric::ResponseMean,
        Metric::ResponseP10,
        Metric::ResponseMedian,
        Metric::ResponseP90,
        Metric::ResponseP99,
        Metric::DownloadRate,
        Metric::ServerShare,
    ];
    /// Their names in experiment files.
    pub const NAMES: [&str; 27] = [
        "fct_mean_us",
        "fct_p50_us",
        "fct_p95_us",
        "fct_p99_us",
        "small_fct_mean_us",
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
        "dropped_packets",
        "core_cllbl_rx",
        "core_cllbl_tx",
        "core_bb_rx",
        "core_bb_tx",
        "response_mean",
        "response_p10",
        "response_median",
        "response_p90",
        "response_p99",
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
            Metric::SlowdownMean => completed(run.slowdown.mean),
            Metric::SlowdownMin => completed(run.slowdown_min),
            Metric::GroupMean => grouped(run.groups.time_us.mean),
            Metric::GroupMax => grouped(run.groups.time_us.max),
            Metric::SlowdownBoundMean => (run.flows.started > 0).then_some(run.slowdown_bound_mean),
            Metric::ThroughputShare => (run.flows.started > 0).then_some(run.throughput_share),
            Metric::FlowShareMin => (run.flows.started > 0).then_some(run.fairness.min),
            Metric::FlowShareMean => (run.flows.started > 0).then_some(run.fairness.mean),
            Metric::FlowShareHalf => (run.flows.started > 0).then_some(run.fairness.at_least[0]),
            Metric::DroppedPackets => Some(run.packets.dropped.values().sum::<u64>() as f64),
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
            | Metric::DownloadRate => self.of_answered(run.requests.as_ref()?.class(None)?),
            Metric::CompletedShare => {
                (run.flows.started > 0).then(|| run.flows.completed as f64 / run.flows.started as f64)
            }
        }
    }

    /// As [`Metric::of`], for a class in which some requests completed.
    fn of_answered(self, class: &ClassSummary) -> Option<f64> {
        self.of_class(class).filter(|_| class.response_us.count > 0)
    }

    /// Its value over seeds.
    fn over(self, stat: &Stat) -> f64 {
        if self == Metric::SlowdownMin { stat.min } else { stat.mean }
    }
}

/// What became of each claim.
pub fn judge(claims: &[Claim], runs: &[RunSummary]) -> Vec<ClaimVerdict> {
    claims.iter().map(|claim| verdict(claim, runs)).collect()
}

fn verdict(claim: &Claim, runs: &[RunSummary]) -> ClaimVerdict {
    let points: Vec<ClaimPoint> = claim.at.iter().flat_map(|selection| points(claim, selection, runs)).collect();
    let count = |outcome| points.iter().filter(|point| point.outcome == outcome).count();
    // A claim that has the wrong sign at half of the points is not borne out by noise being large.
    let verdict = match (count(PointOutcome::Fails), count(PointOutcome::Holds)) {
        (1.., _) => ClaimOutcome::NotReproduced,
        (0, holds) if 2 * holds > points.len() => ClaimOutcome::Reproduced,
        _ => ClaimOutcome::WithinNoise,
    };
    let is_reproduced = verdict == ClaimOutcome::Reproduced;
    let reason = claim.reason.clone().filter(|text| !is_reproduced && !text.trim().is_empty());
    ClaimVerdict {
        id: claim.id.clone(),
        claim: claim.claim.clone(),
        verdict,
        sentence: words::sentence(claim, &points),
        points,
        reason,
    }
}

fn points(claim: &Claim, selection: &Selection, runs: &[RunSummary]) -> Vec<ClaimPoint> {
    let of = |balancer: &str, load: Option<f64>| -> Vec<&RunSummary> {
        let wanted =
            |run: &&RunSummary| run.balancer == balancer && run.variant == selection.variant && run.load == load;
        runs.iter().filter(wanted).collect()
    };
    let loads = selection.loads.iter().copied();
    let named = |load: Option<f64>, point: ClaimPoint| ClaimPoint { variant: selection.variant.clone(), load, ..point };
    match &claim.comparison {
        Comparison::AtMost(other) => {
            loads.map(|load| named(load, rivals(claim, &of(&claim.balancer, load), &of(other, load), 1.0))).collect()
        }
        Comparison::AtLeast(other) => {
            loads.map(|load| named(load, rivals(claim, &of(&claim.balancer, load), &of(other, load), -1.0))).collect()
        }
        Comparison::Within(low, high) => {
            loads.map(|load| named(load, range(claim, &of(&claim.balancer, load), *low, *high))).collect()
        }
        Comparison::RisesWithLoad => {
            let step = |pair: &[Option<f64>]| {
                named(pair[1], rise(claim, &of(&claim.balancer, pair[0]), &of(&claim.balancer, pair[1])))
            };
            selection.loads.windows(2).map(step).collect()
        }
    }
}

/// Balancers whose means differ by less than this share of the mean have tied.
const TIE: f64 = 1e-3;

/// One balancer against another on the seeds both have; a difference of sign `wrong` speaks against the claim.
fn rivals(claim: &Claim, own: &[&RunSummary], other: &[&RunSummary], wrong: f64) -> ClaimPoint {
    let metric = claim.metric;
    let pair = |run: &&RunSummary| {
        let other = other.iter().find(|other| other.seed == run.seed)?;
        Some((claim.value(run)?, claim.value(other)? * claim.times))
    };
    let pairs: Vec<(f64, f64)> = own.iter().filter_map(pair).collect();
    let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
    let excess: Vec<f64> = differences.iter().map(|difference| difference * wrong).collect();
    let mean = |values: Vec<f64>| metric.over(&stat(&values));
    let against = mean(pairs.iter().map(|(_, other)| *other).collect());
    let outcome = match stat(&excess).mean {
        // Nothing completed that could be compared: what was claimed did not come out.
        _ if pairs.is_empty() => PointOutcome::Fails,
        // A tie says nothing for a claim about two balancers.
        excess if excess.abs() <= TIE * against.abs() => PointOutcome::WithinNoise,
        excess if excess <= 0.0 => PointOutcome::Holds,
        _ if cannot_be_told_above(&excess, against.abs()) => PointOutcome::WithinNoise,
        _ => PointOutcome::Fails,
    };
    ClaimPoint {
        outcome,
        value: (!pairs.is_empty()).then(|| mean(pairs.iter().map(|(own, _)| *own).collect())),
        against: (!pairs.is_empty()).then_some(against),
        difference: stat(&differences),
        unfinished: unfinished(own) + unfinished(other),
        ..ClaimPoint::default()
    }
}

fn range(claim: &Claim, runs: &[&RunSummary], low: f64, high: f64) -> ClaimPoint {
    let value = over_seeds(claim, runs).map(|stat| claim.metric.over(&stat));
    let holds = value.is_some_and(|value| low <= value && value <= high);
    ClaimPoint {
        outcome: if holds { PointOutcome::Holds } else { PointOutcome::Fails },
        value,
        unfinished: unfinished(runs),
        ..ClaimPoint::default()
    }
}

/// From one load to the next: a drop is noise where the intervals of the two overlap.
fn rise(claim: &Claim, lower: &[&RunSummary], upper: &[&RunSummary]) -> ClaimPoint {
    let metric = claim.metric;
    let (before, after) = (over_seeds(claim, lower), over_seeds(claim, upper));
    let outcome = match (&before, &after) {
        (Some(before), Some(after)) => {
            let drop = metric.over(before) - metric.over(after);
            let one_seed = lower.len().min(upper.len()) < 2;
            match drop {
                drop if drop <= 0.0 => PointOutcome::Holds,
                drop if one_seed && cannot_be_told_above(&[drop], metric.over(after)) => PointOutcome::WithinNoise,
                drop if !one_seed && drop <= before.ci95 + after.ci95 => PointOutcome::WithinNoise,
                _ => PointOutcome::Fails,
            }
        }
        _ => PointOutcome::Fails,
    };
    ClaimPoint {
        outcome,
        value: after.map(|stat| metric.over(&stat)),
        against: before.map(|stat| metric.over(&stat)),
        unfinished: unfinished(lower) + unfinished(upper),
        ..ClaimPoint::default()
    }
}

fn over_seeds(claim: &Claim, runs: &[&RunSummary]) -> Option<Stat> {
    let values: Vec<f64> = runs.iter().filter_map(|run| claim.value(run)).collect();
    (!values.is_empty()).then(|| stat(&values))
}

fn unfinished(runs: &[&RunSummary]) -> u64 {
    runs.iter().map(|run| run.flows.failed + run.flows.running).sum()
}

#[cfg(test)]
mod tests;
