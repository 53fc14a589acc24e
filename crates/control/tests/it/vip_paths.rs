//! Virtual services: paths picked by server balancers, through failures, moves and restarts; and
//! central balancers that learn connections.

use crate::common::{TestNetwork, config_for, marked, needs};
use crate::services::*;
use anabranch_control::Config;
use anabranch_control::vip::Services;
use balance::central::FlowSource;
use net::{FiveTuple, HostIx, NodeIx, Time, address};

fn path_services() -> Services {
    by("server-rr:path=spl", 1)
}
fn pins(network: &TestNetwork) -> usize {
    network.entries().filter(|entry| entry.cookie >> 40 == 0xa7_ab05).count()
}
/// Returns the switches that a packet and its reply pass.
fn round_trip_path(network: &mut TestNetwork, tuple: FiveTuple) -> Vec<NodeIx> {
    let number = ask(network, tuple);
    network.run(Time::from_ms(20));
    assert_eq!(served(network, number, tuple), Some(12));
    let question = &network.packets[number as usize];
    let mut back = network.packets[question.answer.expect("answered") as usize].visited.clone();
    back.reverse();
    assert_eq!(question.visited, back, "the same path");
    back
}

/// The balancer picked a path too: the connection and its replies use it. When a link of it dies it
/// gets another.
#[test]
fn picked_paths_are_used_in_both_directions() {
    let mut network = up(path_services());
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
    network.settle();
    assert_eq!(pins(&network), 8, "four switches each way, the last one of each has the host");
    for _ in 0..2 {
        let before = round_trip_path(&mut network, tcp(0, 5000));
        let cable = network.cable(before[1], before[2]);
        network.set_cable(cable, false);
        network.run_and_settle(Time::from_ms(100));
        let now = round_trip_path(&mut network, tcp(0, 5000));
        assert_ne!(now, before);
        assert_eq!(pins(&network), 8, "pinned again");
    }
    // No shortest path to the member is left: the connection waits for one.
    let first = round_trip_path(&mut network, tcp(0, 5000));
    let up: Vec<_> = (0..2).map(|port| network.topology.out_links(first[0])[2 + port]).collect();
    up.iter().for_each(|link| network.set_cable(*link, false));
    network.run_and_settle(Time::from_ms(100));
    assert_eq!((pins(&network), request(&mut network, tcp(0, 5000))), (0, None));
    up.iter().for_each(|link| network.set_cable(*link, true));
    network.run_and_settle(Time::from_s(1));
    assert!(pins(&network) >= 8, "the first that came back");
    round_trip_path(&mut network, tcp(0, 5000));
    network.run_and_settle(Time::from_s(60));
    assert_eq!((pins(&network), connection_rules(&network).len()), (0, 0));
    network.assert_exact();
}

#[test]
fn restarted_controller_picks_paths_again() {
    let mut network = up(path_services());
    let flows: Vec<FiveTuple> = (0..4).map(|port| tcp(port, 5000)).collect();
    let members: Vec<_> = flows.iter().map(|tuple| request(&mut network, *tuple)).collect();
    network.settle();
    let ways: Vec<_> = flows.iter().map(|tuple| round_trip_path(&mut network, *tuple)).collect();
    let (before, rules) = (pins(&network), connection_rules(&network).len());
    assert!(before >= 16 && members == [Some(12); 4]);
    network.restart_controller(config_for(&network.topology), quiet());
    set(&mut network, path_services());
    network.connect_all();
    network.run_and_settle(Time::from_s(2));
    assert_eq!((pins(&network), connection_rules(&network).len()), (before, rules));
    let again: Vec<_> = flows.iter().map(|tuple| round_trip_path(&mut network, *tuple)).collect();
    assert_eq!(again, ways);
    network.assert_exact();
}

/// Packets of the member must never reach the client from the member's own address: the rules are
/// at the new switch before it is reachable there, although the client sends nothing to the
/// service.
#[test]
fn connections_of_a_moved_client_follow_before_it_sends() {
    let mut network = up(path_services());
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
    network.settle();
    network.move_to(10, mac(0), ip(0));
    let mut seen = Vec::new();
    for _ in 0..200 {
        network.run(Time::from_ms(5));
        let back = FiveTuple { dst: ip(12), dst_port: 8080, ..tcp(0, 5000) }.reverse();
        let macs = [mac(12), mac(0)];
        seen.push(network.transmit_packet(HostIx(12), |number| marked::frame(macs, &back, true, number)));
    }
    network.run(Time::from_ms(50));
    let moved = seen.iter().filter(|number| {
        let packet = &network.packets[**number as usize];
        assert!(!packet.has_looped);
        let Some((host, _)) = packet.delivered else { return false };
        let from = packet.arrived.expect("a packet").ipv4_src;
        assert_eq!(from, VIP, "at host {}", host.0);
        host == HostIx(10)
    });
    assert!(moved.count() > 100, "it is reached where it is now");
    network.settle();
    let edge = openflow::DatapathId(address::datapath_of(edge_of(&network, 10)));
    assert!(connection_rules(&network).iter().all(|(at, _)| *at == edge) && connection_rules(&network).len() == 2);
    assert!(pins(&network) > 0, "and has a path from there");
    network.assert_exact();
}

/// A central balancer that learns flows by first packets receives both directions, with their
/// addresses in the network, and their rates.
#[test]
fn first_packet_balancers_receive_both_directions() {
    let config = Config { poll_interval: Time::from_s(1), flow_idle_timeout_s: 5, ..Config::default() };
    let network = TestNetwork::fat_tree(config, needs(FlowSource::FirstPackets, true));
    let mut network = connected(network, one(all_protocols()));
    assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
    let inner = FiveTuple { dst: ip(12), dst_port: 8080, ..tcp(0, 5000) };
    let known = |network: &TestNetwork| -> Vec<FiveTuple> {
        network.controller.inspect().flows().map(|flow| flow.facts.tuple).collect()
    };
    let mut both = known(&network);
    both.sort_unstable();
    assert_eq!(both, [inner, inner.reverse()]);
    for _ in 0..30 {
        assert_eq!(request(&mut network, tcp(0, 5000)), Some(12));
        network.run(Time::from_ms(100));
    }
    let rates: Vec<bool> = network
        .controller
        .inspect()
        .flows()
        .map(|flow| flow.facts.rate.is_some_and(|rate| rate.as_bps() > 0))
        .collect();
    assert_eq!(rates, [true, true], "polls count both");
    network.run(Time::from_s(60));
    assert!(known(&network).is_empty());
    assert_eq!(crate::counting::flow_notifications(&network).1, 2);
    network.assert_exact();
}
