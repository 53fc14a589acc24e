//! The documented results schema: `summary.json`, and one line of `runs.jsonl` per run.
//!
//! Times are microseconds, sizes bytes, shares and slowdowns plain ratios. Fields are only ever added;
//! a change of meaning raises [`SCHEMA_VERSION`].

mod requests;

use serde::{Deserialize, Serialize};

pub use requests::{ClassSummary, ConnectionSummary, Requests, ServerSummary, Spread};

/// Version of this schema, written into every file.
pub const SCHEMA_VERSION: u32 = 1;

/// `summary.json`: what was asked, every run, and the statistics over seeds.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Summary {
    /// Version of this schema: [`SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of anabranch that ran it.
    pub anabranch: String,
    /// Name of the experiment.
    pub experiment: String,
    /// The experiment file in full: running it again gives this summary again.
    pub file: String,
    /// What balancers are ranked by.
    #[serde(default)]
    pub measure: Measure,
    /// What each run shares: topology, traffic, transport and queue settings in words, for people.
    pub setting: Vec<(String, String)>,
    /// Warnings about the experiment (load of 1 or more, and the like).
    pub warnings: Vec<String>,
    /// One entry per run, ordered by variant, load, balancer, seed.
    pub runs: Vec<RunSummary>,
    /// Statistics over seeds, one entry per (variant, load, balancer).
    pub points: Vec<Point>,
    /// Who won at each (variant, load).
    pub verdicts: Vec<Verdict>,
    /// What became of the claims of the experiment file (`[[expect]]`), in its order.
    #[serde(default)]
    pub claims: Vec<ClaimVerdict>,
}

/// What an experiment is about: `slowdown` or `throughput`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// How long flows take: mean slowdown, less is better.
    #[default]
    Slowdown,
    /// How much is carried: throughput share, more is better. For senders that do not react, such as UDP, and for
    /// flows that never end.
    Throughput,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RunSummary {
    /// Balancer as the user wrote it, such as `ecmp:hash=threshold`.
    pub balancer: String,
    /// Whether it is a bound, such as the fluid optimum, and no balancer: it is compared with but never ranked.
    #[serde(default)]
    pub is_bound: bool,
    /// `sim` or `testbed`.
    pub world: String,
    /// Seed.
    pub seed: u64,
    /// Offered load, where the experiment has one.
    pub load: Option<f64>,
    /// Values of any further sweep axes (and the failure scenario), as `key=value` joined by `, `; empty if there are none.
    pub variant: String,
    /// All parameters of the balancer.
    pub parameters: Vec<(String, String)>,
    /// Flow books.
    pub flows: FlowCounts,
    /// Packet books.
    pub packets: PacketCounts,
    /// Completion times of completed flows (receiver side), microseconds.
    pub fct_us: Quantiles,
    /// The same at the sender (last byte acknowledged), mean only, microseconds.
    pub sender_fct_mean_us: f64,
    /// Completion times by size bucket.
    pub fct_us_by_size: Vec<SizeBucket>,
    /// FCT / ideal FCT of completed flows.
    pub slowdown: Quantiles,
    /// Least slowdown of any completed flow; below 1 would be a defect.
    pub slowdown_min: f64,
    /// Mean slowdown of all flows that started, where a flow that did not complete counts with what it had reached
    /// (its age / ideal FCT, at least 1): a lower bound, and equal to `slowdown.mean` if every flow completed.
    /// Balancers are ranked by it, so that none wins by leaving flows unfinished.
    #[serde(default)]
    pub slowdown_bound_mean: f64,
    /// Delivered payload of all flows / (simulated time × sum of host link rates).
    pub throughput_share: f64,
    /// Completion times of groups of flows: jobs, coflows, collectives; none where flows have no groups.
    #[serde(default)]
    pub groups: GroupTimes,
    /// Fairness of flow rates.
    pub fairness: Fairness,
    /// Balance of the top-tier links.
    pub core: CoreBalance,
    /// Reordering seen by receivers.
    pub reordering: Reordering,
    /// Losses and repairs.
    pub loss: Loss,
    /// Queues by tier.
    pub queues: Vec<Queue>,
    /// What the balancer sent by itself.
    pub control: Control,
    /// Engine figures. `wall_s` and `peak_rss_bytes` are timings: they differ between repeats, so they are 0 in
    /// `summary.json`, which is the same to the byte when an experiment is repeated; `timings.json` and
    /// `runs.jsonl` have them.
    pub engine: Engine,
    /// Simulated time at the end, microseconds.
    pub end_us: f64,
    /// Requests to services, where flows are that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
    /// What real switches ran on and what was proved of them beforehand; left out by the simulator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<Testbed>,
}

