//! Histograms of queue lengths.

/// Histogram of the bytes that packets find queued: eight buckets per octave.
#[derive(Clone, Debug)]
pub(crate) struct QueueHistogram {
    pub(crate) tier: u8,
    pub(crate) up: bool,
    counts: Vec<u64>,
    pub(crate) max: u64,
    pub(crate) above_mark: u64,
}

const HISTOGRAM_BUCKETS: usize = 8 * 32;

impl QueueHistogram {
    pub(super) fn new(tier: u8, up: bool) -> QueueHistogram {
        QueueHistogram { tier, up, counts: vec![0; HISTOGRAM_BUCKETS], max: 0, above_mark: 0 }
    }

    #[inline]
    pub(super) fn record(&mut self, bytes: u32) {
        self.counts[bucket_of(bytes)] += 1;
        self.max = self.max.max(u64::from(bytes));
    }

    /// Adds what another partition has counted.
    pub(crate) fn add(&mut self, other: &QueueHistogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.max = self.max.max(other.max);
        self.above_mark += other.above_mark;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the upper edge of the bucket that holds quantile `q`, at most the maximum.
    pub(crate) fn quantile(&self, q: f64) -> u64 {
        let rank = (self.count() as f64 * q).ceil().max(1.0) as u64;
        let mut below = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            below += count;
            if below >= rank {
                return upper_edge(bucket).min(self.max);
            }
        }
        self.max
    }
}

#[inline]
fn bucket_of(value: u32) -> usize {
    if value < 8 {
        return value as usize;
    }
    let octave = 31 - value.leading_zeros();
    ((octave as usize - 2) << 3) + ((value >> (octave - 3)) & 7) as usize
}

fn upper_edge(bucket: usize) -> u64 {
    if bucket < 8 {
        return bucket as u64;
    }
    let (octave, step) = ((bucket >> 3) as u32 + 2, (bucket & 7) as u64);
    (1u64 << octave) + ((step + 1) << (octave - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_quantiles_are_within_an_eighth() {
        let mut seen = QueueHistogram::new(1, true);
        for value in 0..10_000u32 {
            seen.record(value);
        }
        for (q, exact) in [(0.5, 5_000.0), (0.99, 9_900.0)] {
            let got = seen.quantile(q) as f64;
            assert!(got >= exact - 1.0 && got <= exact * 1.13, "{q}: {got}");
        }
        assert_eq!(seen.max, 9_999);
        for value in [0, 7, 8, 9, 1_000, u32::MAX] {
            assert!(upper_edge(bucket_of(value)) >= u64::from(value));
        }
    }
}
