//! Prequal: members reply to probes with their requests in flight and their latency; of the members that are
//! not hot, the fastest gets the request (mechanisms-2.md S07; Wydrowski et al., NSDI 2024).
//!
//! The balancer keeps the newest replies, at most `pool`. A reply is hot if its requests in flight (RIF)
//! exceed the quantile `rif_quantile` of recent replies. A request goes to the cold reply with the least
//! latency, or, if all are hot, to the one with the fewest requests in flight. The reply then counts one
//! request more. With less than two replies the member is random.
//!
//! After each request `probes` members, drawn at random, reply. A reply ends after `age`, when newer ones
//! need its place, or when it has been used max(1, 2 / ((1 - pool/members) probes - removals)) times,
//! rounded at random. After each request `removals` replies leave, in turn the oldest and the worst
//! (hot with most requests in flight, else slowest).
//!
//! The latency of a member is the median of the last requests that met about as many others as there are now.
//!
//! Readings: no probe is sent, since the controller knows the connections of all members, and when each began
//! and ended. Of the last 64 requests of a member the 16 that met most nearly the present number count.
//!
//! - Helps: members whose spare capacity differs and changes, since latency shows what is left.
//! - Hurts: with old replies; a member that fails fast looks fast.

use std::collections::{BTreeMap, VecDeque};

use net::{FiveTuple, Time};

use crate::draw::sample;
use crate::entry::Entry;
use crate::params::{Param, Params};
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES};
use crate::server::{Choice, Ended, MemberId, Pool, Request, ServerCx, ServerNeeds};

const POOL: Param = Param::count("pool", 2..=1024, "16").unit("replies").doc("Replies that are kept.");
const QUANTILE: Param = Param::number("rif_quantile", 0.0..=1.0, "0.84")
    .doc("Quantile of the requests in flight above which a reply is hot; 0: only they count.");
const AGE: Param = Param::duration("age", "1s").doc("Age from which a reply is ignored.");
const PROBES: Param = Param::count("probes", 1..=64, "3").unit("members").doc("Members that reply after each request.");
const REMOVALS: Param =
    Param::count("removals", 0..=64, "1").unit("replies").doc("Replies that are removed after each request.");

pub(crate) static ENTRY: Entry = Entry::declare("server-prequal", "Prequal")
    .summary("Gives each request to the fastest member that has not too many requests in flight, by its last replies.")
    .source("S07; NSDI 2024")
    .senses("connections it placed, and their durations")
    .params(&[PATH, TIES, HTP, DIRECTION, POOL, QUANTILE, AGE, PROBES, REMOVALS])
    .server(|_, params| ServerFirst::boxed(ServerNeeds::REPORTS, params, Prequal::new(params)));

/// Replies whose requests in flight give the distribution.
const RECENT: usize = 128;
/// Requests of a member that are remembered, and those of them whose median is the latency.
const PAST: usize = 64;
const NEAR: usize = 16;

struct Prequal {
    pool_max: usize,
    quantile: f64,
    age: Time,
    /// Room for the members drawn, as many as there are probes.
    probed: Vec<u32>,
    removals: u64,
    /// Requests in flight: their member, and the number that they met there.
    in_flight: BTreeMap<FiveTuple, (MemberId, u32)>,
    /// The last requests of each member.
    past: BTreeMap<MemberId, VecDeque<Past>>,
    /// The replies that are kept, oldest first.
    replies: VecDeque<Reply>,
    recent: VecDeque<u32>,
    removes_oldest: bool,
}

/// A request that has ended.
#[derive(Clone, Copy)]
struct Past {
    /// Other requests in flight at the member when it arrived.
    met: u32,
    seconds: f64,
}

#[derive(Clone, Copy)]
struct Reply {
    member: MemberId,
    in_flight: u32,
    /// Seconds; 0 for a member without requests, so that it is tried.
    latency: f64,
    at: Time,
    uses_left: u64,
}

impl Prequal {
    fn new(params: &Params) -> Prequal {
        Prequal {
            pool_max: params.count(POOL.name) as usize,
            quantile: params.number(QUANTILE.name),
            age: params.duration(AGE.name),
            probed: vec![0; params.count(PROBES.name) as usize],
            removals: params.count(REMOVALS.name),
            in_flight: BTreeMap::new(),
            past: BTreeMap::new(),
            replies: VecDeque::new(),
            recent: VecDeque::new(),
            removes_oldest: true,
        }
    }

