//! Which packets an entry is for.

use core::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::ids::PortNo;

/// A value of which only the bits set in `mask` count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Masked<T> {
    /// The value; bits outside the mask must be zero.
    pub value: T,
    /// Which bits count.
    pub mask: T,
}

impl Masked<MacAddr> {
    /// All bits count.
    pub const fn exact(value: MacAddr) -> Masked<MacAddr> {
        Masked { value, mask: MacAddr([0xff; 6]) }
    }
}

impl Masked<Ipv4Addr> {
    /// All bits count.
    pub const fn exact(value: Ipv4Addr) -> Masked<Ipv4Addr> {
        Masked { value, mask: Ipv4Addr::BROADCAST }
    }
}

/// A condition on the outermost VLAN tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VlanMatch {
    /// No tag.
    Untagged,
    /// Any tag.
    Tagged,
    /// A tag of this id.
    Id(u16),
}

/// Which packets an entry is for: all fields given must agree; `Match::default()` is all packets. The specification's
/// prerequisites (an address of IPv4 needs the EtherType) are checked by the switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Match {
    /// Port it came in.
    pub in_port: Option<PortNo>,
    /// What earlier tables noted.
    pub metadata: Option<Masked<u64>>,
    /// Ethernet destination.
    pub eth_dst: Option<Masked<MacAddr>>,
    /// Ethernet source.
    pub eth_src: Option<Masked<MacAddr>>,
    /// EtherType.
    pub eth_type: Option<u16>,
    /// VLAN tag.
    pub vlan: Option<VlanMatch>,
    /// VLAN priority.
    pub vlan_pcp: Option<u8>,
    /// DSCP.
    pub ip_dscp: Option<u8>,
    /// ECN.
    pub ip_ecn: Option<u8>,
    /// IP protocol.
    pub ip_proto: Option<u8>,
    /// IPv4 source.
    pub ipv4_src: Option<Masked<Ipv4Addr>>,
    /// IPv4 destination.
    pub ipv4_dst: Option<Masked<Ipv4Addr>>,
    /// TCP source port.
    pub tcp_src: Option<u16>,
    /// TCP destination port.
    pub tcp_dst: Option<u16>,
    /// UDP source port.
    pub udp_src: Option<u16>,
    /// UDP destination port.
    pub udp_dst: Option<u16>,
    /// ICMP type.
    pub icmpv4_type: Option<u8>,
    /// ICMP code.
    pub icmpv4_code: Option<u8>,
    /// ARP operation.
    pub arp_op: Option<u16>,
    /// ARP sender's protocol address.
    pub arp_spa: Option<Masked<Ipv4Addr>>,
    /// ARP target's protocol address.
    pub arp_tpa: Option<Masked<Ipv4Addr>>,
    /// Control bits of TCP, the lower twelve of the field. An extension of the Open Networking Foundation (EXT-109), which
    /// Open vSwitch takes; plain OpenFlow 1.3 has no such field.
    pub tcp_flags: Option<Masked<u16>>,
}
