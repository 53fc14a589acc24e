//! Flows with a path of their own: first pins, moves without loss, releases.
//!
//! A rule of the flow stands at every switch of its path but the last, which has the host on a port in any case.
//!
//! **From one path to another** (mechanisms.md P10.3, SFMM, made safe for any two simple paths):
//! 1. the new path gets rules of *lower* priority than the old ones: nothing changes where both stand;
//! 2. at switches on both paths that send different ways (*cutover*) the old rule is deleted, one switch at a time, the
//!    last one along the **new** path first, each confirmed before the next: the packet falls to the new rule at once;
//! 3. when packets on the old path have arrived, the old rules left are deleted.
//!
//! No packet loops or is lost meanwhile, by the claim of [`crate::stage`]: a switch counts as changed if the new rule
//! decides there. After step 1 these are the switches of the new path only; by the order of step 2, when a switch
//! changes, all those after it on the new path have changed, so the changed ones are closed under new next hops. Where a
//! switch cut over earlier comes *before* this one on the old path, the packets it sent on in the old way are given time to
//! arrive first; they would be sent back to it. Step 3 deletes rules no packet meets any more. The published order, from
//! the bottleneck of the *old* path, can loop where the paths visit common switches in opposite order.
//!
//! Nothing is begun while a switch of either path may have other rules than those wanted ([`crate::unsure`]); a flow
//! whose path is dead then goes by the base.
//!
//! **First pins and releases** go between the base (and labels) and the path; there the order is that of
//! [`crate::stage::order`], with the same wait between groups.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::Path;
use core::net::Ipv4Addr;
use net::{FiveTuple, LinkIx, NodeIx, Time};

use crate::base::Base;
use crate::compile::{Compiler, pin_key, pin_priorities};
use crate::fabric::{Change, Fabric, Progress, Step, Task};
use crate::network::Network;
use crate::pairs::Pairs;
use crate::stage::{self, Graph};

/// What has become of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It goes as wanted now.
    Moved(FiveTuple),
    /// A switch refused rules of its path: it goes as before, or by the base.
    Refused(FiveTuple),
}

/// Pinned flows.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    flows: BTreeMap<FiveTuple, Pinned>,
    /// Those with something under way or to begin.
    active: BTreeSet<FiveTuple>,
    /// Those with a path that could not be had.
    missed: BTreeSet<FiveTuple>,
}

#[derive(Debug, Default)]
struct Pinned {
    /// Path with rules that decide, and their priority.
    now: Option<(Path, u16)>,
    wanted: Option<Path>,
    task: Option<(Task, Option<(Path, u16)>)>,
    /// Edge switches of the flow.
    ends: Option<(NodeIx, NodeIx)>,
    /// A path that could not be had, to be tried again when others have left theirs.
    missed: Option<Path>,
    /// Whether reaching what is wanted counts as a move: not where the flow has ended.
    is_move: bool,
}

/// What pins are installed against.
pub(crate) struct Surroundings<'a> {
    pub(crate) compiler: Compiler,
    pub(crate) network: &'a Network,
    pub(crate) base: &'a Base,
    pub(crate) pairs: &'a Pairs,
}

impl Pins {
    /// Whether every change is done.
    pub(crate) fn is_settled(&self) -> bool {
        self.active.is_empty()
    }

    /// The path a flow should have; `None` for none.
    pub(crate) fn want(&mut self, tuple: FiveTuple, path: Option<Path>, ends: Option<(NodeIx, NodeIx)>, is_move: bool) {
        let path = path.filter(|path| !path.is_empty());
        if path.is_none() && !self.flows.contains_key(&tuple) {
            return;
        }
        let pinned = self.flows.entry(tuple).or_default();
        pinned.wanted = path;
        pinned.missed = None;
        self.missed.remove(&tuple);
        pinned.ends = ends.or(pinned.ends);
        pinned.is_move = is_move;
        self.active.insert(tuple);
    }

    /// The host of an address has left, and nothing else leads there: all rules of its flows go at once.
    pub(crate) fn purge(&mut self, address: Ipv4Addr, around: &Surroundings<'_>, fabric: &mut Fabric) {
        for (tuple, pinned) in self.flows.iter_mut().filter(|(tuple, _)| tuple.dst == address) {
            pinned.purge(tuple, around, fabric);
            self.active.insert(*tuple);
        }
    }

    /// Goes on as far as it can; the time it waits for, if any.
    pub(crate) fn advance(
        &mut self,
        now: Time,
        around: &Surroundings<'_>,
        fabric: &mut Fabric,
        fates: &mut Vec<Fate>,
    ) -> Option<Time> {
        let mut resume_at = None;
        let active: Vec<FiveTuple> = self.active.iter().copied().collect();
        let mut has_left = false;
        for tuple in active {
            let pinned = self.flows.get_mut(&tuple).expect("active flows are known");
            match pinned.advance(now, &tuple, around, fabric, fates) {
                Progress::Waiting(at) => resume_at = at.into_iter().chain(resume_at).min(),
                progress @ (Progress::Refused | Progress::Done) => {
                    self.active.remove(&tuple);
                    has_left |= progress == Progress::Done;
                    if pinned.missed.is_some() {
                        self.missed.insert(tuple);
                    }
                    if self.flows.get(&tuple).is_some_and(|pinned| pinned.is_nothing()) {
                        self.flows.remove(&tuple);
                    }
                }
            }
        }
        if has_left {
            self.try_missed();
        }
        resume_at
    }

