//! Beamer: connections are hashed to buckets, buckets belong to servers, and a server that does not
//! know a connection passes its packets to the previous owner of the bucket (mechanisms-2.md S09;
//! Olteanu et al., NSDI 2018).
//!
//! The load balancer keeps no connection. When the pool changes, the controller moves as few
//! buckets as possible. A packet goes to the owner of its bucket, and carries the previous owner.
//! If the owner has no state for it, and it does not open a connection, the owner sends it on
//! (daisy chaining). So neither a new server nor one that drains breaks connections.
//!
//! Readings. `buckets` is fixed. Weights give the shares of buckets. Published packets carry one
//! previous owner, and a bucket moves again only after the connections of that owner have ended;
//! [`Chain`] carries up to `history` and does not wait: connections break if a bucket moves more
//! often during their life. Owners that left the pool are skipped. In the chain a draining owner is
//! passed like any other.
//!
//! With OpenFlow the controller keeps connections by rules, as for every balancer; this entry is
//! the assignment of new ones by buckets. If this client cannot reach the owner, the next bucket is
//! used. The forwarding is compared in the tests of `server::consistency`.
//!
//! - Helps: where load balancers must not keep state, and servers can pass packets on.
//! - Hurts: with few or unequal connections: it ignores load; each detour costs a hop.

use std::collections::BTreeSet;

use crate::entry::Entry;
use crate::hash::{mix, reduce};
use crate::params::Param;
use crate::server::common::{
    DIRECTION, HTP, KEY, Key, PATH, Pending, Picker, ServerFirst, Shares, TIES, position, reassign, shares,
};
use crate::server::consistency::{Opened, PacketForwarder};
use crate::server::{MemberId, Pool, ServerCx, ServerNeeds};

const BUCKETS: Param =
    Param::count("buckets", 1..=1 << 20, "8192").doc("Buckets of connections; at least 100 for each member.");

pub(crate) static ENTRY: Entry = Entry::declare("server-beamer", "Beamer")
    .summary("Hashes connections to buckets of members, of which few move; members pass on what they do not know.")
    .source("S09; NSDI 2018")
    .senses("weights")
    .params(&[PATH, TIES, HTP, DIRECTION, BUCKETS, KEY])
    .example("server-beamer:buckets=1024")
    .server(|_, params| {
        let owners = vec![None; params.count(BUCKETS.name) as usize];
        let beamer = Beamer { key: Key::new(params), owners, known: Shares::new() };
        ServerFirst::boxed(ServerNeeds::NONE, params, beamer)
    });

struct Beamer {
    key: Key,
    owners: Vec<Option<MemberId>>,
    /// The weights for which the buckets were last assigned.
    known: Shares,
}

impl Picker for Beamer {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        self.pool_changed(pending.pool);
        let bucket = reduce(mix(self.key.of(pending.request)), self.owners.len());
        let (before, from) = self.owners.split_at(bucket);
        let mut owners = from.iter().chain(before).flatten();
        owners.find_map(|owner| position(pending.candidates, *owner)).unwrap_or(0)
    }

    fn pool_changed(&mut self, pool: &Pool) {
        if !self.known.iter().copied().eq(shares(pool)) {
            self.known = shares(pool).collect();
            reassign(&mut self.owners, &self.known);
        }
    }
}

/// The forwarding of packets, with the connections that servers know.
#[derive(Clone, Debug)]
pub struct Chain {
    owners: Vec<Option<MemberId>>,
    /// Previous owners of each bucket, the latest first.
    previous: Vec<Vec<MemberId>>,
    history: usize,
    known: BTreeSet<(MemberId, u64)>,
    up: BTreeSet<MemberId>,
    /// Packets that a server passed on.
    pub detours: u64,
}

impl Chain {
    /// Makes a load balancer whose packets carry up to `history` previous owners; 1 is published.
    pub fn new(buckets: usize, history: usize) -> Chain {
        let buckets = buckets.max(1);
        Chain {
            owners: vec![None; buckets],
            previous: vec![Vec::new(); buckets],
            history,
            known: BTreeSet::new(),
            up: BTreeSet::new(),
            detours: 0,
        }
    }

    fn bucket(&self, key: u64) -> usize {
        reduce(mix(key), self.owners.len())
    }
}

impl PacketForwarder for Chain {
    fn on_pool_changed(&mut self, pool: &Pool) {
        self.up = pool.members().iter().map(|member| member.id).collect();
        self.known.retain(|(member, _)| self.up.contains(member));
        let before = self.owners.clone();
        reassign(&mut self.owners, &shares(pool).collect::<Shares>());
        for ((before, owner), previous) in before.into_iter().zip(&self.owners).zip(&mut self.previous) {
            if let Some(before) = before.filter(|before| Some(*before) != *owner) {
                previous.insert(0, before);
            }
            let mut seen = BTreeSet::new();
            previous.retain(|member| self.up.contains(member) && Some(*member) != *owner && seen.insert(*member));
            previous.truncate(self.history);
        }
    }

    fn open(&mut self, key: u64, _: MemberId) -> Option<Opened> {
        let member = self.owners[self.bucket(key)]?;
        self.known.insert((member, key));
        Some(Opened { member, cookie: 0 })
    }

    fn forward(&mut self, key: u64, _: u16) -> Option<MemberId> {
        let bucket = self.bucket(key);
        let chain = self.owners[bucket].iter().chain(&self.previous[bucket]);
        let found = chain.enumerate().find(|(_, member)| self.known.contains(&(**member, key)));
        let (passed, member) = found.map_or((0, None), |(passed, member)| (passed as u64, Some(*member)));
        self.detours += passed;
        // If none of them knows it, the owner resets the connection.
        member.or(self.owners[bucket])
    }

    fn close(&mut self, key: u64, cookie: u16) {
        if let Some(member) = self.forward(key, cookie) {
            self.known.remove(&(member, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::testing::{Bench, pool_of};

    #[test]
    fn shares_are_even_and_few_requests_move() {
        let hits: [usize; 4] = Bench::new("server-beamer", &[1, 1, 2, 4]).hits(80_000);
        let expected = [10_000, 10_000, 20_000, 40_000];
        assert!(hits.iter().zip(expected).all(|(hits, e)| hits.abs_diff(e) < e / 20), "{hits:?}");
        let before = Bench::new("server-beamer", &[1; 10]).picks(5_000);
        let mut bench = Bench::new("server-beamer", &[1; 10]);
        bench.change(4, |member| member.is_accepting = false);
        let after = bench.picks(5_000);
        let moved = before.iter().zip(&after).filter(|(old, new)| **old != 4 && old != new).count();
        assert!(moved < 15 && !after.contains(&4), "{moved} requests of others moved");
    }

    #[test]
    fn a_packet_is_passed_to_the_owner_that_knows_it() {
        let mut chain = Chain::new(64, 2);
        chain.on_pool_changed(&pool_of([1]));
        let opened: Vec<u64> = (0..200).collect();
        assert!(opened.iter().all(|key| chain.open(*key, MemberId(9)).unwrap().member == MemberId(1)));
        chain.on_pool_changed(&pool_of([1, 2]));
        assert!(opened.iter().all(|key| chain.forward(*key, 0) == Some(MemberId(1))));
        assert!((60..140).contains(&chain.detours), "{} of half the buckets", chain.detours);
        assert_eq!(chain.forward(1000, 0), chain.open(1000, MemberId(9)).map(|opened| opened.member));
        chain.close(7, 0);
        assert!(!chain.known.contains(&(MemberId(1), 7)));
    }
}
