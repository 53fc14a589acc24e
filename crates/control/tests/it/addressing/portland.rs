//! PortLand: locations, rules by prefix, ARP, failures, moves.

use std::collections::BTreeSet;

use anabranch_control::addressing::Location;
use anabranch_control::addressing::pmac::Pmac;
use anabranch_control::{Addressing, Config, Event};
use net::{HostIx, LinkIx, NodeIx, Time, address};
use openflow::{DatapathId, MacAddr, frame};

use super::{ArpCaches, pairs};
use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, ip, is_arp, mac, quiet, udp};

const OWNER: u64 = 0xa7ab;

fn portland() -> Config {
    Config { addressing: Addressing::PortLand, ..Config::default() }
}

/// Returns a settled network with all hosts configured.
fn up() -> TestNetwork {
    let config = Config { addressing: Addressing::PortLand, ..config_for(&fat_tree()) };
    TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected()
}

fn location(network: &TestNetwork, node: NodeIx) -> Location {
    network.controller.inspect().location_of(DatapathId(address::datapath_of(node))).expect("a location")
}

/// Returns the number of own rules of a switch in each table.
fn rules(network: &TestNetwork, node: NodeIx) -> [usize; 2] {
    let entries = network.switches[&node].entries();
    [0, 1].map(|table| entries.iter().filter(|rule| rule.cookie >> 48 == OWNER && rule.table.0 == table).count())
}

fn switch_links(network: &TestNetwork, tier: u8) -> Vec<LinkIx> {
    let links = (0..network.topology.links().len() as u32).step_by(2).map(LinkIx);
    links.filter(|link| network.topology.link_tier(*link).0 == tier).collect()
}

#[test]
fn rules_are_those_of_the_closed_form_and_every_pair_is_reached() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    network.assert_exact();
    assert_eq!(network.rejections(), 0, "{:?}", network.events);
    for node in network.switches.keys() {
        // Table 0 has a rule each for LLDP, ARP and IPv4; of an edge switch also one for each host.
        let expected = match location(&network, *node) {
            Location::Core => [3, 4],
            // Two edge switches, the rest of the pod, and up.
            Location::Aggregation { .. } => [3, 4],
            // Two hosts, hosts that have left, and up.
            Location::Edge { .. } => [3 + 2, 4],
        };
        assert_eq!(rules(&network, *node), expected, "{node:?}");
    }
    caches.resolve_all(&mut network);
    let addresses: BTreeSet<MacAddr> = pairs(16).map(|(from, to)| caches.entry(from, to).expect("an answer")).collect();
    assert_eq!(addresses.len(), 16, "one address for each host, the same for all others");
    assert!(addresses.iter().all(|address| Pmac::decode(*address).is_some()));
    assert_eq!(caches.unreached(&mut network), []);
    let tally = network.controller.tally();
    assert_eq!((tally.arp_requests_answered, tally.arp_requests_relayed), (16 * 15, 0));
    let sources: BTreeSet<_> =
        network.packets.iter().filter_map(|packet| packet.arrived).map(|at| at.eth_src).collect();
    assert_eq!(sources, addresses, "receivers see the same addresses");
}

#[test]
fn all_uplinks_carry_traffic() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    let numbers: Vec<u32> = (0..200).map(|port| caches.send(&mut network, udp(0, 15, 2000 + port))).collect();
    network.run(Time::from_ms(20));
    let cores: BTreeSet<NodeIx> = numbers.iter().map(|number| network.packets[*number as usize].visited[2]).collect();
    assert_eq!(cores.len(), 4, "all core switches");
}

#[test]
fn no_pair_is_lost_by_a_failed_cable() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    for tier in [2, 3] {
        let cuts: Vec<LinkIx> = switch_links(&network, tier).into_iter().step_by(5).collect();
        caches.check_cuts(&mut network, cuts);
    }
    assert_eq!(caches.unreached(&mut network), []);
}

#[test]
fn cable_that_fails_silently_changes_no_location() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    let nodes: Vec<NodeIx> = network.switches.keys().copied().collect();
    let before: Vec<Location> = nodes.iter().map(|node| location(&network, *node)).collect();
    let cut = switch_links(&network, 3)[0];
    network.cut_silently(cut);
    network.run_and_settle(Time::from_s(60));
    assert_eq!(network.dead_links(), 2, "the link has expired");
    let after: Vec<Location> = nodes.iter().map(|node| location(&network, *node)).collect();
    assert_eq!(before, after);
    assert_eq!(caches.unreached(&mut network), []);
}

