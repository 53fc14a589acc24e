//! HT-PS: server and path together by throughput (mechanisms.md S01; MALOB's algorithm 2). Of the widest paths to all members,
//! the widest of all.
//!
//! Ties: fewer hops, then the lower number. Readings of throughput: see `parts/path.rs`.
//!
//! Pitfall: with `htp=available` and counters that are refreshed rarely, all who come between two refreshes take the same
//! path.
//!
//! - Helps: large answers over paths whose widths differ.
//! - Hurts: where counters are refreshed rarely: with `htp=available` all who come in between take the same path;
//!   busy processors are not seen.

use std::cmp::Reverse;

use net::Bandwidth;
use net::paths::Metric;

use crate::central::{NetworkView, Path};
use crate::dataplane::NO_NEEDS;
use crate::params::Params;
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::parts::path::{DIRECTION, HTP, Throughput};
use crate::server::{Choice, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerNeeds, Way, network};

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
        let edge = request.edge_in(view)?;
        let offered = |link| self.throughput.of(view, link);
        let widths = network::widths(view, edge, offered);
        // How wide the way to each is, and the greatest of all; then the fewest hops over links as wide as that.
        let mut ways: Vec<(Reverse<Bandwidth>, Way<'_>, MemberId)> = Vec::new();
        for member in pool.candidates(edge, view) {
            let Some(way) = Way::to(view, edge, member.place) else { continue };
            let width = match way.tail {
                None => widths.to(way.to),
                Some(_) => way.widest(offered).map(|(_, width)| Reverse(width)),
            };
            ways.extend(width.map(|width| (width, way, member.id)));
        }
        let widest = ways.iter().map(|(width, ..)| *width).min()?;
        let hops = network::hops(view, edge, |link| Reverse(offered(link)) <= widest);
        let mut best: Option<(usize, Way<'_>, MemberId)> = None;
        for (_, way, member) in ways.into_iter().filter(|(width, ..)| *width == widest) {
            let hops = match way.tail {
                None => hops.to(way.to),
                Some(_) => way.widest(offered).map(|(path, _)| path.len()),
            };
            if let Some(hops) = hops.filter(|hops| best.as_ref().is_none_or(|best| *hops < best.0)) {
                best = Some((hops, way, member));
            }
        }
        let (_, way, member) = best?;
        let is_wide = |link| Reverse(offered(link)) <= widest;
        Some(Choice { member, path: way.shortest(Metric::Hops, is_wide).map(Path::from) })
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        let way = Way::to(view, request.edge_in(view)?, member.place)?;
        way.widest(|link| self.throughput.of(view, link)).map(|(path, _)| path.into())
    }
}
