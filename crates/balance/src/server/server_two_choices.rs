//! Two choices: of two members drawn at random, the one with fewer connections (mechanisms.md S04;
//! Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, IEEE TPDS 2001).
//!
//! The members are drawn uniformly, regardless of weights. The fewest `(connections + 1) / weight`
//! wins; among equals, chance. `choices=d` draws d: one is random, all is the shortest queue of all
//! (JSQ(d), mechanisms-2.md S10). With Poisson arrivals at the share λ of the capacity and exponential
//! service, the mean time in a large system is the sum of λ^((d^i - d)/(d - 1)) over i ≥ 1, in service times.
//!
//! With `snapshot=T` the numbers of connections are those of the last multiple of T: what many dispatchers
//! see that read a common table. If T is much longer than a request, the shortest of all queues is worse
//! than chance, because all requests of a period go to the same members; two choices are between.
//!
//! - Helps: nearly as even as least connections, with only two members compared.
//! - Hurts: where connections cause different loads.

use net::Time;

use crate::draw::sample;
use crate::entry::Entry;
use crate::params::{Param, Params};
use crate::server::common::{Connections, DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES};
use crate::server::{ServerCx, ServerNeeds};

const CHOICES: Param = Param::count("choices", 1..=1024, "2").unit("members").doc("Members drawn for each request.");
const SNAPSHOT: Param = Param::duration("snapshot", "0s")
    .doc("Time between two readings of the numbers of connections; 0s reads them for each request.");

pub(crate) static ENTRY: Entry = Entry::declare("server-two-choices", "Two choices (servers)")
    .summary("Draws two members, or more, and takes the one with the fewest connections per weight.")
    .source("S04 power of two choices, S10; Mitzenmacher, IEEE TPDS 2001")
    .senses("connections it placed, corrected by reports")
    .params(&[PATH, TIES, HTP, DIRECTION, CHOICES, SNAPSHOT])
    .server(|_, params| ServerFirst::boxed(ServerNeeds::REPORTS, params, Choices::new(params)));

struct Choices {
    drawn: Vec<u32>,
    snapshot: Time,
    /// The connections at the last snapshot, and when the next is due.
    seen: Connections,
    next: Time,
}

impl Choices {
    fn new(params: &Params) -> Choices {
        Choices {
            drawn: vec![0; params.count(CHOICES.name) as usize],
            snapshot: params.duration(SNAPSHOT.name),
            seen: Connections::default(),
            next: Time::ZERO,
        }
    }
}

impl Picker for Choices {
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let now = pending.request.at;
        if self.snapshot > Time::ZERO && now >= self.next {
            let past = now.as_ps() / self.snapshot.as_ps();
            self.next = Time::from_ps((past + 1) * self.snapshot.as_ps());
            self.seen = pending.connections.clone();
        }
        let connections = if self.snapshot > Time::ZERO { &self.seen } else { pending.connections };
        let count = self.drawn.len().min(pending.candidates.len());
        let drawn = &mut self.drawn[..count];
        sample(cx.rng, pending.candidates.len(), drawn);
        let mut best = (f64::INFINITY, 0, 0);
        for position in drawn.iter().map(|position| *position as usize) {
            let lot = cx.rng.next_u64();
            let load = connections.per_weight(pending.candidates[position]);
            if load < best.0 || load == best.0 && lot < best.1 {
                best = (load, lot, position);
            }
        }
        best.2
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::server::queueing::{LONG, SHORT, mean_time};
    use crate::server::testing::Bench;

    #[test]
    fn the_worst_of_many_is_far_better_than_random() {
        // n connections on n members: the maximum is ln ln n / ln 2 + O(1) with two choices, and
        // about ln n / ln ln n at random.
        let most = |spec: &str| {
            let hits: [usize; 400] = Bench::new(spec, &[1; 400]).hits(400);
            hits.into_iter().max().unwrap()
        };
        assert!(most("server-two-choices") <= 3, "{}", most("server-two-choices"));
        assert!(most("server-random") >= 4, "{}", most("server-random"));
    }

    #[test]
    fn two_members_are_always_compared() {
        let mut bench = Bench::new("server-two-choices", &[1, 1]);
        bench.report(1, |stats| stats.connections = Some(100));
        assert_eq!(bench.picks(100), [2; 100]);
        let mut alone = Bench::new("server-two-choices", &[1]);
        assert_eq!(alone.picks(3), [1; 3]);
        let hits: [usize; 4] = Bench::new("server-two-choices:choices=1", &[1; 4]).hits(4000);
        assert!(hits.iter().all(|hits| (900..1100).contains(hits)), "{hits:?}");
    }

    #[test]
    fn a_snapshot_lasts() {
        let mut bench = Bench::new("server-two-choices:choices=3,snapshot=10ms", &[1, 1, 1]);
        bench.report(2, |stats| stats.connections = Some(5));
        bench.report(3, |stats| stats.connections = Some(5));
        assert_eq!(bench.picks(50), [1; 50]);
        bench.wait(Time::from_ms(10));
        assert!(bench.picks(50).iter().all(|member| *member != 1));
    }

    #[test]
    fn mean_time_in_system_is_the_closed_form() {
        // Means at 90 % of the capacity, in service times; 100 members are nearly a large system. A
        // queue that requests reach by chance does not depend on their number.
        for (choices, members, measured, expected) in
            [(1, 10, 8.0 * LONG, 10.0), (2, 100, SHORT, 2.61), (3, 100, SHORT, 2.03)]
        {
            let mean = mean_time(&format!("server-two-choices:choices={choices}"), members, 0.9, measured);
            assert!((mean / expected - 1.0).abs() < 0.05, "{choices} choices: {mean}, {expected} expected");
        }
    }

    #[test]
    fn with_old_information_the_order_turns() {
        let mean = |choices: u32, snapshot: &str| {
            mean_time(&format!("server-two-choices:choices={choices},snapshot={snapshot}"), 20, 0.9, SHORT)
        };
        // A service time is 1 ms.
        let (fresh, old) = (["0s", "1us"], "100ms");
        assert!(fresh.iter().all(|snapshot| mean(20, snapshot) < mean(2, snapshot)));
        let (random, two, all) = (mean(1, old), mean(2, old), mean(20, old));
        assert!(random < two && two < all, "random {random}, two {two}, all {all}");
    }
}
