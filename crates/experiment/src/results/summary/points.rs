//! Statistics over seeds.

use serde::{Deserialize, Serialize};

/// A quantity over seeds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Stat {
    /// Mean over seeds.
    pub mean: f64,
    /// Sample standard deviation; 0 with one seed.
    pub sd: f64,
    /// Half width of the 95 % interval of the mean (Student t); 0 with one seed.
    pub ci95: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
}

/// A ratio of costs, paired over seeds: the geometric mean over seeds, and the interval by which it
/// is judged. It holds together with those of all other balancers of the setting, with 95 %
/// confidence; it is empty with one seed. All 0 if a cost is not known or infinite.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Ratio {
    /// Geometric mean; above 1 for a worse balancer.
    pub value: f64,
    /// Lower end of the interval, equal to `value` with one seed.
    pub low: f64,
    /// Upper end of the interval, equal to `value` with one seed.
    pub high: f64,
}

impl Ratio {
    /// Returns the ratio with three digits, and with four near 1.
    pub(crate) fn factor(&self) -> String {
        self.digits(self.value)
    }

    /// Returns the interval, such as ` (1.10 to 1.31)`; nothing with one seed.
    pub(crate) fn interval(&self) -> String {
        let Ratio { low, high, .. } = *self;
        if low < high { format!(" ({} to {})", self.digits(low), self.digits(high)) } else { String::new() }
    }

    fn digits(&self, number: f64) -> String {
        let decimals = match self.value {
            value if value >= 99.95 => 0,
            value if value >= 9.995 => 1,
            value if !(0.9..1.1).contains(&value) => 2,
            _ => 3,
        };
        format!("{number:.decimals$}")
    }
}

/// Such as `1.20 (1.10 to 1.31)`.
impl core::fmt::Display for Ratio {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.value > 0.0 { write!(out, "{}{}", self.factor(), self.interval()) } else { out.write_str("–") }
    }
}

/// Standing of a balancer in a comparison.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It has the lowest cost.
    Best,
    /// It differs from the best by less than the margin, surely.
    Tied,
    /// It may be worse or not: more seeds would tell.
    Undecided,
    /// It is surely worse than the best.
    Worse,
    /// It left more flows unfinished than others: its value leaves out the slowest.
    Incomplete,
    /// A bound, not a balancer.
    Bound,
    /// No run has a value.
    #[default]
    Absent,
}

impl Standing {
    /// Returns the name that tables and CSV files have.
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Best => "best",
            Standing::Tied => "tied",
            Standing::Undecided => "undecided",
            Standing::Worse => "worse",
            Standing::Incomplete => "incomplete",
            Standing::Bound => "bound",
            Standing::Absent => "absent",
        }
    }
}

