//! Outcome of a run: a record per flow, checked accounting, and the data of the probes.

use crate::capture::Capture;
use net::Time;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FlowEnd {
    Completed,
    /// Too many time-outs, on every connection of the flow. UDP: all was sent, some was lost.
    Failed,
    /// The run stopped first: a censored observation.
    Running,
    /// Its start time or its trigger was never reached.
    #[default]
    NotStarted,
}

/// Record of a flow. Times are relative to its start; counters are sums over its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowRecord {
    pub end: FlowEnd,
    /// Absolute time at which its first byte was offered; zero if never.
    pub started: Time,
    /// Last byte received − first byte offered. For running flows: their age at the end of the run.
    pub fct: Time,
    /// Last byte acknowledged at the sender − first byte offered; zero if that did not happen.
    pub sender_fct: Time,
    /// Lower bound: alone in an empty network, no window limit.
    pub ideal: Time,
    /// Payload bytes delivered in order to the receiver (UDP: delivered).
    pub delivered_bytes: u64,
    /// Payload bytes that arrived again over another connection: overhead of copies.
    pub duplicate_bytes: u64,
    /// Data packets sent, including retransmissions.
    pub packets_sent: u32,
    pub retransmitted: u32,
    /// Retransmissions of data the receiver already had.
    pub spurious: u32,
    pub timeouts: u32,
    pub fast_retransmits: u32,
    /// Data packets that arrived below the highest sequence seen, without retransmissions.
    pub reordered: u32,
    /// Largest distance, in segments, from the highest sequence seen to such a packet: at least the
    /// number of later packets that overtook it (the extent of RFC 4737).
    pub reorder_extent: u32,
    /// Path changes between consecutive data packets (edge balancers only).
    pub path_changes: u32,
}

impl FlowRecord {
    /// Begins the record of a flow that starts now, in picoseconds.
    pub(crate) fn begin(&mut self, now: u64) {
        (self.end, self.started) = (FlowEnd::Running, Time::from_ps(now));
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    pub queue: u64,
    /// A host interface was full (UDP only).
    pub host_queue: u64,
    pub link_down: u64,
    pub random: u64,
    /// Silent loss of a (source, destination) pair.
    pub blackhole: u64,
    /// No route; with a controller: no rule, no live bucket, or a rule to another host.
    pub no_route: u64,
    /// Dropped by the watchdog of priority flow control after a long pause.
    pub watchdog: u64,
    /// The packet passed more switches than its hop limit allows: rules that loop.
    pub looped: u64,
    /// Losses that no counter shows, as in sockets or a slow software switch; not simulated.
    pub uncounted: u64,
}

impl Drops {
    /// Adds the drops of another partition.
    pub(crate) fn add(&mut self, other: &Drops) {
        let Drops { queue, host_queue, link_down, random, blackhole, no_route, watchdog, looped, uncounted } = *other;
        self.queue += queue;
        self.host_queue += host_queue;
        self.link_down += link_down;
        self.random += random;
        self.blackhole += blackhole;
        self.no_route += no_route;
        self.watchdog += watchdog;
        self.looped += looped;
        self.uncounted += uncounted;
    }

    pub fn total(&self) -> u64 {
        let Drops { queue, host_queue, link_down, random, blackhole, no_route, watchdog, looped, uncounted } = *self;
        queue + host_queue + link_down + random + blackhole + no_route + watchdog + looped + uncounted
    }
}

/// Accounting: counts of flows and packets, of which [`Accounting::check`] knows the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    pub flows_listed: u64,
    pub flows_started: u64,
    pub flows_completed: u64,
    pub flows_failed: u64,
    pub flows_running: u64,
    /// Packets handed to host interfaces: data, ACKs, handshakes; also packets of edges and
    /// controllers. Packets of controllers count again at every switch.
    pub packets_sent: u64,
    /// Packets received by their destination host, including trimmed ones.
    pub packets_delivered: u64,
    /// Packets that lost their payload at a switch, each counted once.
    pub packets_trimmed: u64,
    /// Packets sent to the controller only, which count again if it forwards them.
    pub packets_to_controller: u64,
    pub dropped: Drops,
    /// Packets in queues and on wires at the end.
    pub packets_in_flight: u64,
}

impl Accounting {
    pub(crate) fn of_flows(records: &[FlowRecord]) -> Accounting {
        let count = |end: FlowEnd| records.iter().filter(|record| record.end == end).count() as u64;
        let flows_listed = records.len() as u64;
        Accounting {
            flows_listed,
            flows_started: flows_listed - count(FlowEnd::NotStarted),
            flows_completed: count(FlowEnd::Completed),
            flows_failed: count(FlowEnd::Failed),
            flows_running: count(FlowEnd::Running),
            ..Accounting::default()
        }
    }

