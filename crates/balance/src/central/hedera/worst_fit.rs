//! F0's placement (mechanisms.md P08.4): no estimates and no reservations. Each large flow moves
//! once, to the path with the most room on its narrowest link according to port counters.
//!
//! Readings: the paths are the equal-cost ones; among equals the first is taken, or with
//! `ties=random` one is drawn (F0's program reads paths and loads from hash maps, whose order is
//! unknown). In that case, paths are equal if their rooms differ by less than a thousandth, which
//! exceeds the traffic of discovery. With `reservation`, the measured rates of a round's flows are
//! first subtracted from the links they leave, if these are known (default routes with single
//! paths), and then added to their new links, one by one.

use std::collections::BTreeSet;

use net::LinkIx;

use super::Large;
use crate::central::common::{Dag, Ends, Search, rate_of, read_loads};
use crate::central::{CentralCx, Path, Pin, Placements};

#[derive(Clone, Copy)]
pub(super) struct WorstFitOptions {
    /// Whether moved flows are counted on their new links.
    pub reserves_moved: bool,
    /// Whether flows that were not moved take the lowest port at every tie.
    pub is_default_spt: bool,
    /// Whether one of the paths with the most room is drawn, rather than the first taken.
    pub are_ties_drawn: bool,
    /// Whether a round moves one flow for each pair of edge switches, rather than all.
    pub is_one_per_pair: bool,
}

/// Widths closer than this share of the larger one are equal.
const TIE: f64 = 1e-3;

/// Runs one round. `used` is working memory: bits per second by link.
pub(super) fn place(
    cx: &mut CentralCx<'_>,
    search: &mut Search,
    large: &[Large],
    options: WorstFitOptions,
    used: &mut Vec<f64>,
    placements: &mut Placements,
) {
    let view = cx.view;
    read_loads(view, used);
    let dag = Dag::new(view);
    let is_free = |large: &&Large, placements: &Placements| {
        placements.pin_of(large.flow).is_none() && dag.path_count(large.ends) > 0
    };
    if options.reserves_moved && options.is_default_spt {
        for large in large.iter().filter(|large| is_free(large, placements)) {
            // The path of rank 0 is that of the lowest ports.
            dag.walk(large.ends, 0, |link| used[link.ix()] = (used[link.ix()] - large.rate).max(0.0));
        }
    }
    let mut moved: BTreeSet<Ends> = BTreeSet::new();
    for large in large {
        if options.is_one_per_pair && moved.contains(&large.ends) {
            continue;
        }
        if !is_free(&large, placements) {
            continue;
        }
        let room = |link: LinkIx| rate_of(view, link) - used[link.ix()];
        let Some(width) = search.widest(dag, large.ends, room) else { continue };
        if options.are_ties_drawn {
            let least = width - TIE * width.abs();
            if !search.any_fit(dag, large.ends, cx.rng, |link| room(link) >= least) {
                continue;
            }
        }
        let path: Path = search.found().into();
        if options.reserves_moved {
            path.iter().for_each(|link| used[link.ix()] += large.rate);
        }
        moved.insert(large.ends);
        placements.pin(large.flow, Pin { path, rate: None });
    }
}
