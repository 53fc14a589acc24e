//! Cheetah: any policy picks the server, and every later packet carries a cookie from which the
//! load balancer reads it (mechanisms-2.md S08; Barbette et al., NSDI 2020).
//!
//! The cookie has 16 bits. The server side puts it where clients return it: the upper half of the
//! TCP timestamp, or the connection id of QUIC. So no change of the pool breaks a connection,
//! except the removal of the server that has it. There are two forms:
//!
//! - stateless ([`StatelessCookies`]): the cookie is the number of the server, XORed with a keyed
//!   hash of the five-tuple. A later packet yields the number again; an unknown number is dropped.
//! - stateful ([`SlotTable`]): the cookie is a slot of a table with server and hash of the
//!   five-tuple. Opening takes a free slot from a stack and closing returns it, in constant time. A
//!   packet whose hash differs is dropped.
//!
//! A forged cookie reaches a random number: without the key a client cannot choose its server.
//!
//! Readings. Numbers of servers are given in turn, the one free for longest first, so that an old
//! cookie does not name a new server soon. The keyed hash is the mixer of switches with a key,
//! which is not cryptographic. A full table refuses connections. With OpenFlow, switches cannot
//! read cookies: the controller keeps connections by rules, as for every balancer, and this entry
//! is its policy alone. The forwarding is compared in the tests of `server::consistency`.
//!
//! - Helps: policies that follow the load, where hashing would be needed for consistency.
//! - Hurts: where middleboxes or clients do not return the cookie; with more than 65,536 servers,
//!   or connections in the stateful form.

use std::collections::{BTreeMap, VecDeque};

use crate::entry::Entry;
use crate::hash::{combine, mix};
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, TIES, by_rule, in_turn, least};
use crate::server::consistency::{Opened, PacketForwarder};
use crate::server::{MemberId, Pool, ServerCx, ServerNeeds};

/// Number of values of a cookie.
const COOKIES: usize = 1 << 16;

const POLICY: Param = Param::choice("policy", &["two-choices", "rr", "random", "least-connections"], "two-choices")
    .doc("Rule by which a new connection gets its member; with two choices the less loaded of two random ones.");

pub(crate) static ENTRY: Entry = Entry::declare("server-cheetah", "Cheetah")
    .summary("Picks members by any policy; a cookie leads later packets to them, without a table of connections.")
    .source("S08; NSDI 2020")
    .senses("connections it placed, corrected by reports")
    .params(&[PATH, TIES, HTP, DIRECTION, POLICY])
    .example("server-cheetah:policy=rr")
    .server(|_, params| {
        let (policy, mut last) = (params.text(POLICY.name), None);
        let choose: fn(&mut ServerCx<'_>, &Pending<'_>, &mut Option<MemberId>) -> usize = match policy {
            "rr" => |_, pending, last| in_turn(pending, last),
            "random" => |cx, pending, _| draw(cx, pending),
            "least-connections" => |_, pending, _| least(pending.candidates, |m| pending.connections.per_weight(m)),
            _ => |cx, pending, _| of_two(cx, pending),
        };
        let needs = if matches!(policy, "rr" | "random") { ServerNeeds::NONE } else { ServerNeeds::REPORTS };
        by_rule(needs, params, move |cx, pending| choose(cx, pending, &mut last))
    });

fn draw(cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
    cx.rng.next_below(pending.candidates.len() as u64) as usize
}

fn of_two(cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
    let count = pending.candidates.len() as u64;
    let first = cx.rng.next_below(count);
    if count < 2 {
        return 0;
    }
    let second = (first + 1 + cx.rng.next_below(count - 1)) % count;
    let load = |at: u64| pending.connections.per_weight(pending.candidates[at as usize]);
    if load(second) < load(first) { second as usize } else { first as usize }
}

/// The stateless form: the cookie is the number of the server.
#[derive(Clone, Debug)]
pub struct StatelessCookies {
    key: u64,
    /// Member that each number names; `None` for a free number.
    members: Vec<Option<MemberId>>,
    numbers: BTreeMap<MemberId, u16>,
    /// Numbers without a member, the one free for longest first.
    free: VecDeque<u16>,
    /// Packets with the number of no member.
    pub dropped: u64,
}

impl StatelessCookies {
    /// Makes a load balancer without members; `key` is its secret.
    pub fn new(key: u64) -> StatelessCookies {
        let (members, numbers, free) = (Vec::new(), BTreeMap::new(), VecDeque::new());
        StatelessCookies { key: mix(key), members, numbers, free, dropped: 0 }
    }

    fn mask(&self, key: u64) -> u16 {
        combine(self.key, key) as u16
    }

    fn add(&mut self, member: MemberId) {
        if self.free.is_empty() && self.members.len() < COOKIES {
            self.free.push_back(self.members.len() as u16);
            self.members.push(None);
        }
        if let Some(number) = self.free.pop_front() {
            self.members[usize::from(number)] = Some(member);
            self.numbers.insert(member, number);
        }
    }
}

impl PacketForwarder for StatelessCookies {
    fn on_pool_changed(&mut self, pool: &Pool) {
        let StatelessCookies { members, numbers, free, .. } = self;
        numbers.retain(|member, number| {
            let stays = pool.get(*member).is_some();
            if !stays {
                members[usize::from(*number)] = None;
                free.push_back(*number);
            }
            stays
        });
        for member in pool.members() {
            if !self.numbers.contains_key(&member.id) {
                self.add(member.id);
            }
        }
    }

