//! Refusals, stalls, one-way failures, peers that do not speak OpenFlow 1.3, and messages that come twice.

mod world;

use anabranch_control::{Config, Controller, Event, KnownHost, Output};
use balance::central::{CentralNeeds, FlowSource};
use net::{LinkIx, NodeIx, Time};
use openflow::{ConnectionId, Envelope, FromController, Message, ToController, Xid};
use world::{World, fat_tree, needs, udp};

fn quiet() -> CentralNeeds {
    CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}

#[test]
fn a_full_table_is_told_and_used_again_when_there_is_room() {
    let topology = fat_tree();
    let config = Config { hosts: KnownHost::all_of(&topology), ..Config::default() };
    // Room for the base (16 destinations, 2 of them twice) and one pin in the table of forwarding.
    let mut world = World::new(topology, config, needs(FlowSource::Agents, false), (19, 100));
    world.connect_all();
    world.settle();
    world.assert_exact();
    let refused = |world: &World| world.events.iter().filter(|(_, e)| matches!(e, Event::Refused { .. })).count();
    assert_eq!(refused(&world), 0);
    let routes = net::Routes::intact(&world.topology);
    let from = routes.class_node(routes.class_of(net::HostIx(0)));
    let links = routes.path(&world.topology, from, routes.class_of(net::HostIx(15)), 1);
    let path: Vec<u64> =
        net::paths::nodes(&world.topology, from, &links).into_iter().map(net::address::datapath_of).collect();
    let flows = [udp(0, 15, 1), udp(0, 15, 2)];
    for tuple in flows {
        world.start(tuple);
        world.want(|script| drop(script.pins.insert(tuple, path.clone())));
        world.run(Time::from_ms(200));
        world.settle();
        world.assert_exact();
    }
    let before = refused(&world);
    assert!(before > 0, "the second pin does not fit");
    assert_eq!(world.controller.tally().moves, 1);
    let sent = world.sent.len();
    world.run(Time::from_s(5));
    let changes = |message: &Message| matches!(message, Message::FlowMod(_) | Message::GroupMod(_));
    assert!(!world.sent[sent..].iter().any(|(_, _, message)| changes(message)), "nothing goes round in circles");
    assert!(world.unreached().is_empty());
    // The first one goes: the second one gets its place.
    world.want(|script| drop(script.pins.remove(&flows[0])));
    world.run(Time::from_ms(200));
    world.settle();
    world.assert_exact();
    assert_eq!(world.controller.tally().moves, 3);
    let packet = world.send(flows[1]);
    world.run(Time::from_ms(5));
    let visited: Vec<u64> =
        world.packets[packet as usize].visited.iter().map(|node| net::address::datapath_of(*node)).collect();
    assert_eq!(visited, path);
}

#[test]
fn too_few_groups_are_told_and_the_rest_stands() {
    let topology = fat_tree();
    let config = Config { hosts: KnownHost::all_of(&topology), ..Config::default() };
    let mut world = World::new(topology, config, quiet(), (1000, 0));
    world.connect_all();
    world.settle();
    world.assert_exact();
    assert!(world.events.iter().any(|(_, event)| matches!(event, Event::Refused { .. })));
    let lost = world.unreached();
    assert!(!lost.is_empty() && lost.iter().all(|(_, packet)| !packet.has_looped));
}

