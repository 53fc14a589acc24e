//! SL-PS: server and path together by least latency (mechanisms.md S01; MALOB's algorithm 1). Of the least-latency paths to
//! all members, the one with the least latency of all.
//!
//! Ties: fewer hops, then the lower number. On F1's main topology it picks what HT-PS picks.

use net::Time;

use crate::central::{NetworkView, Path};
use crate::dataplane::NO_NEEDS;
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::parts::path::lowest_latency;
use crate::server::{Choice, Pool, Request, ServerBalancer, ServerCx, ServerNeeds};

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
        let mut best: Option<(Time, usize, Choice)> = None;
        for member in pool.candidates(request.edge, view) {
            let Some((latency, path)) = lowest_latency(view, request, member) else { continue };
            let hops = path.len();
            if best.as_ref().is_none_or(|best| (latency, hops) < (best.0, best.1)) {
                best = Some((latency, hops, Choice { member: member.id, path: Some(Path::from(path)) }));
            }
        }
        best.map(|best| best.2)
    }
}
