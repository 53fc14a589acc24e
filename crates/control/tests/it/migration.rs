//! Flows migrate between paths without loss and without loops, with packets in flight.

use std::collections::BTreeSet;

use crate::common::{TestNetwork, fat_tree, needs, udp};
use anabranch_control::Event;
use balance::central::{AgentReport, FlowSource};
use net::{Bandwidth, FiveTuple, NodeIx, Time, Topology, TopologyBuilder};
use openflow::Message;

/// Returns switches with datapath ids 1 to `switches`, these cables, a host at the first and one at
/// the last.
fn graph(switches: u32, cables: &[(u32, u32)], ends: (u32, u32)) -> Topology {
    let mut builder = TopologyBuilder::new("test");
    let nodes: Vec<NodeIx> = (1..=switches).map(|number| builder.switch(format!("s{number}"), 1, None)).collect();
    let rate = Bandwidth::from_gbps(1);
    for (number, (a, b)) in cables.iter().enumerate() {
        let delay = Time::from_us(50 + 171 * (number as u64 % 5));
        builder.connect(nodes[*a as usize - 1], nodes[*b as usize - 1], rate, delay);
    }
    for (name, at) in [("source", ends.0), ("destination", ends.1)] {
        let host = builder.host(name, at, None);
        builder.connect(host, nodes[at as usize - 1], rate, Time::from_us(10));
    }
    builder.build().expect("a connected graph")
}

/// Returns switches 1 to 4 in a ring 1-2-4-3, with hosts at 1 and 4.
fn square() -> TestNetwork {
    let cables = [(1, 2), (2, 4), (1, 3), (3, 4)];
    TestNetwork::up(graph(4, &cables, (1, 4)), needs(FlowSource::Agents, false))
}

/// Pins a flow to a path, and sends packets of a flow until the controller has settled on it.
/// Asserts that none is lost or loops, and that the last one uses `path`.
fn migrate(
    network: &mut TestNetwork,
    (pinned, to): (FiveTuple, &[u64]),
    sent: FiveTuple,
    interval: Time,
    path: &[u64],
) {
    network.want(|script| drop(script.pins.insert(pinned, to.to_vec())));
    let packets = send_while_moving(network, sent, interval);
    assert_clean(network, packets, &format!("to {to:?}"));
    assert_eq!(last_path(network), path);
}

/// Sends packets of a flow at this interval while the network runs until it has settled on a new
/// script.
fn send_while_moving(network: &mut TestNetwork, tuple: FiveTuple, interval: Time) -> std::ops::Range<u32> {
    // The balancer's period is 50 ms.
    let packets = send_until_settled(network, Time::from_ms(60), interval, |network| network.send(tuple));
    network.run(Time::from_ms(30));
    packets
}

/// Sends packets at this interval for a time and until the controller has settled, and waits until
/// they have arrived. Returns their numbers.
fn send_until_settled<R>(
    network: &mut TestNetwork,
    minimum: Time,
    interval: Time,
    mut send: impl FnMut(&mut TestNetwork) -> R,
) -> std::ops::Range<u32> {
    let (first, began) = (network.packets.len() as u32, network.now);
    while network.now < began + minimum || !network.controller.is_settled() {
        send(network);
        network.run(interval);
        assert!(network.now < began + Time::from_s(20), "it does not settle");
    }
    network.run(Time::from_ms(20));
    first..network.packets.len() as u32
}

fn assert_clean(network: &TestNetwork, packets: std::ops::Range<u32>, what: &str) {
    for number in packets {
        let packet = &network.packets[number as usize];
        assert!(packet.delivered.is_some(), "{what}: packet {number} was lost after {:?}", packet.visited);
        assert!(!packet.has_looped, "{what}: packet {number} went {:?}", packet.visited);
    }
}

fn last_path(network: &TestNetwork) -> Vec<u64> {
    network.packets.last().expect("a packet").path()
}

