//! Hosts are learnt, asked for and answered for; flows are counted.

mod world;

use anabranch_control::{Config, Event};
use balance::central::{AgentReport, CentralNeeds, FlowSource, Why};
use net::{HostIx, Time, address};
use openflow::headers::ether;
use openflow::{Headers, MacAddr, frame};
use world::{World, fat_tree, needs, udp};

fn nothing_known(needs: CentralNeeds) -> World {
    let mut world = World::new(fat_tree(), Config::default(), needs, (100_000, 10_000));
    world.connect_all();
    world.run(Time::from_s(1));
    world.settle();
    world
}

fn quiet() -> CentralNeeds {
    CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}

fn ask(world: &mut World, from: u32, to: u32) {
    let (mac, ip) = (MacAddr(address::host_mac(HostIx(from))), address::host_ipv4(HostIx(from)));
    let request = frame::arp_request(mac, ip, address::host_ipv4(HostIx(to)));
    world.transmit(HostIx(from), request, None);
    world.run(Time::from_ms(20));
}

#[test]
fn an_unknown_host_is_asked_for_at_edge_ports_only_and_answered_for_afterwards() {
    let mut world = nothing_known(quiet());
    assert_eq!(world.controller.topology().hosts().len(), 0);
    ask(&mut world, 0, 15);
    // Everyone but the one who asks hears the question, once; no switch forwards it.
    let mut heard: Vec<HostIx> =
        world.to_hosts.iter().filter(|(_, frame)| is_arp(frame, 1)).map(|(host, _)| *host).collect();
    heard.sort_unstable();
    assert_eq!(heard, (1..16).map(HostIx).collect::<Vec<_>>());
    assert_eq!(world.controller.topology().hosts().len(), 1);
    // The host answers; the answer goes to whoever asked, and the controller answers by itself from now on.
    world.to_hosts.clear();
    let (mac, ip) = (MacAddr(address::host_mac(HostIx(15))), address::host_ipv4(HostIx(15)));
    let asker = (MacAddr(address::host_mac(HostIx(0))), address::host_ipv4(HostIx(0)));
    world.transmit(HostIx(15), frame::arp_reply(mac, ip, asker.0, asker.1), None);
    world.run(Time::from_ms(20));
    // Ports without hosts are probed before the one that answered is believed.
    world.to_hosts.retain(|(_, frame)| frame::parse(frame).is_ok_and(|frame| frame.eth_type == ether::ARP));
    assert_eq!(world.to_hosts.len(), 1, "{:?}", world.to_hosts);
    assert!(world.to_hosts[0].0 == HostIx(0) && is_arp(&world.to_hosts[0].1, 2));
    world.to_hosts.clear();
    ask(&mut world, 0, 15);
    assert_eq!(world.to_hosts.len(), 1);
    let answer = frame::parse(&world.to_hosts[0].1).expect("a frame");
    assert_eq!((answer.arp_op, answer.eth_src, answer.ipv4_src, answer.ipv4_dst), (2, mac, ip, asker.1));
    world.settle();
    world.assert_exact();
    let packet = world.send(udp(0, 15, 1));
    world.run(Time::from_ms(5));
    assert_eq!(world.packets[packet as usize].delivered.map(|(host, _)| host), Some(HostIx(15)));
}

#[test]
fn whoever_gets_an_answer_can_send_at_once() {
    let mut world = nothing_known(quiet());
    let who = |host| (MacAddr(address::host_mac(HostIx(host))), address::host_ipv4(HostIx(host)));
    let ((near_mac, near), (far_mac, far)) = (who(0), who(15));
    world.transmit(HostIx(0), frame::arp_request(near_mac, near, far), None);
    world.run(Time::from_ms(2));
    world.to_hosts.clear();
    world.transmit(HostIx(15), frame::arp_reply(far_mac, far, near_mac, near), None);
    let mut waited = Time::ZERO;
    while !world.to_hosts.iter().any(|(host, bytes)| *host == HostIx(0) && is_arp(bytes, 2)) {
        assert!(waited < Time::from_ms(50), "no answer");
        world.run(Time::from_us(20));
        waited += Time::from_us(20);
    }
    for (from, to) in [(0, 15), (15, 0)] {
        let packet = world.send(udp(from, to, 1));
        world.run(Time::from_ms(5));
        assert_eq!(world.packets[packet as usize].delivered.map(|(host, _)| host), Some(HostIx(to)));
    }
}

