//! Counting rules of flows known by their first packets: owned by the switch, despite failures of
//! controllers and lost messages.

use anabranch_control::Config;
use balance::central::{CentralNeeds, DecisionTrigger, FlowSource};
use net::{FiveTuple, NodeIx, Time};
use openflow::{ErrorKind, FlowModFailed, FlowStats, Message, ToController};

use crate::common::{Scripted, TestNetwork, config_for, quiet, udp};

pub const NEEDS: CentralNeeds = CentralNeeds { flows: FlowSource::FirstPackets, counters: true, period: None };

/// Returns a network whose counting rules stay for 60 s without packets.
fn network_with_long_timeouts(flows_max: usize) -> TestNetwork {
    TestNetwork::fat_tree(Config { flows_max, flow_idle_timeout_s: 60, ..Config::default() }, NEEDS).connected()
}

pub fn is_counter(entry: &FlowStats) -> bool {
    entry.cookie >> 40 & 0x7f == 2
}
fn counters(network: &TestNetwork) -> usize {
    network.entries().filter(is_counter).count()
}
fn send(network: &mut TestNetwork, tuples: &[FiveTuple]) {
    for tuple in tuples {
        network.send(*tuple);
        network.run(Time::from_ms(2));
    }
}
fn flows(count: u16) -> Vec<FiveTuple> {
    (0..count).map(|port| udp(0, 9, 5_000 + port)).collect()
}
/// Returns the number of flows whose begin and end the balancer received since the last call.
pub fn flow_notifications(network: &TestNetwork) -> (usize, usize) {
    let asked = std::mem::take(&mut network.script.lock().unwrap().asked);
    let count = |is_meant: fn(&DecisionTrigger) -> bool| asked.iter().filter(|why| is_meant(why)).count();
    (
        count(|why| matches!(why, DecisionTrigger::FlowStarted(_))),
        count(|why| matches!(why, DecisionTrigger::FlowEnded(_))),
    )
}
fn edge(network: &TestNetwork) -> NodeIx {
    let has = |switch: &switch::Switch| switch.entries().iter().any(is_counter);
    *network.switches.iter().find(|(_, switch)| has(switch)).expect("flows are counted somewhere").0
}

#[test]
fn counting_rule_is_one_message_outside_the_desired_state() {
    let mut network = network_with_long_timeouts(100);
    let (before, barriers) = (network.controller.tally().flow_mods, count_barriers(&network));
    send(&mut network, &flows(5));
    network.settle();
    assert_eq!((counters(&network), flow_notifications(&network).0), (5, 5));
    assert_eq!((network.controller.tally().flow_mods - before, count_barriers(&network) - barriers), (5, 0));
    network.assert_exact();
}
fn count_barriers(network: &TestNetwork) -> usize {
    network.sent.iter().filter(|(_, _, message)| matches!(message, Message::BarrierRequest)).count()
}

#[test]
fn flows_over_limit_are_counted_and_reported_later() {
    let mut network = network_with_long_timeouts(3);
    flow_notifications(&network);
    send(&mut network, &flows(5));
    assert_eq!((counters(&network), flow_notifications(&network)), (5, (3, 0)));
    let tally = network.controller.tally();
    assert_eq!(tally.flows_over_limit, 2);
    // The switch sends no further copy.
    send(&mut network, &flows(5));
    assert_eq!(network.controller.tally().packet_ins, tally.packet_ins);
    // A known flow ends: its rule is deleted.
    let known = network.controller.inspect().flows().next().expect("a flow").facts.tuple;
    remove_silently(&mut network, &known);
    network.run(Time::from_s(11));
    assert_eq!(flow_notifications(&network), (1, 1), "one has ended, and a poll found another one");
    assert_eq!(network.controller.inspect().flows().count(), 3);
    network.assert_exact();
}

/// Removes a rule as if the report of its removal had been lost.
fn remove_silently(network: &mut TestNetwork, tuple: &FiveTuple) {
    let node = edge(network);
    let deletion = deletion_of(network, node, tuple);
    network.inject(node, deletion);
    while network.switches.get_mut(&node).expect("a switch").poll_output().is_some() {}
}
fn deletion_of(network: &TestNetwork, node: NodeIx, tuple: &FiveTuple) -> Message {
    let is_of = |entry: &FlowStats| is_counter(entry) && entry.match_.udp_src == Some(tuple.src_port);
    let entry = network.switches[&node].entries().into_iter().find(is_of).expect("its rule");
    Message::FlowMod(openflow::FlowMod::delete_strict(entry.table, entry.priority, entry.match_))
}

