//! Splits of traffic by destination that minimise the largest utilisation of a link, where some
//! nodes have one next hop only.
//!
//! Method: Agarwal, Kodialam, Lakshman (INFOCOM 2013) with the algorithm of Garg and Könemann.
//! Links have lengths that grow exponentially with what is sent over them. A phase sends the
//! demands of one destination after another over the shortest admissible paths. The mean of all
//! phases is a split. The lengths are a dual solution, which no split can beat: the search ends
//! when both are within `1 + eps`. Of splits with the same largest utilisation the one with the
//! lowest sum of squares counts, so that traffic that does not meet the fullest link is balanced
//! too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::{LinkIx, NodeIx};

/// Phases in all; the split found so far is used then.
const PHASES_MAX: u32 = 4_000;
/// Phases between two comparisons with the bound.
const PHASES_BETWEEN: u32 = 8;

/// Links that traffic may use, by number of the link.
#[derive(Clone, Debug)]
pub struct Links {
    /// The ends of each link.
    pub ends: Vec<(NodeIx, NodeIx)>,
    /// Capacity, bits per second; 0 for links that must not be used.
    pub capacity: Vec<f64>,
}

/// The traffic to one destination.
#[derive(Clone, Debug)]
pub struct Commodity {
    /// The switch where all of this traffic leaves the network.
    pub to: NodeIx,
    /// Rates by source, bits per second.
    pub demands: Vec<(NodeIx, f64)>,
    /// By node: the only next hop of nodes that have one.
    pub only: Vec<Option<LinkIx>>,
}

/// A split of all traffic.
#[derive(Clone, Debug)]
pub struct Split {
    /// Rates by commodity and link, bits per second.
    pub rates: Vec<Vec<f64>>,
    /// The largest utilisation of a link.
    pub utilisation: f64,
    /// A utilisation below which no split is.
    pub at_least: f64,
}

/// The shortest admissible paths to a destination.
struct Tree {
    /// By node: the link to take, and the length from there.
    next: Vec<Option<LinkIx>>,
    length: Vec<f64>,
    /// Nodes with a path, nearest first.
    order: Vec<NodeIx>,
}

/// A length in a heap.
#[derive(Clone, Copy, PartialEq)]
struct Length(f64);

impl Eq for Length {}
impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Length) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Length {
    fn cmp(&self, other: &Length) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

struct Search<'a> {
    links: &'a Links,
    commodities: &'a [Commodity],
    /// By node: the links that end there.
    into: Vec<Vec<LinkIx>>,
    length: Vec<f64>,
}

/// Returns a split whose largest utilisation is within `1 + eps` of the lowest possible one, or as
/// near as the phases allow. Demands without an admissible path are left out.
pub fn split(links: &Links, commodities: &[Commodity], eps: f64) -> Split {
    let mut search = Search::new(links, commodities);
    let mut best = search.shortest();
    let mut best_load = Load::of(links, &best.rates, 1.0);
    let (mut phases, mut step) = (0, 0.5);
    // The first round always runs, for traffic that does not meet the fullest link.
    while phases == 0 || (phases < PHASES_MAX && best.utilisation > best.at_least * (1.0 + eps)) {
        let mut sent = vec![vec![0.0; links.capacity.len()]; commodities.len()];
        let mut rounds = 0;
        // The error of the mean is about `step` after that number of phases.
        let enough = (8.0 / (step * step)) as u32;
        while rounds < enough && phases < PHASES_MAX {
            search.phase(&mut sent, step, best.utilisation);
            (rounds, phases) = (rounds + 1, phases + 1);
            if rounds % PHASES_BETWEEN == 0 || rounds == enough {
                best.at_least = best.at_least.max(search.bound());
                let found = Load::of(links, &sent, f64::from(rounds));
                if found.is_below(&best_load, 0.0) {
                    let scale = |rates: &Vec<f64>| rates.iter().map(|rate| rate / f64::from(rounds)).collect();
                    (best.utilisation, best.rates) = (found.utilisation, sent.iter().map(scale).collect());
                    best_load = found;
                }
                if step < 0.5 && best.utilisation <= best.at_least * (1.0 + eps) {
                    break;
                }
            }
        }
        step /= 2.0;
    }
    best.rates.iter_mut().zip(commodities).for_each(|(rates, commodity)| cancel_cycles(links, rates, commodity.to));
    best.utilisation = Load::of(links, &best.rates, 1.0).utilisation;
    best
}

