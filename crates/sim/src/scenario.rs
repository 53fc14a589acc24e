//! What to simulate: everything a run depends on, as plain values.

use net::{Bandwidth, LinkIx, NodeIx, Time, Topology};
use traffic::FlowList;

/// One run: a network, what is sent over it, how it is balanced, and a seed.
#[derive(Clone, Copy, Debug)]
pub struct Scenario<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// The flows.
    pub flows: &'a FlowList,
    /// The balancer with its parameters.
    pub balancer: &'a balance::Spec,
    /// Seed of every random draw the run makes itself (hash seeds, spraying, RED, random loss).
    pub seed: u64,
    /// Transport, queues, faults, probes and the stop rule.
    pub config: &'a SimConfig,
}

/// Everything of a run except network, flows, balancer and seed. `Default` is the project's default.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SimConfig {
    /// How hosts send.
    pub transport: TransportConfig,
    /// Host interfaces and receive side.
    pub host: HostConfig,
    /// Switch queues.
    pub switch: QueueConfig,
    /// Faults, in any order.
    pub failures: Vec<Failure>,
    /// Channels to a controller and what is at their ends; only for [`crate::run_controlled`].
    pub control: ControlConfig,
    /// Virtual services, where flows are requests to them; only for [`crate::run_controlled`].
    pub services: Option<crate::ServicesConfig>,
    /// What to record beside flows and books.
    pub probes: ProbeConfig,
    /// When to stop.
    pub stop: StopRule,
}

/// Congestion control, or the lack of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TransportKind {
    /// TCP NewReno (RFC 5681, RFC 6582): slow start, congestion avoidance, fast retransmit, partial-ACK
    /// recovery, retransmission timer. No SACK.
    NewReno,
    /// DCTCP (SIGCOMM 2010, RFC 8257): NewReno that reduces in proportion to the share of marked bytes.
    Dctcp {
        /// Gain of the marked-fraction average; 1/16 as published.
        gain: f64,
    },
    /// TCP CUBIC (RFC 9438) without HyStart. It ignores ECN.
    Cubic,
    /// Per-packet transport for spraying: every packet acknowledged by itself and placed where it belongs, windows by
    /// ECN and delay (`nscc.rs`), loss by trimming, per-packet time-out or far overtaking only.
    Spray(Spray),
    /// RDMA over Ethernet: paced by DCQCN.
    Rdma(Rdma),
    /// UDP: no reaction to anything.
    Udp(UdpRate),
}

impl TransportKind {
    /// As experiment files name it.
    pub fn name(&self) -> &'static str {
        match self {
            TransportKind::NewReno => "newreno",
            TransportKind::Dctcp { .. } => "dctcp",
            TransportKind::Cubic => "cubic",
            TransportKind::Spray(_) => "spray",
            TransportKind::Rdma(_) => "rdma",
            TransportKind::Udp(_) => "udp",
        }
    }
}

/// Parameters of [`TransportKind::Spray`]; `None` scales with the network.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Spray {
    /// Queueing delay the window aims at; `None`: three quarters of the base round-trip time.
    pub target_delay: Option<Time>,
    /// A packet is lost when this many sent after it have arrived; `None`: one bandwidth-delay product and one switch
    /// queue, more than unequal queues alone can bring about.
    pub reorder_packets: Option<u32>,
    /// Least time-out of a packet; `None` as in [`Rdma::packet_timeout`].
    pub packet_timeout: Option<Time>,
}

/// How an RDMA connection deals with a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaRecovery {
    /// RoCE: the receiver keeps nothing out of order, says so once per gap, and the sender goes back to it.
    GoBackN,
    /// IRN (SIGCOMM 2018): selective acknowledgements and retransmission, at most a bandwidth-delay product in flight.
    Selective,
}

/// Parameters of [`TransportKind::Rdma`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rdma {
    /// What happens at a gap.
    pub recovery: RdmaRecovery,
    /// Least retransmission time-out; `None`: the base round-trip time and three full queues of the slowest switch link,
    /// or three base round-trip times if that is longer. With [`RdmaRecovery::Selective`] a third of it (but not below
    /// two base round-trip times) while at most three packets are in flight, as IRN's RTO_low.
    pub packet_timeout: Option<Time>,
    /// Rate control.
    pub dcqcn: Dcqcn,
}

/// DCQCN (SIGCOMM 2015) with its published parameters as default.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcqcn {
    /// g, gain of alpha: 1/256.
    pub gain: f64,
    /// The receiver notifies of marks at most this often: 50 us.
    pub notify_interval: Time,
    /// Without notifications alpha decays this often: 55 us.
    pub alpha_timer: Time,
    /// The rate is raised this often: 55 us …
    pub rate_timer: Time,
    /// … and every so many bytes: 10 MB.
    pub byte_counter: u64,
    /// R_AI; `None`: a thousandth of the line rate (40 Mb/s at 40 Gb/s).
    pub additive_increase: Option<Bandwidth>,
    /// R_HAI; `None`: a hundredth of the line rate.
    pub hyper_increase: Option<Bandwidth>,
}

