//! Max-min fair rates that are updated where something changed.
//!
//! The rates of a set of flows are max-min fair if every flow has a *bottleneck*: a full link on
//! which no flow has a higher rate, or its own limit (Bertsekas, Gallager: Data Networks, 6.5.2). A
//! flow that is divided over many links has a weight on each, and the same condition holds for its
//! total rate.
//!
//! An update begins with the flows and links that changed. It solves these flows by progressive
//! filling of the capacity that all others leave, and then examines the links of the solved flows. A
//! flow there that has lost its bottleneck, or that has more than a flow which is held back, joins
//! the set, and the set is solved again. When no flow joins, every flow of the network has a
//! bottleneck, so the rates are those of a computation from scratch.
//!
//! A flow joins when it has lost its bottleneck by more than the tolerance of the network. Without
//! one, each change would pass through the whole network in ever smaller steps. The rates of a link
//! never exceed its capacity: the tolerance concerns fairness only.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::members::{Member, Memberships};

/// Relative error of rates and capacities that is due to rounding.
const ROUNDING: f64 = 1e-9;

/// Bottleneck of a flow that its own limit holds back, and of one without a rate yet.
const OWN_LIMIT: u32 = u32::MAX;
const NO_BOTTLENECK: u32 = u32::MAX - 1;

/// Rate of a flow: half a line of the cache, because the members of a link are scattered.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Share {
    rate: f64,
    /// The rate in the update in which the flow was last solved.
    next: f64,
    bottleneck: u32,
    next_bottleneck: u32,
    solved: u32,
    is_fixed: bool,
}

const IDLE: Share = Share {
    rate: 0.0,
    next: 0.0,
    bottleneck: NO_BOTTLENECK,
    next_bottleneck: NO_BOTTLENECK,
    solved: 0,
    is_fixed: false,
};

/// A link that an update examines.
#[derive(Clone, Copy, Debug)]
struct Examined {
    link: u32,
    /// Capacity that flows outside the set leave, and the weight of those in it.
    offered: f64,
    weight: f64,
    /// The same without the flows whose rate is fixed.
    left: f64,
    open_weight: f64,
    /// Rates of the flows outside the set. A flow that joins later does not narrow the range.
    outside: Outside,
    /// The highest rate in the set, and that of the flows that this link holds back.
    highest_inside: f64,
    level: f64,
}

/// Rates that decide whether flows outside the set must join it.
#[derive(Clone, Copy, Debug)]
struct Outside {
    highest: f64,
    /// The lowest of those that the link holds back.
    lowest_held: f64,
}

impl Outside {
    const EMPTY: Outside = Outside { highest: 0.0, lowest_held: f64::INFINITY };

    fn add(&mut self, member: &Member) {
        self.highest = self.highest.max(member.rate);
        if member.is_held {
            self.lowest_held = self.lowest_held.min(member.rate);
        }
    }
}

impl Examined {
    fn new(link: u32) -> Examined {
        Examined {
            link,
            offered: 0.0,
            weight: 0.0,
            left: 0.0,
            open_weight: 0.0,
            outside: Outside::EMPTY,
            highest_inside: 0.0,
            level: f64::INFINITY,
        }
    }

    /// Returns the rate of each flow of the set if they share what is left.
    fn share(&self) -> f64 {
        // Rounding may leave slightly less than 0.
        self.left.max(0.0) / self.open_weight
    }
}

/// Rates of flows over links with capacities, in any unit of rate.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    pub(super) memberships: Memberships,
    flows: Vec<Share>,
    limits: Vec<f64>,
    update: u32,
    /// Flows and links that changed since the last update.
    changed_flows: Vec<u32>,
    changed_links: Vec<u32>,
    /// Relative error of rates that counts as fair.
    tolerance: f64,
    set: Vec<u32>,
    examined: Vec<Examined>,
    /// Numbers of examined links and of flows of the set that were measured in this update.
    measured: (usize, usize),
    by_limit: Vec<u32>,
    /// `(share as ordered bits, place)`, smallest first.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    joining: Vec<u32>,
}

