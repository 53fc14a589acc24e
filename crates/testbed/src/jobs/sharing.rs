//! Processor sharing: what each job of a server may have computed by now.

use std::time::Instant;

/// Cores that are shared evenly by all jobs, none of which gets more than one.
#[derive(Debug)]
pub(super) struct Sharing {
    cores: f64,
    jobs: u32,
    at: Option<Instant>,
    /// Core time that a job which has been here from the beginning may have had, seconds.
    attained: f64,
}

impl Sharing {
    pub(super) fn new(cores: u32) -> Sharing {
        Sharing { cores: f64::from(cores), jobs: 0, at: None, attained: 0.0 }
    }

    /// It is now.
    pub(super) fn advance(&mut self, now: Instant) {
        let before = self.at.replace(now).unwrap_or(now);
        if self.jobs > 0 {
            self.attained += (now - before).as_secs_f64() * (self.cores / f64::from(self.jobs)).min(1.0);
        }
    }

    /// A job comes; answers from what on its time counts.
    pub(super) fn join(&mut self) -> f64 {
        self.jobs += 1;
        self.attained
    }

    /// A job has been done.
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
    fn cores_are_shared_and_no_job_gets_more_than_one() {
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
        for _ in 0..4 {
            sharing.leave();
        }
        sharing.advance(at(900));
        assert!((sharing.attained() - first - 0.15).abs() < 1e-9, "nobody is there");
    }
}
