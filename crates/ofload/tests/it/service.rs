//! Connections to a virtual address, against correct and faulty controllers.

use std::net::Ipv4Addr;

use crate::common::{Behaviour, ONE, Replies, between, echo_packet, measure_one, send, star, start};
use anabranch_ofload::{Error, Load, Options, Report, ResponseCriterion};
use openflow::frame::arp_reply;
use openflow::headers::ether;
use openflow::{Action, Headers, MacAddr, Message, PacketIn, PortNo, SetField};

const VIRTUAL: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
const INTERFACE: MacAddr = MacAddr([6, 0, 0, 0, 0, 1]);

fn run(answering: Replies) -> Result<Report, Error> {
    let options = star(&start(Behaviour::Replies(answering)), 4, 5, Load::Window(8));
    measure_one(Options { response: ResponseCriterion::Service(VIRTUAL), ..options }, ONE)
}

/// Sends the ARP reply, or both rules of a connection and its first packet; the address of a host
/// encodes its location.
fn serve(packet: &PacketIn, headers: &Headers, source: Ipv4Addr) -> Vec<Message> {
    if headers.eth_type == ether::ARP {
        let reply = arp_reply(INTERFACE, VIRTUAL, headers.eth_src, headers.ipv4_src);
        return vec![send(packet, PortNo::IN_PORT, reply)];
    }
    let (client, [_, a, b, number]) = (headers.ipv4_src, headers.ipv4_src.octets());
    let other = number % 5 + 1;
    let member = Ipv4Addr::new(10, a, b, other);
    let set = Action::SetField;
    let to_member = vec![
        set(SetField::EthDst(MacAddr([2, 0, a, b, 0, other]))),
        set(SetField::Ipv4Dst(member)),
        set(SetField::TcpDst(80)),
        Action::output(PortNo(u32::from(other))),
    ];
    let to_client = vec![
        set(SetField::Ipv4Src(source)),
        set(SetField::TcpSrc(headers.l4_dst)),
        Action::output(PortNo(u32::from(number))),
    ];
    vec![
        between([member, client], [80, headers.l4_src], to_client),
        between([client, VIRTUAL], [headers.l4_src, headers.l4_dst], to_member),
        send(packet, PortNo::TABLE, packet.data.clone()),
    ]
}

#[test]
fn connections_reach_member_and_return() {
    let report = run(|packet, headers, _| serve(packet, headers, VIRTUAL)).unwrap();
    let (counts, carried) = (report.counts, report.carried.unwrap());
    assert!(counts.answered > 1_000, "{counts:?}");
    assert_eq!((counts.answered, counts.flow_mods), (counts.packet_ins, 2 * counts.packet_ins), "{counts:?}");
    assert_eq!((counts.unanswered, counts.duplicates, counts.unmatched, counts.errors), (0, 0, 0, 0), "{counts:?}");
    assert!(carried.sent_on > counts.answered / 32, "{carried:?}");
    assert_eq!((carried.delivered, carried.returned, carried.wrong), (carried.sent_on, carried.sent_on, 0));
}

#[test]
fn replies_from_member_address_are_wrong() {
    let report = run(|packet, headers, _| serve(packet, headers, Ipv4Addr::new(10, 0, 1, 1))).unwrap();
    let carried = report.carried.unwrap();
    assert!(carried.sent_on > 0 && carried.delivered == carried.sent_on, "{carried:?}");
    assert_eq!((carried.returned, carried.wrong), (0, carried.sent_on));
}

#[test]
fn missing_rules_are_detected() {
    let report = run(|packet, headers, _| match serve(packet, headers, VIRTUAL) {
        mut messages if headers.eth_type == ether::IPV4 => messages.split_off(2),
        messages => messages,
    });
    let carried = report.unwrap().carried.unwrap();
    assert!(carried.sent_on > 0, "{carried:?}");
    assert_eq!((carried.delivered, carried.returned), (0, 0), "{carried:?}");
}

#[test]
fn address_without_arp_reply_is_named() {
    let error = run(|packet, headers, _| match headers.eth_type {
        ether::ARP => Vec::new(),
        _ => vec![echo_packet(packet)],
    });
    assert!(matches!(error, Err(Error::NoService { address: VIRTUAL })), "{error:?}");
}