/// Statistics over the seeds of one (variant, load, balancer).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Point {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// As in the runs.
    pub balancer: String,
    /// As in the runs.
    #[serde(default)]
    pub is_bound: bool,
    /// Rank at this (variant, load): 1 for the best and all balancers that are not surely worse. The
    /// best of the others follows, with all that are not surely worse than it, and so on; shared
    /// ranks leave gaps (1, 1, 3). 0 for bounds and for balancers with too many unfinished flows,
    /// which are not ranked.
    #[serde(default)]
    pub rank: u32,
    /// Standing in the comparison with the best.
    pub standing: Standing,
    /// Number of seeds.
    pub seeds: u32,
    /// Flows that started, over all seeds.
    pub flows_started: u64,
    /// Flows that completed, over all seeds.
    pub flows_completed: u64,
    /// Mean FCT, microseconds.
    pub fct_mean_us: Stat,
    /// Median FCT, microseconds.
    pub fct_p50_us: Stat,
    /// 99th percentile FCT, microseconds.
    pub fct_p99_us: Stat,
    /// Mean slowdown of completed flows.
    pub slowdown_mean: Stat,
    /// 99th percentile slowdown of completed flows.
    pub slowdown_p99: Stat,
    /// Mean FCT of flows up to 100 KB, microseconds.
    pub small_fct_mean_us: Stat,
    /// Mean FCT of flows above 1 MB, microseconds.
    pub large_fct_mean_us: Stat,
    /// Mean completion time of groups of flows (jobs, coflows, collectives), microseconds; all 0
    /// without groups.
    #[serde(default)]
    pub group_mean_us: Stat,
    /// 99th percentile completion time of groups, microseconds.
    #[serde(default)]
    pub group_p99_us: Stat,
    /// Longest completion time of a group, microseconds.
    #[serde(default)]
    pub group_max_us: Stat,
    /// Groups that did not complete, over all seeds.
    #[serde(default)]
    pub groups_unfinished: u64,
    /// Mean time of groups in which an incomplete one counts with the time until the end of the run,
    /// microseconds.
    #[serde(default)]
    pub group_lower_bound_us: Stat,
    /// Mean bus bandwidth of collectives, gigabits per second; all 0 without collectives.
    #[serde(default)]
    pub bus_gbps: Stat,
    /// Packets dropped / packets sent.
    pub drop_share: Stat,
    /// Delivered payload / capacity of the host links.
    pub throughput_share: Stat,
    /// Mean slowdown in which an unfinished flow counts with the slowdown it had reached.
    #[serde(default)]
    pub slowdown_lower_bound: Stat,
    /// The cost by which balancers are ranked ([`Summary::rank_by`](super::Summary::rank_by)) / that of the
    /// best balancer; of throughput, the best balancer's / this one's.
    pub ratio: Ratio,
    /// The quantity that ranks balancers of the balancer `optimum` / that of this balancer, seed by seed (of
    /// throughput, this balancer's / the optimum's). Left out if the experiment has no `optimum`.
    /// Max-min fairness does not minimise the mean slowdown, so more than 1 is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_optimum: Option<Stat>,
}

/// The comparison at one (variant, load), by [`Summary::rank_by`](super::Summary::rank_by), on common random numbers.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Verdict {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// Balancer with the lowest mean slowdown (`slowdown_lower_bound_mean`) or group time, among those whose
    /// unfinished flows or groups exceed those of the most complete one by at most 0.1 %; of throughput, the
    /// one with the highest: by the geometric mean over seeds. Never a bound.
    pub best: String,
    /// Balancers that differ from the best by less than the margin. With one seed nothing is sure;
    /// this then lists the balancers within the margin.
    pub tied: Vec<String>,
    /// Balancers that may be as good as the best or worse.
    pub undecided: Vec<String>,
    /// About how many seeds would decide these comparisons; left out without any, and if more than
    /// 1,000 are needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds_needed: Option<u32>,
    /// Comparisons by other metrics that contradict this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<Disagreement>,
    /// The verdict as sentences for readers of reports.
    pub sentence: String,
}

/// Another metric by which the best balancer is worse than another one, surely.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Disagreement {
    /// Name of the metric, such as `slowdown_p99`.
    pub metric: String,
    /// Best balancer by this metric.
    pub best: String,
    /// The metric of the best balancer by the ranking quantity / that of this one.
    pub ratio: Ratio,
}

/// The comparison over all points of an experiment, with equal weights. For each seed the logarithms
/// of the ratios are averaged over the points; intervals are those of these averages over seeds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Overall {
    /// Balancer with the lowest geometric mean of costs.
    pub best: String,
    /// Number of points, each a load and a combination of swept values.
    pub settings: u32,
    /// Number of seeds, the same at every point.
    pub seeds: u32,
    /// The other balancers that are ranked at every point, best first.
    pub rivals: Vec<Rival>,
    /// Number of balancers that are not ranked at every point.
    pub left_out: u32,
    /// About how many seeds would decide what is undecided, as in [`Verdict`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds_needed: Option<u32>,
    /// The comparison as sentences for readers of reports.
    pub sentence: String,
}

/// A balancer compared with the best over all points.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Rival {
    /// Label of the balancer, as in the runs.
    pub balancer: String,
    /// Standing in the comparison with the best.
    pub standing: Standing,
    /// Its costs / those of the best, over all points.
    pub ratio: Ratio,
    /// Number of runs in which it had a higher cost than the best with the same seed.
    pub behind: u32,
    /// Number of pairs of runs that were compared.
    pub pairs: u32,
}
