//! TRILL: broadcast requests, learning, frames to unknown locations, moves.

use anabranch_control::{Addressing, Config};
use net::{HostIx, LinkIx, NodeIx, Time};
use openflow::{Headers, MacAddr, frame};

use super::{ArpCaches, pairs};
use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, ip, mac, quiet, udp};

fn up() -> TestNetwork {
    let config = Config { addressing: Addressing::Trill, ..config_for(&fat_tree()) };
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected();
    // Requests go to edge ports: those at which no discovery message has arrived for some time.
    network.run_and_settle(Time::from_s(2));
    network
}

/// Returns the numbers of rules and of cached locations of a switch.
fn rules(network: &TestNetwork, node: NodeIx) -> [usize; 2] {
    let entries = network.switches[&node].entries();
    let own = entries.iter().filter(|rule| rule.cookie >> 48 == 0xa7ab);
    let (cached, others): (Vec<_>, Vec<_>) = own.partition(|rule| rule.idle_timeout_s > 0);
    [others.len(), cached.len()]
}

fn edges(network: &TestNetwork) -> Vec<NodeIx> {
    network.switches.keys().copied().filter(|node| network.topology.node(*node).tier.0 == 1).collect()
}

/// Returns the hosts that received a UDP packet with this source port.
fn receivers(network: &TestNetwork, port: u16) -> Vec<HostIx> {
    let is_it = |bytes: &[u8]| frame::parse(bytes).is_ok_and(|at| at.l4_src == port && at.vlan.is_none());
    let mut hosts: Vec<HostIx> =
        network.to_hosts.iter().filter(|(_, bytes)| is_it(bytes)).map(|(host, _)| *host).collect();
    hosts.sort_unstable();
    hosts
}

#[test]
fn every_switch_of_hosts_learns_the_sender_of_a_request() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    network.assert_exact();
    for node in edges(&network) {
        // LLDP, ARP, IPv4; hosts that have left, and the other nineteen switches; two hosts, the unknown.
        assert_eq!(rules(&network, node), [3 + 1 + 19 + 2 * 2 + 1, 0]);
    }
    network.request_arp(0, ip(15));
    caches.run(&mut network, Time::from_ms(50));
    assert_eq!(caches.entry(0, 15), Some(mac(15)));
    assert_eq!(caches.entry(15, 0), Some(mac(0)), "the request tells the address of its sender");
    let learnt: Vec<usize> = edges(&network).into_iter().map(|node| rules(&network, node)[1]).collect();
    // Seven switches have the sender. That of the sender has the receiver, from the reply.
    assert_eq!(learnt, [1; 8]);
    let tally = network.controller.tally();
    assert_eq!((tally.arp_requests_answered, tally.arp_requests_relayed, tally.arp_request_copies), (0, 1, 15));
    assert_eq!(caches.unreached(&mut network), []);
    network.assert_exact();
}

#[test]
fn caches_grow_with_all_hosts_and_cut_cables_are_avoided() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    caches.run(&mut network, Time::from_ms(100));
    assert!(pairs(16).all(|(from, to)| caches.entry(from, to) == Some(mac(to))));
    for node in edges(&network) {
        assert_eq!(rules(&network, node)[1], 14, "hosts of other switches, at {node:?}");
    }
    assert_eq!(caches.unreached(&mut network), []);
    let links = (0..network.topology.links().len() as u32).step_by(2).map(LinkIx);
    let links: Vec<LinkIx> = links.filter(|link| network.topology.link_tier(*link).0 > 1).step_by(7).collect();
    caches.check_cuts(&mut network, links);
}

#[test]
fn frame_to_an_unknown_location_goes_to_all_hosts_once() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    network.request_arp(0, ip(15));
    caches.run(&mut network, Time::from_ms(50));
    network.run_and_settle(Time::from_s(70));
    assert!(edges(&network).into_iter().all(|node| rules(&network, node)[1] == 0), "unused entries expire");
    network.to_hosts.clear();
    caches.send(&mut network, udp(0, 15, 100));
    network.run(Time::from_ms(20));
    assert_eq!(receivers(&network, 100), (1..16).map(HostIx).collect::<Vec<_>>());
    let number = caches.send(&mut network, udp(0, 15, 101));
    network.run(Time::from_ms(20));
    assert_eq!(network.packets[number as usize].delivered.map(|(host, _)| host), Some(HostIx(15)), "straight to it");
    assert_eq!(network.controller.tally().cache_misses, 1);
}

#[test]
fn announcement_of_a_moved_host_corrects_all_caches() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    caches.run(&mut network, Time::from_ms(100));
    network.move_to(12, mac(0), ip(0));
    network.settle();
    network.assert_exact();
    for (from, port) in [(5, 77), (9, 78), (1, 79)] {
        let number = caches.send(&mut network, udp(from, 0, port));
        network.run(Time::from_ms(20));
        let packet = &network.packets[number as usize];
        assert_eq!(packet.delivered.map(|(host, _)| host), Some(HostIx(12)), "from host {from}");
    }
}

#[test]
fn frames_of_a_hostile_host_to_unknown_locations_are_limited() {
    let mut network = up();
    network.to_hosts.clear();
    for number in 0..1000_u16 {
        let to = MacAddr([2, 9, 9, 9, (number >> 8) as u8, number as u8]);
        let headers = Headers::ipv4([mac(0), to], [ip(0), ip(77)], 17, [number, 9]);
        network.transmit(HostIx(0), frame::build(&headers, 100), None);
    }
    network.run(Time::from_ms(100));
    let copies = network.to_hosts.iter().filter(|(host, _)| *host == HostIx(7)).count();
    assert!((100..=140).contains(&copies), "{copies} of 1000 frames reached another host; the burst is 128");
    network.assert_exact();
}