/// Sending rate of UDP flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UdpRate {
    /// Bits per second on the wire, evenly spaced.
    Constant(Bandwidth),
    /// For every packet a rate drawn uniformly from this range, as D-ITG's uniform option does.
    UniformPackets {
        /// Least packets per second.
        min_per_s: f64,
        /// Most packets per second.
        max_per_s: f64,
    },
}

/// Transport parameters; each is printed in reports because each changes results.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportConfig {
    /// Which transport.
    pub kind: TransportKind,
    /// Payload of a full packet, bytes.
    pub mss_bytes: u32,
    /// Headers on the wire of a data packet, bytes.
    pub header_bytes: u32,
    /// A bare ACK on the wire, bytes.
    pub ack_bytes: u32,
    /// Initial congestion window, packets.
    /// The `spray` transport begins with one bandwidth-delay product, RDMA with the line rate.
    pub initial_window_packets: u32,
    /// Receive window, packets; `None` scales with the network: twice the largest bandwidth-delay product plus
    /// one switch queue; for RDMA one product (selective) or no limit (go-back-n).
    pub max_window_packets: Option<u32>,
    /// Least retransmission time-out of TCP; the others have their own.
    pub min_rto: Time,
    /// TCP: loss recovery from selective acknowledgements (RFC 6675, in whole segments).
    pub sack: bool,
    /// Duplicate ACKs that trigger a fast retransmit.
    pub dup_ack_threshold: u32,
    /// Whether the first two duplicate ACKs let a new packet out each (RFC 3042), which spares short flows
    /// many time-outs.
    pub limited_transmit: bool,
    /// The receiver acknowledges every n-th in-order packet; 1 turns delayed ACKs off.
    pub ack_every: u32,
    /// Longest a delayed ACK waits.
    pub ack_timeout: Time,
    /// Whether a flow begins with SYN and SYN-ACK (one round trip inside its completion time).
    pub handshake: bool,
    /// Consecutive time-outs after which a flow has failed (Linux `tcp_retries2` is 15).
    pub max_timeouts: u32,
}

/// Whether hosts hold back packets that arrive early until the gap before them is filled (mechanisms.md §1.7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resequencing {
    /// On for balancers that always reorder, off for the others.
    Auto,
    /// Never.
    Off,
    /// Always, with these bounds.
    On(ResequencingBounds),
}

/// When held packets are released although the gap is still open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResequencingBounds {
    /// Time since the gap appeared; `None` scales with the network: one base round-trip time plus the time
    /// a full switch queue takes to drain.
    pub timeout: Option<Time>,
    /// Packets held per flow; `None` bounds by the receive window alone.
    pub packets: Option<u32>,
}

/// How a host shares its interface among its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostScheduler {
    /// Packet by packet in turn, and no packet leaves TCP before the wire is free: what Linux does with small
    /// queues and fair queueing. A short flow does not wait behind the window of a long one.
    Fair,
    /// First come, first served, with no bound but the window: what ns-3's default does.
    Fifo,
}

/// Host side of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Packets a host interface queues before UDP packets are dropped there. TCP is bounded by its window.
    pub queue_packets: u32,
    /// How TCP flows share the interface. Hosts with several links (BCube, CamCube) are always first come, first served.
    pub scheduler: HostScheduler,
    /// Resequencing buffer.
    pub resequencing: Resequencing,
    /// Flow sizes that make a flow more urgent, bytes: a flow is of the class that counts the bounds it does not exceed.
    /// At most 7; effective only with several traffic classes ([`QueueConfig::lossless`]).
    pub priority_sizes: Vec<u64>,
    /// Largest random extra gap a host leaves after a packet, drawn uniformly per packet. Zero is exact and
    /// what other simulators do, but with drop-tail queues and equal link rates it lets one TCP flow lock
    /// others out for good (phase effects, Floyd and Jacobson 1992); real hosts are never that regular.
    pub jitter: Time,
}

/// Size limit of a switch queue; the packet in transmission counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many packets.
    Packets(u32),
    /// So many bytes.
    Bytes(u64),
}

/// ECN marking at a switch queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marking {
    /// None.
    Off,
    /// DCTCP's step: mark a packet that finds this much queued or more.
    Step(QueueLimit),
    /// RED-style on the instantaneous queue in bytes: probability rises linearly from 0 at `min` to `max_probability` at
    /// `max`, and is 1 above.
    Ramp {
        /// No marking below, bytes.
        min_bytes: u64,
        /// Always above, bytes.
        max_bytes: u64,
        /// Probability just below `max_bytes`.
        max_probability: f64,
    },
}

