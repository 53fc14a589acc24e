//! Rules of one switch by key, in the order of keys.
//!
//! Nearly all rules lead to one host: a switch has a default route for every distant host. Their
//! keys are stored as the address alone, which takes a thirtieth of the memory.

use std::collections::BTreeMap;

use core::net::Ipv4Addr;

use super::RuleKey;
use crate::updater::compile::{default_route_key, destination, last_hop_key, tagged_last_hop_key};

/// The kinds of rules to one host, highest priority first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Kind {
    TaggedLastHop,
    LastHop,
    DefaultRoute,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct ToHost {
    kind: Kind,
    /// IPv4 address as a number.
    address: u32,
}

impl ToHost {
    fn of(key: &RuleKey) -> Option<ToHost> {
        let address = destination(key)?;
        let kinds = [Kind::DefaultRoute, Kind::LastHop, Kind::TaggedLastHop];
        let all = kinds.map(|kind| ToHost { kind, address: address.to_bits() });
        all.into_iter().find(|one| one.kind.priority() == key.priority.0 && one.key() == *key)
    }
    fn key(self) -> RuleKey {
        let address = Ipv4Addr::from_bits(self.address);
        match self.kind {
            Kind::TaggedLastHop => tagged_last_hop_key(address),
            Kind::LastHop => last_hop_key(address),
            Kind::DefaultRoute => default_route_key(address),
        }
    }
}

impl Kind {
    fn priority(self) -> u16 {
        use crate::updater::compile::{BASE, LAST, LAST_TAGGED};
        match self {
            Kind::TaggedLastHop => LAST_TAGGED,
            Kind::LastHop => LAST,
            Kind::DefaultRoute => BASE,
        }
    }
}

/// Map from rules to values: by address of the destination where a rule has one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RuleTable<V> {
    to_hosts: BTreeMap<ToHost, V>,
    others: BTreeMap<RuleKey, V>,
}

impl<V> Default for RuleTable<V> {
    fn default() -> RuleTable<V> {
        RuleTable { to_hosts: BTreeMap::new(), others: BTreeMap::new() }
    }
}

impl<V> RuleTable<V> {
    pub(crate) fn get(&self, key: &RuleKey) -> Option<&V> {
        match ToHost::of(key) {
            Some(key) => self.to_hosts.get(&key),
            None => self.others.get(key),
        }
    }
    pub(crate) fn get_mut(&mut self, key: &RuleKey) -> Option<&mut V> {
        match ToHost::of(key) {
            Some(key) => self.to_hosts.get_mut(&key),
            None => self.others.get_mut(key),
        }
    }
    pub(crate) fn contains_key(&self, key: &RuleKey) -> bool {
        self.get(key).is_some()
    }
    pub(crate) fn insert(&mut self, key: RuleKey, value: V) -> Option<V> {
        match ToHost::of(&key) {
            Some(key) => self.to_hosts.insert(key, value),
            None => self.others.insert(key, value),
        }
    }
    pub(crate) fn remove(&mut self, key: &RuleKey) -> Option<V> {
        match ToHost::of(key) {
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
    /// Returns the last default route that `is_meant` accepts.
    pub(crate) fn last_default_route(&self, is_meant: impl Fn(&RuleKey) -> bool) -> Option<RuleKey> {
        let routes = self.to_hosts.keys().rev().take_while(|key| key.kind == Kind::DefaultRoute);
        routes.map(|key| key.key()).find(is_meant)
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

    /// Keys of all kinds, with one of another form at each of their priorities.
    fn keys() -> Vec<RuleKey> {
        let mut keys = Vec::new();
        for last in [9, 1, 200] {
            let address = Ipv4Addr::new(10, 0, 0, last);
            keys.extend([default_route_key(address), last_hop_key(address), tagged_last_hop_key(address)]);
        }
        for (table, priority) in [(0, 100), (1, 60_100), (1, 60_000), (1, 55_000), (1, 1_000), (1, 5), (2, 1_000)] {
            let match_ = Match { eth_type: Some(ether::IPV4), ..Match::default() };
            keys.push(RuleKey::new(TableId(table), priority, match_));
        }
        keys
    }

    #[test]
    fn entries_are_found_and_listed_like_those_of_a_map() {
        let keys = keys();
        let mut table: RuleTable<usize> = keys.iter().copied().zip(0..).collect();
        let mut map: BTreeMap<RuleKey, usize> = keys.iter().copied().zip(0..).collect();
        let listed = |table: &RuleTable<usize>| table.iter().map(|(key, value)| (key, *value)).collect::<Vec<_>>();
        assert_eq!(table.to_hosts.len(), 9);
        assert_eq!(listed(&table), map.clone().into_iter().collect::<Vec<_>>());
        for key in keys {
            assert_eq!((table.get(&key), table.len()), (map.get(&key), map.len()));
            assert_eq!(table.remove(&key), map.remove(&key));
            assert_eq!(listed(&table), map.clone().into_iter().collect::<Vec<_>>());
        }
        assert!(table.is_empty());
    }

    #[test]
    fn last_default_route_is_the_one_with_the_highest_address() {
        let table: RuleTable<()> = keys().into_iter().map(|key| (key, ())).collect();
        let highest = default_route_key(Ipv4Addr::new(10, 0, 0, 200));
        assert_eq!(table.last_default_route(|_| true), Some(highest));
        let next = default_route_key(Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(table.last_default_route(|key| *key != highest), Some(next));
    }
}
