//! Measurements: accounting of flows and packets, times, links, receivers, queues, messages, and the engine figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The flows of a run without its warm-up and its end, in the order of their starts. The network is
/// empty at first, and drains at the end.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct SteadyState {
    /// Flows that started and are counted in averages.
    pub flows: u64,
    /// The first of them, whose slowdowns differ from those of the others.
    pub warm_up: u64,
    /// The last of them, whose slowdowns differ.
    pub end: u64,
    /// Mean slowdown of the flows between; an unfinished flow counts with what it had reached.
    pub mean: f64,
    /// Half width of its 95 % interval, from the means of batches of flows; null if even long batches
    /// depend on each other.
    pub ci95: Option<f64>,
    /// Mean slowdown of all flows.
    pub mean_of_all: f64,
}

/// Flow accounting: started = completed + failed + running.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowCounts {
    /// Flows in the list.
    pub listed: u64,
    /// Flows that started.
    pub started: u64,
    /// Flows that completed.
    pub completed: u64,
    /// Flows that failed: the sender stopped after too many time-outs.
    pub failed: u64,
    /// Flows running at the end of the run: censored, never included in averages.
    pub running: u64,
    /// Flows that started before `probes.warm_up`: simulated, and left out of averages over flows
    /// and groups. Left out if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warm_up: u64,
}

/// Packet accounting: sent = delivered + to the controller + dropped + in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PacketCounts {
    /// Packets handed to host interfaces.
    pub sent: u64,
    /// Packets received by their destination.
    pub delivered: u64,
    /// Packets lost, by cause; causes without losses are listed as 0.
    pub dropped: BTreeMap<String, u64>,
    /// Packets in queues and on links at the end.
    pub in_flight: u64,
    /// Packets that only the controller received; a packet it sends on counts as sent again. Left
    /// out if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_controller: u64,
    /// Packets trimmed to a header by full queues, regardless of the fate of the header; left out
    /// if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trimmed: u64,
}

/// Mean and quantiles of one quantity; all 0 when `count` is 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Quantiles {
    /// Number of observations.
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
    /// Maximum.
    pub max: f64,
}

/// Completion times of groups of flows, from the first start to the last delivery.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct GroupTimes {
    /// Groups with at least one flow that did not complete; averages exclude them.
    pub unfinished: u64,
    /// Complete groups of which only some rounds were simulated. Their times are extrapolated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extrapolated: u64,
    /// Times of complete groups, microseconds.
    pub time_us: Quantiles,
    /// Mean time of all groups that started, microseconds. An incomplete group counts with the time
    /// until the end of the run, so the value is then a lower bound. `rank_by = "group-time"` ranks
    /// by it.
    #[serde(default)]
    pub time_lower_bound_mean_us: f64,
    /// Mean bus bandwidth of complete collectives as nccl-tests define it, gigabits per second: 2 (n - 1)
    /// / n times the buffer / the time for an all-reduce over n ranks. 0 for groups without it.
    #[serde(default)]
    pub bus_gbps_mean: f64,
}

/// Flows of one size range (mechanisms.md §7).
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct SizeBucket {
    /// Name such as `(10KB, 100KB]`.
    pub bucket: String,
    /// Maximum size in the bucket, bytes; `u64::MAX` for the last.
    pub max_bytes: u64,
    /// Completion times, microseconds.
    pub fct_us: Quantiles,
    /// FCT / ideal FCT of its completed flows.
    pub slowdown: Quantiles,
    /// Flows of this size that did not complete.
    pub unfinished: u64,
}

/// Delivered rates of flows as shares of their ideal rates: delivered / active time / rate in an
/// empty network.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Fairness {
    /// Jain's index of the shares.
    pub jain: f64,
    /// Smallest share.
    pub min: f64,
    /// Mean share (F2's throughput, if the flows could fill the bisection).
    #[serde(default)]
    pub mean: f64,
    /// Part of the flows with a share of at least 0.5, 0.7, 0.8 and 0.9.
    #[serde(default)]
    pub at_least: [f64; 4],
}

/// F0's metrics (mechanisms.md §7): means over the bins in which core links carried traffic.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct CoreBalance {
    /// Maximum / mean load of links into the top tier.
    pub cllbl_rx: f64,
    /// Maximum / mean load of links out of the top tier.
    pub cllbl_tx: f64,
    /// Mean utilisation of links into the top tier.
    pub bb_rx: f64,
    /// Mean utilisation of links out of the top tier.
    pub bb_tx: f64,
    /// The four metrics of each time bin, with `probes.fixed_bins`; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<CoreBin>,
}

/// F0's metrics of one time bin. A bin without traffic has ratio 1 and value 0.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct CoreBin {
    /// End of the bin, seconds.
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
    /// Share of first-sent data packets that arrived below the highest sequence number received.
    pub fraction: f64,
    /// Largest distance, in segments, from the highest sequence number received to a packet that
    /// arrived below it; at least RFC 4737's extent.
    pub max_extent: u32,
    /// Whether hosts resequenced.
    pub resequencing: bool,
    /// Maximum number of packets of one flow in a resequencing buffer.
    pub max_held: u32,
    /// Mean time of packets in a resequencing buffer, microseconds.
    pub mean_hold_us: f64,
    /// Path changes per completed flow (edge balancers).
    pub path_changes_per_flow: f64,
}

/// Losses and retransmissions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Loss {
    /// Retransmitted data packets / data packets sent.
    pub retransmitted_share: f64,
    /// Retransmissions of data the receiver already had.
    pub spurious: u64,
    /// Payload bytes that arrived more than once, over different connections of the same flow
    /// (MPTCP, RepFlow).
    #[serde(default)]
    pub duplicate_bytes: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Fast retransmits.
    pub fast_retransmits: u64,
}

