//! SL-PS: server and path together by least latency (mechanisms.md S01; MALOB's algorithm 1). Of the least-latency paths to
//! all members, the one with the least latency of all.
//!
//! Ties: fewer hops, then the lower number. On F1's main topology it picks what HT-PS picks.
//!
//! - Helps: short answers over paths whose latencies differ.
//! - Hurts: where the nearest server is busy: it looks at paths alone.

use net::Time;
use net::paths::{self, Metric};

use crate::central::{NetworkView, Path};
use crate::dataplane::NO_NEEDS;
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::{Choice, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerNeeds, Way, network};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "sl-ps",
    title: "SL-PS",
    summary: "Picks server and path together: the member with the least latency over its least-latency path.",
    source: "S01 SL-PS; F1 (MALOB algorithm 1)",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "latencies of links",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[],
    example: "sl-ps",
    needs: NO_NEEDS,
    build: Build::Server(|_, _| Box::new(SlPs)),
};

struct SlPs;

impl ServerBalancer for SlPs {
    fn needs(&self) -> ServerNeeds {
        ServerNeeds { latency: true, ..ServerNeeds::default() }
    }

    fn pick(&mut self, _: &mut ServerCx<'_>, request: &Request, pool: &Pool, view: &NetworkView<'_>) -> Option<Choice> {
        let reach = network::latencies(view, request.edge_in(view)?);
        let mut best: Option<((Time, usize), Way<'_>, MemberId)> = None;
        for member in pool.candidates(request.edge, view) {
            let Some(way) = Way::to(view, request.edge, member.place) else { continue };
            let cost = if way.tail.is_none() { reach.to(way.to) } else { alone(view, &way) };
            if let Some(cost) = cost.filter(|cost| best.as_ref().is_none_or(|best| *cost < best.0)) {
                best = Some((cost, way, member.id));
            }
        }
        let (_, way, member) = best?;
        Some(Choice { member, path: way.shortest(Metric::Delay, |_| true).map(Path::from) })
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        Way::to(view, request.edge_in(view)?, member.place)?.shortest(Metric::Delay, |_| true).map(Path::from)
    }
}

/// The cost of an uplink, whose path must keep clear of its far end.
fn alone(view: &NetworkView<'_>, way: &Way<'_>) -> Option<(Time, usize)> {
    let path = way.shortest(Metric::Delay, |_| true)?;
    Some((paths::delay(view.topology, &path), path.len()))
}
