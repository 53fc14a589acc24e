//! Rejections, stalls, one-way failures, peers without OpenFlow 1.3, and duplicate messages.

use crate::common::{AMPLE, TestNetwork, config_for, fat_tree, needs, quiet, udp};
use crate::hostile::Peer;
use anabranch_control::{CloseReason, Config, Event};
use balance::central::{CentralNeeds, FlowSource};
use net::{LinkIx, NodeIx, Time};
use openflow::{ConnectionId, Envelope, Message, ToController, Xid};

#[test]
fn full_table_is_reported_and_retried_after_a_deletion() {
    let topology = fat_tree();
    let config = config_for(&topology);
    // Capacity for the default routes (16 destinations, 2 of them twice) and one pin in the
    // forwarding table.
    let mut network = TestNetwork::new(topology, config, needs(FlowSource::Agents, false), (19, 100)).connected();
    network.assert_exact();
    assert_eq!(network.rejections(), 0);
    let path = network.path(0, 15, 1);
    let flows = [udp(0, 15, 1), udp(0, 15, 2)];
    for tuple in flows {
        network.start(tuple);
        network.want(|script| drop(script.pins.insert(tuple, path.clone())));
        network.run_and_settle(Time::from_ms(200));
        network.assert_exact();
    }
    assert!(network.rejections() > 0, "the second pin does not fit");
    assert_eq!(network.controller.tally().moves, 1);
    let sent = network.sent.len();
    network.run(Time::from_s(5));
    let changes = |message: &Message| matches!(message, Message::FlowMod(_) | Message::GroupMod(_));
    assert!(!network.sent[sent..].iter().any(|(_, _, message)| changes(message)), "no loop");
    assert!(network.unreached().is_empty());
    // The first one is released: the second one is installed.
    network.want(|script| drop(script.pins.remove(&flows[0])));
    network.run_and_settle(Time::from_ms(200));
    network.assert_exact();
    assert_eq!(network.controller.tally().moves, 3);
    network.route_of(flows[1]);
    assert_eq!(network.packets.last().expect("a packet").path(), path);
}

#[test]
fn switch_without_room_for_groups_uses_single_next_hops() {
    let topology = fat_tree();
    let config = config_for(&topology);
    let mut network = TestNetwork::new(topology, config, quiet(), (1000, 0)).connected();
    network.assert_exact();
    assert!(network.rejections() > 0);
    assert!(network.controller.inspect().switches().any(|switch| switch.rules_single > 0));
    let lost = network.unreached();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn stalled_switch_gets_at_most_its_window() {
    let mut network = TestNetwork::up(fat_tree(), CentralNeeds { flows: FlowSource::Pairs, ..quiet() });
    let node = *network.switches.keys().next().unwrap();
    network.disconnect(node);
    // Power loss: hundreds of rules must be sent over a slow channel.
    network.lose_power(node);
    network.stall.insert(node, Time::from_s(1));
    network.connect(node);
    let (mut unconfirmed, mut largest) = (0usize, 0usize);
    let mut seen = network.sent.len();
    for _ in 0..400 {
        network.run(Time::from_ms(50));
        for (_, at, message) in &network.sent[seen..] {
            match message {
                Message::FlowMod(_) | Message::GroupMod(_) if *at == node => unconfirmed += 1,
                Message::BarrierRequest if *at == node => unconfirmed = 0,
                _ => {}
            }
            largest = largest.max(unconfirmed);
        }
        seen = network.sent.len();
    }
    assert!(largest <= 256, "{largest}");
    network.settle();
    network.assert_served();
}

#[test]
fn one_way_failure_kills_one_direction() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let core = LinkIx(
        (0..network.topology.links().len() as u32)
            .find(|ix| network.topology.link_tier(LinkIx(*ix)).0 == 3 && network.topology.is_upward(LinkIx(*ix)))
            .unwrap(),
    );
    network.link_down.insert(core); // Ports stay up: no switch reports the failure.
    network.run_and_settle(Time::from_s(60));
    assert_eq!(network.dead_links(), 1);
    network.assert_served();
    network.link_down.remove(&core);
    network.run_and_settle(Time::from_s(20));
    assert_eq!(network.dead_links(), 0);
}

#[test]
fn failure_is_repaired_within_200_ms() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let tuple = udp(0, 15, 7);
    let visited = network.route_of(tuple);
    let cable = network.cable(visited[2], visited[3]); // From core to pod: only other switches can route around it.
    network.set_cable(cable, false);
    let failed_at = network.now;
    let mut last_loss = failed_at;
    for _ in 0..400 {
        let sent_at = network.now;
        let packet = network.send(tuple);
        network.run(Time::from_ms(1));
        if network.packets[packet as usize].delivered.is_none() {
            last_loss = sent_at;
        }
    }
    assert!(last_loss - failed_at < Time::from_ms(200), "{}", last_loss - failed_at);
    assert!(last_loss - failed_at < Time::from_ms(3), "three channel delays are enough: {}", last_loss - failed_at);
}

