//! Balancers are exchanged while packets are in flight.

mod world;

use anabranch_control::{Config, KnownHost};
use balance::central::{AgentReport, CentralBalancer, CentralEnv};
use balance::registry::{Build, CENTRAL, Entry, Spec};
use net::{FiveTuple, Time};
use openflow::{Envelope, FlowMod, FlowModCommand, Match, Message, TableId, Xid};
use world::{World, fat_tree, udp};

fn build(entry: &Entry) -> Box<dyn CentralBalancer> {
    let spec = Spec::parse(entry.example).expect("an example is valid");
    let Build::Central(build) = entry.build else { panic!("{} is not central", entry.name) };
    build(&CentralEnv { seed: 3 }, &spec.params)
}

/// A walk over the balancers that makes every step from one to another.
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
fn traffic(world: &mut World, flows: &[FiveTuple], time: Time) {
    let until = world.now + time;
    while world.now < until {
        flows.iter().for_each(|tuple| {
            world.send(*tuple);
        });
        world.run(Time::from_ms(1));
    }
}

/// From every registered balancer to every other: nothing is lost, nothing goes round, and what is installed afterwards
/// is what the new one wants.
#[test]
fn no_exchange_of_balancers_loses_a_packet() {
    let config =
        Config { hosts: KnownHost::all_of(&fat_tree()), poll_interval: Time::from_ms(200), ..Config::default() };
    let flows: Vec<_> = (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect();
    let mut world = World::with(fat_tree(), config, build(CENTRAL[0]), (100_000, 10_000));
    world.connect_all();
    world.settle();
    let mut moves = 0;
    let mut before = CENTRAL[0].name;
    for entry in all_pairs() {
        let now = world.now;
        world.controller.set_balancer(now, build(entry));
        world.drain_controller();
        for tuple in &flows {
            world.report(AgentReport::Started { tuple: *tuple, bytes: 2_000_000, size: Some(50_000_000) });
        }
        traffic(&mut world, &flows, Time::from_ms(400));
        world.run(Time::from_ms(50));
        for (number, packet) in world.packets.iter().enumerate() {
            let what = || format!("{before} to {}, packet {number}, flow {}", entry.name, number % flows.len());
            assert!(packet.delivered.is_some(), "{} was lost after {:?}", what(), packet.visited);
            assert!(!packet.has_looped, "{} went round: {:?}", what(), packet.visited);
        }
        world.packets.clear();
        (world.events, before) = (Vec::new(), entry.name);
        world.sent.clear();
        moves += world.controller.tally().moves;
    }
    assert!(moves > 0, "no balancer ever gave a flow a path of its own");
    world.settle();
    world.assert_exact();
    assert!(world.unreached().is_empty());
}

/// The tester can fail: rules that go behind the controller's back are seen as loss.
#[test]
fn the_loss_of_rules_is_seen() {
    let config = Config { hosts: KnownHost::all_of(&fat_tree()), ..Config::default() };
    let mut world = World::with(fat_tree(), config, build(CENTRAL[0]), (100_000, 10_000));
    world.connect_all();
    world.settle();
    let flows: Vec<_> = (0..16).map(|host| udp(host, (host + 8) % 16, 4_000 + host as u16)).collect();
    let (now, node) = (world.now, net::NodeIx(0));
    let (connection, switch) = (world.connections[&node], world.switches.get_mut(&node).expect("a switch"));
    let all = FlowMod::delete_strict(TableId::ALL, 0, Match::default());
    let message = Message::FlowMod(FlowMod { command: FlowModCommand::Delete, ..all });
    switch.handle(now, connection, Envelope { xid: Xid(0), message });
    traffic(&mut world, &flows, Time::from_ms(2));
    world.run(Time::from_ms(50));
    assert!(world.packets.iter().any(|packet| packet.delivered.is_none()), "nothing was lost without rules");
}
