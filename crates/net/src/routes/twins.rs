//! Destinations with the same neighbours, whose tables follow from each other.
//!
//! Two nodes with links to the same nodes are exchangeable: every other node reaches both in the same
//! way, and only the last links differ. So the tables of one class give those of the other after
//! changes to few rows. The racks of a pod, or all leaves of a fabric, are twins: a search for one
//! of them does for all.

use std::collections::BTreeMap;

use super::search::{Entry, RowGraph, UNREACHABLE};
use super::{LinkIx, NO_HOPS, PathSummary};

/// Links of a row that are alive, out and in, by the row at the other end.
type Neighbours = Vec<(u32, [u32; 2])>;

/// Rows to which tables have been computed for links in one state.
#[derive(Clone, Debug, Default)]
pub(super) struct Twins {
    known: BTreeMap<Neighbours, (u32, usize)>,
}

impl Twins {
    /// Returns the row and the class with the same neighbours whose tables were computed first. The
    /// first one is added, and returns `None`.
    pub(super) fn find(&mut self, graph: &RowGraph, alive: &[bool], row: u32, class: usize) -> Option<(u32, usize)> {
        let mut neighbours: BTreeMap<u32, [u32; 2]> = BTreeMap::new();
        for (out, to) in graph.links_of(row) {
            let links = neighbours.entry(*to).or_default();
            links[0] += u32::from(alive[out.ix()]);
            links[1] += u32::from(alive[out.reverse().ix()]);
        }
        // Without a link that is alive, a row is not a neighbour.
        let key: Neighbours = neighbours.into_iter().filter(|(_, links)| *links != [0, 0]).collect();
        let first = *self.known.entry(key).or_insert((row, class));
        (first.1 != class).then_some(first)
    }

    /// Number of classes whose tables needed a search.
    #[cfg(test)]
    pub(super) fn searched(&self) -> usize {
        self.known.len()
    }
}

/// Returns the rows whose entries towards `row` differ from those towards its twin, with these
/// entries. `entry_of` returns the entries towards the twin.
pub(super) fn differences(
    graph: &RowGraph,
    alive: &[bool],
    (row, twin): (u32, u32),
    mut intern: impl FnMut(&[LinkIx]) -> u32,
    entry_of: impl Fn(u32) -> Entry,
) -> BTreeMap<u32, Entry> {
    let target = (NO_HOPS, PathSummary { count: 1, distance: 0, is_even: false });
    let mut changed = BTreeMap::from([(row, target)]);
    let mut neighbours: Vec<u32> = graph.links_of(row).iter().map(|(_, to)| *to).collect();
    neighbours.sort_unstable();
    neighbours.dedup();
    let mut links_to = |from: u32, is_next: &dyn Fn(u32) -> bool| {
        let links = graph.links_of(from).iter().filter(|(link, to)| alive[link.ix()] && is_next(*to));
        intern(&links.map(|(link, _)| *link).collect::<Vec<_>>())
    };
    // The twin goes on to the rows through which this row would reach the twin.
    let beyond = entry_of(row).1;
    let is_nearer = |to: u32| {
        let at = entry_of(to).1.distance;
        at != u16::MAX && at + 1 == beyond.distance && graph.leads_on(to, row)
    };
    let onward = if beyond.distance == u16::MAX { UNREACHABLE } else { (links_to(twin, &is_nearer), beyond) };
    changed.insert(twin, onward);
    for neighbour in neighbours {
        let summary = entry_of(neighbour).1;
        if summary.distance == 1 {
            changed.insert(neighbour, (links_to(neighbour, &|to| to == row), summary));
        }
    }
    changed
}
