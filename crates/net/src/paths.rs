//! Paths between two nodes: equal-cost, all simple, k shortest, widest.
//!
//! A path is a list of directed links. It visits no node twice and passes only through nodes that forward.
//! `usable` says which links may be taken (dead ones are not; [`every_link`] allows all). Ties are broken by
//! port order, so answers are the same on every run.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::routes::{ClassIx, Routes};
use crate::topology::{LinkIx, NodeIx, Topology};
use crate::units::{Bandwidth, Time};

/// A path as the links it takes, in order; empty from a node to itself.
pub type Path = Vec<LinkIx>;

/// What makes a path short. Ports break ties that are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Number of links, whatever their delays: measured ones differ by noise, if by nothing else.
    Hops,
    /// Propagation delay, then number of links.
    Delay,
}

/// Bounds for enumerations that grow exponentially.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest path wanted, in links.
    pub max_links: usize,
    /// Most paths wanted.
    pub max_paths: usize,
}

/// What an enumeration found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The paths, depth first in port order.
    pub paths: Vec<Path>,
    /// Whether [`Limits::max_paths`] cut the list short.
    pub truncated: bool,
}

/// A path and the rate of its narrowest link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WidePath {
    /// The path.
    pub path: Path,
    /// The least capacity along it.
    pub bottleneck: Bandwidth,
}

/// For callers to whom every link is usable.
pub fn every_link(_: LinkIx) -> bool {
    true
}

/// Sum of the propagation delays along a path.
pub fn delay(topology: &Topology, path: &[LinkIx]) -> Time {
    let delays = path.iter().map(|link| topology.link(*link).delay);
    delays.fold(Time::ZERO, Time::saturating_add)
}

/// Rate of the narrowest link of a path; the largest value there is for an empty one.
pub fn bottleneck(topology: &Topology, path: &[LinkIx]) -> Bandwidth {
    let rates = path.iter().map(|link| topology.link(*link).rate);
    rates.min().unwrap_or(Bandwidth::from_bps(u64::MAX))
}

/// The nodes a path from `from` visits, both ends included.
pub fn nodes(topology: &Topology, from: NodeIx, path: &[LinkIx]) -> Vec<NodeIx> {
    let rest = path.iter().map(|link| topology.link(*link).to);
    std::iter::once(from).chain(rest).collect()
}

/// The first `max_paths` equal-cost paths of the routing tables, by rank (see [`Routes::path`]).
pub fn of_routes(topology: &Topology, routes: &Routes, from: NodeIx, class: ClassIx, max_paths: u32) -> Vec<Path> {
    let count = routes.path_count(from, class).min(max_paths);
    (0..count).map(|rank| routes.path(topology, from, class, rank)).collect()
}

/// The paths with the fewest links between any two nodes, at most `max_paths` of them.
pub fn equal_cost(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    max_paths: usize,
    usable: impl Fn(LinkIx) -> bool,
) -> Found {
    let costs = costs_to(topology, to, Metric::Hops, &usable, &[]);
    let hops = |node: NodeIx| costs[node.ix()].map(|cost| cost.0);
    let Some(max_links) = hops(from) else {
        return Found { paths: Vec::new(), truncated: false };
    };
    let limits = Limits { max_links: max_links as usize, max_paths };
    walk(topology, from, to, limits, &usable, &|at, link| {
        let next = hops(topology.link(link).to);
        next.is_some_and(|next| hops(at) == Some(next + 1))
    })
}

/// All simple paths between two nodes within `limits`.
pub fn simple(topology: &Topology, from: NodeIx, to: NodeIx, limits: Limits, usable: impl Fn(LinkIx) -> bool) -> Found {
    walk(topology, from, to, limits, &usable, &|_, _| true)
}

/// The shortest path, or `None` if there is none.
pub fn shortest(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    metric: Metric,
    usable: impl Fn(LinkIx) -> bool,
) -> Option<Path> {
    shortest_around(topology, from, to, metric, &usable, &[])
}

