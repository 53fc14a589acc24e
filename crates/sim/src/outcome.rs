//! Outcome of a run: a record per flow, checked accounting, and the data of the probes.

use net::Time;

/// Result of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// Every byte arrived.
    Completed,
    /// The sender aborted after too many time-outs (on every connection of the flow). UDP: it sent
    /// everything and some was lost.
    Failed,
    /// The run stopped first: a censored observation.
    Running,
    /// Its start time or its trigger was never reached.
    NotStarted,
}

/// Record of one flow. Times are relative to its start. For a flow with several connections,
/// counters are their sums.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Payload bytes that arrived again over another connection of the same flow: the overhead of
    /// copies and reinjection.
    pub duplicate_bytes: u64,
    /// Data packets sent, including retransmissions.
    pub packets_sent: u32,
    /// Data packets retransmitted.
    pub retransmitted: u32,
    /// Retransmissions of data the receiver already had.
    pub spurious: u32,
    /// Retransmission time-outs.
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

/// Packets lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// A switch queue was full.
    pub queue: u64,
    /// A host interface was full (UDP only).
    pub host_queue: u64,
    /// On, or queued for, a link that went down.
    pub link_down: u64,
    /// Silent random loss.
    pub random: u64,
    /// Silent loss of a (source, destination) pair.
    pub blackhole: u64,
    /// No route to the destination. With a controller: no rule, no live bucket, or a rule that led
    /// to another host.
    pub no_route: u64,
    /// Dropped by the watchdog of priority flow control after a long pause.
    pub watchdog: u64,
    /// The packet passed more switches than its hop limit allows: rules that loop.
    pub looped: u64,
    /// Losses that no counter shows: in sockets, or in a software switch that was too slow. Always
    /// 0 in the simulator.
    pub harness: u64,
}

impl Drops {
    /// Returns the sum of all causes.
    pub fn total(&self) -> u64 {
        let silent = self.random + self.blackhole;
        self.queue
            + self.host_queue
            + self.link_down
            + silent
            + self.no_route
            + self.watchdog
            + self.looped
            + self.harness
    }
}

/// Accounting: started = completed + failed + running, and sent = delivered + to the controller +
/// dropped + in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// Flows in the list.
    pub flows_listed: u64,
    pub flows_started: u64,
    pub flows_completed: u64,
    pub flows_failed: u64,
    /// Flows still running at the end.
    pub flows_running: u64,
    /// Packets handed to host interfaces: data, ACKs, handshakes; also packets of edges and
    /// controllers. Packets of controllers count again at every switch.
    pub packets_sent: u64,
    /// Packets received by their destination host, including trimmed ones.
    pub packets_delivered: u64,
    /// Packets that a switch cut to a header, so that their payload was lost. Each counts once,
    /// regardless of what happened to the header.
    pub packets_trimmed: u64,
    /// Packets that a switch sent to the controller only. One that the controller forwards counts
    /// as sent again.
    pub packets_to_controller: u64,
    pub dropped: Drops,
    /// Packets in queues and on wires at the end.
    pub packets_in_flight: u64,
}

impl Accounting {
    /// Checks both equations.
    ///
    /// # Errors
    /// A sentence with the numbers that do not add up.
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

/// One directed link over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRecord {
    /// Bytes carried to the far end.
    pub bytes: u64,
    /// Packets carried to the far end.
    pub packets: u64,
    /// Packets dropped at its queue (all causes).
    pub drops: u64,
    /// ECN marks set at its queue.
    pub marks: u64,
    /// Packets cut to their headers at its queue.
    pub trims: u64,
}

/// Bytes per link and time bin, fabric links only.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Width of a bin.
    pub bin: Time,
    pub bins: usize,
    /// The directed links covered, as indices into [`net::Topology::links`].
    pub links: Vec<u32>,
    /// Bytes, link-major: `bytes[position in links * bins + bin]`.
    pub bytes: Vec<u64>,
}

