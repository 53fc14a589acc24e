//! Processor sharing: the core time that each job of a server has attained.

use std::time::Instant;

/// Cores that all jobs share evenly; no job uses more than one.
#[derive(Debug)]
pub(super) struct Sharing {
    cores: f64,
    jobs: u32,
    at: Option<Instant>,
    /// Core time attained by a job that has been running from the beginning, seconds.
    attained: f64,
}

impl Sharing {
    pub(super) fn new(cores: u32) -> Sharing {
        Sharing { cores: f64::from(cores), jobs: 0, at: None, attained: 0.0 }
    }

    pub(super) fn advance(&mut self, now: Instant) {
        let before = self.at.replace(now).unwrap_or(now);
        if self.jobs > 0 {
            self.attained += (now - before).as_secs_f64() * (self.cores / f64::from(self.jobs)).min(1.0);
        }
    }

    /// Adds a job. Returns the attained core time at which its own begins.
    pub(super) fn join(&mut self) -> f64 {
        self.jobs += 1;
        self.attained
    }

    pub(super) fn leave(&mut self) -> f64 {
        self.jobs -= 1;
        self.attained
    }

    pub(super) fn attained(&self) -> f64 {
        self.attained
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn cores_are_shared_with_at_most_one_per_job() {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let mut sharing = Sharing::new(2);
        sharing.advance(at(0));
        let first = sharing.join();
        sharing.advance(at(100));
        assert!((sharing.attained() - first - 0.1).abs() < 1e-9, "one core at most");
        sharing.join();
        sharing.join();
        sharing.join();
        sharing.advance(at(200));
        assert!((sharing.attained() - first - 0.15).abs() < 1e-9, "half a core each of four");
        (0..4).for_each(|_| _ = sharing.leave());
        sharing.advance(at(900));
        assert!((sharing.attained() - first - 0.15).abs() < 1e-9, "no job is running");
    }
}