/// Every switch egress queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// Drop-tail limit.
    pub limit: QueueLimit,
    /// Marking.
    pub marking: Marking,
    /// Priority flow control, in every switch and host: nothing is dropped for lack of space, and `limit` no longer
    /// applies. `None`: only if the balancer needs it.
    pub lossless: Option<balance::Lossless>,
    /// Packets that find the queue full are cut to a header of [`TRIMMED_BYTES`] and forwarded instead of dropped; only
    /// for the `spray` transport. The limit is then one in bytes (packets count as full ones), and headers and
    /// acknowledgements may use a quarter more. They wait in order: the ports have no priority for headers.
    pub trimming: bool,
}

/// What trimming leaves of a packet.
pub const TRIMMED_BYTES: u16 = 64;

/// Something that goes wrong, perhaps for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// When.
    pub at: Time,
    /// When it is over; `None` for never.
    pub until: Option<Time>,
    /// How long routing takes to notice the beginning and the end of a dead link or switch.
    pub detection: Time,
    /// What.
    pub kind: FailureKind,
}

/// What goes wrong (mechanisms.md §1.9).
#[derive(Clone, Debug, PartialEq)]
pub enum FailureKind {
    /// A cable is cut: both directions; what is queued or on the wire is lost.
    LinkDown(LinkIx),
    /// A cable runs at this fraction of its rate, both directions.
    LinkRate {
        /// Either direction of the cable.
        link: LinkIx,
        /// Between 0 and 1, not 0.
        fraction: f64,
    },
    /// One direction silently loses packets at random.
    RandomDrop {
        /// The direction.
        link: LinkIx,
        /// Probability per packet.
        probability: f64,
    },
    /// A switch silently loses packets at random, in whatever direction they pass it, each packet once.
    SwitchDrop {
        /// The switch.
        node: NodeIx,
        /// Probability per packet.
        probability: f64,
    },
    /// A switch silently loses all packets of a fixed subset of (source, destination) pairs.
    Blackhole {
        /// The switch.
        node: NodeIx,
        /// Share of pairs lost.
        fraction: f64,
        /// Only pairs from hosts of the first rack to hosts of the second.
        racks: Option<(u32, u32)>,
    },
    /// A switch dies with all its cables. One of OpenFlow also loses its rules and its connection.
    SwitchDown(NodeIx),
    /// One direction of a cable is cut; what is queued or on the wire there is lost. Only the receiving end notices.
    OneWayDown(LinkIx),
    /// The control channel of a switch delivers nothing, either way, and loses nothing: what was sent arrives when it is
    /// over. Nobody is told.
    ChannelStall(NodeIx),
    /// The control connection of a switch breaks; both ends notice at once. What was under way is lost. The switch
    /// connects again when it is over.
    ChannelDown(NodeIx),
    /// The controller is gone with all its connections, and does nothing. Switches connect again when it is over.
    ControllerDown,
}

/// What to record.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeConfig {
    /// Bytes per fabric link and time bin. Off saves memory in the largest runs.
    pub series: bool,
    /// First bin width; widths double whenever `max_bins` is reached.
    pub bin: Time,
    /// Most bins kept.
    pub max_bins: u32,
    /// Keep `bin` as it is and never merge (for metrics with a published window, such as F0's 10 s).
    pub fixed_bins: bool,
}

/// When a run ends: at `until`, or when every flow has ended, whichever is first.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StopRule {
    /// Latest simulated time.
    pub until: Option<Time>,
}

/// The control plane of a run with a controller: channels, switches, agents on hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlConfig {
    /// One-way delay of a control channel.
    pub latency: Time,
    /// Rate of a control channel, each way; messages wait for those before them.
    pub bandwidth: Bandwidth,
    /// Switches show counters as of the last multiple of this; zero for the moment of the answer.
    pub stats_refresh: Time,
    /// Greatest rate of packet-in messages of a switch; `None` for no limit.
    pub packet_in_per_s: Option<u32>,
    /// Entries a flow table holds.
    pub max_entries: u32,
    /// Groups a switch holds.
    pub max_groups: u32,
    /// Seeds of the hashes of select groups.
    pub hash: HashSeeds,
    /// Whether frames that switches send for the controller (discovery, ARP) find room in full queues, as switches keep
    /// some for traffic of their own; they wait their turn all the same. Otherwise links that are full of data lose them,
    /// and discovery takes such links for dead.
    pub have_frames_room: bool,
    /// What the controller and the switches have done before the experiment begins.
    pub boot: Boot,
    /// A switch whose connection the controller has closed connects again after this long.
    pub reconnect_after: Time,
    /// Delay of reports of agents on hosts to the controller, and of its orders to them.
    pub agent_latency: Time,
    /// Whether agents tell how much a flow will have sent in all.
    pub are_sizes_told: bool,
    /// Packets a switch handles per second, data and acknowledgements alike, one after the other: the processor of a
    /// switch that forwards in software. `None`: as many as come.
    pub packets_per_s: Option<u32>,
    /// Packets that may wait for the processor of a switch; further ones are lost as in a full queue.
    pub backlog_packets: u32,
    /// Time between two rounds of LLDP; `None` for the controller's own. For whoever makes the controller.
    pub discovery: Option<Time>,
    /// Time between two polls of counters; `None` for the controller's own. For whoever makes the controller: the
    /// simulator does not look at it.
    pub poll: Option<Time>,
}

