//! Dataplane balancers: which live port or path this packet takes.

pub mod ecmp;
pub mod ecmp_path;
pub mod hermes_rtt;
pub mod spray;
pub mod spray_rr;
pub mod spt;
#[cfg(test)]
pub(crate) mod testing;
pub mod wcmp;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, Stream, Tier, Time};

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
}

/// Facts about ports that mechanisms may read.
pub trait PortTelemetry {
    /// Bytes waiting at the egress of `link`, the packet in transmission included.
    fn queued_bytes(&self, link: LinkIx) -> u64;
}

/// Time, randomness and port facts at the moment of a decision.
pub struct Cx<'a> {
    /// Now.
    pub now: Time,
    /// The stream of this switch or edge; no one else draws from it.
    pub rng: &'a mut Stream,
    /// Port facts.
    pub ports: &'a dyn PortTelemetry,
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

/// The end-to-end paths an edge has to a destination class, numbered on the intact topology: a number
/// means the same path before, during and after failures.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    /// Numbers of the paths believed alive; at least one.
    pub live: &'a [u16],
    /// The path this flow used last, if it is still alive.
    pub current: Option<u16>,
}

/// What came back about a path: sent by the far end in an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct PathFeedback {
    /// Number of the flow, as in [`PacketView::flow`].
    pub flow: u32,
    /// Destination class of the data packet.
    pub to: ClassIx,
    /// Path the data packet took.
    pub path: u16,
    /// From leaving this edge to the acknowledgement passing it again.
    pub rtt: Time,
    /// Whether the data packet was ECN-marked.
    pub marked: bool,
}

/// What an edge instance is made from.
#[derive(Clone, Copy, Debug)]
pub struct EdgeEnv<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// First switch of its hosts, or the host itself.
    pub edge: NodeIx,
    /// Number of paths to each destination class on the intact topology.
    pub path_counts: &'a [u16],
    /// Round-trip time of an empty network from this edge to a host of each class and back, for a full-size packet
    /// and its ACK.
    pub base_rtt: &'a [Time],
}

/// A mechanism that picks whole paths where packets enter the fabric.
pub trait EdgeBalancer: Send {
    /// Answers an element of `paths.live`. Called once per packet entering the fabric; must not allocate
    /// once warm.
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16;

    /// An acknowledgement came back.
    fn on_feedback(&mut self, now: Time, feedback: &PathFeedback) {
        let _ = (now, feedback);
    }
}
