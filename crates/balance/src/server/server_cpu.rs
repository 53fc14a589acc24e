//! Least CPU: the member whose processors are least busy (mechanisms.md S01, CPU).
//!
//! A report sets a member's estimate and what one connection costs it: `impact = cpu / connections`. Whoever gets a request
//! is estimated higher by its impact at once, so that a burst between two reports spreads.
//!
//! Readings: CPU is a share of all cores, so a server with four cores has a quarter of the impact. Below 1 % busy, or
//! without connections, the last impact stays; it begins with `impact`. Weights do not count: capacity shows in CPU.
//!
//! Fallback: a member that has reported nothing, or not for too long, counts as the mean of those of whom something is
//! known, and rises from there with what it gets. Where nobody reports, requests are dealt out evenly.
//!
//! - Helps: with requests that cost processor time, and agents that report it.
//! - Hurts: where the network is what is short; without agents requests are just dealt out evenly.

use std::collections::BTreeMap;

use crate::dataplane::NO_NEEDS;
use crate::params::{Param, ParamKind, Params};
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::parts::path::{DIRECTION, HTP, PATH};
use crate::server::parts::server_first::{Picker, ServerFirst, least};
use crate::server::{Member, MemberId, Pool, Request, ServerCx, ServerNeeds};

const IMPACT: Param = Param {
    name: "impact",
    kind: ParamKind::Number { min: 0.0, max: 100.0 },
    default: "0.5",
    unit: "%",
    doc: "CPU one request is taken to cost, in percent of the whole member, until reports tell.",
};

/// Share of CPU below which F1 does not work out the cost of a connection.
const BUSY: f64 = 0.01;

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "server-cpu",
    title: "Least CPU",
    summary: "Gives each request to the member with the least CPU in use, counting what was given since the last report.",
    source: "S01 CPU; F1 (MALOB algorithm 3)",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "reported CPU and connections",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[PATH, HTP, DIRECTION, IMPACT],
    example: "server-cpu",
    needs: NO_NEEDS,
    build: Build::Server(|_, params| ServerFirst::boxed(LeastCpu::new(params), params)),
};

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
    fn new(params: &Params) -> LeastCpu {
        LeastCpu { first_impact: params.number(IMPACT.name) / 100.0, estimates: BTreeMap::new() }
    }

    fn estimate(&mut self, member: MemberId) -> &mut Estimate {
        if !self.estimates.contains_key(&member) {
            let sum: f64 = self.estimates.values().map(|estimate| estimate.cpu).sum();
            let cpu = sum / f64::max(self.estimates.len() as f64, 1.0);
            self.estimates.insert(member, Estimate { cpu, impact: self.first_impact });
        }
        self.estimates.get_mut(&member).expect("there is one by now")
    }
}

impl Picker for LeastCpu {
    const NEEDS: ServerNeeds = ServerNeeds { reports: true, bytes: false, link_load: false, latency: false };

    fn choose(&mut self, _: &mut ServerCx<'_>, _: &Request, _: &Pool, candidates: &[&Member]) -> usize {
        let chosen = least(candidates, |member| {
            let estimate = self.estimate(member.id);
            estimate.cpu + estimate.impact
        });
        let estimate = self.estimate(candidates[chosen].id);
        estimate.cpu += estimate.impact;
        chosen
    }

    fn reported(&mut self, member: &Member) {
        let Some(cpu) = member.facts.cpu else {
            self.estimates.remove(&member.id); // Too old, or not told: it counts for nothing.
            return;
        };
        let estimate = self.estimate(member.id);
        estimate.cpu = cpu;
        if let Some(connections) = member.facts.connections.filter(|count| *count > 0 && cpu > BUSY) {
            estimate.impact = cpu / f64::from(connections);
        }
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.estimates.retain(|member, _| pool.get(*member).is_some());
        let is_new = |member: &&Member| !self.estimates.contains_key(&member.id);
        let new: Vec<Member> = pool.members().iter().filter(is_new).copied().collect();
        new.iter().for_each(|member| self.reported(member));
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;
    use crate::server::{Choice, Facts, MemberId, Pool};

    fn report(bench: &mut Bench, id: u32, cpu: f64, connections: u32) {
        bench.report(id, |facts| {
            facts.cpu = Some(cpu);
            facts.connections = Some(connections);
        });
    }

    #[test]
    fn the_estimate_rises_by_the_impact_at_once() {
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
    fn a_report_that_has_become_too_old_is_forgotten_and_the_mean_of_the_others_counts() {
        let mut bench = Bench::new("server-cpu", &[1, 1, 1]);
        report(&mut bench, 1, 0.02, 1);
        report(&mut bench, 2, 0.50, 50);
        report(&mut bench, 3, 0.70, 50);
        assert_eq!(bench.pick(), 1);
        bench.report(1, |facts| *facts = Facts::default());
        // 60 % now: an agent that died does not bring its member everything, and an idle past does not either.
        assert_eq!(bench.picks(3), [2, 2, 2]);
        for id in [2, 3] {
            bench.report(id, |facts| *facts = Facts::default());
        }
        let mut picks = bench.picks(30);
        picks.sort_unstable();
        let of = |id: u32| picks.iter().filter(|picked| **picked == id).count();
        assert!([2, 3].iter().all(|id| of(*id) >= 9), "evenly, where nobody reports: {picks:?}");
    }

    #[test]
    fn connections_placed_by_others_do_not_count_and_a_reported_newcomer_does() {
        let mut bench = Bench::new("server-cpu", &[1, 1]);
        let request = bench.request();
        bench.balancer.placed(&request, &Choice { member: MemberId(1), path: None });
        assert_eq!(bench.pick(), 1);
        let mut newcomer = bench.pool.members()[0];
        newcomer.id = MemberId(9);
        newcomer.facts.cpu = Some(0.99);
        bench.pool = Pool::new(bench.pool.members().iter().copied().chain([newcomer]));
        bench.balancer.pool_changed(&bench.pool);
        assert!(!bench.picks(20).contains(&9));
    }
}
