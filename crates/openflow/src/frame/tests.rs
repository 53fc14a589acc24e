use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::build::transport_checksum;
use super::layout::Layout;
use super::*;
use crate::address::MacAddr;
use crate::headers::{ether, protocol};
use crate::ids::{DatapathId, PortNo};

#[test]
fn checksums_known_from_elsewhere() {
    // RFC 1071, section 3: the sum of these is ddf2.
    assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    // An IPv4 header from many textbooks, without its checksum.
    let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
    assert_eq!(checksum(&header), 0xb861);
    assert_eq!(checksum(&[0xab]), !0xab00, "an odd byte is the upper half of a word");
}

fn assert_checksums(frame: &[u8]) {
    let layout = Layout::of(frame).expect("a frame");
    if layout.headers.eth_type != ether::IPV4 {
        return;
    }
    let header_len = usize::from(frame[layout.payload] & 0xf) * 4;
    assert_eq!(checksum(&frame[layout.payload..layout.payload + header_len]), 0, "{frame:02x?}");
    let Some(at) = layout.transport else { return };
    match layout.headers.ip_proto {
        protocol::ICMP => assert_eq!(checksum(&frame[at..]), 0),
        _ => assert_eq!(transport_checksum(&layout.headers, &frame[at..]), 0, "{frame:02x?}"),
    }
}

fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

prop_compose! {
    fn ethernet_part()(eth_dst in mac(), eth_src in mac(), vlan in prop::option::of(0u16..4096), pcp in 0u8..8) -> Headers {
        Headers { eth_dst, eth_src, vlan, vlan_pcp: if vlan.is_some() { pcp } else { 0 }, ..Headers::default() }
    }
}

prop_compose! {
    fn ipv4_part()(
        base in ethernet_part(),
        ip_dscp in 0u8..64,
        ip_ecn in 0u8..4,
        ip_proto in prop_oneof![Just(protocol::TCP), Just(protocol::UDP), Just(protocol::ICMP), Just(99u8)],
        ipv4_src in address(),
        ipv4_dst in address(),
        ports in any::<(u16, u16)>(),
        flags in 0u16..0x1000,
    ) -> Headers {
        let (l4_src, l4_dst) = match ip_proto {
            protocol::ICMP => (ports.0 & 0xff, ports.1 & 0xff),
            99 => (0, 0),
            _ => ports,
        };
        let tcp_flags = if ip_proto == protocol::TCP { flags } else { 0 };
        let base = Headers { eth_type: ether::IPV4, ip_dscp, ip_ecn, ip_proto, tcp_flags, ..base };
        Headers { ipv4_src, ipv4_dst, l4_src, l4_dst, ..base }
    }
}

fn headers() -> impl Strategy<Value = Headers> {
    prop_oneof![
        4 => ipv4_part(),
        1 => (ethernet_part(), address(), address(), any::<u16>()).prop_map(|(base, ipv4_src, ipv4_dst, arp_op)| Headers {
            eth_type: ether::ARP, ipv4_src, ipv4_dst, arp_op, ..base
        }),
        1 => (ethernet_part(), 0x9000u16..0xffff).prop_map(|(base, eth_type)| Headers { eth_type, ..base }),
    ]
}

proptest! {
    #[test]
    fn what_is_built_is_read_again(headers in headers(), payload in 0usize..300) {
        let frame = build(&headers, payload);
        prop_assert_eq!(parse(&frame), Ok(headers));
        assert_checksums(&frame);
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused_or_read_the_same(headers in headers()) {
        let frame = build(&headers, 30);
        for len in 0..frame.len() {
            match parse(&frame[..len]) {
                Ok(read) => prop_assert_eq!(read, headers),
                Err(error) => {
                    let is_truncated = matches!(error, FrameError::Truncated { len: said, .. } if said == len);
                    prop_assert!(is_truncated);
                    prop_assert!(rewrite(&frame[..len], &headers).is_err());
                }
            }
        }
    }

    #[test]
    fn bytes_of_any_kind_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), headers in headers()) {
        prop_assert_eq!(parse(&bytes).is_ok(), rewrite(&bytes, &headers).is_ok());
        let _ = Lldp::parse(&bytes);
    }

    #[test]
    fn damaged_packets_are_answered_or_not_but_do_not_panic(
        headers in headers(),
        payload in 0usize..40,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        len in any::<prop::sample::Index>(),
    ) {
        let mut frame = build(&Headers { eth_type: ether::IPV4, vlan: None, ..headers }, payload);
        for (at, byte) in &damage {
            let at = at.index(frame.len());
            frame[at] = *byte;
        }
        frame.truncate(len.index(frame.len() + 1));
        let answers = [tcp_reset(&frame), icmp_unreachable(&frame, Unreachable::Port)];
        prop_assert!(answers.iter().flatten().all(|answer| parse(answer).is_ok()));
        let _ = (segment(&frame), echo(&frame));
    }

    #[test]
    fn rewritten_headers_are_read_again(from in ipv4_part(), to in ipv4_part(), payload in 0usize..60) {
        // No action changes these fields.
        let to = Headers { ip_proto: from.ip_proto, tcp_flags: from.tcp_flags, ..to };
        let to = match from.ip_proto {
            protocol::TCP | protocol::UDP => to,
            _ => Headers { l4_src: from.l4_src, l4_dst: from.l4_dst, ..to },
        };
        let frame = build(&from, payload);
        let changed = rewrite(&frame, &to).expect("a frame");
        prop_assert_eq!(parse(&changed), Ok(to));
        assert_checksums(&changed);
        prop_assert_eq!(rewrite(&changed, &from).expect("a frame"), frame, "and back");
    }

    #[test]
    fn discovery_packets_are_read_again(datapath in any::<u64>(), port in any::<u32>(), ttl_s in any::<u16>(), nonce in any::<u64>()) {
        let lldp = Lldp { datapath: DatapathId(datapath), port: PortNo(port), ttl_s, nonce };
        let frame = lldp.build(MacAddr([2, 0, 0, 0, 0, 1]));
        prop_assert_eq!(Lldp::parse(&frame), Ok(lldp));
        prop_assert_eq!(parse(&frame).map(|headers| headers.eth_type), Ok(ether::LLDP));
        for len in 0..frame.len() {
            prop_assert!(Lldp::parse(&frame[..len]).is_err());
        }
    }
}