    /// Checks both equations. The error is a sentence with the numbers that do not add up.
    pub fn check(&self) -> Result<(), String> {
        let flows = self.flows_completed + self.flows_failed + self.flows_running;
        if self.flows_started != flows {
            return Err(format!("flows started {} != completed + failed + running {flows}", self.flows_started));
        }
        let arrived = self.packets_delivered + self.packets_to_controller;
        let packets = arrived + self.dropped.total() + self.packets_in_flight;
        if self.packets_sent != packets {
            let sent = self.packets_sent;
            return Err(format!(
                "packets sent {sent} != delivered + to the controller + dropped + in flight {packets}"
            ));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRecord {
    pub bytes: u64,
    pub packets: u64,
    /// Packets dropped at its queue (all causes).
    pub drops: u64,
    pub marks: u64,
    /// Packets cut to their headers at its queue.
    pub trims: u64,
}

/// Bytes per link and time bin, fabric links only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub bin: Time,
    pub bins: usize,
    /// The directed links covered, as indices into [`net::Topology::links`].
    pub links: Vec<u32>,
    /// Bytes, link-major: `bytes[position in links * bins + bin]`.
    pub bytes: Vec<u64>,
}

/// Queue and load of one chosen link over time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSeries {
    /// The directed link, as an index into [`net::Topology::links`].
    pub link: u32,
    pub bin: Time,
    /// All bins; the last one may be shorter.
    pub bins: Vec<QueueBin>,
}

/// Queue and load of a link in one time bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueBin {
    /// Largest sample of the queue, the packet in transmission included.
    pub max_bytes: u32,
    /// Mean of all samples of the bin, bytes.
    pub mean_bytes: f64,
    /// Bytes that have arrived at the far end.
    pub carried_bytes: u64,
}

/// Queue lengths that arriving packets find at one kind of port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueRecord {
    /// Tier of the ports: for example `tier 2 up` (edge to aggregation), `tier 1 down` (to hosts).
    pub tier: u8,
    /// Whether the ports lead away from the hosts.
    pub up: bool,
    pub count: u64,
    /// Median, bytes (upper edge of a histogram bucket, within 1/8).
    pub p50_bytes: u64,
    pub p99_bytes: u64,
    pub max_bytes: u64,
    /// Packets that found the marking threshold reached.
    pub marked: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResequencingRecord {
    pub active: bool,
    pub held: u64,
    pub max_held: u32,
    pub hold_time_total: Time,
    pub forced_releases: u64,
}

/// Packets that a mechanism sends on its own (probes, replies). The accounting includes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlRecord {
    pub packets: u64,
    pub bytes: u64,
    /// Packets still in flight when the last flow ended.
    pub in_flight: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCount {
    pub messages: u64,
    /// Bytes on the wire without TCP headers.
    pub bytes: u64,
}

/// Messages by kind. Only sent messages count; with a warm boot only from its end on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    pub flow_mod: MessageCount,
    pub group_mod: MessageCount,
    pub packet_in: MessageCount,
    pub packet_out: MessageCount,
    pub barrier: MessageCount,
    pub multipart: MessageCount,
    pub other: MessageCount,
}

impl MessageCounts {
    pub fn by_kind(&self) -> [(&'static str, MessageCount); 7] {
        [
            ("flow_mod", self.flow_mod),
            ("group_mod", self.group_mod),
            ("packet_in", self.packet_in),
            ("packet_out", self.packet_out),
            ("barrier", self.barrier),
            ("multipart", self.multipart),
            ("other", self.other),
        ]
    }

    pub fn total(&self) -> MessageCount {
        self.by_kind().iter().fold(MessageCount::default(), |sum, (_, count)| MessageCount {
            messages: sum.messages + count.messages,
            bytes: sum.bytes + count.bytes,
        })
    }
}

/// Overhead of a controller during the experiment; messages of a warm boot are in `boot` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaneRecord {
    pub to_switches: MessageCounts,
    pub to_controller: MessageCounts,
    /// Messages in both directions during a warm boot.
    pub boot: MessageCount,
    /// Maximum number of flow-table changes sent within one (whole) second of simulated time.
    pub flow_mods_per_s_peak: u64,
    pub entries_max: u32,
    /// Mean number of entries of a switch, over switches and time.
    pub entries_mean: f64,
    /// Packet-ins that switches did not send because of their rate limit.
    pub packet_ins_suppressed: u64,
    pub errors: u64,
    pub messages_lost: u64,
    pub agent_reports: u64,
    /// Rate-limit commands that the transport could not apply: only UDP can.
    pub rate_limits_ignored: u64,
    pub tally: crate::PlaneTally,
    /// Addressing mode, if hosts resolve addresses.
    pub addressing: Option<net::Addressing>,
    /// Entries of switches at the end by tier, the lowest first: number of switches, sum and maximum.
    pub entries_by_tier: [TierEntries; TIERS],
    /// ARP requests that hosts sent, and flows that failed because no reply came.
    pub arp_requests: u64,
    pub arp_failures: u64,
}

/// Number of tiers of switches whose entries are counted apart; higher ones count as the highest.
pub const TIERS: usize = 4;

/// Entries of the switches of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierEntries {
    pub switches: u32,
    pub sum: u64,
    pub max: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineRecord {
    pub events: u64,
    /// Packets that crossed a link, data and ACKs.
    pub packet_hops: u64,
    pub peak_packets: u64,
    /// Maximum number of active flows; each connection of a flow counts.
    pub peak_flows: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub end: Time,
    pub flows: Vec<FlowRecord>,
    pub accounting: Accounting,
    pub links: Vec<LinkRecord>,
    pub series: Series,
    /// Series of the links of [`crate::ProbeConfig::links`], in their order.
    pub link_series: Vec<LinkSeries>,
    /// Packets that arrived over [`crate::CaptureConfig::links`].
    pub capture: Capture,
    pub queues: Vec<QueueRecord>,
    pub resequencing: ResequencingRecord,
    pub control: ControlRecord,
    /// Overhead of the controller; `None` without one.
    pub plane: Option<PlaneRecord>,
    pub services: Option<crate::ServicesRecord>,
    pub max_window_packets: u32,
    pub engine: EngineRecord,
}
