//! Counters and their values in statistics.
//!
//! Real switches refresh statistics periodically (every 20 s on the switch of F4): between
//! refreshes they report the same bytes and the same age. A counter therefore keeps its value at
//! the last multiple of the period in addition to the current one. It is updated when the counter
//! is first incremented after the multiple, so unused counters have no overhead.

use net::Time;

/// Two numbers that increase together: packets and bytes, or lookups and hits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counter {
    pub now: (u64, u64),
    shown: (u64, u64),
    period: u64,
}

impl Counter {
    #[inline]
    pub fn add(&mut self, clock: &Clock, first: u64, second: u64) {
        if self.period != clock.period {
            self.shown = self.now;
            self.period = clock.period;
        }
        self.now.0 += first;
        self.now.1 += second;
    }

    pub fn shown(&self, clock: &Clock) -> (u64, u64) {
        if clock.is_refreshed_always() || self.period != clock.period { self.now } else { self.shown }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub now: Time,
    refresh: Time,
    period: u64,
    next_period: Time,
}

impl Clock {
    /// Creates a clock at time zero; `refresh` zero refreshes statistics always.
    pub fn new(refresh: Time) -> Clock {
        let next_period = if refresh == Time::ZERO { Time::MAX } else { refresh };
        Clock { now: Time::ZERO, refresh, period: 0, next_period }
    }

    /// Advances the time, which never goes back.
    #[inline]
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        if self.now >= self.next_period {
            self.turn();
        }
    }

    #[inline]
    pub fn next_refresh(&self) -> Time {
        self.next_period
    }

    fn turn(&mut self) {
        if self.is_refreshed_always() {
            return;
        }
        self.period = self.now.as_ps() / self.refresh.as_ps();
        self.next_period = (self.refresh * self.period).saturating_add(self.refresh);
    }

    fn is_refreshed_always(&self) -> bool {
        self.refresh == Time::ZERO
    }

    /// Returns the age since `since` in statistics, in ns.
    pub fn shown_age_ns(&self, since: Time) -> u64 {
        let at = if self.is_refreshed_always() { self.now } else { self.refresh * self.period };
        age_ns(since, at)
    }
}

pub fn age_ns(since: Time, at: Time) -> u64 {
    at.saturating_sub(since).as_ps() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_show_what_they_were_at_the_last_multiple() {
        let mut clock = Clock::new(Time::from_s(20));
        let mut counter = Counter::default();
        let mut at = |counter: &mut Counter, s, bytes| {
            clock.advance(Time::from_s(s));
            if bytes > 0 {
                counter.add(&clock, 1, bytes);
            }
            (counter.shown(&clock), clock.shown_age_ns(Time::from_s(5)))
        };
        assert_eq!(at(&mut counter, 6, 100), ((0, 0), 0));
        assert_eq!(at(&mut counter, 19, 100), ((0, 0), 0));
        assert_eq!(at(&mut counter, 20, 0), ((2, 200), 15_000_000_000));
        assert_eq!(at(&mut counter, 39, 50), ((2, 200), 15_000_000_000));
        assert_eq!(at(&mut counter, 101, 50), ((3, 250), 95_000_000_000));
        assert_eq!(counter.now, (4, 300));
    }

    #[test]
    fn without_a_period_counters_show_what_they_are() {
        let mut clock = Clock::new(Time::ZERO);
        let mut counter = Counter::default();
        clock.advance(Time::from_s(3));
        counter.add(&clock, 1, 7);
        assert_eq!((counter.shown(&clock), clock.shown_age_ns(Time::from_s(1))), ((1, 7), 2_000_000_000));
    }
}
