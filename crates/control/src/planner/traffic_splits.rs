//! Traffic splits: flows between two switches distributed over paths. A group at the source writes
//! a label per path, and switches on the path match it.
//!
//! A split changes in three steps: labels of new paths everywhere; then the groups of the source,
//! in one change per block of destinations; then, when packets on old paths have arrived, old labels are
//! deleted. A packet has one label on its whole path, so no step loops or loses it.
//!
//! A split over paths with an unconfirmed switch ([`crate::planner::unconfirmed`]) does not begin:
//! that switch would not know the labels. Installed splits stay. While the source itself is
//! unconfirmed, nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::{Placements, WeightedPath};
use core::net::Ipv4Addr;
use net::{LinkIx, NodeIx, Time};
use openflow::PortNo;

use crate::observer::network::Network;
use crate::planner::default_routes::DefaultRoutes;
use crate::planner::labels::Labels;
use crate::updater::block::{Block, blocks_of, remove_address};
use crate::updater::compile::{Compiler, divided_key, labelled_key};
use crate::updater::store::DesiredRule;
use crate::updater::task::{Progress, Step, Task};
use crate::updater::{Change, Updater};

type Pair = (NodeIx, NodeIx);

#[derive(Debug, Default)]
pub(crate) struct TrafficSplits {
    now: BTreeMap<Pair, TrafficSplit>,
    tasks: BTreeMap<Pair, (Task, TrafficSplit)>,
    /// Replaced splits, whose labels are deleted when packets have arrived. The pair may change
    /// again meanwhile: a path may die long before slow links have drained.
    draining: Vec<(Time, Pair, TrafficSplit)>,
    pending: BTreeSet<Pair>,
    labels: Labels,
    /// Number of splits that use a label rule, and its port: labels are shared. Rules of the source belong to
    /// one pair each, since a host that moves has left one pair before it joins another
    /// ([`crate::planner::host_moves`]); a draining split has none.
    users: BTreeMap<LabelRule, (u32, PortNo)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LabelRule {
    node: NodeIx,
    label: u16,
    to: Block,
}

/// A split without its rules, which follow from it: with 10,000 splits in a large network they would take
/// gigabytes.
#[derive(Clone, PartialEq, Debug, Default)]
struct TrafficSplit {
    paths: Vec<Labelled>,
    /// Blocks of destinations of the rules at the source, in their order.
    source: Vec<Block>,
    /// The same of the label rules, from which an address that moves disappears later.
    transit: Vec<Block>,
}

#[derive(Clone, PartialEq, Debug)]
struct Labelled {
    path: WeightedPath,
    first: Option<PortNo>,
    label: Option<u16>,
    hops: Vec<(NodeIx, LinkIx)>,
    /// Ports of the hops; `None` if the switch has none to the next one.
    ports: Vec<Option<PortNo>>,
}

impl TrafficSplit {
    /// First port, weight and label of each path.
    fn buckets(&self) -> Vec<(PortNo, u16, Option<u16>)> {
        let bucket = |labelled: &Labelled| Some((labelled.first?, labelled.path.weight, labelled.label));
        self.paths.iter().filter_map(bucket).collect()
    }

    /// Returns the label rules with their ports. Paths that meet share them.
    fn label_rules(&self) -> BTreeMap<LabelRule, PortNo> {
        let mut rules = BTreeMap::new();
        for labelled in &self.paths {
            let Some(label) = labelled.label else { continue };
            for ((node, _), port) in labelled.hops.iter().zip(&labelled.ports) {
                let Some(port) = *port else { continue };
                rules.extend(self.transit.iter().map(|to| (LabelRule { node: *node, label, to: *to }, port)));
            }
        }
        rules
    }
}

impl LabelRule {
    fn change(self, wanted: Option<DesiredRule>) -> Change {
        (self.node, labelled_key(self.label, self.to), wanted)
    }
}

impl TrafficSplits {
    pub(crate) fn is_settled(&self) -> bool {
        self.tasks.is_empty() && self.pending.is_empty() && self.draining.is_empty()
    }
    /// Marks pairs whose split or hosts may have changed.
    pub(crate) fn mark(&mut self, pairs: impl IntoIterator<Item = Pair>) {
        self.pending.extend(pairs);
    }
    pub(crate) fn known(&self) -> impl Iterator<Item = Pair> {
        self.now.keys().chain(self.tasks.keys()).copied()
    }

