//! The largest common share of given demands that a network can carry at one time over any paths:
//! the maximum concurrent multicommodity flow (mechanisms.md P29 `mcf`), with a certificate.
//!
//! Method: Garg, Könemann: Faster and Simpler Algorithms for Multicommodity Flow, FOCS 1998. Links
//! have lengths that grow exponentially with what is sent over them. Every phase sends all demands
//! once over the current shortest paths. What was sent, scaled down until it fits, is a flow. The
//! lengths are a dual solution, which no flow can exceed. The search ends when the two are within
//! `1 + eps`. It begins with the even split over equal-cost paths and the cuts of the network,
//! which already meet in symmetric networks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::{HostIx, LinkIx, NodeIx, Routes, Topology};

use super::cuts::{Capacity, Cuts};

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Demand {
    pub src: HostIx,
    pub dst: HostIx,
    /// Offered rate, bits per second.
    pub bps: f64,
}

/// Result: the optimum lies between its two shares.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Concurrent {
    /// Share of every demand that can be carried at one time: a flow that achieves it was found.
    pub share: f64,
    /// Share of every demand that no flow exceeds.
    pub at_most: f64,
    /// Rounds of sending every demand once; 0 if the even split was good enough.
    pub phases: u64,
}

/// Returns the largest share of all `demands` that fits the links of an intact topology within `1 +
/// eps` (0.001 to 1); infinite without any demand that has a rate and two hosts.
pub fn max_concurrent(topology: &Topology, demands: &[Demand], eps: f64) -> Concurrent {
    let eps = if eps.is_nan() { 0.05 } else { eps.clamp(0.001, 1.0) };
    let demands: Vec<Demand> = demands.iter().copied().filter(|d| d.src != d.dst && d.bps > 0.0).collect();
    if demands.is_empty() {
        return Concurrent { share: f64::INFINITY, at_most: f64::INFINITY, phases: 0 };
    }
    let (share, at_most) = (even_split(topology, &demands), cut_bound(topology, &demands));
    let mut best = Concurrent { share, at_most, phases: 0 };
    if best.is_within(eps) {
        return best;
    }
    let scale = scale(topology, &demands, &mut best);
    // Coarse steps are often certificate enough; finer ones take phases as the inverse square.
    let mut step = 0.5;
    while !best.is_within(eps) {
        Search::new(topology, &demands, scale, step).improve(eps, &mut best);
        step /= 2.0;
    }
    best
}

impl Concurrent {
    fn is_within(&self, eps: f64) -> bool {
        self.at_most <= self.share * (1.0 + eps)
    }
}

/// Returns a share of the demands that a phase sends in about one step, from a few coarse phases.
///
/// While all lengths are `1 / capacity`, the dual bound is at most the optimum times the number of
/// links (everything over the shortest paths). So rates of very different magnitudes end this soon.
fn scale(topology: &Topology, demands: &[Demand], best: &mut Concurrent) -> f64 {
    let mut flat = Search::new(topology, demands, 1.0, 0.5);
    let spent: f64 = demands.iter().map(|d| d.bps * flat.shortest(topology.host(d.src), topology.host(d.dst))).sum();
    best.at_most = best.at_most.min(flat.volume() / spent);
    let mut scale = best.at_most;
    loop {
        let mut search = Search::new(topology, demands, scale, 0.5);
        search.phase();
        best.phases += 1;
        let share = scale * fitting_share(topology, &search.sent);
        best.share = best.share.max(share);
        if 4.0 * share >= scale {
            return scale;
        }
        scale = 2.0 * share;
    }
}

/// Returns the minimum, over all cuts, of capacity over the demands across the cut.
fn cut_bound(topology: &Topology, demands: &[Demand]) -> f64 {
    let cuts = Cuts::new(topology, Capacity::Cut);
    let rates: Vec<u64> = topology.links().iter().map(|link| link.rate.as_bps()).collect();
    let capacities = cuts.capacities(&rates);
    let mut across = vec![0.0; capacities.len()];
    for demand in demands {
        cuts.limits(demand.src, demand.dst).for_each(|limit| across[limit as usize] += demand.bps);
    }
    let shares = capacities.iter().zip(&across).filter(|(_, across)| **across > 0.0);
    shares.map(|(capacity, across)| capacity / across).fold(f64::INFINITY, f64::min)
}

/// Returns the share that fits when every switch splits evenly over its equal-cost next hops.
fn even_split(topology: &Topology, demands: &[Demand]) -> f64 {
    let routes = Routes::intact(topology);
    let mut load = vec![0.0; topology.links().len()];
    let mut at_node = vec![0.0; topology.nodes().len()];
    for demand in demands {
        let (from, to) = (routes.class_node(routes.class_of(demand.src)), routes.class_of(demand.dst));
        let ends = [routes.last_link(demand.src).map(LinkIx::reverse), routes.last_link(demand.dst)];
        ends.into_iter().flatten().for_each(|link| load[link.ix()] += demand.bps);
        at_node[from.ix()] = demand.bps;
        let mut level = vec![from];
        while level.iter().any(|node| *node != routes.class_node(to)) {
            let mut next = Vec::new();
            for node in level {
                let bps = std::mem::take(&mut at_node[node.ix()]);
                let hops = routes.next_hops(node, to);
                for hop in hops {
                    let far = topology.link(*hop).to;
                    load[hop.ix()] += bps / hops.len() as f64;
                    at_node[far.ix()] += bps / hops.len() as f64;
                    next.push(far);
                }
            }
            next.sort_unstable();
            next.dedup();
            level = next;
        }
        level.iter().for_each(|node| at_node[node.ix()] = 0.0);
    }
    fitting_share(topology, &load)
}

