//! Flow-size distributions: exact mean and quantiles, and draws from them.

use net::random::RandomStream;

/// How the probability between two points of a table is spread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interpolation {
    /// Evenly over the sizes between the two points.
    Linear,
    /// All of it exactly on the size of the upper point.
    Step,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CdfPoint {
    pub size_bytes: f64,
    /// Probability of a size up to this one.
    pub probability: f64,
}

/// A distribution of flow sizes in bytes: empirical, fixed, uniform or bimodal.
///
/// All are held as stretches of probability spread evenly over sizes, a stretch of no width being
/// an atom; so mean and quantiles are exact, and only [`SizeDistribution::quantile`] rounds, to
/// whole bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    name: String,
    /// In order of probability; the first starts at 0, the last ends at 1, none is empty.
    segments: Vec<Segment>,
    smallest_bytes: u64,
    largest_bytes: u64,
}

/// A stretch of probability spread evenly over sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segment {
    from_probability: f64,
    to_probability: f64,
    from_bytes: f64,
    to_bytes: f64,
}

/// The reason why parameters give no distribution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizeError {
    #[error("a flow needs at least 1 byte; give a size of 1 B or more")]
    Zero,
    #[error("{0} bytes is more than this program counts exactly (2^53); use a smaller size")]
    TooLarge(f64),
    #[error("min = {min} B is above max = {max} B; swap them")]
    Reversed { min: u64, max: u64 },
    #[error("the share of large flows is {0}; give a number from 0 to 1")]
    Share(f64),
}

/// Above this, neighbouring whole numbers are no longer distinguished by the arithmetic used here.
const SIZE_MAX_BYTES: f64 = 9_007_199_254_740_992.0;

impl SizeDistribution {
    pub fn fixed(size_bytes: u64) -> Result<SizeDistribution, SizeError> {
        check_sizes(size_bytes, size_bytes)?;
        let point = CdfPoint { size_bytes: size_bytes as f64, probability: 1.0 };
        let name = format!("fixed:size={}", net::Bytes::new(size_bytes));
        Ok(SizeDistribution::of_points(name, Interpolation::Step, &[point]))
    }

    /// Every whole number of bytes from `min` to `max`, both included, equally likely.
    pub fn uniform(min_bytes: u64, max_bytes: u64) -> Result<SizeDistribution, SizeError> {
        check_sizes(min_bytes, max_bytes)?;
        // Half a byte more on both sides, so that after rounding every size has the same share.
        let segment = Segment {
            from_probability: 0.0,
            to_probability: 1.0,
            from_bytes: min_bytes as f64 - 0.5,
            to_bytes: max_bytes as f64 + 0.5,
        };
        let (min, max) = (net::Bytes::new(min_bytes), net::Bytes::new(max_bytes));
        Ok(SizeDistribution {
            name: format!("uniform:min={min},max={max}"),
            segments: vec![segment],
            smallest_bytes: min_bytes,
            largest_bytes: max_bytes,
        })
    }

    /// Two sizes, the second with probability `large_share` (0 to 1).
    pub fn bimodal(small_bytes: u64, large_bytes: u64, large_share: f64) -> Result<SizeDistribution, SizeError> {
        check_sizes(small_bytes, large_bytes)?;
        if !(0.0..=1.0).contains(&large_share) {
            return Err(SizeError::Share(large_share));
        }
        let (small, large) = (net::Bytes::new(small_bytes), net::Bytes::new(large_bytes));
        let name = format!("bimodal:small={small},large={large},large_share={large_share}");
        let point = |size: u64, probability| CdfPoint { size_bytes: size as f64, probability };
        let points = [point(small_bytes, 1.0 - large_share), point(large_bytes, 1.0)];
        Ok(SizeDistribution::of_points(name, Interpolation::Step, &points))
    }