    /// Advances all changes as far as possible. Returns the time they wait for, if any.
    pub(crate) fn advance(
        &mut self,
        now: Time,
        compiler: Compiler,
        placements: &Placements,
        network: &Network,
        default_routes: &DefaultRoutes,
        updater: &mut Updater,
    ) -> Option<Time> {
        let mut resume_at;
        loop {
            let is_free = |pair: &&Pair| !self.tasks.contains_key(pair) && !default_routes.is_unconfirmed(pair.0);
            let free: Vec<Pair> = self.pending.iter().filter(is_free).copied().collect();
            for pair in free {
                self.pending.remove(&pair);
                self.begin(compiler, pair, placements, network, default_routes);
            }
            let mut done = Vec::new();
            resume_at = None;
            for (pair, (task, old)) in &mut self.tasks {
                let is_dead = old.paths.iter().any(|labelled| !network.is_path_alive(&labelled.path.path));
                match if task.is_hopeless(is_dead, now, updater) {
                    Progress::Refused
                } else {
                    task.advance(now, updater)
                } {
                    Progress::Waiting(at) => resume_at = at.into_iter().chain(resume_at).min(),
                    progress => done.push((*pair, progress)),
                }
            }
            if done.is_empty() {
                break;
            }
            for (pair, progress) in done {
                self.end(now, pair, progress, network, updater);
            }
        }
        // Labels stay while it is unknown whether a switch still writes them.
        let is_drained =
            |(at, pair, _): &mut (Time, Pair, TrafficSplit)| *at <= now && !default_routes.is_unconfirmed(pair.0);
        let drained = self.draining.extract_if(.., is_drained).collect::<Vec<_>>();
        for (_, pair, old) in drained {
            self.clear(&old, updater);
            self.release(pair, &old);
        }
        let later = self.draining.iter().map(|(at, _, _)| *at).filter(|at| *at > now);
        later.chain(resume_at).min()
    }

    fn end(&mut self, now: Time, pair: Pair, progress: Progress, network: &Network, updater: &mut Updater) {
        let Some((_, old)) = self.tasks.remove(&pair) else { return };
        if progress == Progress::Refused {
            self.abandon(pair, &old, updater);
        }
        let drain = old.paths.iter().map(|labelled| network.drain_time(&labelled.path.path)).max();
        self.draining.push((now.saturating_add(drain.unwrap_or_default()), pair, old));
    }

    /// Abandons a split after a rejection or the loss of a switch: the pair uses the default
    /// routes. Neither split may stay at the source; the paths of the old one may be dead.
    fn abandon(&mut self, pair: Pair, old: &TrafficSplit, updater: &mut Updater) {
        let new = self.now.remove(&pair).unwrap_or_default();
        for to in old.source.iter().chain(&new.source) {
            updater.set((pair.0, divided_key(*to), None));
        }
        self.clear(&new, updater);
        self.release(pair, &new);
    }

    /// Deletes the rules of the sources to an address.
    pub(crate) fn close(&mut self, address: Ipv4Addr, updater: &mut Updater) {
        let under_way = self.tasks.iter_mut().map(|(pair, (_, old))| (pair, old));
        for ((from, _), split) in self.now.iter_mut().chain(under_way) {
            let Some(block) = remove_address(&mut split.source, address) else { continue };
            let key = divided_key(block);
            let wanted = updater.switches.get(from).and_then(|switch| switch.divided(&key));
            updater.set((*from, key, None));
            for rest in block.without(address).into_iter().filter(|_| wanted.is_some()) {
                updater.set((*from, divided_key(rest), wanted.clone()));
            }
        }
        self.tasks.values_mut().for_each(|(task, _)| task.remove_address(address));
    }
    /// Deletes the label rules of an address when no switch writes its labels any more.
    pub(crate) fn purge(&mut self, compiler: Compiler, address: Ipv4Addr, updater: &mut Updater) {
        let under_way = self.tasks.values_mut().map(|(_, old)| old);
        let draining = self.draining.iter_mut().map(|(_, _, split)| split);
        for split in self.now.values_mut().chain(under_way).chain(draining) {
            remove_address(&mut split.transit, address);
        }
        let gone: Vec<_> = self.users.extract_if(.., |rule, _| rule.to.contains(address)).collect();
        for (rule, (users, port)) in gone {
            updater.set(rule.change(None));
            for to in rule.to.without(address) {
                let rest = LabelRule { to, ..rule };
                // Splits that have begun since the address left use them already.
                self.users.entry(rest).or_insert((0, port)).0 += users;
                updater.set(rest.change(Some(compiler.labelled(port))));
            }
        }
    }

