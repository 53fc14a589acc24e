//! The packet headers that switches match.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `oxm_ofb_match_fields`")]

use core::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::frame::flags;

/// EtherTypes in use.
pub mod ether {
    pub const IPV4: u16 = 0x0800;
    pub const ARP: u16 = 0x0806;
    pub const VLAN: u16 = 0x8100;
    pub const LLDP: u16 = 0x88cc;
}

/// IP protocol numbers in use.
pub mod protocol {
    pub const ICMP: u8 = 1;
    /// IPv4 in IPv4 (RFC 2003).
    pub const IP_IN_IP: u8 = 4;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
}

/// The header fields of one packet that a match can name, including the outermost VLAN tag. Fields
/// that a packet does not have are zero: EtherType and protocol determine which exist.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Headers {
    pub eth_dst: MacAddr,
    pub eth_src: MacAddr,
    /// EtherType after all VLAN tags.
    pub eth_type: u16,
    /// VLAN id of the outermost tag; `None` if untagged.
    pub vlan: Option<u16>,
    pub vlan_pcp: u8,
    /// Upper six bits of the traffic class.
    pub ip_dscp: u8,
    /// Lower two bits of the traffic class.
    pub ip_ecn: u8,
    pub ip_proto: u8,
    /// Source (IPv4), or the sender's protocol address (ARP).
    pub ipv4_src: Ipv4Addr,
    /// Destination (IPv4), or the target's protocol address (ARP).
    pub ipv4_dst: Ipv4Addr,
    /// Source port (TCP, UDP), or type (ICMP).
    pub l4_src: u16,
    /// Destination port (TCP, UDP), or code (ICMP).
    pub l4_dst: u16,
    pub arp_op: u16,
    /// Flags (TCP): FIN is the lowest of the twelve.
    pub tcp_flags: u16,
}

impl Headers {
    /// Returns the headers of an untagged IPv4 packet with ports; of each pair the source comes
    /// first. TCP has the ACK flag, as in an established connection.
    pub fn ipv4(macs: [MacAddr; 2], addresses: [Ipv4Addr; 2], ip_proto: u8, ports: [u16; 2]) -> Headers {
        let ([eth_src, eth_dst], [ipv4_src, ipv4_dst], [l4_src, l4_dst]) = (macs, addresses, ports);
        let tcp_flags = if ip_proto == protocol::TCP { u16::from(flags::ACK) } else { 0 };
        Headers {
            eth_dst,
            eth_src,
            eth_type: ether::IPV4,
            ip_proto,
            ipv4_src,
            ipv4_dst,
            l4_src,
            l4_dst,
            tcp_flags,
            ..Headers::default()
        }
    }
}

impl Default for Headers {
    fn default() -> Headers {
        Headers {
            eth_dst: MacAddr::default(),
            eth_src: MacAddr::default(),
            eth_type: 0,
            vlan: None,
            vlan_pcp: 0,
            ip_dscp: 0,
            ip_ecn: 0,
            ip_proto: 0,
            ipv4_src: Ipv4Addr::UNSPECIFIED,
            ipv4_dst: Ipv4Addr::UNSPECIFIED,
            l4_src: 0,
            l4_dst: 0,
            arp_op: 0,
            tcp_flags: 0,
        }
    }
}
