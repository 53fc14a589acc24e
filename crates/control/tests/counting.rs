//! Rules that count flows known by their first packets: the switches' own, whatever becomes of controllers and messages.

mod world;

use anabranch_control::{Config, Controller, KnownHost};
use balance::central::{CentralNeeds, FlowSource, Why};
use net::{FiveTuple, NodeIx, Time};
use openflow::{ErrorKind, FlowModFailed, FlowStats, Message, ToController};

use world::{Scripted, World, fat_tree, udp};

const NEEDS: CentralNeeds = CentralNeeds { flows: FlowSource::FirstPackets, counters: true, period: None };

/// A network whose rules stay for 60 s without packets.
fn patient(flows_max: usize, rules_max: u32) -> World {
    let topology = fat_tree();
    let hosts = KnownHost::all_of(&topology);
    let config = Config { hosts, flows_max, flow_idle_timeout_s: 60, ..Config::default() };
    let mut world = World::new(topology, config, NEEDS, (rules_max, 10_000));
    world.connect_all();
    world.settle();
    world
}

fn is_counter(entry: &FlowStats) -> bool {
    entry.cookie >> 40 & 0xff == 2
}
fn counters(world: &World) -> usize {
    world.switches.values().map(|switch| switch.entries().iter().filter(|entry| is_counter(entry)).count()).sum()
}
fn send(world: &mut World, tuples: &[FiveTuple]) {
    for tuple in tuples {
        world.send(*tuple);
        world.run(Time::from_ms(2));
    }
}
fn flows(count: u16) -> Vec<FiveTuple> {
    (0..count).map(|port| udp(0, 9, 5_000 + port)).collect()
}
/// How often the balancer was told since the last look of flows that began, and that ended.
fn told(world: &World) -> (usize, usize) {
    let asked = std::mem::take(&mut world.script.lock().unwrap().asked);
    let count = |is_meant: fn(&Why) -> bool| asked.iter().filter(|why| is_meant(why)).count();
    (count(|why| matches!(why, Why::FlowStarted(_))), count(|why| matches!(why, Why::FlowEnded(_))))
}
/// The switch where flows are counted.
fn edge(world: &World) -> NodeIx {
    let has = |switch: &switch::Switch| switch.entries().iter().any(is_counter);
    *world.switches.iter().find(|(_, switch)| has(switch)).expect("flows are counted somewhere").0
}

#[test]
fn a_rule_is_one_message_and_no_wish() {
    let mut world = patient(100, 100_000);
    let (before, barriers) = (world.controller.tally().flow_mods, count_barriers(&world));
    send(&mut world, &flows(5));
    world.settle();
    assert_eq!((counters(&world), told(&world).0), (5, 5));
    assert_eq!((world.controller.tally().flow_mods - before, count_barriers(&world) - barriers), (5, 0));
    world.assert_exact();
}
fn count_barriers(world: &World) -> usize {
    world.sent.iter().filter(|(_, _, message)| matches!(message, Message::BarrierRequest)).count()
}

#[test]
fn flows_beyond_the_limit_are_counted_and_told_of_when_there_is_room() {
    let mut world = patient(3, 100_000);
    told(&world);
    send(&mut world, &flows(5));
    assert_eq!((counters(&world), told(&world)), (5, (3, 0)));
    let tally = world.controller.tally();
    assert_eq!(tally.flows_untold, 2);
    // The switch does not ask again.
    send(&mut world, &flows(5));
    assert_eq!(world.controller.tally().packet_ins, tally.packet_ins);
    // A flow that is known goes: somebody deletes its rule.
    let known = world.controller.flows().next().expect("a flow").facts.tuple;
    forget(&mut world, &known);
    world.run(Time::from_s(11));
    assert_eq!(told(&world), (1, 1), "one has ended, and a poll found another one");
    assert_eq!(world.controller.flows().count(), 3);
    world.assert_exact();
}

/// A rule goes without a word, as if the word had been lost.
fn forget(world: &mut World, tuple: &FiveTuple) {
    let node = edge(world);
    let is_of = |entry: &FlowStats| is_counter(entry) && entry.match_.udp_src == Some(tuple.src_port);
    let entry = world.switches[&node].entries().into_iter().find(is_of).expect("its rule");
    let delete = openflow::FlowMod::delete_strict(entry.table, entry.priority, entry.match_);
    let envelope = openflow::Envelope { xid: openflow::Xid(u32::MAX), message: Message::FlowMod(delete) };
    let connection = world.connections[&node];
    let switch = world.switches.get_mut(&node).expect("a switch");
    switch.handle(world.now, connection, envelope);
    while switch.poll_output().is_some() {}
}

