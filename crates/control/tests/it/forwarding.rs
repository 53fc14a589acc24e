//! The controller with real switches: discovery, default routes, failures, reconnects.

use crate::common::{TestNetwork, config_for, fat_tree, quiet};
use net::{NodeKind, Time};
use openflow::{FlowMod, Instructions, Match, Message, TableId};

#[test]
fn fat_tree_is_discovered_and_every_pair_reached() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let topology = network.controller.inspect().topology();
    let switches = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count();
    assert_eq!((switches, topology.hosts().len()), (20, 16));
    assert_eq!(topology.links().len(), 2 * (32 + 16));
    assert_eq!(network.dead_links(), 0);
    assert_eq!(topology.top_tier().0, 3);
    network.assert_served();
    assert_eq!(network.rejections(), 0, "{:?}", network.events);
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
        assert_eq!(network.dead_links(), 2);
        network.assert_served();
        network.set_cable(*cut, true);
        network.settle();
        assert_eq!(network.dead_links(), 0);
        network.assert_exact();
    }
    assert!(network.unreached().is_empty());
}

#[test]
fn reconnection_changes_no_rule() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    network.disconnect_all();
    network.run(Time::from_s(60)); // Longer than the link timeout: the controller itself was cut off.
    let before = network.controller.tally();
    network.connect_all();
    network.settle();
    let after = network.controller.tally();
    assert_eq!((before.flow_mods, before.group_mods), (after.flow_mods, after.group_mods));
    network.assert_served();
}

#[test]
fn restarted_controller_takes_over_without_loss() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let flow_mods =
        |network: &TestNetwork| network.switches.values().map(|switch| switch.tally().flow_mods).sum::<u64>();
    let old = flow_mods(&network);
    network.restart_controller(anabranch_control::Config { seed: 7, ..config_for(&network.topology) }, quiet());
    network.connect_all();
    network.settle();
    network.assert_served();
    // Numbers of groups are adopted and rules are the same: only items discovered in another order
    // may differ.
    assert_eq!(flow_mods(&network), old, "rules were sent again");
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
            watch_port: openflow::PortNo::ANY,
            ..openflow::Bucket::watching(openflow::PortNo(1), 0)
        }],
    };
    network.inject(node, Message::FlowMod(foreign));
    network.inject(node, Message::GroupMod(group));
    network.disconnect(node);
    // An own rule that is not desired, left by a previous controller instance.
    network.run(Time::from_ms(10));
    network.connect(node);
    network.assert_settled();
    let switch = &network.switches[&node];
    assert_eq!(switch.entries().iter().filter(|entry| entry.cookie >> 48 == 0x1234).count(), 1);
    assert_eq!(switch.groups().iter().filter(|group| group.group.0 == 5).count(), 1);
}

#[test]
fn switch_after_power_loss_gets_all_rules() {
    let mut network = TestNetwork::up(fat_tree(), quiet());
    let node = *network.switches.keys().next().unwrap();
    network.disconnect(node);
    network.lose_power(node);
    network.connect(node);
    network.settle();
    network.assert_served();
}