    /// Returns the requests in flight above which a reply is hot.
    fn threshold(&self) -> u32 {
        let mut sorted: Vec<u32> = self.recent.iter().copied().collect();
        sorted.sort_unstable();
        let rank = (self.quantile * sorted.len() as f64).ceil() as usize;
        rank.checked_sub(1).and_then(|rank| sorted.get(rank).copied()).unwrap_or(0)
    }

    /// Returns the rank of a reply, the lower the better: whether it is hot, and its requests in flight if so,
    /// else its latency.
    fn rank(&self, reply: &Reply, threshold: u32) -> (bool, f64) {
        let is_hot = reply.in_flight > threshold || self.quantile == 0.0;
        (is_hot, if is_hot { f64::from(reply.in_flight) } else { reply.latency })
    }

    fn remove_one(&mut self) {
        let at = if self.removes_oldest { 0 } else { self.worst() };
        self.replies.remove(at);
        self.removes_oldest = !self.removes_oldest;
    }

    fn worst(&self) -> usize {
        let threshold = self.threshold();
        let ranks = self.replies.iter().map(|reply| self.rank(reply, threshold)).enumerate();
        let worst = ranks.max_by(|(_, a), (_, b)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        worst.map_or(0, |(at, _)| at)
    }

    /// Returns the position of the member of the best reply, if there are two.
    fn best(&mut self, pending: &Pending<'_>) -> Option<usize> {
        let threshold = self.threshold();
        let position = |member| pending.candidates.iter().position(|candidate| candidate.id == member);
        let usable = self.replies.iter().enumerate();
        let usable = usable.filter_map(|(at, reply)| Some((at, reply, position(reply.member)?)));
        let mut count = 0;
        let mut best: Option<((bool, f64), usize, usize)> = None;
        for (at, reply, position) in usable {
            count += 1;
            let rank = self.rank(reply, threshold);
            // A newer reply of the same rank wins.
            if best.is_none_or(|(least, ..)| rank <= least) {
                best = Some((rank, at, position));
            }
        }
        let (_, at, position) = best.filter(|_| count >= 2)?;
        let reply = &mut self.replies[at];
        reply.in_flight += 1;
        reply.uses_left -= 1;
        if reply.uses_left == 0 {
            self.replies.remove(at);
        }
        Some(position)
    }

    /// Takes the replies of members drawn at random, and removes others.
    fn probe(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) {
        for _ in 0..self.removals.min(self.replies.len() as u64) {
            self.remove_one();
        }
        let members = pending.candidates.len();
        let count = self.probed.len().min(members);
        let reuse = self.reuse(members);
        let mut probed = std::mem::take(&mut self.probed);
        sample(cx.rng, members, &mut probed[..count]);
        for member in probed[..count].iter().map(|position| pending.candidates[*position as usize].id) {
            let uses_left = (reuse + cx.rng.next_f64()) as u64;
            let in_flight = pending.connections.of(member);
            let latency = self.latency(member, in_flight);
            while self.replies.len() >= self.pool_max {
                self.replies.pop_front();
            }
            self.replies.push_back(Reply { member, in_flight, latency, at: pending.request.at, uses_left });
            if self.recent.len() == RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(in_flight);
        }
        self.probed = probed;
    }

    /// Returns the median of the requests of a member that met about as many others.
    fn latency(&self, member: MemberId, in_flight: u32) -> f64 {
        let Some(past) = self.past.get(&member).filter(|past| !past.is_empty()) else { return 0.0 };
        let mut near: Vec<Past> = past.iter().rev().copied().collect();
        // Stable: of equally near ones the newest.
        near.sort_by_key(|request| request.met.abs_diff(in_flight));
        near.truncate(NEAR);
        near.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        near[near.len() / 2].seconds
    }

    /// Returns how often a reply may be used, at least once.
    fn reuse(&self, members: usize) -> f64 {
        let probes = self.probed.len() as f64;
        let missing = (1.0 - self.pool_max as f64 / members as f64) * probes - self.removals as f64;
        // With few members the formula has no value: once.
        if missing > 0.0 { (2.0 / missing).max(1.0) } else { 1.0 }
    }
}

impl Picker for Prequal {
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let (now, age) = (pending.request.at, self.age);
        self.replies.retain(|reply| now.saturating_sub(reply.at) <= age);
        let best = self.best(pending);
        let position = best.unwrap_or_else(|| cx.rng.next_below(pending.candidates.len() as u64) as usize);
        self.probe(cx, pending);
        position
    }

