//! Wall time as the controller counts it: since the start of the process, never backwards.

use std::time::{Duration, Instant};

use net::Time;

/// A monotonic clock that began at zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }
    /// Time since the start.
    pub(crate) fn now(self) -> Time {
        self.at(Instant::now())
    }
    /// A moment as time since the start.
    pub(crate) fn at(self, moment: Instant) -> Time {
        Time::from_ns(u64::try_from(moment.saturating_duration_since(self.0).as_nanos()).unwrap_or(u64::MAX / 1000))
    }
    /// The moment of a time; `None` if it is beyond what the clock can say.
    pub(crate) fn moment(self, time: Time) -> Option<Instant> {
        self.0.checked_add(duration(time))
    }
}

/// A span of time as the standard library has it; rounded up, so that whoever waits this long is not early.
pub(crate) fn duration(time: Time) -> Duration {
    Duration::from_nanos(time.as_ps().div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_moments_agree_and_waiting_is_never_early() {
        let clock = Clock::start();
        let moment = clock.moment(Time::from_ms(5)).expect("5 ms are not beyond anything");
        assert_eq!(clock.at(moment), Time::from_ms(5));
        assert_eq!(duration(Time::from_ps(1)), Duration::from_nanos(1));
        assert!(clock.now() <= clock.now());
    }
}
