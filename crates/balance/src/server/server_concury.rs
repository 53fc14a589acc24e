//! Concury: connections find their servers by two arrays and a XOR, which the controller rebuilds
//! when the pool changes (mechanisms-2.md S09; Shi et al., SoCC 2020).
//!
//! The data plane maps a connection to a code by Othello hashing, `A[h1(key)] XOR B[h2(key)]`, and
//! a code to a server by a small table. The arrays have 2.33 places for each connection, of as many
//! bits as a code; there are no keys in them. A connection that is not in the arrays gets a code
//! that is as good as random: so a new one is placed by weights without any update. The controller
//! knows all connections and their servers. If a change of the pool moves codes of living
//! connections, it builds arrays in which each has a code of its server.
//!
//! Construction: connections are the edges of a graph whose vertices are the places of both arrays.
//! If it has no cycle, values follow from any choice of one value per tree; else other hash
//! functions are tried, two attempts on average.
//!
//! Readings. `bits` is the width of a code, so that the memory is 2.33 * `bits` bits a connection:
//! the 2 to 3 of the reference are places. A draining server keeps one code while it has
//! connections. A new connection that hits such a code, or whose server its client cannot reach, is
//! kept as an exception, next to the arrays, until they are rebuilt. Rebuilding is instantaneous
//! here. The arrays have places for 4,096 connections at least, since codes of few places would not
//! be even.
//!
//! With OpenFlow the controller keeps connections by rules, as for every balancer; this entry picks
//! the members of new ones by the same arrays.
//!
//! - Helps: where a load balancer has little fast memory and many connections.
//! - Hurts: where the pool changes so often that arrays cannot be rebuilt in time; it ignores load.

use std::collections::BTreeMap;

use crate::entry::Entry;
use crate::hash::{combine, mix, reduce, tuple_key};
use crate::params::Param;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES, position, reassign, shares};
use crate::server::consistency::{Opened, PacketForwarder};
use crate::server::{Choice, Ended, MemberId, Pool, Request, ServerCx, ServerNeeds};

/// Connections for which the arrays have places at least: a few places would give new connections
/// few codes.
const ROOM: usize = 4096;

const BITS: Param =
    Param::count("bits", 1..=16, "12").unit("bits").doc("Width of a code; 2^bits is at least 100 for each member.");

pub(crate) static ENTRY: Entry = Entry::declare("server-concury", "Concury")
    .summary("Maps connections to members by Othello hashing: two arrays without keys, rebuilt by the controller.")
    .source("S09; SoCC 2020")
    .senses("weights")
    .params(&[PATH, TIES, HTP, DIRECTION, BITS])
    .example("server-concury:bits=10")
    .server(|env, params| {
        let concury = Concury::new(env.seed, params.count(BITS.name) as u32);
        ServerFirst::boxed(ServerNeeds::NONE, params, concury)
    });

/// A map from keys to values below a power of two, without the keys: others get any value.
#[derive(Clone, Debug, Default)]
pub struct Othello {
    seed: u64,
    left: Vec<u16>,
    right: Vec<u16>,
}

impl Othello {
    /// Builds the arrays for distinct keys; values have `bits` bits. There are places for at least
    /// `room` keys.
    pub fn build(entries: &[(u64, u16)], room: usize, seed: u64, bits: u32) -> Othello {
        let keys = entries.len().max(room);
        let (lefts, rights) = (keys * 4 / 3 + 2, keys + 1);
        let mut seed = mix(seed);
        loop {
            seed = combine(seed, 1);
            let mut othello = Othello { seed, left: vec![0; lefts], right: vec![0; rights] };
            if othello.fill(entries, bits) {
                return othello;
            }
        }
    }

    fn places(&self, key: u64) -> (usize, usize) {
        let hash = combine(self.seed, key);
        (reduce(hash, self.left.len()), reduce(mix(hash ^ self.seed), self.right.len()))
    }

    /// Returns the value of a key.
    pub fn get(&self, key: u64) -> u16 {
        let (left, right) = self.places(key);
        self.left[left] ^ self.right[right]
    }

    /// Returns the places of both arrays.
    pub fn len(&self) -> usize {
        self.left.len() + self.right.len()
    }