    fn placed(&mut self, request: &Request, choice: &Choice, others: u32) {
        self.in_flight.insert(request.tuple, (choice.member, others));
    }

    fn ended(&mut self, request: &Request, ended: &Ended) {
        let Some((member, met)) = self.in_flight.remove(&request.tuple) else { return };
        let past = self.past.entry(member).or_default();
        if past.len() == PAST {
            past.pop_front();
        }
        past.push_back(Past { met, seconds: ended.at.saturating_sub(request.at).as_s_f64() });
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.replies.retain(|reply| pool.get(reply.member).is_some());
        self.past.retain(|member, _| pool.get(*member).is_some());
        self.in_flight.retain(|_, (member, _)| pool.get(*member).is_some());
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::server::queueing::{LONG, System};
    use crate::server::testing::Bench;

    #[test]
    fn without_a_quantile_only_requests_in_flight_count() {
        let mut bench = Bench::new("server-prequal:rif_quantile=0,pool=4,probes=4,removals=0", &[1; 4]);
        let hits: [usize; 4] = bench.hits(400);
        assert!(hits.iter().all(|hits| (98..=102).contains(hits)), "{hits:?}");
    }

    #[test]
    fn the_latency_is_that_of_requests_that_met_as_many_others() {
        let mut bench = Bench::new("server-prequal:pool=4,probes=2,removals=0", &[1; 2]);
        // Alone a request of member 1 takes 10 ms, and 5 ms on member 2.
        for _ in 0..60 {
            let request = bench.request();
            let member = bench.pick_for(&request).expect("a member").member.0;
            bench.wait(Time::from_ms(if member == 1 { 10 } else { 5 }));
            bench.end(&request, member, 0);
        }
        let hits: [usize; 2] = std::array::from_fn(|_| 0);
        let hits = (0..100).fold(hits, |mut hits, _| {
            let request = bench.request();
            let member = bench.pick_for(&request).expect("a member").member.0;
            hits[member as usize - 1] += 1;
            bench.wait(Time::from_ms(5));
            bench.end(&request, member, 0);
            hits
        });
        assert!(hits[1] > 90, "{hits:?}");
    }

    #[test]
    fn old_replies_are_ignored() {
        let mut bench = Bench::new("server-prequal:pool=8,probes=2,removals=0,age=1ms", &[1; 2]);
        // Each request comes too late for the replies after the one before.
        let mut hits = [0; 2];
        for _ in 0..400 {
            bench.wait(Time::from_us(1001));
            hits[bench.pick() as usize - 1] += 1;
        }
        assert!(hits.iter().all(|hits| *hits > 160), "{hits:?}");
    }

    #[test]
    fn a_slow_member_gets_less() {
        // One of ten members at half speed, replies every service time.
        let mut speeds = [1.0; 10];
        speeds[0] = 0.5;
        let system = System { speeds: &speeds, load: 0.85, report_every: Some(Time::from_ms(1)), measured: LONG };
        let prequal = system.run("server-prequal");
        let random = system.run("server-random");
        assert!((0.03..0.07).contains(&prequal.shares[0]), "about half of an even share: {:?}", prequal.shares);
        assert!(prequal.mean < 0.5 * random.mean, "{} and {}", prequal.mean, random.mean);
    }

    #[test]
    fn equal_members_are_served_as_well_as_with_two_choices_of_the_same_age() {
        let system = System { speeds: &[1.0; 20], load: 0.9, report_every: Some(Time::from_ms(1)), measured: LONG };
        let prequal = system.run("server-prequal").mean;
        let two = system.run("server-two-choices:snapshot=1ms").mean;
        assert!(prequal < 1.05 * two, "prequal {prequal}, two choices {two}");
    }
}