/// The emulated network a run was made on, and the proof that it loses nothing by itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Testbed {
    /// What the machine is made of: `kernel`, `mininet`, `openvswitch`, and what else had a part in it, with versions.
    pub versions: std::collections::BTreeMap<String, String>,
    /// `user` or `kernel`: where Open vSwitch forwarded.
    pub datapath: String,
    /// Who made the rules: `controller` or `static`.
    pub rules: String,
    /// Who sent: `sockets`, `d-itg` or `iperf3`; who asked: `own` or `wget`.
    pub source: String,
    /// Packets of the proof that were sent, over static rules that spread them so that everything fits.
    pub proof_sent: u64,
    /// Those of them that did not arrive: always 0, or there would be no run.
    pub proof_lost: u64,
    /// Packets a second of the proof, all hosts together.
    pub proof_packets_per_s: f64,
    /// Mean time from one host's socket to another's in the proof, microseconds.
    pub proof_delay_mean_us: f64,
    /// Seconds it took to build the network.
    pub built_s: f64,
    /// Whether the thread that forwards had a processor of its own. Without one, silences and shares of full queues are also
    /// those of whatever else ran there.
    #[serde(default)]
    pub has_own_processor: bool,
    /// Seconds of one core the switch daemon used per second of traffic.
    pub switch_cpu: f64,
    /// Mean time from socket to socket of the run's UDP packets, microseconds; 0 where it was not measured.
    pub delay_mean_us: f64,
    /// Longest time a UDP flow received nothing between two packets, microseconds; 0 where it was not measured.
    pub longest_gap_us: f64,
    /// What was done to the network or its controller during the run, in order of time.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Why requests to services failed, in words, and how many each; left out where none did.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub failed_requests: std::collections::BTreeMap<String, u64>,
    /// Most that a job of a service ended after the time at which its share of its server's cores was enough, milliseconds: how far
    /// the machine kept servers from the processor they were promised. 0 where there are no jobs.
    #[serde(default)]
    pub jobs_late_ms: f64,
    /// What the controller did; left out where there was none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerCounts>,
}

/// Something that was done to an emulated network during a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Fault {
    /// What: `link down NAME`, `link up NAME`, `controller killed`, `controller started again`.
    pub what: String,
    /// When it was really done, microseconds since the beginning of the run.
    pub at_us: f64,
    /// UDP packets lost after it and before the next one; 0 where packets were not counted one by one.
    pub lost: u64,
    /// Longest silence of a UDP flow that ended after it and before the next one, microseconds; 0 where it was not measured, or all
    /// were below 10 ms and nothing was lost.
    pub longest_gap_us: f64,
}

/// What a controller of real switches has done since it was started last, from meeting them on.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct ControllerCounts {
    /// Flows moved from path to path.
    pub moves: u64,
    /// Changes of rules sent.
    pub flow_mods: u64,
    /// Changes of groups sent.
    pub group_mods: u64,
    /// Packets received from switches.
    pub packet_ins: u64,
    /// Times the balancer was asked.
    pub decisions: u64,
}

/// started = completed + failed + running.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowCounts {
    /// Flows in the list.
    pub listed: u64,
    /// Flows that began.
    pub started: u64,
    /// Flows that completed.
    pub completed: u64,
    /// Flows that gave up.
    pub failed: u64,
    /// Flows cut off by the end of the run: censored, never averaged in.
    pub running: u64,
}

/// sent = delivered + to the controller + dropped + in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PacketCounts {
    /// Handed to host interfaces.
    pub sent: u64,
    /// Received by their destination.
    pub delivered: u64,
    /// Lost, by cause; causes without losses are listed as 0.
    pub dropped: std::collections::BTreeMap<String, u64>,
    /// In queues and on wires at the end.
    pub in_flight: u64,
    /// Handed to the controller and sent nowhere else; what it sends on is sent anew. Left out if there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_controller: u64,
    /// Cut to a header by full queues, whatever then became of the header; left out if there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trimmed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Mean and quantiles of one quantity; all 0 when `count` is 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Quantiles {
    /// Observations.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// Completion times of groups of flows: from the first start to the last delivery.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct GroupTimes {
    /// Groups of which some flow did not complete; they are not averaged in.
    pub unfinished: u64,
    /// Times of the others, microseconds.
    pub time_us: Quantiles,
}

