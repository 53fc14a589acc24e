//! HT-PS: server and path together by throughput (mechanisms.md S01; MALOB's algorithm 2). Of the widest paths to all members,
//! the widest of all.
//!
//! Ties: fewer hops, then the lower number. Readings of throughput: see `parts/path.rs`.
//!
//! Pitfall: with `htp=available` and counters that are refreshed rarely, all who come between two refreshes take the same
//! path.

use std::cmp::Reverse;

use net::Bandwidth;

use crate::central::{NetworkView, Path};
use crate::dataplane::NO_NEEDS;
use crate::params::Params;
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::parts::path::{DIRECTION, HTP, Throughput};
use crate::server::{Choice, Pool, Request, ServerBalancer, ServerCx, ServerNeeds, Way};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "ht-ps",
    title: "HT-PS",
    summary: "Picks server and path together: the member whose widest path offers the most throughput.",
    source: "S01 HT-PS; F1 (MALOB algorithm 2)",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "capacities and load of links",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[HTP, DIRECTION],
    example: "ht-ps",
    needs: NO_NEEDS,
    build: Build::Server(|_, params| Box::new(HtPs::new(params))),
};

struct HtPs {
    throughput: Throughput,
}

impl HtPs {
    fn new(params: &Params) -> HtPs {
        HtPs { throughput: Throughput::new(params) }
    }
}

impl ServerBalancer for HtPs {
    fn needs(&self) -> ServerNeeds {
        self.throughput.needs()
    }

    fn pick(&mut self, _: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>) -> Option<Choice> {
        let mut best: Option<(Reverse<Bandwidth>, usize, Choice)> = None;
        for member in pool.candidates(request.edge, view) {
            let Some(way) = Way::to(view, request.edge, member.place) else { continue };
            let Some((path, width)) = way.widest(|link| self.throughput.of(view, link)) else { continue };
            let (width, hops) = (Reverse(width), path.len());
            if best.as_ref().is_none_or(|best| (width, hops) < (best.0, best.1)) {
                best = Some((width, hops, Choice { member: member.id, path: Some(Path::from(path)) }));
            }
        }
        best.map(|best| best.2)
    }
}
