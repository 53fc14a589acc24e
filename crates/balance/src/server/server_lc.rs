//! Least connections: the member with the fewest connections (mechanisms.md S01 LC, S04).
//!
//! Readings: the controller counts one more at once when it places one, and one less when it ends; an agent's report
//! replaces the count. With weights: fewest `(connections + 1) / weight`, which is the shortest expected delay; with equal
//! weights that is plain LC. Ties: lowest number, as in F1.
//!
//! Pitfall: connections differ in what they cost.
//!
//! - Helps: with connections that last, and differ in how long.
//! - Hurts: where connections that look alike cost differently.

use crate::dataplane::NO_NEEDS;
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::parts::connections::{ByConnections, Connections, Counting};
use crate::server::parts::path::{DIRECTION, HTP, PATH};
use crate::server::parts::server_first::least;
use crate::server::{Member, ServerCx};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "server-lc",
    title: "Least connections",
    summary: "Gives each request to the member with the fewest connections per weight.",
    source: "S01 LC, S04; F1",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "connections it placed, corrected by reports",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[PATH, HTP, DIRECTION],
    example: "server-lc",
    needs: NO_NEEDS,
    build: Build::Server(|_, params| Counting::boxed(LeastConnections, params)),
};

struct LeastConnections;

impl ByConnections for LeastConnections {
    fn choose(&self, _: &mut ServerCx<'_>, candidates: &[&Member], connections: &Connections) -> usize {
        least(candidates, |member| connections.per_weight(member))
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;
    use crate::server::{MemberId, Pool};

    #[test]
    fn the_count_rises_at_once_falls_at_the_end_and_is_replaced_by_reports() {
        let mut bench = Bench::new("server-lc", &[1, 1, 1]);
        let requests: Vec<_> = (0..3).map(|_| bench.request()).collect();
        let picked: Vec<_> = requests.iter().map(|request| bench.pick_for(request).unwrap().member.0).collect();
        assert_eq!(picked, [1, 2, 3], "a burst spreads, ties to the lowest");
        bench.end(&requests[1], 2, 100);
        assert_eq!(bench.picks(2), [2, 1]);
        // Now 2, 1, 1. The agents know of other connections.
        bench.report(1, |facts| facts.connections = Some(0));
        bench.report(3, |facts| facts.connections = Some(7));
        assert_eq!(bench.picks(4), [1, 1, 2, 1]);
        bench.report(2, |facts| facts.connections = None);
        assert_eq!(bench.picks(1), [2], "a report without a count leaves it");
    }

    #[test]
    fn weights_divide_and_a_newcomer_starts_with_what_it_reported() {
        let mut bench = Bench::new("server-lc", &[1, 3]);
        assert_eq!(bench.picks(8), [2, 2, 1, 2, 2, 2, 1, 2]);
        let mut newcomer = bench.pool.members()[0];
        newcomer.id = MemberId(9);
        newcomer.facts.connections = Some(5);
        bench.pool = Pool::new(bench.pool.members().iter().copied().chain([newcomer]));
        bench.balancer.pool_changed(&bench.pool);
        assert!(!bench.picks(8).contains(&9), "it has most");
    }
}
