use net::{Bandwidth, Topology, TopologyBuilder};

use super::*;
use crate::central::testing::{DrivenBalancer, TestNetwork};

/// A triangle of 10 Gb/s with a host at each corner.
fn triangle() -> Topology {
    let mut builder = TopologyBuilder::new("triangle");
    let sites: Vec<NodeIx> = (0..3).map(|site| builder.switch(format!("s{site}"), 1, None)).collect();
    for (site, switch) in sites.iter().enumerate() {
        let host = builder.host(format!("h{site}"), site as u32, None);
        builder.connect(host, *switch, Bandwidth::from_gbps(40), Time::from_us(1));
    }
    for (from, to) in [(0, 1), (1, 2), (0, 2)] {
        builder.connect(sites[from], sites[to], Bandwidth::from_gbps(10), Time::from_ms(5));
    }
    builder.build().expect("a triangle")
}

fn switch(topology: &Topology, name: &str) -> NodeIx {
    let nodes = (0..topology.nodes().len() as u32).map(NodeIx);
    nodes.clone().find(|node| topology.node(*node).name == name).expect("a switch")
}

/// Runs a period in which host 0 sends to host 1 at this rate. Returns the next hops at its switch,
/// as far ends and shares.
fn hops(legacy: &[&str], gigabits: u64) -> Vec<(String, u16)> {
    let topology = triangle();
    let mut network = TestNetwork::of(topology.clone());
    network.legacy = vec![false; topology.nodes().len()];
    for name in legacy {
        network.legacy[switch(&topology, name).ix()] = true;
    }
    let mut driven = DrivenBalancer::on("partial-te:eps=0.01", 1, network);
    let flow = driven.network.flow(0, 1, None);
    driven.network.now += Time::from_s(5);
    driven.network.flows.get_mut(flow).expect("a flow").bytes += gigabits * 5 * 1_000_000_000 / 8;
    driven.period();
    let Some(DefaultRoutes::Hops(table)) = driven.placements.default_routes() else { panic!("no default routes") };
    let hops = table.get(switch(&topology, "s0"), switch(&topology, "s1")).expect("next hops");
    hops.iter().map(|hop| (topology.node(topology.link(hop.link).to).name.clone(), hop.weight)).collect()
}

#[test]
fn a_controlled_switch_halves_what_a_legacy_one_sends_over_one_link() {
    let half = [("s1".to_owned(), 32), ("s2".to_owned(), 32)];
    assert_eq!(hops(&[], 8), half);
    assert_eq!(hops(&["s1", "s2"], 8), half, "the other switches need not be controlled");
    assert_eq!(hops(&["s0"], 8), [("s1".to_owned(), 1)]);
    assert_eq!(hops(&["s0", "s1", "s2"], 8), [("s1".to_owned(), 1)]);
}

/// `s2` is legacy, and its shortest path to `s1` leads back over `s0`: it is of no use.
#[test]
fn paths_back_through_a_legacy_switch_are_not_admissible() {
    let mut builder = TopologyBuilder::new("ring");
    let sites: Vec<NodeIx> = (0..5).map(|site| builder.switch(format!("s{site}"), 1, None)).collect();
    for site in [0, 1] {
        let host = builder.host(format!("h{site}"), site as u32, None);
        builder.connect(host, sites[site], Bandwidth::from_gbps(40), Time::from_us(1));
    }
    for (from, to) in [(0, 1), (0, 2), (2, 3), (3, 4), (4, 1)] {
        builder.connect(sites[from], sites[to], Bandwidth::from_gbps(10), Time::from_ms(1));
    }
    let topology = builder.build().expect("a ring");
    let links = |legacy: bool| {
        let mut network = TestNetwork::of(topology.clone());
        network.legacy = vec![false; topology.nodes().len()];
        network.legacy[sites[2].ix()] = legacy;
        let view = network.view();
        let commodities = commodities(&view, [(sites[1], vec![(sites[0], 8e9)])].into());
        split(&super::links(&view), &commodities, 0.01).utilisation
    };
    assert!((links(false) - 0.4).abs() < 0.01, "{}", links(false));
    assert_eq!(links(true), 0.8);
}

#[test]
fn circulations_are_removed_and_the_rest_stays() {
    let node = NodeIx;
    let links = Links {
        ends: vec![(node(0), node(1)), (node(1), node(2)), (node(2), node(0)), (node(1), node(3))],
        capacity: vec![10.0; 4],
    };
    // 2 units go from 0 to 3, and 3 units loop.
    let mut rates = vec![5.0, 3.0, 3.0, 2.0];
    super::split::cancel_cycles(&links, &mut rates, node(3));
    assert_eq!(rates, [2.0, 0.0, 0.0, 2.0]);
}

#[test]
fn shares_stay_while_they_are_good_enough() {
    let mut driven = DrivenBalancer::on("partial-te", 1, TestNetwork::of(triangle()));
    let flow = driven.network.flow(0, 1, None);
    let mut run = |gigabits: u64| {
        driven.network.now += Time::from_s(5);
        driven.network.flows.get_mut(flow).expect("a flow").bytes += gigabits * 5 * 1_000_000_000 / 8;
        driven.period();
        driven.placements.take_changes().default_routes
    };
    assert!(run(8));
    assert!(!run(9), "the same halves");
    assert!(!run(0), "without traffic nothing changes");
}
