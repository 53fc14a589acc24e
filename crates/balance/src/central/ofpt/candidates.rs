//! The paths of a pair that OFPT considers, and the selection of the best.

use net::{LinkIx, RandomStream};

use super::link_lengths::LinkLengths;
use crate::central::Path;
use crate::central::common::{Dag, Ends};

/// The subset of a pair's equal-cost paths that is considered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Subset {
    pub paths_max: u32,
    /// Whether they are spread over all ranks rather than the lowest ones.
    pub is_spread: bool,
}

impl Subset {
    /// Returns how many of `count` paths are considered.
    pub(super) fn len(self, count: u32) -> u32 {
        self.paths_max.min(count)
    }
    pub(super) fn rank(self, count: u32, nth: u32) -> u32 {
        if self.is_spread { (u64::from(nth) * u64::from(count) / u64::from(self.len(count))) as u32 } else { nth }
    }
    /// Returns whether the subset contains a rank from `first` to before `end`.
    fn meets(self, count: u32, first: u32, end: u32) -> bool {
        if !self.is_spread {
            return first < self.len(count);
        }
        let len = u64::from(self.len(count));
        let nth = (u64::from(first) * len).div_ceil(u64::from(count)) as u32;
        nth < self.len(count) && self.rank(count, nth) < end
    }
}

/// The criterion of the best path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Aim {
    /// The most room on its narrowest link, then the lowest cost.
    Room,
    Cost,
}

/// A depth-first search that prunes paths that cannot become best.
pub(super) struct Choice<'a> {
    pub dag: Dag<'a>,
    pub lengths: &'a LinkLengths,
    pub subset: Subset,
    pub aim: Aim,
    /// Selected if it is among the best; otherwise one of these is drawn.
    pub current: Option<&'a [LinkIx]>,
}

#[derive(Default)]
struct Found {
    room: f64,
    cost: f64,
    ties: u64,
    path: Vec<LinkIx>,
}

/// Relative difference in cost that is ignored: lengths are products with rounding errors.
const TOLERANCE: f64 = 1e-9;

impl Choice<'_> {
    /// Returns the best path; `None` if there is no path.
    pub(super) fn best(&self, rng: &mut RandomStream, ends: Ends) -> Option<Path> {
        let count = self.dag.path_count(ends);
        if count == 0 {
            return None;
        }
        let mut found = Found { room: f64::NEG_INFINITY, cost: f64::INFINITY, ..Found::default() };
        let mut path = Vec::new();
        self.visit(rng, (ends, count), (ends.from, 0), (f64::INFINITY, 0.0), &mut path, &mut found);
        let is_as_good = |path: &&[LinkIx]| {
            let (room, cost) = self.lengths.room_and_cost(path);
            let is_candidate =
                self.dag.rank_of(ends, path).is_some_and(|rank| self.subset.meets(count, rank, rank + 1));
            is_candidate && !self.is_worse((room, cost), &found) && path.len() == found.path.len()
        };
        Some(self.current.filter(is_as_good).unwrap_or(&found.path).into())
    }

    fn visit(
        &self,
        rng: &mut RandomStream,
        pair: (Ends, u32),
        (at, mut rank): (net::NodeIx, u32),
        (room, cost): (f64, f64),
        path: &mut Vec<LinkIx>,
        found: &mut Found,
    ) {
        if self.is_worse((room, cost), found) {
            return;
        }
        let (ends, count) = pair;
        if at == self.dag.target(ends) {
            return self.finish(rng, (room, cost), path, found);
        }
        for hop in self.dag.hops(at, ends.to) {
            let far = self.dag.far(*hop);
            let first = rank;
            // Ranks matter only if some paths are left out.
            if count > self.subset.paths_max {
                rank = rank.saturating_add(self.dag.path_count(Ends { from: far, ..ends }));
                if !self.subset.meets(count, first, rank) {
                    continue;
                }
            }
            path.push(*hop);
            let (hop_room, hop_cost) = self.lengths.of_link(*hop);
            self.visit(rng, pair, (far, first), (room.min(hop_room), cost + hop_cost), path, found);
            path.pop();
        }
    }

    /// Returns whether a path or prefix cannot be among the best: its value only gets worse.
    fn is_worse(&self, (room, cost): (f64, f64), found: &Found) -> bool {
        let is_dearer = cost > found.cost * (1.0 + TOLERANCE);
        match self.aim {
            Aim::Room => room < found.room || (room == found.room && is_dearer),
            Aim::Cost => is_dearer,
        }
    }

    fn finish(&self, rng: &mut RandomStream, (room, cost): (f64, f64), path: &[LinkIx], found: &mut Found) {
        let is_cheaper = cost < found.cost * (1.0 - TOLERANCE);
        let is_better = match self.aim {
            Aim::Room => room > found.room || is_cheaper,
            Aim::Cost => is_cheaper,
        };
        found.ties = if is_better { 1 } else { found.ties + 1 };
        // Reservoir sampling: every one of the best is equally likely.
        if is_better || rng.next_below(found.ties) == 0 {
            found.path.clear();
            found.path.extend_from_slice(path);
        }
        if is_better {
            (found.room, found.cost) = (room, cost);
        }
    }
}
