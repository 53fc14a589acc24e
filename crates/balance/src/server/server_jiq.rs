//! Join the idle queue: idle members wait in lists, and requests go to them without any comparison
//! (mechanisms-2.md S10; Lu et al., Performance 2011).
//!
//! There are several dispatchers, each with a list. A member that becomes idle registers at one of them,
//! chosen at random. A request belongs to the dispatcher that its client's address and port select. It gets
//! the member that has been in that list for longest, or a random one if the list is empty. A member
//! that a random request has reached meanwhile is passed over.
//!
//! At low load every request finds an idle member, as with the shortest of all queues; near full load the
//! choice is random.
//!
//! - Helps: many dispatchers, which would else have to ask members for each request; at low load.
//! - Hurts: near full load, when no member is idle.

use std::collections::{BTreeMap, VecDeque};

use crate::entry::Entry;
use crate::hash::{combine, mix, reduce, tuple_key};
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES};
use crate::server::{Choice, Ended, Member, MemberId, Pool, Request, ServerCx, ServerNeeds};

const DISPATCHERS: Param =
    Param::count("dispatchers", 1..=4096, "10").doc("Dispatchers, each with a list of idle members; published: 10.");

pub(crate) static ENTRY: Entry = Entry::declare("server-jiq", "Join the idle queue")
    .summary("Gives each request to an idle member from a list, or to a random one if the list is empty.")
    .source("S10; Lu et al., Performance 2011")
    .senses("connections it placed, corrected by reports")
    .params(&[PATH, TIES, HTP, DIRECTION, DISPATCHERS])
    .server(|env, params| {
        let lists = vec![VecDeque::new(); params.count(DISPATCHERS.name) as usize];
        let idle = Idle { seed: env.seed, lists, connections: BTreeMap::new(), registered: 0 };
        ServerFirst::boxed(ServerNeeds::REPORTS, params, idle)
    });

struct Idle {
    seed: u64,
    lists: Vec<VecDeque<MemberId>>,
    connections: BTreeMap<MemberId, u32>,
    /// Registrations so far: the number that draws the next list.
    registered: u64,
}

impl Idle {
    fn set(&mut self, member: MemberId, connections: u32) {
        let before = self.connections.insert(member, connections);
        if connections == 0 && before != Some(0) {
            self.registered += 1;
            let list = reduce(combine(mix(self.seed), self.registered), self.lists.len());
            self.lists[list].push_back(member);
        }
    }
}

impl Picker for Idle {
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let dispatcher = reduce(tuple_key(&pending.request.tuple), self.lists.len());
        let list = &mut self.lists[dispatcher];
        // A member that this client cannot reach, or that drains, stays in its list.
        let found = list.iter().enumerate().find_map(|(at, member)| {
            let position = pending.candidates.iter().position(|candidate| candidate.id == *member)?;
            Some((at, position))
        });
        match found {
            Some((at, position)) => {
                list.remove(at);
                position
            }
            None => cx.rng.next_below(pending.candidates.len() as u64) as usize,
        }
    }

    fn placed(&mut self, _: &Request, choice: &Choice, _: u32) {
        let member = choice.member;
        if self.connections.get(&member).is_none_or(|connections| *connections == 0) {
            self.lists.iter_mut().for_each(|list| list.retain(|idle| *idle != member));
        }
        *self.connections.entry(member).or_insert(0) += 1;
    }

    fn ended(&mut self, _: &Request, ended: &Ended) {
        if let Some(connections) = self.connections.get(&ended.member).copied() {
            self.set(ended.member, connections.saturating_sub(1));
        }
    }

    fn reported(&mut self, member: &Member, connections: u32) {
        if connections > 0 {
            self.lists.iter_mut().for_each(|list| list.retain(|idle| *idle != member.id));
        }
        self.set(member.id, connections);
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.connections.retain(|member, _| pool.get(*member).is_some());
        self.lists.iter_mut().for_each(|list| list.retain(|member| pool.get(*member).is_some()));
        for member in pool.members() {
            if !self.connections.contains_key(&member.id) {
                self.set(member.id, member.stats.connections.unwrap_or(0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::server::queueing::{LONG, SHORT, mean_time};
    use crate::server::testing::Bench;

    #[test]
    fn idle_members_are_taken_in_the_order_in_which_they_became_idle() {
        let mut bench = Bench::new("server-jiq:dispatchers=1", &[1; 4]);
        let (requests, picked) = bench.placed(4);
        assert_eq!(picked, [1, 2, 3, 4]);
        for at in [2, 0] {
            bench.end(&requests[at], picked[at], 0);
        }
        assert_eq!(bench.picks(2), [3, 1]);
        let hits: [usize; 4] = bench.hits(400);
        assert!(hits.iter().all(|hits| (60..140).contains(hits)), "no member is idle: {hits:?}");
    }

    #[test]
    fn reports_add_and_remove_members() {
        let mut bench = Bench::new("server-jiq:dispatchers=1", &[1; 4]);
        bench.report(1, |stats| stats.connections = Some(3));
        assert_eq!(bench.picks(3), [2, 3, 4]);
        bench.report(1, |stats| stats.connections = Some(0));
        assert_eq!(bench.picks(1), [1]);
        bench.change(2, |member| member.is_accepting = false);
        bench.report(2, |stats| stats.connections = Some(0));
        assert!(bench.picks(20).iter().all(|member| *member != 2));
        bench.change(2, |member| member.is_accepting = true);
        assert_eq!(bench.picks(1), [2]);
    }

    #[test]
    fn between_the_shortest_queue_and_chance() {
        // At half load nearly every request finds an idle member: its time is its service.
        let low = mean_time("server-jiq:dispatchers=1", 50, 0.5, SHORT);
        assert!((low - 1.0).abs() < 0.03, "{low}");
        let (high, random) = (mean_time("server-jiq", 50, 0.9, SHORT), mean_time("server-random", 20, 0.9, LONG));
        assert!(high < 0.4 * random, "{high} and {random}");
    }
}
