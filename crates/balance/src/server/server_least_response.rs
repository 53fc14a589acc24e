//! Least response time, the layer-7 method: the member with the smallest product of response time
//! and connections (F0, section 3.1; NetScaler's "least response time").
//!
//! The product is NetScaler's: `N = active transactions x time to first byte / weight`, ties in
//! turn, so a member without connections comes first. NGINX Plus (`least_time`) documents the same
//! two inputs but not how it combines them, and HAProxy has no such method. `factor=next` counts
//! the new request too, so that the product estimates its duration; `factor=none` compares response
//! times alone.
//!
//! The response time is an exponentially weighted moving average of measurements: `average += gain
//! x (measurement - average)`. If the pool has an HTTP health check, the controller measures: from
//! the request of a check to the first byte of the response. Otherwise reports of agents count:
//! the mean of the requests that the server completed since the last report (simulator), or the
//! agent's own request (`anabranch agent --http`). One pool uses one kind, since the controller's
//! measurement includes the network. A content-aware proxy measures every response that it relays.
//!
//! Reading: a member without a measurement counts as the fastest one, so that it is tried.
//!
//! - Helps: with servers of unequal speed, where connections or processor load do not show how long
//!   a request takes.
//! - Hurts: with few requests: members without connections get them in turn, fast or slow
//!   (`factor=next` does not). With `factor=none`, all requests between two measurements go to one
//!   member.

use std::collections::{BTreeMap, BTreeSet};

use net::Time;

use crate::entry::Entry;
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES};
use crate::server::{Choice, Member, MemberId, Pool, Request, ServerCx, ServerNeeds};

const FACTOR: Param = Param::choice("factor", &["active", "next", "none"], "active")
    .doc("Factor of the response time: active connections, these and the new one, or none.");

const GAIN: Param =
    Param::number("gain", 0.001..=1.0, "0.5").doc("Weight of a new measurement in the average; 1 uses only the last.");

pub(crate) static ENTRY: Entry = Entry::declare("server-least-response", "Least response time")
    .summary("Gives each request to the member with the least product of response time and active connections.")
    .source("F0, section 3.1 (layer 7); NetScaler, least response time")
    .senses("response times over HTTP, connections")
    .params(&[PATH, TIES, HTP, DIRECTION, FACTOR, GAIN])
    .server(|_, params| {
        let factor = match params.text(FACTOR.name) {
            "next" => Factor::Next,
            "none" => Factor::None,
            _ => Factor::Active,
        };
        let picker = LeastResponse { factor, gain: params.number(GAIN.name), ..LeastResponse::default() };
        ServerFirst::boxed(ServerNeeds::REPORTS, params, picker)
    });

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Factor {
    #[default]
    Active,
    Next,
    None,
}

#[derive(Default)]
struct LeastResponse {
    factor: Factor,
    gain: f64,
    /// Average response times in seconds; without a measurement a member has none.
    averages: BTreeMap<MemberId, f64>,
    /// Members that health checks or a proxy measure; their reports do not count.
    measured: BTreeSet<MemberId>,
    last: Option<MemberId>,
}

impl LeastResponse {
    fn sample(&mut self, member: MemberId, response: Time) {
        let (sample, gain) = (response.as_s_f64(), self.gain);
        self.averages.entry(member).and_modify(|average| *average += gain * (sample - *average)).or_insert(sample);
    }

    fn score(&self, member: &Member, fastest: f64, connections: u32) -> f64 {
        let response = self.averages.get(&member.id).copied().unwrap_or(fastest);
        let factor = match self.factor {
            Factor::Active => f64::from(connections),
            Factor::Next => f64::from(connections) + 1.0,
            Factor::None => 1.0,
        };
        response * factor / f64::from(member.weight)
    }
}