/// Flows of one size range (mechanisms.md §7).
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct SizeBucket {
    /// Name such as `(10KB, 100KB]`.
    pub bucket: String,
    /// Largest size in it, bytes; `u64::MAX` for the last.
    pub max_bytes: u64,
    /// Completion times, microseconds.
    pub fct_us: Quantiles,
    /// Slowdowns.
    pub slowdown: Quantiles,
    /// Flows of this size that did not complete.
    pub unfinished: u64,
}

/// Delivered rates of flows as shares of their ideal rates: delivered / active time / rate it would have alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Fairness {
    /// Jain's index of the shares.
    pub jain: f64,
    /// Least share.
    pub min: f64,
    /// Mean share (F2's throughput, where the flows could fill the bisection).
    #[serde(default)]
    pub mean: f64,
    /// Part of the flows whose share is at least 0.5, 0.7, 0.8 and 0.9.
    #[serde(default)]
    pub at_least: [f64; 4],
}

/// F0's metrics (mechanisms.md §7): means over the bins in which core links carried traffic.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct CoreBalance {
    /// max / mean load of links into the top tier.
    pub cllbl_rx: f64,
    /// The same for links out of the top tier.
    pub cllbl_tx: f64,
    /// Mean utilisation of links into the top tier.
    pub bb_rx: f64,
    /// Mean utilisation of links out of the top tier.
    pub bb_tx: f64,
    /// The four of each time bin, with `probes.fixed_bins`; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<CoreBin>,
}

/// F0's metrics of one time bin. A bin without traffic has ratio 1 and value 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct CoreBin {
    /// Its end, seconds.
    pub until_s: f64,
    /// As [`CoreBalance::cllbl_rx`].
    pub cllbl_rx: f64,
    /// As [`CoreBalance::cllbl_tx`].
    pub cllbl_tx: f64,
    /// As [`CoreBalance::bb_rx`].
    pub bb_rx: f64,
    /// As [`CoreBalance::bb_tx`].
    pub bb_tx: f64,
}

/// Reordering (RFC 4737) and resequencing.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Reordering {
    /// Share of first-sent data packets that arrived below the highest sequence seen.
    pub fraction: f64,
    /// Largest distance, in segments, from the highest sequence seen to a packet that arrived below it; at least
    /// RFC 4737's extent.
    pub max_extent: u32,
    /// Whether hosts resequenced.
    pub resequencing: bool,
    /// Most packets one flow had held.
    pub max_held: u32,
    /// Mean hold time of held packets, microseconds.
    pub mean_hold_us: f64,
    /// Path changes per completed flow (edge balancers).
    pub path_changes_per_flow: f64,
}

/// Losses and repairs.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Loss {
    /// Data packets sent again / data packets sent.
    pub retransmitted_share: f64,
    /// Retransmissions of data the receiver already had.
    pub spurious: u64,
    /// Payload bytes that arrived again over another connection of the same flow (MPTCP, RepFlow).
    #[serde(default)]
    pub duplicate_bytes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
}

/// What packets found queued before them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Queue {
    /// Such as `edge→agg`, `host↓` (made from tier and direction).
    pub port: String,
    /// Tier of the cable (1 = host links).
    pub tier: u8,
    /// Away from hosts?
    pub up: bool,
    /// Median, bytes.
    pub p50_bytes: u64,
    /// 99th percentile, bytes.
    pub p99_bytes: u64,
    /// Largest, bytes.
    pub max_bytes: u64,
    /// Share of packets that found the marking threshold reached.
    pub above_mark_share: f64,
}

/// What the balancer sent by itself: probes, replies and notifications of edges; of central balancers the messages on
/// control channels, both ways, and the frames that switches sent for the controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Control {
    /// Packets or messages, all ways.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Payload bytes delivered to receivers, to compare `bytes` with; 0 in results of before this was kept.
    #[serde(default)]
    pub data_bytes: u64,
    /// What a controller cost; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane: Option<Plane>,
}

