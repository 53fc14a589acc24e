//! Hosts are bounded, requests for unknown ones are rate-limited, and hosts at missing ports have
//! no rules.

use crate::common::{AMPLE, TestNetwork, fat_tree, ip, mac, quiet, udp};
use anabranch_control::{Config, Event, HostLimit, KnownHost};
use core::net::Ipv4Addr;
use net::{HostIx, Time};
use openflow::MacAddr;

fn announce(network: &mut TestNetwork, host: u32) {
    network.announce(host);
    network.run(Time::from_ms(2));
}

fn made_up(number: u32) -> (MacAddr, Ipv4Addr) {
    let [_, a, b, c] = number.to_be_bytes();
    (MacAddr([2, 0xee, 0, a, b, c]), Ipv4Addr::new(172, 16 + a, b, c))
}

fn announce_forged(network: &mut TestNetwork, at: u32, number: u32) {
    let (mac, ip) = made_up(number);
    network.announce_at(at, mac, ip);
    network.run(Time::from_ms(2));
}

fn refusals(network: &TestNetwork) -> Vec<(KnownHost, HostLimit)> {
    let refusal = |event: &Event| match event {
        Event::HostRefused { host, limit } => Some((*host, *limit)),
        _ => None,
    };
    network.events.iter().filter_map(|(_, event)| refusal(event)).collect()
}

fn at_port_of(network: &TestNetwork, host: u32) -> usize {
    let place = |known: &KnownHost| (known.datapath, known.port);
    let wanted = KnownHost::all_of(&network.topology).iter().find(|known| known.ipv4 == ip(host)).map(place);
    network.controller.inspect().hosts().filter(|at| Some(place(&at.known)) == wanted).count()
}

#[test]
fn forged_hosts_fill_their_own_port_only() {
    let mut network = TestNetwork::without_hosts(Config { hosts_per_port: 8, ..Config::default() });
    (0..15).for_each(|host| announce(&mut network, host));
    for number in 0..3_000 {
        announce_forged(&mut network, 0, number);
        network.answer_arp();
        network.run(Time::from_ms(2));
    }
    announce(&mut network, 15);
    network.settle();
    assert_eq!(at_port_of(&network, 0), 8);
    assert_eq!(
        network.controller.inspect().find_host(ip(0)).map(|known| known.mac),
        Some(mac(0)),
        "it replies, so it stays"
    );
    assert!(network.controller.inspect().find_host(ip(15)).is_some(), "others are accepted");
    let [(_, HostLimit::Port)] = refusals(&network)[..] else { panic!("reported once: {:?}", refusals(&network)) };
    let refused = network.controller.tally().hosts_refused;
    assert!((2_900..3_000).contains(&refused), "{refused}");
    // In six seconds one address per second is evicted; each new one takes the number of a former
    // host.
    let numbers = network.controller.inspect().topology().hosts().len();
    assert!(numbers <= 15 + 1 + 8 + 1, "{numbers}");
    network.assert_served();
}

#[test]
fn silent_host_is_evicted_for_another() {
    let mut network = TestNetwork::without_hosts(Config { hosts_per_port: 2, ..Config::default() });
    (0..3).for_each(|number| announce_forged(&mut network, 0, number));
    network.settle();
    let is_known = |network: &TestNetwork, number| network.controller.inspect().find_host(made_up(number).1).is_some();
    assert!(is_known(&network, 0) && is_known(&network, 1) && !is_known(&network, 2));
    // The host seen longest ago was probed, and does not reply.
    network.run(Time::from_ms(1_100));
    announce_forged(&mut network, 0, 2);
    network.settle();
    assert!(!is_known(&network, 0) && is_known(&network, 1) && is_known(&network, 2));
    network.assert_exact();
    // The third is accepted once there is capacity: another one has been evicted. It is reported
    // only once.
    assert_eq!(refusals(&network).len(), 1);
}