#[test]
fn silent_switch_is_disconnected_and_then_avoided() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let node = NodeIx(network.topology.nodes().iter().position(|node| node.tier.0 == 3).unwrap() as u32);
    network.stall.insert(node, Time::from_s(100_000));
    network.run(Time::from_s(25));
    assert!(network.events.iter().any(|(_, event)| matches!(event, Event::SwitchDown(_))));
    network.settle();
    assert_eq!(network.dead_links(), 0, "it still forwards, and may reconnect");
    assert!(network.unreached().is_empty());
    network.run_and_settle(Time::from_s(60));
    assert_eq!(network.dead_links(), 8);
    assert!(network.unreached().is_empty());
}

#[test]
fn peers_without_openflow_1_3_get_an_error_and_are_closed() {
    let mut peer = Peer::connect(Config::default());
    let hello = Envelope { xid: Xid(5), message: Message::Hello { versions: 0b10 } };
    peer.pass(ToController::Message(peer.connection, hello.clone()));
    assert!(peer.is_closed && matches!(peer.request, Some((_, Message::Error { .. }))), "{:?}", peer.request);
    let reason = CloseReason::Version { versions: 0b10 };
    assert_eq!(std::mem::take(&mut peer.events), [Event::Closed { connection: peer.connection, reason }]);
    // Later messages are ignored; so are those on connections that were never opened.
    (peer.is_closed, peer.request) = (false, None);
    peer.pass(ToController::Message(peer.connection, hello.clone()));
    peer.pass(ToController::Message(ConnectionId(9), hello));
    peer.pass(ToController::Disconnected(peer.connection));
    assert!(!peer.is_closed && peer.request.is_none() && peer.events.is_empty() && peer.controller.is_settled());
}

/// A delayed second copy of every batch, as a second controller or a retransmission would send,
/// changes nothing.
#[test]
fn duplicate_batches_change_nothing() {
    let mut network = TestNetwork::up(fat_tree(), needs(FlowSource::Agents, false));
    let tuple = udp(0, 15, 1);
    network.start(tuple);
    for rank in [0, 3, 1] {
        let path = network.path(0, 15, rank);
        network.want(|script| drop(script.pins.insert(tuple, path)));
        network.run_and_settle(Time::from_ms(100));
    }
    let mut copy = TestNetwork::new(fat_tree(), Config::default(), quiet(), AMPLE);
    let (mut xid, mut batch) = (0, Vec::new());
    for (node, switch) in &mut copy.switches {
        switch.connected(Time::ZERO, ConnectionId(1));
        let mut give = |message: Message| {
            xid += 1;
            switch.handle(Time::ZERO, ConnectionId(1), Envelope { xid: Xid(xid), message });
        };
        give(Message::Hello { versions: 1 << 4 });
        for (_, _, message) in network.sent.iter().filter(|(_, at, _)| at == node) {
            match message {
                Message::FlowMod(_) | Message::GroupMod(_) => batch.push(message.clone()),
                Message::BarrierRequest => {
                    let twice = [batch.clone(), std::mem::take(&mut batch)].concat();
                    twice.into_iter().for_each(&mut give);
                }
                _ => {}
            }
        }
        assert!(batch.is_empty(), "every batch ends with a barrier");
        while switch.poll_output().is_some() {}
        let mut entries = switch.entries();
        entries.iter_mut().for_each(|entry| (entry.duration_ns, entry.packets, entry.bytes) = (0, 0, 0));
        assert_eq!(entries, network.controller.inspect().desired_entries(switch.datapath()));
    }
}

#[test]
fn same_calls_give_the_same_bytes() {
    let run = || {
        let mut network = TestNetwork::up(fat_tree(), needs(FlowSource::Agents, true));
        let cable = LinkIx(40);
        network.set_cable(cable, false);
        network.settle();
        network.set_cable(cable, true);
        network.run(Time::from_s(20));
        (format!("{:?}", network.sent), format!("{:?}", network.events), network.controller.tally())
    };
    assert!(run() == run());
}

#[test]
fn larger_tree_comes_up() {
    let topology = net::spec::parse("fat-tree:k=8").unwrap();
    let network = TestNetwork::up(topology, quiet());
    assert_eq!(network.controller.inspect().topology().links().len(), 2 * (256 + 128));
    assert_eq!(network.dead_links(), 0);
    network.assert_exact();
}

/// Next hops around a failure must not lead to a switch that still sends to where packets come from
/// (simulation test 306).
#[test]
fn unconfirmed_switch_gets_no_packet_it_would_return() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    // Edge, aggregation, core, aggregation of the other pod, edge.
    let visited = network.route_of(udp(0, 7, 1));
    network.disconnect(visited[1]);
    let cable = network.cable(visited[2], visited[3]);
    network.set_cable(cable, false);
    network.settle();
    let unreached = network.unreached();
    assert!(unreached.is_empty(), "{unreached:?}");
    // After the reconnect it gets its rules, and the core switch may send to it again.
    network.connect(visited[1]);
    network.run_and_settle(Time::from_s(1));
    network.assert_served();
}
