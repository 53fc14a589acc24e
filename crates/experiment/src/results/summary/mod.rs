//! The documented results schema: `summary.json`, and one line of `runs.jsonl` per run.
//!
//! Times are microseconds, sizes bytes, shares and slowdowns plain ratios. Compatible changes only
//! add fields; a change of meaning raises [`SCHEMA_VERSION`].

use serde::{Deserialize, Serialize};

mod claims;
mod detail;
mod fidelity;
mod measure;
mod measurements;
mod points;
mod requests;
mod testbed;

pub use claims::{ClaimPoint, ClaimVerdict, Judgement};
pub use detail::{Heat, LinkDetail, RunDetail, RunRecord, TierSeries};
pub use fidelity::{FidelityCheck, FidelityError};
pub use measure::Measure;
pub use measurements::{
    AddressingCost, ControlPlane, CoreBalance, CoreBin, Engine, Fairness, FlowCounts, GroupTimes, Loss, Messages,
    Overhead, PacketCounts, Quantiles, Queue, Reordering, SizeBucket, SteadyState, TierEntries,
};
pub use points::{Disagreement, Overall, Point, Ratio, Rival, Standing, Stat, Verdict};
pub use requests::{ClassSummary, ConnectionSummary, Requests, ServerSummary, Spread};
pub use testbed::{ControllerCounts, Fault, Testbed};

/// Version of this schema, written into every file.
pub const SCHEMA_VERSION: u32 = 3;

/// `summary.json`: the experiment, every run, and the statistics over seeds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Summary {
    /// Version of this schema: [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of anabranch that made the results.
    pub anabranch: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The complete experiment file; running it again gives this summary again.
    pub file: String,
    /// Quantity that ranks balancers.
    #[serde(default)]
    pub rank_by: Measure,
    /// Difference that does not matter in practice, as a share.
    pub margin: f64,
    /// Confidence of all comparisons of a point together.
    pub confidence: f64,
    /// Human-readable settings shared by all runs: topology, traffic, transport and queues.
    pub setting: Vec<(String, String)>,
    /// Warnings about the experiment, such as a load of 1 or more.
    pub warnings: Vec<String>,
    /// One entry per run, ordered by variant, load, balancer, seed.
    pub runs: Vec<RunSummary>,
    /// Statistics over seeds, one entry per (variant, load, balancer).
    pub points: Vec<Point>,
    /// The best balancer of each (variant, load).
    pub verdicts: Vec<Verdict>,
    /// The best balancer over all points; left out with fewer than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overall: Option<Overall>,
    /// Verdicts on the claims of the experiment file (`[[expect]]`), in its order.
    #[serde(default)]
    pub claims: Vec<ClaimVerdict>,
    /// Errors of flow fidelity, measured by `anabranch run --check-fidelity`; left out without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fidelity_check: Option<FidelityCheck>,
}

impl Summary {
    /// Returns how balancers are compared.
    pub fn rule(&self) -> crate::statistics::Rule {
        let Summary { rank_by, margin, confidence, .. } = *self;
        crate::statistics::Rule { rank_by, margin, confidence }
    }
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct RunSummary {
    /// Balancer as the user wrote it, such as `ecmp:hash=threshold`.
    pub balancer: String,
    /// Whether it is a bound, such as the fluid optimum: balancers are compared with it, but it is
    /// never ranked.
    #[serde(default)]
    pub is_bound: bool,
    /// Platform of the run: `sim` or `testbed`.
    pub platform: String,
    /// `flow` if rates of flows were simulated; left out if packets were.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fidelity: String,
    /// Seed of the flows and of all random draws of the run.
    pub seed: u64,
    /// Offered load; null if the traffic sets its own rate.
    pub load: Option<f64>,
    /// Values of further sweep axes (and the failure scenario), as `key=value` joined by `, `;
    /// empty without further axes.
    pub variant: String,
    /// All parameters of the balancer.
    pub parameters: Vec<(String, String)>,
    /// Flow accounting.
    pub flows: FlowCounts,
    /// Packet accounting.
    pub packets: PacketCounts,
    /// Completion times of completed flows (receiver side), microseconds.
    pub fct_us: Quantiles,
    /// Mean completion time at the sender (last byte acknowledged), microseconds.
    pub sender_fct_mean_us: f64,
    /// Completion times by size bucket.
    pub fct_us_by_size: Vec<SizeBucket>,
    /// FCT / ideal FCT of completed flows.
    pub slowdown: Quantiles,
    /// Smallest slowdown of any completed flow; a value below 1 would be a defect.
    pub slowdown_min: f64,
    /// Mean slowdown of all flows that started. A flow that did not complete counts with the
    /// slowdown it had reached (its age / ideal FCT, at least 1). The value is a lower bound, and
    /// equal to `slowdown.mean` if every flow completed. Balancers are ranked by it, so that
    /// unfinished flows are no advantage.
    #[serde(default)]
    pub slowdown_lower_bound_mean: f64,
    /// Warm-up, end and steady part of the run; left out with fewer than 1,000 flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyState>,
    /// Delivered payload of all flows / (simulated time × sum of host link rates).
    pub throughput_share: f64,
    /// Completion times of groups of flows: jobs, coflows, collectives; all 0 without groups.
    #[serde(default)]
    pub groups: GroupTimes,
    /// Fairness of flow rates.
    pub fairness: Fairness,
    /// Balance of the top-tier links.
    pub core: CoreBalance,
    /// Reordering at receivers.
    pub reordering: Reordering,
    /// Losses and retransmissions.
    pub loss: Loss,
    /// Queues by tier.
    pub queues: Vec<Queue>,
    /// Overhead: packets and messages of the balancer and its controller.
    pub overhead: Overhead,
    /// Engine figures. `wall_s` and `peak_rss_bytes` are timings, which differ between repeats.
    /// They are 0 in `summary.json`, which is byte-identical when an experiment is repeated;
    /// `timings.json` and `runs.jsonl` have them.
    pub engine: Engine,
    /// Simulated time at the end, microseconds.
    pub end_us: f64,
    /// Requests to services; left out if flows are not requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// The emulated network and its preflight check; left out by the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<Testbed>,
}
