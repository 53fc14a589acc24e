//! The planner alone: a known network in, desired rules out.

use std::sync::Arc;

use balance::central::{CentralEnv, DecisionTrigger, DefaultRoutes};
use balance::{Build, Spec};
use net::{NodeIx, Time};
use openflow::{DatapathId, MacAddr, PortNo};

use super::*;
use crate::changes::ChangeQueue;
use crate::channels::Channels;
use crate::updater::Updater;
use crate::updater::block::Block;
use crate::updater::compile::{default_route_key, last_hop_key, pin_priorities};
use crate::updater::store::RuleKey;
use crate::{KnownHost, SwitchPort};

fn host(number: u8, datapath: u64) -> KnownHost {
    let (mac, ipv4) = (MacAddr([2, 0, 0, 0, 0, number]), [10, 0, 0, number].into());
    KnownHost { mac, ipv4, datapath: DatapathId(datapath), port: PortNo(1) }
}

/// The port of a switch to another one.
fn end(datapath: u64, other: u64) -> SwitchPort {
    (DatapathId(datapath), PortNo(other as u32))
}

pub(super) fn sdn_ecmp() -> Box<dyn CentralBalancer> {
    let spec = Spec::parse("sdn-ecmp").expect("a balancer of the registry");
    let Build::Central(build) = spec.entry.build else { panic!("a central balancer") };
    build(&CentralEnv { seed: 1 }, &spec.params)
}

/// A planner with a known network, and no switches.
pub(super) struct Alone {
    pub(super) config: Config,
    pub(super) channels: Channels,
    pub(super) changes: ChangeQueue,
    pub(super) observer: Observer,
    pub(super) planner: Planner,
    pub(super) updater: Updater,
}

impl Alone {
    pub(super) fn of(config: Config, observer: Observer, balancer: Box<dyn CentralBalancer>) -> Alone {
        let (planner, updater) = (Planner::new(&config, balancer), Updater::new(config.owner));
        Alone { planner, updater, channels: Channels::default(), changes: ChangeQueue::default(), observer, config }
    }

    /// Two edge switches with a host each, and two switches between them.
    fn new() -> Alone {
        Alone::of_links(&[(1, 3), (1, 4), (3, 2), (4, 2)])
    }

    /// Two edge switches with a host each, and links between switches, by datapath id. The port at
    /// one end has the number of the other end.
    fn of_links(links: &[(u64, u64)]) -> Alone {
        let config = Config { hosts: vec![host(1, 1), host(2, 2)], ..Config::default() };
        let balancer = sdn_ecmp();
        let mut observer = Observer::new(&config, balancer.needs());
        for (from, to) in links {
            observer.network.add_link(&config, end(*from, *to), end(*to, *from));
            observer.network.add_link(&config, end(*to, *from), end(*from, *to));
        }
        for host in &config.hosts {
            observer.network.set_hosts_alive(host.end(), true);
        }
        observer.refresh_network();
        Alone::of(config, observer, balancer)
    }

    /// Handles a change of the network, and carries out all that follows from it.
    fn plan(&mut self) {
        self.plan_at(Time::ZERO);
    }

    fn plan_at(&mut self, now: Time) {
        let Alone { config, channels, changes, observer, planner, updater } = self;
        let mut cx = Cx { now, config, channels, changes };
        planner.update_hosts(&mut cx, observer, updater);
        planner.update_network(&mut cx, observer, updater);
        planner.apply_placements(&mut cx, observer);
        planner.advance(&mut cx, observer, updater);
    }

    /// The path through these switches, by datapath id.
    fn path(&self, switches: &[u64]) -> balance::central::Path {
        let network = &self.observer.network;
        let link = |pair: &[u64]| network.link(end(pair[0], pair[1]), end(pair[1], pair[0])).expect("a link");
        switches.windows(2).map(link).collect()
    }

    /// Carries out the pins of a flow. Returns the switches with one after each step, by datapath id.
    fn pin_stages(&mut self, tuple: &net::FiveTuple) -> Vec<Vec<u64>> {
        let with_pin = |alone: &Alone| -> Vec<u64> {
            let is_pin = |key: RuleKey| pin_priorities(tuple).contains(&key.priority.0);
            let has = |datapath: &u64| {
                let node = alone.observer.network.node_of(DatapathId(*datapath));
                node.is_some_and(|node| alone.updater.switches[&node].desired.keys().any(is_pin))
            };
            (1..=10).filter(has).collect()
        };
        let (mut seen, mut now) = (Vec::new(), Some(Time::ZERO));
        while let Some(at) = now {
            self.plan_at(at);
            seen.push(with_pin(self));
            now = self.planner.resume_at;
        }
        seen
    }

