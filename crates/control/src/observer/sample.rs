//! Counter samples, and rates between them.
//!
//! Rates are the difference of bytes divided by the difference of the *durations in the replies*,
//! never by the nominal poll interval (mechanisms.md §5).

use net::{Bandwidth, Time};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) bytes: u64,
    /// Age of the counters, ns.
    pub(crate) duration_ns: u64,
    /// Age at which the bytes last changed, ns.
    pub(crate) moved_at_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// There is no earlier sample, or the counters were reset.
    First,
    Stale,
    Rate(Bandwidth),
}

impl Reading {
    /// Returns the rate, if the reading gives one.
    pub(crate) fn rate(self) -> Option<Bandwidth> {
        if let Reading::Rate(rate) = self { Some(rate) } else { None }
    }
}

impl Sample {
    pub(crate) fn first(bytes: u64, duration_ns: u64) -> Sample {
        Sample { bytes, duration_ns, moved_at_ns: duration_ns }
    }

    /// Replaces the last sample, if there is any, by a new one.
    pub(crate) fn read(last: &mut Option<Sample>, bytes: u64, duration_ns: u64) -> Reading {
        match last {
            Some(sample) => sample.next(bytes, duration_ns),
            None => {
                *last = Some(Sample::first(bytes, duration_ns));
                Reading::First
            }
        }
    }

    pub(crate) fn next(&mut self, bytes: u64, duration_ns: u64) -> Reading {
        if bytes < self.bytes || duration_ns < self.duration_ns {
            *self = Sample::first(bytes, duration_ns);
            return Reading::First;
        }
        let (more, elapsed_ns) = (bytes - self.bytes, duration_ns - self.duration_ns);
        if elapsed_ns == 0 {
            return Reading::Stale; // Bytes without time give no rate; they count with the next sample.
        }
        let moved_at_ns = if more > 0 { duration_ns } else { self.moved_at_ns };
        *self = Sample { bytes, duration_ns, moved_at_ns };
        let bps = u128::from(more) * 8 * 1_000_000_000 / u128::from(elapsed_ns);
        Reading::Rate(Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    /// Returns how long nothing has been counted, by the switch's clock.
    pub(crate) fn idle(&self) -> Time {
        Time::from_ns(self.duration_ns - self.moved_at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn rates_use_the_clock_of_the_switch() {
        let mut sample = Sample::first(1_000, S);
        assert_eq!(sample.next(126_000, 3 * S), Reading::Rate(Bandwidth::from_bps(500_000)));
        assert_eq!(sample.next(126_000, 3 * S), Reading::Stale);
        assert_eq!(sample.next(126_000, 4 * S), Reading::Rate(Bandwidth::from_bps(0)));
        assert_eq!(sample.idle(), Time::from_s(1));
        assert_eq!(sample.next(10, S), Reading::First, "the counters were reset");
        assert_eq!(sample.next(u64::MAX, S + 1), Reading::Rate(Bandwidth::from_bps(u64::MAX)));
    }
}