/// mechanisms.md §10, oracle 2: old s-3-2-1-7-10-d, new s-3-4-1-9-10-d.
#[test]
fn published_example_cuts_over_at_1_then_at_3() {
    let cables = [(3, 2), (2, 1), (1, 7), (7, 10), (3, 4), (4, 1), (1, 9), (9, 10), (5, 3), (6, 10), (8, 1)];
    let mut network = TestNetwork::up(graph(10, &cables, (3, 10)), needs(FlowSource::Agents, false));
    let tuple = udp(0, 1, 9000);
    network.start(tuple);
    let (old, new) = (vec![3, 2, 1, 7, 10], vec![3, 4, 1, 9, 10]);
    migrate(&mut network, (tuple, &old), tuple, Time::from_us(40), &old);
    let sent = network.sent.len();
    migrate(&mut network, (tuple, &new), tuple, Time::from_us(40), &new);
    let order: Vec<(u64, bool)> = network.sent[sent..]
        .iter()
        .filter_map(|(_, node, message)| match message {
            Message::FlowMod(change) => {
                let is_add = change.command == openflow::FlowModCommand::Add;
                Some((net::address::datapath_of(*node), is_add))
            }
            _ => None,
        })
        .collect();
    let adds: BTreeSet<u64> = order.iter().filter(|(_, is_add)| *is_add).map(|(node, _)| *node).collect();
    assert_eq!(adds, BTreeSet::from([1, 3, 4, 9]), "10 delivers to its host in any case");
    let deletes: Vec<u64> = order.iter().filter(|(_, is_add)| !is_add).map(|(node, _)| *node).collect();
    assert_eq!(deletes[..2], [1, 3], "from the destination backwards");
    assert_eq!(deletes[2..].iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from([2, 7]));
    assert!(order.iter().rposition(|(_, is_add)| *is_add) < order.iter().position(|(_, is_add)| !is_add));
    assert!(network.events.iter().any(|(_, event)| *event == Event::FlowMigrated(tuple)));
    network.assert_exact();
}

/// Former next hops without packets in flight are no reason to pause between switches.
#[test]
fn drained_next_hops_cause_no_pause() {
    let cables = [(1, 2), (2, 3), (3, 4), (4, 1)];
    let mut network = TestNetwork::up(graph(4, &cables, (1, 3)), needs(FlowSource::Agents, false));
    // Without the cable 2 leads back to 1, and 1 to 4.
    let cable = network.cable(NodeIx(1), NodeIx(2));
    for is_live in [false, true] {
        network.set_cable(cable, is_live);
        network.run_and_settle(Time::from_s(1));
    }
    let tuple = udp(0, 1, 9000);
    network.start(tuple);
    let sent = network.sent.len();
    network.want(|script| drop(script.pins.insert(tuple, vec![1, 2, 3])));
    network.run_and_settle(Time::from_ms(100));
    let is_change = |message: &Message| matches!(message, Message::FlowMod(_));
    let changes = network.sent[sent..].iter().filter(|(_, _, message)| is_change(message));
    let changes: Vec<(Time, u64)> = changes.map(|(at, node, _)| (*at, net::address::datapath_of(*node))).collect();
    assert_eq!(changes.iter().map(|(_, datapath)| *datapath).collect::<BTreeSet<_>>(), BTreeSet::from([1, 2]));
    // A pause is 10 ms at least; channels differ by less than one.
    assert!(changes.iter().all(|(at, _)| *at < changes[0].0 + Time::from_ms(1)), "all at once: {changes:?}");
    network.assert_exact();
}

