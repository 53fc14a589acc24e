//! Traffic splits: flows between two switches distributed over paths. A group at the source writes
//! a label per path, and switches on the path match it.
//!
//! A split changes in three steps: labels of new paths everywhere; then the groups of the source,
//! in one change per destination host; then, when packets on old paths have arrived, old labels are
//! deleted. A packet has one label on its whole path, so no step loops or loses it.
//!
//! A split over paths with an unconfirmed switch ([`crate::planner::unconfirmed`]) does not begin:
//! that switch would not know the labels. Installed splits stay. While the source itself is
//! unconfirmed, nothing changes.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::{Placements, WeightedPath};
use core::net::Ipv4Addr;
use net::{LinkIx, NodeIx, Time};

use crate::observer::network::Network;
use crate::planner::default_routes::DefaultRoutes;
use crate::planner::labels::Labels;
use crate::updater::compile::{Compiler, is_to};
use crate::updater::store::{DesiredRule, RuleKey};
use crate::updater::task::{Progress, Step, Task};
use crate::updater::{Change, RuleSet, Updater};

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
    /// Number of splits that use a label rule: labels are shared. Rules of the source belong to one
    /// pair each, since a host that moves has left one pair before it joins another
    /// ([`crate::planner::host_moves`]); a draining split has none.
    users: BTreeMap<(NodeIx, RuleKey), u32>,
}

#[derive(Clone, Debug, Default)]
struct TrafficSplit {
    paths: Vec<Labelled>,
    source: RuleSet,
    transit: RuleSet,
}

#[derive(Clone, PartialEq, Debug)]
struct Labelled {
    path: WeightedPath,
    label: Option<u16>,
    hops: Vec<(NodeIx, LinkIx)>,
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
        for (node, key) in old.source.keys().chain(new.source.keys()) {
            updater.set((*node, *key, None));
        }
        self.clear(&new, updater);
        self.release(pair, &new);
    }

    pub(crate) fn close(&mut self, address: Ipv4Addr, updater: &mut Updater) {
        for division in self.now.values_mut().chain(self.tasks.values_mut().map(|(_, old)| old)) {
            for ((node, key), _) in division.source.extract_if(.., |(_, key), _| is_to(key, address)) {
                updater.set((node, key, None));
            }
        }
        self.tasks.values_mut().for_each(|(task, _)| task.remove_changes(|key| is_to(key, address)));
    }
    /// Deletes the label rules of an address when no switch writes its labels any more.
    pub(crate) fn purge(&mut self, address: Ipv4Addr, updater: &mut Updater) {
        let under_way = self.tasks.values_mut().map(|(_, old)| old);
        let draining = self.draining.iter_mut().map(|(_, _, division)| division);
        for division in self.now.values_mut().chain(under_way).chain(draining) {
            division.transit.retain(|(_, key), _| !is_to(key, address));
        }
        for ((node, key), _) in self.users.extract_if(.., |(_, key), _| is_to(key, address)) {
            updater.set((node, key, None));
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
        let known = self.now.get(&pair).map(|division| &division.paths[..]).unwrap_or_default();
        let is_known = |path: &WeightedPath| known.iter().any(|labelled| labelled.path.path == path.path);
        let is_sure = |link: &LinkIx| network.ends(*link).all(|node| !default_routes.is_unconfirmed(node));
        let can_begin = |path: &&WeightedPath| is_known(path) || path.path.iter().all(is_sure);
        let wanted: Vec<WeightedPath> = wanted.iter().filter(can_begin).cloned().collect();
        let new = self.compile(compiler, pair, &wanted, network, default_routes);
        let old = self.now.remove(&pair).unwrap_or_default();
        if new.source == old.source && new.transit == old.transit {
            self.release(pair, &old);
            self.keep(pair, new);
            return;
        }
        for rule in new.transit.keys() {
            *self.users.entry(*rule).or_insert(0) += 1;
        }
        let set = |((node, key), wanted): (&(NodeIx, RuleKey), &DesiredRule)| (*node, *key, Some(wanted.clone()));
        let labels = Step { changes: new.transit.iter().map(set).collect(), ..Step::default() };
        let mut at_source: Vec<Change> = new.source.iter().map(set).collect();
        let gone = old.source.keys().filter(|rule| !new.source.contains_key(rule));
        at_source.extend(gone.map(|(node, key)| (*node, *key, None)));
        let steps = [labels, Step { changes: at_source, ..Step::default() }];
        self.tasks.insert(pair, (Task::new(steps), old));
        self.keep(pair, new);
    }

    /// Deletes label rules that no split uses any more. Only now: another split may have started to
    /// share them while packets drained.
    fn clear(&mut self, old: &TrafficSplit, updater: &mut Updater) {
        for rule in old.transit.keys() {
            let users = self.users.get_mut(rule).expect("rules of a split are counted");
            *users -= 1;
            if *users == 0 {
                self.users.remove(rule);
                updater.set((rule.0, rule.1, None));
            }
        }
    }

    fn keep(&mut self, pair: Pair, division: TrafficSplit) {
        if !division.paths.is_empty() {
            self.now.insert(pair, division);
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
        compiler: Compiler,
        (from, to): Pair,
        wanted: &[WeightedPath],
        network: &Network,
        default_routes: &DefaultRoutes,
    ) -> TrafficSplit {
        let mut division = TrafficSplit::default();
        for path in wanted {
            let hops: Vec<(NodeIx, LinkIx)> =
                path.path.iter().skip(1).filter_map(|link| Some((network.near_end(*link)?, *link))).collect();
            let label = if hops.is_empty() { None } else { self.labels.assign(to, &hops) };
            if label.is_some() || hops.is_empty() {
                division.paths.push(Labelled { path: path.clone(), label, hops });
            }
        }
        let first = |labelled: &Labelled| {
            let port = network.port_of(*labelled.path.path.first()?)?;
            Some((port, labelled.path.weight, labelled.label))
        };
        let buckets: Vec<_> = division.paths.iter().filter_map(first).collect();
        let hosts: Vec<Ipv4Addr> = default_routes.addresses_at(to).collect();
        for host in hosts.into_iter().filter(|_| !buckets.is_empty()) {
            let (key, wanted) = compiler.divided(host, &buckets);
            division.source.insert((from, key), wanted);
            for labelled in &division.paths {
                let Some(label) = labelled.label else { continue };
                for (node, link) in &labelled.hops {
                    let Some(port) = network.port_of(*link) else { continue };
                    let (key, wanted) = compiler.labelled(label, host, port);
                    division.transit.insert((*node, key), wanted);
                }
            }
        }
        division
    }
}
