//! Matches and packets packed into a few words, so that a lookup masks and compares words.

use openflow::{Headers, MacAddr, Masked, Match, PortNo, VlanMatch};

/// Set in the VLAN field of tagged packets (`OFPVID_PRESENT`).
const VLAN_PRESENT: u16 = 0x1000;
const VLAN_ALL: u16 = 0x1fff;

/// All fields that a match can name. Fields that exclude each other share bits: addresses of IPv4
/// and ARP, ports of TCP and UDP, type and code of ICMP. Words that differ most between packets
/// come first, because comparisons stop there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Key([u64; 6]);

impl Key {
    #[inline]
    pub fn of_packet(in_port: PortNo, metadata: u64, headers: &Headers) -> Key {
        Fields {
            in_port: in_port.0,
            metadata,
            eth_dst: headers.eth_dst,
            eth_src: headers.eth_src,
            eth_type: headers.eth_type,
            vlan: headers.vlan.map_or(0, |vid| VLAN_PRESENT | vid & 0x0fff),
            vlan_pcp: headers.vlan_pcp,
            ip_dscp: headers.ip_dscp,
            ip_ecn: headers.ip_ecn,
            ip_proto: headers.ip_proto,
            ip_src: headers.ipv4_src.into(),
            ip_dst: headers.ipv4_dst.into(),
            l4_src: headers.l4_src,
            l4_dst: headers.l4_dst,
            arp_op: headers.arp_op,
            tcp_flags: headers.tcp_flags,
        }
        .pack()
    }

    #[inline]
    pub fn masked(&self, mask: &Key) -> Key {
        Key(std::array::from_fn(|i| self.0[i] & mask.0[i]))
    }
}

/// A match as bits: the compared bits and their values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pattern {
    pub mask: Key,
    pub value: Key,
}

impl Pattern {
    /// Returns the pattern of a match. Two valid matches of the same packets have the same pattern.
    pub fn of(match_: &Match) -> Pattern {
        let (mut value, mut mask) = (Fields::default(), Fields::default());
        let m = match_;
        set(m.in_port.map(|port| (port.0, u32::MAX)), &mut value.in_port, &mut mask.in_port);
        set(m.metadata.map(|Masked { value, mask }| (value, mask)), &mut value.metadata, &mut mask.metadata);
        set(m.eth_dst.map(|mac| (mac.value, mac.mask)), &mut value.eth_dst, &mut mask.eth_dst);
        set(m.eth_src.map(|mac| (mac.value, mac.mask)), &mut value.eth_src, &mut mask.eth_src);
        set(m.eth_type.map(|eth_type| (eth_type, u16::MAX)), &mut value.eth_type, &mut mask.eth_type);
        let vlan = m.vlan.map(|vlan| match vlan {
            VlanMatch::Untagged => (0, VLAN_ALL),
            VlanMatch::Tagged => (VLAN_PRESENT, VLAN_PRESENT),
            VlanMatch::Id(vid) => (VLAN_PRESENT | vid, VLAN_ALL),
        });
        set(vlan, &mut value.vlan, &mut mask.vlan);
        set(m.vlan_pcp.map(|pcp| (pcp, u8::MAX)), &mut value.vlan_pcp, &mut mask.vlan_pcp);
        set(m.ip_dscp.map(|dscp| (dscp, u8::MAX)), &mut value.ip_dscp, &mut mask.ip_dscp);
        set(m.ip_ecn.map(|ecn| (ecn, u8::MAX)), &mut value.ip_ecn, &mut mask.ip_ecn);
        set(m.ip_proto.map(|proto| (proto, u8::MAX)), &mut value.ip_proto, &mut mask.ip_proto);
        let src = m.ipv4_src.or(m.arp_spa).map(|ip| (u32::from(ip.value), u32::from(ip.mask)));
        set(src, &mut value.ip_src, &mut mask.ip_src);
        let dst = m.ipv4_dst.or(m.arp_tpa).map(|ip| (u32::from(ip.value), u32::from(ip.mask)));
        set(dst, &mut value.ip_dst, &mut mask.ip_dst);
        let l4_src = m.tcp_src.or(m.udp_src).or(m.icmpv4_type.map(u16::from));
        set(l4_src.map(|port| (port, u16::MAX)), &mut value.l4_src, &mut mask.l4_src);
        let l4_dst = m.tcp_dst.or(m.udp_dst).or(m.icmpv4_code.map(u16::from));
        set(l4_dst.map(|port| (port, u16::MAX)), &mut value.l4_dst, &mut mask.l4_dst);
        set(m.arp_op.map(|op| (op, u16::MAX)), &mut value.arp_op, &mut mask.arp_op);
        set(m.tcp_flags.map(|flags| (flags.value, flags.mask)), &mut value.tcp_flags, &mut mask.tcp_flags);
        let mask = mask.pack();
        Pattern { mask, value: value.pack().masked(&mask) }
    }

    pub fn is_everything(&self) -> bool {
        self.mask == Key::default()
    }

    pub fn covers(&self, other: &Pattern) -> bool {
        other.mask.masked(&self.mask) == self.mask && other.value.masked(&self.mask) == self.value
    }

    pub fn overlaps(&self, other: &Pattern) -> bool {
        self.value.masked(&other.mask) == other.value.masked(&self.mask)
    }
}

fn set<T>(from: Option<(T, T)>, value: &mut T, mask: &mut T) {
    if let Some((v, m)) = from {
        (*value, *mask) = (v, m);
    }
}

#[derive(Default)]
struct Fields {
    in_port: u32,
    metadata: u64,
    eth_dst: MacAddr,
    eth_src: MacAddr,
    eth_type: u16,
    vlan: u16,
    vlan_pcp: u8,
    ip_dscp: u8,
    ip_ecn: u8,
    ip_proto: u8,
    ip_src: u32,
    ip_dst: u32,
    l4_src: u16,
    l4_dst: u16,
    arp_op: u16,
    tcp_flags: u16,
}

impl Fields {
    #[inline]
    fn pack(&self) -> Key {
        let small = [self.vlan_pcp, self.ip_dscp, self.ip_ecn, self.ip_proto];
        Key([
            u64::from(self.ip_src) << 32 | u64::from(self.ip_dst),
            u64::from(self.l4_src) << 48 | u64::from(self.l4_dst) << 32 | u64::from(self.in_port),
            mac_bits(self.eth_dst) << 16 | u64::from(self.eth_type),
            mac_bits(self.eth_src) << 16 | u64::from(self.vlan),
            self.metadata,
            u64::from(self.tcp_flags) << 48 | u64::from(self.arp_op) << 32 | u64::from(u32::from_be_bytes(small)),
        ])
    }
}

pub fn mac_bits(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}