    /// Returns whether it has no places; it then maps nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the values of all places. Returns false if the graph of the keys has a cycle.
    fn fill(&mut self, entries: &[(u64, u16)], bits: u32) -> bool {
        let (lefts, count) = (self.left.len(), self.len());
        let edges: Vec<(usize, usize)> =
            entries.iter().map(|(key, _)| self.places(*key)).map(|(left, right)| (left, lefts + right)).collect();
        // Lists of the edges at each vertex: edge e is at positions 2e and 2e + 1.
        let (mut first, mut next) = (vec![usize::MAX; count], vec![usize::MAX; 2 * edges.len()]);
        for (edge, ends) in edges.iter().enumerate() {
            for (at, vertex) in [(2 * edge, ends.0), (2 * edge + 1, ends.1)] {
                next[at] = std::mem::replace(&mut first[vertex], at);
            }
        }
        let (mut values, mut pending) = (vec![None; count], Vec::new());
        for root in 0..count {
            if values[root].is_some() {
                continue;
            }
            // A random value for each tree makes those of unknown keys random.
            values[root] = Some((combine(self.seed, root as u64) & ((1 << bits) - 1)) as u16);
            pending.push((root, usize::MAX));
            while let Some((vertex, came_by)) = pending.pop() {
                let mut at = first[vertex];
                while at != usize::MAX {
                    let (edge, following) = (at / 2, next[at]);
                    at = following;
                    if edge == came_by {
                        continue;
                    }
                    let other = if edges[edge].0 == vertex { edges[edge].1 } else { edges[edge].0 };
                    if values[other].is_some() {
                        return false;
                    }
                    values[other] = values[vertex].map(|value| value ^ entries[edge].1);
                    pending.push((other, edge));
                }
            }
        }
        let (left, right) = values.split_at(lefts);
        self.left = left.iter().map(|value| value.unwrap_or(0)).collect();
        self.right = right.iter().map(|value| value.unwrap_or(0)).collect();
        true
    }
}

/// The data plane and its controller.
#[derive(Clone, Debug)]
pub struct Concury {
    bits: u32,
    arrays: Othello,
    /// Member that each code names; `None` without members.
    owners: Vec<Option<MemberId>>,
    /// Members that accept connections, in the order of their numbers.
    accepting: Vec<MemberId>,
    /// Members of living connections, which only the controller knows.
    connections: BTreeMap<u64, MemberId>,
    /// Connections whose code is not of their member.
    exceptions: BTreeMap<u64, MemberId>,
    /// Times that the arrays were built.
    pub builds: u64,
}

impl Concury {
    /// Makes a load balancer without members, with codes of `bits` bits, 1 to 16.
    pub fn new(seed: u64, bits: u32) -> Concury {
        let bits = bits.clamp(1, 16);
        Concury {
            bits,
            arrays: Othello::build(&[], ROOM, seed, bits),
            owners: vec![None; 1 << bits],
            accepting: Vec::new(),
            connections: BTreeMap::new(),
            exceptions: BTreeMap::new(),
            builds: 0,
        }
    }

    /// Returns the size of the arrays, bits, and the number of exceptions.
    pub fn memory(&self) -> (usize, usize) {
        (self.arrays.len() * self.bits as usize, self.exceptions.len())
    }

    fn by_arrays(&self, key: u64) -> Option<MemberId> {
        self.owners[usize::from(self.arrays.get(key))]
    }

    fn find(&self, key: u64) -> Option<MemberId> {
        self.exceptions.get(&key).copied().or_else(|| self.by_arrays(key))
    }

    /// Returns the member of a new connection: that of its code, or another if that one drains.
    fn place(&self, key: u64) -> Option<MemberId> {
        let accepts = |member: &MemberId| self.accepting.binary_search(member).is_ok();
        let other = || self.accepting.get(reduce(mix(key), self.accepting.len().max(1))).copied();
        self.by_arrays(key).filter(accepts).or_else(other)
    }

    fn keep(&mut self, key: u64, member: MemberId) {
        self.connections.insert(key, member);
        if self.by_arrays(key) == Some(member) {
            self.exceptions.remove(&key);
        } else {
            self.exceptions.insert(key, member);
        }
    }

    fn forget(&mut self, key: u64) {
        self.connections.remove(&key);
        self.exceptions.remove(&key);
    }

    fn change(&mut self, pool: &Pool) {
        let before = self.owners.clone();
        let weights: Vec<(MemberId, u32)> = shares(pool).collect();
        self.accepting = weights.iter().map(|(id, _)| *id).collect();
        self.connections.retain(|_, member| pool.get(*member).is_some());
        self.exceptions.retain(|key, _| self.connections.contains_key(key));
        reassign(&mut self.owners, &weights);
        // A draining member keeps the first of its codes while it has connections.
        let mut draining: Vec<MemberId> =
            self.connections.values().copied().filter(|member| self.accepting.binary_search(member).is_err()).collect();
        draining.sort_unstable();
        draining.dedup();
        for member in draining {
            if let Some(code) = before.iter().position(|owner| *owner == Some(member)) {
                self.owners[code] = Some(member);
            }
        }
        if self.connections.iter().any(|(key, member)| self.by_arrays(*key) != Some(*member)) {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        let mut codes: BTreeMap<MemberId, Vec<u16>> = BTreeMap::new();
        for (code, owner) in self.owners.iter().enumerate() {
            if let Some(owner) = owner {
                codes.entry(*owner).or_default().push(code as u16);
            }
        }
        let code_of = |key: u64, member: MemberId| {
            let present = self.arrays.get(key);
            if self.owners[usize::from(present)] == Some(member) {
                return Some(present);
            }
            codes.get(&member).map(|codes| codes[reduce(mix(key), codes.len())])
        };
        let entries: Vec<(u64, u16)> =
            self.connections.iter().filter_map(|(key, member)| Some((*key, code_of(*key, *member)?))).collect();
        self.builds += 1;
        self.arrays = Othello::build(&entries, ROOM, self.builds, self.bits);
        let differs = |(key, member): &(&u64, &MemberId)| self.by_arrays(**key) != Some(**member);
        self.exceptions = self.connections.iter().filter(differs).map(|(key, member)| (*key, *member)).collect();
    }
}

impl PacketForwarder for Concury {
    fn on_pool_changed(&mut self, pool: &Pool) {
        self.change(pool);
    }

