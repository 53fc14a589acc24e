//! The contract of mechanisms that live in hosts: they pick the entropy value (flow label, UDP source port) of each data
//! packet, which switches hash together with the five-tuple (FlowBender, PLB, REPS, Ultra Ethernet).

use net::Time;

use super::{Cx, Scale};

/// What an instance is made from.
#[derive(Clone, Copy, Debug)]
pub struct HostEnv {
    /// Seed of the run.
    pub seed: u64,
    /// What times scale with.
    pub scale: Scale,
    /// Packets of one bandwidth-delay product of a host link.
    pub window_packets: u32,
}

/// A data packet about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct HostPacket {
    /// Dense number of the flow (or subflow) among those now active; reused after the flow has ended.
    pub flow: u32,
    /// Number of the packet in its flow.
    pub seq: u32,
    /// First packet sent for this flow: state of an earlier flow of the same number is stale.
    pub is_first: bool,
    /// Whether it was sent before.
    pub is_retransmission: bool,
}

/// An acknowledgement came back.
#[derive(Clone, Copy, Debug)]
pub struct HostFeedback {
    /// Number of the flow.
    pub flow: u32,
    /// Entropy value of the packet it answers.
    pub entropy: u16,
    /// Whether that packet was ECN-marked.
    pub marked: bool,
    /// Packets newly acknowledged, 0 for a duplicate.
    pub acked: u32,
    /// Lowest packet not acknowledged.
    pub una: u32,
    /// Next packet never sent.
    pub next: u32,
    /// Round-trip time of that packet.
    pub rtt: Time,
}

/// How a host learns that a packet did not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostLoss {
    /// Retransmission timer.
    Timeout,
    /// Duplicate or selective acknowledgements.
    FastRetransmit,
    /// A switch trimmed it and the receiver said so; the entropy value of the trimmed packet.
    Trimmed(u16),
}

/// A mechanism of end hosts. One instance serves all connections of a run and keeps its state per flow; it must not share
/// knowledge between flows of different hosts.
pub trait HostBalancer: Send {
    /// Answers the entropy value of a data packet, below 65535.
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16;

    /// An acknowledgement came back.
    fn on_ack(&mut self, cx: &mut Cx<'_>, feedback: &HostFeedback) {
        let _ = (cx, feedback);
    }

    /// A loss was noticed.
    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        let _ = (cx, flow, loss);
    }
}
