//! VL2: location addresses, directory, refused pairs, intermediate switches, moves.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_control::{Addressing, Config};
use balance::Spec;
use balance::central::{CentralBalancer, CentralEnv};
use net::{HostIx, LinkIx, NodeIx, NodeKind, Time, Topology};
use openflow::MacAddr;

use super::{ArpCaches, pairs};
use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, ip, is_arp, mac, quiet, udp};

fn balancer(name: &str) -> Box<dyn CentralBalancer> {
    let spec = Spec::parse(name).expect("a balancer");
    let balance::Build::Central(build) = spec.entry.build else { panic!("{name} is not central") };
    build(&CentralEnv { seed: 7 }, &spec.params)
}

fn up(topology: Topology, name: &str, config: Config) -> TestNetwork {
    let config = Config { addressing: Addressing::Vl2, ..config };
    TestNetwork::with(topology, config, balancer(name), AMPLE).connected()
}

fn rules(network: &TestNetwork, node: NodeIx) -> usize {
    network.switches[&node].entries().iter().filter(|rule| rule.cookie >> 48 == 0xa7ab).count()
}

#[test]
fn hosts_of_a_switch_share_an_address_and_every_pair_is_reached() {
    let (mut network, mut caches) = (up(fat_tree(), "sdn-ecmp", config_for(&fat_tree())), ArpCaches::default());
    network.assert_exact();
    caches.resolve_all(&mut network);
    let addresses: BTreeSet<MacAddr> = pairs(16).map(|(from, to)| caches.entry(from, to).expect("an answer")).collect();
    assert_eq!(addresses.len(), 8, "one for each edge switch");
    assert_eq!(caches.unreached(&mut network), []);
    for node in network.switches.keys() {
        // Table 0: LLDP, ARP and IPv4. Table 1: the next table. Table 2: each of eight edge switches.
        let expected = match network.topology.node(*node).tier.0 {
            // Itself is no destination in table 2; a rule for each port and host, and hosts that have left.
            1 => 3 + 2 + 1 + 2 + 1 + 7,
            _ => 3 + 1 + 8,
        };
        assert_eq!(rules(&network, *node), expected, "{node:?}");
    }
    let tally = network.controller.tally();
    assert_eq!((tally.directory_updates, tally.lookups, tally.arp_requests_relayed), (16, 240, 0));
}

#[test]
fn refused_pair_gets_no_location() {
    let config = Config { refused: [(ip(0), ip(15))].into(), ..config_for(&fat_tree()) };
    let (mut network, mut caches) = (up(fat_tree(), "sdn-ecmp", config), ArpCaches::default());
    caches.resolve_all(&mut network);
    assert_eq!(caches.entry(0, 15), None);
    assert!(caches.entry(15, 0).is_some() && caches.entry(1, 15).is_some(), "only that direction");
    assert_eq!(caches.unreached(&mut network), []);
    let tally = network.controller.tally();
    assert_eq!((tally.lookups, tally.lookups_refused), (239, 1));
}

#[test]
fn flows_visit_intermediate_switches_that_the_balancer_chooses() {
    for spec in ["fat-tree:k=4", "leaf-spine:leaves=4,spines=3,hosts_per_leaf=2", "vl2:hosts_per_tor=2"] {
        let topology = net::spec::parse(spec).unwrap();
        let hosts = topology.hosts().len() as u32;
        let (mut network, mut caches) = (up(topology.clone(), "sdn-vlb", config_for(&topology)), ArpCaches::default());
        network.assert_exact();
        assert_eq!(network.rejections(), 0, "{:?}", network.events);
        caches.resolve_all(&mut network);
        assert_eq!(caches.unreached(&mut network), [], "{spec}");
        let top = topology.top_tier();
        let numbers: Vec<u32> =
            (0..300).map(|port| caches.send(&mut network, udp(0, hosts - 1, 3000 + port))).collect();
        network.run(Time::from_ms(20));
        let mut turns: BTreeMap<NodeIx, u32> = BTreeMap::new();
        for number in numbers {
            let packet = &network.packets[number as usize];
            assert_eq!(packet.delivered.map(|(host, _)| host), Some(HostIx(hosts - 1)), "{packet:?}");
            assert!(packet.arrived.is_some_and(|headers| headers.vlan.is_none()));
            let highest = packet.visited.iter().find(|node| topology.node(**node).tier == top);
            *turns.entry(*highest.expect("an intermediate switch")).or_default() += 1;
        }
        let tops = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch && node.tier == top).count();
        assert_eq!(turns.len(), tops, "{spec}: all intermediate switches, {turns:?}");
        let expected = 300 / tops as u32;
        assert!(turns.values().all(|turns| (expected / 2..=expected * 2).contains(turns)), "{spec}: {turns:?}");
    }
}

#[test]
fn cut_cable_is_avoided_and_a_moved_host_is_found() {
    for name in ["sdn-ecmp", "sdn-vlb"] {
        let (mut network, mut caches) = (up(fat_tree(), name, config_for(&fat_tree())), ArpCaches::default());
        caches.resolve_all(&mut network);
        let links = (0..network.topology.links().len() as u32).step_by(2).map(LinkIx);
        let links: Vec<LinkIx> = links.filter(|link| network.topology.link_tier(*link).0 > 1).step_by(7).collect();
        caches.check_cuts(&mut network, links);
        network.move_to(12, mac(0), ip(0));
        network.settle();
        network.to_hosts.clear();
        caches.send(&mut network, udp(5, 0, 77));
        network.run(Time::from_ms(20));
        let passed_on = network.to_hosts.iter().filter(|(host, bytes)| *host == HostIx(12) && !is_arp(bytes, 1));
        assert_eq!(passed_on.count(), 1, "{name}: the first packet");
        caches.process(&mut network);
        assert_eq!(caches.entry(5, 0), network.controller.inspect().announced_mac_of(ip(0)));
        let number = caches.send(&mut network, udp(5, 0, 78));
        network.run(Time::from_ms(5));
        assert_eq!(network.packets[number as usize].delivered.map(|(host, _)| host), Some(HostIx(12)));
    }
}

#[test]
fn virtual_services_are_refused() {
    let config = Config { addressing: Addressing::Vl2, ..config_for(&fat_tree()) };
    let mut network = TestNetwork::new(fat_tree(), config, quiet(), AMPLE);
    let pool = anabranch_control::vip::Pool {
        id: anabranch_control::vip::PoolId(1),
        balancer: "server-rr".into(),
        monitor: None,
        members: Vec::new(),
        established: anabranch_control::vip::Established::Keep,
        refusal: anabranch_control::vip::Refusal::Reset,
    };
    let services = anabranch_control::vip::Services { services: Vec::new(), pools: vec![pool] };
    let refused = network.controller.set_services(Time::ZERO, services).unwrap_err();
    assert!(refused.to_string().contains("addressing = \"vl2\""), "{refused}");
}
