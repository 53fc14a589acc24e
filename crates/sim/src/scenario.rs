//! Input of a run: everything it depends on, as plain values.

use net::{Bandwidth, HostIx, LinkIx, Time, Topology};

pub use crate::transport::annulus::Annulus;
pub use crate::transport::cubic::Cubic;
pub use crate::transport::dctcp::Dctcp;
pub use crate::transport::new_reno::NewReno;
pub use crate::transport::rdma::{Dcqcn, Rdma, RdmaRecovery};
pub use crate::transport::spray::Spray;
pub use crate::transport::udp::UdpRate;
pub use crate::transport::{About, Acks, Properties, TransportKind};

use crate::failures::Failure;
use traffic::FlowList;

#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    pub topology: &'a Topology,
    pub flows: &'a FlowList,
    pub balancer: &'a balance::Spec,
    /// Seed of the random draws of the run itself (hash seeds, spraying, RED, random loss).
    pub seed: u64,
    pub config: &'a SimConfig,
}

/// Settings of a run except network, flows, balancer and seed, with the project's defaults.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SimConfig {
    pub fidelity: Fidelity,
    pub transport: TransportConfig,
    pub host: HostConfig,
    pub switch: QueueConfig,
    pub failures: Vec<Failure>,
    /// Control channels and the switches at their ends; only for [`crate::run_controlled`].
    pub control: ControlConfig,
    /// Virtual services, if flows are requests to them; only for [`crate::run_controlled`].
    pub services: Option<crate::ServicesConfig>,
    pub probes: ProbeConfig,
    pub stop: StopRule,
}

/// The unit that a run simulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// Every packet, with the windows, queues and losses of the transport.
    #[default]
    Packet,
    /// Rates of flows, which change when flows start and end ([`crate::flow_level`]).
    Flow,
}

impl Fidelity {
    /// The names in experiment files, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["packet", "flow"];

    pub fn name(self) -> &'static str {
        Fidelity::NAMES[self as usize]
    }
}

/// Transport parameters. Reports print each, because each changes results.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportConfig {
    pub kind: TransportKind,
    pub mss_bytes: u32,
    /// Headers of a data packet on the wire.
    pub header_bytes: u32,
    pub ack_bytes: u32,
    /// Initial congestion window; for `spray` one bandwidth-delay product, for RDMA the line rate.
    pub initial_window_packets: u32,
    /// Receive window. `None` scales with the network: twice the largest bandwidth-delay product
    /// plus one switch queue; for RDMA one product (selective) or no limit (go-back-N).
    pub max_window_packets: Option<u32>,
    /// Minimum retransmission time-out of TCP; other transports have separate parameters.
    pub min_rto: Time,
    /// TCP: loss recovery from selective acknowledgements (RFC 6675, in whole segments).
    pub sack: bool,
    /// Number of duplicate ACKs that trigger a fast retransmit.
    pub dup_ack_threshold: u32,
    /// Whether the first two duplicate ACKs each send a new packet (RFC 3042): fewer time-outs.
    pub limited_transmit: bool,
    /// Number of in-order packets per acknowledgement; 1 turns delayed ACKs off.
    pub ack_every: u32,
    pub ack_timeout: Time,
    /// Whether a flow begins with SYN and SYN-ACK (one round trip inside its completion time).
    pub handshake: bool,
    /// Consecutive time-outs after which a flow has failed (Linux `tcp_retries2` is 15).
    pub max_timeouts: u32,
}

/// Buffering of early packets at hosts until the gap before them is filled (mechanisms.md §1.7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resequencing {
    /// On for balancers that always reorder, off for the others.
    Auto,
    Off,
    On(ResequencingBounds),
}

