//! Virtual services: what pickers are told, and the paths they pick.

mod services;
mod world;

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use anabranch_control::vip::{Checker, Services};
use anabranch_control::{Config, KnownHost};
use net::{Bandwidth, HostIx, NodeIx, Time, TopologyBuilder, address};
use openflow::frame::{self};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, Message, MultipartRequest};
use services::*;
use world::{World, fat_tree, switch_config, udp};

#[test]
fn least_connections_hears_of_their_ends() {
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-lc".into();
    services.pools[0].members.truncate(2);
    let mut world = up(services);
    let members: Vec<u32> = (0..4).map(|port| request(&mut world, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(members.iter().filter(|member| **member == 12).count(), 2, "{members:?}");
    // Those of member 12 end; those of 13 go on.
    for _ in 0..8 {
        world.run(Time::from_s(5));
        for (port, _) in members.iter().enumerate().filter(|(_, member)| **member == 13) {
            assert_eq!(request(&mut world, tcp(0, 5000 + port as u16)), Some(13));
        }
    }
    let next: Vec<u32> = (0..2).map(|port| request(&mut world, tcp(0, 7000 + port)).expect("served")).collect();
    assert_eq!(next, [12, 12]);
}

/// F1's agents tell in band; who is busy gets less.
#[test]
fn reports_in_band_reach_the_balancer() {
    let checker = Ipv4Addr::new(10, 250, 0, 250);
    let config = Config {
        hosts: KnownHost::all_of(&fat_tree()),
        checker: Some(Checker { ipv4: checker, mac: MacAddr([6, 1, 1, 1, 1, 1]) }),
        ..Config::default()
    };
    let mut world = World::new(fat_tree(), config, quiet(), (100_000, 10_000));
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    let mut services = one(all_protocols());
    services.pools[0].balancer = "server-cpu".into();
    services.pools[0].members.truncate(2);
    set(&mut world, services);
    world.connect_all();
    world.settle();
    let tell = |world: &mut World, from: u32, text: &[u8]| {
        let macs = [MacAddr(address::host_mac(HostIx(from))), MacAddr([6, 1, 1, 1, 1, 1])];
        let headers = Headers::ipv4(macs, [ip(from), checker], protocol::UDP, [4000, 9876]);
        let mut report = frame::build(&headers, text.len());
        let start = report.len() - text.len();
        report[start..].copy_from_slice(text);
        world.transmit(HostIx(from), report, None);
        world.run(Time::from_ms(5));
    };
    tell(&mut world, 12, b"1.0 10 90");
    tell(&mut world, 13, b"1.0 10 10");
    let got: Vec<u32> = (0..4).map(|port| request(&mut world, tcp(0, port + 1)).expect("served")).collect();
    assert_eq!(got, [13; 4]);
    assert!(told(&world, 12).is_empty(), "a report is not answered");
}

/// Questions for the counters of connections, with the switches they went to.
fn polls(world: &World, from: usize) -> Vec<NodeIx> {
    let is_one = |message: &Message| match message {
        Message::MultipartRequest(MultipartRequest::Flow(selection)) => selection.cookie >> 40 == 0xa7_ab06,
        _ => false,
    };
    world.sent[from..].iter().filter(|(_, _, message)| is_one(message)).map(|(_, node, _)| *node).collect()
}
fn bytes(world: &World) -> Vec<u64> {
    let members = world.controller.services()[0].members.clone();
    members.iter().map(|member| member.counts.bytes_in + member.counts.bytes_out).collect()
}
fn by(balancer: &str) -> Services {
    let mut services = one(all_protocols());
    services.pools[0].balancer = balancer.into();
    services.pools[0].members.truncate(3);
    services
}

/// F4: those who come between two readings go to the same member; what connections have carried so far counts while they live.
#[test]
fn bytes_of_connections_that_live_are_counted_both_ways() {
    let mut world = up(by("division-load"));
    let before = world.sent.len();
    let got: Vec<u32> = (0..3).map(|port| request(&mut world, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(got, [12; 3], "nothing is known yet");
    world.run(Time::from_s(6));
    // One frame each way, and they differ in size by nothing: 3 connections.
    let counted = bytes(&world);
    assert!(counted[0] > 0 && counted[0].is_multiple_of(6) && counted[1..] == [0, 0], "{counted:?}");
    assert_eq!(request(&mut world, tcp(0, 6000)), Some(13));
    assert_eq!(request(&mut world, tcp(2, 6000)), Some(13));
    world.run(Time::from_s(5));
    assert_eq!(request(&mut world, tcp(2, 6001)), Some(14));
    let asked = polls(&world, before);
    let edges = BTreeSet::from([edge_of(&world, 0), edge_of(&world, 2)]);
    assert!(asked.len() >= 3 && asked.iter().copied().collect::<BTreeSet<_>>() == edges, "{asked:?}");
    // Its connections idle out, and their bytes stay: who was read and who is over counts once.
    world.run(Time::from_s(60));
    assert_eq!(bytes(&world), [counted[0], counted[0] / 3 * 2, counted[0] / 3]);
}

#[test]
fn nobody_is_polled_for_pickers_that_do_not_go_by_bytes() {
    let mut world = up(by("server-rr"));
    let before = world.sent.len();
    assert!(request(&mut world, tcp(0, 5000)).is_some());
    world.run(Time::from_s(11));
    let is_poll = |message: &Message| matches!(message, Message::MultipartRequest(_));
    assert!(!world.sent[before..].iter().any(|(_, _, message)| is_poll(message)));
    // The pool gets another picker, and then its old one.
    set(&mut world, by("division-load:load=rate"));
    assert!(request(&mut world, tcp(0, 5001)).is_some());
    world.run(Time::from_s(11));
    assert!(polls(&world, before).len() >= 2);
    set(&mut world, by("server-rr"));
    let before = world.sent.len();
    world.run(Time::from_s(11));
    assert!(polls(&world, before).is_empty());
}

/// F4's switch refreshes its statistics every 20 s: until then pickers see what it said last.
#[test]
fn counters_that_are_not_refreshed_are_believed_until_they_are() {
    let topology = fat_tree();
    let config = Config { hosts: KnownHost::all_of(&topology), ..Config::default() };
    let mut world = World::new(topology.clone(), config, quiet(), (100_000, 10_000));
    for (node, switch) in &mut world.switches {
        let config = switch_config(&topology, *node, (100_000, 10_000), None);
        *switch = switch::Switch::new(switch::Config { stats_refresh: Time::from_s(20), ..config });
    }
    world.answering = SERVERS.into_iter().map(HostIx).collect();
    set(&mut world, by("division-load"));
    world.connect_all();
    world.settle();
    let mut got = Vec::new();
    for second in 0..30 {
        let number = ask(&mut world, tcp(0, 5000 + second));
        world.run(Time::from_s(1));
        got.push(served(&world, number, tcp(0, 5000 + second)).expect("served"));
    }
    let until = got.iter().position(|member| *member != 12).expect("counters are refreshed at last");
    assert!((18..26).contains(&until), "{got:?}");
    assert!(got[until..].iter().all(|member| *member == 13), "all until the next refresh: {got:?}");
}

/// Widest paths need loads of links, also where the central balancer wants no counters.
#[test]
fn loads_of_links_are_measured_for_pickers() {
    let mut services = by("server-rr:path=htp,direction=reply");
    services.pools[0].members.truncate(1);
    let mut world = up(services);
    let way = |world: &mut World, port: u16| -> Vec<NodeIx> {
        let number = ask(world, tcp(0, port));
        world.run(Time::from_ms(20));
        assert_eq!(served(world, number, tcp(0, port)), Some(12));
        world.settle();
        let number = ask(world, tcp(0, port));
        world.run(Time::from_ms(20));
        world.packets[number as usize].visited.clone()
    };
    world.run(Time::from_s(11));
    let idle = way(&mut world, 5000);
    let mut back = idle.clone();
    back.reverse();
    // Somebody loads that way back.
    let flow = (0..64).map(|port| udp(12, 0, port)).find(|flow| {
        let number = world.send(*flow);
        world.run(Time::from_ms(20));
        world.packets[number as usize].visited == back
    });
    let flow = flow.expect("a flow that is hashed to that way");
    for _ in 0..110 {
        world.send(flow);
        world.run(Time::from_ms(100));
    }
    let loaded = way(&mut world, 5001);
    assert!(loaded[1] != idle[1] && loaded[2] != idle[2], "{loaded:?} {idle:?}");
}

/// Latencies are those that discovery packets show, not those of whoever knows none.
#[test]
fn latencies_are_measured_for_pickers() {
    let mut builder = TopologyBuilder::new("far and near");
    let switches: Vec<NodeIx> = (0..3).map(|rack| builder.switch(format!("s{rack}"), 1, None)).collect();
    for (rack, switch) in switches.iter().enumerate() {
        let host = builder.host(format!("h{rack}"), rack as u32, None);
        builder.connect(host, *switch, Bandwidth::from_gbps(1), Time::from_us(1));
    }
    for (to, delay) in [(1, Time::from_ms(8)), (2, Time::from_ms(2))] {
        builder.connect(switches[0], switches[to], Bandwidth::from_gbps(1), delay);
    }
    let mut world = World::up(builder.build().expect("a tree"), quiet());
    world.answering = [HostIx(1), HostIx(2)].into();
    let mut services = by("sl-ps");
    services.pools[0].members = vec![member(1, 1, None), member(2, 2, None)];
    set(&mut world, services);
    world.settle();
    world.run(Time::from_s(1));
    let number = ask(&mut world, tcp(0, 5000));
    world.run(Time::from_ms(100));
    assert_eq!(served(&world, number, tcp(0, 5000)), Some(2));
}