#[test]
fn a_lost_word_about_the_end_is_made_up_for_by_a_poll() {
    let mut world = patient(100, 100_000);
    told(&world);
    let tuples = flows(4);
    send(&mut world, &tuples);
    forget(&mut world, &tuples[1]);
    world.run(Time::from_s(6));
    assert_eq!(told(&world), (4, 1));
    assert!(world.controller.flows().all(|flow| flow.facts.tuple != tuples[1]));
    // Its next packet is the first one of a flow.
    send(&mut world, &tuples[1..2]);
    assert_eq!((told(&world), counters(&world)), ((1, 0), 4));
    world.assert_exact();
}

#[test]
fn a_controller_that_starts_again_goes_on_counting_and_deletes_nothing() {
    let mut world = patient(100, 100_000);
    send(&mut world, &flows(4));
    let nodes: Vec<NodeIx> = world.switches.keys().copied().collect();
    nodes.iter().for_each(|node| world.disconnect(*node));
    let config =
        Config { hosts: KnownHost::all_of(&world.topology), flow_idle_timeout_s: 60, seed: 7, ..Config::default() };
    let balancer = Scripted { script: world.script.clone(), needs: NEEDS };
    world.controller = Controller::new(config, Box::new(balancer));
    told(&world);
    world.sent.clear();
    world.connect_all();
    world.settle();
    assert_eq!((counters(&world), told(&world)), (4, (4, 0)));
    let is_deletion =
        |message: &Message| matches!(message, Message::FlowMod(change) if is_counter_cookie(change.cookie));
    assert!(!world.sent.iter().any(|(_, _, message)| is_deletion(message)));
    world.assert_exact();
    // What went while nobody was connected is over.
    let node = edge(&world);
    let tuple = world.controller.flows().next().expect("a flow").facts.tuple;
    world.disconnect(node);
    let switch = world.switches.get_mut(&node).expect("a switch");
    let is_of = |entry: &FlowStats| is_counter(entry) && entry.match_.udp_src == Some(tuple.src_port);
    let entry = switch.entries().into_iter().find(is_of).expect("its rule");
    let connection = openflow::ConnectionId(9_999);
    switch.connected(world.now, connection);
    let delete = openflow::FlowMod::delete_strict(entry.table, entry.priority, entry.match_);
    for message in [Message::Hello { versions: 1 << 4 }, Message::FlowMod(delete)] {
        switch.handle(world.now, connection, openflow::Envelope { xid: openflow::Xid(1), message });
    }
    switch.disconnected(world.now, connection);
    while switch.poll_output().is_some() {}
    world.connect(node);
    world.settle();
    assert_eq!(told(&world), (0, 1));
}
fn is_counter_cookie(cookie: u64) -> bool {
    cookie >> 40 & 0xff == 2
}

#[test]
fn another_source_of_flows_takes_the_rules_away_at_once() {
    let mut world = patient(100, 100_000);
    send(&mut world, &flows(4));
    assert_eq!(counters(&world), 4);
    let (node, before) = (edge(&world), world.sent.len());
    let needs = CentralNeeds { flows: FlowSource::None, counters: false, period: None };
    let balancer = Scripted { script: world.script.clone(), needs };
    world.controller.set_balancer(world.now, Box::new(balancer));
    world.drain_controller();
    world.settle();
    let first = world.sent[before..].iter().find(|(_, at, _)| *at == node).map(|(_, _, message)| message);
    assert!(
        matches!(first, Some(Message::FlowMod(change)) if change.command == openflow::FlowModCommand::Delete),
        "{first:?}"
    );
    assert_eq!((counters(&world), world.controller.flows().count()), (0, 0));
    world.assert_exact();
}

#[test]
fn what_a_full_switch_refuses_is_over_and_not_tried_again_for_a_while() {
    let mut world = patient(100, 100_000);
    let tuples = flows(2);
    send(&mut world, &tuples[..1]);
    told(&world);
    // The next rule is refused.
    world.send(tuples[1]);
    let refused = loop {
        world.run(Time::from_us(1));
        let last = world.sent.last().map(|(_, node, message)| (*node, message.clone()));
        if let Some((node, Message::FlowMod(change))) = last
            && change.match_.udp_src == Some(tuples[1].src_port)
        {
            break node;
        }
    };
    let connection = world.connections[&refused];
    let xid = world.last_xid[&refused];
    let kind = ErrorKind::FlowModFailed(FlowModFailed::TableFull);
    let envelope = openflow::Envelope { xid, message: Message::Error { kind, data: Vec::new() } };
    world.controller.handle(world.now, ToController::Message(connection, envelope));
    world.drain_controller();
    assert_eq!(told(&world), (1, 1));
    // Its rule is there nevertheless, in truth; taken away, its packets come to the controller, which waits.
    forget(&mut world, &tuples[1]);
    let (before, asked) = (world.controller.tally().flow_mods, world.controller.tally().packet_ins);
    send(&mut world, &tuples[1..]);
    assert_eq!(world.controller.tally().flow_mods, before);
    assert!(world.controller.tally().packet_ins > asked);
    world.run(Time::from_s(61));
    send(&mut world, &tuples[1..]);
    assert_eq!(told(&world).0, 1, "after a while it is tried again");
}
