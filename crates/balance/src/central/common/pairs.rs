//! Splits of the traffic between pairs of edge switches.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::NodeIx;
use net::routes::ClassIx;

use crate::central::common::dag::Dag;
use crate::central::common::edges::{Ends, edges};
use crate::central::{NetworkView, Path, Placements, WeightedPath};

/// Splits the traffic of every ordered pair of different switches with hosts over the paths that
/// `choose` returns: all of the same weight; none leaves the pair to the default routes. Pairs
/// without a path are skipped.
pub fn divide_all(view: &NetworkView<'_>, placements: &mut Placements, mut choose: impl FnMut(Pair) -> Vec<Path>) {
    for (from, own) in edges(view) {
        for (node, to) in edges(view).filter(|(_, to)| *to != own) {
            let is_connected = view.routes.path_count(from, to) > 0;
            let pair = Pair { from, own, node, to };
            let paths = if is_connected { choose(pair) } else { Vec::new() };
            placements.split(from, node, evenly(paths));
        }
    }
}

/// An ordered pair of different switches with hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    pub from: NodeIx,
    pub own: ClassIx,
    pub node: NodeIx,
    pub to: ClassIx,
}

impl Pair {
    pub fn ends(self) -> Ends {
        Ends { from: self.from, to: self.to }
    }
}

/// Makes paths of the same weight; a path that occurs several times gets a multiple of it.
pub fn evenly(paths: Vec<Path>) -> Arc<[WeightedPath]> {
    let mut first = BTreeMap::new();
    let mut weighted: Vec<WeightedPath> = Vec::with_capacity(paths.len());
    for path in paths {
        match first.get(&path) {
            Some(before) => weighted[*before as usize].weight += 1,
            None => {
                first.insert(path.clone(), weighted.len() as u16);
                weighted.push(WeightedPath { path, weight: 1 });
            }
        }
    }
    weighted.into()
}

/// Returns at most `paths_max` ranks below `count`, spread over all of them.
pub fn spread_ranks(count: u32, paths_max: u32) -> impl Iterator<Item = u32> {
    let len = count.min(paths_max);
    (0..len).map(move |nth| (u64::from(nth) * u64::from(count) / u64::from(len)) as u32)
}

/// Returns at most `paths_max` shortest paths of a pair, spread over their ranks.
pub fn some_paths(dag: Dag<'_>, ends: Ends, paths_max: u32) -> Vec<Path> {
    spread_ranks(dag.path_count(ends), paths_max).map(|rank| dag.path(ends, rank)).collect()
}