fn is_arp(bytes: &[u8], op: u16) -> bool {
    frame::parse(bytes).is_ok_and(|headers| headers.arp_op == op)
}

#[test]
fn hosts_that_speak_are_learnt_where_they_are_and_followed_when_they_move() {
    let mut world = nothing_known(quiet());
    for host in 0..16 {
        ask(&mut world, host, host); // A gratuitous ARP.
    }
    world.settle();
    assert_eq!(world.controller.topology().hosts().len(), 16);
    assert!(world.unreached().is_empty());
    // Host 0 appears at the port of host 12: the old place is dead, the new one is another host to balancers.
    let (mac, ip) = (MacAddr(address::host_mac(HostIx(0))), address::host_ipv4(HostIx(0)));
    world.transmit(HostIx(12), frame::arp_request(mac, ip, ip), None);
    world.run(Time::from_ms(10));
    world.settle();
    world.assert_exact();
    assert_eq!(world.controller.topology().hosts().len(), 17);
    let packet = world.send(udp(5, 0, 1));
    world.run(Time::from_ms(5));
    assert_eq!(world.packets[packet as usize].delivered.map(|(host, _)| host), Some(HostIx(12)));
    assert!(world.events.iter().filter(|(_, event)| matches!(event, Event::Host(_))).count() == 17);
}

#[test]
fn packets_in_transit_teach_nothing() {
    let mut world = World::up(fat_tree(), quiet());
    assert!(world.unreached().is_empty());
    world.run(Time::from_s(2));
    assert_eq!(world.controller.topology().hosts().len(), 16);
    assert!(!world.events.iter().any(|(_, event)| matches!(event, Event::Host(_))));
}

/// Sends packets of 100 bytes of payload at an interval.
fn stream(world: &mut World, tuple: net::FiveTuple, packets: u32, interval: Time) {
    for _ in 0..packets {
        world.send(tuple);
        world.run(interval);
    }
}

#[test]
fn pairs_are_flows_when_they_have_sent_and_until_they_are_idle() {
    let needs = CentralNeeds { flows: FlowSource::Pairs, counters: true, period: Some(Time::from_s(1)) };
    let mut world = World::up(fat_tree(), needs);
    // At each edge switch, its two hosts to 15 others.
    let counting = |entry: &openflow::FlowStats| entry.cookie >> 40 & 0xff == 2;
    let edge = world.switches.values().map(|switch| switch.entries().iter().filter(|e| counting(e)).count());
    assert_eq!(edge.sum::<usize>(), 16 * 15);
    let packet_bytes = 14 + 20 + 8 + 100;
    stream(&mut world, udp(0, 9, 5), 600, Time::from_ms(20));
    let asked = std::mem::take(&mut world.script.lock().unwrap().asked);
    assert_eq!(asked.iter().filter(|why| matches!(why, Why::FlowStarted(_))).count(), 1, "{asked:?}");
    world.run(Time::from_s(30));
    let asked = std::mem::take(&mut world.script.lock().unwrap().asked);
    assert_eq!(asked.iter().filter(|why| matches!(why, Why::FlowEnded(_))).count(), 1, "{asked:?}");
    let rates = world.script.lock().unwrap().rates.clone();
    let expected = f64::from(packet_bytes) * 8.0 / 0.02;
    let best = rates.iter().map(|rate| rate.as_bps_f64()).fold(0.0, f64::max);
    assert!((best / expected - 1.0).abs() < 0.01, "{best} instead of {expected}");
    world.assert_exact();
}

