//! What happens to packets.

use core::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::bundle::Bundle;
use crate::ids::{GroupId, PortNo, TableId};
use crate::matching::Masked;

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    /// Send out of a port.
    Output {
        /// Where.
        port: PortNo,
        /// To the controller: bytes of the packet to send; [`Action::WHOLE_PACKET`] for all.
        max_len: u16,
    },
    /// Process by a group.
    Group(GroupId),
    /// Change a header field.
    SetField(SetField),
    /// Add a VLAN tag of this EtherType.
    PushVlan(u16),
    /// Remove the outermost VLAN tag.
    PopVlan,
    /// Queue for later outputs.
    SetQueue(u32),
    /// Decrement the TTL.
    DecNwTtl,
    /// Send out of one of several ports (Open vSwitch).
    Bundle(Bundle),
}

impl Action {
    /// Do not cut packets sent to the controller (`OFPCML_NO_BUFFER`).
    pub const WHOLE_PACKET: u16 = 0xffff;

    /// Send out of a port.
    pub const fn output(port: PortNo) -> Action {
        Action::Output { port, max_len: 0 }
    }

    /// Send the whole packet to the controller.
    pub const fn to_controller() -> Action {
        Action::Output { port: PortNo::CONTROLLER, max_len: Action::WHOLE_PACKET }
    }
}

/// A header field with its new value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SetField {
    /// Ethernet destination.
    EthDst(MacAddr),
    /// Ethernet source.
    EthSrc(MacAddr),
    /// VLAN id of the outermost tag.
    VlanVid(u16),
    /// VLAN priority.
    VlanPcp(u8),
    /// DSCP.
    IpDscp(u8),
    /// ECN.
    IpEcn(u8),
    /// IPv4 source.
    Ipv4Src(Ipv4Addr),
    /// IPv4 destination.
    Ipv4Dst(Ipv4Addr),
    /// TCP source port.
    TcpSrc(u16),
    /// TCP destination port.
    TcpDst(u16),
    /// UDP source port.
    UdpSrc(u16),
    /// UDP destination port.
    UdpDst(u16),
}

/// The instructions of a flow entry, at most one of each kind, executed in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instructions {
    /// Meter to pass.
    pub meter: Option<u32>,
    /// Done at once, in order.
    pub apply: Vec<Action>,
    /// Whether the action set is emptied.
    pub clear: bool,
    /// Merged into the action set.
    pub write: Vec<Action>,
    /// Bits of the metadata to set.
    pub metadata: Option<Masked<u64>>,
    /// Next table.
    pub goto: Option<TableId>,
}

impl Instructions {
    /// Do this at once.
    pub fn apply(actions: Vec<Action>) -> Instructions {
        Instructions { apply: actions, ..Instructions::default() }
    }
}

/// One alternative, or one copy, of a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bucket {
    /// Share of packets (select groups); 0 in others.
    pub weight: u16,
    /// Alive only while this port is; [`PortNo::ANY`] for always.
    pub watch_port: PortNo,
    /// Alive only while this group has a bucket that is; [`GroupId::ANY`] for always.
    pub watch_group: GroupId,
    /// The action set.
    pub actions: Vec<Action>,
}

impl Bucket {
    /// One that sends out of `port` and is alive while the port is.
    pub fn watching(port: PortNo, weight: u16) -> Bucket {
        Bucket { weight, watch_port: port, watch_group: GroupId::ANY, actions: vec![Action::output(port)] }
    }
}
