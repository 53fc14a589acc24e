//! Strategies for parts of messages: numbers, matches, actions.

use std::net::Ipv4Addr;

use anabranch_openflow::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..80)
}

pub fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

pub fn port() -> impl Strategy<Value = PortNo> {
    prop_oneof![1..64u32, 0xffff_fff8..=u32::MAX, any::<u32>()].prop_map(PortNo)
}

pub fn group() -> impl Strategy<Value = GroupId> {
    prop_oneof![Just(GroupId::ALL), Just(GroupId::ANY), any::<u32>().prop_map(GroupId)]
}

pub fn table() -> impl Strategy<Value = TableId> {
    any::<u8>().prop_map(TableId)
}

pub fn duration() -> impl Strategy<Value = u64> {
    let max = u64::from(u32::MAX) * 1_000_000_000 + u64::from(u32::MAX);
    prop_oneof![0..1u64 << 40, 0..=max, Just(max)]
}

/// Returns strings that fit into `size` bytes with their final zero.
pub fn text(size: usize) -> impl Strategy<Value = String> {
    vec(prop_oneof![4 => proptest::char::range('a', 'z'), 1 => any::<char>()], 0..size.min(40)).prop_map(
        move |characters| {
            let mut text = String::new();
            for character in characters {
                if character != '\0' && text.len() + character.len_utf8() < size {
                    text.push(character);
                }
            }
            text
        },
    )
}

pub fn masked_number() -> impl Strategy<Value = Masked<u64>> {
    (any::<u64>(), prop_oneof![Just(u64::MAX), any::<u64>()])
        .prop_map(|(value, mask)| Masked { value: value & mask, mask })
}

pub fn masked_mac() -> impl Strategy<Value = Masked<MacAddr>> {
    (any::<[u8; 6]>(), prop_oneof![Just([0xff; 6]), any::<[u8; 6]>()]).prop_map(|(value, mask)| {
        let value = core::array::from_fn(|at| value[at] & mask[at]);
        Masked { value: MacAddr(value), mask: MacAddr(mask) }
    })
}

pub fn masked_ip() -> impl Strategy<Value = Masked<Ipv4Addr>> {
    (any::<u32>(), prop_oneof![Just(u32::MAX), any::<u32>()])
        .prop_map(|(value, mask)| Masked { value: (value & mask).into(), mask: mask.into() })
}

pub fn vlan() -> impl Strategy<Value = VlanMatch> {
    prop_oneof![Just(VlanMatch::Untagged), Just(VlanMatch::Tagged), (0..4096u16).prop_map(VlanMatch::Id)]
}

pub fn match_() -> impl Strategy<Value = Match> {
    let ethernet = (option::of(masked_mac()), option::of(masked_mac()), option::of(any::<u16>()));
    let tag = (option::of(vlan()), option::of(0..8u8));
    let ip = (option::of(0..64u8), option::of(0..4u8), option::of(any::<u8>()));
    let addresses = proptest::array::uniform4(option::of(masked_ip()));
    let words = proptest::array::uniform5(option::of(any::<u16>()));
    let icmp = [option::of(any::<u8>()), option::of(any::<u8>())];
    let flags = (any::<u16>(), prop_oneof![Just(0xfff), 0..0x1000u16])
        .prop_map(|(value, mask)| Masked { value: value & mask, mask });
    let metadata = (option::of(port()), option::of(masked_number()), option::of(flags));
    (metadata, ethernet, tag, ip, addresses, words, icmp).prop_map(
        |(
            (in_port, metadata, tcp_flags),
            (eth_dst, eth_src, eth_type),
            (vlan, vlan_pcp),
            (ip_dscp, ip_ecn, ip_proto),
            [ipv4_src, ipv4_dst, arp_spa, arp_tpa],
            [tcp_src, tcp_dst, udp_src, udp_dst, arp_op],
            [icmpv4_type, icmpv4_code],
        )| Match {
            in_port,
            metadata,
            eth_dst,
            eth_src,
            eth_type,
            vlan,
            vlan_pcp,
            ip_dscp,
            ip_ecn,
            ip_proto,
            ipv4_src,
            ipv4_dst,
            tcp_src,
            tcp_dst,
            udp_src,
            udp_dst,
            icmpv4_type,
            icmpv4_code,
            arp_op,
            arp_spa,
            arp_tpa,
            tcp_flags,
        },
    )
}

pub fn set_field() -> impl Strategy<Value = SetField> {
    let ip = || any::<u32>().prop_map(Ipv4Addr::from);
    prop_oneof![
        mac().prop_map(SetField::EthDst),
        mac().prop_map(SetField::EthSrc),
        (0..4096u16).prop_map(SetField::VlanVid),
        (0..8u8).prop_map(SetField::VlanPcp),
        (0..64u8).prop_map(SetField::IpDscp),
        (0..4u8).prop_map(SetField::IpEcn),
        ip().prop_map(SetField::Ipv4Src),
        ip().prop_map(SetField::Ipv4Dst),
        any::<u16>().prop_map(SetField::TcpSrc),
        any::<u16>().prop_map(SetField::TcpDst),
        any::<u16>().prop_map(SetField::UdpSrc),
        any::<u16>().prop_map(SetField::UdpDst),
    ]
}

fn bundle() -> impl Strategy<Value = Bundle> {
    let members = proptest::collection::vec((1..0xff00u32).prop_map(PortNo), 1..=Bundle::MEMBERS_MAX);
    (any::<u16>(), members).prop_map(|(basis, ports)| Bundle::new(basis, ports).expect("physical ports, not too many"))
}

pub fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        (port(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        group().prop_map(Action::Group),
        set_field().prop_map(Action::SetField),
        any::<u16>().prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        Just(Action::PushIpv4),
        any::<u32>().prop_map(Action::SetQueue),
        Just(Action::DecNwTtl),
        bundle().prop_map(Action::Bundle),
    ]
}

pub fn actions() -> impl Strategy<Value = Vec<Action>> {
    vec(action(), 0..4)
}

pub fn instructions() -> impl Strategy<Value = Instructions> {
    let meter = option::of(any::<u32>());
    (meter, actions(), any::<bool>(), actions(), option::of(masked_number()), option::of(table())).prop_map(
        |(meter, apply, clear, write, metadata, goto)| Instructions { meter, apply, clear, write, metadata, goto },
    )
}

pub fn buckets() -> impl Strategy<Value = Vec<Bucket>> {
    let bucket = (any::<u16>(), port(), group(), actions())
        .prop_map(|(weight, watch_port, watch_group, actions)| Bucket { weight, watch_port, watch_group, actions });
    vec(bucket, 0..4)
}
