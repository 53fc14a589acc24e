//! Changes of default routes: from the difference between next hops in effect and the target to
//! staged updates.
//!
//! Only destinations with a difference are considered. Next hops in effect that are known to have no
//! cycle stay so if none is added, and otherwise a cycle leads through an added one: most changes
//! need no walk over the whole network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use balance::central::{HopColumn, HopTable, NextHop};
use net::{NodeIx, Time};

use crate::observer::network::Network;
use crate::planner::default_routes::{DefaultRoutes, Replaced};
use crate::planner::hop_graph::{Desired, Effective, Partly};
use crate::planner::staged_update::StagedUpdate;
use crate::planner::update_order::{self, Depths, NextHops, Union};
use crate::updater::Updater;

/// Longest pause between stages of improvements. Queues of slow networks may take longer to drain,
/// but bad default routes for minutes are worse than a retransmitted packet.
const PAUSE_MAX: Time = Time::from_ms(500);

/// Replaced next hops towards one destination that may still be in effect.
#[derive(Default)]
struct InProgress {
    hops: Vec<(NodeIx, Arc<[NextHop]>)>,
    tickets: BTreeSet<(NodeIx, u64)>,
}

/// A change of the next hops towards one destination.
struct Change<'a> {
    to: NodeIx,
    /// Switches whose next hops change, in the order of their numbers.
    switches: Vec<NodeIx>,
    columns: [&'a HopColumn; 2],
    old: Effective<'a>,
    new: Desired<'a>,
    tickets: &'a BTreeSet<(NodeIx, u64)>,
    /// Whether packets on replaced next hops may be in flight.
    is_draining: bool,
}

impl Change<'_> {
    /// Returns whether a switch gets a next hop that it does not have.
    fn is_wider(&self, switch: NodeIx) -> bool {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        self.old.add_next(switch, &mut old);
        self.new.add_next(switch, &mut new);
        new.iter().any(|next| !old.contains(next))
    }
    /// Returns whether the target of a switch is a subset of its next hops.
    fn is_narrower(&self, switch: NodeIx) -> bool {
        let [before, after] = self.columns.map(|column| column.get(switch).map_or(&[][..], |hops| hops));
        after.iter().all(|hop| before.iter().any(|other| other.link == hop.link))
    }
    fn partition(&self, is_first: impl Fn(NodeIx) -> bool) -> (Vec<NodeIx>, Vec<NodeIx>) {
        self.switches.iter().copied().partition(|switch| is_first(*switch))
    }
}

impl DefaultRoutes {
    /// Sets the target next hops. A change in progress stops where it is, and the new one starts
    /// from there.
    pub(super) fn set_target(&mut self, now: Time, target: &Arc<HopTable>, network: &Network, updater: &Updater) {
        self.target = target.clone();
        (self.repairs, self.improvements) = (StagedUpdate::default(), StagedUpdate::default());
        self.has_more = false;
        self.retire_replaced(now, network, updater);
        self.longest_path = 0;
        let in_progress = self.in_progress();
        let draining: BTreeSet<NodeIx> =
            self.draining.iter().flat_map(|(_, replaced)| replaced).map(|((_, to), _)| *to).collect();
        let destinations: BTreeSet<NodeIx> = self.hops.columns().chain(target.columns()).map(|(to, _)| to).collect();
        let none = InProgress::default();
        for to in destinations {
            let [before, after] = [&self.hops, &**target].map(|table| table.column(to).cloned().unwrap_or_default());
            if Arc::ptr_eq(&before, &after) {
                continue;
            }
            let differences = before.differences(&after).map(|(switch, ..)| switch);
            let switches: Vec<NodeIx> = differences.filter(|switch| *switch != to).collect();
            if switches.is_empty() {
                continue;
            }
            let (in_progress, unconfirmed) = (in_progress.get(&to).unwrap_or(&none), self.old.get(&to).cloned());
            let unconfirmed = unconfirmed.as_ref();
            let old = Effective::new(network, Some(&before), &in_progress.hops, unconfirmed);
            let new = Desired { network, to, column: Some(&after), unconfirmed };
            let (columns, tickets, is_draining) = ([&*before, &*after], &in_progress.tickets, draining.contains(&to));
            self.stage(&Change { to, switches, columns, old, new, tickets, is_draining }, network);
        }
    }

    fn in_progress(&self) -> BTreeMap<NodeIx, InProgress> {
        let mut found: BTreeMap<NodeIx, InProgress> = BTreeMap::new();
        for (ticket, replaced) in &self.replaced {
            for ((switch, to), hops) in replaced {
                let of = found.entry(*to).or_default();
                of.hops.push((*switch, hops.clone()));
                of.tickets.insert(*ticket);
            }
        }
        found
    }

