//! What is to be measured.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use net::Topology;

/// How packet-ins are offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// So many unanswered per switch that sends any; the next one follows an answer at once ("closed loop").
    Window(u32),
    /// So many per second over all switches, whatever is answered ("open loop").
    Rate(f64),
}

/// What counts as the answer to a packet-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// A packet-out that carries the packet, recognised by the tag in its TCP sequence number.
    PacketOut,
    /// A flow-mod that matches the packet's addresses and ports, or its destination alone: controllers that let first
    /// packets go on by rules send no packet-out. One that names the destination only answers the oldest packet to it.
    FlowMod,
    /// Packet-ins are ARP requests for hosts the controller knows; the packet-out with the ARP reply.
    Arp,
    /// Packet-ins are first packets of connections to this virtual address, at TCP ports 1,024 to 1,087; the packet-out that
    /// carries the packet. One of sixteen connections is carried to its member and back.
    Service(Ipv4Addr),
}

impl Answer {
    /// As options and reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Answer::PacketOut => "packet-out",
            Answer::FlowMod => "flow-mod",
            Answer::Arp => "arp",
            Answer::Service(_) => "service",
        }
    }

    /// In words, for reports.
    pub const fn words(self) -> &'static str {
        match self {
            Answer::PacketOut => "the packet-out that carries the packet (tag in the TCP sequence number)",
            Answer::FlowMod => "the flow-mod that matches the packet's 5-tuple or its destination",
            Answer::Arp => "the packet-out with the ARP reply (packet-ins are ARP requests for known hosts)",
            Answer::Service(_) => "the packet-out that carries the first packet of a connection to the virtual address",
        }
    }
}

/// What the fake switches form.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Switches without links, each with hosts that talk to each other: what load generators customarily do.
    Star {
        /// Switches, 1 to 4,096.
        switches: u32,
        /// Hosts at each, 2 to 250.
        hosts: u32,
    },
    /// Switches joined as in a topology; its hosts talk to hosts of other pods (other switches where there are no pods).
    Fabric(Box<Topology>),
}

/// A measurement of one controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the controller listens.
    pub controller: SocketAddr,
    /// The switches.
    pub shape: Shape,
    /// Their numbers begin above this one: fleets that load one controller together need numbers of their own.
    pub base: u32,
    /// The load.
    pub load: Load,
    /// What counts.
    pub answer: Answer,
    /// How long a packet-in may stay unanswered.
    pub patience: Duration,
    /// How long everything rests between learning and measuring.
    pub quiet: Duration,
    /// How long connecting and the handshake may take.
    pub handshake: Duration,
    /// Whether flow-mods are carried out by the fake switches while measuring too: their statistics then show them, and the
    /// generator does more work per answer. Before, they always are.
    pub keeps_rules: bool,
}

impl Options {
    /// The customary measurement: 16 switches of 20 hosts, one packet-in outstanding each.
    pub fn new(controller: SocketAddr) -> Options {
        Options {
            controller,
            shape: Shape::Star { switches: 16, hosts: 20 },
            base: 0,
            load: Load::Window(1),
            answer: Answer::PacketOut,
            patience: Duration::from_secs(1),
            quiet: Duration::from_secs(1),
            handshake: Duration::from_secs(10),
            keeps_rules: false,
        }
    }
}