/// Every pair of simple paths between opposite corners of small graphs, one after the other, with
/// packets in flight.
#[test]
fn simple_path_pairs_migrate_without_loops_or_loss() {
    let complete: Vec<(u32, u32)> = (1..=5).flat_map(|a| (a + 1..=5).map(move |b| (a, b))).collect();
    let ladder = vec![(1, 2), (3, 4), (5, 6), (1, 3), (2, 4), (3, 5), (4, 6), (1, 4), (3, 6)];
    for (switches, cables) in [(5, complete), (6, ladder)] {
        let topology = graph(switches, &cables, (1, switches));
        let paths = simple_paths(switches, &cables);
        assert!(paths.len() >= 7, "{}", paths.len());
        let mut network = TestNetwork::up(topology, needs(FlowSource::Agents, false));
        let tuple = udp(0, 1, 9000);
        network.start(tuple);
        for old in &paths {
            for new in paths.iter().filter(|new| *new != old) {
                for path in [old, new] {
                    migrate(&mut network, (tuple, path), tuple, Time::from_us(210), path);
                }
            }
            // Back to the default routes, too.
            network.want(|script| drop(script.pins.remove(&tuple)));
            let packets = send_while_moving(&mut network, tuple, Time::from_us(210));
            assert_clean(&network, packets, &format!("{old:?} released"));
        }
        network.assert_exact();
    }
}

fn simple_paths(switches: u32, cables: &[(u32, u32)]) -> Vec<Vec<u64>> {
    fn extend(path: &mut Vec<u64>, to: u64, cables: &[(u32, u32)], found: &mut Vec<Vec<u64>>) {
        let at = *path.last().expect("a path has a beginning");
        if at == to {
            found.push(path.clone());
            return;
        }
        for (a, b) in cables.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]) {
            if u64::from(a) == at && !path.contains(&u64::from(b)) {
                path.push(u64::from(b));
                extend(path, to, cables, found);
                path.pop();
            }
        }
    }
    let mut found = Vec::new();
    extend(&mut vec![1], u64::from(switches), cables, &mut found);
    found
}

/// A slow channel to any one switch delays a migration without loss.
#[test]
fn stalled_switch_only_delays_a_migration() {
    let cables = [(1, 2), (2, 3), (3, 4), (1, 3), (2, 4)];
    let (old, new) = (vec![1, 2, 3, 4], vec![1, 3, 2, 4]); // 2 and 3 are visited in opposite order.
    for stalled in 0..4 {
        let mut network = TestNetwork::up(graph(4, &cables, (1, 4)), needs(FlowSource::Agents, false));
        network.stall.insert(NodeIx(stalled), Time::from_ms(40));
        let tuple = udp(0, 1, 9000);
        network.start(tuple);
        for path in [&old, &new, &old] {
            migrate(&mut network, (tuple, path), tuple, Time::from_us(100), path);
        }
    }
}

#[test]
fn priorities_do_not_run_out() {
    let mut network = square();
    let tuple = FiveTuple { protocol: 0, src_port: 0, dst_port: 0, ..udp(0, 1, 1) };
    network.start(tuple);
    for turn in 0..10_100 {
        let through = 2 + turn % 2;
        network.want(|script| drop(script.pins.insert(tuple, vec![1, through, 4])));
        network.run(Time::from_ms(50));
        // A packet now and then: around each renormalisation of priorities.
        if turn % 500 == 0 || turn > 9_990 && turn < 10_010 {
            let packets = send_while_moving(&mut network, tuple, Time::from_us(300));
            assert_clean(&network, packets, &format!("turn {turn}"));
            assert_eq!(last_path(&network), [1, through, 4]);
        }
    }
    network.assert_settled();
    assert!(network.controller.tally().moves > 10_000, "{:?}", network.controller.tally());
}

#[test]
fn pin_over_a_dead_link_is_removed_and_the_balancer_runs() {
    let mut network = square();
    let tuple = udp(0, 1, 9000);
    network.start(tuple);
    network.want(|script| drop(script.pins.insert(tuple, vec![1, 2, 4])));
    network.run_and_settle(Time::from_ms(100));
    assert_eq!(network.controller.inspect().placements().pins().len(), 1);
    let asked = network.script.lock().unwrap().asked.len();
    let cable = network.cable(NodeIx(1), NodeIx(3));
    network.set_cable(cable, false);
    network.settle();
    let news = network.script.lock().unwrap().asked[asked..].to_vec();
    let changes = news.iter().filter(|why| **why == balance::central::DecisionTrigger::NetworkChanged).count();
    assert!((1..=2).contains(&changes), "both ends report it, each at most once: {news:?}");
    assert!(network.controller.inspect().placements().pins().is_empty());
    network.assert_served();
}

