//! Virtual services: rules of others where those of connections would go.

mod services;
mod world;

use anabranch_control::Event;
use net::{FiveTuple, NodeIx, Time};
use openflow::{Action, Envelope, FlowMod, FlowStats, Instructions, Message, Xid};
use services::*;
use world::World;

const FOREIGN: u64 = 0x1234 << 48 | 7;

/// Somebody else puts a rule where one of ours stands now, or stood: it shows packets to whoever is the controller.
fn take(world: &mut World, node: NodeIx, rule: &FlowStats) {
    let add = FlowMod::add(rule.table, rule.priority, rule.match_, Instructions::apply(vec![Action::to_controller()]));
    let (connection, now) = (world.connections[&node], world.now);
    let switch = world.switches.get_mut(&node).expect("a switch");
    let message = Message::FlowMod(FlowMod { cookie: FOREIGN, ..add });
    switch.handle(now, connection, Envelope { xid: Xid(1_000_000), message });
}
fn reconnect(world: &mut World, node: NodeIx) {
    world.disconnect(node);
    world.run(Time::from_ms(10));
    world.connect(node);
    world.run(Time::from_ms(1));
    world.settle();
}
fn foreign(world: &World, node: NodeIx) -> Vec<FlowStats> {
    let bare = |entry: FlowStats| FlowStats { duration_ns: 0, packets: 0, bytes: 0, ..entry };
    world.switches[&node].entries().into_iter().filter(|entry| entry.cookie == FOREIGN).map(bare).collect()
}
fn refusals(world: &World) -> Vec<String> {
    let words = |(_, event): &(Time, Event)| match event {
        Event::Refused { words, .. } => Some(words.clone()),
        _ => None,
    };
    world.events.iter().filter_map(words).collect()
}

/// One connection cannot be had, with either of its rules; its client is told, and others are served.
#[test]
fn a_place_that_is_taken_is_left_alone_and_others_are_served() {
    for priority in [520, 510] {
        // Which rules it would have, another world tells.
        let mut other = up(one(all_protocols()));
        assert_eq!(request(&mut other, tcp(0, 5000)), Some(12));
        let rules = connection_rules(&other);
        let (_, rule) = rules.iter().find(|(_, rule)| rule.priority == priority).expect("a rule of the connection");
        let mut world = up(one(all_protocols()));
        let node = edge_of(&world, 0);
        take(&mut world, node, rule);
        reconnect(&mut world, node);
        let before = foreign(&world, node);
        world.to_hosts.clear();
        assert_eq!((request(&mut world, tcp(0, 5000)), told(&world, 0).len()), (None, 1), "priority {priority}");
        assert_eq!(refusals(&world).len(), 1);
        let others: Vec<FiveTuple> = (1..9).map(|port| tcp(0, 5000 + port)).collect();
        assert!(others.iter().all(|tuple| request(&mut world, *tuple).is_some()), "at once");
        assert_eq!((foreign(&world, node), before.len()), (before.clone(), 1));
        // Another member has another place for its answers.
        let again = request(&mut world, tcp(0, 5000));
        assert_eq!(again.is_some(), priority == 510, "{again:?}");
        assert_eq!(foreign(&world, node), before);
        world.assert_exact();
    }
}

/// A rule of a connection that is overwritten while its switch is away is not written over in turn.
#[test]
fn a_place_that_is_taken_later_ends_the_connection() {
    for priority in [520, 510] {
        let mut world = up(one(all_protocols()));
        assert_eq!(request(&mut world, tcp(0, 5000)), Some(12));
        let node = edge_of(&world, 0);
        let rules = connection_rules(&world);
        let (_, rule) = rules.iter().find(|(_, rule)| rule.priority == priority).expect("a rule of the connection");
        take(&mut world, node, rule);
        reconnect(&mut world, node);
        assert_eq!(foreign(&world, node).len(), 1);
        // Where the way there is taken its own other rule idles out; where the way back is, another member has another place.
        let expected = if priority == 520 { None } else { Some(13) };
        assert_eq!(request(&mut world, tcp(0, 5000)), expected);
        world.run(Time::from_s(60));
        assert_eq!((foreign(&world, node).len(), connection_rules(&world).len()), (1, 0));
        assert_eq!(world.controller.services()[0].counts.connections, 0);
        world.assert_exact();
    }
}