/// Bounds at which a host releases held packets although the gap is still open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResequencingBounds {
    /// Time since the gap appeared; `None` for one base round-trip time and a full queue's drain.
    pub timeout: Option<Time>,
    /// Packets held per flow; `None` bounds by the receive window alone.
    pub packets: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostScheduler {
    /// Round robin by packet, and no packet leaves TCP before the wire is free, as Linux does with
    /// small queues and fair queueing. A short flow does not wait behind the window of a long one.
    Fair,
    /// First come, first served, bounded by the window alone, as ns-3 does by default.
    Fifo,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Packets a host interface queues before it drops UDP packets. TCP is bounded by its window.
    pub queue_packets: u32,
    /// Sharing of the interface; hosts with several links (BCube, CamCube) always use FIFO.
    pub scheduler: HostScheduler,
    pub resequencing: Resequencing,
    /// Flow sizes in bytes that make a flow more urgent: its class is the number of bounds it does
    /// not exceed. At most 7; they need several traffic classes ([`QueueConfig::lossless`]).
    pub priority_sizes: Vec<u64>,
    /// Maximum random extra gap after a packet of a host, drawn uniformly per packet. Zero is
    /// exact, as in other simulators. But with drop-tail queues and equal link rates it lets one
    /// TCP flow lock others out for good (phase effects, Floyd and Jacobson 1992); hosts jitter.
    pub jitter: Time,
}

