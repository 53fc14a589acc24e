//! The contract of mechanisms in hosts: they pick the entropy value (flow label, UDP source port)
//! of each data packet, which switches hash together with the five-tuple (FlowBender, PLB, REPS,
//! Ultra Ethernet).

use net::{RandomStream, Time};

use super::{Cx, Scale};

/// Number of entropy values: all are below it.
pub(crate) const ENTROPIES: u16 = 65_535;

/// Draws an entropy value below [`ENTROPIES`]; all are equally likely.
#[inline]
pub(crate) fn draw_entropy(rng: &mut RandomStream) -> u16 {
    rng.next_below(u64::from(ENTROPIES)) as u16
}

/// Constructor arguments of a host instance.
#[derive(Clone, Copy, Debug)]
pub struct HostEnv {
    /// Seed of the run.
    pub seed: u64,
    /// Reference values for scaled parameters.
    pub scale: Scale,
    /// Packets of one bandwidth-delay product of a host link.
    pub window_packets: u32,
}

/// A data packet about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct HostPacket {
    /// Number of the flow (or subflow); a later flow may get the same one.
    pub flow: u32,
    /// Sequence number of the packet in its flow, from 0.
    pub seq: u32,
    /// Whether it is the flow's first packet: state of an earlier flow of the same number is stale.
    pub is_first: bool,
    /// Whether the packet is a retransmission.
    pub is_retransmission: bool,
}

/// An acknowledgement that a sender received.
#[derive(Clone, Copy, Debug)]
pub struct HostFeedback {
    /// Number of the flow, as in [`HostPacket::flow`].
    pub flow: u32,
    /// Entropy value of the acknowledged packet.
    pub entropy: u16,
    /// Whether the acknowledged packet was ECN-marked.
    pub marked: bool,
    /// Packets newly acknowledged, 0 for a duplicate.
    pub acked: u32,
    /// Lowest unacknowledged packet.
    pub una: u32,
    /// Next packet that has not been sent yet.
    pub next: u32,
    /// Round-trip time of the acknowledged packet.
    pub rtt: Time,
}

/// The sign by which a host detects a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostLoss {
    /// The retransmission timer expired.
    Timeout,
    /// Duplicate or selective acknowledgements arrived.
    FastRetransmit,
    /// A switch trimmed the packet, as the receiver reported; the entropy value of the packet.
    Trimmed(u16),
}

/// A mechanism of end hosts. One instance serves many hosts and keeps its state per flow. It must
/// not share knowledge between flows of different hosts.
pub trait HostBalancer: Send {
    /// Returns the entropy value of a data packet, below 65535.
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16;

    /// Handles an acknowledgement.
    fn on_ack(&mut self, _cx: &mut Cx<'_>, _feedback: &HostFeedback) {}

    /// Handles a detected loss.
    fn on_loss(&mut self, _cx: &mut Cx<'_>, _flow: u32, _loss: HostLoss) {}

    /// Returns whether it picks entropy values for cumulative acknowledgements too; called once. If not,
    /// they take the path that their five-tuple hashes to.
    fn labels_acks(&self) -> bool {
        false
    }

    /// Returns the entropy value of the acknowledgements that the receiver of a flow sends.
    fn ack_entropy(&mut self, _flow: u32) -> u16 {
        0
    }

    /// Handles data that reached the receiver of a flow twice. Only with
    /// [`labels_acks`](HostBalancer::labels_acks).
    fn on_duplicate(&mut self, _cx: &mut Cx<'_>, _flow: u32) {}
}
