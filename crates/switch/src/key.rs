//! Matches and packets packed into a few words, so that a lookup masks and compares words.

use core::net::Ipv4Addr;
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

    /// Returns a number that is equal for equal keys, and seldom for others.
    #[inline]
    pub fn digest(&self) -> u64 {
        self.0.iter().fold(0, |digest, word| {
            let mixed = (digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ mixed >> 32
        })
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

    /// Returns the match of a pattern with the fields and masks of `form`, whose values do not count.
    pub fn to_match(value: &Key, form: &Match) -> Match {
        let f = Fields::unpack(value);
        let ip = |field: Option<Masked<Ipv4Addr>>, bits: u32| field.map(|m| Masked { value: bits.into(), ..m });
        Match {
            in_port: form.in_port.map(|_| PortNo(f.in_port)),
            metadata: form.metadata.map(|m| Masked { value: f.metadata, ..m }),
            eth_dst: form.eth_dst.map(|m| Masked { value: f.eth_dst, ..m }),
            eth_src: form.eth_src.map(|m| Masked { value: f.eth_src, ..m }),
            eth_type: form.eth_type.map(|_| f.eth_type),
            vlan: form.vlan.map(|vlan| match vlan {
                VlanMatch::Id(_) => VlanMatch::Id(f.vlan & !VLAN_PRESENT),
                other => other,
            }),
            vlan_pcp: form.vlan_pcp.map(|_| f.vlan_pcp),
            ip_dscp: form.ip_dscp.map(|_| f.ip_dscp),
            ip_ecn: form.ip_ecn.map(|_| f.ip_ecn),
            ip_proto: form.ip_proto.map(|_| f.ip_proto),
            ipv4_src: ip(form.ipv4_src, f.ip_src),
            ipv4_dst: ip(form.ipv4_dst, f.ip_dst),
            tcp_src: form.tcp_src.map(|_| f.l4_src),
            tcp_dst: form.tcp_dst.map(|_| f.l4_dst),
            udp_src: form.udp_src.map(|_| f.l4_src),
            udp_dst: form.udp_dst.map(|_| f.l4_dst),
            icmpv4_type: form.icmpv4_type.map(|_| f.l4_src as u8),
            icmpv4_code: form.icmpv4_code.map(|_| f.l4_dst as u8),
            arp_op: form.arp_op.map(|_| f.arp_op),
            arp_spa: ip(form.arp_spa, f.ip_src),
            arp_tpa: ip(form.arp_tpa, f.ip_dst),
            tcp_flags: form.tcp_flags.map(|m| Masked { value: f.tcp_flags, ..m }),
        }
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
    fn unpack(key: &Key) -> Fields {
        let [ip, l4, dst, src, metadata, last] = key.0;
        let [vlan_pcp, ip_dscp, ip_ecn, ip_proto] = (last as u32).to_be_bytes();
        let mac = |bits: u64| {
            let [_, _, a, b, c, d, e, f] = bits.to_be_bytes();
            MacAddr([a, b, c, d, e, f])
        };
        Fields {
            in_port: l4 as u32,
            metadata,
            eth_dst: mac(dst >> 16),
            eth_src: mac(src >> 16),
            eth_type: dst as u16,
            vlan: src as u16,
            vlan_pcp,
            ip_dscp,
            ip_ecn,
            ip_proto,
            ip_src: (ip >> 32) as u32,
            ip_dst: ip as u32,
            l4_src: (l4 >> 48) as u16,
            l4_dst: (l4 >> 32) as u16,
            arp_op: (last >> 32) as u16,
            tcp_flags: (last >> 48) as u16,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field, each set with its prerequisites or alone: the layout does not depend on them.
    fn matches() -> Vec<Match> {
        let ip = |bits: u32, mask: u32| Some(Masked { value: Ipv4Addr::from(bits), mask: Ipv4Addr::from(mask) });
        let mac = |byte| {
            Some(Masked { value: MacAddr([byte, 0, 3, 4, 5, 0]), mask: MacAddr([0xff, 0, 0xff, 0xff, 0xff, 0]) })
        };
        let none = Match::default();
        vec![
            none,
            Match { in_port: Some(PortNo(7)), metadata: Some(Masked { value: 5 << 40, mask: 7 << 40 }), ..none },
            Match { eth_dst: mac(9), eth_src: mac(8), eth_type: Some(0x800), ..none },
            Match { vlan: Some(VlanMatch::Id(0xabc)), vlan_pcp: Some(7), ..none },
            Match { vlan: Some(VlanMatch::Untagged), ip_dscp: Some(46), ip_ecn: Some(3), ip_proto: Some(6), ..none },
            Match { vlan: Some(VlanMatch::Tagged), ipv4_src: ip(0x0a00_0100, 0xffff_ff00), ..none },
            Match { ipv4_dst: ip(0x0a00_0101, u32::MAX), tcp_src: Some(80), tcp_dst: Some(65_535), ..none },
            Match { udp_src: Some(1), udp_dst: Some(2), ..none },
            Match { icmpv4_type: Some(8), icmpv4_code: Some(255), ..none },
            Match { arp_op: Some(2), arp_spa: ip(1, u32::MAX), arp_tpa: ip(2, u32::MAX), ..none },
            Match { tcp_flags: Some(Masked { value: 2, mask: 0x12 }), ..none },
        ]
    }

    #[test]
    fn matches_return_from_their_values_and_forms() {
        for match_ in matches() {
            let form = Pattern::to_match(&Key::default(), &match_);
            assert_eq!(Pattern::to_match(&Pattern::of(&match_).value, &form), match_);
            assert_eq!(Pattern::of(&form).mask, Pattern::of(&match_).mask);
        }
    }
}
