//! SL-PS: server and path together by latency (mechanisms.md S01; MALOB's algorithm 1). Of the
//! paths of lowest latency to all members, it takes the lowest.
//!
//! Ties: fewer hops, then the lower number. On F1's main topology it picks what HT-PS picks.
//!
//! - Helps: with short responses over paths of different latency.
//! - Hurts: where the nearest server is busy: it considers paths alone.

use net::Time;
use net::paths::{self, Metric};

use crate::central::{NetworkView, Path};
use crate::entry::Entry;
use crate::server::{Choice, Member, MemberRoute, Pool, Request, ServerBalancer, ServerCx, ServerNeeds, network};

pub(crate) static ENTRY: Entry = Entry::declare("sl-ps", "SL-PS")
    .summary("Picks server and path together: the member with the lowest latency over its lowest-latency path.")
    .source("S01 SL-PS; F1 (MALOB algorithm 1)")
    .senses("latencies of links")
    .server(|_, _| Box::new(SlPs));

struct SlPs;

impl ServerBalancer for SlPs {
    fn needs(&self) -> ServerNeeds {
        ServerNeeds { latency: true, ..ServerNeeds::default() }
    }

    fn pick(&mut self, _: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>) -> Option<Choice> {
        let reach = network::latencies(view, request.edge_in(view)?);
        let routes = pool.candidates(request.edge, view).into_iter().filter_map(|member| {
            let route = MemberRoute::to(view, request.edge, member.place)?;
            let cost = if route.tail.is_none() { reach.to(route.to) } else { alone(view, &route) };
            Some((cost?, route, member.id))
        });
        let (_, route, member) = routes.min_by_key(|(cost, ..)| *cost)?;
        Some(Choice { member, path: route.shortest(Metric::Delay, |_| true).map(Path::from) })
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        MemberRoute::to(view, request.edge_in(view)?, member.place)?.shortest(Metric::Delay, |_| true).map(Path::from)
    }
}

/// Returns the cost of an uplink, whose path must avoid its far end.
fn alone(view: &NetworkView<'_>, route: &MemberRoute<'_>) -> Option<(Time, usize)> {
    let path = route.shortest(Metric::Delay, |_| true)?;
    Some((paths::delay(view.topology, &path), path.len()))
}
