//! Least connections: the member with the fewest connections (mechanisms.md S01 LC, S04).
//!
//! Readings: the controller increments the count when it places a connection, and decrements it at
//! the end; an agent's report replaces the count. With weights: fewest `(connections + 1) /
//! weight`, which is the shortest expected delay; with equal weights that is plain LC. Ties: lowest
//! number, as in F1.
//!
//! - Helps: with long connections of different duration.
//! - Hurts: where similar connections cause different loads.

use crate::entry::Entry;
use crate::server::ServerNeeds;
use crate::server::common::{DIRECTION, HTP, PATH, TIES, by_rule, least};

pub(crate) static ENTRY: Entry = Entry::declare("server-lc", "Least connections")
    .summary("Gives each request to the member with the fewest connections per weight.")
    .source("S01 LC, S04; F1")
    .senses("connections it placed, corrected by reports")
    .params(&[PATH, TIES, HTP, DIRECTION])
    .server(|_, params| {
        by_rule(ServerNeeds::REPORTS, params, |_, pending| {
            least(pending.candidates, |member| pending.connections.per_weight(member))
        })
    });

#[cfg(test)]
mod tests {
    use crate::server::ServerStats;
    use crate::server::testing::Bench;

    #[test]
    fn count_rises_on_placement_falls_on_end_and_reports_replace_it() {
        let mut bench = Bench::new("server-lc", &[1, 1, 1]);
        let (requests, picked) = bench.placed(3);
        assert_eq!(picked, [1, 2, 3], "a burst spreads, ties to the lowest");
        bench.end(&requests[1], 2, 100);
        assert_eq!(bench.picks(2), [2, 1]);
        // Now 2, 1, 1. The agents report other connections.
        bench.report(1, |stats| stats.connections = Some(0));
        bench.report(3, |stats| stats.connections = Some(7));
        assert_eq!(bench.picks(4), [1, 1, 2, 1]);
        bench.report(2, |stats| stats.connections = None);
        assert_eq!(bench.picks(1), [2], "a report without a count leaves it");
    }

    #[test]
    fn weights_divide_and_new_member_starts_with_reported_count() {
        let mut bench = Bench::new("server-lc", &[1, 3]);
        assert_eq!(bench.picks(8), [2, 2, 1, 2, 2, 2, 1, 2]);
        bench.join(ServerStats { connections: Some(5), ..ServerStats::default() });
        assert!(!bench.picks(8).contains(&9), "it has most");
    }
}
