//! Log-normal draws on the project's streams and `libm`, bit-equal everywhere.

use net::random::RandomStream;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    mu: f64,
    sigma: f64,
}

impl LogNormal {
    /// With this mean (any unit, above 0) and standard deviation of the natural logarithm (at least
    /// 0); `None` for other values. `sigma` 0 is a constant.
    pub fn with_mean(mean: f64, sigma: f64) -> Option<LogNormal> {
        let fine = mean.is_finite() && mean > 0.0 && sigma.is_finite() && sigma >= 0.0;
        fine.then(|| LogNormal { mu: libm::log(mean) - sigma * sigma / 2.0, sigma })
    }
    /// The mean, in the unit it was given in.
    pub fn mean(&self) -> f64 {
        libm::exp(self.mu + self.sigma * self.sigma / 2.0)
    }
    /// A value, in the unit of the mean. Uses two draws of the stream.
    pub fn sample(&self, stream: &mut RandomStream) -> f64 {
        libm::exp(self.mu + self.sigma * standard_normal(stream))
    }
}

/// Normal with mean 0 and variance 1 (Box-Muller, the cosine half only: two draws each, so that the
/// number of draws never depends on their values).
fn standard_normal(stream: &mut RandomStream) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.next_f64()));
    radius * libm::cos(std::f64::consts::TAU * stream.next_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;
    use rand_distr::Distribution;

    const COUNT: usize = 200_000;

    fn draw(mut one: impl FnMut() -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = (0..COUNT).map(|_| one()).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// Largest distance between a sample and a distribution function (Kolmogorov-Smirnov).
    fn distance(values: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
        let n = values.len() as f64;
        let at = |(ix, value): (usize, &f64)| (cdf(*value) - (ix as f64 + 0.5) / n).abs();
        values.iter().enumerate().map(at).fold(0.0, f64::max)
    }

    /// 0.1 % critical value for a sample of this size.
    fn limit() -> f64 {
        1.95 / (COUNT as f64).sqrt()
    }

    #[test]
    fn normal_draws_follow_the_error_function() {
        let mut stream = RandomStream::new(5, "normal");
        let values = draw(|| standard_normal(&mut stream));
        let cdf = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        assert!(distance(&values, cdf) < limit());
        // The oracle must be able to fail.
        assert!(distance(&values, |x| cdf(x * 1.05)) > limit());
    }

    #[test]
    fn log_normal_draws_agree_with_rand_distr() {
        let log_normal = LogNormal::with_mean(10.0, 1.2).unwrap();
        let reference = rand_distr::LogNormal::new(10f64.ln() - 0.72, 1.2).unwrap();
        let mut stream = RandomStream::new(6, "mine");
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let (mine, reference) = (draw(|| log_normal.sample(&mut stream)), draw(|| reference.sample(&mut rng)));
        let rank = |x: f64| reference.partition_point(|value| *value <= x) as f64 / COUNT as f64;
        assert!(distance(&mine, rank) < limit() * 1.5);
    }

    #[test]
    fn moments_are_closed_forms() {
        let mut stream = RandomStream::new(8, "moments");
        let log_normal = LogNormal::with_mean(250.0, 1.0).unwrap();
        assert!((log_normal.mean() - 250.0).abs() < 1e-9);
        let mean = draw(|| log_normal.sample(&mut stream)).iter().sum::<f64>() / COUNT as f64;
        assert!((mean / 250.0 - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn impossible_parameters_make_no_distribution() {
        assert!(LogNormal::with_mean(0.0, 1.0).is_none());
        assert!(LogNormal::with_mean(1.0, -1.0).is_none());
        assert!(LogNormal::with_mean(f64::NAN, 1.0).is_none());
        let constant = LogNormal::with_mean(4.0, 0.0).unwrap();
        assert!((constant.sample(&mut RandomStream::new(1, "c")) - 4.0).abs() < 1e-12);
    }
}
