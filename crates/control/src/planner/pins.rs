//! Pinned flows: first pins, loss-free migrations, releases.
//!
//! A pinned flow has a rule at every switch of its path but the last, which has a rule for the host
//! in any case.
//!
//! **Migration from one path to another** (mechanisms.md P10.3, SFMM, made safe for any two simple
//! paths):
//! 1. the new path gets rules of *lower* priority than the old ones: they have no effect at
//!    switches on both paths;
//! 2. at switches on both paths with different next hops (*cutover*) the old rule is deleted, one
//!    switch at a time, the last one along the **new** path first, each confirmed before the next:
//!    the packet uses the new rule immediately;
//! 3. when packets on the old path have arrived, the remaining old rules are deleted.
//!
//! No packet loops or is lost meanwhile, by the claim of [`crate::planner::update_order`]: a
//! switch counts as changed if the new rule decides there. After step 1 these are the switches of
//! the new path only; by the order of step 2, when a switch changes, all those after it on the new
//! path have changed, so the changed ones are closed under new next hops. If a switch cut over
//! earlier comes *before* this one on the old path, the packets it forwarded on the old path must
//! arrive first; they would be sent back to it. Step 3 deletes rules that no packet matches any
//! more. The published order, from the bottleneck of the *old* path, can loop if the paths visit
//! common switches in opposite order.
//!
//! No migration begins while a switch of either path is unconfirmed
//! ([`crate::planner::unconfirmed`]); a flow whose path is dead then uses the default routes. If the
//! source has moved to another switch, packets enter at the new path, and the claim does not hold: the
//! old path is released, and then the new one is pinned.
//!
//! **First pins and releases** change between the default routes and the path; the order is that of
//! [`crate::planner::update_order::order`], with the same wait between groups. Labels make no
//! difference: a packet gets one at its first switch, if there is no pin, and no pin matches it
//! later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use balance::central::Path;
use core::net::Ipv4Addr;
use net::{FiveTuple, LinkIx, NodeIx, Time};

use crate::observer::network::Network;
use crate::planner::default_routes::DefaultRoutes;
use crate::planner::hop_graph::OnPath;
use crate::planner::update_order::{self, Depths, depths};
use crate::updater::compile::{Compiler, pin_key, pin_priorities};
use crate::updater::task::{Progress, Step, Task};
use crate::updater::{Change, Updater};

#[derive(Debug, Default)]
pub(crate) struct Pins {
    flows: BTreeMap<FiveTuple, Pinned>,
    /// Flows with a change in progress or pending.
    active: BTreeSet<FiveTuple>,
    /// Flows whose desired path was rejected.
    unplaced: BTreeSet<FiveTuple>,
    /// Flows that begin one after the other at each switch, with the reverse of each.
    queued: VecDeque<FiveTuple>,
}

#[derive(Debug, Default)]
struct Pinned {
    /// Path with rules in effect, and their priority.
    now: Option<(Path, u16)>,
    wanted: Option<Path>,
    task: Option<(Task, Option<(Path, u16)>)>,
    /// A rejected path, to be retried when other flows have released paths.
    unplaced: Option<Path>,
    /// Whether reaching the desired path counts as a migration: false if the flow has ended.
    is_move: bool,
}

pub(crate) struct PinContext<'a> {
    pub(crate) compiler: Compiler,
    pub(crate) network: &'a Network,
    pub(crate) default_routes: &'a DefaultRoutes,
}

impl Pins {
    pub(crate) fn is_settled(&self) -> bool {
        self.active.is_empty()
    }

    /// Sets the desired path of a flow; `None` releases it.
    pub(crate) fn want(&mut self, tuple: FiveTuple, path: Option<Path>, is_move: bool) {
        let path = path.filter(|path| !path.is_empty());
        if path.is_none() && !self.flows.contains_key(&tuple) {
            return;
        }
        let pinned = self.flows.entry(tuple).or_default();
        pinned.wanted = path;
        pinned.unplaced = None;
        self.unplaced.remove(&tuple);
        pinned.is_move = is_move;
        self.active.insert(tuple);
    }

    /// Lets the change of a flow and of its reverse begin after those queued before it.
    pub(crate) fn queue(&mut self, tuple: FiveTuple) {
        if !self.queued.contains(&tuple) {
            self.queued.push_back(tuple);
        }
    }