#[test]
fn lost_flow_removed_is_detected_by_a_poll() {
    let mut network = network_with_long_timeouts(100);
    flow_notifications(&network);
    let tuples = flows(4);
    send(&mut network, &tuples);
    remove_silently(&mut network, &tuples[1]);
    network.run(Time::from_s(6));
    assert_eq!(flow_notifications(&network), (4, 1));
    assert!(network.controller.inspect().flows().all(|flow| flow.facts.tuple != tuples[1]));
    // Its next packet is the first packet of a flow.
    send(&mut network, &tuples[1..2]);
    assert_eq!((flow_notifications(&network), counters(&network)), ((1, 0), 4));
    network.assert_exact();
}

#[test]
fn restarted_controller_continues_counting() {
    let mut network = network_with_long_timeouts(100);
    send(&mut network, &flows(4));
    let config = Config { flow_idle_timeout_s: 60, seed: 7, ..config_for(&network.topology) };
    network.restart_controller(config, NEEDS);
    flow_notifications(&network);
    network.sent.clear();
    network.connect_all();
    network.settle();
    assert_eq!((counters(&network), flow_notifications(&network)), (4, (4, 0)));
    let is_deletion =
        |message: &Message| matches!(message, Message::FlowMod(change) if is_counter_cookie(change.cookie));
    assert!(!network.sent.iter().any(|(_, _, message)| is_deletion(message)));
    network.assert_exact();
    // Flows whose rules went while no controller was connected have ended.
    let node = edge(&network);
    let tuple = network.controller.inspect().flows().next().expect("a flow").facts.tuple;
    network.disconnect(node);
    let deletion = deletion_of(&network, node, &tuple);
    let switch = network.switches.get_mut(&node).expect("a switch");
    let connection = openflow::ConnectionId(9_999);
    switch.connected(network.now, connection);
    for message in [Message::Hello { versions: 1 << 4 }, deletion] {
        switch.handle(network.now, connection, openflow::Envelope { xid: openflow::Xid(1), message });
    }
    switch.disconnected(network.now, connection);
    while switch.poll_output().is_some() {}
    network.connect(node);
    network.settle();
    assert_eq!(flow_notifications(&network), (0, 1));
}
fn is_counter_cookie(cookie: u64) -> bool {
    cookie >> 40 & 0x7f == 2
}

#[test]
fn other_flow_source_deletes_counting_rules() {
    let mut network = network_with_long_timeouts(100);
    send(&mut network, &flows(4));
    assert_eq!(counters(&network), 4);
    let (node, before) = (edge(&network), network.sent.len());
    let balancer = Scripted { script: network.script.clone(), needs: quiet() };
    network.controller.set_balancer(network.now, Box::new(balancer));
    network.drain_controller();
    network.settle();
    let first = network.sent[before..].iter().find(|(_, at, _)| *at == node).map(|(_, _, message)| message);
    assert!(
        matches!(first, Some(Message::FlowMod(change)) if change.command == openflow::FlowModCommand::Delete),
        "{first:?}"
    );
    assert_eq!((counters(&network), network.controller.inspect().flows().count()), (0, 0));
    network.assert_exact();
}

#[test]
fn flow_rejected_by_a_full_switch_ends_and_is_retried_later() {
    let mut network = network_with_long_timeouts(100);
    let tuples = flows(2);
    send(&mut network, &tuples[..1]);
    flow_notifications(&network);
    // The next rule is rejected.
    network.send(tuples[1]);
    let refused = loop {
        network.run(Time::from_us(1));
        let last = network.sent.last().map(|(_, node, message)| (*node, message.clone()));
        if let Some((node, Message::FlowMod(change))) = last
            && change.match_.udp_src == Some(tuples[1].src_port)
        {
            break node;
        }
    };
    let connection = network.connections[&refused];
    let xid = network.last_xid[&refused];
    let kind = ErrorKind::FlowModFailed(FlowModFailed::TableFull);
    let envelope = openflow::Envelope { xid, message: Message::Error { kind, data: Vec::new() } };
    network.controller.handle(network.now, ToController::Message(connection, envelope));
    network.drain_controller();
    assert_eq!(flow_notifications(&network), (1, 1));
    // Its rule is installed nevertheless; when it is removed, packets go to the controller, which
    // waits.
    remove_silently(&mut network, &tuples[1]);
    let (before, asked) = (network.controller.tally().flow_mods, network.controller.tally().packet_ins);
    send(&mut network, &tuples[1..]);
    assert_eq!(network.controller.tally().flow_mods, before);
    assert!(network.controller.tally().packet_ins > asked);
    network.run(Time::from_s(61));
    send(&mut network, &tuples[1..]);
    assert_eq!(flow_notifications(&network).0, 1, "it is retried later");
}