/// Size limit of a switch queue, including the packet in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    Packets(u32),
    Bytes(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marking {
    Off,
    /// DCTCP's step: marks a packet that finds at least this much queued.
    Step(QueueLimit),
    /// RED-style marking on the instantaneous queue. The probability rises linearly from 0 at
    /// `min_bytes` to `max_probability` at `max_bytes`, and is 1 above.
    Ramp {
        min_bytes: u64,
        max_bytes: u64,
        max_probability: f64,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    pub limit: QueueLimit,
    pub marking: Marking,
    /// Rate of the links for which `limit` and `marking` are given: those of others are in proportion,
    /// as configured at the start. `None`: all are the same.
    pub reference_rate: Option<Bandwidth>,
    /// Priority flow control: no drops, no `limit`. `None`: only if the balancer needs it.
    pub lossless: Option<balance::Lossless>,
    /// Whether acknowledgements, handshakes, trimmed headers and control packets have a class at
    /// switches, served before data, with a queue of the same size. Only data counts for `limit` and
    /// `marking` then. `None`: with the `spray` transport, unless there is flow control.
    pub control_class: Option<bool>,
    /// Whether packets that find the queue full are cut to a header of [`TRIMMED_BYTES`] and
    /// forwarded in the control class; only for the `spray` transport. The limit then applies in
    /// bytes.
    pub trimming: bool,
}

pub const TRIMMED_BYTES: u16 = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct ProbeConfig {
    /// Whether to record bytes per fabric link and time bin. Off saves memory in the largest runs.
    pub series: bool,
    /// First bin width; widths double whenever `max_bins` is reached.
    pub bin: Time,
    pub max_bins: u32,
    /// Whether `bin` stays and is never merged, for metrics with a published window (F0: 10 s).
    pub fixed_bins: bool,
    /// Links whose queues are recorded over time.
    pub links: Vec<LinkIx>,
    /// Links whose packets are captured.
    pub capture: CaptureConfig,
    /// Flows that start earlier are left out of averages. The engine does not use it.
    pub warm_up: Time,
}

/// Links whose packets are captured, and how many packets.
#[derive(Clone, Debug, PartialEq)]
pub struct CaptureConfig {
    pub links: Vec<LinkIx>,
    /// Maximum number of packets of a run; further ones are counted.
    pub packets_max: u64,
}

impl Default for CaptureConfig {
    fn default() -> Self {
        CaptureConfig { links: Vec::new(), packets_max: 100_000 }
    }
}

/// End of a run: at `until`, or when every flow has ended, whichever is first.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StopRule {
    /// Time at which the run is cut short; `None` for never.
    pub until: Option<Time>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ControlConfig {
    /// One-way delay of a control channel.
    pub latency: Time,
    /// Rate of a control channel in each direction; messages queue.
    pub bandwidth: Bandwidth,
    /// Replies show switch counters at its last multiple; zero for the moment of the reply.
    pub stats_refresh: Time,
    /// Maximum rate of packet-in messages of a switch; `None` for no limit.
    pub packet_in_per_s: Option<u32>,
    pub max_entries: u32,
    pub max_groups: u32,
    pub hash: HashSeeds,
    /// Whether full queues accept frames of switches and controller, as switches reserve buffers
    /// for them. Otherwise discovery takes links full of data for dead.
    pub reserves_control_queue: bool,
    pub boot: Boot,
    /// Delay before a switch reconnects whose connection the controller has closed.
    pub reconnect_after: Time,
    /// Delay of agent reports to the controller and of agent commands to hosts.
    pub agent_latency: Time,
    pub reports_flow_sizes: bool,
    /// Packets a switch handles per second, data and acknowledgements alike, one after the other:
    /// the processor of a switch that forwards in software. `None` for no limit.
    pub packets_per_s: Option<u32>,
    /// Packets that may wait for the processor of a switch; further ones are lost.
    pub backlog_packets: u32,
    /// Whether hosts resolve addresses by ARP before they send, and accept packets to their own Ethernet
    /// address only. Otherwise they know the addresses of all others.
    pub hosts_resolve: bool,
    /// Addressing mode. The simulator ignores it: it is for the caller, which creates the controller.
    pub addressing: net::Addressing,
    /// Pairs of hosts, source first, whose addresses the directory of VL2 refuses. For the caller, too.
    pub refused: Vec<(HostIx, HostIx)>,
    /// Maximum number of slot rules that a switch has as a mux. The simulator ignores it: it is for
    /// the caller, which creates the controller.
    pub mux_rules: u32,
    /// Time between two rounds of LLDP; `None` for the default of the controller. The simulator
    /// ignores it: it is for the caller, which creates the controller.
    pub discovery: Option<Time>,
    /// Time between two polls of counters; `None` for the default of the controller. The simulator
    /// ignores it: it is for the caller, which creates the controller.
    pub poll: Option<Time>,
    /// Legacy switches: they forward data over the first shortest path by port, regardless of rules.
    pub legacy: Vec<net::NodeIx>,
    /// Changes by a timetable, in the order of their times. The simulator ignores them: they are for the
    /// caller, which creates the controller.
    pub schedule: Vec<ControlChange>,
}

/// Balancer and weights in effect from a simulated time on, by a timetable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlChange {
    /// Beginning; zero holds before the first flow.
    pub at: Time,
    /// The balancer; `None` for the balancer of the run.
    pub balancer: Option<String>,
    /// Weights of servers; other servers have those of the scenario.
    pub weights: Vec<(net::HostIx, u32)>,
}

/// Switches that return congestion feedback to the senders of traffic to other sites.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FeedbackRule {
    /// Longer links lead to other sites.
    pub(crate) local_delay: Time,
    /// Queue length without feedback, bytes.
    pub(crate) equilibrium_bytes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashSeeds {
    /// A different seed on every switch.
    PerSwitch,
    /// The same seed on all: choices on consecutive switches agree (polarisation).
    Identical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The network was up: switches are connected, and the controller has installed its rules.
    Warm,
    /// Switches are empty and connect at this time, over channels and links as they are.
    Cold { connect_at: Time },
}

impl Default for ControlConfig {
    /// Returns a management network of 1 Gb/s with 100 us one way, and large tables and groups.
    fn default() -> Self {
        ControlConfig {
            latency: Time::from_us(100),
            bandwidth: Bandwidth::from_gbps(1),
            stats_refresh: Time::ZERO,
            packet_in_per_s: None,
            max_entries: 1_000_000,
            max_groups: 100_000,
            hash: HashSeeds::PerSwitch,
            reserves_control_queue: true,
            boot: Boot::Warm,
            reconnect_after: Time::from_s(1),
            agent_latency: Time::from_us(100),
            reports_flow_sizes: true,
            packets_per_s: None,
            backlog_packets: 1_000,
            hosts_resolve: false,
            addressing: net::Addressing::Flat,
            refused: Vec::new(),
            mux_rules: 512,
            discovery: None,
            poll: None,
            legacy: Vec::new(),
            schedule: Vec::new(),
        }
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        TransportConfig {
            kind: TransportKind::Dctcp(Dctcp::default()),
            mss_bytes: 1460,
            header_bytes: 40,
            ack_bytes: 40,
            initial_window_packets: 10,
            max_window_packets: None,
            min_rto: Time::from_ms(5),
            sack: false,
            dup_ack_threshold: 3,
            limited_transmit: true,
            ack_every: 1,
            ack_timeout: Time::from_us(500),
            handshake: false,
            max_timeouts: 15,
        }
    }
}

impl TransportConfig {
    pub fn new_reno() -> TransportConfig {
        TransportConfig { kind: TransportKind::NewReno(NewReno), ..TransportConfig::default() }
    }

    /// Returns TCP CUBIC with SACK, as Linux hosts run it, with the other defaults.
    pub fn cubic() -> TransportConfig {
        TransportConfig { kind: TransportKind::Cubic(Cubic::default()), sack: true, ..TransportConfig::default() }
    }

    /// Returns Annulus with the other defaults.
    pub fn annulus() -> TransportConfig {
        TransportConfig { kind: TransportKind::Annulus(Annulus::default()), ..TransportConfig::default() }
    }

    pub fn spray() -> TransportConfig {
        TransportConfig { kind: TransportKind::Spray(Spray::default()), ..TransportConfig::default() }
    }

    pub fn rdma(recovery: RdmaRecovery) -> TransportConfig {
        let rdma = Rdma { recovery, ..Rdma::default() };
        TransportConfig { kind: TransportKind::Rdma(rdma), ..TransportConfig::default() }
    }

    pub fn packet_bytes(&self) -> u32 {
        self.mss_bytes + self.header_bytes
    }

    /// Returns the bytes on the wire of a flow with `size` bytes of payload: of all its packets, with
    /// headers.
    pub(crate) fn wire_bytes(&self, size: u64) -> u64 {
        size + size.div_ceil(u64::from(self.mss_bytes)) * u64::from(self.header_bytes)
    }

    /// Returns the in-order packets for each acknowledgement. Transports that track single packets
    /// need one of each.
    pub(crate) fn packets_per_ack(&self) -> u32 {
        if self.properties().tolerates_reordering { 1 } else { self.ack_every.max(1) }
    }

    /// Returns how hosts and switches treat the packets.
    pub fn properties(&self) -> Properties {
        self.kind.properties(self)
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            queue_packets: 1000,
            scheduler: HostScheduler::Fair,
            resequencing: Resequencing::Auto,
            priority_sizes: Vec::new(),
            jitter: Time::ZERO,
        }
    }
}

impl Default for QueueConfig {
    /// Returns 100 packets, marking from 20 on: small for 10 Gb/s, as in most of the literature.
    fn default() -> Self {
        QueueConfig {
            limit: QueueLimit::Packets(100),
            marking: Marking::Step(QueueLimit::Packets(20)),
            reference_rate: None,
            lossless: None,
            control_class: None,
            trimming: false,
        }
    }
}

impl SimConfig {
    /// Returns whether the ports of switches have a control class. A balancer that demands flow
    /// control takes it away.
    pub fn has_control_class(&self) -> bool {
        let is_spray = matches!(self.transport.kind, TransportKind::Spray(_));
        self.switch.lossless.is_none() && self.switch.control_class.unwrap_or(is_spray)
    }
}

impl Default for ProbeConfig {
    fn default() -> Self {
        ProbeConfig {
            series: true,
            bin: Time::from_us(10),
            max_bins: 128,
            fixed_bins: false,
            links: Vec::new(),
            capture: CaptureConfig::default(),
            warm_up: Time::ZERO,
        }
    }
}
