//! The paths of an edge to each destination, with weights by their delays.
//!
//! A path has the name of its intermediate; the direct path has that of the destination.

use std::sync::Arc;

use net::routes::ClassIx;
use net::{NodeIx, RandomStream, Routes, Topology};

use crate::dataplane::EdgeEnv;
use crate::dataplane::common::{ClassPairs, distances};

/// Number of draws for a path that is not bad before the next good one is taken.
const ATTEMPTS: u32 = 8;

pub(super) struct PathTable {
    own: ClassIx,
    /// Factor of the weights of all but the longest paths; 0 for equal weights.
    scale: f64,
    /// Number of shortest paths to each class; 0 without any.
    counts: Vec<u16>,
    lengths: Arc<Lengths>,
    /// For each destination, sums of the weights of all classes up to each; empty before the first
    /// draw.
    sums: Vec<Box<[u32]>>,
}

/// Lengths of the shortest paths between classes.
struct Lengths {
    links: ClassPairs<u16>,
    /// Propagation delay of the fastest of them, picoseconds.
    delay_ps: ClassPairs<u64>,
}

impl Lengths {
    fn new(topology: &Topology, routes: &Routes) -> Lengths {
        let classes = || (0..routes.class_count() as u32).map(ClassIx);
        let delay_ps = ClassPairs::new(routes.class_count(), |to| {
            let from_nodes = delays_to(topology, routes, to);
            classes().map(move |from| from_nodes[routes.class_node(from).ix()])
        });
        Lengths { links: distances(routes), delay_ps }
    }
}

/// Returns the smallest propagation delay of the shortest paths from each node to a class,
/// picoseconds.
fn delays_to(topology: &Topology, routes: &Routes, to: ClassIx) -> Vec<u64> {
    let nodes = (0..topology.nodes().len() as u32).map(NodeIx);
    let mut order: Vec<(u16, NodeIx)> = nodes.filter_map(|node| Some((routes.distance(node, to)?, node))).collect();
    order.sort_unstable();
    let mut delays = vec![u64::MAX; topology.nodes().len()];
    for (_, node) in order {
        let onward = routes.next_hops(node, to).iter().map(|hop| topology.link(*hop));
        let through = onward.map(|link| delays[link.to.ix()].saturating_add(link.delay.as_ps()));
        // The class node has no next hops.
        delays[node.ix()] = through.min().unwrap_or(0);
    }
    delays
}

impl PathTable {
    pub(super) fn new(env: &EdgeEnv<'_>, scale: f64) -> PathTable {
        PathTable {
            own: env.class,
            scale,
            counts: env.path_counts.to_vec(),
            lengths: env.shared.get_or_make(|| Lengths::new(env.topology, env.routes)),
            sums: vec![Box::default(); env.path_counts.len()],
        }
    }

    pub(super) fn is_reachable(&self, to: ClassIx) -> bool {
        self.counts[to.0 as usize] > 0
    }

    /// Returns the propagation delay of a path to a class, at least 1 picosecond.
    pub(super) fn delay_ps(&self, via: ClassIx, to: ClassIx) -> u64 {
        let delay = |from, to| self.lengths.delay_ps.of(from, to);
        // The second half of the direct path has no links.
        delay(self.own, via).saturating_add(delay(via, to)).max(1)
    }

    fn is_path(&self, via: ClassIx, to: ClassIx) -> bool {
        if via == to || via == self.own || !self.is_reachable(via) {
            return via == to;
        }
        let [first, second, shortest] =
            [(self.own, via), (via, to), (self.own, to)].map(|(from, to)| u32::from(self.lengths.links.of(from, to)));
        // On the only shortest path, the intermediate would name the direct path again.
        second < u32::from(u16::MAX) && !(first + second == shortest && self.counts[to.0 as usize] == 1)
    }

