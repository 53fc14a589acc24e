//! A server whose cores all jobs share evenly: processor sharing.

use std::collections::BTreeSet;

/// Fractional bits of picoseconds in which attained service is counted.
const FRACTION_BITS: u32 = 16;

/// Returns the picoseconds that a core of a speed takes for work of a core of speed 1.
pub(super) fn work_at(core_time: u64, speed: f64) -> u64 {
    if speed == 1.0 { core_time } else { (core_time as f64 / speed).round() as u64 }
}

/// Processor of a server. Every job has attained the same service since it arrived, so the order of
/// completion never changes. One number gives the progress of all.
#[derive(Debug)]
pub(super) struct Processor {
    cores: u64,
    /// Time of the last update, picoseconds.
    at: u64,
    /// Service attained by a job present from the beginning, in fractions of a picosecond.
    attained: u128,
    /// Jobs by the attained service at which they are done.
    pub(super) jobs: BTreeSet<(u128, u32)>,
    /// Core time used, in fractions of a picosecond.
    busy: u128,
}

impl Processor {
    pub(super) fn new(cores: u32) -> Processor {
        Processor { cores: u64::from(cores.max(1)), at: 0, attained: 0, jobs: BTreeSet::new(), busy: 0 }
    }

    /// Returns the core time used so far, picoseconds.
    pub(super) fn busy(&self) -> u64 {
        (self.busy >> FRACTION_BITS) as u64
    }

    pub(super) fn advance(&mut self, now: u64) {
        let elapsed = u128::from(now - self.at) << FRACTION_BITS;
        self.at = now;
        let jobs = self.jobs.len() as u64;
        if jobs == 0 {
            return;
        }
        let each = if jobs <= self.cores { elapsed } else { elapsed * u128::from(self.cores) / u128::from(jobs) };
        self.attained += each;
        self.busy += elapsed * u128::from(jobs.min(self.cores));
    }

    /// Adds a job of `work` picoseconds of one core at `now`. Returns its key.
    pub(super) fn add(&mut self, now: u64, job: u32, work: u64) -> u128 {
        self.advance(now);
        let done_at = self.attained + (u128::from(work) << FRACTION_BITS);
        self.jobs.insert((done_at, job));
        done_at
    }

    pub(super) fn cancel(&mut self, now: u64, job: u32, key: u128) {
        self.advance(now);
        self.jobs.remove(&(key, job));
    }

    pub(super) fn take_done(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        let first = *self.jobs.first()?;
        if first.0 > self.attained {
            return None;
        }
        self.jobs.remove(&first);
        Some(first.1)
    }

    /// Returns when the next job will be done if none arrives or is cancelled before.
    pub(super) fn next_done(&self) -> Option<u64> {
        let left = self.jobs.first()?.0.saturating_sub(self.attained);
        let (jobs, cores) = (self.jobs.len() as u64, self.cores);
        let fractions = if jobs <= cores { left } else { (left * u128::from(jobs)).div_ceil(u128::from(cores)) };
        Some(self.at + (fractions.div_ceil(1 << FRACTION_BITS)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000_000;

    /// Runs jobs of the given work and arrival times. Returns when each was done, in seconds.
    fn run(cores: u32, jobs: &[(f64, f64)]) -> Vec<f64> {
        let mut server = Processor::new(cores);
        let mut done = vec![0.0; jobs.len()];
        let ps = |seconds: f64| (seconds * SECOND as f64) as u64;
        let mut coming = jobs.iter().enumerate().peekable();
        loop {
            let next = coming.peek().map_or(u64::MAX, |(_, job)| ps(job.0));
            let now = server.next_done().unwrap_or(u64::MAX).min(next);
            if now == u64::MAX {
                return done;
            }
            while let Some(job) = server.take_done(now) {
                done[job as usize] = now as f64 / SECOND as f64;
            }
            if next == now
                && let Some((ix, job)) = coming.next()
            {
                server.add(now, ix as u32, ps(job.1));
            }
        }
    }

    #[test]
    fn two_jobs_on_one_core_take_what_the_formula_says() {
        // The second arrives at 1 s; from then on each gets half. The first has 1 s left, and is
        // done at 3 s. The second has then had 1 s of 3, and is done 2 s later.
        assert_eq!(run(1, &[(0.0, 2.0), (1.0, 3.0)]), [3.0, 5.0]);
        assert_eq!(run(1, &[(0.0, 1.0), (0.0, 1.0), (0.0, 1.0)]), [3.0; 3]);
    }

    #[test]
    fn no_job_gets_more_than_a_core() {
        assert_eq!(run(4, &[(0.0, 2.0), (0.0, 3.0)]), [2.0, 3.0]);
        // Six jobs of 2 s on four cores: two thirds of a core each.
        assert_eq!(run(4, &[(0.0, 2.0); 6]), [3.0; 6]);
        let mut server = Processor::new(4);
        for job in 0..2 {
            server.add(0, job, SECOND);
        }
        while server.next_done().is_some_and(|at| server.take_done(at).is_some()) {}
        assert_eq!((server.busy(), server.jobs.len()), (2 * SECOND, 0));
    }

    #[test]
    fn cancelled_job_frees_its_share() {
        let mut server = Processor::new(1);
        let key = server.add(0, 0, 10 * SECOND);
        server.add(0, 1, 2 * SECOND);
        server.cancel(2 * SECOND, 0, key);
        assert_eq!(server.next_done(), Some(3 * SECOND));
        assert_eq!(server.take_done(3 * SECOND - 2), None);
        assert_eq!(server.take_done(3 * SECOND), Some(1));
    }
}