impl Shares {
    /// Makes links of these capacities without flows, whose rates will be fair within a tolerance.
    pub(super) fn new(capacities: impl Iterator<Item = f64>, tolerance: f64) -> Shares {
        Shares {
            memberships: Memberships::new(capacities),
            flows: Vec::new(),
            limits: Vec::new(),
            update: 0,
            changed_flows: Vec::new(),
            changed_links: Vec::new(),
            tolerance: tolerance.max(ROUNDING),
            set: Vec::new(),
            examined: Vec::new(),
            measured: (0, 0),
            by_limit: Vec::new(),
            heap: BinaryHeap::new(),
            joining: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn rate(&self, flow: u32) -> f64 {
        self.flows.get(flow as usize).map_or(0.0, |share| share.rate)
    }

    pub(super) fn capacity(&self, link: u32) -> f64 {
        self.memberships.links[link as usize].capacity
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) {
        if std::mem::replace(&mut self.memberships.links[link as usize].capacity, capacity) != capacity {
            self.changed_links.push(link);
        }
    }

    /// Adds a flow over links, each with the share of the flow that crosses it.
    pub(super) fn insert(&mut self, flow: u32, links: &[(u32, f64)], limit: f64) {
        self.memberships.insert(flow, links);
        if self.flows.len() <= flow as usize {
            self.flows.resize(flow as usize + 1, IDLE);
            self.limits.resize(flow as usize + 1, f64::INFINITY);
        }
        self.flows[flow as usize] = Share { solved: self.flows[flow as usize].solved, ..IDLE };
        self.limits[flow as usize] = limit;
        self.changed_flows.push(flow);
    }

    pub(super) fn remove(&mut self, flow: u32) {
        let Some(share) = self.flows.get_mut(flow as usize) else { return };
        let rate = std::mem::take(&mut share.rate);
        share.bottleneck = NO_BOTTLENECK;
        if rate > 0.0 {
            self.changed_links.extend(self.memberships.hops(flow).iter().map(|hop| hop.link));
        }
        self.memberships.remove(flow);
    }

    /// Limits the rate of a flow.
    pub(super) fn set_limit(&mut self, flow: u32, limit: f64) {
        if std::mem::replace(&mut self.limits[flow as usize], limit) != limit {
            self.changed_flows.push(flow);
        }
    }

    /// Returns the link that holds a flow back; no link for its own limit.
    pub(super) fn bottleneck(&self, flow: u32) -> u32 {
        self.flows[flow as usize].bottleneck
    }

    /// Returns whether the flows of a link and `more` on top use all of its capacity.
    pub(super) fn is_full(&self, link: u32, more: f64) -> bool {
        let used = self.used(link);
        used > 0.0 && used + more >= self.memberships.links[link as usize].capacity * (1.0 - self.tolerance)
    }

    /// Returns the capacity of a link that no flow uses.
    pub(super) fn spare(&self, link: u32) -> f64 {
        (self.memberships.links[link as usize].capacity - self.used(link)).max(0.0)
    }

    fn used(&self, link: u32) -> f64 {
        self.memberships.members(link).iter().map(|member| member.weight * member.rate).sum()
    }

    /// Updates the rates, and calls `changed` with each flow whose rate is different now.
    pub(super) fn solve(&mut self, mut changed: impl FnMut(u32, f64)) {
        if self.changed_flows.is_empty() && self.changed_links.is_empty() {
            return;
        }
        self.update += 1;
        self.set.clear();
        self.examined.clear();
        self.measured = (0, 0);
        for flow in std::mem::take(&mut self.changed_flows) {
            self.join(flow);
        }
        for link in std::mem::take(&mut self.changed_links) {
            self.examine(link);
        }
        loop {
            self.fill();
            if !self.grow() {
                break;
            }
        }
        for flow in &self.set {
            let share = &mut self.flows[*flow as usize];
            let is_same = share.next == share.rate;
            if is_same && share.next_bottleneck == share.bottleneck {
                continue;
            }
            (share.rate, share.bottleneck) = (share.next, share.next_bottleneck);
            self.memberships.set_rate(*flow, share.rate, share.bottleneck);
            if !is_same {
                changed(*flow, share.rate);
            }
        }
    }

    /// Adds a link to those that this update examines.
    fn examine(&mut self, link: u32) {
        let state = &mut self.memberships.links[link as usize];
        if state.update != self.update {
            (state.update, state.place) = (self.update, self.examined.len() as u32);
            self.examined.push(Examined::new(link));
        }
    }

    /// Adds a flow to the set.
    fn join(&mut self, flow: u32) {
        let share = &mut self.flows[flow as usize];
        if share.solved == self.update || self.memberships.hops(flow).is_empty() {
            return;
        }
        share.solved = self.update;
        self.set.push(flow);
        for hop in 0..self.memberships.hops(flow).len() {
            let hop = self.memberships.hops(flow)[hop];
            if hop.weight > 0.0 {
                self.examine(hop.link);
            }
        }
    }

    /// Moves the flows that joined since the last time into the set, and measures the links examined
    /// since then.
    fn measure(&mut self) {
        let Shares { memberships, flows, set, examined, measured, update, .. } = self;
        examined[measured.0..].iter().for_each(|link| memberships.prefetch_members(link.link));
        for flow in &set[measured.1..] {
            memberships.set_solved(*flow, *update);
            let rate = flows[*flow as usize].rate;
            for hop in memberships.hops(*flow).iter().filter(|hop| hop.weight > 0.0) {
                let link = &mut examined[memberships.links[hop.link as usize].place as usize];
                link.offered += hop.weight * rate;
                link.weight += hop.weight;
            }
        }
        for found in &mut examined[measured.0..] {
            (found.offered, found.weight) = (memberships.links[found.link as usize].capacity, 0.0);
            for member in memberships.members(found.link).iter().filter(|member| member.weight > 0.0) {
                if member.solved == *update {
                    found.weight += member.weight;
                    continue;
                }
                found.offered -= member.weight * member.rate;
                found.outside.add(member);
            }
        }
        *measured = (examined.len(), set.len());
    }

    /// Shares what the other flows leave among the flows of the set, by progressive filling.
    fn fill(&mut self) {
        self.measure();
        let Shares { memberships, flows, limits, set, examined, by_limit, heap, update, .. } = self;
        let mut entries = std::mem::take(heap).into_vec();
        entries.clear();
        for (place, link) in (0u32..).zip(examined.iter_mut()) {
            (link.left, link.open_weight) = (link.offered, link.weight);
            (link.highest_inside, link.level) = (0.0, f64::INFINITY);
            if link.open_weight > 0.0 {
                entries.push(Reverse((link.share().to_bits(), place)));
            }
        }
        *heap = BinaryHeap::from(entries);
        by_limit.clear();
        for flow in set.iter() {
            let share = &mut flows[*flow as usize];
            share.is_fixed = false;
            if limits[*flow as usize].is_finite() {
                by_limit.push(*flow);
            }
        }
        by_limit.sort_unstable_by(|a, b| {
            let limit = |flow: &u32| limits[*flow as usize];
            limit(b).total_cmp(&limit(a)).then(b.cmp(a))
        });
        let mut open = set.len();
        let mut fix = |flow: u32, rate: f64, bottleneck: u32, examined: &mut [Examined], flows: &mut [Share]| {
            let share = &mut flows[flow as usize];
            (share.next, share.next_bottleneck, share.is_fixed) = (rate, bottleneck, true);
            for hop in memberships.hops(flow).iter().filter(|hop| hop.weight > 0.0) {
                let link = &mut examined[memberships.links[hop.link as usize].place as usize];
                link.left -= hop.weight * rate;
                link.open_weight -= hop.weight;
                link.highest_inside = link.highest_inside.max(rate);
            }
            open -= 1;
            open
        };
        // Shares only grow while flows are fixed below: a stale entry is too small, and renewed.
        while let Some(Reverse((bits, place))) = heap.pop() {
            let state = examined[place as usize];
            // What rounding leaves of the weights of fixed flows is no open weight.
            if state.open_weight < ROUNDING {
                continue;
            }
            let reached = state.share();
            if reached > f64::from_bits(bits) {
                heap.push(Reverse((reached.to_bits(), place)));
                continue;
            }
            let mut still_open = usize::MAX;
            if let Some(flow) = by_limit.last().copied()
                && limits[flow as usize] <= reached
            {
                by_limit.pop();
                if !flows[flow as usize].is_fixed {
                    still_open = fix(flow, limits[flow as usize], OWN_LIMIT, examined, flows);
                }
                heap.push(Reverse((bits, place)));
            } else {
                examined[place as usize].level = reached;
                for member in memberships.members(state.link) {
                    if member.solved == *update && member.weight > 0.0 && !flows[member.flow as usize].is_fixed {
                        still_open = fix(member.flow, reached, state.link, examined, flows);
                    }
                }
            }
            if still_open == 0 {
                break;
            }
        }
    }

    /// Adds the flows whose rates are not fair any more. Returns whether there are any.
    fn grow(&mut self) -> bool {
        let before = self.set.len();
        let (more, less) = (1.0 + self.tolerance, 1.0 - self.tolerance);
        let mut joining = std::mem::take(&mut self.joining);
        for place in 0..self.examined.len() {
            let Examined { link, left, highest_inside, level, .. } = self.examined[place];
            let capacity = self.memberships.links[link as usize].capacity;
            let is_over = left < -ROUNDING * capacity;
            let is_full = left <= self.tolerance * capacity;
            let is_unfair = |outside: Outside| {
                let highest = highest_inside.max(outside.highest);
                let has_lost = !is_full || outside.lowest_held < highest * less;
                outside.highest > level * more || (outside.lowest_held.is_finite() && has_lost)
            };
            if !is_over && !is_unfair(self.examined[place].outside) {
                continue;
            }
            // Some flows outside may have joined since the link was measured.
            let members = self.memberships.members(link).iter().filter(|member| member.weight > 0.0);
            let members = members.filter(|member| member.solved != self.update);
            let mut outside = Outside::EMPTY;
            members.clone().for_each(|member| outside.add(member));
            if is_over || is_unfair(outside) {
                let highest = outside.highest.max(highest_inside);
                let is_joining = |member: &&Member| {
                    let has_lost = member.is_held && (!is_full || member.rate < highest * less);
                    is_over || has_lost || member.rate > level * more
                };
                joining.extend(members.filter(is_joining).map(|member| member.flow));
            }
            self.examined[place].outside = outside;
        }
        self.memberships.prefetch(&joining);
        for flow in joining.drain(..) {
            self.join(flow);
        }
        self.joining = joining;
        self.set.len() > before
    }
}

#[cfg(test)]
mod tests;
