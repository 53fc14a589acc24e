//! Monotonic time since the start of the process, as the controller counts it.

use std::time::{Duration, Instant};

use net::Time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }
    pub(crate) fn now(self) -> Time {
        self.at(Instant::now())
    }
    pub(crate) fn at(self, moment: Instant) -> Time {
        Time::from_ns(u64::try_from(moment.saturating_duration_since(self.0).as_nanos()).unwrap_or(u64::MAX / 1000))
    }
    /// Converts a time to an instant; `None` if it is out of range.
    pub(crate) fn moment(self, time: Time) -> Option<Instant> {
        self.0.checked_add(duration(time))
    }
}

/// Converts a duration to the type of the standard library, rounded up, so that a sleep never ends
/// early.
pub(crate) fn duration(time: Time) -> Duration {
    Duration::from_nanos(time.as_ps().div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_round_trip_and_round_up() {
        let clock = Clock::start();
        let moment = clock.moment(Time::from_ms(5)).expect("5 ms is in range");
        assert_eq!(clock.at(moment), Time::from_ms(5));
        assert_eq!(duration(Time::from_ps(1)), Duration::from_nanos(1));
        assert!(clock.now() <= clock.now());
    }
}