    fn begin(
        &mut self,
        compiler: Compiler,
        pair: Pair,
        placements: &Placements,
        network: &Network,
        default_routes: &DefaultRoutes,
    ) {
        let wanted = placements.splits().get(&pair).map(|paths| &paths[..]).unwrap_or_default();
        let known = self.now.get(&pair).map(|split| &split.paths[..]).unwrap_or_default();
        let is_known = |path: &WeightedPath| known.iter().any(|labelled| labelled.path.path == path.path);
        let is_sure = |link: &LinkIx| network.ends(*link).all(|node| !default_routes.is_unconfirmed(node));
        let can_begin = |path: &&WeightedPath| is_known(path) || path.path.iter().all(is_sure);
        let wanted: Vec<WeightedPath> = wanted.iter().filter(can_begin).cloned().collect();
        let new = self.compile(pair, &wanted, network, default_routes);
        let old = self.now.remove(&pair).unwrap_or_default();
        if new == old {
            self.release(pair, &old);
            self.keep(pair, new);
            return;
        }
        let mut labels = Vec::new();
        for (rule, port) in new.label_rules() {
            let (users, known) = self.users.entry(rule).or_insert((0, port));
            (*users, *known) = (*users + 1, port);
            labels.push(rule.change(Some(compiler.labelled(port))));
        }
        let labels = Step { changes: labels, ..Step::default() };
        let divided = compiler.divided(&new.buckets());
        let set = |to: &Block| (pair.0, divided_key(*to), Some(divided.clone()));
        let mut at_source: Vec<Change> = new.source.iter().map(set).collect();
        let gone = old.source.iter().filter(|to| !new.source.contains(to));
        at_source.extend(gone.map(|to| (pair.0, divided_key(*to), None)));
        let steps = [labels, Step { changes: at_source, ..Step::default() }];
        self.tasks.insert(pair, (Task::new(steps), old));
        self.keep(pair, new);
    }

    /// Deletes label rules that no split uses any more. Only now: another split may have started to
    /// share them while packets drained.
    fn clear(&mut self, old: &TrafficSplit, updater: &mut Updater) {
        for rule in old.label_rules().into_keys() {
            let (users, _) = self.users.get_mut(&rule).expect("rules of a split are counted");
            *users -= 1;
            if *users == 0 {
                self.users.remove(&rule);
                updater.set(rule.change(None));
            }
        }
    }

    fn keep(&mut self, pair: Pair, split: TrafficSplit) {
        if !split.paths.is_empty() {
            self.now.insert(pair, split);
        }
    }

    fn release(&mut self, (_, to): Pair, old: &TrafficSplit) {
        for labelled in &old.paths {
            if let Some(label) = labelled.label {
                self.labels.release(to, label, &labelled.hops);
            }
        }
    }

    fn compile(
        &mut self,
        (_, to): Pair,
        wanted: &[WeightedPath],
        network: &Network,
        default_routes: &DefaultRoutes,
    ) -> TrafficSplit {
        let mut split = TrafficSplit::default();
        for path in wanted {
            let hops: Vec<(NodeIx, LinkIx)> =
                path.path.iter().skip(1).filter_map(|link| Some((network.near_end(*link)?, *link))).collect();
            let label = if hops.is_empty() { None } else { self.labels.assign(to, &hops) };
            if label.is_some() || hops.is_empty() {
                let first = path.path.first().and_then(|link| network.port_of(*link));
                let ports = hops.iter().map(|(_, link)| network.port_of(*link)).collect();
                split.paths.push(Labelled { path: path.clone(), first, label, hops, ports });
            }
        }
        if split.paths.iter().any(|labelled| labelled.first.is_some()) {
            split.source = blocks_of(&default_routes.addresses_at(to).collect());
            split.transit = split.source.clone();
        }
        split
    }
}