#[test]
fn configured_hosts_are_always_accepted() {
    let topology = fat_tree();
    let hosts = KnownHost::all_of(&topology);
    let mut network = TestNetwork::without_hosts(Config {
        hosts: hosts.clone(),
        pins_hosts: false,
        hosts_max: 1,
        hosts_per_port: 1,
        ..Config::default()
    });
    assert_eq!(network.controller.inspect().hosts().count(), 16);
    // One learned host fits in addition, and no more.
    announce_forged(&mut network, 3, 0);
    announce_forged(&mut network, 4, 1);
    network.settle();
    assert_eq!(network.controller.inspect().hosts().count(), 17);
    let [(_, HostLimit::Network)] = refusals(&network)[..] else { panic!("{:?}", refusals(&network)) };
    // A configured host that moves needs no capacity either.
    network.move_to(9, mac(2), ip(2));
    let place = |host: u32| network.controller.inspect().find_host(ip(host)).map(|known| (known.datapath, known.port));
    assert_eq!(place(2), Some((hosts[9].datapath, hosts[9].port)));
}

#[test]
fn hosts_at_dead_ports_are_evicted_first() {
    let mut network = TestNetwork::without_hosts(Config { hosts_max: 3, ..Config::default() });
    (0..3).for_each(|host| announce(&mut network, host));
    announce(&mut network, 1); // Another host is idle longer, but this one is unreachable.
    network.set_cable(network.uplink(1), false);
    network.run(Time::from_ms(10));
    announce(&mut network, 3);
    network.settle();
    let known: Vec<bool> = (0..4).map(|host| network.controller.inspect().find_host(ip(host)).is_some()).collect();
    assert_eq!(known, [true, false, true, true]);
    network.assert_exact();
}

#[test]
fn hosts_that_come_and_go_reuse_numbers() {
    let mut network = TestNetwork::without_hosts(Config { hosts_per_port: 1, hosts_max: 16, ..Config::default() });
    for number in 0..40 {
        announce_forged(&mut network, 5, number);
        network.run(Time::from_ms(1_100));
        announce_forged(&mut network, 5, number + 1);
        network.settle();
    }
    // Nor does a host that alternates between two ports.
    for turn in 0..40 {
        network.move_to([2, 9][turn % 2], mac(2), ip(2));
        network.run_and_settle(Time::from_s(10));
    }
    assert_eq!(network.controller.inspect().find_host(made_up(40).1).map(|known| known.mac), Some(made_up(40).0));
    let topology = network.controller.inspect().topology();
    assert!(topology.hosts().len() <= 5, "{}", topology.hosts().len());
    let names: Vec<&str> = topology.hosts().iter().map(|node| topology.node(*node).name.as_str()).collect();
    assert!(names.contains(&"172.16.0.40") && !names.contains(&"172.16.0.3"), "{names:?}");
    network.assert_exact();
}

fn arp_requests(network: &TestNetwork, at: u32) -> usize {
    network.receivers_of_arp(1).into_iter().filter(|host| *host == HostIx(at)).count()
}

#[test]
fn arp_requests_for_unused_addresses_are_rate_limited() {
    let mut network = TestNetwork::without_hosts(Config::default());
    announce(&mut network, 0);
    announce(&mut network, 1);
    network.settle();
    network.to_hosts.clear();
    let began = network.now;
    for number in 0..2_000 {
        network.request_arp(0, made_up(number).1);
        network.run(Time::from_ms(1));
    }
    let took = (network.now - began).as_s_f64();
    let most = 128.0 + 32.0 * took;
    let passed = arp_requests(&network, 7);
    assert!((passed as f64) <= most && (passed as f64) >= most - 2.0, "{passed} of {most}");
    assert_eq!(network.controller.tally().arp_requests_suppressed, 2_000 - passed as u64);
    // A request of another host for an existing host is relayed at once, and answered.
    network.to_hosts.clear();
    network.request_arp(1, ip(12));
    network.run(Time::from_ms(5));
    assert_eq!(arp_requests(&network, 12), 1);
    network.answer_arp();
    network.run(Time::from_ms(2));
    network.run(Time::from_ms(20));
    assert!(network.receivers_of_arp(2).contains(&HostIx(1)));
}

#[test]
fn arp_target_is_requested_once_at_a_time() {
    let mut network = TestNetwork::without_hosts(Config::default());
    (0..3).for_each(|host| announce(&mut network, host));
    network.settle();
    network.to_hosts.clear();
    let ask = |network: &mut TestNetwork, from: u32| {
        network.request_arp(from, ip(12));
        network.run(Time::from_ms(100));
    };
    (0..3).for_each(|from| ask(&mut network, from));
    ask(&mut network, 0);
    assert_eq!(arp_requests(&network, 12), 1);
    // A repeated request after a second, as hosts send it, is relayed.
    network.run(Time::from_ms(600));
    ask(&mut network, 0);
    assert_eq!(arp_requests(&network, 12), 2);
}