/// The load of all links.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Load {
    /// The largest utilisation of a link.
    pub utilisation: f64,
    /// The sum of the squares of all utilisations.
    pub squares: f64,
}

impl Load {
    /// Returns the load by rates of links.
    pub fn new(links: &Links, rate: impl Fn(usize) -> f64) -> Load {
        let of = |link: usize| match (rate(link), links.capacity[link]) {
            (rate, _) if rate <= 0.0 => 0.0,
            (rate, capacity) if capacity > 0.0 => rate / capacity,
            _ => f64::INFINITY,
        };
        let all = || (0..links.capacity.len()).map(of);
        Load { utilisation: all().fold(0.0, f64::max), squares: all().map(|used| used * used).sum() }
    }

    /// Returns the load by rates of commodities and links, divided by `rounds`.
    fn of(links: &Links, rates: &[Vec<f64>], rounds: f64) -> Load {
        Load::new(links, |link| rates.iter().map(|rates| rates[link]).sum::<f64>() / rounds)
    }

    /// Returns whether it is better than another by this share.
    pub fn is_below(&self, other: &Load, share: f64) -> bool {
        let is_equal = self.utilisation <= other.utilisation * (1.0 + 1e-9);
        self.utilisation < other.utilisation * (1.0 - share - 1e-9)
            || (is_equal && self.squares < other.squares * (1.0 - share - 1e-9))
    }
}

impl<'a> Search<'a> {
    fn new(links: &'a Links, commodities: &'a [Commodity]) -> Search<'a> {
        let nodes = links.ends.iter().map(|(from, to)| from.ix().max(to.ix()) + 1).max().unwrap_or(0);
        let mut into = vec![Vec::new(); nodes];
        for (number, (_, to)) in (0u32..).zip(&links.ends) {
            if links.capacity[number as usize] > 0.0 {
                into[to.ix()].push(LinkIx(number));
            }
        }
        let length = links.capacity.iter().map(|capacity| if *capacity > 0.0 { 1.0 / capacity } else { 0.0 }).collect();
        Search { links, commodities, into, length }
    }

    /// Returns the split over the current shortest paths, with the bound of the current lengths.
    fn shortest(&self) -> Split {
        let loads = |commodity| self.loads(commodity, &self.tree(commodity));
        let rates: Vec<Vec<f64>> = self.commodities.iter().map(loads).collect();
        let utilisation = Load::of(self.links, &rates, 1.0).utilisation;
        Split { rates, utilisation, at_least: self.bound() }
    }

    /// Searches the shortest admissible paths to a destination. A node with one next hop has only
    /// the path over it.
    fn tree(&self, commodity: &Commodity) -> Tree {
        let nodes = self.into.len();
        let mut tree = Tree { next: vec![None; nodes], length: vec![f64::INFINITY; nodes], order: Vec::new() };
        let mut settled = vec![false; nodes];
        let mut heap = BinaryHeap::new();
        if commodity.to.ix() < nodes {
            tree.length[commodity.to.ix()] = 0.0;
            heap.push(Reverse((Length(0.0), commodity.to)));
        }
        while let Some(Reverse((_, node))) = heap.pop() {
            if std::mem::replace(&mut settled[node.ix()], true) {
                continue;
            }
            tree.order.push(node);
            for link in &self.into[node.ix()] {
                let from = self.links.ends[link.ix()].0;
                let is_admissible = commodity.only.get(from.ix()).copied().flatten().is_none_or(|only| only == *link);
                let length = tree.length[node.ix()] + self.length[link.ix()];
                if is_admissible && !settled[from.ix()] && length < tree.length[from.ix()] {
                    (tree.length[from.ix()], tree.next[from.ix()]) = (length, Some(*link));
                    heap.push(Reverse((Length(length), from)));
                }
            }
        }
        tree
    }

    /// Returns the load of each link if all demands of a destination take a tree.
    fn loads(&self, commodity: &Commodity, tree: &Tree) -> Vec<f64> {
        let mut at = vec![0.0; self.into.len()];
        for (from, rate) in &commodity.demands {
            if from.ix() < at.len() {
                at[from.ix()] += rate;
            }
        }
        let mut load = vec![0.0; self.length.len()];
        for node in tree.order.iter().rev() {
            let Some(link) = tree.next[node.ix()] else { continue };
            load[link.ix()] = at[node.ix()];
            at[self.links.ends[link.ix()].1.ix()] += at[node.ix()];
        }
        load
    }

    /// Sends all demands once. `scale` is a utilisation that is known to be possible: no step sends
    /// more than a link carries at it.
    fn phase(&mut self, sent: &mut [Vec<f64>], step: f64, scale: f64) {
        for (commodity, sent) in self.commodities.iter().zip(sent) {
            let mut left: f64 = 1.0;
            while left > 1e-9 {
                let tree = self.tree(commodity);
                let load = self.loads(commodity, &tree);
                let used = |(load, capacity): (&f64, &f64)| if *load > 0.0 { load / (capacity * scale) } else { 0.0 };
                let most = load.iter().zip(&self.links.capacity).map(used).fold(0.0, f64::max);
                if most <= 0.0 {
                    break;
                }
                let part = left.min(1.0 / most);
                for link in (0..load.len()).filter(|link| load[*link] > 0.0) {
                    sent[link] += load[link] * part;
                    let share = load[link] * part / (self.links.capacity[link] * scale);
                    self.length[link] *= libm::exp(step * share);
                }
                left -= part;
                // Lengths matter relative to each other only.
                let longest = self.length.iter().copied().fold(0.0, f64::max);
                if longest > 1e100 {
                    self.length.iter_mut().for_each(|length| *length /= longest);
                }
            }
        }
    }

    /// Returns the utilisation that the lengths prove: the demands cannot be carried over less than
    /// their shortest paths.
    fn bound(&self) -> f64 {
        let volume: f64 =
            self.length.iter().zip(&self.links.capacity).map(|(length, capacity)| length * capacity).sum();
        let spent = |commodity: &Commodity| {
            let tree = self.tree(commodity);
            let of = |(from, rate): &(NodeIx, f64)| {
                let length = tree.length.get(from.ix()).copied().unwrap_or(f64::INFINITY);
                if length.is_finite() { length * rate } else { 0.0 }
            };
            commodity.demands.iter().map(of).sum::<f64>()
        };
        if volume > 0.0 { self.commodities.iter().map(spent).sum::<f64>() / volume } else { 0.0 }
    }
}

