//! Least CPU: the member whose processors are least busy (mechanisms.md S01, CPU).
//!
//! A report sets a member's estimate and the CPU of one connection: `impact = cpu / connections`.
//! Each request immediately raises the estimate of its member by the impact, so that a burst
//! between two reports spreads.
//!
//! Readings: CPU is a share of all cores, so a server with four cores has a quarter of the impact.
//! Below 1 % busy, or without connections, the last impact stays; it begins with `impact`. Weights
//! do not count: CPU reflects capacity.
//!
//! Fallback: a member without a current report counts as the mean of the members with one, and
//! rises from there with its requests. If no member reports, requests are distributed evenly.
//!
//! - Helps: with requests that use processor time, and agents that report it.
//! - Hurts: where the network is the bottleneck; without agents requests are only distributed
//!   evenly.

use std::collections::BTreeMap;

use crate::entry::Entry;
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES, least};
use crate::server::{Member, MemberId, Pool, ServerCx, ServerNeeds};

const IMPACT: Param = Param::number("impact", 0.0..=100.0, "0.5")
    .unit("%")
    .doc("Assumed CPU of one request, in percent of the whole member, until the first report.");

/// Share of CPU below which F1 does not compute the impact of a connection.
const BUSY: f64 = 0.01;

pub(crate) static ENTRY: Entry = Entry::declare("server-cpu", "Least CPU")
    .summary("Gives each request to the member with the least CPU in use, counting requests since the last report.")
    .source("S01 CPU; F1 (MALOB algorithm 3)")
    .senses("reported CPU and connections")
    .params(&[PATH, TIES, HTP, DIRECTION, IMPACT])
    .server(|_, params| {
        let first_impact = params.number(IMPACT.name) / 100.0;
        ServerFirst::boxed(ServerNeeds::REPORTS, params, LeastCpu { first_impact, estimates: BTreeMap::new() })
    });

#[derive(Clone, Copy)]
struct Estimate {
    cpu: f64,
    impact: f64,
}

struct LeastCpu {
    first_impact: f64,
    estimates: BTreeMap<MemberId, Estimate>,
}

impl LeastCpu {
    fn estimate(&mut self, member: MemberId) -> &mut Estimate {
        if !self.estimates.contains_key(&member) {
            let sum: f64 = self.estimates.values().map(|estimate| estimate.cpu).sum();
            let cpu = sum / f64::max(self.estimates.len() as f64, 1.0);
            self.estimates.insert(member, Estimate { cpu, impact: self.first_impact });
        }
        self.estimates.get_mut(&member).expect("inserted above")
    }
}

impl Picker for LeastCpu {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let chosen = least(pending.candidates, |member| {
            let estimate = self.estimate(member.id);
            estimate.cpu + estimate.impact
        });
        let estimate = self.estimate(pending.candidates[chosen].id);
        estimate.cpu += estimate.impact;
        chosen
    }

    fn reported(&mut self, member: &Member, _: u32) {
        let Some(cpu) = member.stats.cpu else {
            self.estimates.remove(&member.id); // The report has expired or is missing: the member has no estimate.
            return;
        };
        let estimate = self.estimate(member.id);
        estimate.cpu = cpu;
        if let Some(connections) = member.stats.connections.filter(|count| *count > 0 && cpu > BUSY) {
            estimate.impact = cpu / f64::from(connections);
        }
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.estimates.retain(|member, _| pool.get(*member).is_some());
        for member in pool.members() {
            if !self.estimates.contains_key(&member.id) {
                self.reported(member, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;
    use crate::server::{Choice, MemberId, ServerStats};

    fn report(bench: &mut Bench, id: u32, cpu: f64, connections: u32) {
        bench.report(id, |stats| {
            stats.cpu = Some(cpu);
            stats.connections = Some(connections);
        });
    }

    #[test]
    fn estimate_rises_immediately_by_impact() {
        let mut bench = Bench::new("server-cpu", &[1, 1]);
        // 10 % with 2 connections: 5 points each. 20 % with 10: 2 points each.
        report(&mut bench, 1, 0.10, 2);
        report(&mut bench, 2, 0.20, 10);
        // 15 < 22, 20 < 22, then 25 > 22: 22, then 24 (< 25), then 25 < 26 ...
        assert_eq!(bench.picks(5), [1, 1, 2, 2, 1]);
        report(&mut bench, 1, 0.90, 30);
        assert_eq!(bench.picks(3), [2, 2, 2], "a report sets the estimate");
    }

    #[test]
    fn below_one_percent_the_impact_stays() {
        let mut bench = Bench::new("server-cpu:impact=0.5", &[1, 1]);
        report(&mut bench, 1, 0.005, 50);
        report(&mut bench, 2, 0.0, 0);
        // Estimates 0.5 % and 0 %, both rising by half a point: turns begin with the second.
        assert_eq!(bench.picks(5), [2, 1, 2, 1, 2]);
    }

    #[test]
    fn expired_report_is_replaced_by_mean_of_others() {
        let mut bench = Bench::new("server-cpu", &[1, 1, 1]);
        report(&mut bench, 1, 0.02, 1);
        report(&mut bench, 2, 0.50, 50);
        report(&mut bench, 3, 0.70, 50);
        assert_eq!(bench.pick(), 1);
        bench.report(1, |stats| *stats = ServerStats::default());
        // 60 % now: a failed agent's member gets neither all requests nor credit for its idle past.
        assert_eq!(bench.picks(3), [2, 2, 2]);
        for id in [2, 3] {
            bench.report(id, |stats| *stats = ServerStats::default());
        }
        let hits: [usize; 3] = bench.hits(30);
        assert!(hits[1] >= 9 && hits[2] >= 9, "evenly, if no member reports: {hits:?}");
    }

    #[test]
    fn connections_placed_by_others_do_not_count_and_a_reported_newcomer_does() {
        let mut bench = Bench::new("server-cpu", &[1, 1]);
        let request = bench.request();
        bench.balancer.on_placed(&request, &Choice { member: MemberId(1), path: None });
        assert_eq!(bench.pick(), 1);
        bench.join(ServerStats { cpu: Some(0.99), ..ServerStats::default() });
        assert!(!bench.picks(20).contains(&9));
    }
}