    /// Puts a change into the stages of repairs or improvements.
    fn stage(&mut self, change: &Change<'_>, network: &Network) {
        let Change { to, old, new, .. } = change;
        let slots = |switches: Vec<NodeIx>| switches.into_iter().map(|switch| (switch, *to));
        let both = self.union_depths(change);
        if both.is_some() && update_order::are_served(change.switches.iter().copied(), old, new, *to) {
            self.repairs.put(0, slots(change.switches.clone()));
            return;
        }
        let longest_path = update_order::depths(old).map(|depths| depths.longest());
        // Switches that need a repair may change while the others stay; the others follow later.
        let (urgent, others) = change.partition(|switch| !is_working(change.columns[0], switch, *to, network));
        if longest_path.is_some() && !urgent.is_empty() && !others.is_empty() {
            let is_served = update_order::are_served(urgent.iter().copied(), old, new, *to);
            if is_served && update_order::depths(&Union(old, &Partly { switches: &urgent, of: new })).is_some() {
                self.repairs.put(0, slots(urgent));
                self.has_more = true;
                return;
            }
        }
        let is_improvement = longest_path.is_some() && urgent.is_empty() && !self.is_broken(*to, network);
        // A switch that only stops using some next hops makes no new cycle, and may end one.
        let (narrower, wider) = change.partition(|switch| !is_improvement && change.is_narrower(switch));
        let sequence = if is_improvement { &mut self.improvements } else { &mut self.repairs };
        // Changes in progress are not done, and this one must not mix with them.
        let is_waiting = sequence.wait_for(change.tickets.iter().copied());
        let first = usize::from(!is_improvement && (is_waiting || !narrower.is_empty()));
        sequence.put(0, slots(narrower));
        self.longest_path = self.longest_path.max(longest_path.unwrap_or_else(|| old.switch_count() as u32));
        let drain = network.drain_time_of(self.longest_path).min(PAUSE_MAX);
        sequence.drain(drain, is_waiting || change.is_draining);
        let depths = both.filter(|_| old.switch_count() == 0).or_else(|| update_order::depths(new));
        for (stage, group) in update_order::by_depth(wider, depths.as_ref()).into_iter().enumerate() {
            sequence.put(stage + first, slots(group));
        }
    }

    /// Returns the depths of switches over old and new next hops together; `None` if they have a
    /// cycle. If the old ones are known to have none, only switches beyond added ones are visited.
    fn union_depths(&mut self, change: &Change<'_>) -> Option<Depths> {
        let both = Union(&change.old, &change.new);
        let depths = if self.acyclic.contains(&change.to) && !change.old.has_unconfirmed() {
            update_order::depths_from(change.switches.iter().copied().filter(|switch| change.is_wider(*switch)), &both)
        } else {
            update_order::depths(&both)
        };
        if depths.is_some() {
            self.acyclic.insert(change.to)
        } else {
            self.acyclic.remove(&change.to)
        };
        depths
    }

    /// Returns whether a next hop died that an improvement should replace: the improvement is now a
    /// repair.
    pub(super) fn is_improvement_broken(&self, network: &Network) -> bool {
        let destinations: BTreeSet<NodeIx> = self.improvements.slots().map(|(_, to)| to).collect();
        destinations.into_iter().any(|to| self.is_broken(to, network))
    }

    /// Returns whether some next hop in effect towards a destination is dead, or leads to a switch
    /// without next hops.
    fn is_broken(&self, to: NodeIx, network: &Network) -> bool {
        let column = self.hops.column(to);
        column.is_some_and(|column| column.rows().iter().any(|(switch, _)| !is_working(column, *switch, to, network)))
    }

    /// Retires replaced next hops. They are in effect until that is confirmed, and count for as
    /// long again as packets on them may be in flight. Later decisions need not consider them.
    pub(super) fn retire_replaced(&mut self, now: Time, network: &Network, updater: &Updater) {
        self.draining.retain(|(until, _)| now < *until);
        let confirmed = self.replaced.extract_if(.., |(node, ticket), _| updater.is_confirmed(*node, *ticket));
        let confirmed: Replaced = confirmed.flat_map(|(_, replaced)| replaced).collect();
        if !confirmed.is_empty() {
            let drain = network.drain_time_of(self.longest_path).min(PAUSE_MAX);
            self.draining.push((now.saturating_add(drain), confirmed));
        }
    }
}

/// Returns whether a switch has next hops, all alive and to switches that have some.
fn is_working(column: &HopColumn, switch: NodeIx, to: NodeIx, network: &Network) -> bool {
    let leads_on = |hop: &NextHop| {
        let next = network.far_end(hop.link).filter(|_| network.is_alive(hop.link));
        next.is_some_and(|next| next == to || column.get(next).is_some())
    };
    column.get(switch).is_some_and(|hops| hops.iter().all(leads_on))
}
