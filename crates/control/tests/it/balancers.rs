//! Replacement of balancers while packets are in flight.

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
    let config = Config { poll_interval: Time::from_ms(200), ..config_for(&fat_tree()) };
    let flows: Vec<_> = (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect();
    let mut network = TestNetwork::with(fat_tree(), config, build(CENTRAL[0]), AMPLE).connected();
    let mut moves = 0;
    let mut before = CENTRAL[0].name;
    for entry in all_pairs() {
        let now = network.now;
        network.controller.set_balancer(now, build(entry));
        network.drain_controller();
        for tuple in &flows {
            network.report(AgentReport::Started { tuple: *tuple, bytes: 2_000_000, size: Some(50_000_000) });
        }
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
    let config = config_for(&fat_tree());
    let mut network = TestNetwork::with(fat_tree(), config, build(CENTRAL[0]), AMPLE).connected();
    let flows: Vec<_> = (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect();
    let all = FlowMod::delete_strict(TableId::ALL, 0, Match::default());
    network.inject(net::NodeIx(0), Message::FlowMod(FlowMod { command: FlowModCommand::Delete, ..all }));
    traffic(&mut network, &flows, Time::from_ms(2));
    network.run(Time::from_ms(50));
    assert!(network.packets.iter().any(|packet| packet.delivered.is_none()), "nothing was lost without rules");
}
