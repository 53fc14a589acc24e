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
    /// Rank at this (variant, load): 1 for the best and all balancers that are indistinguishable
    /// from it. The best of the others follows, with all that are indistinguishable from it, and so
    /// on; shared ranks leave gaps (1, 1, 3). 0 for bounds and for balancers with too many
    /// unfinished flows, which are not ranked.
    #[serde(default)]
    pub rank: u32,
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
    /// The quantity that ranks balancers ([`Summary::rank_by`](super::Summary::rank_by)) minus that of the
    /// best balancer, paired over seeds; all 0 for the best itself.
    #[serde(default)]
    pub vs_best: Stat,
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
    /// one with the highest. Never a bound.
    pub best: String,
    /// Balancers indistinguishable from the best: the 95 % interval of the paired difference over
    /// seeds contains 0. One seed allows no statistical distinction; this then lists the balancers
    /// within 2 %.
    pub tied: Vec<String>,
    /// One human-readable sentence.
    pub sentence: String,
}
