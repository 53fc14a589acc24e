//! Dataplane balancers: they pick the live port, path or entropy value of each packet.
//!
//! Three places of decision have three contracts. A switch picks its next hop ([`SwitchBalancer`]).
//! An edge picks the whole path where a packet enters the fabric ([`EdgeBalancer`]). A host picks
//! the entropy value that switches hash ([`HostBalancer`]). A mechanism declares its other
//! requirements (sensed links, several connections, lossless queues) in [`Needs`].

pub mod alb;
pub mod ars;
pub mod bsr;
pub mod burst_balancer;
#[cfg(test)]
pub(crate) mod closed_loop;
pub mod clove;
pub(crate) mod common;
pub mod conga;
pub mod contra;
pub mod conweave;
pub mod detail;
pub mod drb;
pub mod drill;
pub mod dynamic_wrr;
pub mod ecmp;
pub mod ecmp_path;
mod edge;
pub mod ethereal;
pub mod falcon;
pub mod flowbender;
pub mod flowcut;
pub mod flowset;
pub mod glb;
pub mod halflife;
pub mod hermes;
pub mod hermes_rtt;
pub mod hopper;
mod host;
pub mod hula;
pub mod least_congestion;
pub mod letflow;
pub mod localflow;
pub mod mp_hula;
pub mod mptcp;
pub mod mrc;
mod needs;
pub mod ofan;
pub mod path_pinning;
pub mod plb;
pub mod presto;
pub mod prime;
pub mod prr;
pub mod qdaps;
pub mod rails;
pub mod repflow;
pub mod reps;
pub mod repsyn;
pub mod rlb;
pub mod round_robin;
pub mod seq_balance;
pub mod spain;
pub mod spray;
pub mod spray_rr;
pub mod spritz;
pub mod spt;
pub mod srd;
#[cfg(test)]
pub(crate) mod testing;
pub mod themis;
pub mod tinyflow;
pub mod tlb;
pub mod ue_spray;
pub mod ugal;
pub mod vertigo;
pub mod vlb;
pub mod wcmp;
pub mod weighted_round_robin;

pub use edge::{
    Arrival, Control, ControlArrival, Delivery, Duplicate, EdgeBalancer, EdgeEnv, EdgeHooks, Loss, PathFeedback,
    PathLoss, Paths, Shared,
};
pub(crate) use host::{ENTROPIES, draw_entropy};
pub use host::{HostBalancer, HostEnv, HostFeedback, HostLoss, HostPacket};
pub use needs::{Connection, Copies, Coupling, Lossless, Needs, Race, Receiving, Sensing, Subflows};

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, RandomStream, Routes, Tier, Time, Topology};

use crate::hash::{combine, mix};

/// Reference values for scaled parameters: tuned for one network, they fit another (§11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Largest empty-network round-trip time between two hosts for a full-size packet and its ACK.
    pub base_rtt: Time,
    /// The delay one congested hop adds: the time a switch queue at its marking threshold takes to
    /// drain at the rate of the slowest fabric link (Hermes' one-hop delay; about 80 us at 10 Gb/s
    /// and 65 packets).
    pub hop_delay: Time,
    /// A full-size packet on the wire, bytes.
    pub packet_bytes: u32,
    /// Rate of the fastest host link.
    pub host_rate: net::Bandwidth,
}

impl Scale {
    /// Returns the bandwidth-delay product of the fastest host link, in packets.
    pub(crate) fn product_packets(&self) -> f64 {
        self.host_rate.as_bps_f64() * self.base_rtt.as_s_f64() / 8.0 / f64::from(self.packet_bytes.max(1))
    }
}

