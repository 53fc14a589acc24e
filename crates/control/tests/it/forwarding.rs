//! The controller with real switches: discovery, default routes, failures, reconnects.

use crate::common::{TestNetwork, fat_tree, needs};
use anabranch_control::{Config, Event, KnownHost};
use balance::central::FlowSource;
use net::{NodeKind, Time};
use openflow::{FlowMod, Instructions, Match, Message, TableId};

fn quiet() -> balance::central::CentralNeeds {
    balance::central::CentralNeeds { period: None, ..needs(FlowSource::None, false) }
}

#[test]
fn fat_tree_is_discovered_and_every_pair_reached() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let topology = network.controller.topology();
    let switches = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count();
    assert_eq!((switches, topology.hosts().len()), (20, 16));
    assert_eq!(topology.links().len(), 2 * (32 + 16));
    assert!(network.controller.alive().iter().all(|alive| *alive));
    assert_eq!(topology.top_tier().0, 3);
    network.assert_exact();
    assert!(network.unreached().is_empty());
    let refused = network.events.iter().filter(|(_, event)| matches!(event, Event::SwitchError { .. })).count();
    assert_eq!(refused, 0, "{:?}", network.events);
}

#[test]
fn cut_link_is_avoided_and_used_again() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let core_links: Vec<_> = (0..network.topology.links().len() as u32)
        .map(net::LinkIx)
        .filter(|link| network.topology.link_tier(*link).0 == 3 && link.0 % 2 == 0)
        .collect();
    for cut in core_links.iter().step_by(5) {
        network.set_cable(*cut, false);
        network.settle();
        assert_eq!(network.controller.alive().iter().filter(|alive| !**alive).count(), 2);
        network.assert_exact();
        assert!(network.unreached().is_empty());
        network.set_cable(*cut, true);
        network.settle();
        assert!(network.controller.alive().iter().all(|alive| *alive));
        network.assert_exact();
    }
    assert!(network.unreached().is_empty());
}

#[test]
fn reconnection_changes_no_rule() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let nodes: Vec<_> = network.switches.keys().copied().collect();
    for node in &nodes {
        network.disconnect(*node);
    }
    network.run(Time::from_s(60)); // Longer than the link timeout: the controller itself was cut off.
    let before = network.controller.tally();
    network.connect_all();
    network.settle();
    let after = network.controller.tally();
    assert_eq!((before.flow_mods, before.group_mods), (after.flow_mods, after.group_mods));
    network.assert_exact();
    assert!(network.unreached().is_empty());
}

#[test]
fn restarted_controller_takes_over_without_loss() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let old = network.switches.values().map(|switch| switch.tally().flow_mods).sum::<u64>();
    let config = Config { hosts: KnownHost::all_of(&network.topology), ..Config::default() };
    let fresh = TestNetwork::new(fat_tree(), config, quiet(), (1, 1));
    let nodes: Vec<_> = network.switches.keys().copied().collect();
    nodes.iter().for_each(|node| network.disconnect(*node));
    network.controller = fresh.controller;
    network.connect_all();
    network.settle();
    network.assert_exact();
    assert!(network.unreached().is_empty());
    // Numbers of groups are adopted and rules are the same: only items discovered in another order
    // may differ.
    let new = network.switches.values().map(|switch| switch.tally().flow_mods).sum::<u64>();
    assert_eq!(new, old, "rules were sent again");
}

#[test]
fn foreign_rules_and_groups_survive() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let node = *network.switches.keys().next().unwrap();
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
    let connection = network.connections[&node];
    let switch = network.switches.get_mut(&node).unwrap();
    for (xid, message) in [(1, Message::FlowMod(foreign)), (2, Message::GroupMod(group))] {
        let envelope = openflow::Envelope { xid: openflow::Xid(1_000_000 + xid), message };
        switch.handle(network.now, connection, envelope);
    }
    network.disconnect(node);
    // An own rule that is not desired, left by a previous controller instance.
    network.run(Time::from_ms(10));
    network.connect(node);
    network.settle();
    network.assert_exact();
    let switch = &network.switches[&node];
    assert_eq!(switch.entries().iter().filter(|entry| entry.cookie >> 48 == 0x1234).count(), 1);
    assert_eq!(switch.groups().iter().filter(|group| group.group.0 == 5).count(), 1);
}

#[test]
fn switch_after_power_loss_gets_all_rules() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let node = *network.switches.keys().next().unwrap();
    let fresh = TestNetwork::new(fat_tree(), Config::default(), quiet(), (100_000, 10_000));
    network.disconnect(node);
    network.switches.insert(node, fresh.switches.into_iter().find(|(other, _)| *other == node).unwrap().1);
    network.connect(node);
    network.settle();
    network.assert_exact();
    assert!(network.unreached().is_empty());
}