/// The `k` shortest simple paths, shortest first; fewer if there are not so many.
///
/// Yen: Finding the K Shortest Loopless Paths in a Network, Management Science 17(11), 1971.
pub fn k_shortest(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    k: usize,
    metric: Metric,
    usable: impl Fn(LinkIx) -> bool,
) -> Vec<Path> {
    let mut accepted: Vec<Path> = Vec::new();
    // Ordered by cost, then by the links, so that equal costs come in one order always.
    let mut candidates: BTreeSet<(Cost, Path)> = BTreeSet::new();
    if k == 0 {
        return accepted;
    }
    if let Some(path) = shortest(topology, from, to, metric, &usable) {
        candidates.insert((cost_of(topology, metric, &path), path));
    }
    while let Some((_, path)) = candidates.pop_first() {
        accepted.push(path);
        if accepted.len() == k {
            break;
        }
        for path in deviations(topology, from, to, metric, &usable, &accepted) {
            if !accepted.contains(&path) {
                candidates.insert((cost_of(topology, metric, &path), path));
            }
        }
    }
    accepted
}

/// The path whose narrowest link is widest; among those the one with the least delay, then the fewest links.
///
/// `capacity` answers what a link has to offer (its rate, or what is left of it), or `None` where it must not
/// be used. A path of no links has the largest bottleneck there is.
pub fn widest(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    capacity: impl Fn(LinkIx) -> Option<Bandwidth>,
) -> Option<WidePath> {
    let bottleneck = widest_bottleneck(topology, from, to, &capacity)?;
    // Among all links wide enough the shortest path is the answer: exact, where breaking ties inside the
    // widest-path search would not be.
    let wide_enough = |link| capacity(link).is_some_and(|offered| offered >= bottleneck);
    let path = shortest(topology, from, to, Metric::Delay, wide_enough)?;
    Some(WidePath { path, bottleneck })
}

/// A length: first and second criterion of the metric.
type Cost = (u64, u64);

fn link_cost(topology: &Topology, metric: Metric, link: LinkIx) -> Cost {
    let delay = topology.link(link).delay.as_ps();
    match metric {
        Metric::Hops => (1, 0),
        Metric::Delay => (delay, 1),
    }
}