/// The properties of a packet that a balancer can read.
#[derive(Clone, Copy, Debug)]
pub struct PacketView {
    /// Number of the flow (or subflow); a later flow may get the same one, with another hash.
    pub flow: u32,
    /// Hash of the five-tuple in the direction of travel; see [`crate::hash::flow_key`].
    pub hash: u64,
    /// Size on the wire, bytes.
    pub bytes: u32,
    /// The host that sent the packet.
    pub src: HostIx,
    /// The host that receives the packet.
    pub dst: HostIx,
    /// Destination class: the receiver's first switch, or the receiver if it has several links.
    pub to: ClassIx,
    /// Data: number of the packet in its flow, from 0. Acknowledgement: the next one that is expected.
    pub seq: u32,
    /// Whether it carries payload (not a bare ACK).
    pub is_data: bool,
    /// Whether this payload was sent before, by the sequence numbers of the transport.
    pub is_retransmission: bool,
    /// Traffic class of the packet, from 0 (least urgent) to 7.
    pub priority: u8,
    /// Number of the connection among those of its flow, from 0: MPTCP's subflows, in the order in which
    /// they opened. Only for switches; edges that choose paths replace it.
    pub subflow: u8,
}

/// Properties of ports that mechanisms may read.
pub trait PortTelemetry {
    /// Returns the bytes queued at the egress of `link`, including the packet in transmission.
    fn queued_bytes(&self, link: LinkIx) -> u64;

    /// Returns the bytes that leave before a packet of this priority (DeTail's drain bytes).
    fn drain_bytes(&self, link: LinkIx, _priority: u8) -> u64 {
        self.queued_bytes(link)
    }

    /// Returns the time that `link` needs for the bytes queued at its egress.
    fn queueing_delay(&self, link: LinkIx) -> Time;

    /// Returns whether `link` has a carrier. A switch notices when one of its ports goes down, long before
    /// routing does; a link that loses packets silently is up.
    fn is_up(&self, _link: LinkIx) -> bool {
        true
    }

    /// Returns the utilisation of `link` by its discounting rate estimator: 1 for a link that is
    /// always busy, 0 unless [`Needs::sensing`] is set. The ripple of the estimator may raise it
    /// above 1 for a moment.
    fn utilisation(&self, _link: LinkIx) -> f64 {
        0.0
    }
}

/// The context of a decision: time, randomness and port properties.
pub struct Cx<'a> {
    /// Time of the decision.
    pub now: Time,
    /// The random stream of this switch or edge; no other component draws from it.
    pub rng: &'a mut RandomStream,
    /// Properties of the ports of this switch.
    pub ports: &'a dyn PortTelemetry,
    /// Requests: see [`Cx::send`], [`Cx::send_to_neighbour`], [`Cx::set_timer`] and [`Cx::release`].
    pub commands: &'a mut Commands,
}

/// A message of a switch to the node at the far end of one of its links, or one that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourMessage {
    /// The link that it takes, or on which it arrived.
    pub link: LinkIx,
    /// The content, which only the mechanism interprets.
    pub words: [u64; 2],
    /// Size on the wire, bytes.
    pub bytes: u16,
}

/// Requests of an edge or a switch in one call, emptied by the driver.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Control packets to send to other edges.
    pub controls: Vec<Control>,
    /// Messages of a switch to its neighbours.
    pub messages: Vec<NeighbourMessage>,
    /// Times of calls of [`EdgeBalancer::on_timer`] or [`SwitchBalancer::on_timer`], with their tokens.
    pub timers: Vec<(Time, u64)>,
    /// Flows whose held packets may continue, in order of arrival.
    pub releases: Vec<u32>,
    /// Flows whose senders must stop, and for how long at most; zero lets one go on.
    pub pauses: Vec<(u32, Time)>,
    /// Reports of gaps that edges send in place of receivers.
    pub reports: Vec<GapReport>,
}

/// The report of a gap that an edge sends in place of a receiver behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GapReport {
    /// Number of the flow, as in [`PacketView::flow`].
    pub flow: u32,
    /// The packet that the receiver expects, and which is lost.
    pub expected: u32,
    /// Time since the packet that revealed the loss entered the fabric.
    pub age: Time,
}

impl Commands {
    /// Returns whether nothing was requested.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.controls.is_empty()
            && self.messages.is_empty()
            && self.timers.is_empty()
            && self.releases.is_empty()
            && self.pauses.is_empty()
            && self.reports.is_empty()
    }
}