    /// Draws a path that is not bad; any if all are bad. A destination's first draw allocates.
    pub(super) fn draw(&mut self, rng: &mut RandomStream, to: ClassIx, is_bad: impl Fn(ClassIx) -> bool) -> ClassIx {
        if self.sums[to.0 as usize].is_empty() {
            self.sums[to.0 as usize] = self.sum_weights(to);
        }
        let sums = &self.sums[to.0 as usize];
        let total = u64::from(sums.last().copied().unwrap_or(1));
        let mut via = to;
        for _ in 0..ATTEMPTS {
            let point = rng.next_below(total) as u32;
            via = ClassIx(sums.partition_point(|sum| *sum <= point) as u32);
            if !is_bad(via) {
                return via;
            }
        }
        let count = sums.len() as u32;
        let mut others = (1..count).map(|step| ClassIx((via.0 + step) % count));
        others.find(|other| self.is_path(*other, to) && !is_bad(*other)).unwrap_or(via)
    }

    fn sum_weights(&self, to: ClassIx) -> Box<[u32]> {
        let classes = (0..self.counts.len() as u32).map(ClassIx);
        let delays: Vec<Option<u64>> =
            classes.map(|via| self.is_path(via, to).then(|| self.delay_ps(via, to))).collect();
        let longest = delays.iter().flatten().copied().max().unwrap_or(1);
        let weight = |delay: u64| match longest as f64 / delay as f64 {
            _ if self.scale == 0.0 => 1.0,
            ratio if delay < longest => ratio * self.scale,
            ratio => ratio,
        };
        let heaviest = delays.iter().flatten().map(|delay| weight(*delay)).fold(0.0, f64::max);
        // The sum of all weights must not exceed 32 bits.
        let unit = f64::from(u32::MAX) / delays.len() as f64 / heaviest;
        let mut sum = 0;
        let up_to = |delay: Option<u64>| {
            sum += delay.map_or(0, |delay| ((weight(delay) * unit) as u32).max(1));
            sum
        };
        delays.into_iter().map(up_to).collect()
    }
}

#[cfg(test)]
mod tests {
    use net::LinkIx;

    use super::*;
    use crate::dataplane::testing::with_edge_env;

    #[test]
    fn delay_is_that_of_the_fastest_shortest_path() {
        // Several shortest paths, and two kinds of delays.
        for family in ["dragonfly:groups=5,local_delay=25ns,global_delay=500ns", "flattened-butterfly:k=3,n=3"] {
            with_edge_env(family, 2, |env| {
                let table = PathTable::new(env, 1.0);
                for to in (0..env.path_counts.len() as u32).map(ClassIx).filter(|to| *to != env.class) {
                    let delay = |link: &LinkIx| env.topology.link(*link).delay.as_ps();
                    let paths = (0..u32::from(env.path_counts[to.0 as usize]))
                        .map(|path| env.routes.path(env.topology, env.edge, to, path).iter().map(delay).sum());
                    assert_eq!(Some(table.delay_ps(to, to)), paths.min(), "{family}: {to:?}");
                }
            });
        }
    }

    #[test]
    fn intermediates_on_the_only_shortest_path_are_left_out() {
        with_edge_env("dragonfly:p=2,a=4,h=2", 0, |env| {
            let table = PathTable::new(env, 1.0);
            let is_far =
                |to: &ClassIx| table.lengths.links.of(env.class, *to) == 3 && env.path_counts[to.0 as usize] == 1;
            let to = (0..36).map(ClassIx).find(is_far).unwrap();
            let names: Vec<u32> = (0..36).filter(|via| table.is_path(ClassIx(*via), to)).collect();
            // 36 routers without the own one and the two on the path.
            assert_eq!(names.len(), 33, "{to:?}");
            let inner = env.routes.path(env.topology, env.edge, to, 0).into_iter().take(2);
            for link in inner {
                let on_path = env.routes.class_at(env.topology.link(link).to).unwrap();
                assert!(!names.contains(&on_path.0));
            }
        });
        // With several shortest paths, each intermediate on them names some of those.
        with_edge_env("flattened-butterfly:k=3,n=3", 0, |env| {
            let table = PathTable::new(env, 1.0);
            assert_eq!((0..9).filter(|via| table.is_path(ClassIx(*via), ClassIx(8))).count(), 8);
        });
    }
}
