//! Quantiles of Student's t distribution.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Degrees above this count as this many: the quantiles differ by less than 0.02 %, and the library
/// is not accurate there.
const DEGREES_MAX: f64 = 10_000.0;

/// Returns half the width of a two-sided interval with this confidence (a share), in standard
/// errors. Degrees of freedom below 1 have no interval; the result is 0.
pub fn half_width(confidence: f64, degrees: f64) -> f64 {
    let quantile = |t: StudentsT| t.inverse_cdf((1.0 + confidence) / 2.0);
    if degrees < 1.0 { 0.0 } else { StudentsT::new(0.0, 1.0, degrees.min(DEGREES_MAX)).map_or(0.0, quantile) }
}

/// Returns half the width of a two-sided 95 % interval in standard errors.
pub fn t975(degrees: usize) -> f64 {
    half_width(0.95, degrees as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        let published =
            [(1, 12.706_205), (2, 4.302_653), (9, 2.262_157), (29, 2.045_230), (60, 2.000_298), (120, 1.979_930)];
        for (degrees, value) in published {
            assert!((t975(degrees) - value).abs() < 2e-6, "{degrees}: {}", t975(degrees));
        }
        assert_eq!(t975(0), 0.0);
        assert!((t975(1_000_000) - 1.959_966).abs() < 3e-4);
        // Of a simultaneous interval for 30 comparisons with two degrees of freedom.
        assert!((half_width(1.0 - 0.05 / 30.0, 2.0) - 24.464_361).abs() < 1e-3);
    }
}