    /// Removes the flows from the queue that may begin: those at whose switches no flow before them
    /// waits or has begun, and no message is unanswered. Returns the others, with their reverses.
    fn take_from_queue(&mut self, around: &PinContext<'_>, updater: &Updater) -> BTreeSet<FiveTuple> {
        let (mut taken, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        for tuple in std::mem::take(&mut self.queued) {
            let both = [tuple, tuple.reverse()].map(|tuple| self.flows.get(&tuple));
            let Some(Pinned { wanted: Some(_), task, .. }) = both[0] else { continue };
            let paths = both.iter().flatten().flat_map(|pinned| pinned.paths());
            let links = paths.flat_map(|path| path.iter());
            let nodes: BTreeSet<NodeIx> = links.filter_map(|link| around.network.near_end(*link)).collect();
            let is_free = |node| !taken.contains(node) && !updater.is_busy(*node);
            if task.is_none() && !nodes.iter().all(is_free) {
                waiting.extend([tuple, tuple.reverse()]);
                self.queued.push_back(tuple);
            }
            taken.extend(nodes);
        }
        waiting
    }

    /// Deletes all rules of the flows of a host that has left; no other rules lead there.
    pub(crate) fn purge(&mut self, address: Ipv4Addr, around: &PinContext<'_>, updater: &mut Updater) {
        for (tuple, pinned) in self.flows.iter_mut().filter(|(tuple, _)| tuple.dst == address) {
            pinned.purge(tuple, around, updater);
            self.active.insert(*tuple);
        }
    }

    /// Advances all changes as far as possible. Returns the time they wait for, if any, and adds
    /// the flows that use their desired path now to `moved`.
    pub(crate) fn advance(
        &mut self,
        now: Time,
        around: &PinContext<'_>,
        updater: &mut Updater,
        moved: &mut Vec<FiveTuple>,
    ) -> Option<Time> {
        let mut resume_at = None;
        let waiting = self.take_from_queue(around, updater);
        let active: Vec<FiveTuple> = self.active.difference(&waiting).copied().collect();
        let mut has_left = false;
        for tuple in active {
            let pinned = self.flows.get_mut(&tuple).expect("active flows are known");
            match pinned.advance(now, &tuple, around, updater, moved) {
                Progress::Waiting(at) => resume_at = at.into_iter().chain(resume_at).min(),
                progress @ (Progress::Refused | Progress::Done) => {
                    self.active.remove(&tuple);
                    has_left |= progress == Progress::Done;
                    if pinned.unplaced.is_some() {
                        self.unplaced.insert(tuple);
                    }
                    if self.flows.get(&tuple).is_some_and(|pinned| pinned.is_nothing()) {
                        self.flows.remove(&tuple);
                    }
                }
            }
        }
        if has_left {
            self.retry_unplaced();
        }
        resume_at
    }

    /// Retries rejected paths because rules of another flow are gone, or a switch has reconnected.
    /// Only regular deletions count; those after a rejection do not, or rejections would cause each
    /// other forever.
    pub(crate) fn retry_unplaced(&mut self) {
        for tuple in std::mem::take(&mut self.unplaced) {
            if let Some(pinned) = self.flows.get_mut(&tuple) {
                pinned.wanted = pinned.unplaced.take();
                self.active.insert(tuple);
            }
        }
    }
}

impl Pinned {
    /// Returns the paths before and after its change.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        self.now.iter().map(|(path, _)| path).chain(&self.wanted)
    }

    fn is_nothing(&self) -> bool {
        self.now.is_none() && self.wanted.is_none() && self.unplaced.is_none()
    }

    fn advance(
        &mut self,
        now: Time,
        tuple: &FiveTuple,
        around: &PinContext<'_>,
        updater: &mut Updater,
        moved: &mut Vec<FiveTuple>,
    ) -> Progress {
        if around.default_routes.moves.is_moving(tuple.dst) {
            return Progress::Waiting(None);
        }
        loop {
            if self.task.is_none() {
                if self.now.as_ref().map(|(path, _)| path) == self.wanted.as_ref() {
                    return Progress::Done;
                }
                let target = match self.wanted.clone() {
                    Some(_) if self.is_unconfirmed(around) && self.is_served(around.network) => {
                        return Progress::Waiting(None);
                    }
                    Some(_) if self.is_unconfirmed(around) || self.has_source_moved(around.network) => None,
                    wanted => wanted,
                };
                self.task = Some(self.begin(tuple, target.as_ref(), around));
            }
            let (task, reached) = self.task.as_mut().expect("a task was begun");
            let paths = self.now.iter().chain(&*reached).map(|(path, _)| path);
            let is_dead = paths.into_iter().any(|path| !around.network.is_path_alive(path));
            if is_dead {
                task.skip_pauses(); // Packets on a dead path do not arrive, and the flow must leave it.
            }
            let is_hopeless = reached.is_some() && task.is_hopeless(is_dead, now, updater);
            let progress = if is_hopeless { Progress::Refused } else { task.advance(now, updater) };
            match progress {
                waiting @ Progress::Waiting(_) => return waiting,
                Progress::Done => {
                    let is_reached = reached.as_ref().map(|(path, _)| path) == self.wanted.as_ref();
                    self.now = self.task.take().and_then(|(_, reached)| reached);
                    if is_reached && self.is_move {
                        moved.push(*tuple);
                    }
                }
                Progress::Refused => {
                    self.abandon(tuple, around, updater);
                    if self.is_served(around.network) {
                        return Progress::Refused;
                    }
                    self.wanted = None; // The old path is not possible any more: the flow uses the default routes.
                }
            }
        }
    }

