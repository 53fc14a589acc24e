//! Hosts are learned, probed and answered for; flows are counted.

use crate::common::{AMPLE, TestNetwork, fat_tree, ip, is_arp, mac, quiet, udp};
use anabranch_control::{Config, Event};
use balance::central::{AgentReport, CentralNeeds, DecisionTrigger, FlowSource};
use net::{HostIx, Time};
use openflow::frame;
use openflow::headers::ether;

use crate::counting::{flow_notifications, is_counter};

fn ask(network: &mut TestNetwork, from: u32, to: u32) {
    network.request_arp(from, ip(to));
    network.run(Time::from_ms(20));
}

#[test]
fn unknown_host_is_probed_at_edge_ports_and_then_answered_for() {
    let mut network = TestNetwork::without_hosts(Config::default());
    assert_eq!(network.controller.inspect().topology().hosts().len(), 0);
    ask(&mut network, 0, 15);
    // Every host but the requesting one receives the request, once; no switch forwards it.
    let mut heard = network.receivers_of_arp(1);
    heard.sort_unstable();
    assert_eq!(heard, (1..16).map(HostIx).collect::<Vec<_>>());
    assert_eq!(network.controller.inspect().topology().hosts().len(), 1);
    // The host replies, and the reply goes to the requesting host. The controller answers later
    // requests itself.
    network.to_hosts.clear();
    network.transmit(HostIx(15), frame::arp_reply(mac(15), ip(15), mac(0), ip(0)), None);
    network.run(Time::from_ms(20));
    // Ports without hosts are probed before the host is accepted.
    network.to_hosts.retain(|(_, frame)| frame::parse(frame).is_ok_and(|frame| frame.eth_type == ether::ARP));
    assert_eq!(network.to_hosts.len(), 1, "{:?}", network.to_hosts);
    assert!(network.to_hosts[0].0 == HostIx(0) && is_arp(&network.to_hosts[0].1, 2));
    network.to_hosts.clear();
    ask(&mut network, 0, 15);
    assert_eq!(network.to_hosts.len(), 1);
    let answer = frame::parse(&network.to_hosts[0].1).expect("a frame");
    assert_eq!((answer.arp_op, answer.eth_src, answer.ipv4_src, answer.ipv4_dst), (2, mac(15), ip(15), ip(0)));
    network.assert_settled();
    assert_eq!(network.deliver(udp(0, 15, 1)), Some(HostIx(15)));
}

#[test]
fn host_with_arp_reply_can_send_at_once() {
    let mut network = TestNetwork::without_hosts(Config::default());
    network.transmit(HostIx(0), frame::arp_request(mac(0), ip(0), ip(15)), None);
    network.run(Time::from_ms(2));
    network.to_hosts.clear();
    network.transmit(HostIx(15), frame::arp_reply(mac(15), ip(15), mac(0), ip(0)), None);
    let mut waited = Time::ZERO;
    while !network.receivers_of_arp(2).contains(&HostIx(0)) {
        assert!(waited < Time::from_ms(50), "no answer");
        network.run(Time::from_us(20));
        waited += Time::from_us(20);
    }
    for (from, to) in [(0, 15), (15, 0)] {
        assert_eq!(network.deliver(udp(from, to, 1)), Some(HostIx(to)));
    }
}

fn hosts_found(network: &TestNetwork) -> usize {
    network.count_events(|event| matches!(event, Event::Host(_)))
}

#[test]
fn hosts_are_learned_by_their_packets_and_follow_moves() {
    let mut network = TestNetwork::without_hosts(Config::default());
    for host in 0..16 {
        ask(&mut network, host, host); // A gratuitous ARP request.
    }
    network.settle();
    assert_eq!(network.controller.inspect().topology().hosts().len(), 16);
    assert!(network.unreached().is_empty());
    // Host 0 appears at the port of host 12: the old attachment is dead, and the new one is another
    // host to balancers.
    network.move_to(12, mac(0), ip(0));
    network.run_and_settle(Time::from_ms(10));
    network.assert_exact();
    assert_eq!(network.controller.inspect().topology().hosts().len(), 17);
    assert_eq!(network.deliver(udp(5, 0, 1)), Some(HostIx(12)));
    assert_eq!(hosts_found(&network), 17);
}

