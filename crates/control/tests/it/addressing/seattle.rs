//! SEATTLE: shared directory, caches, expiry, moves.

use anabranch_control::{Addressing, Config};
use net::{HostIx, LinkIx, NodeIx, Time};
use openflow::FlowStats;

use super::{ArpCaches, pairs};
use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, ip, mac, quiet, udp};

fn up() -> TestNetwork {
    let config = Config { addressing: Addressing::Seattle, ..config_for(&fat_tree()) };
    TestNetwork::new(fat_tree(), config, quiet(), AMPLE).connected()
}

fn is_cache(rule: &FlowStats) -> bool {
    rule.cookie >> 48 == 0xa7ab && rule.idle_timeout_s > 0
}

fn rules(network: &TestNetwork, node: NodeIx) -> [usize; 2] {
    let entries = network.switches[&node].entries();
    let count =
        |is_cached| entries.iter().filter(|rule| rule.cookie >> 48 == 0xa7ab && is_cache(rule) == is_cached).count();
    [count(false), count(true)]
}

#[test]
fn arp_fills_the_caches_and_every_pair_is_reached() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    network.assert_exact();
    for node in network.switches.keys() {
        // LLDP, ARP, IPv4; hosts that have left, and the other nineteen switches.
        let common = 3 + 1 + 19;
        let expected = if network.topology.node(*node).tier.0 == 1 { common + 2 * 2 + 1 } else { common };
        assert_eq!(rules(&network, *node), [expected, 0], "{node:?}");
    }
    caches.resolve_all(&mut network);
    network.settle();
    for (from, to) in pairs(16) {
        assert_eq!(caches.entry(from, to), Some(mac(to)), "addresses are those of hosts");
    }
    for node in network.switches.keys().filter(|node| network.topology.node(**node).tier.0 == 1) {
        assert_eq!(rules(&network, *node)[1], 14, "hosts of other switches, at {node:?}");
    }
    assert_eq!(caches.unreached(&mut network), []);
    let tally = network.controller.tally();
    assert_eq!((tally.lookups, tally.cache_misses), (240, 0));
    // Hosts were published when the first switches had connected, and again when others joined.
    assert!((16..16 * 20).contains(&tally.directory_updates), "{}", tally.directory_updates);
    network.assert_exact();
}

#[test]
fn first_packet_after_expiry_goes_over_the_resolver_and_refills_the_cache() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    network.run_and_settle(Time::from_s(70));
    assert_eq!(network.entries().filter(is_cache).count(), 0, "unused entries expire");
    network.assert_exact();
    let before = network.controller.tally();
    network.to_hosts.clear();
    for port in 100..103 {
        let number = caches.send(&mut network, udp(0, 15, port));
        network.run(Time::from_ms(20));
        let after = network.controller.tally();
        let counts = (after.cache_misses - before.cache_misses, after.lookups - before.lookups);
        assert_eq!(counts, (1, 1), "the first packet only");
        let received = network.to_hosts.iter().filter(|(host, bytes)| {
            *host == HostIx(15) && openflow::frame::parse(bytes).is_ok_and(|at| at.l4_src == port || at.l4_dst == port)
        });
        // The first one has been with the controller, so that the test network takes it for another.
        let is_delivered = network.packets[number as usize].delivered.is_some() || received.count() == 1;
        assert!(is_delivered, "packet {port}");
    }
    assert_eq!(network.entries().filter(is_cache).count(), 1);
    network.assert_exact();
}

#[test]
fn cut_cable_is_avoided() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    let links = (0..network.topology.links().len() as u32).step_by(2).map(LinkIx);
    let links: Vec<LinkIx> = links.filter(|link| network.topology.link_tier(*link).0 > 1).step_by(7).collect();
    caches.check_cuts(&mut network, links);
}

#[test]
fn former_switch_of_a_moved_host_corrects_the_cache_of_the_sender() {
    let (mut network, mut caches) = (up(), ArpCaches::default());
    caches.resolve_all(&mut network);
    network.move_to(12, mac(0), ip(0));
    network.settle();
    network.assert_exact();
    network.to_hosts.clear();
    let before = network.controller.tally().directory_updates;
    caches.send(&mut network, udp(5, 0, 77));
    network.run(Time::from_ms(20));
    let passed_on = |network: &TestNetwork| {
        let is_it =
            |bytes: &[u8]| openflow::frame::parse(bytes).is_ok_and(|at| at.ipv4_src == ip(5) && at.vlan.is_none());
        network.to_hosts.iter().filter(|(host, bytes)| *host == HostIx(12) && is_it(bytes)).count()
    };
    assert_eq!(passed_on(&network), 1);
    assert_eq!(network.controller.tally().directory_updates - before, 1, "one message to the ingress switch");
    let number = caches.send(&mut network, udp(5, 0, 78));
    network.run(Time::from_ms(5));
    let packet = &network.packets[number as usize];
    assert_eq!(packet.delivered.map(|(host, _)| host), Some(HostIx(12)), "straight to the new switch");
    network.assert_exact();
}

#[test]
fn lost_switch_hands_its_share_of_the_directory_over() {
    let mut network = up();
    let before = network.controller.tally().directory_updates;
    let node = *network.switches.keys().next().expect("a switch");
    network.disconnect(node);
    network.run_and_settle(Time::from_s(1));
    let moved = network.controller.tally().directory_updates - before;
    assert!(moved < 8, "{moved} of 16 hosts have another resolver: about one of twenty is expected");
    network.connect(node);
    network.run_and_settle(Time::from_s(1));
    let back = network.controller.tally().directory_updates - before;
    assert_eq!(back, 2 * moved, "the same hosts come back");
}
