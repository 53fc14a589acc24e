//! Matches: the packets of an entry.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `oxm_ofb_match_fields`")]

use core::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::ids::PortNo;

/// A value of which only the bits set in `mask` are compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Masked<T> {
    /// The value; bits outside the mask must be zero.
    pub value: T,
    pub mask: T,
}

impl Masked<MacAddr> {
    /// Returns a value with all bits compared.
    pub const fn exact(value: MacAddr) -> Masked<MacAddr> {
        Masked { value, mask: MacAddr([0xff; 6]) }
    }
}

impl Masked<Ipv4Addr> {
    /// Returns a value with all bits compared.
    pub const fn exact(value: Ipv4Addr) -> Masked<Ipv4Addr> {
        Masked { value, mask: Ipv4Addr::BROADCAST }
    }
}

/// A condition on the outermost VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VlanMatch {
    Untagged,
    Tagged,
    Id(u16),
}

/// The packets of an entry: all given fields must agree; `Match::default()` matches all packets.
/// The switch checks the prerequisites of the specification (an IPv4 address needs the EtherType).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Match {
    pub in_port: Option<PortNo>,
    /// Metadata written by earlier tables.
    pub metadata: Option<Masked<u64>>,
    pub eth_dst: Option<Masked<MacAddr>>,
    pub eth_src: Option<Masked<MacAddr>>,
    pub eth_type: Option<u16>,
    pub vlan: Option<VlanMatch>,
    pub vlan_pcp: Option<u8>,
    pub ip_dscp: Option<u8>,
    pub ip_ecn: Option<u8>,
    pub ip_proto: Option<u8>,
    pub ipv4_src: Option<Masked<Ipv4Addr>>,
    pub ipv4_dst: Option<Masked<Ipv4Addr>>,
    pub tcp_src: Option<u16>,
    pub tcp_dst: Option<u16>,
    pub udp_src: Option<u16>,
    pub udp_dst: Option<u16>,
    pub icmpv4_type: Option<u8>,
    pub icmpv4_code: Option<u8>,
    pub arp_op: Option<u16>,
    pub arp_spa: Option<Masked<Ipv4Addr>>,
    pub arp_tpa: Option<Masked<Ipv4Addr>>,
    /// TCP flags, the lower twelve bits of the field. An extension of the Open Networking
    /// Foundation (EXT-109) that Open vSwitch supports; plain OpenFlow 1.3 has no such field.
    pub tcp_flags: Option<Masked<u16>>,
}