impl Cx<'_> {
    /// Sends a control packet from this edge through the fabric. Only for edges.
    pub fn send(&mut self, control: Control) {
        self.commands.controls.push(control);
    }

    /// Sends a message over one link of this switch. Only for switches with [`Needs::messages`], and not
    /// from [`SwitchBalancer::choose`].
    pub fn send_to_neighbour(&mut self, message: NeighbourMessage) {
        self.commands.messages.push(message);
    }

    /// Requests a call of [`EdgeBalancer::on_timer`] or [`SwitchBalancer::on_timer`] with `token` at
    /// `at`. Timers cannot be cancelled: a mechanism ignores calls it no longer needs. A switch
    /// must have [`Needs::messages`], and does not call this from [`SwitchBalancer::choose`].
    pub fn set_timer(&mut self, at: Time, token: u64) {
        self.commands.timers.push((at, token));
    }

    /// Forwards the held packets of `flow` to their receiver, in order of arrival. Only for edges.
    ///
    /// They may overtake a packet that this call passes; to prevent that, release from a timer.
    pub fn release(&mut self, flow: u32) {
        self.commands.releases.push(flow);
    }

    /// Asks the sender of `flow`, a host of this edge, to send nothing for `time`, or to go on if that is
    /// zero. The request takes the link to the host, on which it may wait or be lost; packets that the
    /// host has sent before still arrive. Only for edges.
    pub fn pause(&mut self, flow: u32, time: Time) {
        self.commands.pauses.push((flow, time));
    }

    /// Sends the report of a gap to the sender of a flow whose receiver is a host of this edge, unless
    /// receivers report every early packet. Only for edges.
    pub fn report_gap(&mut self, report: GapReport) {
        self.commands.reports.push(report);
    }
}

/// The equal-cost next hops a switch has for a packet.
#[derive(Clone, Copy, Debug)]
pub struct NextHops<'a> {
    /// The live candidates in port order; at least two.
    pub links: &'a [LinkIx],
    /// Capacity-proportional weight of each candidate; empty unless the mechanism requests weights.
    pub weights: &'a [u32],
}

/// Constructor arguments of a per-switch instance.
#[derive(Clone, Copy, Debug)]
pub struct SwitchEnv<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// Node of this switch.
    pub switch: NodeIx,
    /// Name of this switch in the topology.
    pub name: &'a str,
    /// Height of this switch above the hosts.
    pub tier: Tier,
    /// Number of destination classes: classes are numbered from 0 to this, exclusive.
    pub class_count: usize,
    /// The network with all its links, including those that have failed.
    pub topology: &'a Topology,
    /// Shortest paths of the intact network.
    pub routes: &'a Routes,
    /// Reference values for scaled parameters.
    pub scale: Scale,
}

impl SwitchEnv<'_> {
    /// Returns the seed of the hashes of this switch, which are independent of those of other switches.
    pub(crate) fn hash_seed(&self) -> u64 {
        combine(mix(self.seed), u64::from(self.switch.0))
    }
}

/// A mechanism that every switch runs, alone or with messages between neighbours.
pub trait SwitchBalancer: Send {
    /// Returns a position in `members.links`. Called once per packet and hop with two or more
    /// candidates; must not allocate once warm. It is not called with a single candidate.
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize;

    /// Returns the probable choice for a packet that is about to arrive, if it can be known. The simulator
    /// loads memory in advance by it; a wrong or missing value costs time only.
    fn foresee(&self, _: &PacketView, _: NextHops<'_>) -> Option<usize> {
        None
    }

    /// Returns whether [`NextHops::weights`] must be filled.
    fn needs_weights(&self) -> bool {
        false
    }

    /// Begins: sets timers and sends messages. Called once, only with [`Needs::messages`].
    fn on_start(&mut self, _cx: &mut Cx<'_>) {}

    /// Handles a timer that [`Cx::set_timer`] requested.
    fn on_timer(&mut self, _cx: &mut Cx<'_>, _token: u64) {}

    /// Handles a message of a neighbour. Its link is the one on which it arrived; the link back is its
    /// [reverse](LinkIx::reverse).
    fn on_message(&mut self, _cx: &mut Cx<'_>, _message: &NeighbourMessage) {}
}
