//! Rates from counters: difference of bytes by difference of the *durations in the replies*, never by the nominal period
//! of polling (mechanisms.md §5).

use net::{Bandwidth, Time};

/// The latest counters of a flow or a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sample {
    /// Bytes counted.
    pub(crate) bytes: u64,
    /// Age of the counters, ns.
    pub(crate) duration_ns: u64,
    /// Age they had when bytes were last seen to change, ns.
    pub(crate) moved_at_ns: u64,
}

/// What a new sample tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// Nothing to compare with: the first one, or counters that began anew.
    First,
    /// The switch has not refreshed its counters.
    Stale,
    /// Bits per second between the samples.
    Rate(Bandwidth),
}

impl Sample {
    /// The first sample of something.
    pub(crate) fn first(bytes: u64, duration_ns: u64) -> Sample {
        Sample { bytes, duration_ns, moved_at_ns: duration_ns }
    }

    /// Takes the next one.
    pub(crate) fn next(&mut self, bytes: u64, duration_ns: u64) -> Reading {
        if bytes < self.bytes || duration_ns < self.duration_ns {
            *self = Sample::first(bytes, duration_ns);
            return Reading::First;
        }
        let (more, elapsed_ns) = (bytes - self.bytes, duration_ns - self.duration_ns);
        if elapsed_ns == 0 {
            return Reading::Stale; // Bytes without time make no rate; they count with the next sample.
        }
        let moved_at_ns = if more > 0 { duration_ns } else { self.moved_at_ns };
        *self = Sample { bytes, duration_ns, moved_at_ns };
        let bps = u128::from(more) * 8 * 1_000_000_000 / u128::from(elapsed_ns);
        Reading::Rate(Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    /// How long nothing has been counted, by the switch's clock.
    pub(crate) fn idle(&self) -> Time {
        Time::from_ns(self.duration_ns - self.moved_at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn rates_are_by_the_switch_s_clock() {
        let mut sample = Sample::first(1_000, S);
        assert_eq!(sample.next(126_000, 3 * S), Reading::Rate(Bandwidth::from_bps(500_000)));
        assert_eq!(sample.next(126_000, 3 * S), Reading::Stale);
        assert_eq!(sample.next(126_000, 4 * S), Reading::Rate(Bandwidth::from_bps(0)));
        assert_eq!(sample.idle(), Time::from_s(1));
        assert_eq!(sample.next(10, S), Reading::First, "counters began anew");
        assert_eq!(sample.next(u64::MAX, S + 1), Reading::Rate(Bandwidth::from_bps(u64::MAX)));
    }
}