#[test]
fn first_packets_start_flows_and_idle_counters_end_them() {
    let needs = CentralNeeds { flows: FlowSource::FirstPackets, counters: true, period: None };
    let mut world = World::up(fat_tree(), needs);
    let tuples = [udp(0, 9, 5), udp(0, 9, 6), udp(3, 4, 5)];
    for tuple in tuples {
        stream(&mut world, tuple, 20, Time::from_us(300));
    }
    world.settle();
    world.assert_exact();
    let asked = std::mem::take(&mut world.script.lock().unwrap().asked);
    assert_eq!(asked.iter().filter(|why| matches!(why, Why::FlowStarted(_))).count(), 3, "{asked:?}");
    assert!(world.packets.iter().all(|packet| packet.delivered.is_some()), "first packets are copied, not held");
    // A packet or two more may come before the counter stands, never all.
    assert!(world.controller.tally().packet_ins < 180, "{:?}", world.controller.tally());
    world.run(Time::from_s(8));
    let asked = std::mem::take(&mut world.script.lock().unwrap().asked);
    assert_eq!(asked.iter().filter(|why| matches!(why, Why::FlowEnded(_))).count(), 3, "{asked:?}");
    world.settle();
    world.assert_exact();
}

#[test]
fn agents_start_and_end_flows_which_are_counted_meanwhile() {
    let needs = CentralNeeds { flows: FlowSource::Agents, counters: true, period: Some(Time::from_s(1)) };
    let mut world = World::up(fat_tree(), needs);
    let tuple = udp(0, 9, 5);
    world.report(AgentReport::Started { tuple, bytes: 5_000, size: Some(1_000_000) });
    world.settle();
    stream(&mut world, tuple, 1_200, Time::from_ms(10));
    world.report(AgentReport::Ended { tuple, bytes: 175_400 });
    world.settle();
    world.assert_exact();
    let script = world.script.lock().unwrap();
    assert!(script.asked.iter().any(|why| matches!(why, Why::FlowEnded(_))));
    assert_eq!(script.last_bytes, 175_400);
    let expected = f64::from(14 + 20 + 8 + 100) * 8.0 / 0.01;
    let load = script.load.iter().map(|rate| rate.as_bps_f64()).fold(0.0, f64::max);
    // Ports carry probes besides.
    assert!((load / expected - 1.0).abs() < 0.02, "{load} instead of {expected}");
    let best = script.rates.iter().map(|rate| rate.as_bps_f64()).fold(0.0, f64::max);
    drop(script);
    assert!(((best / expected - 1.0).abs()) < 0.01, "{best} instead of {expected}");
    let counting = |entry: &openflow::FlowStats| entry.cookie >> 40 & 0xff == 2;
    assert!(!world.switches.values().any(|switch| switch.entries().iter().any(counting)), "the counter is gone");
}

/// A link that was dead when its ports were probed (storm 39).
#[test]
fn a_link_that_comes_alive_shows_no_hosts() {
    let mut world = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    let core = world.topology.nodes().iter().position(|node| node.tier.0 == 3).expect("a core switch");
    let down = world.topology.out_links(net::NodeIx(core as u32))[0];
    world.link_down.extend([down, down.reverse()]);
    world.connect_all();
    world.run(Time::from_s(1));
    (0..16).for_each(|host| ask(&mut world, host, host));
    world.settle();
    let known = |world: &World| world.events.iter().filter(|(_, event)| matches!(event, Event::Host(_))).count();
    assert_eq!(known(&world), 16);
    world.link_down.clear();
    for (link, host) in [(down, 0), (down.reverse(), 15)] {
        let (mac, ip) = (MacAddr(address::host_mac(HostIx(host))), address::host_ipv4(HostIx(host)));
        world.travel(link, frame::arp_request(mac, ip, ip), None);
    }
    world.run(Time::from_ms(100));
    world.settle();
    assert_eq!(known(&world), 16, "the hosts are where they were");
    assert!(world.controller.alive().iter().all(|alive| *alive), "and the link is found at once");
    assert!(world.unreached().is_empty());
}