#[test]
fn packets_in_transit_add_no_hosts() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    assert!(network.unreached().is_empty());
    network.run(Time::from_s(2));
    assert_eq!(network.controller.inspect().topology().hosts().len(), 16);
    assert_eq!(hosts_found(&network), 0);
}

/// Returns a network whose balancer uses counters, and runs every second.
fn counting(flows: FlowSource) -> TestNetwork {
    TestNetwork::up(fat_tree(), CentralNeeds { flows, counters: true, period: Some(Time::from_s(1)) })
}

/// Sends packets of 100 bytes of payload at an interval.
fn stream(network: &mut TestNetwork, tuple: net::FiveTuple, packets: u32, interval: Time) {
    for _ in 0..packets {
        network.send(tuple);
        network.run(interval);
    }
}

#[test]
fn pairs_are_flows_from_first_bytes_until_idle() {
    let mut network = counting(FlowSource::Pairs);
    // At each edge switch, its two hosts to 15 others.
    assert_eq!(network.entries().filter(is_counter).count(), 16 * 15);
    let packet_bytes = 14 + 20 + 8 + 100;
    stream(&mut network, udp(0, 9, 5), 600, Time::from_ms(20));
    assert_eq!(flow_notifications(&network).0, 1);
    network.run(Time::from_s(30));
    assert_eq!(flow_notifications(&network).1, 1);
    let rates = network.script.lock().unwrap().rates.clone();
    let expected = f64::from(packet_bytes) * 8.0 / 0.02;
    let best = rates.iter().map(|rate| rate.as_bps_f64()).fold(0.0, f64::max);
    assert!((best / expected - 1.0).abs() < 0.01, "{best} instead of {expected}");
    network.assert_exact();
}

#[test]
fn first_packets_start_flows_and_idle_counters_end_them() {
    let mut network = TestNetwork::up(fat_tree(), crate::counting::NEEDS);
    let tuples = [udp(0, 9, 5), udp(0, 9, 6), udp(3, 4, 5)];
    for tuple in tuples {
        stream(&mut network, tuple, 20, Time::from_us(300));
    }
    network.assert_settled();
    assert_eq!(flow_notifications(&network).0, 3);
    assert!(network.packets.iter().all(|packet| packet.delivered.is_some()), "first packets are copied, not held");
    // A packet or two more may be copied before the counting rule is installed, never all.
    assert!(network.controller.tally().packet_ins < 180, "{:?}", network.controller.tally());
    network.run(Time::from_s(8));
    assert_eq!(flow_notifications(&network).1, 3);
    network.assert_settled();
}

#[test]
fn agents_start_and_end_flows_which_are_counted_meanwhile() {
    let mut network = counting(FlowSource::Agents);
    let tuple = udp(0, 9, 5);
    network.report(AgentReport::Started { tuple, bytes: 5_000, size: Some(1_000_000) });
    network.settle();
    stream(&mut network, tuple, 1_200, Time::from_ms(10));
    network.report(AgentReport::Ended { tuple, bytes: 175_400 });
    network.assert_settled();
    let script = network.script.lock().unwrap();
    assert!(script.asked.iter().any(|why| matches!(why, DecisionTrigger::FlowEnded(_))));
    assert_eq!(script.last_bytes, 175_400);
    let expected = f64::from(14 + 20 + 8 + 100) * 8.0 / 0.01;
    let load = script.load.iter().map(|rate| rate.as_bps_f64()).fold(0.0, f64::max);
    // Ports carry probes as well.
    assert!((load / expected - 1.0).abs() < 0.02, "{load} instead of {expected}");
    let best = script.rates.iter().map(|rate| rate.as_bps_f64()).fold(0.0, f64::max);
    drop(script);
    assert!(((best / expected - 1.0).abs()) < 0.01, "{best} instead of {expected}");
    assert!(!network.entries().any(|entry| is_counter(&entry)), "the counter is gone");
}