/// What a controller cost from time 0 on, but for `boot`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Plane {
    /// Messages from the controller to switches, by kind: `flow_mod`, `group_mod`, `packet_in`, `packet_out`, `barrier`,
    /// `multipart` (statistics and descriptions), `other`. Bytes are those of OpenFlow 1.3, without TCP's.
    pub to_switches: std::collections::BTreeMap<String, Messages>,
    /// Messages from switches to the controller, likewise.
    pub to_controller: std::collections::BTreeMap<String, Messages>,
    /// Both ways, before time 0: connecting, discovery, first rules.
    pub boot: Messages,
    /// Most flow-table changes sent within one whole second of simulated time.
    pub flow_mods_per_s_peak: u64,
    /// Most entries a switch had at once.
    pub entries_max: u32,
    /// Mean entries of a switch, over switches and time.
    pub entries_mean: f64,
    /// Packet-ins switches did not send for `control.packet_in_per_s`.
    pub packet_ins_suppressed: u64,
    /// Errors switches answered.
    pub errors: u64,
    /// Messages lost with their connection.
    pub messages_lost: u64,
    /// Reports of agents on hosts that reached the controller.
    pub agent_reports: u64,
    /// Orders to limit the rate of a flow whose transport cannot be told.
    pub paces_ignored: u64,
    /// Times the balancer was asked, those before time 0 included.
    pub decisions: u64,
    /// Flows moved.
    pub moves: u64,
    /// Counter samples that had not been refreshed since the last.
    pub stale_samples: u64,
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Messages {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Control {
    /// Control bytes as a share of payload bytes delivered; 0 where nothing was delivered.
    pub fn byte_share(&self) -> f64 {
        if self.data_bytes == 0 { 0.0 } else { self.bytes as f64 / self.data_bytes as f64 }
    }
}

/// Engine figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Engine {
    /// Events handled.
    pub events: u64,
    /// Packets that crossed a link.
    pub packet_hops: u64,
    /// Wall-clock seconds of this run; 0 in `summary.json`, see `timings.json`.
    pub wall_s: f64,
    /// Peak resident set of the process at the end of this run, bytes; 0 in `summary.json` and where the system
    /// does not tell.
    pub peak_rss_bytes: u64,
    /// Mean wall-clock microseconds of a decision of a central balancer, with the rules compiled from it; left out for
    /// others and in `summary.json`, see `timings.json`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub decision_us: f64,
}

fn is_none(time: &f64) -> bool {
    *time == 0.0
}

/// A quantity over seeds.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Stat {
    /// Mean over seeds.
    pub mean: f64,
    /// Sample standard deviation; 0 with one seed.
    pub sd: f64,
    /// Half width of the 95 % interval of the mean (Student t); 0 with one seed.
    pub ci95: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
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
    /// Place at this (variant, load): 1 for the best and all that cannot be told apart from it; the best of the rest,
    /// with all that cannot be told apart from it, comes next, and so on, places being left out for those that share
    /// one (1, 1, 3). 0 for what is not ranked: bounds, and balancers that left too many flows unfinished.
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
    /// Mean slowdown.
    pub slowdown_mean: Stat,
    /// 99th percentile slowdown.
    pub slowdown_p99: Stat,
    /// Mean FCT of flows up to 100 KB, microseconds.
    pub small_fct_mean_us: Stat,
    /// Mean FCT of flows above 1 MB, microseconds.
    pub large_fct_mean_us: Stat,
    /// Mean completion time of groups of flows (jobs, coflows, collectives), microseconds; all 0 without groups.
    #[serde(default)]
    pub group_mean_us: Stat,
    /// 99th percentile of these, microseconds.
    #[serde(default)]
    pub group_p99_us: Stat,
    /// Longest of these, microseconds.
    #[serde(default)]
    pub group_max_us: Stat,
    /// Packets dropped / packets sent.
    pub drop_share: Stat,
    /// Throughput share.
    pub throughput_share: Stat,
    /// Mean slowdown with unfinished flows counted as far as they had come: what the verdict compares.
    #[serde(default)]
    pub slowdown_bound: Stat,
    /// `slowdown_bound` minus that of the best balancer, paired over seeds; all 0 for the best itself.
    #[serde(default)]
    pub slowdown_vs_best: Stat,
    /// Where the experiment has the balancer `optimum`: its mean slowdown / that of this balancer (of throughput, this
    /// one's / the optimum's), taken seed by seed. Max-min fairness is not the least mean
    /// slowdown, so that more than 1 is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_optimum: Option<Stat>,
}

/// The comparison at one (variant, load), by mean slowdown or throughput, on common random numbers.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Verdict {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// Balancer with the least mean slowdown (`slowdown_bound_mean`), among those that left at most 0.1 % more flows
    /// unfinished than the most complete one; of throughput, with the greatest. Never a bound.
    pub best: String,
    /// Balancers not distinguishable from it: the 95 % interval of the paired difference over seeds
    /// contains 0. With one seed nothing can be told apart statistically and this lists those within 2 %.
    pub tied: Vec<String>,
    /// One sentence for people.
    pub sentence: String,
}

