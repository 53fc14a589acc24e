//! The contract of mechanisms that pick whole paths where packets enter the fabric: leaf switches,
//! hypervisors, virtual switches (for example CONGA, Hermes, CLOVE, Presto, ConWeave).

use std::any::Any;
use std::sync::{Arc, OnceLock};

use net::routes::ClassIx;
use net::{HostIx, NodeIx, Routes, Time, Topology};

use super::{Cx, PacketView, Scale};
use crate::hash::{mix, reduce};

/// The end-to-end paths of an edge to a destination class. Paths are numbered on the intact
/// topology, so a number means the same path before, during and after failures.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    /// Numbers of the live paths, ascending; at least one.
    pub live: &'a [u16],
    /// The path this flow used last, if it is live; `None` for the first packet of a flow.
    pub current: Option<u16>,
    /// Rate of the slowest link of each live path according to routing, in the order of `live` and
    /// scaled to a sum of at most 2^16. Empty unless [`EdgeHooks::weights`] is set.
    pub weights: &'a [u32],
    /// Payload of the flow, bytes, which hosts of AI clusters know in advance; 0 for acknowledgements.
    pub flow_bytes: u64,
}

impl Paths<'_> {
    /// Returns a live path by the hash of the flow.
    #[inline]
    pub(crate) fn hashed(&self, packet: &PacketView) -> u16 {
        self.live[reduce(mix(packet.hash), self.live.len())]
    }

    /// Returns the current path of the flow, or one by its hash.
    #[inline]
    pub(crate) fn current_or_hashed(&self, packet: &PacketView) -> u16 {
        self.current.unwrap_or_else(|| self.hashed(packet))
    }
}

/// Feedback about a path, returned by the far end in an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct PathFeedback {
    /// Number of the flow, as in [`PacketView::flow`].
    pub flow: u32,
    /// Destination class of the data packet.
    pub to: ClassIx,
    /// Path of the data packet; `u16::MAX` if its pair of edges has a single path.
    pub path: u16,
    /// The edge over which the data packet took a detour.
    pub via: Option<ClassIx>,
    /// The next packet that the receiver expects: all before it have arrived.
    pub ack: u32,
    /// Whether the data packet did not arrive (trimmed), or was rejected (go-back-N).
    pub is_nack: bool,
    /// Time from the data packet's departure to its acknowledgement's arrival at this edge.
    pub rtt: Time,
    /// Whether the data packet was ECN-marked.
    pub marked: bool,
}

/// Signs of loss that an edge can read from the traffic of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The retransmission timer of the sender expired.
    Timeout,
    /// The sender repeated a packet after duplicate acknowledgements.
    FastRetransmit,
}

/// A loss detected by a sender of this edge.
#[derive(Clone, Copy, Debug)]
pub struct PathLoss {
    /// Number of the flow, as in [`PacketView::flow`].
    pub flow: u32,
    /// Destination class of the flow.
    pub to: ClassIx,
    /// The path of the flow's latest data packet; `u16::MAX` if its pair of edges has a single path.
    pub path: u16,
    /// Lowest packet of the flow that has not been acknowledged.
    pub una: u32,
    /// The sign of the loss.
    pub loss: Loss,
}

/// Data that reached a receiver of this edge twice. Either the first acknowledgement was lost or
/// the sender's timer expired too early.
#[derive(Clone, Copy, Debug)]
pub struct Duplicate {
    /// Number of the flow, as in [`PacketView::flow`].
    pub flow: u32,
    /// The receiver of the data, which sends the acknowledgement.
    pub src: HostIx,
    /// The sender of the data, which receives the acknowledgement.
    pub dst: HostIx,
    /// Destination class of that sender.
    pub to: ClassIx,
    /// The path of the flow's latest acknowledgement.
    pub path: u16,
}

/// A packet that leaves the fabric towards its receiver, with the values collected on its path.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Class of the sender: the edge where the packet entered.
    pub from: ClassIx,
    /// Number of the path, counted at the sender's edge.
    pub path: u16,
    /// The overlay header that [`EdgeBalancer::encapsulate`] returned.
    pub tag: u32,
    /// Largest quantised utilisation of the fabric links it crossed; 0 without sensed links.
    pub utilisation: u8,
    /// Whether it was ECN-marked.
    pub marked: bool,
    /// Time since it entered the fabric.
    pub one_way: Time,
}

/// The handling of a packet that leaves the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Forward it to the receiver.
    Pass,
    /// Forward it without its ECN mark (overlays that hide congestion from hosts).
    PassUnmarked,
    /// Hold it until [`Cx::release`] is called for its flow. Each flow has one FIFO queue. A
    /// release requested in the same call includes this packet, as the last one.
    Hold,
}

/// A packet between edges: a probe, a reply or a notification.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// Destination class of the receiving edge.
    pub to: ClassIx,
    /// Number of the path; a path that is down loses the packet silently, like a probe.
    pub path: u16,
    /// Size on the wire, bytes.
    pub bytes: u16,
    /// Whether switches may ECN-mark it.
    pub is_ecn_capable: bool,
    /// Payload defined by the mechanism.
    pub word: u32,
    /// Payload defined by the mechanism; only the low 24 bits if links are sensed.
    pub tag: u32,
}