    /// Rules of another flow are gone: there may be room. Only what left by its own will counts; what is taken back after a
    /// refusal does not, or refusals would cause each other for ever. Or a switch has come back.
    pub(crate) fn try_missed(&mut self) {
        for tuple in std::mem::take(&mut self.missed) {
            if let Some(pinned) = self.flows.get_mut(&tuple) {
                pinned.wanted = pinned.missed.take();
                self.active.insert(tuple);
            }
        }
    }
}

impl Pinned {
    fn is_nothing(&self) -> bool {
        self.now.is_none() && self.wanted.is_none() && self.missed.is_none()
    }

    fn advance(
        &mut self,
        now: Time,
        tuple: &FiveTuple,
        around: &Surroundings<'_>,
        fabric: &mut Fabric,
        fates: &mut Vec<Fate>,
    ) -> Progress {
        if around.base.moves.is_moving(tuple.dst) {
            return Progress::Waiting(None);
        }
        loop {
            if self.task.is_none() {
                if self.now.as_ref().map(|(path, _)| path) == self.wanted.as_ref() {
                    return Progress::Done;
                }
                let target = match self.wanted.clone() {
                    Some(_) if self.is_unsure(around) && self.is_served(around.network) => {
                        return Progress::Waiting(None);
                    }
                    Some(_) if self.is_unsure(around) => None,
                    wanted => wanted,
                };
                self.task = Some(self.begin(tuple, target.as_ref(), around));
            }
            let (task, reached) = self.task.as_mut().expect("a task was begun");
            let paths = self.now.iter().chain(&*reached).map(|(path, _)| path);
            let is_dead = paths.into_iter().any(|path| !around.network.is_path_alive(path));
            if is_dead {
                task.hurry(); // Packets on a dead path do not arrive, and the flow is to leave it.
            }
            let is_hopeless = reached.is_some() && task.is_hopeless(is_dead, now, fabric);
            let progress = if is_hopeless { Progress::Refused } else { task.advance(now, fabric) };
            match progress {
                waiting @ Progress::Waiting(_) => return waiting,
                Progress::Done => {
                    let is_reached = reached.as_ref().map(|(path, _)| path) == self.wanted.as_ref();
                    self.now = self.task.take().and_then(|(_, reached)| reached);
                    if is_reached && self.is_move {
                        fates.push(Fate::Moved(*tuple));
                    }
                }
                Progress::Refused => {
                    self.give_up(tuple, around, fabric);
                    fates.push(Fate::Refused(*tuple));
                    if self.is_served(around.network) {
                        return Progress::Refused;
                    }
                    self.wanted = None; // Where it was it cannot stay: it goes by the base.
                }
            }
        }
    }

    /// Whether a switch of either path may have other rules than those wanted: nothing can be moved safely.
    fn is_unsure(&self, around: &Surroundings<'_>) -> bool {
        let paths = self.now.iter().map(|(path, _)| path).chain(&self.wanted);
        let mut nodes = paths.flat_map(|path| path.iter().flat_map(|link| around.network.ends(*link)));
        nodes.any(|node| around.base.is_unsure(node))
    }
    /// Whether the flow can go on as it does.
    fn is_served(&self, network: &Network) -> bool {
        self.now.iter().all(|(path, _)| network.is_path_alive(path))
    }

    fn purge(&mut self, tuple: &FiveTuple, around: &Surroundings<'_>, fabric: &mut Fabric) {
        let reached = self.task.take().and_then(|(_, reached)| reached);
        // The old path may have got the priority above that of the new one.
        let above = reached.as_ref().map(|(_, priority)| priority + 1);
        let now = self.now.take();
        for (path, priority) in now.iter().chain(&reached) {
            for (node, _) in hops(path, around.network) {
                for priority in above.into_iter().chain([*priority]) {
                    fabric.set((node, pin_key(tuple, priority), None));
                }
            }
        }
        self.missed = None;
    }

    /// The new path cannot be had: its rules go, the old ones stay. It is tried again when
    /// other flows have left rules behind, unless the balancer wants another path by then.
    fn give_up(&mut self, tuple: &FiveTuple, around: &Surroundings<'_>, fabric: &mut Fabric) {
        let Some((_, Some((path, priority)))) = self.task.take() else { return };
        if let Some((old, old_priority)) = &self.now {
            // Whatever was cut over already is put back before the new rules go.
            rules(tuple, old, *old_priority, around).into_iter().for_each(|change| fabric.set(change));
        }
        for (node, _) in hops(&path, around.network) {
            fabric.set((node, pin_key(tuple, priority), None));
        }
        self.missed = self.wanted.take();
        self.wanted = self.now.as_ref().map(|(path, _)| path.clone());
    }