fn fitting_share(topology: &Topology, load: &[f64]) -> f64 {
    let links = topology.links().iter().zip(load).filter(|(_, load)| **load > 0.0);
    links.map(|(link, load)| link.rate.as_bps_f64() / load).fold(f64::INFINITY, f64::min)
}

struct Search<'a> {
    topology: &'a Topology,
    demands: &'a [Demand],
    /// Share of every demand that a phase sends.
    scale: f64,
    step: f64,
    capacity: Vec<f64>,
    length: Vec<f64>,
    sent: Vec<f64>,
    distance: Vec<f64>,
    reached_by: Vec<LinkIx>,
    heap: BinaryHeap<Reverse<(u64, NodeIx)>>,
    path: Vec<LinkIx>,
}

impl<'a> Search<'a> {
    fn new(topology: &'a Topology, demands: &'a [Demand], scale: f64, step: f64) -> Search<'a> {
        let capacity: Vec<f64> = topology.links().iter().map(|link| link.rate.as_bps_f64()).collect();
        let largest = capacity.iter().copied().fold(1.0, f64::max);
        Search {
            topology,
            demands,
            scale,
            step,
            length: capacity.iter().map(|capacity| largest / capacity).collect(),
            sent: vec![0.0; capacity.len()],
            capacity,
            distance: vec![f64::INFINITY; topology.nodes().len()],
            reached_by: vec![LinkIx(0); topology.nodes().len()],
            heap: BinaryHeap::new(),
            path: Vec::new(),
        }
    }

    /// Runs phases until the certificate is good enough, or unlikely to improve with this step.
    fn improve(&mut self, eps: f64, best: &mut Concurrent) {
        let max_phases = (2.0 * (self.capacity.len() as f64).ln().max(1.0) / (self.step * self.step)).ceil() as u64;
        for phase in 1..=max_phases {
            let spent = self.phase();
            best.phases += 1;
            best.share = best.share.max(self.scale * phase as f64 * fitting_share(self.topology, &self.sent));
            best.at_most = best.at_most.min(self.scale * self.volume() / spent);
            if best.is_within(eps) {
                return;
            }
            self.rescale();
        }
    }

    fn volume(&self) -> f64 {
        self.length.iter().zip(&self.capacity).map(|(length, capacity)| length * capacity).sum()
    }

    /// Sends every demand once. Returns the sum of demands times their distances when first sent.
    /// Lengths only grow, so the sum is at most that at the end, and the bound drawn from it holds.
    fn phase(&mut self) -> f64 {
        let mut spent = 0.0;
        for demand in self.demands {
            let (from, to) = (self.topology.host(demand.src), self.topology.host(demand.dst));
            let mut left = demand.bps * self.scale;
            let mut is_first = true;
            while left > 0.0 {
                let distance = self.shortest(from, to);
                if std::mem::take(&mut is_first) {
                    spent += demand.bps * self.scale * distance;
                }
                let narrowest = self.path.iter().map(|link| self.capacity[link.ix()]).fold(left, f64::min);
                for link in &self.path {
                    self.sent[link.ix()] += narrowest;
                    self.length[link.ix()] *= 1.0 + self.step * narrowest / self.capacity[link.ix()];
                }
                left -= narrowest;
            }
        }
        spent
    }

    fn shortest(&mut self, from: NodeIx, to: NodeIx) -> f64 {
        self.distance.fill(f64::INFINITY);
        self.heap.clear();
        self.distance[from.ix()] = 0.0;
        // The bits of non-negative floats are in their order.
        self.heap.push(Reverse((0, from)));
        while let Some(Reverse((bits, node))) = self.heap.pop() {
            if node == to {
                break;
            }
            let is_stale = f64::from_bits(bits) > self.distance[node.ix()];
            if is_stale || (node != from && !self.topology.node(node).forwards) {
                continue;
            }
            for link in self.topology.out_links(node) {
                let far = self.topology.link(*link).to;
                let through = self.distance[node.ix()] + self.length[link.ix()];
                if through < self.distance[far.ix()] {
                    self.distance[far.ix()] = through;
                    self.reached_by[far.ix()] = *link;
                    self.heap.push(Reverse((through.to_bits(), far)));
                }
            }
        }
        self.path.clear();
        let mut at = to;
        while at != from {
            let link = self.reached_by[at.ix()];
            self.path.push(link);
            at = self.topology.link(link).from;
        }
        self.distance[to.ix()]
    }

    /// Rescales lengths to keep them finite; only their ratios matter.
    fn rescale(&mut self) {
        let longest = self.length.iter().copied().fold(0.0, f64::max);
        if longest > 1e100 {
            self.length.iter_mut().for_each(|length| *length /= longest);
        }
    }
}
