//! HT-PS: server and path together by throughput (mechanisms.md S01; MALOB's algorithm 2). It takes
//! the widest of the widest paths to all members.
//!
//! Ties: fewer hops, then the lower number. Readings of throughput: see `common/path.rs`.
//!
//! - Helps: with large responses over paths of different widths.
//! - Hurts: where counters are refreshed rarely: with `htp=available` all connections in between
//!   take the same path; busy processors are ignored.

use std::cmp::Reverse;

use net::paths::Metric;

use crate::central::{NetworkView, Path};
use crate::entry::Entry;
use crate::server::common::{DIRECTION, HTP, Throughput};
use crate::server::{Choice, Member, MemberRoute, Pool, Request, ServerBalancer, ServerCx, ServerNeeds, network};

pub(crate) static ENTRY: Entry = Entry::declare("ht-ps", "HT-PS")
    .summary("Picks server and path together: the member whose widest path offers the most throughput.")
    .source("S01 HT-PS; F1 (MALOB algorithm 2)")
    .senses("capacities and load of links")
    .params(&[HTP, DIRECTION])
    .server(|_, params| Box::new(HtPs { throughput: Throughput::new(params) }));

struct HtPs {
    throughput: Throughput,
}

impl ServerBalancer for HtPs {
    fn needs(&self) -> ServerNeeds {
        self.throughput.needs()
    }

    fn pick(&mut self, _: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>) -> Option<Choice> {
        let edge = request.edge_in(view)?;
        let offered = |link| self.throughput.of(view, link);
        let widths = network::widths(view, edge, offered);
        // The maximum width of a path to any member; then the fewest hops over such links.
        let with_width = pool.candidates(edge, view).into_iter().filter_map(|member| {
            let route = MemberRoute::to(view, edge, member.place)?;
            let width = match route.tail {
                None => widths.to(route.to),
                Some(_) => route.widest(offered).map(|(_, width)| Reverse(width)),
            };
            Some((width?, route, member.id))
        });
        let routes: Vec<_> = with_width.collect();
        let widest = routes.iter().map(|(width, ..)| *width).min()?;
        let hops = network::hops(view, edge, |link| Reverse(offered(link)) <= widest);
        let with_hops = routes.into_iter().filter(|(width, ..)| *width == widest).filter_map(|(_, route, member)| {
            let hops = match route.tail {
                None => hops.to(route.to),
                Some(_) => route.widest(offered).map(|(path, _)| path.len()),
            };
            Some((hops?, route, member))
        });
        let (_, route, member) = with_hops.min_by_key(|(hops, ..)| *hops)?;
        let is_wide = |link| Reverse(offered(link)) <= widest;
        Some(Choice { member, path: route.shortest(Metric::Hops, is_wide).map(Path::from) })
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        let route = MemberRoute::to(view, request.edge_in(view)?, member.place)?;
        route.widest(|link| self.throughput.of(view, link)).map(|(path, _)| path.into())
    }
}