#[test]
fn a_stalled_switch_gets_no_more_than_its_window_and_then_everything() {
    let mut world = World::up(fat_tree(), CentralNeeds { flows: FlowSource::Pairs, ..quiet() });
    let node = *world.switches.keys().next().unwrap();
    world.disconnect(node);
    // Power loss: hundreds of rules are to be written over a slow channel.
    let fresh = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    world.switches.insert(node, fresh.switches.into_iter().find(|(other, _)| *other == node).unwrap().1);
    world.stall.insert(node, Time::from_s(1));
    world.connect(node);
    let (mut unconfirmed, mut greatest) = (0usize, 0usize);
    let mut seen = world.sent.len();
    for _ in 0..400 {
        world.run(Time::from_ms(50));
        for (_, at, message) in &world.sent[seen..] {
            match message {
                Message::FlowMod(_) | Message::GroupMod(_) if *at == node => unconfirmed += 1,
                Message::BarrierRequest if *at == node => unconfirmed = 0,
                _ => {}
            }
            greatest = greatest.max(unconfirmed);
        }
        seen = world.sent.len();
    }
    assert!(greatest <= 256, "{greatest}");
    world.settle();
    world.assert_exact();
    assert!(world.unreached().is_empty());
}

#[test]
fn a_link_that_is_silent_one_way_dies_that_way_only() {
    let mut world = World::up(fat_tree(), quiet());
    let core = LinkIx(
        (0..world.topology.links().len() as u32)
            .find(|ix| world.topology.link_tier(LinkIx(*ix)).0 == 3 && world.topology.is_upward(LinkIx(*ix)))
            .unwrap(),
    );
    world.link_down.insert(core); // Ports stay up: nobody tells.
    world.run(Time::from_s(60));
    world.settle();
    assert_eq!(world.controller.alive().iter().filter(|alive| !**alive).count(), 1);
    world.assert_exact();
    assert!(world.unreached().is_empty());
    world.link_down.remove(&core);
    world.run(Time::from_s(20));
    world.settle();
    assert!(world.controller.alive().iter().all(|alive| *alive));
}

#[test]
fn a_failure_is_repaired_within_200_ms() {
    let mut world = World::up(fat_tree(), quiet());
    let tuple = udp(0, 15, 7);
    let first = world.send(tuple);
    world.run(Time::from_ms(5));
    let visited = world.packets[first as usize].visited.clone();
    let cable = world.cable(visited[2], visited[3]); // From core to pod: only other switches can go round it.
    world.set_cable(cable, false);
    let failed_at = world.now;
    let mut last_loss = failed_at;
    for _ in 0..400 {
        let sent_at = world.now;
        let packet = world.send(tuple);
        world.run(Time::from_ms(1));
        if world.packets[packet as usize].delivered.is_none() {
            last_loss = sent_at;
        }
    }
    assert!(last_loss - failed_at < Time::from_ms(200), "{}", last_loss - failed_at);
    assert!(last_loss - failed_at < Time::from_ms(3), "three channel delays are enough: {}", last_loss - failed_at);
}

#[test]
fn a_switch_that_falls_silent_is_disconnected_and_one_that_is_gone_is_gone_round() {
    let mut world = World::up(fat_tree(), quiet());
    let node = NodeIx(world.topology.nodes().iter().position(|node| node.tier.0 == 3).unwrap() as u32);
    world.stall.insert(node, Time::from_s(100_000));
    world.run(Time::from_s(25));
    assert!(world.events.iter().any(|(_, event)| matches!(event, Event::SwitchDown(_))));
    world.settle();
    assert!(world.controller.alive().iter().all(|alive| *alive), "it still forwards, and may come back");
    assert!(world.unreached().is_empty());
    world.run(Time::from_s(60));
    world.settle();
    assert_eq!(world.controller.alive().iter().filter(|alive| !**alive).count(), 8);
    assert!(world.unreached().is_empty());
}

fn outputs(controller: &mut Controller) -> Vec<Output> {
    std::iter::from_fn(|| controller.poll_output()).collect()
}