    fn open(&mut self, key: u64, picked: MemberId) -> Option<Opened> {
        let number = *self.numbers.get(&picked)?;
        Some(Opened { member: picked, cookie: number ^ self.mask(key) })
    }

    fn forward(&mut self, key: u64, cookie: u16) -> Option<MemberId> {
        let member = self.members.get(usize::from(cookie ^ self.mask(key))).copied().flatten();
        self.dropped += u64::from(member.is_none());
        member
    }
}

/// The stateful form: the cookie is a slot of a table.
#[derive(Clone, Debug)]
pub struct SlotTable {
    slots: Vec<Option<(MemberId, u64)>>,
    /// Free slots; the last one is taken next.
    free: Vec<u16>,
    /// Packets of no connection of the table, and connections without a free slot.
    pub dropped: u64,
}

impl SlotTable {
    /// Makes a table with this number of slots, at most 65,536.
    pub fn new(size: usize) -> SlotTable {
        let size = size.min(COOKIES);
        SlotTable { slots: vec![None; size], free: (0..size).rev().map(|slot| slot as u16).collect(), dropped: 0 }
    }

    /// Returns the numbers of free and of used slots.
    pub fn usage(&self) -> (usize, usize) {
        (self.free.len(), self.slots.iter().flatten().count())
    }
}

impl PacketForwarder for SlotTable {
    fn on_pool_changed(&mut self, pool: &Pool) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.is_some_and(|(member, _)| pool.get(member).is_none()) {
                *slot = None;
                self.free.push(number as u16);
            }
        }
    }

    fn open(&mut self, key: u64, picked: MemberId) -> Option<Opened> {
        let Some(cookie) = self.free.pop() else {
            self.dropped += 1;
            return None;
        };
        self.slots[usize::from(cookie)] = Some((picked, key));
        Some(Opened { member: picked, cookie })
    }

    fn forward(&mut self, key: u64, cookie: u16) -> Option<MemberId> {
        let slot = self.slots.get(usize::from(cookie)).copied().flatten();
        let member = slot.filter(|(_, owner)| *owner == key).map(|(member, _)| member);
        self.dropped += u64::from(member.is_none());
        member
    }

    fn close(&mut self, key: u64, cookie: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(cookie))
            && slot.is_some_and(|(_, owner)| owner == key)
        {
            *slot = None;
            self.free.push(cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{Bench, pool_of};

    #[test]
    fn policies_are_those_of_the_balancers_of_their_names() {
        for (policy, same) in [("rr", "server-rr"), ("least-connections", "server-lc")] {
            let picks = Bench::new(&format!("server-cheetah:policy={policy}"), &[1, 3, 1]).picks(40);
            assert_eq!(picks, Bench::new(same, &[1, 3, 1]).picks(40), "{policy}");
        }
        let most = |policy: &str| {
            let hits: [usize; 400] = Bench::new(&format!("server-cheetah:policy={policy}"), &[1; 400]).hits(400);
            hits.into_iter().max().unwrap()
        };
        assert!(most("two-choices") <= 3 && most("random") >= 4);
        let mut alone = Bench::new("server-cheetah", &[1]);
        assert_eq!(alone.picks(3), [1; 3]);
    }

    #[test]
    fn forged_cookies_reach_every_server_with_the_same_probability() {
        let mut cheetah = StatelessCookies::new(7);
        cheetah.on_pool_changed(&pool_of(1..=64));
        let (mut hits, tries) = ([0u32; 65], 2_097_152u64);
        // An attacker that knows a cookie of one server and uses it for other connections.
        let known = cheetah.open(1, MemberId(5)).unwrap().cookie;
        for key in 0..tries {
            if let Some(member) = cheetah.forward(mix(key + 2), known) {
                hits[member.0 as usize] += 1;
            }
        }
        // Each server has one of 65,536 numbers: 32 hits, with a standard deviation of 5.7.
        assert!(hits[1..].iter().all(|hits| hits.abs_diff(32) < 28), "{hits:?}");
        assert_eq!(cheetah.dropped + u64::from(hits.iter().sum::<u32>()), tries);
    }

    #[test]
    fn numbers_of_removed_servers_are_used_again_last() {
        let mut cheetah = StatelessCookies::new(7);
        cheetah.on_pool_changed(&pool_of(1..=3));
        let old = cheetah.open(1, MemberId(2)).unwrap();
        cheetah.on_pool_changed(&pool_of([1, 3]));
        assert_eq!(cheetah.forward(1, old.cookie), None, "its server is gone");
        cheetah.on_pool_changed(&pool_of([3]));
        cheetah.on_pool_changed(&pool_of([3, 4]));
        assert_eq!(cheetah.forward(1, old.cookie), Some(MemberId(4)), "the number free for longest is given first");
    }

    #[test]
    fn a_full_table_refuses_and_hashes_are_verified() {
        let mut table = SlotTable::new(2);
        table.on_pool_changed(&pool_of([1]));
        let opened = [1, 2].map(|key| table.open(key, MemberId(1)).unwrap());
        assert_eq!((table.open(3, MemberId(1)), table.usage()), (None, (0, 2)));
        assert_eq!(table.forward(1, opened[1].cookie), None, "the slot of another connection");
        assert_eq!(table.forward(1, 9), None, "beyond the table");
        table.close(2, opened[0].cookie);
        table.close(1, 9);
        assert_eq!(table.usage(), (0, 2), "only the owner closes");
        table.close(1, opened[0].cookie);
        assert_eq!((table.usage(), table.dropped), ((1, 1), 3));
    }
}