    fn begin(
        &self,
        tuple: &FiveTuple,
        target: Option<&Path>,
        around: &Surroundings<'_>,
    ) -> (Task, Option<(Path, u16)>) {
        match (&self.now, target) {
            (Some((old, priority)), Some(new)) => {
                let (steps, priority) = migration(tuple, old, *priority, new, around);
                (Task::new(steps), Some((new.clone(), priority)))
            }
            (None, Some(new)) => {
                let priority = *pin_priorities(tuple).end();
                let changes = rules(tuple, new, priority, around);
                (Task::new(self.staged(new, changes, Direction::ToPath, around)), Some((new.clone(), priority)))
            }
            (Some((old, priority)), None) => {
                let gone = |(node, _)| (node, pin_key(tuple, *priority), None);
                let changes = hops(old, around.network).into_iter().map(gone).collect();
                (Task::new(self.staged(old, changes, Direction::ToBase, around)), None)
            }
            (None, None) => (Task::default(), None),
        }
    }

    /// Changes between the base and a path, in stages.
    fn staged(&self, path: &Path, changes: Vec<Change>, direction: Direction, around: &Surroundings<'_>) -> Vec<Step> {
        let Some(sink) = path.last().and_then(|link| around.network.far_end(*link)) else { return Vec::new() };
        let mut base = around.base.graph(around.network, sink);
        if let Some(ends) = self.ends {
            for link in around.pairs.links(ends) {
                if let (Some(from), Some(to)) = (around.network.near_end(link), around.network.far_end(link)) {
                    base.entry(from).or_default().insert(to);
                }
            }
        }
        let mut pinned = base.clone();
        for (node, link) in hops(path, around.network) {
            pinned.insert(node, around.network.far_end(link).into_iter().collect());
        }
        let changed: BTreeSet<NodeIx> = changes.iter().map(|(node, _, _)| *node).collect();
        let (old, new): (&Graph, &Graph) = match direction {
            Direction::ToPath => (&base, &pinned),
            Direction::ToBase => (&pinned, &base),
        };
        let mut changes: BTreeMap<NodeIx, Change> = changes.into_iter().map(|change| (change.0, change)).collect();
        let longest = [old, new].map(|graph| stage::depths(graph).into_iter().flatten().map(|(_, depth)| depth).max());
        let drain = around.network.drain_time_of(longest.into_iter().flatten().max().unwrap_or(0));
        let take = |(position, group): (usize, BTreeSet<NodeIx>)| Step {
            pause: if position == 0 { Time::ZERO } else { drain },
            changes: group.iter().filter_map(|node| changes.remove(node)).collect(),
        };
        stage::order(&changed, old, new, sink).into_iter().enumerate().map(take).collect()
    }
}

#[derive(Clone, Copy)]
enum Direction {
    ToPath,
    ToBase,
}

/// The switches of a path that have rules, with the links they send to.
fn hops(path: &[LinkIx], network: &Network) -> Vec<(NodeIx, LinkIx)> {
    path.iter().filter_map(|link| Some((network.near_end(*link)?, *link))).collect()
}

fn rules(tuple: &FiveTuple, path: &[LinkIx], priority: u16, around: &Surroundings<'_>) -> Vec<Change> {
    let rule = |(node, link): (NodeIx, LinkIx)| {
        let (key, wanted) = around.compiler.pin(tuple, priority, around.network.port_of(link)?);
        Some((node, key, Some(wanted)))
    };
    hops(path, around.network).into_iter().filter_map(rule).collect()
}

/// The switches on both paths that send different ways, the last along the new path first.
pub(crate) fn cutover(old: &[(NodeIx, LinkIx)], new: &[(NodeIx, LinkIx)]) -> Vec<NodeIx> {
    let old: BTreeMap<NodeIx, LinkIx> = old.iter().copied().collect();
    let differs = |(node, link): &&(NodeIx, LinkIx)| old.get(node).is_some_and(|other| other != link);
    new.iter().rev().filter(differs).map(|(node, _)| *node).collect()
}

/// The steps from one path to another, and the priority of the new rules.
fn migration(
    tuple: &FiveTuple,
    old: &Path,
    old_priority: u16,
    new: &Path,
    around: &Surroundings<'_>,
) -> (Vec<Step>, u16) {
    let (old_hops, new_hops) = (hops(old, around.network), hops(new, around.network));
    let mut steps = Vec::new();
    let mut priority = old_priority;
    let gone = |nodes: Vec<NodeIx>, priority: u16| -> Vec<Change> {
        nodes.into_iter().map(|node| (node, pin_key(tuple, priority), None)).collect()
    };
    let old_nodes = || old_hops.iter().map(|(node, _)| *node).collect::<Vec<_>>();
    if priority == *pin_priorities(tuple).start() {
        // No room below: the old path gets the highest priority first. Both sets of rules do the same.
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