/// What became of a published claim.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ClaimVerdict {
    /// As in the experiment file, such as `E3.2`.
    pub id: String,
    /// The claim in a sentence, as in the experiment file.
    pub claim: String,
    /// Whether it came out.
    pub verdict: ClaimOutcome,
    /// Where it holds and where it does not, for people.
    pub sentence: String,
    /// One entry per (variant, load) it was looked at, loads ascending; for a rise one per step, from the second load on.
    pub points: Vec<ClaimPoint>,
    /// What the experiment file gives as the reason; only where the claim was not reproduced.
    pub reason: Option<String>,
}

/// Whether a claim came out: `reproduced`, `not reproduced: within noise` or `not reproduced`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// It fails nowhere and holds at more than half of the points.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// It fails nowhere, but at half of the points or more the sign is wrong, within noise.
    #[serde(rename = "not reproduced: within noise")]
    WithinNoise,
    /// It fails somewhere.
    #[serde(rename = "not reproduced")]
    NotReproduced,
}

impl ClaimOutcome {
    /// In words, as in the file.
    pub fn words(self) -> &'static str {
        match self {
            ClaimOutcome::Reproduced => "reproduced",
            ClaimOutcome::WithinNoise => "not reproduced: within noise",
            ClaimOutcome::NotReproduced => "not reproduced",
        }
    }
}

/// Whether a claim holds at one point: `holds`, `within noise` or `fails`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
pub enum PointOutcome {
    /// As claimed.
    #[serde(rename = "holds")]
    Holds,
    /// Not as claimed, but the 95 % interval of the difference contains 0 (with one seed: within 2 %).
    #[serde(rename = "within noise")]
    WithinNoise,
    /// Not as claimed, or nothing completed that could be compared.
    #[default]
    #[serde(rename = "fails")]
    Fails,
}

/// A claim at one (variant, load).
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ClaimPoint {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// Whether the claim holds here.
    pub outcome: PointOutcome,
    /// The metric of the claim's balancer over seeds; `null` where nothing completed that it could be taken from.
    pub value: Option<f64>,
    /// What it is compared with: the metric of the other balancer on the same seeds, or for a rise at the load before.
    pub against: Option<f64>,
    /// `value` minus `against`, paired over seeds; all 0 where no balancers are compared.
    pub difference: Stat,
    /// Flows of the runs compared that started and did not complete: completion times leave them out.
    pub unfinished: u64,
}

/// What the report needs of a run beside its summary.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct RunDetail {
    /// FCT of completed flows at 0, 0.5, 1, … 100 % (201 values), microseconds.
    pub fct_quantiles_us: Vec<f64>,
    /// Slowdown at the same quantiles.
    pub slowdown_quantiles: Vec<f64>,
    /// Width of a time bin, microseconds.
    pub bin_us: f64,
    /// Load over time by tier and direction.
    pub tiers: Vec<TierSeries>,
    /// Load of every fabric link over time, rows ordered by tier then link; only kept for the first seed.
    pub heat: Option<Heat>,
}

/// Utilisation of one kind of link over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct TierSeries {
    /// Such as `edge→agg`.
    pub name: String,
    /// Tier of the cable.
    pub tier: u8,
    /// Away from hosts?
    pub up: bool,
    /// Mean utilisation over its links, per bin (0..1).
    pub mean: Vec<f32>,
    /// Utilisation of the busiest link, per bin.
    pub max: Vec<f32>,
}

/// Utilisation of single links over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Heat {
    /// One row per link: its name.
    pub links: Vec<String>,
    /// Tier series (position in [`RunDetail::tiers`]) each row belongs to.
    pub group: Vec<u16>,
    /// Bins per row.
    pub bins: usize,
    /// Utilisation 0..1, row-major.
    pub values: Vec<f32>,
}

/// One line of `runs.jsonl`, appended as the run ends: what a resumed sweep and the report read.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RunRecord {
    /// Fingerprint of everything the run depends on (experiment content, balancer, load, seed, version);
    /// a resumed sweep skips runs whose fingerprint it finds.
    pub fingerprint: String,
    /// The summary.
    pub summary: RunSummary,
    /// The detail.
    pub detail: RunDetail,
}
