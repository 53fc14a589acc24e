//! Limits on rates and on memory.

use std::collections::{BTreeMap, VecDeque};

use net::Time;

/// A token bucket, as the time at which it is full again (generic cell rate algorithm).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateLimiter {
    full_at: Time,
}

impl RateLimiter {
    /// Takes one of `burst` tokens, which are refilled one per `interval`. Returns whether there
    /// was one.
    pub(crate) fn take(&mut self, now: Time, interval: Time, burst: u64) -> bool {
        let full_at = self.full_at.max(now).saturating_add(interval);
        let is_allowed = full_at <= now.saturating_add(Time::from_ps(interval.as_ps() * burst));
        if is_allowed {
            self.full_at = full_at;
        }
        is_allowed
    }
    /// Returns whether no token is missing.
    pub(crate) fn is_full(&self, now: Time) -> bool {
        self.full_at <= now
    }
}

/// At most `MAX` keys that are remembered until a time.
#[derive(Debug)]
pub(crate) struct Expiring<K, const MAX: usize> {
    until: BTreeMap<K, Time>,
    /// The same keys and former times of them, in the order of time.
    order: VecDeque<(Time, K)>,
}

impl<K, const MAX: usize> Default for Expiring<K, MAX> {
    fn default() -> Expiring<K, MAX> {
        Expiring { until: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Ord, const MAX: usize> Expiring<K, MAX> {
    /// Adds a key; if there are too many, the oldest one is forgotten. Times must ascend from call
    /// to call.
    pub(crate) fn add(&mut self, key: K, until: Time) {
        if self.is_full() {
            self.drop_first();
        }
        self.order.push_back((until, key));
        self.until.insert(key, until);
    }
    /// Forgets the keys whose time has come. Returns whether a key is remembered.
    pub(crate) fn has(&mut self, now: Time, key: &K) -> bool {
        while self.order.front().is_some_and(|(until, _)| *until <= now) {
            self.drop_first();
        }
        self.until.contains_key(key)
    }
    pub(crate) fn is_full(&self) -> bool {
        self.order.len() >= MAX
    }
    fn drop_first(&mut self) {
        if let Some((until, key)) = self.order.pop_front()
            && self.until.get(&key) == Some(&until)
        {
            self.until.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_expire_and_are_limited() {
        const MAX: usize = 16_384;
        let mut keys = Expiring::<usize, MAX>::default();
        let s = Time::from_s;
        keys.add(1, s(5));
        keys.add(2, s(6));
        keys.add(1, s(7));
        assert!(keys.has(s(4), &1) && keys.has(s(4), &2) && !keys.has(s(4), &3));
        assert!(keys.has(s(6), &1), "it was added a second time");
        assert!(!keys.has(s(6), &2) && !keys.has(s(7), &1));
        assert!(keys.until.is_empty() && keys.order.is_empty());
        (0..=MAX).for_each(|key| keys.add(key, s(9)));
        assert_eq!((keys.until.len(), keys.order.len()), (MAX, MAX));
        assert!(!keys.has(s(8), &0) && keys.has(s(8), &MAX));
    }
}