/// The first of the flows whose rule each switch has got, in the order in which it got them.
fn rules_in_order(network: &mut TestNetwork, flows: &[FiveTuple]) -> Vec<Vec<u16>> {
    let mut seen: Vec<Vec<u16>> = vec![Vec::new(); 4];
    while network.controller.inspect().placements().pins().len() < flows.len() || !network.controller.is_settled() {
        network.run(Time::from_us(10));
        for (seen, switch) in seen.iter_mut().zip(network.switches.values()) {
            let ports = switch.entries().into_iter().filter_map(|entry| entry.match_.udp_src);
            let new: Vec<u16> = ports.filter(|port| !seen.contains(port)).collect();
            seen.extend(new);
        }
    }
    seen
}

#[test]
fn rules_of_ordered_flows_are_sent_one_flow_after_the_other() {
    let mut network = square();
    let flows: Vec<FiveTuple> = [5, 3, 9, 1, 7].map(|port| udp(0, 1, port)).into();
    let (upper, lower) = flows.split_at(3);
    flows.iter().for_each(|flow| network.start(*flow));
    network.want(|script| {
        script.order.clone_from(&flows);
        script.pins.extend(upper.iter().map(|flow| (*flow, vec![1, 2, 4])));
        script.pins.extend(lower.iter().map(|flow| (*flow, vec![1, 3, 4])));
    });
    let seen = rules_in_order(&mut network, &flows);
    assert_eq!(seen, [vec![5, 3, 9, 1, 7], vec![5, 3, 9], vec![1, 7], vec![]]);
    // The same for migrations, in the opposite order: a flow on the way does not stop.
    network.want(|script| {
        script.order.reverse();
        script.pins.values_mut().for_each(|path| path[1] = 5 - path[1]);
    });
    network.run_and_settle(Time::from_ms(100));
    assert_eq!(network.controller.tally().moves, 10);
    network.assert_served();
    // A flow that ends before its turn leaves nothing behind.
    network.want(|script| script.pins.values_mut().for_each(|path| path[1] = 5 - path[1]));
    flows.iter().for_each(|flow| network.report(AgentReport::Ended { tuple: *flow, bytes: 7 }));
    network.run_and_settle(Time::from_ms(100));
    assert!(!network.entries().any(|entry| entry.match_.udp_src.is_some()), "no rule of a flow is left");
}

/// All TCP flows have ended: no rule names one.
fn assert_nothing_is_left(network: &mut TestNetwork) {
    network.assert_settled();
    assert!(!network.entries().any(|entry| entry.match_.tcp_src.is_some()), "no rule of a flow is left");
}

#[test]
fn acknowledgements_use_the_path_of_their_flow() {
    let mut network = square();
    network.want(|script| script.are_acks_along = true);
    let flow = FiveTuple { protocol: 6, ..udp(0, 1, 9000) };
    let acks = flow.reverse();
    network.start(flow);
    for through in [2, 3, 2] {
        migrate(&mut network, (flow, &[1, through, 4]), acks, Time::from_us(300), &[4, through, 1]);
    }
    assert_eq!(network.controller.tally().moves, 3, "only migrations of flows count");
    network.report(AgentReport::Ended { tuple: flow, bytes: 7 });
    assert_nothing_is_left(&mut network);
}

#[test]
fn reverse_direction_that_is_a_flow_has_its_own_path() {
    let mut network = square();
    network.want(|script| script.are_acks_along = true);
    let there = FiveTuple { protocol: 6, ..udp(0, 1, 9000) };
    let back = there.reverse();
    network.want(|script| drop(script.pins.insert(there, vec![1, 2, 4])));
    network.want(|script| drop(script.pins.insert(back, vec![4, 3, 1])));
    network.start(there);
    network.run(Time::from_ms(100));
    network.start(back);
    let packets = send_while_moving(&mut network, back, Time::from_us(300));
    assert_clean(&network, packets, "back");
    assert_eq!(last_path(&network), [4, 3, 1]);
    for tuple in [there, back] {
        network.report(AgentReport::Ended { tuple, bytes: 7 });
    }
    assert_nothing_is_left(&mut network);
}

