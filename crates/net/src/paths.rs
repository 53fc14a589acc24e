//! Paths between two nodes: equal-cost, all simple, k shortest, widest.
//!
//! A path is a list of directed links. It visits no node twice and passes only through nodes that
//! forward. `usable` returns whether a link may be used; [`every_link`] allows all links. Ties are
//! broken by port order, so results are the same in every run.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use crate::topology::{LinkIx, NodeIx, Topology};
use crate::units::{Bandwidth, Time};

/// The links of a path in order; empty from a node to itself.
pub type Path = Vec<LinkIx>;

/// The length of a path. Port order breaks the remaining ties.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Metric {
    /// Number of links, regardless of delay: measured delays differ by noise at least.
    Hops,
    /// Propagation delay, then number of links.
    Delay,
}

/// Bounds of enumerations that grow exponentially.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest accepted path, in links.
    pub max_links: usize,
    /// Maximum number of paths.
    pub max_paths: usize,
}

/// The result of an enumeration.
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
    /// The links, in order.
    pub path: Path,
    /// The smallest capacity along the path.
    pub bottleneck: Bandwidth,
}

/// Returns true: the `usable` of callers that may use every link.
pub fn every_link(_: LinkIx) -> bool {
    true
}

/// Returns the sum of the propagation delays along a path.
pub fn delay(topology: &Topology, path: &[LinkIx]) -> Time {
    let delays = path.iter().map(|link| topology.link(*link).delay);
    delays.fold(Time::ZERO, Time::saturating_add)
}

/// Returns the rate of the narrowest link of a path; the largest possible rate for an empty path.
pub fn bottleneck(topology: &Topology, path: &[LinkIx]) -> Bandwidth {
    let rates = path.iter().map(|link| topology.link(*link).rate);
    rates.min().unwrap_or(Bandwidth::from_bps(u64::MAX))
}

/// Returns the nodes a path from `from` visits, both ends included.
pub fn nodes(topology: &Topology, from: NodeIx, path: &[LinkIx]) -> Vec<NodeIx> {
    let rest = path.iter().map(|link| topology.link(*link).to);
    std::iter::once(from).chain(rest).collect()
}

/// Returns the paths with the fewest links between two nodes, at most `max_paths`.
pub fn equal_cost(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    max_paths: usize,
    usable: impl Fn(LinkIx) -> bool,
) -> Found {
    let costs = costs_to(topology, to, Metric::Hops, &usable, &[]);
    let hops = |node: NodeIx| costs[node.ix()].map(|cost| cost.0);
    let Some(max_links) = hops(from) else { return Found { paths: Vec::new(), truncated: false } };
    let limits = Limits { max_links: max_links as usize, max_paths };
    walk(topology, from, to, limits, &usable, &|at, link| {
        let next = hops(topology.link(link).to);
        next.is_some_and(|next| hops(at) == Some(next + 1))
    })
}

/// Returns all simple paths between two nodes within `limits`.
pub fn simple(topology: &Topology, from: NodeIx, to: NodeIx, limits: Limits, usable: impl Fn(LinkIx) -> bool) -> Found {
    walk(topology, from, to, limits, &usable, &|_, _| true)
}

/// Returns the shortest path; `None` if the nodes are not connected.
pub fn shortest(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    metric: Metric,
    usable: impl Fn(LinkIx) -> bool,
) -> Option<Path> {
    shortest_around(topology, from, to, metric, &usable, &[])
}

/// Returns the `k` shortest simple paths, shortest first; fewer if fewer exist.
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
    // Ordered by cost, then by links, so that the order of equal costs is fixed.
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

/// Returns the path whose narrowest link is widest; ties: smallest delay, then fewest links.
///
/// `capacity` returns the rate a link offers (its own, or the remaining rate), or `None` if it must
/// not be used. The bottleneck of a path without links is the largest possible rate.
pub fn widest(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    capacity: impl Fn(LinkIx) -> Option<Bandwidth>,
) -> Option<WidePath> {
    let bottleneck = widest_bottleneck(topology, from, to, &capacity)?;
    // The shortest path among links of sufficient rate is exact; ties inside the search are not.
    let wide_enough = |link| capacity(link).is_some_and(|offered| offered >= bottleneck);
    let path = shortest(topology, from, to, Metric::Delay, wide_enough)?;
    Some(WidePath { path, bottleneck })
}

/// The length of a path: first and second criterion of the metric.
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

/// Runs Dijkstra backwards: returns the cost from every node to `to`. Paths never pass through
/// nodes marked in `avoid`, which may be empty.
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

/// Returns the shortest path that avoids the nodes in `avoid`; ties go to the first in port order.
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

/// Returns the best deviations from the last accepted path, one for each of its nodes.
fn deviations(
    topology: &Topology,
    from: NodeIx,
    to: NodeIx,
    metric: Metric,
    usable: &impl Fn(LinkIx) -> bool,
    accepted: &[Path],
) -> Vec<Path> {
    let Some(last) = accepted.last() else { return Vec::new() };
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

/// Enumerates simple paths depth first; `admits` accepts each step.
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
    // The next port to try at every node of the path; explicit because paths may be long.
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
            let Some(offered) = capacity(*link) else { continue };
            let (next, width) = (topology.link(*link).to, width.min(offered));
            if best[next.ix()].is_none_or(|known| width > known) {
                best[next.ix()] = Some(width);
                heap.push((width, next));
            }
        }
    }
    None
}