    fn hops_to_second_host(&self) -> Option<usize> {
        let node = self.observer.network.node_of(DatapathId(1)).expect("a switch");
        let rule = self
            .updater
            .switches
            .get(&node)?
            .desired
            .get(&default_route_key(Block::exact(self.config.hosts[1].ipv4)))?;
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

/// Planning is incremental: columns are shared between decisions, and with the next hops in effect.
#[test]
fn dead_link_changes_only_the_destinations_beyond_it() {
    let mut alone = Alone::new();
    alone.plan();
    let [first, second] =
        [1, 2].map(|datapath| alone.observer.network.node_of(DatapathId(datapath)).expect("a switch"));
    let columns = |alone: &Alone| {
        let routes = &alone.planner.default_routes;
        let Some(DefaultRoutes::Hops(decided)) = alone.planner.placements.default_routes() else { panic!("routes") };
        [first, second].map(|to| {
            let [decided, hops] = [decided, &routes.hops].map(|table| table.column(to).expect("next hops").clone());
            assert!(Arc::ptr_eq(&decided, &hops));
            hops
        })
    };
    let before = columns(&alone);
    let (from, to) = ((DatapathId(1), PortNo(3)), (DatapathId(3), PortNo(1)));
    let link = alone.observer.network.link(from, to).expect("a link");
    for is_alive in [false, true] {
        alone.observer.network.set_alive(link, is_alive);
        alone.observer.refresh_network();
        alone.plan();
        let after = columns(&alone);
        assert!(Arc::ptr_eq(&before[0], &after[0]), "the other direction of the cable is alive");
        assert_eq!(before[1] == after[1], is_alive);
    }
}

#[test]
fn balancer_without_the_network_gets_no_triggers() {
    let mut alone = Alone::new();
    let Alone { config, channels, changes, observer, planner, updater } = &mut alone;
    let mut cx = Cx { now: Time::ZERO, config, channels, changes };
    planner.decide(&mut cx, observer, updater, DecisionTrigger::PeriodElapsed);
    assert_eq!(cx.channels.tally.decisions, 0);
}

/// The default route of switch 4 is back through switch 3. Labels lead through 7 and 8, against a
/// default route as well, but no labelled packet matches a pin: the pins begin at the destination
/// in any case.
#[test]
fn first_pins_begin_at_the_destination_beside_splits() {
    let [pinned, labelled] = [3, 7].map(|first| [1, first, first + 1, first + 2, first + 3, 2]);
    let mut links = vec![(3, 2), (7, 2)];
    links.extend([pinned, labelled].iter().flat_map(|path| path.windows(2)).map(|pair| (pair[0], pair[1])));
    let mut alone = Alone::of_links(&links);
    alone.plan();
    let [from, to] = [1, 2].map(|datapath| alone.observer.network.node_of(DatapathId(datapath)).expect("a switch"));
    let split = [balance::central::WeightedPath { path: alone.path(&labelled), weight: 1 }];
    alone.planner.placements.split(from, to, split.into());
    alone.plan();
    let [src, dst] = [0, 1].map(|at| alone.config.hosts[at].ipv4);
    let tuple = net::FiveTuple { src, dst, protocol: 6, src_port: 1000, dst_port: 80 };
    alone.planner.pins.want(tuple, Some(alone.path(&pinned)), true);
    assert_eq!(alone.pin_stages(&tuple), [vec![6], vec![5, 6], vec![4, 5, 6], vec![3, 4, 5, 6], vec![1, 3, 4, 5, 6]]);
}

/// The source was at switch 7. A migration would send the rules of the new path at once: switch 4 sends
/// back to switch 3 until it has its own.
#[test]
fn pins_of_a_moved_source_begin_at_the_destination() {
    let path = [1, 3, 4, 5, 6, 2];
    let links: Vec<(u64, u64)> = [(3, 2), (7, 2)].into_iter().chain(path.windows(2).map(|p| (p[0], p[1]))).collect();
    let mut alone = Alone::of_links(&links);
    alone.plan();
    let [src, dst] = [0, 1].map(|at| alone.config.hosts[at].ipv4);
    let tuple = net::FiveTuple { src, dst, protocol: 6, src_port: 1000, dst_port: 80 };
    alone.planner.pins.want(tuple, Some(alone.path(&[7, 2])), true);
    assert_eq!(alone.pin_stages(&tuple), [vec![7]]);
    alone.planner.pins.want(tuple, Some(alone.path(&path)), true);
    let stages = alone.pin_stages(&tuple);
    assert_eq!(stages, [vec![6], vec![5, 6], vec![4, 5, 6], vec![3, 4, 5, 6], vec![1, 3, 4, 5, 6]]);
}