    fn open(&mut self, key: u64, _: MemberId) -> Option<Opened> {
        let member = self.place(key)?;
        self.keep(key, member);
        Some(Opened { member, cookie: 0 })
    }

    fn forward(&mut self, key: u64, _: u16) -> Option<MemberId> {
        self.find(key)
    }

    fn close(&mut self, key: u64, _: u16) {
        self.forget(key);
    }
}

impl Picker for Concury {
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let picked = self.place(tuple_key(&pending.request.tuple));
        let found = picked.and_then(|member| position(pending.candidates, member));
        found.unwrap_or_else(|| cx.rng.next_below(pending.candidates.len() as u64) as usize)
    }

    fn placed(&mut self, request: &Request, choice: &Choice, _: u32) {
        self.keep(tuple_key(&request.tuple), choice.member);
    }

    fn ended(&mut self, request: &Request, _: &Ended) {
        self.forget(tuple_key(&request.tuple));
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.change(pool);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::server::testing::{Bench, pool_of};

    #[test]
    fn unknown_keys_get_even_values_and_the_arrays_have_two_and_a_third_places_a_key() {
        let entries: Vec<(u64, u16)> = (0..60_000).map(|key| (mix(key), (key % 16) as u16)).collect();
        let othello = Othello::build(&entries, 0, 1, 4);
        let places = othello.len() as f64 / entries.len() as f64;
        assert!((2.3..2.4).contains(&places), "{places}");
        let mut hits = [0u32; 16];
        (0..160_000).for_each(|key| hits[usize::from(othello.get(mix(key + 1_000_000)))] += 1);
        assert!(hits.iter().all(|hits| hits.abs_diff(10_000) < 500), "{hits:?}");
    }

    #[test]
    fn shares_are_the_weights_before_and_after_changes() {
        let mut bench = Bench::new("server-concury", &[1, 1, 2, 4]);
        let even = |hits: [usize; 4], expected: [usize; 4]| {
            assert!(hits.iter().zip(expected).all(|(hits, e)| hits.abs_diff(e) <= e / 10 + 20), "{hits:?}");
        };
        even(bench.hits(16_000), [2_000, 2_000, 4_000, 8_000]);
        bench.change(4, |member| member.is_accepting = false);
        even(bench.hits(16_000), [4_000, 4_000, 8_000, 0]);
    }

    #[test]
    fn arrays_are_built_only_if_codes_of_connections_move() {
        let mut concury = Concury::new(1, 10);
        concury.on_pool_changed(&pool_of(1..=4));
        assert!((0..10_000).all(|key| concury.open(mix(key), MemberId(1)).is_some()));
        assert_eq!((concury.builds, concury.memory().1), (0, 0), "new connections need no update");
        concury.on_pool_changed(&pool_of(1..=5));
        assert_eq!(concury.builds, 1);
        let (bits, exceptions) = concury.memory();
        assert!((2.3..2.4).contains(&(bits as f64 / 100_000.0)) && exceptions == 0, "{bits} bits, {exceptions}");
        concury.on_pool_changed(&pool_of(1..=5));
        assert_eq!(concury.builds, 1, "nothing changed");
    }

    proptest! {
        #[test]
        fn every_inserted_key_has_its_value(
            keys in prop::collection::btree_set(any::<u64>(), 0..400), bits in 1u32..=16, seed in any::<u64>()
        ) {
            let value = |key: u64| (mix(key ^ seed) & ((1 << bits) - 1)) as u16;
            let entries: Vec<(u64, u16)> = keys.iter().map(|key| (*key, value(*key))).collect();
            let othello = Othello::build(&entries, 0, seed, bits);
            prop_assert!(entries.iter().all(|(key, value)| othello.get(*key) == *value));
        }
    }
}
