//! A token bucket.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    per_s: f64,
    burst: f64,
    /// Tokens available; negative after [`TokenBucket::spend`] exceeded the rate.
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// Creates a full bucket of `per_s` tokens per second that holds the tokens of the time
    /// `burst`, at least one.
    pub(crate) fn new(per_s: u32, burst: Duration) -> TokenBucket {
        let per_s = f64::from(per_s.max(1));
        let burst = (per_s * burst.as_secs_f64()).max(1.0);
        TokenBucket { per_s, burst, tokens: burst, at: Instant::now() }
    }
    pub(crate) fn take(&mut self) -> bool {
        self.refill();
        let may = self.tokens >= 1.0;
        self.tokens -= if may { 1.0 } else { 0.0 };
        may
    }
    fn refill(&mut self) {
        let now = Instant::now();
        let earned = self.per_s * now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.tokens = (self.tokens + earned).min(self.burst);
    }
    /// Returns the time until a token is available.
    pub(crate) fn until_available(&mut self) -> Duration {
        self.refill();
        Duration::from_secs_f64(((1.0 - self.tokens) / self.per_s).max(0.0))
    }
    /// Returns whether the bucket is full, as a new one is.
    pub(crate) fn is_full(&mut self) -> bool {
        self.refill();
        self.tokens >= self.burst
    }
    /// Takes `count` tokens, on credit if needed. Returns how long to wait until the debt is
    /// repaid.
    pub(crate) fn spend(&mut self, count: usize) -> Duration {
        self.refill();
        self.tokens -= count as f64;
        Duration::from_secs_f64((-self.tokens / self.per_s).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn excess_spending_waits_and_pauses_refill_one_burst() {
        let mut bucket = TokenBucket::new(1_000, Duration::from_millis(100));
        assert_eq!(bucket.spend(100), Duration::ZERO);
        let wait = bucket.spend(500);
        assert!((Duration::from_millis(490)..=Duration::from_millis(500)).contains(&wait), "{wait:?}");
        // Afterwards the debt is repaid, and no more than a burst is saved.
        bucket.at -= Duration::from_secs(10);
        assert_eq!(bucket.spend(100), Duration::ZERO);
        assert!(bucket.spend(1) > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn take_never_goes_into_debt() {
        let mut bucket = TokenBucket::new(2, Duration::from_secs(10));
        assert_eq!((0..100).filter(|_| bucket.take()).count(), 20);
        assert!(!bucket.is_full() && bucket.until_available() > Duration::from_millis(400));
        bucket.at -= Duration::from_secs(1);
        assert_eq!(bucket.until_available(), Duration::ZERO);
        assert_eq!((0..100).filter(|_| bucket.take()).count(), 2);
        bucket.at -= Duration::from_secs(60);
        assert!(bucket.is_full());
    }
}