/// An IPv4 packet may come through a switch that has kept its rules and is not connected (storms 5106, 9816).
#[test]
fn a_host_is_believed_when_it_answers_where_its_packets_came_from() {
    let mut world = nothing_known(quiet());
    world.run(Time::from_s(1));
    let packet = |src: u32| {
        let tuple = udp(src, 9, 1);
        let macs = [src, 9].map(|host| MacAddr(address::host_mac(HostIx(host))));
        let headers = Headers::ipv4(macs, [tuple.src, tuple.dst], tuple.protocol, [tuple.src_port, tuple.dst_port]);
        frame::build(&headers, 100)
    };
    let known = |world: &World| world.events.iter().filter(|(_, event)| matches!(event, Event::Host(_))).count();
    world.transmit(HostIx(3), packet(7), None);
    world.run(Time::from_ms(300));
    let questions: Vec<(HostIx, Headers)> =
        world.to_hosts.iter().filter_map(|(host, bytes)| Some((*host, frame::parse(bytes).ok()?))).collect();
    let questions: Vec<_> = questions.into_iter().filter(|(_, headers)| headers.arp_op == 1).collect();
    let [(HostIx(3), question)] = questions[..] else { panic!("one question, there: {questions:?}") };
    assert_eq!((question.ipv4_src, question.ipv4_dst), (core::net::Ipv4Addr::UNSPECIFIED, udp(7, 9, 1).src));
    assert_eq!(known(&world), 0, "nobody has answered");
    let (mac, ip) = (MacAddr(address::host_mac(HostIx(7))), address::host_ipv4(HostIx(7)));
    world.transmit(HostIx(3), frame::arp_reply(mac, ip, question.eth_src, question.ipv4_src), None);
    world.run(Time::from_ms(300));
    assert_eq!(known(&world), 1);
}

/// Packets with labels to where the host was do not go round with next hops to where it is.
#[test]
fn a_host_with_divided_traffic_moves_without_loops() {
    let mut world = World::up(fat_tree(), quiet());
    let (topology, routes) = (fat_tree(), net::Routes::intact(&world.topology));
    let datapaths = |from: u32, to: u32, rank: u32| -> Vec<u64> {
        let start = routes.class_node(routes.class_of(HostIx(from)));
        let links = routes.path(&topology, start, routes.class_of(HostIx(to)), rank);
        net::paths::nodes(&topology, start, &links).into_iter().map(address::datapath_of).collect()
    };
    world.want(|script| {
        let edges = [2, 4, 6, 8, 10, 12, 14];
        for (from, to) in edges.map(|from| (from, 0)).into_iter().chain(edges.map(|from| (from, 12))) {
            if from == to {
                continue;
            }
            let paths: Vec<_> = [1, 0].map(|rank| (datapaths(from, to, rank), 1)).into();
            let ends = (paths[0].0[0], *paths[0].0.last().expect("a path has nodes"));
            script.divisions.insert(ends, paths);
        }
    });
    // A cable of no account, so that the balancer is asked.
    let cable = net::LinkIx(0);
    world.set_cable(cable, false);
    world.settle();
    world.set_cable(cable, true);
    world.run(Time::from_s(20));
    world.settle();
    assert!(world.unreached().is_empty());
    world.assert_exact();
    let labels =
        world.switches.values().flat_map(switch::Switch::entries).filter(|entry| entry.priority == 10_000).count();
    assert!(labels > 0, "traffic is divided");
    let (mac, ip) = (MacAddr(address::host_mac(HostIx(0))), address::host_ipv4(HostIx(0)));
    world.transmit(HostIx(12), frame::arp_request(mac, ip, ip), None);
    // The old place hears of it before those who still write labels.
    let old_place = routes.class_node(routes.class_of(HostIx(0)));
    let others: Vec<_> = world.switches.keys().copied().filter(|node| *node != old_place).collect();
    world.stall.extend(others.into_iter().map(|node| (node, Time::from_ms(1))));
    let first = world.packets.len();
    for round in 0..1_000u16 {
        for from in 2..12 {
            world.send(udp(from, 0, round));
        }
        world.run(Time::from_us(10));
    }
    world.run(Time::from_ms(10));
    let sent = &world.packets[first..];
    assert!(sent.iter().all(|packet| !packet.has_looped));
    assert!(sent[..300].iter().any(|packet| packet.delivered.is_some_and(|(host, _)| host == HostIx(0))));
    assert!(sent[9_500..].iter().all(|packet| packet.delivered.is_some_and(|(host, _)| host == HostIx(12))));
    world.run(Time::from_s(20));
    world.settle();
    world.assert_exact();
}
