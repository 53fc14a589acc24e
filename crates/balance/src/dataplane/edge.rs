//! The contract of mechanisms that pick whole paths where packets enter the fabric: leaf switches, hypervisors, virtual
//! switches (CONGA, Hermes, CLOVE, Presto, ConWeave and their kin).

use std::any::Any;
use std::sync::{Arc, OnceLock};

use net::routes::ClassIx;
use net::{HostIx, NodeIx, Routes, Time, Topology};

use super::{Cx, PacketView, Scale};

/// The end-to-end paths an edge has to a destination class, numbered on the intact topology: a number
/// means the same path before, during and after failures.
#[derive(Clone, Copy, Debug)]
pub struct Paths<'a> {
    /// Numbers of the paths believed alive, ascending; at least one.
    pub live: &'a [u16],
    /// The path this flow used last, if it is still alive; `None` for the first packet of a flow.
    pub current: Option<u16>,
    /// Rate of the slowest link of each live path as routing knows it, in the order of `live` and scaled to at most
    /// 2^16 in all; empty unless [`Duties::weights`] asks for it.
    pub weights: &'a [u32],
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

/// Signs of loss an edge can read off the traffic of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The sender waited for its retransmission timer.
    Timeout,
    /// The sender repeated a packet after duplicate acknowledgements.
    FastRetransmit,
}

/// A sender of this edge noticed a loss.
#[derive(Clone, Copy, Debug)]
pub struct PathLoss {
    /// Number of the flow.
    pub flow: u32,
    /// Destination class of the flow.
    pub to: ClassIx,
    /// The path the flow's data last took.
    pub path: u16,
    /// What was noticed.
    pub loss: Loss,
}

/// Data sent again arrived at a receiver of this edge that had it already: the acknowledgement of the first copy was lost, or
/// the sender did not wait for it long enough.
#[derive(Clone, Copy, Debug)]
pub struct Duplicate {
    /// Number of the flow.
    pub flow: u32,
    /// The receiver, which acknowledges.
    pub src: HostIx,
    /// The sender of the data, where acknowledgements go.
    pub dst: HostIx,
    /// Class of that sender.
    pub to: ClassIx,
    /// The path the flow's acknowledgements last took.
    pub path: u16,
}

/// A packet about to leave the fabric towards its receiver, with what it collected on its way.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Class of the sender: the edge it entered at.
    pub from: ClassIx,
    /// Path it took.
    pub path: u16,
    /// What [`EdgeBalancer::encapsulate`] wrote.
    pub tag: u32,
    /// Greatest quantised utilisation of the fabric links it crossed; 0 unless links are sensed.
    pub utilisation: u8,
    /// Whether it was ECN-marked.
    pub marked: bool,
    /// Time since it entered the fabric.
    pub one_way: Time,
}

/// What to do with a packet that leaves the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// Hand it on.
    Pass,
    /// Hand it on without its ECN mark (overlays that keep congestion to themselves).
    PassUnmarked,
    /// Keep it until [`Cx::release`] is called for its flow. One queue per flow, first come, first served. A release asked
    /// for in the same call lets this packet go too, as the last.
    Hold,
}

/// A packet between edges: probes, replies, notifications.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// Edge to send to.
    pub to: ClassIx,
    /// Path to take; a path that is down loses the packet silently, as it would a probe.
    pub path: u16,
    /// Bytes on the wire.
    pub bytes: u16,
    /// Whether switches may mark it.
    pub is_ecn_capable: bool,
    /// For the mechanism.
    pub word: u32,
    /// For the mechanism; the low 24 bits only where links are sensed.
    pub tag: u32,
}

/// A control packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct ControlArrival {
    /// Edge it came from.
    pub from: ClassIx,
    /// Path it took.
    pub path: u16,
    /// As sent.
    pub word: u32,
    /// As sent.
    pub tag: u32,
    /// Greatest quantised utilisation met; 0 unless links are sensed.
    pub utilisation: u8,
    /// Whether it was ECN-marked.
    pub marked: bool,
    /// Time it took through the fabric. Clocks of edges are perfect here; a mechanism for real networks uses round trips.
    pub one_way: Time,
}