/// A control packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct ControlArrival {
    /// Class of the edge that sent it.
    pub from: ClassIx,
    /// Number of the path, counted at the sender.
    pub path: u16,
    /// [`Control::word`] as sent.
    pub word: u32,
    /// [`Control::tag`] as sent.
    pub tag: u32,
    /// Largest quantised utilisation on the path; 0 without sensed links.
    pub utilisation: u8,
    /// Whether it was ECN-marked.
    pub marked: bool,
    /// Time through the fabric. Clocks are perfect here; use round trips for real networks.
    pub one_way: Time,
}

/// Constructor arguments of an edge instance.
#[derive(Clone, Copy, Debug)]
pub struct EdgeEnv<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// First switch of the edge's hosts, or the host itself.
    pub edge: NodeIx,
    /// The destination class of this edge.
    pub class: ClassIx,
    /// Number of paths to each destination class on the intact topology.
    pub path_counts: &'a [u16],
    /// Empty-network round-trip time to a host of each class, full-size packet and ACK.
    pub base_rtt: &'a [Time],
    /// The intact network.
    pub topology: &'a Topology,
    /// Shortest paths of the intact network; `routes.path(topology, edge, to, path)` lists links.
    pub routes: &'a Routes,
    /// Reference values for scaled parameters.
    pub scale: Scale,
    /// Data that all edges of the run share.
    pub shared: &'a Shared,
}

/// Data that all edges of a run share, such as the trees of a network. The first edge that needs
/// the data makes it; afterwards it never changes.
#[derive(Debug, Default)]
pub struct Shared(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Shared {
    /// Returns the shared data; the first call makes it with `make`.
    ///
    /// # Panics
    /// Panics if the data has another type: a run has one mechanism, which shares one type.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let made = self.0.get_or_init(|| Arc::new(make()));
        made.clone().downcast().expect("one mechanism shares one thing")
    }
}

/// The optional calls a mechanism uses; the driver skips the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeHooks {
    /// Enables [`EdgeBalancer::encapsulate`] and [`EdgeBalancer::decapsulate`].
    pub overlay: bool,
    /// Fills [`Paths::weights`].
    pub weights: bool,
    /// Enables [`EdgeBalancer::detour`], and feedback about pairs of edges with a single path.
    pub detours: bool,
    /// Enables [`EdgeBalancer::passes_gap_report`] at the edge of receivers.
    pub gap_reports: bool,
}

/// A mechanism that picks whole paths where packets enter the fabric. It is called only for packets
/// with two or more paths, and must not allocate once warm.
pub trait EdgeBalancer: Send {
    /// Returns an element of `paths.live`. Called once per packet that enters the fabric.
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16;

    /// Handles an acknowledgement.
    fn on_feedback(&mut self, _cx: &mut Cx<'_>, _feedback: &PathFeedback) {}

    /// Returns whether the report of a gap that enters the fabric here goes on. Packet `cause`, which
    /// arrived before the expected packet [`PacketView::seq`], caused it, and the receiver keeps it. If
    /// not, the edge takes the report away; one that also carries a congestion notification goes on
    /// as a plain acknowledgement. Called before [`EdgeBalancer::choose_path`].
    fn passes_gap_report(&mut self, _cx: &mut Cx<'_>, _packet: &PacketView, _cause: u32) -> bool {
        true
    }

    /// Handles a loss that a sender of this edge detected.
    fn on_loss(&mut self, _cx: &mut Cx<'_>, _loss: &PathLoss) {}

    /// Handles data that a receiver of this edge received twice.
    fn on_duplicate(&mut self, _cx: &mut Cx<'_>, _duplicate: &Duplicate) {}

    /// Returns the optional calls it uses; called once.
    fn hooks(&self) -> EdgeHooks {
        EdgeHooks::default()
    }

    /// Sets the first timers; called once, before the first packet.
    fn on_start(&mut self, _cx: &mut Cx<'_>) {}

    /// Returns the overlay header of a packet on `path`; 24 bits if links are sensed.
    fn encapsulate(&mut self, _cx: &mut Cx<'_>, _packet: &PacketView, _path: u16) -> u32 {
        0
    }

    /// Handles a packet from another edge that leaves the fabric here.
    fn decapsulate(&mut self, _cx: &mut Cx<'_>, _packet: &PacketView, _arrival: &Arrival) -> Delivery {
        Delivery::Pass
    }

    /// Handles a control packet from another edge.
    fn on_control(&mut self, _cx: &mut Cx<'_>, _control: &ControlArrival) {}

    /// Handles a timer set by [`Cx::set_timer`].
    fn on_timer(&mut self, _cx: &mut Cx<'_>, _token: u64) {}

    /// Returns an intermediate edge (Valiant load balancing in direct networks), or `None`; called
    /// before the path is picked. The packet takes a path to that edge, which then picks a path to
    /// the destination. An edge that routing cannot reach, or that cannot reach the destination, is
    /// skipped: the packet takes a direct path.
    fn detour(&mut self, _cx: &mut Cx<'_>, _packet: &PacketView) -> Option<ClassIx> {
        None
    }
}
