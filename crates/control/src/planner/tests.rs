//! The planner alone: a known network in, desired rules out.

use balance::central::{CentralEnv, DecisionTrigger};
use balance::{Build, Spec};
use std::time::Instant;

use net::{LinkIx, NodeIx, NodeKind, Time, Topology, address};
use openflow::{DatapathId, MacAddr, PortNo};

use super::*;
use crate::changes::ChangeQueue;
use crate::channels::Channels;
use crate::updater::Updater;
use crate::updater::compile::{default_route_key, last_hop_key};
use crate::{KnownHost, SwitchPort};

fn host(number: u8, datapath: u64) -> KnownHost {
    let (mac, ipv4) = (MacAddr([2, 0, 0, 0, 0, number]), [10, 0, 0, number].into());
    KnownHost { mac, ipv4, datapath: DatapathId(datapath), port: PortNo(1) }
}

fn sdn_ecmp() -> Box<dyn CentralBalancer> {
    let spec = Spec::parse("sdn-ecmp").expect("a balancer of the registry");
    let Build::Central(build) = spec.entry.build else { panic!("a central balancer") };
    build(&CentralEnv { seed: 1 }, &spec.params)
}

/// Two edge switches with a host each, and two switches between them.
struct Alone {
    config: Config,
    channels: Channels,
    changes: ChangeQueue,
    observer: Observer,
    planner: Planner,
    updater: Updater,
}

impl Alone {
    fn new() -> Alone {
        let config = Config { hosts: vec![host(1, 1), host(2, 2)], ..Config::default() };
        let balancer = sdn_ecmp();
        let mut observer = Observer::new(&config, balancer.needs());
        let port = |datapath, port| -> SwitchPort { (DatapathId(datapath), PortNo(port)) };
        for between in [3, 4] {
            for edge in [1, 2] {
                let (down, up) = (port(between, edge as u32), port(edge, between as u32));
                observer.network.add_link(&config, up, down);
                observer.network.add_link(&config, down, up);
            }
        }
        for host in &config.hosts {
            observer.network.set_hosts_alive(host.end(), true);
        }
        observer.refresh_network();
        let (planner, updater) = (Planner::new(&config, balancer), Updater::new(config.owner));
        Alone { planner, updater, channels: Channels::default(), changes: ChangeQueue::default(), observer, config }
    }

    /// Handles a change of the network, and carries out all that follows from it.
    fn plan(&mut self) {
        let Alone { config, channels, changes, observer, planner, updater } = self;
        let mut cx = Cx { now: Time::ZERO, config, channels, changes };
        planner.update_hosts(&mut cx, observer, updater);
        planner.update_network(&mut cx, observer, updater);
        planner.apply_placements(&mut cx, observer);
        planner.advance(&mut cx, observer, updater);
    }

    fn hops_to_second_host(&self) -> Option<usize> {
        let node = self.observer.network.node_of(DatapathId(1)).expect("a switch");
        let rule = self.updater.switches.get(&node)?.desired.get(&default_route_key(self.config.hosts[1].ipv4))?;
        let actions = &rule.instructions.apply;
        assert_eq!(actions.len(), 1);
        Some(if matches!(actions[0], openflow::Action::Group(_)) { 2 } else { 1 })
    }
}

#[test]
fn equal_cost_next_hops_become_rules_and_a_dead_link_leaves_one() {
    let mut alone = Alone::new();
    alone.plan();
    assert_eq!(alone.hops_to_second_host(), Some(2));
    let edge: NodeIx = alone.observer.network.node_of(DatapathId(2)).expect("a switch");
    let address = alone.config.hosts[1].ipv4;
    assert!(alone.updater.switches[&edge].desired.contains_key(&last_hop_key(address)));

    let (from, to) = ((DatapathId(1), PortNo(3)), (DatapathId(3), PortNo(1)));
    let link = alone.observer.network.link(from, to).expect("a link");
    alone.observer.network.set_alive(link, false);
    alone.observer.refresh_network();
    alone.plan();
    assert_eq!(alone.hops_to_second_host(), Some(1));
}

#[test]
fn balancer_without_the_network_gets_no_triggers() {
    let mut alone = Alone::new();
    let Alone { config, channels, changes, observer, planner, updater } = &mut alone;
    let mut cx = Cx { now: Time::ZERO, config, channels, changes };
    planner.decide(&mut cx, observer, updater, DecisionTrigger::PeriodElapsed);
    assert_eq!(cx.channels.tally.decisions, 0);
}

/// Returns the memory of this process, MiB.
fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status of this process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

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
    let (planner, updater) = (Planner::new(&config, balancer), Updater::new(config.owner));
    Alone { planner, updater, channels: Channels::default(), changes: ChangeQueue::default(), observer, config }
}

/// Prints time and memory of planning alone for fat-trees of all hosts: from the known network to
/// desired rules, and after the loss of one link. `PLANNING_K` lists other sizes.
#[test]
#[ignore = "a measurement: cargo test --release -p anabranch-control --lib planning_of -- --ignored --nocapture"]
fn planning_of_fat_trees_is_measured() {
    let sizes = std::env::var("PLANNING_K").unwrap_or_else(|_| "8,16".to_owned());
    println!("   k   hosts    rules | network   plan   MiB | link down: network   plan, ms");
    for k in sizes.split(',').map(|k| k.trim().parse::<u32>().expect("a number")) {
        let topology = net::spec::parse(&format!("fat-tree:k={k}")).expect("a topology");
        let before = resident_mib();
        let mut alone = known(&topology);
        let ms = |began: Instant| began.elapsed().as_secs_f64() * 1e3;
        let plan = |alone: &mut Alone| {
            let began = Instant::now();
            alone.observer.refresh_network();
            let network = ms(began);
            let began = Instant::now();
            alone.plan();
            (network, ms(began))
        };
        let (network, planned) = plan(&mut alone);
        let rules: usize = alone.updater.switches.values().map(|switch| switch.desired.len()).sum();
        let memory = resident_mib() - before;
        let link = *alone.observer.network.switch_links().keys().next().expect("a link");
        alone.observer.network.set_alive(link, false);
        alone.observer.network.set_alive(link.reverse(), false);
        let (again, replanned) = plan(&mut alone);
        let hosts = alone.config.hosts.len();
        println!("{k:4} {hosts:7} {rules:8} | {network:7.1} {planned:6.1} {memory:5} | {again:18.1} {replanned:6.1}");
    }
}
