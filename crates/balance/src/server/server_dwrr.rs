//! Dynamic weighted round robin: smooth weighted round robin whose weights are the inverse of each
//! member's load, updated every period (mechanisms.md S04, DWRR).
//!
//! Readings: the given weight is divided by the load. A load below `floor` of the maximum counts as
//! that value, so that an idle member does not get everything for a period. A member without
//! statistics has the mean load of the others.
//!
//! - Helps: with servers of unknown strength whose agents report load.
//! - Hurts: where load changes faster than the period.

use crate::entry::Entry;
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, SmoothWrr, TIES};
use crate::server::{Member, MemberId, Pool, ServerCx, ServerNeeds, ServerStats};
use net::Time;
use std::collections::BTreeMap;

const PERIOD: Param =
    Param::duration("period", "5s").doc("Time between updates of the weights; F1's agents report every 5 s.");

const LOAD: Param = Param::choice("load", &["cpu", "connections", "response"], "cpu")
    .doc("Measure of load: share of CPU, connections per core, or response time.");

const FLOOR: Param =
    Param::number("floor", 0.001..=1.0, "0.1").doc("Minimum load that counts, as a share of the maximum in the pool.");

pub(crate) static ENTRY: Entry = Entry::declare("server-dwrr", "Dynamic weighted round robin (servers)")
    .summary("Weighted round robin whose weights fall with the load that members report.")
    .source("S04 DWRR")
    .senses("reported CPU, connections or response times")
    .params(&[PATH, TIES, HTP, DIRECTION, PERIOD, LOAD, FLOOR])
    .server(|_, params| {
        let load_of: fn(&ServerStats) -> Option<f64> = match params.text(LOAD.name) {
            "connections" => |stats| stats.connections.map(|count| f64::from(count) / stats.core_count()),
            "response" => |stats| stats.response.map(|response| response.as_s_f64()),
            _ => |stats| stats.cpu,
        };
        let (floor, period) = (params.number(FLOOR.name), params.duration(PERIOD.name));
        let dynamic =
            Dynamic { load_of, floor, period, refreshed: None, weights: BTreeMap::new(), turns: SmoothWrr::default() };
        ServerFirst::boxed(ServerNeeds::REPORTS, params, dynamic)
    });

struct Dynamic {
    load_of: fn(&ServerStats) -> Option<f64>,
    floor: f64,
    period: Time,
    refreshed: Option<Time>,
    weights: BTreeMap<MemberId, f64>,
    turns: SmoothWrr,
}

impl Dynamic {
    fn refresh(&mut self, pool: &Pool) {
        let loads: Vec<Option<f64>> = pool.members().iter().map(|member| (self.load_of)(&member.stats)).collect();
        let known = loads.iter().flatten();
        let (count, sum) = known.clone().fold((0.0, 0.0), |(count, sum), load| (count + 1.0, sum + load));
        let greatest = known.copied().fold(0.0, f64::max);
        let weight = |member: &Member, load: Option<f64>| {
            let load = load.unwrap_or(sum / f64::max(count, 1.0)).max(self.floor * greatest);
            // If all are idle or unknown, all count alike.
            let share = if greatest > 0.0 { load / greatest } else { 1.0 };
            (member.id, f64::from(member.weight) / share)
        };
        self.weights = pool.members().iter().zip(loads).map(|(member, load)| weight(member, load)).collect();
    }
}

impl Picker for Dynamic {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let Pending { request, pool, candidates, .. } = *pending;
        let is_due = self.refreshed.is_none_or(|last| request.at >= last.saturating_add(self.period));
        if is_due || candidates.iter().any(|member| !self.weights.contains_key(&member.id)) {
            self.refresh(pool);
            self.refreshed = Some(request.at);
        }
        self.turns.next(candidates, |member| self.weights.get(&member.id).copied().unwrap_or(1.0))
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.turns.pool_changed(pool);
        self.refreshed = None;
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::server::testing::Bench;

    #[test]
    fn weights_are_the_inverse_of_load_and_hold_for_a_period() {
        let mut bench = Bench::new("server-dwrr", &[1, 1, 2]);
        assert_eq!(bench.hits(400), [100, 100, 200], "as given while nothing is known");
        bench.report(1, |stats| stats.cpu = Some(0.2));
        bench.report(2, |stats| stats.cpu = Some(0.8));
        bench.report(3, |stats| stats.cpu = Some(0.4));
        assert_eq!(bench.hits(400), [100, 100, 200], "the period is not over");
        bench.wait(Time::from_s(5));
        // 1/0.2 : 1/0.8 : 2/0.4 = 4 : 1 : 4.
        assert_eq!(bench.hits(900), [400, 100, 400]);
    }

    #[test]
    fn idle_member_is_bounded_and_unknown_member_counts_as_mean() {
        let mut bench = Bench::new("server-dwrr:load=connections", &[1, 1, 1]);
        bench.report(1, |stats| stats.connections = Some(0));
        bench.report(2, |stats| {
            stats.connections = Some(40);
            stats.cores = Some(4);
        });
        // Loads 0, 10, unknown: counted as 1, 10 and 5, so 10 : 1 : 2.
        assert_eq!(bench.hits(1300), [1000, 100, 200]);
    }
}