    /// Makes it from checked points: both coordinates rise, the last probability is 1.
    pub(crate) fn of_points(name: String, interpolation: Interpolation, points: &[CdfPoint]) -> SizeDistribution {
        let mut segments = Vec::with_capacity(points.len());
        let first = points[0];
        if first.probability > 0.0 {
            segments.push(Segment::atom(0.0, first.probability, first.size_bytes));
        }
        for pair in points.windows(2) {
            let (lower, upper) = (pair[0], pair[1]);
            if upper.probability > lower.probability {
                segments.push(Segment {
                    from_probability: lower.probability,
                    to_probability: upper.probability,
                    from_bytes: match interpolation {
                        Interpolation::Linear => lower.size_bytes,
                        Interpolation::Step => upper.size_bytes,
                    },
                    to_bytes: upper.size_bytes,
                });
            }
        }
        let least = segments.first().map_or(1.0, |segment| segment.from_bytes);
        let largest = segments.last().map_or(1.0, |segment| segment.to_bytes);
        SizeDistribution {
            name,
            segments,
            smallest_bytes: (libm::round(least) as u64).max(1),
            largest_bytes: (libm::round(largest) as u64).max(1),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Mean size in bytes, exact, before sizes are rounded to whole bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.segments.iter().map(|segment| segment.mass() * segment.mean_bytes()).sum()
    }

    pub fn coefficient_of_variation(&self) -> f64 {
        let mean = self.mean_bytes();
        // Central moments by stretch: the plain second moment would cancel if narrow.
        let variance: f64 = self
            .segments
            .iter()
            .map(|segment| {
                let (width, off) = (segment.to_bytes - segment.from_bytes, segment.mean_bytes() - mean);
                segment.mass() * (off * off + width * width / 12.0)
            })
            .sum();
        libm::sqrt(variance) / mean
    }

    /// The size that a share `u` of flows does not exceed, in whole bytes, at least 1. `u` outside
    /// 0 to 1 and NaN give the nearest end.
    pub fn quantile(&self, u: f64) -> u64 {
        let u = if u > 0.0 { u.min(1.0) } else { 0.0 };
        let ix = self.segments.partition_point(|segment| segment.to_probability < u).min(self.segments.len() - 1);
        let segment = self.segments[ix];
        let along = (u - segment.from_probability) / segment.mass();
        let bytes = segment.from_bytes + (segment.to_bytes - segment.from_bytes) * along;
        (libm::round(bytes) as u64).clamp(self.smallest_bytes, self.largest_bytes)
    }

    /// A size in bytes, at least 1, using exactly one draw of the stream.
    pub fn sample(&self, stream: &mut RandomStream) -> u64 {
        self.quantile(stream.next_f64())
    }

    /// Returns the largest drawn size in bytes.
    pub fn largest_bytes(&self) -> u64 {
        self.largest_bytes
    }

    /// Share of flows smaller than `size_bytes`.
    pub fn flows_below(&self, size_bytes: f64) -> f64 {
        self.segments.iter().map(|segment| segment.mass() * segment.share_below(size_bytes)).sum()
    }

    /// Share of all bytes that are in flows larger than `size_bytes`.
    pub fn bytes_share_above(&self, size_bytes: f64) -> f64 {
        let above: f64 = self
            .segments
            .iter()
            .map(|segment| {
                if segment.from_bytes > size_bytes {
                    segment.mass() * segment.mean_bytes()
                } else if segment.to_bytes > size_bytes {
                    let share = 1.0 - segment.share_below(size_bytes);
                    segment.mass() * share * (size_bytes + segment.to_bytes) / 2.0
                } else {
                    0.0
                }
            })
            .sum();
        above / self.mean_bytes()
    }
}

impl Segment {
    fn atom(from_probability: f64, to_probability: f64, size_bytes: f64) -> Segment {
        Segment { from_probability, to_probability, from_bytes: size_bytes, to_bytes: size_bytes }
    }
    fn mass(&self) -> f64 {
        self.to_probability - self.from_probability
    }
    fn mean_bytes(&self) -> f64 {
        (self.from_bytes + self.to_bytes) / 2.0
    }
    /// Share of this stretch on sizes smaller than `size_bytes`.
    fn share_below(&self, size_bytes: f64) -> f64 {
        if self.to_bytes < size_bytes {
            1.0
        } else if self.from_bytes >= size_bytes {
            0.0
        } else {
            (size_bytes - self.from_bytes) / (self.to_bytes - self.from_bytes)
        }
    }
}

fn check_sizes(min: u64, max: u64) -> Result<(), SizeError> {
    if min == 0 || max == 0 {
        return Err(SizeError::Zero);
    }
    check_range(min.max(max) as f64)?;
    if min > max { Err(SizeError::Reversed { min, max }) } else { Ok(()) }
}

/// Refuses sizes that floating point does not hold exactly.
pub(crate) fn check_range(size_bytes: f64) -> Result<(), SizeError> {
    if size_bytes > SIZE_MAX_BYTES {
        return Err(SizeError::TooLarge(size_bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mean(sizes: &SizeDistribution, count: u32) -> f64 {
        let mut stream = RandomStream::new(3, "sizes");
        (0..count).map(|_| sizes.sample(&mut stream) as f64).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn simple_distributions_have_their_closed_moments() {
        let fixed = SizeDistribution::fixed(1_000_000).unwrap();
        assert_eq!(fixed.mean_bytes(), 1e6);
        assert_eq!(fixed.coefficient_of_variation(), 0.0);
        assert_eq!(fixed.name(), "fixed:size=1MB");

        let uniform = SizeDistribution::uniform(1_000, 9_000).unwrap();
        assert_eq!(uniform.mean_bytes(), 5_000.0);
        let exact = ((8_001.0f64 * 8_001.0 - 1.0) / 12.0).sqrt() / 5_000.0;
        assert!((uniform.coefficient_of_variation() - exact).abs() < 1e-7);

        let bimodal = SizeDistribution::bimodal(10_000, 1_000_000, 0.015).unwrap();
        assert!((bimodal.mean_bytes() - 24_850.0).abs() < 1e-6);
        assert_eq!(bimodal.quantile(0.98), 10_000);
        assert_eq!(bimodal.quantile(0.99), 1_000_000);
    }

    #[test]
    fn a_uniform_range_gives_every_size_the_same_share() {
        let die = SizeDistribution::uniform(1, 6).unwrap();
        let mut counts = [0u32; 7];
        let mut stream = RandomStream::new(1, "die");
        for _ in 0..60_000 {
            counts[die.sample(&mut stream) as usize] += 1;
        }
        assert!(counts[1..].iter().all(|count| count.abs_diff(10_000) < 400));
    }

    #[test]
    fn draws_approach_the_exact_mean() {
        for sizes in [
            SizeDistribution::uniform(1, 100_000).unwrap(),
            SizeDistribution::bimodal(10_000, 1_000_000, 0.015).unwrap(),
        ] {
            let (drawn, exact) = (sample_mean(&sizes, 400_000), sizes.mean_bytes());
            assert!((drawn / exact - 1.0).abs() < 0.03, "{drawn} {exact}");
        }
    }

    #[test]
    fn a_share_of_zero_or_one_leaves_one_size() {
        let small = SizeDistribution::bimodal(10, 20, 0.0).unwrap();
        let large = SizeDistribution::bimodal(10, 20, 1.0).unwrap();
        assert_eq!((small.quantile(1.0), large.quantile(0.0)), (10, 20));
        assert_eq!((small.mean_bytes(), large.mean_bytes()), (10.0, 20.0));
    }

    #[test]
    fn impossible_parameters_are_refused() {
        assert_eq!(SizeDistribution::fixed(0), Err(SizeError::Zero));
        assert!(matches!(SizeDistribution::fixed(u64::MAX), Err(SizeError::TooLarge(_))));
        assert!(matches!(SizeDistribution::uniform(9, 8), Err(SizeError::Reversed { min: 9, max: 8 })));
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(matches!(SizeDistribution::bimodal(1, 2, share), Err(SizeError::Share(_))));
        }
    }

    #[test]
    fn quantiles_outside_the_range_answer_the_ends() {
        let sizes = SizeDistribution::uniform(5, 50).unwrap();
        assert_eq!((sizes.quantile(-1.0), sizes.quantile(f64::NAN)), (5, 5));
        assert_eq!((sizes.quantile(2.0), sizes.quantile(1.0)), (50, 50));
    }
}