/// Removes circulations, which carry nothing, and rates too small to matter.
pub(super) fn cancel_cycles(links: &Links, rates: &mut [f64], to: NodeIx) {
    let least = rates.iter().copied().fold(0.0, f64::max) * 1e-6;
    rates.iter_mut().filter(|rate| **rate <= least).for_each(|rate| *rate = 0.0);
    while let Some(cycle) = cycle(links, rates, to) {
        let least = cycle.iter().map(|link| rates[link.ix()]).fold(f64::INFINITY, f64::min);
        for link in cycle {
            let rate = &mut rates[link.ix()];
            *rate = if *rate <= least { 0.0 } else { *rate - least };
        }
    }
}

/// Returns a cycle of links with rates.
fn cycle(links: &Links, rates: &[f64], to: NodeIx) -> Option<Vec<LinkIx>> {
    let nodes = links.ends.iter().map(|(from, to)| from.ix().max(to.ix()) + 1).max().unwrap_or(0);
    let mut out: Vec<Vec<LinkIx>> = vec![Vec::new(); nodes];
    for (number, (from, _)) in (0u32..).zip(&links.ends) {
        if rates[number as usize] > 0.0 && *from != to {
            out[from.ix()].push(LinkIx(number));
        }
    }
    let mut state = vec![0u8; nodes];
    for start in 0..nodes {
        let mut path: Vec<LinkIx> = Vec::new();
        let mut stack = vec![(start, 0usize)];
        while let Some((node, next)) = stack.last_mut() {
            let node = *node;
            state[node] = state[node].max(1);
            match out[node].get(*next).filter(|_| state[node] == 1) {
                None => {
                    state[node] = 2;
                    stack.pop();
                    path.pop();
                }
                Some(link) => {
                    *next += 1;
                    let far = links.ends[link.ix()].1.ix();
                    if state[far] == 1 {
                        path.push(*link);
                        let begin = path.iter().position(|link| links.ends[link.ix()].0.ix() == far).unwrap_or(0);
                        return Some(path.split_off(begin));
                    }
                    if state[far] == 0 {
                        path.push(*link);
                        stack.push((far, 0));
                    }
                }
            }
        }
    }
    None
}
