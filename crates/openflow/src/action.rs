//! Actions, instructions and buckets.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `ofp_action_header`, `ofp_instruction` and `ofp_bucket`")]

use core::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::bundle::Bundle;
use crate::ids::{GroupId, PortNo, TableId};
use crate::matching::Masked;

/// An action. `Output` to the controller sends `max_len` bytes of the packet
/// ([`Action::WHOLE_PACKET`] for all), `PushVlan` adds a tag of this EtherType, and `Bundle` (an
/// extension of Open vSwitch) sends out of one of several ports. `PushIpv4` adds an outer IPv4 header
/// (RFC 2003) with the addresses of the inner one; OpenFlow has no such action, and only simulated
/// switches know it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    Output { port: PortNo, max_len: u16 },
    Group(GroupId),
    SetField(SetField),
    PushVlan(u16),
    PopVlan,
    PushIpv4,
    SetQueue(u32),
    DecNwTtl,
    Bundle(Bundle),
}

impl Action {
    /// Packets to the controller are sent whole (`OFPCML_NO_BUFFER`).
    pub const WHOLE_PACKET: u16 = 0xffff;

    /// Returns an output to a port.
    pub const fn output(port: PortNo) -> Action {
        Action::Output { port, max_len: 0 }
    }

    /// Returns an output of the whole packet to the controller.
    pub const fn to_controller() -> Action {
        Action::Output { port: PortNo::CONTROLLER, max_len: Action::WHOLE_PACKET }
    }
}

/// A header field with its new value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SetField {
    EthDst(MacAddr),
    EthSrc(MacAddr),
    VlanVid(u16),
    VlanPcp(u8),
    IpDscp(u8),
    IpEcn(u8),
    Ipv4Src(Ipv4Addr),
    Ipv4Dst(Ipv4Addr),
    TcpSrc(u16),
    TcpDst(u16),
    UdpSrc(u16),
    UdpDst(u16),
}

/// The instructions of a flow entry, at most one of each kind, executed in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instructions {
    pub meter: Option<u32>,
    /// Executed immediately, in order.
    pub apply: Vec<Action>,
    pub clear: bool,
    pub write: Vec<Action>,
    pub metadata: Option<Masked<u64>>,
    pub goto: Option<TableId>,
}

impl Instructions {
    /// Returns all actions, those to apply first.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.apply.iter().chain(&self.write)
    }

    /// Returns whether an action sends packets out of this port.
    pub fn sends_to(&self, port: PortNo) -> bool {
        self.actions().any(|action| matches!(action, Action::Output { port: out, .. } if *out == port))
    }

    /// Returns instructions that apply these actions.
    pub fn apply(actions: Vec<Action>) -> Instructions {
        Instructions { apply: actions, ..Instructions::default() }
    }
}

/// A bucket of a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bucket {
    /// Weight in select groups; 0 in other groups.
    pub weight: u16,
    /// The bucket is alive only while this port is; [`PortNo::ANY`] for always.
    pub watch_port: PortNo,
    /// The bucket is alive only while this group has a live bucket; [`GroupId::ANY`] for always.
    pub watch_group: GroupId,
    pub actions: Vec<Action>,
}

impl Bucket {
    /// Returns a bucket that sends out of `port` and is alive while the port is.
    pub fn watching(port: PortNo, weight: u16) -> Bucket {
        Bucket { weight, watch_port: port, watch_group: GroupId::ANY, actions: vec![Action::output(port)] }
    }
}
