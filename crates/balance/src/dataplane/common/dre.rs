//! The discounting rate estimator (mechanisms.md §1.3; CONGA, SIGCOMM 2014, section 3.2) of traffic
//! that an edge sends. A counter grows by the bytes sent and shrinks by the share `decay` every
//! `interval`; missed decays are applied when it is read.

use net::Time;

/// Interval and decay of a set of estimators.
#[derive(Clone, Copy, Debug)]
pub struct DreRule {
    interval_ps: u64,
    keep: f64,
    /// Time constant of the decay, seconds.
    tau_s: f64,
}

/// One estimator: bytes in the counter after the decay of `tick`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dre {
    bytes: f64,
    tick: u64,
}

impl DreRule {
    /// Makes a rule: every `interval` (at least 1 ns) counters lose the share `decay` in (0, 1].
    pub fn new(interval: Time, decay: f64) -> DreRule {
        let interval_ps = interval.as_ps().max(1000);
        DreRule { interval_ps, keep: 1.0 - decay, tau_s: interval_ps as f64 * 1e-12 / decay }
    }

    /// Returns the number of decays until `now`, computed once for all estimators that are read.
    #[inline]
    pub fn tick(&self, now: Time) -> u64 {
        now.as_ps() / self.interval_ps
    }

    /// Returns the bytes in the counter at `tick`, proportional to the rate.
    #[inline]
    pub fn bytes(&self, dre: &Dre, tick: u64) -> f64 {
        match tick.saturating_sub(dre.tick) {
            0 => dre.bytes,
            ticks => dre.bytes * power(self.keep, ticks),
        }
    }

    #[inline]
    pub fn bits_per_s(&self, dre: &Dre, tick: u64) -> f64 {
        self.bytes(dre, tick) * 8.0 / self.tau_s
    }

    /// Adds sent bytes to the counter.
    #[inline]
    pub fn add(&self, dre: &mut Dre, tick: u64, bytes: u32) {
        *dre = Dre { bytes: self.bytes(dre, tick) + f64::from(bytes), tick };
    }
}

/// Raises `base` to a whole power: the same bits on every platform, unlike library functions.
#[inline]
pub fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_rate_is_found_within_the_ripple() {
        // 1500 bytes every 1.2 us are 10 Gb/s, 25 packets an interval. In steady state the counter
        // swings between rate × tau right before a decay and (1 − decay) of it right after
        // (mechanisms.md §1.3: 20 % of ripple).
        let rule = DreRule::new(Time::from_us(30), 0.2);
        let mut dre = Dre::default();
        for packet in 0..2000u64 {
            rule.add(&mut dre, rule.tick(Time::from_ns(1200 * packet)), 1500);
        }
        let rate = |at| rule.bits_per_s(&dre, rule.tick(at)) / 1e10;
        let end = Time::from_ns(1200 * 2000);
        assert!((rate(Time::from_ps(end.as_ps() - 1)) - 1.0).abs() < 1e-6);
        assert!((rate(end) - 0.8).abs() < 1e-6);
    }

    #[test]
    fn idle_decay_is_exact_at_any_read_time() {
        let rule = DreRule::new(Time::from_us(10), 0.5);
        let mut dre = Dre::default();
        rule.add(&mut dre, 0, 1024);
        for ticks in 0..10 {
            let bytes = rule.bytes(&dre, rule.tick(Time::from_us(10 * ticks)));
            assert_eq!(bytes, 1024.0 / f64::from(1u32 << ticks));
        }
        assert_eq!(rule.bytes(&dre, u64::MAX), 0.0);
    }

    #[test]
    fn powers_are_products() {
        for exponent in 0..40 {
            let product = (0..exponent).fold(1.0, |product, _| product * 0.9);
            assert!((power(0.9, exponent) / product - 1.0).abs() < 1e-12, "{exponent}");
        }
    }
}