/// A link that was dead when its ports were probed (simulation test 39).
#[test]
fn recovered_link_adds_no_hosts() {
    let mut network = TestNetwork::new(fat_tree(), Config::default(), quiet(), AMPLE);
    let core = network.topology.nodes().iter().position(|node| node.tier.0 == 3).expect("a core switch");
    let down = network.topology.out_links(net::NodeIx(core as u32))[0];
    network.link_down.extend([down, down.reverse()]);
    network.connect_all();
    network.run(Time::from_s(1));
    (0..16).for_each(|host| ask(&mut network, host, host));
    network.settle();
    assert_eq!(hosts_found(&network), 16);
    network.link_down.clear();
    for (link, host) in [(down, 0), (down.reverse(), 15)] {
        network.travel(link, frame::arp_request(mac(host), ip(host), ip(host)), None);
    }
    network.run_and_settle(Time::from_ms(100));
    assert_eq!(hosts_found(&network), 16, "the hosts are where they were");
    assert_eq!(network.dead_links(), 0, "and the link is found at once");
    assert!(network.unreached().is_empty());
}

/// An IPv4 packet may come through a disconnected switch that has kept its rules (simulation tests
/// 5106, 9816).
#[test]
fn host_is_accepted_when_it_replies_at_its_port() {
    let mut network = TestNetwork::without_hosts(Config::default());
    network.run(Time::from_s(1));
    let (_, headers) = switch::testing::packet(&network.topology, &udp(7, 9, 1));
    network.transmit(HostIx(3), frame::build(&headers, 100), None);
    network.run(Time::from_ms(300));
    let requests: Vec<_> = network.to_hosts.iter().filter(|(_, bytes)| is_arp(bytes, 1)).collect();
    let [(HostIx(3), question)] = requests[..] else { panic!("one request, at that port: {requests:?}") };
    let question = frame::parse(question).expect("a frame");
    assert_eq!((question.ipv4_src, question.ipv4_dst), (core::net::Ipv4Addr::UNSPECIFIED, udp(7, 9, 1).src));
    assert_eq!(hosts_found(&network), 0, "no host has replied");
    network.transmit(HostIx(3), frame::arp_reply(mac(7), ip(7), question.eth_src, question.ipv4_src), None);
    network.run(Time::from_ms(300));
    assert_eq!(hosts_found(&network), 1);
}

/// Labelled packets to the former attachment must not loop with next hops to the current one.
#[test]
fn host_with_traffic_split_moves_without_loops() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let edges = [2, 4, 6, 8, 10, 12, 14];
    for (from, to) in edges.map(|from| (from, 0)).into_iter().chain(edges.map(|from| (from, 12))) {
        if from == to {
            continue;
        }
        let paths: Vec<_> = [1, 0].map(|rank| (network.path(from, to, rank), 1)).into();
        let ends = (paths[0].0[0], *paths[0].0.last().expect("a path has nodes"));
        network.want(|script| drop(script.divisions.insert(ends, paths)));
    }
    // Any cable, to trigger the balancer.
    let cable = net::LinkIx(0);
    network.set_cable(cable, false);
    network.settle();
    network.set_cable(cable, true);
    network.run_and_settle(Time::from_s(20));
    assert!(network.unreached().is_empty());
    network.assert_exact();
    assert!(network.entries().any(|entry| (10_000..=10_032).contains(&entry.priority)), "traffic is split");
    network.announce_at(12, mac(0), ip(0));
    network.run(Time::from_ms(750));
    // The former switch is updated before those that still write labels.
    let old_place = network.topology.link(network.uplink(0)).to;
    let others: Vec<_> = network.switches.keys().copied().filter(|node| *node != old_place).collect();
    network.stall.extend(others.into_iter().map(|node| (node, Time::from_ms(1))));
    let first = network.packets.len();
    for round in 0..1_000u16 {
        for from in 2..12 {
            network.send(udp(from, 0, round));
        }
        network.run(Time::from_us(10));
    }
    network.run(Time::from_ms(10));
    let sent = &network.packets[first..];
    assert!(sent.iter().all(|packet| !packet.has_looped));
    assert!(sent[..300].iter().any(|packet| packet.delivered.is_some_and(|(host, _)| host == HostIx(0))));
    assert!(sent[9_500..].iter().all(|packet| packet.delivered.is_some_and(|(host, _)| host == HostIx(12))));
    network.run_and_settle(Time::from_s(20));
    network.assert_exact();
}
