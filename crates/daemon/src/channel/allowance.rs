//! How often something may happen: a bucket that fills at a rate and holds so much at most.

use std::time::Duration;

use tokio::time::Instant;

/// A rate with some room for bursts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    per_s: f64,
    /// What may happen at once after a rest.
    burst: f64,
    /// What may happen now; below zero, what has happened too early.
    left: f64,
    at: Instant,
}

impl Allowance {
    /// So many per second, and as many at once as in the time of a burst; at least one.
    pub(super) fn new(per_s: u32, burst: Duration) -> Allowance {
        let per_s = f64::from(per_s.max(1));
        let burst = (per_s * burst.as_secs_f64()).max(1.0);
        Allowance { per_s, burst, left: burst, at: Instant::now() }
    }

    /// Whether one more may happen now; if so, it has.
    pub(super) fn take(&mut self) -> bool {
        self.earn();
        let may = self.left >= 1.0;
        self.left -= if may { 1.0 } else { 0.0 };
        may
    }

    fn earn(&mut self) {
        let now = Instant::now();
        let earned = self.per_s * now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.left = (self.left + earned).min(self.burst);
    }

    /// So many have happened; how long to wait before anything happens again.
    pub(super) fn spend(&mut self, count: usize) -> Duration {
        self.earn();
        self.left -= count as f64;
        Duration::from_secs_f64((-self.left / self.per_s).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_fast_waits_and_rests_are_worth_a_burst() {
        let mut allowance = Allowance::new(1_000, Duration::from_millis(100));
        assert_eq!(allowance.spend(100), Duration::ZERO);
        let wait = allowance.spend(500);
        assert!((Duration::from_millis(490)..=Duration::from_millis(500)).contains(&wait), "{wait:?}");
        // A second later the debt is paid, and no more than a burst has been saved.
        allowance.at -= Duration::from_secs(10);
        assert_eq!(allowance.spend(100), Duration::ZERO);
        assert!(allowance.spend(1) > Duration::ZERO);
    }

    #[test]
    fn what_is_taken_is_never_owed() {
        let mut allowance = Allowance::new(2, Duration::from_secs(10));
        assert_eq!((0..100).filter(|_| allowance.take()).count(), 20);
        allowance.at -= Duration::from_secs(1);
        assert_eq!((0..100).filter(|_| allowance.take()).count(), 2);
    }
}
