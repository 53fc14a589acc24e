//! Claims of addresses: a host moves only if it has left its port, and no other host takes its
//! traffic.

use crate::common::{TestNetwork, config_for, fat_tree, ip, is_arp, mac, quiet, udp};
use crate::services::{VIP, all_protocols, set};
use anabranch_control::{AddressConflict, Config, Event, KnownHost};
use net::{HostIx, Time};
use openflow::{MacAddr, frame};

const VICTIM: u32 = 5;
const ATTACKER: u32 = 12;

/// Returns a network that has learned all hosts.
fn learned() -> TestNetwork {
    let mut network = TestNetwork::without_hosts(Config::default());
    (0..16).for_each(|host| network.announce(host));
    network.run_and_settle(Time::from_ms(100));
    assert!(network.unreached().is_empty());
    network.to_hosts.clear();
    network
}

fn conflicts(network: &TestNetwork) -> Vec<(KnownHost, KnownHost, AddressConflict)> {
    let conflict = |event: &Event| match event {
        Event::AddressConflict { host, claim, why } => Some((*host, *claim, *why)),
        _ => None,
    };
    network.events.iter().filter_map(|(_, event)| conflict(event)).collect()
}

fn assert_conflict(network: &TestNetwork, why: AddressConflict) {
    let hosts = KnownHost::all_of(&network.topology);
    let (victim, attacker) = (hosts[VICTIM as usize], hosts[ATTACKER as usize]);
    let claim = KnownHost { mac: mac(ATTACKER), datapath: attacker.datapath, port: attacker.port, ..victim };
    assert_eq!(conflicts(network), [(victim, claim, why)], "one alarm, which names both ports");
}

fn flow_mods(network: &TestNetwork) -> u64 {
    network.controller.tally().flow_mods
}

/// Once, one gratuitous ARP request was enough, and two hosts with one address caused 1,200
/// flow-mods in 5 s.
#[test]
fn duplicate_address_is_an_alarm_and_changes_no_rule() {
    let mut network = learned();
    let before = flow_mods(&network);
    for _ in 0..100 {
        network.announce_at(ATTACKER, mac(ATTACKER), ip(VICTIM));
        network.run_answering(Time::from_ms(25));
        network.announce(VICTIM);
        network.run_answering(Time::from_ms(25));
        assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(VICTIM)));
    }
    assert_conflict(&network, AddressConflict::Duplicate);
    assert_eq!(flow_mods(&network), before);
    // An IPv4 packet is no better.
    let (_, headers) = switch::testing::packet(&network.topology, &udp(VICTIM, 0, 9));
    network.transmit(HostIx(ATTACKER), frame::build(&headers, 100), None);
    network.run_answering(Time::from_s(3));
    assert_eq!((flow_mods(&network), conflicts(&network).len()), (before, 1));
}

#[test]
fn silent_host_has_moved_after_a_second() {
    let mut network = learned();
    network.announce_at(ATTACKER, mac(VICTIM), ip(VICTIM));
    network.run(Time::from_ms(740));
    let requests: Vec<HostIx> = network.receivers_of_arp(1);
    assert_eq!(requests, [HostIx(VICTIM); 3], "it is asked where it was");
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(VICTIM)));
    network.run_and_settle(Time::from_ms(20));
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(ATTACKER)));
    assert!(conflicts(&network).is_empty());
    network.assert_exact();
}

#[test]
fn host_with_a_dead_port_moves_at_once() {
    let mut network = learned();
    network.set_cable(network.uplink(VICTIM), false);
    network.run(Time::from_ms(5));
    network.announce_at(ATTACKER, mac(VICTIM), ip(VICTIM));
    network.run_and_settle(Time::from_ms(10));
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(ATTACKER)));
    // The port may also go down after the announcement.
    network.announce_at(8, mac(VICTIM), ip(VICTIM));
    network.run(Time::from_ms(100));
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(ATTACKER)), "it may be there");
    network.set_cable(network.uplink(ATTACKER), false);
    network.run_and_settle(Time::from_ms(10));
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(8)));
    network.assert_exact();
}

