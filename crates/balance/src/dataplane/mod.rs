//! Dataplane balancers: which live port, path or entropy value this packet takes.
//!
//! Three places to decide, three contracts: a switch picks its next hop ([`SwitchBalancer`]), an edge picks the whole
//! path where a packet enters the fabric ([`EdgeBalancer`]), a host picks the entropy value that switches hash
//! ([`HostBalancer`]). What a mechanism needs besides (sensed links, several connections, lossless queues) it declares
//! ([`Needs`]).

pub mod clove;
pub mod conga;
pub mod conweave;
pub mod detail;
pub mod drb;
pub mod drill;
pub mod dynamic_wrr;
pub mod ecmp;
pub mod ecmp_path;
mod edge;
pub mod flowbender;
pub mod hermes;
pub mod hermes_rtt;
mod host;
pub mod least_congestion;
pub mod letflow;
pub mod mptcp;
mod needs;
pub mod parts;
pub mod plb;
pub mod presto;
pub mod repflow;
pub mod reps;
pub mod repsyn;
pub mod round_robin;
pub mod spain;
pub mod spray;
pub mod spray_rr;
pub mod spt;
#[cfg(test)]
pub(crate) mod testing;
pub mod tinyflow;
pub mod ue_spray;
pub mod vlb;
pub mod wcmp;
pub mod weighted_round_robin;

pub use edge::{
    Arrival, Control, ControlArrival, Delivery, Duplicate, Duties, EdgeBalancer, EdgeEnv, Loss, PathFeedback, PathLoss,
    Paths, Shared,
};
pub use host::{HostBalancer, HostEnv, HostFeedback, HostLoss, HostPacket};
pub use needs::{Connection, Copies, Coupling, Lossless, NO_NEEDS, Needs, Race, Receiving, Sensing, Subflows};

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, Stream, Tier, Time};

/// What times in parameters are measured against, so that a mechanism tuned for one network fits another
/// (mechanisms.md §11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Largest empty-network round-trip time between two hosts for a full-size packet and its ACK.
    pub base_rtt: Time,
    /// The delay one congested hop adds: the time a switch queue at its marking threshold takes to drain at the rate of
    /// the slowest fabric link (Hermes' one-hop delay; about 80 us at 10 Gb/s and 65 packets).
    pub hop_delay: Time,
    /// A full-size packet on the wire, bytes.
    pub packet_bytes: u32,
    /// Rate of the fastest host link.
    pub host_rate: net::Bandwidth,
}

/// What a balancer sees of a packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketView {
    /// Dense number of the flow among those now active; reused after the flow has ended.
    pub flow: u32,
    /// Hash of the five-tuple in the direction of travel; see [`crate::hash::flow_key`].
    pub hash: u64,
    /// Bytes on the wire.
    pub bytes: u32,
    /// Original sender.
    pub src: HostIx,
    /// Final receiver.
    pub dst: HostIx,
    /// Destination class: the receiver's first switch, or the receiver itself where it has several links.
    pub to: ClassIx,
    /// Whether it carries payload (not a bare ACK).
    pub is_data: bool,
    /// Whether this payload was sent before: an edge can tell from the sequence numbers of the transport.
    pub is_retransmission: bool,
    /// Traffic class of the packet, 0 the least urgent, at most 7.
    pub priority: u8,
}

/// Facts about ports that mechanisms may read.
pub trait PortTelemetry {
    /// Bytes waiting at the egress of `link`, the packet in transmission included.
    fn queued_bytes(&self, link: LinkIx) -> u64;

    /// Bytes that would leave before a packet of this priority queued now (DeTail's drain bytes).
    fn drain_bytes(&self, link: LinkIx, priority: u8) -> u64 {
        let _ = priority;
        self.queued_bytes(link)
    }

    /// Utilisation of `link` by its discounting rate estimator, 1 for a link kept busy; 0 unless the mechanism's
    /// [`Needs::sensing`] asks for it. May exceed 1 for a moment by the ripple of the estimator.
    fn utilisation(&self, link: LinkIx) -> f64 {
        let _ = link;
        0.0
    }
}

/// Time, randomness and port facts at the moment of a decision.
pub struct Cx<'a> {
    /// Now.
    pub now: Time,
    /// The stream of this switch or edge; no one else draws from it.
    pub rng: &'a mut Stream,
    /// Port facts.
    pub ports: &'a dyn PortTelemetry,
    /// What an edge wants done besides answering: see [`Cx::send`], [`Cx::set_timer`] and [`Cx::release`].
    pub commands: &'a mut Commands,
}

/// What an edge asked for in one call, emptied by the world that drives it.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Control packets to send to other edges.
    pub controls: Vec<Control>,
    /// When to call [`EdgeBalancer::on_timer`], and with what.
    pub timers: Vec<(Time, u64)>,
    /// Flows whose held packets are to go on, in the order they came.
    pub releases: Vec<u32>,
}

impl Commands {
    /// Whether nothing was asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.controls.is_empty() && self.timers.is_empty() && self.releases.is_empty()
    }
}

impl Cx<'_> {
    /// Sends a control packet from this edge through the fabric. Edges only.
    pub fn send(&mut self, control: Control) {
        self.commands.controls.push(control);
    }

    /// Has [`EdgeBalancer::on_timer`] called with `token` at `at`. Timers cannot be taken back: a mechanism that no
    /// longer cares ignores the call. Edges only.
    pub fn set_timer(&mut self, at: Time, token: u64) {
        self.commands.timers.push((at, token));
    }

    /// Lets the held packets of `flow` go on to their receiver, in the order they came. Edges only.
    ///
    /// They may go before a packet that the same call passes: one that must go before them needs the release by a timer.
    pub fn release(&mut self, flow: u32) {
        self.commands.releases.push(flow);
    }
}

/// The equal-cost next hops a switch has for a packet.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The live candidates in port order; at least two.
    pub links: &'a [LinkIx],
    /// Capacity-proportional weight of each, where the mechanism asked for weights; else empty.
    pub weights: &'a [u32],
}

/// What a per-switch instance is made from.
#[derive(Clone, Copy, Debug)]
pub struct SwitchEnv<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// The switch.
    pub switch: NodeIx,
    /// Its name.
    pub name: &'a str,
    /// Its height.
    pub tier: Tier,
    /// Number of destination classes: classes are 0 .. this.
    pub class_count: usize,
    /// What times scale with.
    pub scale: Scale,
}

/// A mechanism that every switch runs by itself.
pub trait SwitchBalancer: Send {
    /// Answers a position in `members.links`. Called once per packet and hop with two or more candidates;
    /// must not allocate once warm. With a single candidate it is not asked.
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: Members<'_>) -> usize;

    /// Whether [`Members::weights`] must be filled.
    fn wants_weights(&self) -> bool {
        false
    }
}
