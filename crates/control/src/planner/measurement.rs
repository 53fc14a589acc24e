//! Measurements of planning alone: time and memory for fat-trees, without switches and messages.

use std::collections::BTreeSet;

use net::{LinkIx, NodeIx, NodeKind, Time, Topology, address};
use openflow::{DatapathId, PortNo};

use super::tests::{Alone, sdn_ecmp};
use crate::observer::{Cx, Observer};

use crate::{Config, KnownHost, SwitchPort};
use cost::{cpu_ms, resident_mib};

#[path = "../../tests/it/common/cost.rs"]
mod cost;

/// Returns the planner of a network in which everything is known and nothing is decided.
fn known(topology: &Topology) -> Alone {
    let config = Config { hosts: KnownHost::all_of(topology), ..Config::default() };
    let balancer = sdn_ecmp();
    let mut observer = Observer::new(&config, balancer.needs());
    let end = |link: LinkIx| -> SwitchPort {
        let node = topology.link(link).from;
        (DatapathId(address::datapath_of(node)), PortNo(address::port_of(topology, link)))
    };
    let is_switch = |node: NodeIx| topology.node(node).kind == NodeKind::Switch;
    for link in (0..topology.links().len() as u32).map(LinkIx) {
        if is_switch(topology.link(link).from) && is_switch(topology.link(link).to) {
            observer.network.add_link(&config, end(link), end(link.reverse()));
        }
    }
    for host in &config.hosts {
        observer.network.set_hosts_alive(host.end(), true);
    }
    Alone::of(config, observer, balancer)
}

/// Returns a link between an edge switch and the switch above it, or a link above that.
fn link_at(alone: &Alone, is_edge: bool) -> LinkIx {
    let network = &alone.observer.network;
    let has_hosts = |node: NodeIx| network.current_hosts().any(|(_, host)| host.edge == node);
    let links = network.switch_links();
    *links.keys().find(|link| network.ends(**link).any(has_hosts) == is_edge).expect("a link")
}

/// Plans once. Returns the CPU time of each step, ms.
fn steps(alone: &mut Alone, has_hosts: bool) -> [f64; 5] {
    let Alone { config, channels, changes, observer, planner, updater } = alone;
    let mut began = cpu_ms();
    let mut lap = || {
        let before = std::mem::replace(&mut began, cpu_ms());
        began - before
    };
    observer.refresh_network();
    let network = lap();
    let mut cx = Cx { now: Time::ZERO, config, channels, changes };
    if has_hosts {
        planner.update_hosts(&mut cx, observer, updater);
    }
    let hosts = lap();
    planner.update_network(&mut cx, observer, updater);
    planner.apply_placements(&mut cx, observer);
    let decision = lap();
    planner.default_routes.update_unconfirmed(cx.now, &observer.network, updater, BTreeSet::new);
    let staging = lap();
    planner.advance(&mut cx, observer, updater);
    [network, decision, staging, lap(), hosts]
}

/// Prints time and memory of planning alone for fat-trees of all hosts: from the known network to
/// desired rules, and after the loss and the return of one link. `PLANNING_K` lists other sizes.
/// A size with an `r`, such as `8r`, has rules for hosts; without hosts there are next hops only.
#[test]
#[ignore = "a measurement: cargo test --release -p anabranch-control --lib planning_of -- --ignored --nocapture"]
fn planning_of_fat_trees_is_measured() {
    let sizes = std::env::var("PLANNING_K").unwrap_or_else(|_| "8,16,8r".to_owned());
    println!("   k     rules   MiB          event  CPU ms |  network decision  staging     hops    hosts");
    for size in sizes.split(',').map(str::trim) {
        let (k, has_hosts) = size.strip_suffix('r').map_or((size, false), |k| (k, true));
        let topology = net::spec::parse(&format!("fat-tree:k={k}")).expect("a topology");
        let (before, mut alone) = (resident_mib(), known(&topology));
        let (edge, core) = (link_at(&alone, true), link_at(&alone, false));
        let events = [(edge, true), (edge, false), (edge, true), (core, false), (core, true)];
        let names = ["all", "edge link down", "up", "core link down", "up"];
        for ((link, is_alive), name) in events.into_iter().zip(names) {
            alone.observer.network.set_alive(link, is_alive);
            alone.observer.network.set_alive(link.reverse(), is_alive);
            let [network, decision, staging, hops, hosts] = steps(&mut alone, has_hosts);
            let total = network + decision + staging + hops;
            let rules: usize = alone.updater.switches.values().map(|switch| switch.desired.len()).sum();
            let memory = resident_mib() - before;
            println!(
                "{k:4} {rules:9} {memory:5} {name:>14} {total:8.1} | {network:8.1} {decision:8.1} {staging:8.1} {hops:8.1} {hosts:8.1}"
            );
        }
    }
}
