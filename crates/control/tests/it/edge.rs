//! The edge: prefixes of BGP peers, on simulated switches. Hosts 0 and 1 of the fat-tree are the
//! peers behind two uplinks.

use core::net::Ipv4Addr;

use anabranch_control::Config;
use anabranch_control::edge::{EdgeConfig, RouteInput, Uplink};
use bgp::bmp::Policy;
use bgp::damping::Damping;
use bgp::{Prefix, Route, RouteEvent, RouterId};
use net::{Bandwidth, HostIx, Time};
use openflow::headers::protocol;
use openflow::{Headers, MacAddr, Message, MultipartReply, frame};

use crate::common::*;

const ROUTER: RouterId = RouterId(Ipv4Addr::new(127, 0, 0, 1));
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 250, 0, 1);
/// The hosts that are peers.
const PEERS: [u32; 2] = [0, 1];
const S: fn(u64) -> Time = Time::from_s;

fn prefix(number: u8) -> Prefix {
    Prefix::around(Ipv4Addr::new(203, 0, number, 0), 24)
}
fn outside(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(203, 0, number, 9)
}

fn config(rules_max: usize, damping: Damping) -> Config {
    let topology = fat_tree();
    let base = config_for(&topology);
    let uplinks = PEERS.map(|number| {
        let host = base.hosts[number as usize];
        Uplink {
            name: format!("up{number}"),
            port: host.port,
            peer: host.ipv4,
            local: Ipv4Addr::new(192, 0, 2, number as u8),
            rate: Bandwidth::from_mbps(1),
        }
    });
    let edge = EdgeConfig {
        datapath: base.hosts[0].datapath,
        gateway: GATEWAY,
        uplinks: uplinks.into(),
        policy: Policy::Post,
        shortest_only: false,
        rules_max,
        routes_max: 10_000,
        stale_time: S(60),
        damping,
        hysteresis: 0.05,
        // Simulated switches have no TTL.
        decrements_ttl: false,
    };
    Config { edge: Some(edge), poll_interval: S(1), ..base }
}

fn undamped() -> Damping {
    Damping { suppress: f64::INFINITY, ..Damping::default() }
}

fn up() -> TestNetwork {
    TestNetwork::new(fat_tree(), config(1000, undamped()), quiet(), AMPLE).connected()
}

fn report(network: &mut TestNetwork, events: Vec<RouteEvent>) {
    network.report_routes(&RouteInput::Events(ROUTER, events));
    network.settle();
}
fn announce(peer: u32, number: u8) -> RouteEvent {
    let route = Route { next_hop: ip(peer), as_path_len: 1, local_pref: 100 };
    RouteEvent::Announce { peer: ip(peer), prefix: prefix(number), route }
}
/// Announces prefixes by both peers at once, so that they are divided from the start.
fn announce_all(network: &mut TestNetwork, count: u8) {
    let events = PEERS.into_iter().flat_map(|peer| {
        let routes = (0..count).map(move |number| announce(peer, number));
        [RouteEvent::PeerUp(ip(peer))].into_iter().chain(routes).chain([RouteEvent::EndOfRib(ip(peer))])
    });
    report(network, events.collect());
}
/// Sends a packet. Returns the host it reaches, and the Ethernet address it has then.
fn deliver(network: &mut TestNetwork, from: u32, to: Ipv4Addr, source: Ipv4Addr) -> Option<(u32, MacAddr)> {
    let headers = Headers::ipv4([mac(from), MacAddr([6, 6, 6, 6, 6, 6])], [source, to], protocol::UDP, [7, 9]);
    let number = network.transmit_packet(HostIx(from), |_| frame::build(&headers, 1000));
    network.run(Time::from_ms(5));
    let packet = &network.packets[number as usize];
    assert!(packet.deliveries <= 1 && !packet.has_looped);
    Some((packet.delivered?.0.0, packet.arrived.as_ref()?.eth_dst))
}
fn send(network: &mut TestNetwork, from: u32, to: Ipv4Addr) -> Option<u32> {
    let (host, eth_dst) = deliver(network, from, to, ip(from))?;
    assert_eq!(eth_dst, mac(host), "the address of the receiver");
    Some(host)
}
fn uplinks(network: &TestNetwork) -> Vec<(bool, usize)> {
    let status = network.controller.inspect().edge().expect("an edge");
    status.uplinks.iter().map(|uplink| (uplink.status.is_up, uplink.status.rules)).collect()
}

#[test]
fn prefixes_are_divided_and_follow_failures_of_ports_and_peers() {
    let mut network = up();
    assert_eq!(uplinks(&network), [(true, 0), (true, 0)]);
    assert_eq!(send(&mut network, 15, outside(0)), None, "no route yet");
    announce_all(&mut network, 10);
    assert_eq!(uplinks(&network), [(true, 5), (true, 5)]);
    // From the switch itself, from its pod, and from another one.
    for from in [2, 15] {
        for number in 0..10 {
            let peer = send(&mut network, from, outside(number));
            assert!(peer.is_some_and(|peer| PEERS.contains(&peer)), "{from} {number}: {peer:?}");
        }
    }
    assert_eq!(send(&mut network, 15, outside(99)), None, "no peer announces it");
    network.set_cable(network.uplink(0), false);
    network.settle();
    assert_eq!(uplinks(&network), [(false, 0), (true, 10)]);
    (0..10).for_each(|number| assert_eq!(send(&mut network, 15, outside(number)), Some(1)));
    network.set_cable(network.uplink(0), true);
    network.run_and_settle(S(3));
    report(&mut network, vec![RouteEvent::PeerDown(ip(1))]);
    (0..10).for_each(|number| assert_eq!(send(&mut network, 15, outside(number)), Some(0)));
    report(&mut network, vec![RouteEvent::PeerDown(ip(0))]);
    (0..10).for_each(|number| assert_eq!(send(&mut network, 15, outside(number)), None));
    assert_eq!(network.rejections(), 0);
    network.assert_exact();
}

