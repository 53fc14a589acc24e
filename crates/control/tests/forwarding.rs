//! The controller against real switches: discovery, base forwarding, failures, reconnection.

mod world;

use anabranch_control::{Config, Event, KnownHost};
use balance::central::FlowSource;
use net::{NodeKind, Time};
use openflow::{FlowMod, Instructions, Match, Message, TableId};
use world::{World, fat_tree, needs};

fn quiet() -> balance::central::CentralNeeds {
    balance::central::CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}

#[test]
fn a_fat_tree_is_found_and_every_pair_reached() {
    let mut world = World::up(fat_tree(), quiet());
    let topology = world.controller.topology();
    let switches = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count();
    assert_eq!((switches, topology.hosts().len()), (20, 16));
    assert_eq!(topology.links().len(), 2 * (32 + 16));
    assert!(world.controller.alive().iter().all(|alive| *alive));
    assert_eq!(topology.top_tier().0, 3);
    world.assert_exact();
    assert!(world.unreached().is_empty());
    let refused = world.events.iter().filter(|(_, event)| matches!(event, Event::Refused { .. })).count();
    assert_eq!(refused, 0, "{:?}", world.events);
}

#[test]
fn a_cut_link_is_gone_round_and_comes_back() {
    let mut world = World::up(fat_tree(), quiet());
    let core_links: Vec<_> = (0..world.topology.links().len() as u32)
        .map(net::LinkIx)
        .filter(|link| world.topology.link_tier(*link).0 == 3 && link.0 % 2 == 0)
        .collect();
    for cut in core_links.iter().step_by(5) {
        world.set_cable(*cut, false);
        world.settle();
        assert_eq!(world.controller.alive().iter().filter(|alive| !**alive).count(), 2);
        world.assert_exact();
        assert!(world.unreached().is_empty());
        world.set_cable(*cut, true);
        world.settle();
        assert!(world.controller.alive().iter().all(|alive| *alive));
        world.assert_exact();
    }
    assert!(world.unreached().is_empty());
}

#[test]
fn reconnection_changes_no_rule() {
    let mut world = World::up(fat_tree(), quiet());
    let nodes: Vec<_> = world.switches.keys().copied().collect();
    for node in &nodes {
        world.disconnect(*node);
    }
    world.run(Time::from_s(60)); // Longer than links are believed in: it is the controller that was cut off.
    let before = world.controller.tally();
    world.connect_all();
    world.settle();
    let after = world.controller.tally();
    assert_eq!((before.flow_mods, before.group_mods), (after.flow_mods, after.group_mods));
    world.assert_exact();
    assert!(world.unreached().is_empty());
}

#[test]
fn a_new_life_of_the_controller_takes_over_without_a_gap() {
    let mut world = World::up(fat_tree(), quiet());
    let old = world.switches.values().map(|switch| switch.tally().flow_mods).sum::<u64>();
    let config = Config { hosts: KnownHost::all_of(&world.topology), ..Config::default() };
    let fresh = World::new(fat_tree(), config, quiet(), (1, 1));
    let nodes: Vec<_> = world.switches.keys().copied().collect();
    nodes.iter().for_each(|node| world.disconnect(*node));
    world.controller = fresh.controller;
    world.connect_all();
    world.settle();
    world.assert_exact();
    assert!(world.unreached().is_empty());
    // Numbers of groups are taken over and rules are the same: only what was discovered in another order may differ.
    let new = world.switches.values().map(|switch| switch.tally().flow_mods).sum::<u64>();
    assert_eq!(new, old, "rules were written again");
}

#[test]
fn rules_and_groups_of_others_survive() {
    let mut world = World::up(fat_tree(), quiet());
    let node = *world.switches.keys().next().unwrap();
    let foreign = FlowMod {
        cookie: 0x1234 << 48 | 7,
        ..FlowMod::add(TableId(1), 777, Match::default(), Instructions::default())
    };
    let group = openflow::GroupMod {
        command: openflow::GroupModCommand::Add,
        kind: openflow::GroupKind::Indirect,
        group: openflow::GroupId(5),
        buckets: vec![openflow::Bucket {
            weight: 0,
            watch_port: openflow::PortNo::ANY,
            watch_group: openflow::GroupId::ANY,
            actions: vec![openflow::Action::output(openflow::PortNo(1))],
        }],
    };
    let connection = world.connections[&node];
    let switch = world.switches.get_mut(&node).unwrap();
    for (xid, message) in [(1, Message::FlowMod(foreign)), (2, Message::GroupMod(group))] {
        let envelope = openflow::Envelope { xid: openflow::Xid(1_000_000 + xid), message };
        switch.handle(world.now, connection, envelope);
    }
    world.disconnect(node);
    // Something of ours that is not wanted, left behind by another life.
    world.run(Time::from_ms(10));
    world.connect(node);
    world.settle();
    world.assert_exact();
    let switch = &world.switches[&node];
    assert_eq!(switch.entries().iter().filter(|entry| entry.cookie >> 48 == 0x1234).count(), 1);
    assert_eq!(switch.groups().iter().filter(|group| group.group.0 == 5).count(), 1);
}

#[test]
fn a_switch_that_lost_power_is_written_anew() {
    let mut world = World::up(fat_tree(), quiet());
    let node = *world.switches.keys().next().unwrap();
    let fresh = World::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    world.disconnect(node);
    world.switches.insert(node, fresh.switches.into_iter().find(|(other, _)| *other == node).unwrap().1);
    world.connect(node);
    world.settle();
    world.assert_exact();
    assert!(world.unreached().is_empty());
}
