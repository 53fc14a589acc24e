//! Rules of one switch by key, in the order of keys.
//!
//! Nearly all rules lead to a block of hosts: a switch has default routes to all distant hosts. Their
//! keys are stored as the block alone, which takes a thirtieth of the memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use core::net::Ipv4Addr;

use openflow::VlanMatch;

use super::RuleKey;
use crate::updater::block::Block;
use crate::updater::compile::{
    BASE, DIVIDED, LABELLED, LAST, LAST_TAGGED, default_route_key, destinations, divided_key, labelled_key,
    last_hop_key, tagged_last_hop_key,
};

/// The kinds of rules to hosts, highest priority first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    TaggedLastHop,
    LastHop,
    Labelled,
    Divided,
    DefaultRoute,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ToHosts {
    kind: Kind,
    /// 32 less the length of its prefix: smaller blocks have a higher priority.
    free_bits: u8,
    /// VLAN label of [`Kind::Labelled`], else 0.
    label: u16,
    /// First address of the block.
    first: u32,
}

impl ToHosts {
    fn new(kind: Kind, label: u16, block: Block) -> ToHosts {
        ToHosts { kind, free_bits: 32 - block.length(), label, first: block.first().to_bits() }
    }
    fn default_route(block: Block) -> ToHosts {
        ToHosts::new(Kind::DefaultRoute, 0, block)
    }
    fn of(key: &RuleKey) -> Option<ToHosts> {
        let block = destinations(key)?;
        let priority = key.priority.0;
        let of_blocks = priority.checked_sub(u16::from(block.length()));
        let (kind, label) = match (priority, of_blocks, key.match_.vlan) {
            (LAST_TAGGED, ..) => (Kind::TaggedLastHop, 0),
            (LAST, ..) => (Kind::LastHop, 0),
            (_, Some(LABELLED), Some(VlanMatch::Id(label))) => (Kind::Labelled, label),
            (_, Some(DIVIDED), _) => (Kind::Divided, 0),
            (_, Some(BASE), _) => (Kind::DefaultRoute, 0),
            _ => return None,
        };
        Some(ToHosts::new(kind, label, block)).filter(|one| one.key() == *key)
    }
    fn block(self) -> Block {
        Block::around(Ipv4Addr::from_bits(self.first), 32 - self.free_bits)
    }
    fn key(self) -> RuleKey {
        let block = self.block();
        match self.kind {
            Kind::TaggedLastHop => tagged_last_hop_key(block.first()),
            Kind::LastHop => last_hop_key(block.first()),
            Kind::Labelled => labelled_key(self.label, block),
            Kind::Divided => divided_key(block),
            Kind::DefaultRoute => default_route_key(block),
        }
    }
}

/// Map from rules to values: by block of destinations where a rule has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RuleTable<V> {
    to_hosts: BTreeMap<ToHosts, V>,
    others: BTreeMap<RuleKey, V>,
}

impl<V> Default for RuleTable<V> {
    fn default() -> RuleTable<V> {
        RuleTable { to_hosts: BTreeMap::new(), others: BTreeMap::new() }
    }
}

impl<V> RuleTable<V> {
    pub(crate) fn get(&self, key: &RuleKey) -> Option<&V> {
        match ToHosts::of(key) {
            Some(key) => self.to_hosts.get(&key),
            None => self.others.get(key),
        }
    }
    pub(crate) fn get_mut(&mut self, key: &RuleKey) -> Option<&mut V> {
        match ToHosts::of(key) {
            Some(key) => self.to_hosts.get_mut(&key),
            None => self.others.get_mut(key),
        }
    }
    pub(crate) fn contains_key(&self, key: &RuleKey) -> bool {
        self.get(key).is_some()
    }
    pub(crate) fn insert(&mut self, key: RuleKey, value: V) -> Option<V> {
        match ToHosts::of(&key) {
            Some(key) => self.to_hosts.insert(key, value),
            None => self.others.insert(key, value),
        }
    }
    pub(crate) fn remove(&mut self, key: &RuleKey) -> Option<V> {
        match ToHosts::of(key) {
            Some(key) => self.to_hosts.remove(&key),
            None => self.others.remove(key),
        }
    }
    pub(crate) fn clear(&mut self) {
        self.to_hosts.clear();
        self.others.clear();
    }
    pub(crate) fn len(&self) -> usize {
        self.to_hosts.len() + self.others.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns all entries in the order of keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RuleKey, &V)> {
        let mut to_hosts = self.to_hosts.iter().map(|(key, value)| (key.key(), value)).peekable();
        let mut others = self.others.iter().map(|(key, value)| (*key, value)).peekable();
        std::iter::from_fn(move || {
            let is_other_first = match (to_hosts.peek(), others.peek()) {
                (Some((one, _)), Some((other, _))) => other < one,
                (None, _) => true,
                (Some(_), None) => false,
            };
            if is_other_first { others.next() } else { to_hosts.next() }
        })
    }
    pub(crate) fn keys(&self) -> impl Iterator<Item = RuleKey> {
        self.iter().map(|(key, _)| key)
    }
    /// Returns the keys of the default routes that an address matches, smallest block first.
    pub(crate) fn default_routes_to(&self, address: Ipv4Addr) -> impl Iterator<Item = RuleKey> {
        self.lengths()
            .map(move |length| ToHosts::default_route(Block::around(address, length)))
            .filter(|one| self.to_hosts.contains_key(one))
            .map(ToHosts::key)
    }
    /// Returns the last default route of the smallest blocks that `is_meant` accepts.
    pub(crate) fn least_default_route(&self, is_meant: impl Fn(&RuleKey) -> bool) -> Option<RuleKey> {
        let end = |address| move |length| ToHosts::default_route(Block::around(address, length));
        let of = |length| {
            let range = end(Ipv4Addr::UNSPECIFIED)(length)..=end(Ipv4Addr::BROADCAST)(length);
            self.to_hosts.range(range).rev().map(|(one, _)| one.key()).find(&is_meant)
        };
        self.lengths().find_map(of)
    }
    /// Returns the lengths of prefixes that default routes have, longest first.
    fn lengths(&self) -> impl Iterator<Item = u8> {
        let first = ToHosts::default_route(Block::exact(Ipv4Addr::UNSPECIFIED));
        let mut next = self.to_hosts.range(first..).next();
        std::iter::from_fn(move || {
            let (one, _) = next?;
            let last = ToHosts { first: u32::MAX, ..*one };
            next = self.to_hosts.range((Bound::Excluded(last), Bound::Unbounded)).next();
            Some(one.block().length())
        })
    }
}