/// Seeds of the hashes by which select groups choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashSeeds {
    /// Another one on every switch.
    PerSwitch,
    /// The same on all: choices on consecutive switches agree (polarisation).
    Identical,
}

/// What has happened before time 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boot {
    /// The network was up: switches have connected, the controller has found out about it and installed its rules.
    Warm,
    /// Nothing: switches are empty and connect at this time, over channels and links as they are.
    Cold {
        /// When switches connect.
        connect_at: Time,
    },
}

impl Default for ControlConfig {
    /// A management network of 1 Gb/s with 100 us one way, tables and groups without practical limits.
    fn default() -> Self {
        ControlConfig {
            latency: Time::from_us(100),
            bandwidth: Bandwidth::from_gbps(1),
            stats_refresh: Time::ZERO,
            packet_in_per_s: None,
            max_entries: 1_000_000,
            max_groups: 100_000,
            hash: HashSeeds::PerSwitch,
            have_frames_room: true,
            boot: Boot::Warm,
            reconnect_after: Time::from_s(1),
            agent_latency: Time::from_us(100),
            are_sizes_told: true,
            packets_per_s: None,
            backlog_packets: 1_000,
            discovery: None,
            poll: None,
        }
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        TransportConfig {
            kind: TransportKind::Dctcp { gain: 1.0 / 16.0 },
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
    /// TCP NewReno with the other defaults.
    pub fn new_reno() -> TransportConfig {
        TransportConfig { kind: TransportKind::NewReno, ..TransportConfig::default() }
    }

    /// TCP CUBIC with SACK, as Linux hosts run it, with the other defaults.
    pub fn cubic() -> TransportConfig {
        TransportConfig { kind: TransportKind::Cubic, sack: true, ..TransportConfig::default() }
    }

    /// The per-packet transport with the other defaults.
    pub fn spray() -> TransportConfig {
        TransportConfig { kind: TransportKind::Spray(Spray::default()), ..TransportConfig::default() }
    }

    /// RDMA with the published DCQCN parameters and the other defaults.
    pub fn rdma(recovery: RdmaRecovery) -> TransportConfig {
        let rdma = Rdma { recovery, packet_timeout: None, dcqcn: Dcqcn::default() };
        TransportConfig { kind: TransportKind::Rdma(rdma), ..TransportConfig::default() }
    }

    /// Wire size of a full data packet, bytes.
    pub fn packet_bytes(&self) -> u32 {
        self.mss_bytes + self.header_bytes
    }
    /// Whether data packets are ECN-capable.
    pub fn is_ecn_capable(&self) -> bool {
        matches!(self.kind, TransportKind::Dctcp { .. } | TransportKind::Spray(_) | TransportKind::Rdma(_))
    }

    /// Whether the transport itself copes with packets in any order or wants to see all disorder: hosts then do not
    /// resequence unless told to.
    pub fn is_seeing_disorder(&self) -> bool {
        matches!(self.kind, TransportKind::Spray(_) | TransportKind::Rdma(_))
    }
}

impl Default for Dcqcn {
    fn default() -> Self {
        Dcqcn {
            gain: 1.0 / 256.0,
            notify_interval: Time::from_us(50),
            alpha_timer: Time::from_us(55),
            rate_timer: Time::from_us(55),
            byte_counter: 10_000_000,
            additive_increase: None,
            hyper_increase: None,
        }
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
    /// 100 packets, marking from 20 packets on: small for 10 Gb/s data-center switches, as most of the
    /// literature has it.
    fn default() -> Self {
        QueueConfig {
            limit: QueueLimit::Packets(100),
            marking: Marking::Step(QueueLimit::Packets(20)),
            lossless: None,
            trimming: false,
        }
    }
}

impl Default for ProbeConfig {
    fn default() -> Self {
        ProbeConfig { series: true, bin: Time::from_us(10), max_bins: 128, fixed_bins: false }
    }
}
