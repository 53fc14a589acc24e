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

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::members::Memberships;

/// Relative error of rates and capacities that counts as equal.
const TOLERANCE: f64 = 1e-9;

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

#[derive(Clone, Copy, Debug, Default)]
struct LinkState {
    capacity: f64,
    /// The update in which the link was last examined, and its position among the links of that.
    touched: u32,
    place: u32,
    /// Capacity that flows outside the set leave, and the weight of those in it.
    offered: f64,
    weight: f64,
    /// The same without the flows whose rate is fixed.
    left: f64,
    open_weight: f64,
}

impl LinkState {
    /// Adds the link to those that an update examines. Returns whether it was not among them.
    fn touch(&mut self, link: u32, update: u32, touched: &mut Vec<u32>) -> bool {
        let is_new = self.touched != update;
        if is_new {
            (self.touched, self.place) = (update, touched.len() as u32);
            touched.push(link);
        }
        is_new
    }
}

/// Rates of flows over links with capacities, in any unit of rate.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    pub(super) memberships: Memberships,
    flows: Vec<Share>,
    limits: Vec<f64>,
    links: Vec<LinkState>,
    update: u32,
    /// Flows and links that changed since the last update.
    changed_flows: Vec<u32>,
    changed_links: Vec<u32>,
    set: Vec<u32>,
    touched: Vec<u32>,
    /// Number of touched links that were measured in this update.
    measured: usize,
    by_limit: Vec<u32>,
    /// `(share as ordered bits, link)`, smallest first.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Shares {
    pub(super) fn new(capacities: impl Iterator<Item = f64>) -> Shares {
        let links: Vec<LinkState> = capacities.map(|capacity| LinkState { capacity, ..LinkState::default() }).collect();
        Shares {
            memberships: Memberships::new(links.len()),
            flows: Vec::new(),
            limits: Vec::new(),
            links,
            update: 0,
            changed_flows: Vec::new(),
            changed_links: Vec::new(),
            set: Vec::new(),
            touched: Vec::new(),
            measured: 0,
            by_limit: Vec::new(),
            heap: BinaryHeap::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn rate(&self, flow: u32) -> f64 {
        self.flows.get(flow as usize).map_or(0.0, |share| share.rate)
    }

    pub(super) fn capacity(&self, link: u32) -> f64 {
        self.links[link as usize].capacity
    }

    pub(super) fn set_capacity(&mut self, link: u32, capacity: f64) {
        if std::mem::replace(&mut self.links[link as usize].capacity, capacity) != capacity {
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
        let (used, highest) = self.use_of(link, |share| share.rate);
        highest > 0.0 && used + more >= self.links[link as usize].capacity * (1.0 - TOLERANCE)
    }

    /// Returns the capacity of a link that no flow uses.
    pub(super) fn spare(&self, link: u32) -> f64 {
        (self.links[link as usize].capacity - self.use_of(link, |share| share.rate).0).max(0.0)
    }

    /// Updates the rates, and calls `changed` with each flow whose rate is different now.
    pub(super) fn solve(&mut self, mut changed: impl FnMut(u32, f64)) {
        if self.changed_flows.is_empty() && self.changed_links.is_empty() {
            return;
        }
        self.update += 1;
        self.set.clear();
        self.touched.clear();
        self.measured = 0;
        for flow in std::mem::take(&mut self.changed_flows) {
            self.join(flow);
        }
        for link in std::mem::take(&mut self.changed_links) {
            self.links[link as usize].touch(link, self.update, &mut self.touched);
        }
        loop {
            self.fill();
            if !self.grow() {
                break;
            }
        }
        for flow in &self.set {
            let share = &mut self.flows[*flow as usize];
            share.bottleneck = share.next_bottleneck;
            if share.next != share.rate {
                share.rate = share.next;
                changed(*flow, share.rate);
            }
        }
    }

    fn join(&mut self, flow: u32) {
        let share = &mut self.flows[flow as usize];
        if share.solved == self.update || self.memberships.hops(flow).is_empty() {
            return;
        }
        share.solved = self.update;
        self.set.push(flow);
        let Shares { memberships, flows, links, touched, measured, update, .. } = self;
        for hop in memberships.hops(flow).iter().filter(|hop| hop.weight > 0.0) {
            let state = &mut links[hop.link as usize];
            if !state.touch(hop.link, *update, touched) && (state.place as usize) < *measured {
                state.offered += hop.weight * flows[flow as usize].rate;
                state.weight += hop.weight;
            }
        }
    }

    /// Computes what the flows outside the set leave of the links touched since the last time, and the
    /// weight of the others. [`Shares::join`] keeps it up to date.
    fn measure(&mut self) {
        let Shares { memberships, flows, links, touched, measured, update, .. } = self;
        for link in &touched[*measured..] {
            let (mut offered, mut inside) = (links[*link as usize].capacity, 0.0);
            for member in memberships.members(*link) {
                let (weight, share) = (member.weight, &flows[member.flow as usize]);
                if share.solved == *update {
                    inside += weight;
                } else {
                    offered -= weight * share.rate;
                }
            }
            let state = &mut links[*link as usize];
            (state.offered, state.weight) = (offered, inside);
        }
        *measured = touched.len();
        for link in touched.iter() {
            let state = &mut links[*link as usize];
            (state.left, state.open_weight) = (state.offered, state.weight);
        }
    }

    /// Shares what the other flows leave among the flows of the set, by progressive filling.
    fn fill(&mut self) {
        self.measure();
        let Shares { memberships, flows, limits, links, set, touched, by_limit, heap, update, .. } = self;
        heap.clear();
        for link in touched.iter() {
            let state = &links[*link as usize];
            if state.open_weight > 0.0 {
                heap.push(Reverse((level(state).to_bits(), *link)));
            }
        }
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
        let fix = |flow: u32, rate: f64, bottleneck: u32, links: &mut [LinkState], flows: &mut [Share]| {
            let share = &mut flows[flow as usize];
            (share.next, share.next_bottleneck, share.is_fixed) = (rate, bottleneck, true);
            for hop in memberships.hops(flow) {
                let state = &mut links[hop.link as usize];
                state.left -= hop.weight * rate;
                state.open_weight -= hop.weight;
            }
        };
        // Levels only grow while flows are fixed below: a stale entry is too small, and renewed.
        while let Some(Reverse((bits, link))) = heap.pop() {
            let state = links[link as usize];
            // What rounding leaves of the weights of fixed flows is no open weight.
            if state.open_weight < TOLERANCE {
                continue;
            }
            let reached = level(&state);
            if reached > f64::from_bits(bits) {
                heap.push(Reverse((reached.to_bits(), link)));
                continue;
            }
            if let Some(flow) = by_limit.last().copied()
                && limits[flow as usize] <= reached
            {
                by_limit.pop();
                if !flows[flow as usize].is_fixed {
                    fix(flow, limits[flow as usize], OWN_LIMIT, links, flows);
                }
                heap.push(Reverse((bits, link)));
                continue;
            }
            for member in memberships.members(link) {
                let share = &flows[member.flow as usize];
                if share.solved == *update && !share.is_fixed && member.weight > 0.0 {
                    fix(member.flow, reached, link, links, flows);
                }
            }
        }
    }

    /// Returns the load of a link and the highest rate of its members.
    fn use_of(&self, link: u32, rate: impl Fn(&Share) -> f64) -> (f64, f64) {
        let (mut used, mut highest) = (0.0, 0.0f64);
        for member in self.memberships.members(link) {
            let (weight, rate) = (member.weight, rate(&self.flows[member.flow as usize]));
            if weight > 0.0 {
                used += weight * rate;
                highest = highest.max(rate);
            }
        }
        (used, highest)
    }

    /// Adds the flows whose rates are not fair any more. Returns whether there are any.
    fn grow(&mut self) -> bool {
        let before = self.set.len();
        let mut joining = Vec::new();
        for link in &self.touched {
            let update = self.update;
            let next = |share: &Share| if share.solved == update { share.next } else { share.rate };
            let (used, highest) = self.use_of(*link, next);
            let capacity = self.links[*link as usize].capacity;
            let is_over = used > capacity * (1.0 + TOLERANCE);
            let is_full = used >= capacity * (1.0 - TOLERANCE);
            let members = || self.memberships.members(*link).iter();
            let held_back = members().map(|member| &self.flows[member.flow as usize]);
            let held_back = held_back.filter(|share| share.solved == update && share.next_bottleneck == *link);
            let lowest = held_back.map(|share| share.next).fold(f64::INFINITY, f64::min);
            for member in members() {
                let share = &self.flows[member.flow as usize];
                if share.solved == update || member.weight == 0.0 {
                    continue;
                }
                let has_more = share.rate > lowest * (1.0 + TOLERANCE);
                let has_lost = share.bottleneck == *link && (!is_full || share.rate < highest * (1.0 - TOLERANCE));
                if is_over || has_more || has_lost {
                    joining.push(member.flow);
                }
            }
        }
        for flow in joining {
            self.join(flow);
        }
        self.set.len() > before
    }
}

fn level(state: &LinkState) -> f64 {
    // Rounding may leave slightly less than 0.
    state.left.max(0.0) / state.open_weight
}

#[cfg(test)]
mod tests;