/// Set of rules, with the memory of a [`RuleTable`].
pub(crate) type RuleSet = RuleTable<()>;

impl RuleTable<()> {
    pub(crate) fn add(&mut self, key: RuleKey) {
        self.insert(key, ());
    }
    pub(crate) fn contains(&self, key: &RuleKey) -> bool {
        self.contains_key(key)
    }
}

impl<V> FromIterator<(RuleKey, V)> for RuleTable<V> {
    fn from_iter<T: IntoIterator<Item = (RuleKey, V)>>(entries: T) -> RuleTable<V> {
        let mut table = RuleTable::default();
        for (key, value) in entries {
            table.insert(key, value);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use openflow::{Match, TableId, headers::ether};

    use super::*;

    fn block(last: u8, length: u8) -> Block {
        Block::around(Ipv4Addr::new(10, 0, 0, last), length)
    }

    /// Keys of all kinds, with one of another form at each of their priorities.
    fn keys() -> Vec<RuleKey> {
        let mut keys = Vec::new();
        for last in [9, 1, 200] {
            let address = Ipv4Addr::new(10, 0, 0, last);
            keys.extend([last_hop_key(address), tagged_last_hop_key(address)]);
            for block in [32, 30, 24].map(|length| block(last, length)) {
                keys.extend([
                    default_route_key(block),
                    divided_key(block),
                    labelled_key(7, block),
                    labelled_key(9, block),
                ]);
            }
        }
        for (table, priority) in [(0, 100), (1, 60_100), (1, 60_000), (1, 55_000), (1, 1_000), (1, 5), (2, 1_000)] {
            let match_ = Match { eth_type: Some(ether::IPV4), ..Match::default() };
            keys.push(RuleKey::new(TableId(table), priority, match_));
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    #[test]
    fn entries_are_found_and_listed_like_those_of_a_map() {
        let keys = keys();
        let mut table: RuleTable<usize> = keys.iter().copied().zip(0..).collect();
        let mut map: BTreeMap<RuleKey, usize> = keys.iter().copied().zip(0..).collect();
        let listed = |table: &RuleTable<usize>| table.iter().map(|(key, value)| (key, *value)).collect::<Vec<_>>();
        assert_eq!(table.to_hosts.len(), 2 * 3 + 4 * 7, "three last hops of a kind, and one block of 256");
        assert_eq!(listed(&table), map.clone().into_iter().collect::<Vec<_>>());
        for key in keys {
            assert_eq!((table.get(&key), table.len()), (map.get(&key), map.len()));
            assert_eq!(table.remove(&key), map.remove(&key));
            assert_eq!(listed(&table), map.clone().into_iter().collect::<Vec<_>>());
        }
        assert!(table.is_empty());
    }

    #[test]
    fn least_default_route_has_the_smallest_block_and_the_highest_address() {
        let table: RuleTable<()> = keys().into_iter().map(|key| (key, ())).collect();
        let mut left: Vec<Block> = Vec::new();
        while let Some(next) = table.least_default_route(|key| !left.iter().any(|one| default_route_key(*one) == *key))
        {
            left.push(destinations(&next).expect("a default route has destinations"));
        }
        let expected = [(200, 32), (9, 32), (1, 32), (200, 30), (8, 30), (0, 30), (0, 24)];
        assert_eq!(left, expected.map(|(last, length)| block(last, length)));
    }

    #[test]
    fn default_routes_to_an_address_are_those_it_matches() {
        let table: RuleTable<()> = keys().into_iter().map(|key| (key, ())).collect();
        let to = |last: u8| table.default_routes_to(Ipv4Addr::new(10, 0, 0, last)).collect::<Vec<_>>();
        assert_eq!(to(9), [32, 30, 24].map(|length| default_route_key(block(9, length))));
        assert_eq!(to(10), [30, 24].map(|length| default_route_key(block(10, length))));
        assert_eq!(to(77), [default_route_key(block(77, 24))]);
        assert_eq!(RuleTable::<()>::default().default_routes_to(Ipv4Addr::new(10, 0, 0, 1)).count(), 0);
    }
}