impl Picker for LeastResponse {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let known = pending.candidates.iter().filter_map(|member| self.averages.get(&member.id));
        let fastest = known.copied().min_by(f64::total_cmp).unwrap_or(1.0);
        let scores: Vec<f64> = pending
            .candidates
            .iter()
            .map(|member| self.score(member, fastest, pending.connections.of(member.id)))
            .collect();
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let mut tied = (0..scores.len()).filter(|place| scores[*place] == least);
        let first = tied.clone().next().unwrap_or(0);
        let is_after_last = |place: &usize| self.last.is_some_and(|last| pending.candidates[*place].id > last);
        tied.find(is_after_last).unwrap_or(first)
    }

    fn placed(&mut self, _: &Request, choice: &Choice, _: u32) {
        self.last = Some(choice.member);
    }

    fn reported(&mut self, member: &Member, _: u32) {
        match member.stats.response {
            _ if self.measured.contains(&member.id) => {}
            Some(response) => self.sample(member.id, response),
            // The report has expired; a report without requests leaves the average.
            None if member.stats.at.is_none() => drop(self.averages.remove(&member.id)),
            None => {}
        }
    }

    fn responded(&mut self, member: &Member, response: Time) {
        if self.measured.insert(member.id) {
            self.averages.remove(&member.id);
        }
        self.sample(member.id, response);
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.averages.retain(|member, _| pool.get(*member).is_some());
        self.measured.retain(|member| pool.get(*member).is_some());
        for member in pool.members() {
            if !self.averages.contains_key(&member.id) {
                self.reported(member, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::server::testing::Bench;
    use crate::server::{MemberId, ServerStats};

    /// NetScaler's worked example ("Least response time method"): three services with 3, 7 and 0
    /// active transactions, and times to the first byte of 2, 1 and 2 s.
    #[test]
    fn requests_follow_the_example_of_netscaler() {
        let mut bench = Bench::new("server-least-response", &[1, 1, 1]);
        for (id, connections, seconds) in [(1, 3, 2), (2, 7, 1), (3, 0, 2)] {
            bench.report(id, |stats| {
                (stats.connections, stats.response) = (Some(connections), Some(Time::from_s(seconds)));
            });
        }
        assert_eq!(bench.picks(6), [3, 3, 3, 1, 3, 2]);
    }

    #[test]
    fn weights_divide_and_ties_take_turns() {
        let mut bench = Bench::new("server-least-response:factor=next", &[1, 1]);
        assert_eq!(bench.picks(4), [1, 2, 1, 2], "without measurements by connections");
        let mut bench = Bench::new("server-least-response:factor=next", &[1, 3]);
        for id in [1, 2] {
            bench.report(id, |stats| stats.response = Some(Time::from_ms(10)));
        }
        assert_eq!(bench.hits(400), [100, 300]);
    }

    #[test]
    fn average_moves_by_gain_and_expires() {
        // 100 ms, then 20 ms at gain 0.25: 80 ms, above the 70 ms of the other; at 0.5 60 ms, below.
        for (gain, picked) in [("0.25", 2), ("0.5", 1)] {
            let mut bench = Bench::new(&format!("server-least-response:factor=none,gain={gain}"), &[1, 1]);
            for ms in [100, 20] {
                bench.report(1, |stats| stats.response = Some(Time::from_ms(ms)));
            }
            bench.report(2, |stats| stats.response = Some(Time::from_ms(70)));
            bench.report(2, |stats| stats.response = None);
            assert_eq!(bench.picks(3), [picked; 3], "a report without requests leaves the average");
        }
        let mut bench = Bench::new("server-least-response:factor=none", &[1, 1]);
        bench.report(1, |stats| stats.response = Some(Time::from_ms(10)));
        bench.report(2, |stats| stats.response = Some(Time::from_ms(90)));
        assert_eq!(bench.picks(3), [1; 3]);
        let forgotten = *bench.pool.get(MemberId(2)).expect("a member");
        bench.balancer.on_report(&crate::server::Member { stats: ServerStats::default(), ..forgotten });
        assert_eq!(bench.picks(2), [2, 1], "counts as the fastest");
    }

    #[test]
    fn measured_members_ignore_reports() {
        let mut bench = Bench::new("server-least-response:factor=none", &[1, 1]);
        bench.report(1, |stats| stats.response = Some(Time::from_ms(1)));
        for (id, ms) in [(1, 50), (2, 20)] {
            let member = *bench.pool.get(MemberId(id)).expect("a member");
            bench.balancer.on_response(&member, Time::from_ms(ms));
        }
        bench.report(1, |stats| stats.response = Some(Time::from_ms(1)));
        assert_eq!(bench.picks(3), [2; 3]);
    }
}
