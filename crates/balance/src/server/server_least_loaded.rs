//! Least loaded: the member with the fewest connections per core, or the shortest expected time of
//! a new one (mechanisms.md S04, least loaded).
//!
//! Readings: the reference does not define load. `by=cores`: `(connections + 1) / (cores x
//! weight)`, so a server with four cores gets four times the work of one with one. `by=time`: the
//! reported response time of one request, times the connections, as nginx's least_time: `response x
//! (connections + 1) / weight`; a member without a report counts as the fastest reporting one, so
//! that it is tried.
//!
//! - Helps: with servers of unequal size whose cores (or response times) are known.
//! - Hurts: where cores do not predict the duration of a request, as with large files.

use crate::entry::Entry;
use crate::params::Param;
use crate::server::ServerNeeds;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, TIES, by_rule, least};

const BY: Param = Param::choice("by", &["cores", "time"], "cores")
    .doc("Measure of load: connections per core, or connections times response time.");

pub(crate) static ENTRY: Entry = Entry::declare("server-least-loaded", "Least loaded")
    .summary("Gives each request to the member with the fewest connections per core, or the shortest expected time.")
    .source("S04 least loaded")
    .senses("connections, cores or response times")
    .params(&[PATH, TIES, HTP, DIRECTION, BY])
    .server(|_, params| match params.text(BY.name) {
        "time" => by_rule(ServerNeeds::REPORTS, params, |_, pending| {
            let known = pending.candidates.iter().filter_map(|member| member.stats.response);
            let fastest = known.min().map_or(1.0, |response| response.as_s_f64());
            least(pending.candidates, |member| {
                let response = member.stats.response.map_or(fastest, |response| response.as_s_f64());
                response * pending.connections.per_weight(member)
            })
        }),
        _ => by_rule(ServerNeeds::REPORTS, params, |_, Pending { candidates, connections, .. }| {
            least(candidates, |member| connections.per_weight(member) / member.stats.core_count())
        }),
    });

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::server::testing::Bench;

    #[test]
    fn four_cores_take_four_times_as_much() {
        let mut bench = Bench::new("server-least-loaded", &[1, 1]);
        bench.report(2, |stats| stats.cores = Some(4));
        assert_eq!(bench.hits(500), [100, 400]);
    }

    #[test]
    fn fast_member_takes_more_and_unknown_member_is_tried() {
        let mut bench = Bench::new("server-least-loaded:by=time", &[1, 1, 1]);
        bench.report(1, |stats| stats.response = Some(Time::from_ms(30)));
        bench.report(2, |stats| stats.response = Some(Time::from_ms(10)));
        assert_eq!(bench.hits(700), [100, 300, 300]);
    }
}