fn udp() -> Headers {
    Headers {
        eth_type: ether::IPV4,
        ip_proto: protocol::UDP,
        ipv4_src: Ipv4Addr::new(10, 0, 0, 1),
        ipv4_dst: Ipv4Addr::new(10, 0, 0, 2),
        l4_src: 1000,
        l4_dst: 2000,
        ..Headers::default()
    }
}

#[test]
fn outer_header_is_before_the_unchanged_packet() {
    let (frame, [src, dst]) = (build(&udp(), 9), [Ipv4Addr::new(10, 9, 9, 9), Ipv4Addr::new(10, 0, 0, 2)]);
    let outer = Headers { ip_proto: protocol::IP_IN_IP, ipv4_src: src, ipv4_dst: dst, l4_src: 0, l4_dst: 0, ..udp() };
    let padded = [&frame[..], &[0; 5]].concat();
    let changed = rewrite(&padded, &outer).expect("a frame");
    assert_eq!(parse(&changed), Ok(outer));
    assert_checksums(&changed);
    assert_eq!((&changed[16..18], &changed[34..]), (&u16::to_be_bytes(20 + 20 + 8 + 9)[..], &frame[14..]));
    assert_eq!(rewrite(&changed, &outer), Ok(changed), "it is not added twice");
}

#[test]
fn options_are_stepped_over_and_later_fragments_have_no_ports() {
    let mut frame = build(&udp(), 10);
    frame.splice(34..34, [1, 1, 1, 1]);
    frame[14] = 0x46;
    frame[17] += 4;
    assert_eq!(parse(&frame), Ok(udp()));
    frame[21] = 1;
    let fragment = Headers { l4_src: 0, l4_dst: 0, ..udp() };
    assert_eq!(parse(&frame), Ok(fragment));
    let changed = rewrite(&frame, &Headers { l4_dst: 9, ..fragment }).expect("a frame");
    assert_eq!(changed, frame, "there are no ports to change");
}

#[test]
fn udp_without_checksum_stays_without() {
    let mut frame = build(&udp(), 0);
    frame[40..42].copy_from_slice(&[0, 0]);
    let changed = rewrite(&frame, &Headers { ipv4_dst: Ipv4Addr::new(10, 9, 9, 9), ..udp() }).expect("a frame");
    assert_eq!(changed[40..42], [0, 0]);
}

#[test]
fn stacked_tags_show_the_outermost_and_the_type_after_all() {
    let inner = build(&Headers { vlan: Some(7), ..udp() }, 0);
    let mut frame = inner.clone();
    frame.splice(12..12, [0x88, 0xa8, 0x60, 0x05]);
    assert_eq!(parse(&frame), Ok(Headers { vlan: Some(5), vlan_pcp: 3, ..udp() }));
    assert_eq!(rewrite(&frame, &udp()).expect("a frame"), inner, "the outermost is removed");
}

#[test]
fn contradictions_are_named() {
    let frame = build(&udp(), 0);
    for (at, byte, message) in [
        (14, 0x65, "IPv4: the version is not 4"),
        (14, 0x44, "IPv4: the header length is below 20 bytes"),
        (17, 19, "IPv4: the total length is below that of the header"),
        (17, 24, "the frame ends after 38 bytes inside its UDP header"),
    ] {
        let mut frame = frame.clone();
        frame[at] = byte;
        assert_eq!(parse(&frame).map_err(|error| error.to_string()), Err(message.to_string()));
    }
    let arp = arp_request(MacAddr([2; 6]), Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    assert_eq!(Lldp::parse(&arp).map_err(|error| error.to_string()), Err("LLDP: the EtherType is another one".into()));
}

#[test]
fn arp_asks_everyone_and_answers_one() {
    let (mine, yours) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let (my_ip, your_ip) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let request = parse(&arp_request(mine, my_ip, your_ip)).expect("a frame");
    assert_eq!((request.eth_dst, request.eth_src, request.arp_op), (MacAddr::BROADCAST, mine, 1));
    assert_eq!((request.ipv4_src, request.ipv4_dst), (my_ip, your_ip));
    let frame = arp_reply(yours, your_ip, mine, my_ip);
    let reply = parse(&frame).expect("a frame");
    assert_eq!((reply.eth_dst, reply.eth_src, reply.arp_op), (mine, yours, 2));
    assert_eq!((reply.ipv4_src, reply.ipv4_dst), (your_ip, my_ip));
    assert_eq!(frame[22..28], yours.0, "the sender's hardware address, which hosts learn from");
    assert_eq!(frame[32..38], mine.0);
}