/// What an edge instance is made from.
#[derive(Clone, Copy, Debug)]
pub struct EdgeEnv<'a> {
    /// Seed of the run.
    pub seed: u64,
    /// First switch of its hosts, or the host itself.
    pub edge: NodeIx,
    /// The destination class this edge is.
    pub class: ClassIx,
    /// Number of paths to each destination class on the intact topology.
    pub path_counts: &'a [u16],
    /// Round-trip time of an empty network from this edge to a host of each class and back, for a full-size packet
    /// and its ACK.
    pub base_rtt: &'a [Time],
    /// The intact network.
    pub topology: &'a Topology,
    /// Its shortest paths: `routes.path(topology, edge, to, path)` lists the links of a path.
    pub routes: &'a Routes,
    /// What times scale with.
    pub scale: Scale,
    /// Where the edges of the run share what is worked out once.
    pub shared: &'a Shared,
}

/// What the edges of one run work out together before it begins, such as the trees of a network: made by the first edge
/// that asks, and never changed.
#[derive(Debug, Default)]
pub struct Shared(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Shared {
    /// What was made, or what `make` makes.
    ///
    /// # Panics
    /// If something of another type was made before: a run has one mechanism, and it shares one thing.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let made = self.0.get_or_init(|| Arc::new(make()));
        made.clone().downcast().expect("one mechanism shares one thing")
    }
}

/// Which of the optional calls a mechanism wants; calls it does not want cost nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duties {
    /// [`EdgeBalancer::encapsulate`] and [`EdgeBalancer::decapsulate`].
    pub overlay: bool,
    /// [`Paths::weights`] are filled.
    pub weights: bool,
    /// [`EdgeBalancer::detour`].
    pub detours: bool,
}

/// A mechanism that picks whole paths where packets enter the fabric. It is asked only for packets that have two or more
/// paths; calls must not allocate once warm.
pub trait EdgeBalancer: Send {
    /// Answers an element of `paths.live`. Called once per packet entering the fabric.
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16;

    /// An acknowledgement came back.
    fn on_feedback(&mut self, cx: &mut Cx<'_>, feedback: &PathFeedback) {
        let _ = (cx, feedback);
    }

    /// A sender noticed a loss.
    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &PathLoss) {
        let _ = (cx, loss);
    }

    /// A receiver of this edge got data a second time.
    fn on_duplicate(&mut self, cx: &mut Cx<'_>, duplicate: &Duplicate) {
        let _ = (cx, duplicate);
    }

    /// Which optional calls it wants; asked once.
    fn duties(&self) -> Duties {
        Duties::default()
    }

    /// Called once before the first packet, for first timers.
    fn on_start(&mut self, cx: &mut Cx<'_>) {
        let _ = cx;
    }

    /// A packet goes into the fabric on `path`: answers the overlay header to write, of which only the low 24 bits are
    /// kept where links are sensed.
    fn encapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, path: u16) -> u32 {
        let _ = (cx, packet, path);
        0
    }

    /// A packet from another edge leaves the fabric here.
    fn decapsulate(&mut self, cx: &mut Cx<'_>, packet: &PacketView, arrival: &Arrival) -> Delivery {
        let _ = (cx, packet, arrival);
        Delivery::Pass
    }

    /// A control packet from another edge arrived.
    fn on_control(&mut self, cx: &mut Cx<'_>, control: &ControlArrival) {
        let _ = (cx, control);
    }

    /// A timer set by [`Cx::set_timer`] is due.
    fn on_timer(&mut self, cx: &mut Cx<'_>, token: u64) {
        let _ = (cx, token);
    }

    /// Asked before the path: an edge to visit on the way (Valiant load balancing in direct networks), or `None`. The
    /// packet takes a path to that edge, which then picks a path to the destination. An edge that routing cannot reach, or
    /// that cannot reach the destination, is not visited: the packet goes straight.
    fn detour(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> Option<ClassIx> {
        let _ = (cx, packet);
        None
    }
}