fn add(a: Cost, b: Cost) -> Cost {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

fn cost_of(topology: &Topology, metric: Metric, path: &[LinkIx]) -> Cost {
    let costs = path.iter().map(|link| link_cost(topology, metric, *link));
    costs.fold((0, 0), add)
}

/// Dijkstra backwards: the cost from every node to `to`, never through nodes marked in `avoid` (which may be
/// empty for none).
fn costs_to(
    topology: &Topology,
    to: NodeIx,
    metric: Metric,
    usable: &impl Fn(LinkIx) -> bool,
    avoid: &[bool],
) -> Vec<Option<Cost>> {
    let mut best: Vec<Option<Cost>> = vec![None; topology.nodes().len()];
    let mut heap = BinaryHeap::from([Reverse(((0, 0), to))]);
    best[to.ix()] = Some((0, 0));
    while let Some(Reverse((cost, node))) = heap.pop() {
        let stale = best[node.ix()].is_some_and(|known| known < cost);
        if stale || (node != to && !topology.node(node).forwards) {
            continue;
        }
        for out in topology.out_links(node) {
            let (toward, from) = (out.reverse(), topology.link(*out).to);
            if avoid.get(from.ix()).copied().unwrap_or(false) || !usable(toward) {
                continue;
            }
            let cost = add(cost, link_cost(topology, metric, toward));
            if best[from.ix()].is_none_or(|known| cost < known) {
                best[from.ix()] = Some(cost);
                heap.push(Reverse((cost, from)));
            }
        }
    }
    best
}

/// The shortest path around the nodes in `avoid`, first in port order among equals.
fn shortest_around(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    metric: Metric,
    usable: &impl Fn(LinkIx) -> bool,
    avoid: &[bool],
) -> Option<Path> {
    let costs = costs_to(topology, to, metric, usable, avoid);
    let (mut at, mut path) = (from, Vec::new());
    costs[from.ix()]?;
    while at != to {
        let here = costs[at.ix()]?;
        let on_shortest = |link: &&LinkIx| {
            let next = topology.link(**link).to;
            let passes = next == to || topology.node(next).forwards;
            let beyond = costs[next.ix()].filter(|_| passes && usable(**link));
            beyond.is_some_and(|cost| add(cost, link_cost(topology, metric, **link)) == here)
        };
        let link = *topology.out_links(at).iter().find(on_shortest)?;
        path.push(link);
        at = topology.link(link).to;
    }
    Some(path)
}

/// The best deviations from the last accepted path, one for each node along it.
fn deviations(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    metric: Metric,
    usable: &impl Fn(LinkIx) -> bool,
    accepted: &[Path],
) -> Vec<Path> {
    let Some(last) = accepted.last() else {
        return Vec::new();
    };
    let mut avoid = vec![false; topology.nodes().len()];
    let mut spur = from;
    let mut found = Vec::new();
    for position in 0..last.len() {
        let root = &last[..position];
        let taken: Vec<LinkIx> = accepted
            .iter()
            .filter(|path| path.starts_with(root))
            .filter_map(|path| path.get(position).copied())
            .collect();
        let untaken = |link: LinkIx| usable(link) && !taken.contains(&link);
        if let Some(rest) = shortest_around(topology, spur, to, metric, &untaken, &avoid) {
            found.push([root, &rest].concat());
        }
        avoid[spur.ix()] = true;
        spur = topology.link(last[position]).to;
    }
    found
}

/// Depth-first enumeration of simple paths whose every step `admits`.
fn walk(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    limits: Limits,
    usable: &impl Fn(LinkIx) -> bool,
    admits: &impl Fn(NodeIx, LinkIx) -> bool,
) -> Found {
    let mut found = Found { paths: Vec::new(), truncated: false };
    let mut visited = vec![false; topology.nodes().len()];
    visited[from.ix()] = true;
    let mut path: Path = Vec::new();
    // The next port to try at every node of the path: an explicit stack, as paths may be long.
    let mut ports = vec![0usize];
    if from == to {
        found.paths.push(Vec::new());
        return found;
    }
    while let Some(port) = ports.last_mut() {
        let at = path.last().map_or(from, |link| topology.link(*link).to);
        let out = topology.out_links(at);
        let next = (path.len() < limits.max_links).then(|| out.get(*port)).flatten();
        let Some(link) = next.copied() else {
            ports.pop();
            if path.pop().is_some() {
                visited[at.ix()] = false;
            }
            continue;
        };
        *port += 1;
        let node = topology.link(link).to;
        if visited[node.ix()] || !usable(link) || !admits(at, link) {
            continue;
        }
        if node == to {
            if found.paths.len() == limits.max_paths {
                found.truncated = true;
                return found;
            }
            found.paths.push([path.as_slice(), &[link]].concat());
        } else if topology.node(node).forwards {
            visited[node.ix()] = true;
            path.push(link);
            ports.push(0);
        }
    }
    found
}

/// The largest bottleneck any path has.
fn widest_bottleneck(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    capacity: &impl Fn(LinkIx) -> Option<Bandwidth>,
) -> Option<Bandwidth> {
    let mut best: Vec<Option<Bandwidth>> = vec![None; topology.nodes().len()];
    let unlimited = Bandwidth::from_bps(u64::MAX);
    let mut heap = BinaryHeap::from([(unlimited, from)]);
    best[from.ix()] = Some(unlimited);
    while let Some((width, node)) = heap.pop() {
        if node == to {
            return Some(width);
        }
        let stale = best[node.ix()].is_some_and(|known| known > width);
        if stale || (node != from && !topology.node(node).forwards) {
            continue;
        }
        for link in topology.out_links(node) {
            let Some(offered) = capacity(*link) else {
                continue;
            };
            let (next, width) = (topology.link(*link).to, width.min(offered));
            if best[next.ix()].is_none_or(|known| width > known) {
                best[next.ix()] = Some(width);
                heap.push((width, next));
            }
        }
    }
    None
}
