//! Dividing pairs of edge switches among paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::NodeIx;
use net::routes::ClassIx;

use crate::central::parts::dag::Dag;
use crate::central::parts::edges::{Ends, edges};
use crate::central::{NetworkView, Path, Placements, WeightedPath};

/// Divides every ordered pair of different switches with hosts among the paths that `choose` answers: all of the same
/// weight, none for leaving the pair to the base. Pairs without a path are not asked for, and left to the base.
pub fn divide_all(view: &NetworkView<'_>, placements: &mut Placements, mut choose: impl FnMut(Pair) -> Vec<Path>) {
    for (from, own) in edges(view) {
        for (node, to) in edges(view).filter(|(_, to)| *to != own) {
            let is_connected = view.routes.path_count(from, to) > 0;
            let pair = Pair { from, own, node, to };
            let paths = if is_connected { choose(pair) } else { Vec::new() };
            placements.divide(from, node, evenly(paths));
        }
    }
}

/// An ordered pair of different switches with hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Switch of the sources.
    pub from: NodeIx,
    /// Its class.
    pub own: ClassIx,
    /// Switch of the destinations.
    pub node: NodeIx,
    /// Its class.
    pub to: ClassIx,
}

impl Pair {
    /// For searches.
    pub fn ends(self) -> Ends {
        Ends { from: self.from, to: self.to }
    }
}

/// Paths of the same weight; one that occurs several times counts as often.
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

/// At most `paths_max` ranks below `count`, spread over all of them.
pub fn spread_ranks(count: u32, paths_max: u32) -> impl Iterator<Item = u32> {
    let len = count.min(paths_max);
    (0..len).map(move |nth| (u64::from(nth) * u64::from(count) / u64::from(len)) as u32)
}

/// The shortest paths of a pair, at most `paths_max`, spread over their ranks.
pub fn some_paths(dag: Dag<'_>, ends: Ends, paths_max: u32) -> Vec<Path> {
    spread_ranks(dag.path_count(ends), paths_max).map(|rank| dag.path(ends, rank)).collect()
}
