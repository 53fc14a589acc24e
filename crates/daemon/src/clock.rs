//! Time in which the process ran, as the controller counts it: monotonic, from the start.

use std::time::{Duration, Instant};

use net::Time;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Instant of time zero; pauses move it forward.
    zero: Instant,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { zero: Instant::now() }
    }
    /// Leaves a pause of the process out of the time: the controller could neither ask a peer nor
    /// hear it.
    pub(crate) fn skip(&mut self, pause: Duration) {
        self.zero += pause;
    }
    pub(crate) fn now(self) -> Time {
        self.at(Instant::now())
    }
    pub(crate) fn at(self, moment: Instant) -> Time {
        Time::from_ns(u64::try_from(moment.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX / 1000))
    }
    /// Converts a time to an instant; `None` if it is out of range.
    pub(crate) fn moment(self, time: Time) -> Option<Instant> {
        self.zero.checked_add(duration(time))
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

    #[test]
    fn pauses_do_not_count() {
        let mut clock = Clock::start();
        let moment = Instant::now() + Duration::from_secs(20);
        let before = clock.at(moment);
        clock.skip(Duration::from_secs(15));
        assert_eq!(clock.at(moment), before.saturating_sub(Time::from_s(15)));
        assert_eq!(clock.moment(clock.at(moment)), Some(moment));
    }
}