/// Queue lengths that arriving packets find at one kind of port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueRecord {
    /// Tier of the ports: for example `tier 2 up` (edge to aggregation), `tier 1 down` (to hosts).
    pub tier: u8,
    /// Whether the ports lead away from the hosts.
    pub up: bool,
    /// Packets observed.
    pub count: u64,
    /// Median, bytes (upper edge of a histogram bucket, within 1/8).
    pub p50_bytes: u64,
    /// 99th percentile, bytes.
    pub p99_bytes: u64,
    pub max_bytes: u64,
    /// Packets that found the marking threshold reached.
    pub marked: u64,
}

/// Packets held by resequencing buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResequencingRecord {
    /// Whether buffers were on.
    pub active: bool,
    /// Packets held in total.
    pub held: u64,
    /// Maximum number of packets held at one time for one flow.
    pub max_held: u32,
    /// Sum of hold times, for the mean.
    pub hold_time_total: Time,
    /// Releases because of the timeout or a full buffer.
    pub forced_releases: u64,
}

/// Packets that a mechanism sends on its own: probes, replies, notifications. The packet accounting
/// includes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlRecord {
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Packets still in flight when the last flow ended.
    pub in_flight: u64,
}

/// Messages on control channels.
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
    /// Barriers and their replies.
    pub barrier: MessageCount,
    /// Statistics and descriptions.
    pub multipart: MessageCount,
    /// All other kinds.
    pub other: MessageCount,
}

impl MessageCounts {
    /// Returns each kind with its name.
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

    /// Returns the sum of all kinds.
    pub fn total(&self) -> MessageCount {
        self.by_kind().iter().fold(MessageCount::default(), |sum, (_, count)| MessageCount {
            messages: sum.messages + count.messages,
            bytes: sum.bytes + count.bytes,
        })
    }
}

/// Overhead of a controller. Counts cover the experiment itself; the messages of a warm boot are in
/// `boot` alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaneRecord {
    /// Messages from the controller to switches.
    pub to_switches: MessageCounts,
    /// Messages from switches to the controller.
    pub to_controller: MessageCounts,
    /// Messages in both directions during a warm boot.
    pub boot: MessageCount,
    /// Maximum number of flow-table changes sent within one second of simulated time (whole
    /// seconds).
    pub flow_mods_per_s_peak: u64,
    /// Maximum number of entries of a switch.
    pub entries_max: u32,
    /// Mean number of entries of a switch, over switches and time.
    pub entries_mean: f64,
    /// Packet-ins that switches did not send because of their rate limit.
    pub packet_ins_suppressed: u64,
    /// Errors sent by switches.
    pub errors: u64,
    /// Messages lost because their connection was closed.
    pub messages_lost: u64,
    /// Reports of agents on hosts that reached the controller.
    pub agent_reports: u64,
    /// Rate-limit commands that the transport could not apply: only UDP can.
    pub paces_ignored: u64,
    /// Statistics of the controller itself, including the boot.
    pub tally: crate::PlaneTally,
}

/// Statistics of the engine, for performance and plausibility checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineRecord {
    /// Events handled.
    pub events: u64,
    /// Packets that crossed a link, data and ACKs.
    pub packet_hops: u64,
    /// Maximum number of packets in existence.
    pub peak_packets: u64,
    /// Maximum number of active flows; each connection of a flow counts.
    pub peak_flows: u64,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Simulated time at the end.
    pub end: Time,
    /// One record per flow of the list, in its order.
    pub flows: Vec<FlowRecord>,
    /// Checked accounting.
    pub accounting: Accounting,
    /// One record per directed link of the topology.
    pub links: Vec<LinkRecord>,
    /// Link load over time.
    pub series: Series,
    /// Queues by tier and direction.
    pub queues: Vec<QueueRecord>,
    pub resequencing: ResequencingRecord,
    /// Packets the mechanism sent on its own.
    pub control: ControlRecord,
    /// Overhead of the controller; `None` without one.
    pub plane: Option<PlaneRecord>,
    /// Servers and connections, if flows are requests.
    pub services: Option<crate::ServicesRecord>,
    /// Receive window in force, packets.
    pub max_window_packets: u32,
    pub engine: EngineRecord,
}