/// Flows between two edges split 1:3 over two paths, then otherwise, then not at all.
#[test]
fn traffic_splits_follow_labels_and_change_without_loss() {
    let mut network = TestNetwork::up(fat_tree(), needs(FlowSource::Agents, false));
    let paths: Vec<Vec<u64>> = (0..4).map(|rank| network.path(0, 15, rank)).collect();
    let pair = (paths[0][0], *paths[0].last().expect("a path has nodes"));
    let divisions = [
        vec![(paths[0].clone(), 1), (paths[3].clone(), 3)],
        vec![(paths[1].clone(), 1), (paths[3].clone(), 1)],
        vec![],
    ];
    for division in divisions {
        network.want(|script| drop(script.divisions.insert(pair, division.clone())));
        let mut ports = 1..;
        let packets = send_until_settled(&mut network, Time::from_ms(100), Time::from_us(100), |network| {
            network.send(udp(0, 15, ports.next().expect("few packets")))
        });
        assert_clean(&network, packets, "division");
        network.assert_exact();
        let mut shares = vec![0u32; division.len()];
        let first = network.packets.len();
        for port in 0..800 {
            network.send(udp(0, 15, 20_000 + port));
        }
        network.run(Time::from_ms(20));
        assert_clean(&network, first as u32..network.packets.len() as u32, "division");
        for packet in &network.packets[first..] {
            assert_eq!(packet.arrived.expect("it arrived").vlan, None, "the label was taken off");
            if !division.is_empty() {
                let which = division.iter().position(|(path, _)| *path == packet.path());
                shares[which.unwrap_or_else(|| panic!("{:?} is not in {division:?}", packet.path()))] += 1;
            }
        }
        let weights: u32 = division.iter().map(|(_, weight)| u32::from(*weight)).sum();
        for ((_, weight), share) in division.iter().zip(&shares) {
            let expected = 800.0 * f64::from(*weight) / f64::from(weights);
            // Six standard deviations of a fair draw: the hash is the switch's.
            let tolerance = 6.0 * (expected * (1.0 - expected / 800.0)).sqrt();
            assert!((f64::from(*share) - expected).abs() < tolerance.max(1.0), "{shares:?}");
        }
    }
    assert!(network.unreached().is_empty());
}

/// Cables of a ring with chords fail and recover, one after the other, with packets in flight and
/// different channel delays.
#[test]
fn default_routes_change_without_loops() {
    let cables = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 1), (2, 5), (1, 3)];
    for stalled in 0..6 {
        let mut network = TestNetwork::up(graph(6, &cables, (1, 4)), needs(FlowSource::None, false));
        network.stall.insert(NodeIx(stalled), Time::from_ms(3));
        let flows = [udp(0, 1, 9000), udp(1, 0, 9000), udp(0, 1, 9001), udp(1, 0, 9001)];
        for (a, b) in cables.iter().chain(&cables[2..5]) {
            let cable = network.cable(NodeIx(a - 1), NodeIx(b - 1));
            for is_live in [false, true] {
                network.set_cable(cable, is_live);
                let send = |network: &mut TestNetwork| flows.map(|tuple| network.send(tuple));
                let packets = send_until_settled(&mut network, Time::from_ms(15), Time::from_us(90), send);
                for packet in &network.packets[packets.start as usize..] {
                    let visits = |node: &NodeIx| packet.visited.iter().filter(|other| *other == node).count();
                    let most = packet.visited.iter().map(visits).max().unwrap_or(0);
                    assert!(most <= 2, "{a}-{b} {is_live}, {stalled} stalled: {:?}", packet.visited);
                    // A recovered cable removes no route.
                    assert!(!is_live || packet.delivered.is_some() || most == 2, "{a}-{b}: {:?}", packet.visited);
                }
            }
        }
        network.assert_served();
    }
}
