//! Sets of parallel routes between edges: no two of a set share a node between their ends.

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, NodeKind, Routes, Topology};

use crate::dataplane::EdgeEnv;
use crate::dataplane::common::rank_of;

/// Shortest paths that are tried for a set. A BCube with four levels has 24 between two servers.
const TRIED_MAX: u32 = 128;

/// A route from one edge to another: a shortest path, or two that meet at an intermediate edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// The intermediate edge; `None` for a shortest path.
    pub(super) via: Option<ClassIx>,
    /// Number of the path to the intermediate edge, or to the destination of a shortest path.
    pub(super) first: u16,
    /// Number of the path from the intermediate edge to the destination.
    pub(super) second: u16,
}

/// The routes between all pairs of edges of a network.
pub(super) struct RouteSets {
    class_of_host: Vec<ClassIx>,
    class_count: usize,
    /// Start index of the routes of each pair, source first, and the end of the last.
    starts: Vec<u32>,
    routes: Vec<Route>,
}

impl RouteSets {
    /// Computes at most `routes_max` routes for each pair of edges.
    pub(super) fn new(env: &EdgeEnv<'_>, routes_max: usize) -> RouteSets {
        let class_count = env.routes.class_count();
        let hosts = (0..env.topology.hosts().len() as u32).map(HostIx);
        let mut sets = RouteSets {
            class_of_host: hosts.map(|host| env.routes.class_of(host)).collect(),
            class_count,
            starts: vec![0],
            routes: Vec::new(),
        };
        let classes = || (0..class_count as u32).map(ClassIx);
        for from in classes() {
            for to in classes() {
                if from != to {
                    let search = Search::new(env.topology, env.routes, (from, to), routes_max);
                    sets.routes.extend(search.run());
                }
                sets.starts.push(sets.routes.len() as u32);
            }
        }
        sets
    }

    pub(super) fn class_of(&self, host: HostIx) -> ClassIx {
        self.class_of_host[host.0 as usize]
    }

    pub(super) fn between(&self, from: ClassIx, to: ClassIx) -> &[Route] {
        let pair = from.0 as usize * self.class_count + to.0 as usize;
        &self.routes[self.starts[pair] as usize..self.starts[pair + 1] as usize]
    }

    pub(super) fn have_detours(&self) -> bool {
        self.routes.iter().any(|route| route.via.is_some())
    }
}

/// The search for the routes of one pair.
struct Search<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
    from: NodeIx,
    to: ClassIx,
    routes_max: usize,
    /// Nodes between the ends of the routes found so far.
    used: Vec<NodeIx>,
    found: Vec<Route>,
}