#[test]
fn packets_from_peers_reach_hosts_but_no_other_peer() {
    let mut network = up();
    announce_all(&mut network, 4);
    let source = Ipv4Addr::new(198, 51, 100, 1);
    for host in [2, 15] {
        assert_eq!(deliver(&mut network, 0, ip(host), source), Some((host, mac(host))));
    }
    for number in 0..5 {
        assert_eq!(deliver(&mut network, 0, outside(number), source), None, "transit");
    }
}

#[test]
fn gateway_answers_arp() {
    let mut network = up();
    network.to_hosts.clear();
    network.request_arp(15, GATEWAY);
    network.run(Time::from_ms(2));
    let is_answer = |bytes: &[u8]| {
        frame::parse(bytes)
            .is_ok_and(|headers| headers.arp_op == 2 && headers.eth_src == anabranch_control::vip::mac_of(GATEWAY))
    };
    assert!(network.to_hosts.iter().any(|(_, bytes)| is_answer(bytes)));
}

/// Rules of a previous controller instance stay until the routes are known, and no longer than the
/// stale time.
#[test]
fn restarted_controller_keeps_prefixes_until_it_knows_the_routes() {
    let mut network = up();
    announce_all(&mut network, 10);
    let of: Vec<Option<u32>> = (0..10).map(|number| send(&mut network, 15, outside(number))).collect();
    network.restart_controller(config(1000, undamped()), quiet());
    network.sent.clear();
    network.connect_all();
    for _ in 0..20 {
        network.run(Time::from_ms(100));
        let now: Vec<Option<u32>> = (0..10).map(|number| send(&mut network, 15, outside(number))).collect();
        assert_eq!(now, of);
    }
    report(&mut network, vec![RouteEvent::PeerUp(ip(0))]);
    report(&mut network, (0..8).map(|number| announce(0, number)).collect());
    report(&mut network, vec![RouteEvent::EndOfRib(ip(0))]);
    // Peer 1 is still assumed to have its routes.
    let expected = |number: usize| if number < 8 || of[number] == Some(1) { of[number] } else { None };
    (0..10).for_each(|number| assert_eq!(send(&mut network, 15, outside(number as u8)), expected(number)));
    network.run_and_settle(S(61));
    for number in 0..10 {
        assert_eq!(send(&mut network, 15, outside(number)), (number < 8).then_some(0));
    }
}

#[test]
fn measured_load_moves_prefixes() {
    let mut network = up();
    announce_all(&mut network, 8);
    let on_first: Vec<u8> = (0..8).filter(|number| send(&mut network, 15, outside(*number)) == Some(0)).collect();
    assert_eq!(on_first.len(), 4);
    // 4 × 160 kbit/s on the first uplink of 1 Mbit/s, nothing on the second.
    for _ in 0..250 {
        for number in &on_first {
            send(&mut network, 15, outside(*number));
        }
        network.run(Time::from_ms(30));
    }
    let status = network.controller.inspect().edge().expect("an edge");
    assert_eq!(status.moves.balanced, 2, "{:?}", status.uplinks);
    let still = on_first.iter().filter(|number| send(&mut network, 15, outside(**number)) == Some(0)).count();
    assert_eq!(still, 2);
    let rates: Vec<f64> = status.uplinks.iter().map(|uplink| uplink.status.rate_bps).collect();
    assert!((rates[0] / rates[1] - 1.0).abs() < 0.2, "{rates:?}");
}

/// Damping bounds the number of rule changes that flapping routes cause.
#[test]
fn flapping_routes_cause_few_rule_changes() {
    let mut network = TestNetwork::new(fat_tree(), config(1000, Damping::default()), quiet(), AMPLE).connected();
    announce_all(&mut network, 100);
    network.sent.clear();
    for _ in 0..100 {
        let withdraw = |number| RouteEvent::Withdraw { peer: ip(0), prefix: prefix(number) };
        report(&mut network, (0..100).map(withdraw).collect());
        report(&mut network, (0..100).map(|number| announce(0, number)).collect());
    }
    let changes = network.sent.iter().filter(|(_, _, message)| matches!(message, Message::FlowMod(_))).count();
    // Of the 100 prefixes 50 are on the flapping uplink; they move once, and not back.
    assert_eq!(changes, 50);
    assert_eq!(uplinks(&network), [(true, 0), (true, 100)]);
    let status = network.controller.inspect().edge().expect("an edge");
    assert_eq!(status.uplinks[0].peer.suppressed, 100);
}

#[test]
fn counters_of_other_tables_or_switches_are_not_mistaken_for_prefixes() {
    let mut network = up();
    announce_all(&mut network, 2);
    let before = network.controller.inspect().edge().expect("an edge");
    let node = *network.switches.keys().next().expect("a switch");
    let connection = network.connections[&node];
    let reply = Message::MultipartReply { reply: MultipartReply::Flow(network.entries().collect()), has_more: false };
    let envelope = openflow::Envelope { xid: openflow::Xid(9_999_999), message: reply };
    network.controller.handle(network.now, openflow::ToController::Message(connection, envelope));
    network.settle();
    assert_eq!(network.controller.inspect().edge().expect("an edge"), before);
}