#[test]
fn switch_with_fewer_ports_gets_no_rules_for_their_hosts() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    assert!(network.unreached().is_empty());
    let known = KnownHost::all_of(&network.topology)[3];
    let edge = network.topology.link(network.uplink(3)).to;
    let replace = |network: &mut TestNetwork, without: Option<openflow::PortNo>| {
        network.disconnect(edge);
        let mut config = switch::testing::config(&network.topology, edge);
        config.ports.retain(|port| Some(port.port) != without);
        network.switches.insert(edge, switch::Switch::new(config));
        network.connect(edge);
        network.run_and_settle(Time::from_s(2));
        network.assert_exact();
    };
    let about = |network: &TestNetwork| -> usize {
        let is_about = |entry: &openflow::FlowStats| {
            let to = entry.match_.ipv4_dst.is_some_and(|to| to.value == known.ipv4);
            entry.match_.in_port == Some(known.port) && entry.table.0 == 0 || to && entry.table.0 == 1
        };
        network.switches[&edge].entries().iter().filter(|entry| is_about(entry)).count()
    };
    let had = about(&network);
    assert!(had >= 3, "{had}");
    replace(&mut network, Some(known.port));
    assert_eq!(network.rejections(), 0, "no message is sent that the switch would reject");
    assert_eq!(about(&network), 0);
    let lost = network.unreached();
    let concerns = |tuple: &net::FiveTuple| tuple.src == known.ipv4 || tuple.dst == known.ipv4;
    assert!(lost.len() == 30 && lost.iter().all(|(tuple, _)| concerns(tuple)), "only that host: {}", lost.len());
    // The port exists again, with the host.
    replace(&mut network, None);
    assert_eq!(about(&network), had);
    assert!(network.unreached().is_empty());
    assert!(network.deliver(udp(0, 3, 9)).is_some());
}

/// A controller without persisted hosts takes over a network with traffic; hosts reply to ARP
/// requests and are idle otherwise.
#[test]
fn hosts_of_installed_rules_are_probed_before_deletions() {
    let mut before = TestNetwork::without_hosts(Config::default());
    (0..16).for_each(|host| announce(&mut before, host));
    before.settle();
    before.run(Time::from_s(1));
    before.disconnect_all();
    let nodes: Vec<net::NodeIx> = before.switches.keys().copied().collect();
    let mut network = TestNetwork::new(fat_tree(), Config::default(), quiet(), AMPLE);
    (network.now, network.switches) = (before.now, before.switches);
    for node in nodes {
        network.connect(node);
        network.run(Time::from_ms(10)); // Not all connect at once.
    }
    let (gone, mut about_others) = (7, Vec::new());
    for turn in 0..2_000u16 {
        let (from, to) = (u32::from(turn) % 16, (u32::from(turn) + 5) % 16);
        let is_about = [from, to].contains(&gone);
        let packet = network.send(udp(from, to, turn));
        about_others.extend((!is_about).then_some(packet));
        network.run(Time::from_ms(2));
        network.to_hosts.retain(|(host, _)| *host != HostIx(gone));
        network.answer_arp();
        network.run(Time::from_ms(2));
    }
    network.settle();
    let ips: Vec<Ipv4Addr> = network.controller.inspect().hosts().map(|at| at.known.ipv4).collect();
    assert_eq!(ips.len(), 15, "all but the one that does not reply: {ips:?}");
    let to_others = network.sent.iter().filter(|(_, _, message)| match message {
        openflow::Message::FlowMod(change) => change.match_.ipv4_dst.is_none_or(|to| to.value != ip(gone)),
        _ => false,
    });
    assert_eq!(to_others.count(), 2, "only rules of the port of the host that is gone");
    assert!(network.controller.inspect().find_host(ip(gone)).is_none());
    let is_lost = |packet: &&u32| network.packets[**packet as usize].delivered.is_none();
    assert_eq!(about_others.iter().filter(is_lost).count(), 0);
    network.assert_exact();
}
