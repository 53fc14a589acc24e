//! Virtual services: input of server balancers, and the paths they pick.

use core::net::Ipv4Addr;
use std::collections::BTreeSet;

use crate::common::{TestNetwork, udp};
use crate::services::*;
use anabranch_control::Config;
use anabranch_control::vip::Checker;
use net::{Bandwidth, HostIx, NodeIx, Time, TopologyBuilder};
use openflow::frame::{self};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, Message, MultipartRequest};

#[test]
fn least_connections_receives_ends() {
    let mut network = up(by("server-lc", 2));
    let members: Vec<u32> = (0..4).map(|port| request(&mut network, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(members.iter().filter(|member| **member == 12).count(), 2, "{members:?}");
    // Those of member 12 end; those of 13 continue.
    for _ in 0..8 {
        network.run(Time::from_s(5));
        for (port, _) in members.iter().enumerate().filter(|(_, member)| **member == 13) {
            assert_eq!(request(&mut network, tcp(0, 5000 + port as u16)), Some(13));
        }
    }
    let next: Vec<u32> = (0..2).map(|port| request(&mut network, tcp(0, 7000 + port)).expect("served")).collect();
    assert_eq!(next, [12, 12]);
}

/// F1's agents report in band; a busy server gets fewer connections. A report from another port
/// than that of its source is forged.
#[test]
fn reports_in_band_reach_the_balancer() {
    [true, false].into_iter().for_each(assert_reports_reach_the_balancer);
}

fn assert_reports_reach_the_balancer(pins_hosts: bool) {
    let checker = Ipv4Addr::new(10, 250, 0, 250);
    let health_check_address = Some(Checker { ipv4: checker, mac: MacAddr([6, 1, 1, 1, 1, 1]) });
    let config = Config { health_check_address, pins_hosts, ..Config::default() };
    let mut network = connected(TestNetwork::fat_tree(config, quiet()), by("server-cpu", 2));
    let tell = |network: &mut TestNetwork, (at, from): (u32, u32), text: &[u8]| {
        let macs = [mac(from), MacAddr([6, 1, 1, 1, 1, 1])];
        let headers = Headers::ipv4(macs, [ip(from), checker], protocol::UDP, [4000, 9876]);
        let mut report = frame::build(&headers, text.len());
        let start = report.len() - text.len();
        report[start..].copy_from_slice(text);
        network.transmit(HostIx(at), report, None);
        network.run_answering(Time::from_ms(5));
    };
    tell(&mut network, (12, 12), b"1.0 10 90");
    tell(&mut network, (13, 13), b"1.0 10 10");
    for _ in 0..300 {
        tell(&mut network, (3, 12), b"1.0 10 0");
    }
    assert!(network.controller.tally().host_claims_rejected > 0);
    let got: Vec<u32> = (0..4).map(|port| request(&mut network, tcp(0, port + 1)).expect("served")).collect();
    assert_eq!(got, [13; 4]);
    assert!(received_frames(&network, 12).is_empty(), "a report gets no reply");
}

/// Returns the switches that received requests for counters of connections.
fn polls(network: &TestNetwork, from: usize) -> Vec<NodeIx> {
    let is_one = |message: &Message| match message {
        Message::MultipartRequest(MultipartRequest::Flow(selection)) => selection.cookie >> 40 == 0xa7_ab86,
        _ => false,
    };
    network.sent[from..].iter().filter(|(_, _, message)| is_one(message)).map(|(_, node, _)| *node).collect()
}
fn bytes(network: &TestNetwork) -> Vec<u64> {
    let members = network.controller.inspect().services()[0].members.clone();
    members.iter().map(|member| member.counts.bytes_in + member.counts.bytes_out).collect()
}

/// F4: connections between two readings go to the same member; bytes of open connections count.
#[test]
fn bytes_of_open_connections_are_counted_in_both_directions() {
    let mut network = up(by("division-load", 3));
    let before = network.sent.len();
    let got: Vec<u32> = (0..3).map(|port| request(&mut network, tcp(0, 5000 + port)).expect("served")).collect();
    assert_eq!(got, [12; 3], "nothing is known yet");
    network.run(Time::from_s(6));
    // One frame in each direction, of the same size: 3 connections.
    let counted = bytes(&network);
    assert!(counted[0] > 0 && counted[0].is_multiple_of(6) && counted[1..] == [0, 0], "{counted:?}");
    assert_eq!(request(&mut network, tcp(0, 6000)), Some(13));
    assert_eq!(request(&mut network, tcp(2, 6000)), Some(13));
    network.run(Time::from_s(5));
    assert_eq!(request(&mut network, tcp(2, 6001)), Some(14));
    let asked = polls(&network, before);
    let edges = BTreeSet::from([edge_of(&network, 0), edge_of(&network, 2)]);
    assert!(asked.len() >= 3 && asked.iter().copied().collect::<BTreeSet<_>>() == edges, "{asked:?}");
    // Its connections idle out, and their bytes stay: a connection that was read and has closed
    // counts once.
    network.run(Time::from_s(60));
    assert_eq!(bytes(&network), [counted[0], counted[0] / 3 * 2, counted[0] / 3]);
}

#[test]
fn no_polls_for_balancers_without_bytes() {
    let mut network = up(by("server-rr", 3));
    let before = network.sent.len();
    assert!(request(&mut network, tcp(0, 5000)).is_some());
    network.run(Time::from_s(11));
    let is_poll = |message: &Message| matches!(message, Message::MultipartRequest(_));
    assert!(!network.sent[before..].iter().any(|(_, _, message)| is_poll(message)));
    // The pool gets another balancer, and then the former one.
    set(&mut network, by("division-load:load=rate", 3));
    assert!(request(&mut network, tcp(0, 5001)).is_some());
    network.run(Time::from_s(11));
    assert!(polls(&network, before).len() >= 2);
    set(&mut network, by("server-rr", 3));
    let before = network.sent.len();
    network.run(Time::from_s(11));
    assert!(polls(&network, before).is_empty());
}

/// Algorithm 2 of F4: a connection requests the counters, and the one after it sees them.
#[test]
fn counters_requested_at_a_connection_count_for_the_next_one() {
    let mut network = up(by("division-load:poll=per-connection", 3));
    let before = network.sent.len();
    network.run(Time::from_s(11));
    assert!(polls(&network, before).is_empty(), "no connection");
    let mut got = Vec::new();
    for port in 0..4 {
        got.push(request(&mut network, tcp(0, 5000 + port)).expect("served"));
        network.run(Time::from_s(1));
    }
    // The second one requests the bytes of the first, and the third goes elsewhere.
    assert_eq!(got, [12, 12, 13, 13]);
    // The first has no rules to count.
    assert_eq!(polls(&network, before).len(), 3);
}

/// F4's switch refreshes its statistics every 20 s: until then balancers see the former ones.
#[test]
fn stale_counters_count_until_refreshed() {
    let mut network = TestNetwork::fat_tree(Config::default(), quiet());
    network.replace_switches(|config| config.stats_refresh = Time::from_s(20));
    let mut network = connected(network, by("division-load", 3));
    let mut got = Vec::new();
    for second in 0..30 {
        let number = ask(&mut network, tcp(0, 5000 + second));
        network.run(Time::from_s(1));
        got.push(served(&network, number, tcp(0, 5000 + second)).expect("served"));
    }
    let until = got.iter().position(|member| *member != 12).expect("counters are refreshed at last");
    assert!((18..26).contains(&until), "{got:?}");
    assert!(got[until..].iter().all(|member| *member == 13), "all until the next refresh: {got:?}");
}

/// Widest paths need loads of links, even if the central balancer uses no counters.
#[test]
fn loads_of_links_are_measured_for_server_balancers() {
    let mut network = up(by("server-rr:path=htp,direction=reply", 1));
    let way = |network: &mut TestNetwork, port: u16| -> Vec<NodeIx> {
        let number = ask(network, tcp(0, port));
        network.run(Time::from_ms(20));
        assert_eq!(served(network, number, tcp(0, port)), Some(12));
        network.settle();
        let number = ask(network, tcp(0, port));
        network.run(Time::from_ms(20));
        network.packets[number as usize].visited.clone()
    };
    network.run(Time::from_s(11));
    let idle = way(&mut network, 5000);
    let mut back = idle.clone();
    back.reverse();
    // Load on that reverse path.
    let flow = (0..64).map(|port| udp(12, 0, port)).find(|flow| {
        let number = network.send(*flow);
        network.run(Time::from_ms(20));
        network.packets[number as usize].visited == back
    });
    let flow = flow.expect("a flow that is hashed to that way");
    for _ in 0..110 {
        network.send(flow);
        network.run(Time::from_ms(100));
    }
    let loaded = way(&mut network, 5001);
    assert!(loaded[1] != idle[1] && loaded[2] != idle[2], "{loaded:?} {idle:?}");
}

/// Latencies are those measured by discovery, not those of a controller without measurements.
#[test]
fn latencies_are_measured_for_server_balancers() {
    let mut builder = TopologyBuilder::new("far and near");
    let switches: Vec<NodeIx> = (0..3).map(|rack| builder.switch(format!("s{rack}"), 1, None)).collect();
    for (rack, switch) in switches.iter().enumerate() {
        let host = builder.host(format!("h{rack}"), rack as u32, None);
        builder.connect(host, *switch, Bandwidth::from_gbps(1), Time::from_us(1));
    }
    for (to, delay) in [(1, Time::from_ms(8)), (2, Time::from_ms(2))] {
        builder.connect(switches[0], switches[to], Bandwidth::from_gbps(1), delay);
    }
    let mut network = TestNetwork::up(builder.build().expect("a tree"), quiet());
    network.answering = [HostIx(1), HostIx(2)].into();
    let mut services = by("sl-ps", 3);
    services.pools[0].members = vec![member(1, 1, None), member(2, 2, None)];
    set(&mut network, services);
    network.settle();
    network.run(Time::from_s(1));
    let number = ask(&mut network, tcp(0, 5000));
    network.run(Time::from_ms(100));
    assert_eq!(served(&network, number, tcp(0, 5000)), Some(2));
}