#[test]
fn peers_that_do_not_speak_1_3_are_told_and_closed() {
    let world = World::new(fat_tree(), Config::default(), quiet(), (1, 1));
    let mut controller = world.controller;
    let connection = ConnectionId(1);
    controller.handle(Time::ZERO, ToController::Connected(connection));
    let hello = Envelope { xid: Xid(5), message: Message::Hello { versions: 0b10 } };
    controller.handle(Time::ZERO, ToController::Message(connection, hello.clone()));
    let outputs = outputs(&mut controller);
    let error = outputs.iter().any(|output| {
        matches!(output, Output::Channel(FromController::Message(_, Envelope { message: Message::Error { .. }, .. })))
    });
    assert!(error && outputs.contains(&Output::Channel(FromController::Close(connection))), "{outputs:?}");
    // What still comes is nobody's; nor is what comes on connections never opened.
    controller.handle(Time::ZERO, ToController::Message(connection, hello.clone()));
    controller.handle(Time::ZERO, ToController::Message(ConnectionId(9), hello));
    controller.handle(Time::ZERO, ToController::Disconnected(connection));
    assert!(self::outputs(&mut controller).is_empty() && controller.is_settled());
}

/// A delayed second copy of every batch, as a second controller or a retransmission would send, changes nothing.
#[test]
fn batches_that_come_twice_change_nothing() {
    let mut world = World::up(fat_tree(), needs(FlowSource::Agents, false));
    let routes = net::Routes::intact(&world.topology);
    let from = routes.class_node(routes.class_of(net::HostIx(0)));
    let tuple = udp(0, 15, 1);
    world.start(tuple);
    for rank in [0, 3, 1] {
        let links = routes.path(&world.topology, from, routes.class_of(net::HostIx(15)), rank);
        let path =
            net::paths::nodes(&world.topology, from, &links).into_iter().map(net::address::datapath_of).collect();
        world.want(|script| drop(script.pins.insert(tuple, path)));
        world.run(Time::from_ms(100));
        world.settle();
    }
    let mut copy = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    let (mut xid, mut batch) = (0, Vec::new());
    for (node, switch) in &mut copy.switches {
        switch.connected(Time::ZERO, ConnectionId(1));
        let mut give = |message: Message| {
            xid += 1;
            switch.handle(Time::ZERO, ConnectionId(1), Envelope { xid: Xid(xid), message });
        };
        give(Message::Hello { versions: 1 << 4 });
        for (_, _, message) in world.sent.iter().filter(|(_, at, _)| at == node) {
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
        assert_eq!(entries, world.controller.desired_entries(switch.datapath()));
    }
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    let run = || {
        let mut world = World::up(fat_tree(), needs(FlowSource::Agents, true));
        let cable = LinkIx(40);
        world.set_cable(cable, false);
        world.settle();
        world.set_cable(cable, true);
        world.run(Time::from_s(20));
        (format!("{:?}", world.sent), format!("{:?}", world.events), world.controller.tally())
    };
    assert!(run() == run());
}

/// 80 switches and 128 hosts come up.
#[test]
fn a_larger_tree_comes_up() {
    let topology = net::spec::parse("fat-tree:k=8").unwrap();
    let world = World::up(topology, quiet());
    assert_eq!(world.controller.topology().links().len(), 2 * (256 + 128));
    assert!(world.controller.alive().iter().all(|alive| *alive));
    world.assert_exact();
}

/// Next hops round a failure must not lead to a switch that still sends to where they come from (storm 306).
#[test]
fn a_switch_out_of_reach_gets_nothing_it_would_send_back() {
    let mut world = World::up(fat_tree(), quiet());
    let first = world.send(udp(0, 7, 1));
    world.run(Time::from_ms(5));
    // Edge, aggregation, core, aggregation of the other pod, edge.
    let visited = world.packets[first as usize].visited.clone();
    world.disconnect(visited[1]);
    let cable = world.cable(visited[2], visited[3]);
    world.set_cable(cable, false);
    world.settle();
    let unreached = world.unreached();
    assert!(unreached.is_empty(), "{unreached:?}");
    // Back, it is told, and the core switch may send to it again.
    world.connect(visited[1]);
    world.run(Time::from_s(1));
    world.settle();
    world.assert_exact();
    assert!(world.unreached().is_empty());
}
