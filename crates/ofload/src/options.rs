//! Options of a measurement.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use net::Topology;

/// Offered load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Load {
    /// Closed loop: outstanding packet-ins per switch with hosts; a response triggers the next one.
    Window(u32),
    /// Open loop: packet-ins per second over all switches, regardless of responses.
    Rate(f64),
}

/// The response that completes a packet-in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseCriterion {
    /// A packet-out that carries the packet, identified by the tag in its TCP sequence number.
    PacketOut,
    /// A flow-mod that matches the packet's addresses and ports, or its destination alone, for
    /// controllers that forward first packets by rules and send no packet-out. A flow-mod with the
    /// destination alone completes the oldest packet to it.
    FlowMod,
    /// The packet-out with an ARP reply; the packet-ins are ARP requests for known hosts.
    Arp,
    /// The packet-out that carries the first packet of a connection to this virtual address, at TCP
    /// ports 1,024 to 1,087. One of sixteen connections is carried to its member and back.
    Service(Ipv4Addr),
}

impl ResponseCriterion {
    /// Returns its name and what it is.
    pub const fn texts(self) -> (&'static str, &'static str) {
        match self {
            ResponseCriterion::PacketOut => {
                ("packet-out", "the packet-out that carries the packet (tag in the TCP sequence number)")
            }
            ResponseCriterion::FlowMod => {
                ("flow-mod", "the flow-mod that matches the packet's 5-tuple or its destination")
            }
            ResponseCriterion::Arp => {
                ("arp", "the packet-out with the ARP reply (packet-ins are ARP requests for known hosts)")
            }
            ResponseCriterion::Service(_) => {
                ("service", "the packet-out that carries the first packet of a connection to the virtual address")
            }
        }
    }
}

#[derive(Clone, Debug)]
pub enum Shape {
    /// Switches without links, each with hosts that communicate with each other, as in other load
    /// generators.
    Star {
        switches: u32,
        /// Hosts per switch, 2 to 250.
        hosts: u32,
    },
    /// Switches linked as in a topology; hosts send to hosts of other pods (other switches if there
    /// are no pods).
    Fabric(Box<Topology>),
}

#[derive(Clone, Debug)]
pub struct Options {
    pub controller: SocketAddr,
    pub shape: Shape,
    /// Offset of the switch numbers, so that fleets that load one controller together do not
    /// overlap.
    pub base: u32,
    pub load: Load,
    pub response: ResponseCriterion,
    /// Time after which a packet-in counts as unanswered.
    pub response_timeout: Duration,
    pub settle_time: Duration,
    pub handshake: Duration,
    /// Whether the emulated switches apply flow-mods during the measurement too: statistics then
    /// contain the rules, and the generator does more work per response. They always apply them
    /// before.
    pub applies_flow_mods: bool,
    /// Whether the emulated switches have flow monitors, as Open vSwitch does.
    pub has_flow_monitors: bool,
}

impl Options {
    /// Returns the usual measurement: 16 switches of 20 hosts, one outstanding packet-in each.
    pub fn new(controller: SocketAddr) -> Options {
        Options {
            controller,
            shape: Shape::Star { switches: 16, hosts: 20 },
            base: 0,
            load: Load::Window(1),
            response: ResponseCriterion::PacketOut,
            response_timeout: Duration::from_secs(1),
            settle_time: Duration::from_secs(1),
            handshake: Duration::from_secs(10),
            applies_flow_mods: false,
            has_flow_monitors: false,
        }
    }
}
