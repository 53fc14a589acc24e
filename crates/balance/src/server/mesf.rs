//! MESF, most efficient server first (mechanisms.md S05): servers are filled one after the other,
//! those with the lowest energy per task first, so that the others stay idle and could be switched
//! off.
//!
//! Power is `idle_w + cores x core_w x u` watts if the share `u` of a server's slots is taken; a
//! server has `slots` slots per core, its saturation point. Energy per task is compared at
//! saturation, as power per slot: the more tasks a server runs in parallel, the less its idle power
//! weighs. Equally efficient servers are ordered by utilisation, most loaded first, which is the
//! rule for homogeneous pools.
//!
//! Readings: a server whose expected completion is past `deadline` is skipped; the expectation is
//! its reported response time, scaled by the new number of connections over the number at the
//! report. If no server has a free slot, the least utilised one gets the request: a balancer does
//! not reject requests. Cores count, weights do not. The operator of the servers switches them off
//! after a time; this balancer leaves them empty.
//!
//! - Helps: saving energy at low load: servers are filled one after the other, the rest could
//!   sleep.
//! - Hurts: response times: used servers run at their `slots`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use net::Time;

use crate::entry::Entry;
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES, least};
use crate::server::{Member, MemberId, Pool, ServerCx, ServerNeeds};

const IDLE_W: Param = Param::number("idle_w", 0.0..=100_000.0, "100").unit("W").doc("Power of an idle server.");

const CORE_W: Param =
    Param::number("core_w", 0.0..=100_000.0, "25").unit("W").doc("Additional power of a fully used core.");

const SLOTS: Param =
    Param::count("slots", 1..=1_000_000, "8").doc("Simultaneous requests per core at which the server is saturated.");

const DEADLINE: Param =
    Param::duration("deadline", "0s").doc("Servers expected to take longer are skipped; 0 for no deadline.");

pub(crate) static ENTRY: Entry = Entry::declare("mesf", "MESF")
    .summary("Fills servers one after the other, the most energy-efficient first, up to their saturation.")
    .source("S05 most efficient server first")
    .senses("connections it placed, corrected by reports; cores")
    .params(&[PATH, TIES, HTP, DIRECTION, IDLE_W, CORE_W, SLOTS, DEADLINE])
    .server(|_, params| {
        let mesf = Mesf {
            idle_w: params.number(IDLE_W.name),
            core_w: params.number(CORE_W.name),
            slots_per_core: params.count(SLOTS.name) as f64,
            deadline: Some(params.duration(DEADLINE.name)).filter(|deadline| *deadline > Time::ZERO),
            responses: BTreeMap::new(),
        };
        ServerFirst::boxed(ServerNeeds::REPORTS, params, mesf)
    });

/// Returns the watts of a server with `cores` cores, each of `core_w` watts more if fully used, at
/// utilisation `u`, 0 to 1: `P_idle + (P_max - P_idle) u`.
fn power_w(idle_w: f64, core_w: f64, cores: f64, u: f64) -> f64 {
    idle_w + cores * core_w * u
}

/// Last reported response time of a member, and its number of connections at that time.
#[derive(Clone, Copy)]
struct Response {
    time: Time,
    connections: u32,
}

struct Mesf {
    idle_w: f64,
    core_w: f64,
    slots_per_core: f64,
    deadline: Option<Time>,
    responses: BTreeMap<MemberId, Response>,
}

impl Mesf {
    fn slots(&self, member: &Member) -> f64 {
        self.slots_per_core * member.stats.core_count()
    }

    /// Returns the share of its slots that `connections` take.
    fn fill(&self, member: &Member, connections: u32) -> f64 {
        f64::from(connections) / self.slots(member)
    }

    fn is_in_time(&self, member: &Member, connections: u32) -> bool {
        let (Some(deadline), Some(response)) = (self.deadline, self.responses.get(&member.id)) else { return true };
        let held = f64::from(response.connections.max(1));
        let would_hold = f64::from(connections) + 1.0;
        response.time.as_s_f64() * f64::max(1.0, would_hold / held) <= deadline.as_s_f64()
    }

    /// Returns the order of preference: power per slot at saturation, which is energy per task if
    /// tasks take equally long; then utilisation, highest first. The unit is billionths, for a
    /// total order.
    fn rank(&self, member: &Member, connections: u32) -> (u64, Reverse<u64>) {
        let per_slot = power_w(self.idle_w, self.core_w, member.stats.core_count(), 1.0) / self.slots(member);
        ((per_slot * 1e9) as u64, Reverse((self.fill(member, connections) * 1e9) as u64))
    }
}

impl Picker for Mesf {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let held = |member: &Member| pending.connections.of(member.id);
        let has_slot = |member: &Member| f64::from(held(member)) + 1.0 <= self.slots(member);
        let is_fitting = |member: &Member| has_slot(member) && self.is_in_time(member, held(member));
        let fitting = pending.candidates.iter().enumerate().filter(|(_, member)| is_fitting(member));
        let best = fitting.min_by_key(|(_, member)| self.rank(member, held(member)));
        let emptiest = || least(pending.candidates, |member| self.fill(member, held(member)));
        best.map_or_else(emptiest, |(position, _)| position)
    }

    fn reported(&mut self, member: &Member, connections: u32) {
        match member.stats.response {
            Some(time) => self.responses.insert(member.id, Response { time, connections }),
            None => self.responses.remove(&member.id),
        };
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.responses.retain(|member, _| pool.get(*member).is_some());
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    use super::*;

    fn with_cores(spec: &str, cores: &[u32]) -> Bench {
        let mut bench = Bench::new(spec, &vec![1; cores.len()]);
        for (cores, id) in cores.iter().zip(1..) {
            bench.report(id, |stats| stats.cores = Some(*cores));
        }
        bench
    }

    #[test]
    fn equal_servers_are_filled_one_after_the_other() {
        let mut bench = with_cores("mesf:slots=3", &[1, 1, 1]);
        let (requests, picked) = bench.placed(5);
        assert_eq!(picked, [1, 1, 1, 2, 2]);
        // Of 3, 2 and 0 connections 1, 2 and 0 remain.
        bench.end(&requests[0], 1, 1);
        bench.end(&requests[1], 1, 1);
        assert_eq!(bench.picks(4), [2, 1, 1, 3], "the fullest below saturation first");
    }

    #[test]
    fn larger_server_comes_first_and_full_pool_still_accepts() {
        let mut bench = with_cores("mesf:slots=2", &[1, 4]);
        assert_eq!(bench.picks(10), [2, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
        // All are saturated: lowest utilisation, 8 of 8 and 2 of 2, first wins; then 3 of 2.
        assert_eq!(bench.picks(3), [1, 2, 2]);
    }

    #[test]
    fn server_slower_than_deadline_is_skipped() {
        let mut bench = with_cores("mesf:slots=8,deadline=100ms", &[4, 1]);
        bench.report(1, |stats| {
            stats.connections = Some(2);
            stats.response = Some(Time::from_ms(60));
        });
        // With a third 90 ms are expected, with a fourth 120 ms.
        assert_eq!(bench.picks(3), [1, 2, 2]);
    }

    #[test]
    fn power_grows_from_idle_to_full() {
        assert_eq!([0.0, 0.5, 1.0].map(|u| power_w(100.0, 25.0, 4.0, u)), [100.0, 150.0, 200.0]);
    }
}