    /// Returns whether the desired path begins at another switch than the present one. A migration
    /// would not be safe: packets enter the new path although all rules of it are not there yet.
    fn has_source_moved(&self, network: &Network) -> bool {
        let source = |path: &Path| path.first().and_then(|link| network.near_end(*link));
        let (now, wanted) = (self.now.as_ref().map(|(path, _)| path), self.wanted.as_ref());
        now.zip(wanted).is_some_and(|(now, wanted)| source(now) != source(wanted))
    }

    /// Returns whether a switch of either path is unconfirmed, so that no migration is safe.
    fn is_unconfirmed(&self, around: &PinContext<'_>) -> bool {
        let mut nodes = self.paths().flat_map(|path| path.iter().flat_map(|link| around.network.ends(*link)));
        nodes.any(|node| around.default_routes.is_unconfirmed(node))
    }
    /// Returns whether the flow can stay on its path.
    fn is_served(&self, network: &Network) -> bool {
        self.now.iter().all(|(path, _)| network.is_path_alive(path))
    }

    fn purge(&mut self, tuple: &FiveTuple, around: &PinContext<'_>, updater: &mut Updater) {
        let reached = self.task.take().and_then(|(_, reached)| reached);
        // The old path may have received the priority above that of the new one.
        let above = reached.as_ref().map(|(_, priority)| priority + 1);
        let now = self.now.take();
        for (path, priority) in now.iter().chain(&reached) {
            for (node, _) in hops(path, around.network) {
                for priority in above.into_iter().chain([*priority]) {
                    updater.set((node, pin_key(tuple, priority), None));
                }
            }
        }
        self.unplaced = None;
    }

    /// Abandons the new path after a rejection: its rules are deleted, the old ones stay. It is
    /// retried when other flows have released rules, unless the balancer requests another path by
    /// then.
    fn abandon(&mut self, tuple: &FiveTuple, around: &PinContext<'_>, updater: &mut Updater) {
        let Some((_, Some((path, priority)))) = self.task.take() else { return };
        if let Some((old, old_priority)) = &self.now {
            // Rules that were cut over already are restored before the new ones are deleted.
            rules(tuple, old, *old_priority, around).into_iter().for_each(|change| updater.set(change));
        }
        for (node, _) in hops(&path, around.network) {
            updater.set((node, pin_key(tuple, priority), None));
        }
        self.unplaced = self.wanted.take();
        self.wanted = self.now.as_ref().map(|(path, _)| path.clone());
    }

    fn begin(&self, tuple: &FiveTuple, target: Option<&Path>, around: &PinContext<'_>) -> (Task, Option<(Path, u16)>) {
        match (&self.now, target) {
            (Some((old, priority)), Some(new)) => {
                let (steps, priority) = migration(tuple, old, *priority, new, around);
                (Task::new(steps), Some((new.clone(), priority)))
            }
            (None, Some(new)) => {
                let priority = *pin_priorities(tuple).end();
                let changes = rules(tuple, new, priority, around);
                (Task::new(Self::staged(new, changes, Direction::ToPath, around)), Some((new.clone(), priority)))
            }
            (Some((old, priority)), None) => {
                let gone = |(node, _)| (node, pin_key(tuple, *priority), None);
                let changes = hops(old, around.network).into_iter().map(gone).collect();
                (Task::new(Self::staged(old, changes, Direction::ToBase, around)), None)
            }
            (None, None) => (Task::default(), None),
        }
    }

