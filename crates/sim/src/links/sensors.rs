//! Discounting rate estimators on fabric links (mechanisms.md §1.3). X grows by the bytes sent and
//! shrinks by a fixed share every interval; utilisation is X over the value of a busy link.

use balance::Sensing;

/// Number of precomputed powers of the retained share; older estimates count as 0.
const POWERS: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    bytes: f64,
    /// Start of the interval to which `bytes` belongs.
    updated: u64,
    /// Bytes to which a busy link converges; 0 for a link that is not sensed.
    full: f64,
}

pub(crate) struct Sensors {
    sensing: Sensing,
    interval: u64,
    powers: Vec<f64>,
    estimates: Vec<Estimate>,
}

impl Sensors {
    /// Creates the estimators. `rates` are in bits per second, 0 for links that are not sensed.
    pub(crate) fn new(sensing: Sensing, rates: &[u64]) -> Sensors {
        let estimate = |bps: &u64| Estimate { full: bytes_when_busy(&sensing, *bps), ..Estimate::default() };
        Sensors {
            sensing,
            interval: sensing.interval.as_ps().max(1),
            powers: (0..POWERS).map(|k| (1.0 - sensing.decay).powi(k as i32)).collect(),
            estimates: rates.iter().map(estimate).collect(),
        }
    }

    pub(crate) fn set_rate(&mut self, link: u32, bps: u64) {
        let full = &mut self.estimates[link as usize].full;
        if *full > 0.0 {
            *full = bytes_when_busy(&self.sensing, bps);
        }
    }

    /// Returns whether packets carry readings of this link.
    #[inline]
    pub(crate) fn is_stamped(&self, link: u32) -> bool {
        self.sensing.bits > 0 && self.estimates[link as usize].full > 0.0
    }

    /// Adds `bytes` that left the link at `at`. Times must not decrease for one link.
    #[inline]
    pub(crate) fn add(&mut self, link: u32, bytes: u16, at: u64) {
        let estimate = self.estimates[link as usize];
        if estimate.full > 0.0 {
            self.estimates[link as usize] = self.grown(estimate, bytes, at);
        }
    }

    #[inline]
    fn grown(&self, estimate: Estimate, bytes: u16, at: u64) -> Estimate {
        let estimate = self.decayed(estimate, at);
        Estimate { bytes: estimate.bytes + f64::from(bytes), ..estimate }
    }

    #[inline]
    fn decayed(&self, estimate: Estimate, at: u64) -> Estimate {
        let elapsed = at.saturating_sub(estimate.updated);
        // Most packets follow each other within an interval, and a division takes longer than all else here.
        if elapsed < self.interval {
            return estimate;
        }
        let intervals = if elapsed < 2 * self.interval { 1 } else { elapsed / self.interval };
        let kept = self.powers.get(intervals as usize).copied().unwrap_or(0.0);
        Estimate { bytes: estimate.bytes * kept, updated: estimate.updated + intervals * self.interval, ..estimate }
    }

    /// Returns the utilisation at `now`. `departed` are the sizes and times of packets that left since
    /// the last [`Sensors::add`]: the result does not depend on when they are added.
    #[inline]
    pub(crate) fn utilisation(&self, link: u32, now: u64, departed: impl Iterator<Item = (u16, u64)>) -> f64 {
        let settled = self.estimates[link as usize];
        if settled.full == 0.0 {
            return 0.0;
        }
        let estimate = departed.fold(settled, |estimate, (bytes, at)| self.grown(estimate, bytes, at));
        self.decayed(estimate, now).bytes / settled.full
    }

    #[inline]
    pub(crate) fn reading(&self, link: u32, now: u64) -> u8 {
        self.sensing.quantise(self.utilisation(link, now, std::iter::empty()))
    }
}

/// Returns the bytes to which the estimator of a link that is always busy converges.
fn bytes_when_busy(sensing: &Sensing, bps: u64) -> f64 {
    bps as f64 * sensing.time_constant().as_s_f64() / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Time;

    fn utilisation(sensors: &Sensors, link: u32, now: u64) -> f64 {
        sensors.utilisation(link, now, std::iter::empty())
    }

    /// Returns the readings of a link of 10 Gb/s at `share` of its rate, once converged.
    fn settle(share: f64) -> Vec<(f64, u8)> {
        let sensing = Sensing { interval: Time::from_us(30), decay: 0.2, bits: 3 };
        let mut sensors = Sensors::new(sensing, &[10_000_000_000]);
        let gap = (1_200_000.0 / share) as u64;
        let (mut at, mut readings) = (0, Vec::new());
        while at < 3_000_000_000 {
            at += gap;
            sensors.add(0, 1500, at);
            if at > 2_000_000_000 {
                readings.push((utilisation(&sensors, 0, at), sensors.reading(0, at)));
            }
        }
        readings
    }

    #[test]
    fn a_busy_link_reads_full_within_the_ripple_of_the_interval() {
        let readings = settle(1.0);
        let (low, high) = readings.iter().fold((f64::MAX, 0.0f64), |(l, h), (r, _)| (l.min(*r), h.max(*r)));
        let quantised = |q: u8| readings.iter().filter(|(_, reading)| *reading == q).count();
        assert!(quantised(7) > 0 && quantised(7) + quantised(6) == readings.len(), "clamped to 2^Q - 1");
        assert!(high < 1.02 && low > 0.79, "ripple of up to alpha = 20 %: {low} to {high}");
    }

    #[test]
    fn half_the_rate_reads_half() {
        let readings = settle(0.5);
        let mean = readings.iter().map(|(r, _)| r).sum::<f64>() / readings.len() as f64;
        assert!((mean - 0.45).abs() < 0.02, "half, less half the ripple: {mean}");
    }

    #[test]
    fn a_silent_link_is_forgotten() {
        let sensing = Sensing { interval: Time::from_us(30), decay: 0.2, bits: 3 };
        let mut sensors = Sensors::new(sensing, &[10_000_000_000, 0]);
        (0..200).for_each(|i| sensors.add(0, 1500, i * 1_200_000));
        assert!(utilisation(&sensors, 0, 240_000_000) > 0.5);
        assert!(utilisation(&sensors, 0, 1_500_000_000) < 0.01);
        assert_eq!(utilisation(&sensors, 0, 1_000_000_000_000), 0.0);
        assert!(!sensors.is_stamped(1) && sensors.utilisation(1, 5, [(100, 4)].into_iter()) == 0.0);
    }
}
