//! Student's t distribution: the factor of a 95 % confidence interval.

/// The 97.5 % quantile for 1 to 30 degrees of freedom.
const TABLE: [f64; 30] = [
    12.706_205, 4.302_653, 3.182_446, 2.776_445, 2.570_582, 2.446_912, 2.364_624, 2.306_004, 2.262_157, 2.228_139,
    2.200_985, 2.178_813, 2.160_369, 2.144_787, 2.131_450, 2.119_905, 2.109_816, 2.100_922, 2.093_024, 2.085_963,
    2.079_614, 2.073_873, 2.068_658, 2.063_899, 2.059_539, 2.055_529, 2.051_831, 2.048_407, 2.045_230, 2.042_272,
];

/// Returns the 97.5 % quantile of Student's t: half the width of a two-sided 95 % interval in
/// standard errors. Zero degrees of freedom have no interval; the result is 0.
pub fn t975(degrees: usize) -> f64 {
    match degrees {
        0 => 0.0,
        1..=30 => TABLE[degrees - 1],
        _ => expansion(degrees as f64),
    }
}

/// Expands the quantile in 1 / degrees (Abramowitz and Stegun 26.7.5), accurate to six digits from
/// 30 on.
fn expansion(degrees: f64) -> f64 {
    const Z: f64 = 1.959_963_984_540_054;
    let z = |power: i32| Z.powi(power);
    let first = (z(3) + Z) / 4.0;
    let second = (5.0 * z(5) + 16.0 * z(3) + 3.0 * Z) / 96.0;
    let third = (3.0 * z(7) + 19.0 * z(5) + 17.0 * z(3) - 15.0 * Z) / 384.0;
    Z + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        for (degrees, value) in
            [(1, 12.7062), (2, 4.3027), (9, 2.2622), (29, 2.0452), (40, 2.0211), (60, 2.0003), (120, 1.9799)]
        {
            assert!((t975(degrees) - value).abs() < 5e-5, "{degrees}: {}", t975(degrees));
        }
        assert_eq!(t975(0), 0.0);
        assert!((t975(1_000_000) - 1.959_966).abs() < 1e-5);
    }

    #[test]
    fn table_and_expansion_meet() {
        assert!((TABLE[29] - expansion(30.0)).abs() < 2e-6);
        assert!(TABLE.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