#[test]
fn unknown_hosts_are_found_by_a_relayed_request() {
    let mut network = TestNetwork::without_hosts(portland());
    let mut caches = ArpCaches::default();
    for node in network.switches.keys() {
        let expected = if location(&network, *node).is_edge() { [3 + 2, 2] } else { [3, 4] };
        assert_eq!(rules(&network, *node), expected, "silent ports make edge switches");
    }
    network.announce(0);
    network.run_and_settle(Time::from_s(1));
    network.to_hosts.clear();
    network.request_arp(0, ip(15));
    network.run(Time::from_ms(20));
    let asked: BTreeSet<HostIx> = network.receivers_of_arp(1).into_iter().collect();
    assert_eq!(asked, (1..16).map(HostIx).collect());
    let is_pmac = |bytes: &[u8]| frame::parse(bytes).is_ok_and(|headers| Pmac::decode(headers.eth_src).is_some());
    assert!(network.to_hosts.iter().all(|(_, bytes)| !is_arp(bytes, 1) || is_pmac(bytes)), "the sender's too");
    caches.process(&mut network);
    caches.run(&mut network, Time::from_s(1));
    let learned = caches.entry(0, 15).expect("the reply to the relayed request");
    assert_eq!(Some(learned), network.controller.inspect().announced_mac_of(ip(15)));
    assert!(caches.entry(15, 0).is_some(), "host 15 has stored the address of the request");
    assert_eq!(caches.unreached(&mut network), []);
    assert_eq!(network.controller.tally().arp_requests_relayed, 1);
}

#[test]
fn moved_host_gets_another_address_and_senders_are_corrected() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    let before = caches.entry(1, 0).expect("an entry");
    network.move_to(12, mac(0), ip(0));
    network.settle();
    network.assert_exact();
    let after = network.controller.inspect().announced_mac_of(ip(0)).expect("an address");
    assert_ne!(before, after);
    network.to_hosts.clear();
    // The first packet of a sender with the old address is passed on, and the sender learns the new one.
    for sender in [1, 5, 13] {
        let number = caches.send(&mut network, udp(sender, 0, 77));
        network.run(Time::from_ms(20));
        let packet = network.packets[number as usize].clone();
        assert!(packet.visited.len() <= 5 && !packet.has_looped, "{packet:?}");
        let copies = network.to_hosts.iter().filter(|(host, bytes)| {
            *host == HostIx(12) && frame::parse(bytes).is_ok_and(|at| at.eth_dst == mac(0) && at.ipv4_src == ip(sender))
        });
        assert_eq!(copies.count(), 1, "the packet of host {sender}");
        caches.process(&mut network);
        assert_eq!(caches.entry(sender, 0), Some(after));
        let number = caches.send(&mut network, udp(sender, 0, 78));
        network.run(Time::from_ms(5));
        assert_eq!(network.packets[number as usize].delivered.map(|(host, _)| host), Some(HostIx(12)));
    }
}

#[test]
fn restarted_controller_keeps_all_numbers() {
    let mut network = TestNetwork::without_hosts(portland());
    // Hosts appear in an order that gives other numbers than the order of their addresses: two at a port.
    for (at, host) in [(3, 20), (3, 3), (7, 7), (15, 15)] {
        network.announce_at(at, mac(host), ip(host));
        network.run_and_settle(Time::from_s(1));
    }
    let address = |network: &TestNetwork, host| network.controller.inspect().announced_mac_of(ip(host));
    let before: Vec<_> = [20, 3, 7, 15].map(|host| address(&network, host).expect("an address")).into();
    let flow_mods =
        |network: &TestNetwork| network.switches.values().map(|switch| switch.tally().flow_mods).sum::<u64>();
    let sent = flow_mods(&network);
    network.restart_controller(portland(), quiet());
    // The switches of the last pod are found first.
    let nodes: Vec<NodeIx> = network.switches.keys().copied().rev().collect();
    for node in nodes {
        network.connect(node);
        network.run(Time::from_ms(30));
    }
    network.run_answering(Time::from_ms(500));
    for (at, host) in [(3, 20), (3, 3)] {
        network.announce_at(at, mac(host), ip(host)); // The simulated hosts answer for one address only.
    }
    network.run_answering(Time::from_s(5));
    network.settle();
    let after: Vec<_> = [20, 3, 7, 15].map(|host| address(&network, host).expect("an address")).into();
    assert_eq!(before, after);
    assert_eq!(flow_mods(&network), sent, "no rule changed");
}

#[test]
fn network_that_is_not_a_tree_is_reported_once() {
    let topology = net::spec::parse("flattened-butterfly:k=3,n=2").unwrap();
    let config = Config { addressing: Addressing::PortLand, ..config_for(&topology) };
    let mut network = TestNetwork::new(topology, config, quiet(), AMPLE);
    network.connect_all();
    network.run_and_settle(Time::from_s(10));
    let reasons: Vec<String> = network
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::AddressingRefused { reason } => Some(reason.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].starts_with("the network is not a multi-rooted tree"), "{reasons:?}");
    assert!(reasons[0].ends_with("use addressing = \"flat\", or change the cables"), "{reasons:?}");
}