    fn staged(path: &Path, changes: Vec<Change>, direction: Direction, around: &PinContext<'_>) -> Vec<Step> {
        let Some(sink) = path.last().and_then(|link| around.network.far_end(*link)) else { return Vec::new() };
        let replaced = around.default_routes.replaced_towards(sink);
        let base = around.default_routes.effective(around.network, sink, &replaced);
        let next = |(node, link): (NodeIx, LinkIx)| (node, around.network.far_end(link));
        let hops = hops(path, around.network).into_iter().map(next).collect();
        let pinned = OnPath { path: &hops, others: &base };
        let changed: BTreeSet<NodeIx> = changes.iter().map(|(node, _, _)| *node).collect();
        let groups = match direction {
            Direction::ToPath => update_order::order(&changed, &base, &pinned, sink),
            Direction::ToBase => update_order::order(&changed, &pinned, &base, sink),
        };
        let longest = |graph: Option<Depths>| graph.map_or(0, |depths| depths.longest());
        let drain = match groups.len() {
            0 | 1 => Time::ZERO,
            _ => around.network.drain_time_of(longest(depths(&base)).max(longest(depths(&pinned)))),
        };
        let mut changes: BTreeMap<NodeIx, Change> = changes.into_iter().map(|change| (change.0, change)).collect();
        let take = |(position, group): (usize, Vec<NodeIx>)| Step {
            pause: if position == 0 { Time::ZERO } else { drain },
            changes: group.iter().filter_map(|node| changes.remove(node)).collect(),
        };
        groups.into_iter().enumerate().map(take).collect()
    }
}

#[derive(Clone, Copy)]
enum Direction {
    ToPath,
    ToBase,
}

/// Returns the switches of a path that need rules, with the links they send to.
fn hops(path: &[LinkIx], network: &Network) -> Vec<(NodeIx, LinkIx)> {
    path.iter().filter_map(|link| Some((network.near_end(*link)?, *link))).collect()
}

fn rules(tuple: &FiveTuple, path: &[LinkIx], priority: u16, around: &PinContext<'_>) -> Vec<Change> {
    let rule = |(node, link): (NodeIx, LinkIx)| {
        let (key, wanted) = around.compiler.pin(tuple, priority, around.network.port_of(link)?);
        Some((node, key, Some(wanted)))
    };
    hops(path, around.network).into_iter().filter_map(rule).collect()
}

/// Returns the switches on both paths with different next hops, the last along the new path first.
pub(crate) fn cutover(old: &[(NodeIx, LinkIx)], new: &[(NodeIx, LinkIx)]) -> Vec<NodeIx> {
    let old: BTreeMap<NodeIx, LinkIx> = old.iter().copied().collect();
    let differs = |(node, link): &&(NodeIx, LinkIx)| old.get(node).is_some_and(|other| other != link);
    new.iter().rev().filter(differs).map(|(node, _)| *node).collect()
}

fn migration(
    tuple: &FiveTuple,
    old: &Path,
    old_priority: u16,
    new: &Path,
    around: &PinContext<'_>,
) -> (Vec<Step>, u16) {
    let (old_hops, new_hops) = (hops(old, around.network), hops(new, around.network));
    let mut steps = Vec::new();
    let mut priority = old_priority;
    let gone = |nodes: Vec<NodeIx>, priority: u16| -> Vec<Change> {
        nodes.into_iter().map(|node| (node, pin_key(tuple, priority), None)).collect()
    };
    let old_nodes = || old_hops.iter().map(|(node, _)| *node).collect::<Vec<_>>();
    if priority == *pin_priorities(tuple).start() {
        // No lower priority is free: the old path gets the highest priority first. Both sets of
        // rules have the same effect.
        priority = *pin_priorities(tuple).end();
        steps.push(Step { changes: rules(tuple, old, priority, around), ..Step::default() });
        steps.push(Step { changes: gone(old_nodes(), old_priority), ..Step::default() });
    }
    steps.push(Step { changes: rules(tuple, new, priority - 1, around), ..Step::default() });
    let cutover = cutover(&old_hops, &new_hops);
    let place = |node: NodeIx| old_hops.iter().position(|(other, _)| *other == node);
    let drain = around.network.drain_time(old);
    for (position, node) in cutover.iter().enumerate() {
        let is_met_late = cutover[..position].iter().any(|earlier| place(*earlier) < place(*node));
        let pause = if is_met_late { drain } else { Time::ZERO };
        steps.push(Step { pause, changes: gone(vec![*node], priority) });
    }
    let rest = old_nodes().into_iter().filter(|node| !cutover.contains(node)).collect();
    steps.push(Step { pause: drain, changes: gone(rest, priority) });
    (steps, priority - 1)
}
