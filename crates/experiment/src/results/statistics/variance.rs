//! The variances of comparisons with few seeds, pooled over all comparisons of an experiment.
//!
//! Two or three seeds say little about how much the seeds of one comparison differ, but a sweep has
//! many comparisons. Model (Smyth, "Linear models and empirical Bayes methods for assessing
//! differential expression in microarray experiments", 2004): the variance of each comparison is
//! drawn from one scaled inverse chi-squared distribution. Its scale and its degrees of freedom are
//! fitted to all sample variances. Each comparison then has the mean of its sample variance and
//! the scale, weighed by degrees of freedom, and the sum of both degrees.

use statrs::function::gamma::digamma;

/// Smallest number of comparisons to which the distribution is fitted.
const COMPARISONS_MIN: usize = 15;
/// Fewest degrees of freedom of a variance that says something: those of three seeds.
const DEGREES_MIN: usize = 2;
/// Standard errors that are added to the spread of the logarithms. Without them 95 % intervals
/// contained the ratio in 93 %, and all of a point in 87 %, of cases with 30 comparisons
/// (`coverage.rs`).
const STANDARD_ERRORS: f64 = 2.0;

/// The distribution of the variances; by default nothing is known about them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Prior {
    pub degrees: f64,
    pub scale: f64,
}

impl Prior {
    /// Fits the distribution to sample variances with their degrees of freedom, by the mean and the
    /// variance of their logarithms. Variances of 0 are left out: these comparisons are exact. So are
    /// comparisons with two seeds.
    pub(super) fn fit(variances: impl Iterator<Item = (f64, usize)>) -> Prior {
        let is_usable = |(variance, degrees): &(f64, usize)| *variance > 0.0 && *degrees >= DEGREES_MIN;
        let known: Vec<(f64, f64)> = variances.filter(is_usable).map(|(v, degrees)| (v, degrees as f64)).collect();
        if known.len() < COMPARISONS_MIN {
            return Prior::default();
        }
        let count = known.len() as f64;
        let log = |(variance, degrees): &(f64, f64)| variance.ln() - digamma(degrees / 2.0) + (degrees / 2.0).ln();
        let logs: Vec<f64> = known.iter().map(log).collect();
        let mean = logs.iter().sum::<f64>() / count;
        let squares: Vec<f64> = logs.iter().map(|log| (log - mean).powi(2)).collect();
        // The upper end of what the spread may be: a comparison must not borrow too much.
        let of_squares = super::stat(&squares);
        let spread = of_squares.mean * count / (count - 1.0) + STANDARD_ERRORS * of_squares.sd / count.sqrt();
        // What differs more than by chance are the variances themselves.
        let by_chance = known.iter().map(|(_, degrees)| trigamma(degrees / 2.0)).sum::<f64>() / count;
        // One distribution is never known better than by all samples together.
        let degrees_max: f64 = known.iter().map(|(_, degrees)| degrees).sum();
        let degrees = match spread - by_chance {
            excess if excess > 0.0 => (2.0 * inverse_trigamma(excess)).min(degrees_max),
            _ => degrees_max,
        };
        Prior { degrees, scale: (mean + digamma(degrees / 2.0) - (degrees / 2.0).ln()).exp() }
    }

    /// Returns the pooled variance of a comparison and its degrees of freedom.
    pub(super) fn pooled(&self, variance: f64, degrees: usize) -> (f64, f64) {
        let own = degrees as f64;
        // All seeds agree exactly: what is compared is not random.
        if variance == 0.0 || degrees < DEGREES_MIN {
            return (variance, own);
        }
        let all = self.degrees + own;
        ((self.degrees * self.scale + own * variance) / all, all)
    }
}

/// Returns the derivative of the digamma function, for positive numbers: by recurrence up to 6, then
/// by its asymptotic series (Abramowitz and Stegun 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 6.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    sum + 1.0 / x
        + inverse / 2.0
        + inverse / x * (1.0 / 6.0 - inverse * (1.0 / 30.0 - inverse * (1.0 / 42.0 - inverse / 30.0)))
}

/// Returns where the trigamma function, which falls, has a positive value: by bisection.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..100 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trigamma_has_published_values() {
        let square = std::f64::consts::PI.powi(2);
        for (x, value) in
            [(1.0, square / 6.0), (0.5, square / 2.0), (2.0, square / 6.0 - 1.0), (10.0, 0.105_166_335_681_685_75)]
        {
            assert!((trigamma(x) - value).abs() < 1e-9, "{x}: {}", trigamma(x));
            assert!((inverse_trigamma(value) - x).abs() < 1e-6 * x);
        }
    }

    #[test]
    fn equal_variances_are_pooled_and_different_ones_are_not() {
        // Samples of one variance, whose logarithms spread as by chance or less.
        let prior = Prior::fit((0..40).map(|_| (2.0, 2)));
        assert_eq!(prior.degrees, 80.0);
        let (variance, degrees) = prior.pooled(2.0, 2);
        assert!(degrees == 82.0 && variance > 2.0, "the mean is above the most likely sample: {variance}");
        let prior = Prior::fit((0..40).map(|n| (10f64.powi(n % 8 - 4), 2)));
        assert!(prior.degrees < 1.0, "{prior:?}");
        assert_eq!(Prior::fit([(1.0, 2), (2.0, 2)].into_iter()), Prior::default());
        assert_eq!((prior.pooled(3.0, 1), Prior::fit((0..40).map(|_| (2.0, 1)))), ((3.0, 1.0), Prior::default()));
        assert_eq!(prior.pooled(0.0, 2), (0.0, 2.0));
    }
}
