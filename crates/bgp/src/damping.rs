//! Damping of flapping routes (RFC 2439).
//!
//! Each withdrawal and each change of a route adds to its penalty, which halves every
//! [`Damping::half_life`]. Above [`Damping::suppress`] the route is not used; below
//! [`Damping::reuse`] it is used again.
//!
//! The figures are those of common routers, except for the suppress threshold: RFC 7196 found 2,000
//! and 3,000 to suppress routes that only converge, and recommends 6,000.

use net::Time;

/// The figures of route damping; penalties have no unit.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Damping {
    /// Penalty of a withdrawal, and of the loss of the BGP session.
    pub withdrawal: f64,
    /// Penalty of an announcement with other attributes.
    pub change: f64,
    /// Penalty above which a route is suppressed; infinite for no damping.
    pub suppress: f64,
    /// Penalty below which a suppressed route is used again.
    pub reuse: f64,
    /// Time in which a penalty halves.
    pub half_life: Time,
    /// Maximum time from the last flap until a route is used again.
    pub suppress_max: Time,
}

impl Default for Damping {
    fn default() -> Damping {
        Damping {
            withdrawal: 1000.0,
            change: 500.0,
            suppress: 6000.0,
            reuse: 750.0,
            half_life: Time::from_s(15 * 60),
            suppress_max: Time::from_s(60 * 60),
        }
    }
}

/// The penalty of a route at a time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Penalty {
    value: f64,
    at: Time,
}

impl Damping {
    /// Returns the maximum penalty: it falls to [`Damping::reuse`] in [`Damping::suppress_max`].
    pub fn ceiling(&self) -> f64 {
        self.reuse * libm::exp2(self.suppress_max.as_s_f64() / self.half_life.as_s_f64())
    }

    /// Returns a penalty at a later time.
    pub(crate) fn decayed(&self, penalty: Penalty, now: Time) -> f64 {
        let elapsed = now.saturating_sub(penalty.at).as_s_f64();
        penalty.value * libm::exp2(-elapsed / self.half_life.as_s_f64())
    }

    /// Adds a flap to a penalty. Returns whether the penalty is above the suppress threshold.
    pub(crate) fn add(&self, penalty: &mut Penalty, now: Time, figure: f64) -> bool {
        let value = (self.decayed(*penalty, now) + figure).min(self.ceiling());
        *penalty = Penalty { value, at: now };
        value > self.suppress
    }

    /// Returns when a penalty falls to `level`. It is rounded up, so that the penalty is not above
    /// the level at this time.
    pub(crate) fn falls_to(&self, penalty: Penalty, level: f64) -> Time {
        let halvings = libm::log2(penalty.value / level).max(0.0);
        let seconds = halvings * self.half_life.as_s_f64();
        penalty.at.saturating_add(Time::from_us((seconds * 1e6) as u64 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Time = Time::from_s;

    /// The closed form: flaps every `gap` seconds add up to a geometric series.
    #[test]
    fn penalty_is_the_geometric_series_of_its_flaps() {
        let damping = Damping { suppress_max: S(24 * 3600), ..Damping::default() };
        for gap in [1, 60, 900, 3600] {
            let mut penalty = Penalty::default();
            let ratio = (-(gap as f64) / 900.0).exp2();
            for n in 1..=40 {
                damping.add(&mut penalty, S(gap * n), 1000.0);
                let expected = 1000.0 * (1.0 - ratio.powi(n as i32)) / (1.0 - ratio);
                let expected = expected.min(damping.ceiling());
                assert!((penalty.value - expected).abs() < 1e-6 * expected, "{gap} {n}: {penalty:?} {expected}");
            }
        }
    }

    #[test]
    fn penalty_halves_every_half_life_and_reuse_is_computed() {
        let damping = Damping::default();
        let mut penalty = Penalty::default();
        for _ in 0..7 {
            damping.add(&mut penalty, S(100), 1000.0);
        }
        assert_eq!(penalty.value, 7000.0);
        for n in 0..5 {
            let expected = 7000.0 / f64::from(1 << n);
            assert!((damping.decayed(penalty, S(100 + 900 * n)) - expected).abs() < 1e-6);
        }
        let reuse = damping.falls_to(penalty, damping.reuse);
        let closed_form = 100.0 + 900.0 * (7000.0_f64 / 750.0).log2();
        assert!((reuse.as_s_f64() - closed_form).abs() < 1e-3, "{reuse} {closed_form}");
        assert!(damping.decayed(penalty, reuse) <= damping.reuse);
        assert!(damping.decayed(penalty, reuse.saturating_sub(S(1))) > damping.reuse);
    }

    #[test]
    fn no_route_is_suppressed_longer_than_the_maximum() {
        let damping = Damping::default();
        let mut penalty = Penalty::default();
        for flap in 0..100_000 {
            damping.add(&mut penalty, Time::from_ms(10 * flap), 1000.0);
        }
        assert_eq!(damping.ceiling(), 12_000.0);
        let suppressed = damping.falls_to(penalty, damping.reuse).saturating_sub(Time::from_ms(999_990));
        assert!((suppressed.as_s_f64() - 3600.0).abs() < 0.01, "{suppressed}");
    }
}
