//! Every registered central balancer on real switches: through a failure, and replaced by every other
//! while packets are in flight.

use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, udp};
use anabranch_control::Config;
use balance::central::{AgentReport, CentralBalancer, CentralEnv};
use balance::registry::CENTRAL;
use balance::{Build, Entry, Spec};
use net::{FiveTuple, Time};
use openflow::{FlowMod, FlowModCommand, Match, Message, TableId};

fn build(entry: &Entry) -> Box<dyn CentralBalancer> {
    let spec = Spec::parse(entry.example).expect("an example is valid");
    let Build::Central(build) = entry.build else { panic!("{} is not central", entry.name) };
    build(&CentralEnv { seed: 3 }, &spec.params)
}

/// Returns a walk over the balancers that makes every step from one to another.
fn all_pairs() -> Vec<&'static Entry> {
    let mut walk = Vec::new();
    for (position, first) in CENTRAL.iter().enumerate() {
        for second in &CENTRAL[position + 1..] {
            walk.extend([*first, *second]);
        }
        walk.push(*first);
    }
    walk
}

fn fat_tree_with(entry: &Entry, poll_interval: Time) -> TestNetwork {
    let config = Config { poll_interval, ..config_for(&fat_tree()) };
    TestNetwork::with(fat_tree(), config, build(entry), AMPLE).connected()
}

/// Returns a flow of each host.
fn flows() -> Vec<FiveTuple> {
    (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect()
}

/// Reports flows to the balancer, as agents do.
fn report(network: &mut TestNetwork, flows: &[FiveTuple]) {
    for tuple in flows {
        network.report(AgentReport::Started { tuple: *tuple, bytes: 2_000_000, size: Some(50_000_000) });
    }
}

/// Sends a packet of every flow each millisecond for a while.
fn traffic(network: &mut TestNetwork, flows: &[FiveTuple], time: Time) {
    let until = network.now + time;
    while network.now < until {
        flows.iter().for_each(|tuple| {
            network.send(*tuple);
        });
        network.run(Time::from_ms(1));
    }
}

/// From every registered balancer to every other: no packet is lost, none loops, and afterwards the
/// placements of the new one are installed.
#[test]
fn balancer_swap_loses_no_packet() {
    let (mut network, flows) = (fat_tree_with(CENTRAL[0], Time::from_ms(200)), flows());
    let mut moves = 0;
    let mut before = CENTRAL[0].name;
    for entry in all_pairs() {
        let now = network.now;
        network.controller.set_balancer(now, build(entry));
        network.drain_controller();
        report(&mut network, &flows);
        traffic(&mut network, &flows, Time::from_ms(400));
        network.run(Time::from_ms(50));
        for (number, packet) in network.packets.iter().enumerate() {
            let what = || format!("{before} to {}, packet {number}, flow {}", entry.name, number % flows.len());
            assert!(packet.delivered.is_some(), "{} was lost after {:?}", what(), packet.visited);
            assert!(!packet.has_looped, "{} looped: {:?}", what(), packet.visited);
        }
        network.packets.clear();
        (network.events, before) = (Vec::new(), entry.name);
        network.sent.clear();
        moves += network.controller.tally().moves;
    }
    assert!(moves > 0, "no balancer ever pinned a flow");
    network.settle();
    network.assert_served();
}

/// The test can fail: it sees the loss caused by rules deleted without the controller.
#[test]
fn loss_of_rules_is_detected() {
    let mut network = fat_tree_with(CENTRAL[0], Config::default().poll_interval);
    let all = FlowMod::delete_strict(TableId::ALL, 0, Match::default());
    network.inject(net::NodeIx(0), Message::FlowMod(FlowMod { command: FlowModCommand::Delete, ..all }));
    traffic(&mut network, &flows(), Time::from_ms(2));
    network.run(Time::from_ms(50));
    assert!(network.packets.iter().any(|packet| packet.delivered.is_none()), "nothing was lost without rules");
}

#[test]
fn central_balancers_serve_a_fat_tree_through_a_failure() {
    for entry in CENTRAL {
        let (mut network, flows) = (fat_tree_with(entry, Time::from_ms(500)), flows());
        network.assert_exact();
        assert!(network.unreached().is_empty(), "{}", entry.name);
        report(&mut network, &flows);
        let edge = net::NodeIx(0);
        let cable = network.cable(edge, network.topology.link(network.topology.out_links(edge)[0]).to);
        for turn in 0..4_000 {
            flows.iter().for_each(|tuple| {
                network.send(*tuple);
            });
            network.run(Time::from_ms(5));
            match turn {
                1_500 => network.set_cable(cable, false),
                2_500 => network.set_cable(cable, true),
                _ => {}
            }
        }
        assert!(!network.packets.iter().any(|packet| packet.visited.len() > 12), "{}: a packet looped", entry.name);
        let lost = network.packets.iter().rev().skip(16).filter(|packet| packet.delivered.is_none()).count();
        assert!(lost < 16 * 3, "{}: {lost} lost at one failure", entry.name);
        for tuple in flows {
            network.report(AgentReport::Ended { tuple, bytes: 50_000_000 });
        }
        network.assert_settled();
        assert!(network.unreached().is_empty(), "{} after a failure", entry.name);
    }
    assert!(!CENTRAL.is_empty(), "no central balancer is registered");
}