impl<'a> Search<'a> {
    fn new(
        topology: &'a Topology,
        routes: &'a Routes,
        (from, to): (ClassIx, ClassIx),
        routes_max: usize,
    ) -> Search<'a> {
        let from = routes.class_node(from);
        Search { topology, routes, from, to, routes_max, used: Vec::new(), found: Vec::new() }
    }

    fn run(mut self) -> Vec<Route> {
        if let Some((first, _)) = self.path_beside(self.from, &[]) {
            self.add_shortest(first);
        }
        if self.topology.node(self.from).kind == NodeKind::Host {
            self.add_detours();
        }
        self.found
    }

    /// Adds the shortest paths that share no node with those before them.
    fn add_shortest(&mut self, first: u16) {
        let mut next = Some(first);
        while let Some(number) = next {
            let path = self.routes.path(self.topology, self.from, self.to, u32::from(number));
            self.used.extend(self.inner_nodes(&path));
            self.found.push(Route { via: None, first: number, second: 0 });
            let is_complete = self.found.len() == self.routes_max;
            next = if is_complete { None } else { self.path_beside(self.from, &[]).map(|(number, _)| number) };
        }
    }

    /// Adds routes over neighbours of the source, which lie behind its unused links.
    fn add_detours(&mut self) {
        for up in self.topology.out_links(self.from) {
            let switch = self.topology.link(*up).to;
            if self.found.len() == self.routes_max || self.used.contains(&switch) {
                continue;
            }
            let detour = self.topology.out_links(switch).iter().find_map(|down| self.detour(switch, [*up, *down]));
            if let Some((route, nodes)) = detour {
                self.found.push(route);
                self.used.extend(nodes);
            }
        }
    }

    /// Returns a route that begins with two links over `switch`, and its nodes.
    fn detour(&self, switch: NodeIx, links: [LinkIx; 2]) -> Option<(Route, Vec<NodeIx>)> {
        let neighbour = self.topology.link(links[1]).to;
        let is_end = [self.from, self.routes.class_node(self.to)].contains(&neighbour);
        if is_end || !self.topology.node(neighbour).forwards || self.used.contains(&neighbour) {
            return None;
        }
        let via = self.routes.class_at(neighbour)?;
        let first = rank_of(self.topology, self.routes, self.from, via, &links)?;
        let (second, mut nodes) = self.path_beside(neighbour, &[self.from, switch])?;
        nodes.extend([switch, neighbour]);
        Some((Route { via: Some(via), first: u16::try_from(first).ok()?, second }, nodes))
    }

    /// Returns the first shortest path from `node` that avoids the used nodes and `others`, with
    /// its inner nodes.
    fn path_beside(&self, node: NodeIx, others: &[NodeIx]) -> Option<(u16, Vec<NodeIx>)> {
        let count = self.routes.path_count(node, self.to).min(TRIED_MAX);
        (0..count).find_map(|number| {
            let path = self.routes.path(self.topology, node, self.to, number);
            let nodes = self.inner_nodes(&path);
            let is_free = nodes.iter().all(|node| !self.used.contains(node) && !others.contains(node));
            // A path without inner nodes is one link, of which there is one.
            let is_new = !nodes.is_empty() || self.found.is_empty();
            (is_free && is_new).then_some((number as u16, nodes))
        })
    }

    fn inner_nodes(&self, path: &[LinkIx]) -> Vec<NodeIx> {
        let inner = path.len().saturating_sub(1);
        path[..inner].iter().map(|link| self.topology.link(*link).to).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dataplane::testing::with_edge_env;

    /// Returns the nodes between the ends of a route, and its number of links.
    fn nodes(env: &EdgeEnv<'_>, from: ClassIx, to: ClassIx, route: &Route) -> (Vec<NodeIx>, usize) {
        let path = |from: ClassIx, to, number: u16| {
            env.routes.path(env.topology, env.routes.class_node(from), to, u32::from(number))
        };
        let mut links = path(from, route.via.unwrap_or(to), route.first);
        if let Some(via) = route.via {
            links.extend(path(via, to, route.second));
        }
        let inner = links[..links.len() - 1].iter().map(|link| env.topology.link(*link).to);
        (inner.collect(), links.len())
    }

    /// Guo et al., theorem 3: two servers of a BCube(n, k) have k + 1 parallel paths. Those that
    /// begin with a digit in which the servers agree are two hops of servers longer.
    #[test]
    fn bcube_has_parallel_paths_of_published_number_and_length() {
        for (n, k) in [(4, 1), (3, 2), (2, 3)] {
            with_edge_env(&format!("bcube:n={n},k={k}"), 0, |env| {
                let net = net::families::BCube { n, k, ..Default::default() };
                let sets = RouteSets::new(env, 8);
                for (from, to) in (0..env.topology.hosts().len() as u32).flat_map(|to| [(0, to), (to, 0)]) {
                    if from == to {
                        continue;
                    }
                    let classes = [from, to].map(|host| sets.class_of(HostIx(host)));
                    let routes = sets.between(classes[0], classes[1]);
                    assert_eq!(routes.len(), k as usize + 1, "n={n} k={k} {from} to {to}");
                    let distance = net.hamming(from, to) as usize;
                    let (mut seen, mut lengths) = (BTreeSet::new(), Vec::new());
                    for route in routes {
                        let (nodes, length) = nodes(env, classes[0], classes[1], route);
                        assert!(nodes.iter().all(|node| seen.insert(*node)), "n={n} k={k} {from} to {to}: shared node");
                        lengths.push(length);
                    }
                    let expected = (0..=k as usize).map(|i| 2 * if i < distance { distance } else { distance + 2 });
                    assert_eq!(lengths, expected.collect::<Vec<_>>());
                }
            });
        }
    }

    #[test]
    fn routes_of_clos_network_are_shortest_paths_over_different_switches() {
        with_edge_env("fat-tree:k=4", 0, |env| {
            let sets = RouteSets::new(env, 8);
            let far = ClassIx(env.path_counts.len() as u32 - 1);
            let routes = sets.between(ClassIx(0), far);
            assert_eq!(routes.len(), 2, "one for each aggregation switch");
            assert!(!sets.have_detours());
        });
    }
}