/// Queue lengths at the arrival of packets.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Queue {
    /// Kind of port, such as `edge→agg`, `host↓` (made from tier and direction).
    pub port: String,
    /// Tier of the cable (1 = host links).
    pub tier: u8,
    /// Whether the port leads away from the hosts.
    pub up: bool,
    /// Median, bytes.
    pub p50_bytes: u64,
    /// 99th percentile, bytes.
    pub p99_bytes: u64,
    /// Maximum, bytes.
    pub max_bytes: u64,
    /// Share of packets that arrived at or above the marking threshold.
    pub above_mark_share: f64,
}

/// Overhead of a balancer: probes, replies and notifications of edges. Of central balancers also
/// the messages on control channels, in both directions, and the frames that switches sent for the
/// controller.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Overhead {
    /// Packets or messages, all kinds.
    pub messages: u64,
    /// Bytes of these packets and messages.
    pub bytes: u64,
    /// Payload bytes delivered to receivers, the reference of `bytes`; 0 in results of versions
    /// without this field.
    #[serde(default)]
    pub data_bytes: u64,
    /// Overhead of the controller; left out without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<ControlPlane>,
}

impl Overhead {
    /// Returns control bytes as a share of delivered payload bytes; 0 if no payload was delivered.
    pub fn byte_share(&self) -> f64 {
        if self.data_bytes == 0 { 0.0 } else { self.bytes as f64 / self.data_bytes as f64 }
    }
}

/// Overhead of a controller from time 0 on, except `boot`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct ControlPlane {
    /// Messages from the controller to switches, by kind: `flow_mod`, `group_mod`, `packet_in`,
    /// `packet_out`, `barrier`, `multipart` (statistics and descriptions), `other`. Bytes are those
    /// of OpenFlow 1.3, without TCP headers.
    pub to_switches: BTreeMap<String, Messages>,
    /// Messages from switches to the controller, by the same kinds.
    pub to_controller: BTreeMap<String, Messages>,
    /// Messages in both directions before time 0: connecting, discovery, first rules.
    pub boot: Messages,
    /// Maximum number of flow-table changes sent within one whole second of simulated time.
    pub flow_mods_per_s_peak: u64,
    /// Maximum number of entries of a switch.
    pub entries_max: u32,
    /// Mean entries of a switch, over switches and time.
    pub entries_mean: f64,
    /// Packet-ins that switches suppressed because of `control.packet_in_per_s`.
    pub packet_ins_suppressed: u64,
    /// Error messages from switches.
    pub errors: u64,
    /// Messages lost with their connection.
    pub messages_lost: u64,
    /// Reports of agents on hosts that reached the controller.
    pub agent_reports: u64,
    /// Rate limits for flows whose transport does not support them.
    pub rate_limits_ignored: u64,
    /// Decisions of the balancer, those before time 0 included.
    pub decisions: u64,
    /// Flow migrations.
    pub moves: u64,
    /// Counter samples equal to the previous one, duration included.
    pub stale_samples: u64,
    /// Cost of addressing; left out if hosts know all addresses (`control.arp`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressing: Option<AddressingCost>,
}

/// Cost of addressing and locating hosts, the time before the run included.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct AddressingCost {
    /// Addressing mode: a name of `anabranch list addressing`.
    pub mode: String,
    /// Entries of switches at the end of the run, by tier, the switches of hosts first.
    pub entries: Vec<TierEntries>,
    /// ARP requests that hosts sent.
    pub arp_requests: u64,
    /// ARP requests that the controller answered from its knowledge of hosts.
    pub arp_answered: u64,
    /// ARP requests that the controller relayed to all edge ports: those for unknown hosts, and all with TRILL.
    pub arp_relayed: u64,
    /// Frames of the relayed requests.
    pub arp_copies: u64,
    /// Flows that failed because no ARP reply came.
    pub arp_failures: u64,
    /// Locations that the directory told: resolver switches of SEATTLE, the directory of VL2.
    pub lookups: u64,
    /// Packets that hosts sent to locations that were not in the cache of their switch (SEATTLE, TRILL).
    pub cache_misses: u64,
    /// Flows that started with a location in the cache, as a share of all that started.
    pub cache_hit_share: f64,
    /// Locations that the directory refused to tell.
    pub lookups_refused: u64,
    /// Locations that were published, changed or withdrawn in the directory.
    pub directory_updates: u64,
}

/// Entries of the switches of one tier.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct TierEntries {
    /// Tier, 1 for the switches of hosts.
    pub tier: u8,
    /// Number of switches of this tier.
    pub switches: u32,
    /// Maximum number of entries of a switch.
    pub max: u32,
    /// Mean number of entries of a switch.
    pub mean: f64,
}

/// Number and size of messages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Messages {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages.
    pub bytes: u64,
}

/// Engine figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Engine {
    /// Events processed.
    pub events: u64,
    /// Packets × links they crossed.
    pub packet_hops: u64,
    /// Wall-clock seconds of this run; 0 in `summary.json`, see `timings.json`.
    pub wall_s: f64,
    /// Peak resident set size of the process at the end of this run, bytes; 0 in `summary.json`,
    /// and on systems without `/proc`.
    pub peak_rss_bytes: u64,
    /// Mean wall-clock microseconds of a decision of a central balancer, with the rules compiled
    /// from it; left out for others and in `summary.json`, see `timings.json`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub decision_us: f64,
}

fn is_none(time: &f64) -> bool {
    *time == 0.0
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