#[test]
fn host_with_a_new_ethernet_address_is_asked_at_the_old_one() {
    let mut network = learned();
    let new = MacAddr([2, 9, 9, 9, 9, 9]);
    network.announce_at(VICTIM, new, ip(VICTIM));
    network.run_answering(Time::from_s(1));
    let mac_now = |network: &TestNetwork| network.controller.inspect().find_host(ip(VICTIM)).map(|host| host.mac);
    assert_eq!(mac_now(&network), Some(mac(VICTIM)), "both are there");
    network.run(Time::from_s(2));
    network.announce_at(VICTIM, new, ip(VICTIM));
    network.run(Time::from_s(1));
    assert_eq!(mac_now(&network), Some(new));
}

#[test]
fn pinned_host_never_moves() {
    let config = Config { pins_hosts: true, ..config_for(&fat_tree()) };
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), crate::common::AMPLE).connected();
    let before = flow_mods(&network);
    network.set_cable(network.uplink(VICTIM), false);
    network.run(Time::from_ms(10));
    for _ in 0..10 {
        network.announce_at(ATTACKER, mac(ATTACKER), ip(VICTIM));
        network.run(Time::from_s(1));
    }
    assert_conflict(&network, AddressConflict::Pinned);
    network.set_cable(network.uplink(VICTIM), true);
    network.run_and_settle(Time::from_ms(10));
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(VICTIM)));
    assert!(flow_mods(&network) - before <= 40, "only its port went down and up");
}

/// Two hosts that take turns cannot keep the network busy.
#[test]
fn address_that_keeps_moving_is_damped() {
    let mut network = learned();
    for turn in 0..60 {
        network.move_to([ATTACKER, 8][turn % 2], mac(VICTIM), ip(VICTIM));
    }
    let moves = network.count_events(|event| matches!(event, Event::Host(host) if host.ipv4 == ip(VICTIM)));
    assert!((4..=10).contains(&moves), "60 claims in 45 s moved it {moves} times");
    assert!(conflicts(&network).iter().any(|(_, _, why)| *why == AddressConflict::Flapping));
    network.run(Time::from_s(30));
    network.move_to(3, mac(VICTIM), ip(VICTIM));
    network.settle();
    assert_eq!(network.deliver(udp(0, VICTIM, 1)), Some(HostIx(3)), "it has been quiet");
}

fn replies_to(network: &TestNetwork, host: u32) -> usize {
    network.to_hosts.iter().filter(|(at, bytes)| *at == HostIx(host) && is_arp(bytes, 2)).count()
}

/// Receivers store the sender's address of an ARP request, too.
#[test]
fn forged_arp_packets_are_not_relayed() {
    let mut network = learned();
    set(&mut network, all_protocols());
    network.settle();
    network.to_hosts.clear();
    let unknown = core::net::Ipv4Addr::new(10, 77, 0, 1);
    for address in [VIP, ip(VICTIM)] {
        network.transmit(HostIx(ATTACKER), frame::arp_reply(mac(ATTACKER), address, mac(0), ip(0)), None);
        network.run_answering(Time::from_ms(100));
        network.transmit(HostIx(ATTACKER), frame::arp_request(mac(ATTACKER), address, unknown), None);
        network.run(Time::from_ms(100));
        let forged = |(_, bytes): &(HostIx, Vec<u8>)| {
            frame::parse(bytes).is_ok_and(|headers| headers.ipv4_src == address && headers.eth_src == mac(ATTACKER))
        };
        assert!(!network.to_hosts.iter().any(forged), "{address}");
        assert_eq!(replies_to(&network, ATTACKER), 0, "{address}: the sender gets no reply either");
    }
    assert_eq!(network.controller.tally().arp_packets_rejected, 4);
    // The reply of a host with an unknown address to a relayed request is passed on.
    network.request_arp(0, unknown);
    network.run(Time::from_ms(20));
    let new = MacAddr([2, 7, 7, 7, 7, 7]);
    network.transmit(HostIx(ATTACKER), frame::arp_reply(new, unknown, mac(0), ip(0)), None);
    network.run(Time::from_ms(20));
    assert_eq!(replies_to(&network, 0), 1);
}
