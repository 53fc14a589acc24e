//! The little statistics the figures need beside what the summary already holds.

/// Mean over seeds and half width of its 95 % interval (Student t; 0 with fewer than two values).
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct Estimate {
    pub mean: f64,
    pub ci95: f64,
}

impl Estimate {
    /// Of the values given; `None` if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Estimate> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        if count == 1 {
            return Some(Estimate { mean, ci95: 0.0 });
        }
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
        Some(Estimate { mean, ci95: student_t_975(count - 1) * (variance / count as f64).sqrt() })
    }
}

/// 97.5 % point of Student's t: table up to 10 degrees of freedom, then a series in their inverse
/// (Cornish–Fisher, within 0.001 there).
fn student_t_975(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    if let Some(value) = freedom.checked_sub(1).and_then(|index| TABLE.get(index)) {
        return *value;
    }
    let n = freedom as f64;
    1.959_964 + 2.372_27 / n + 2.822_5 / n.powi(2) + 2.555_9 / n.powi(3)
}

/// Distribution of several samples taken together, each given by `quantiles` at even steps and its count:
/// points (value, share of all at or below it), at most about `most` of them.
pub(super) fn pooled_cdf(samples: &[(&[f64], u64)], most: usize) -> Vec<(f64, f64)> {
    let mut atoms: Vec<(f64, f64)> = Vec::new();
    for (quantiles, count) in samples.iter().filter(|(quantiles, count)| quantiles.len() > 1 && *count > 0) {
        // The quantile at step k stands for the share of flows between the steps around it.
        let share = *count as f64 / (quantiles.len() - 1) as f64;
        atoms.push((quantiles[0], 0.0));
        atoms.extend(quantiles[1..].iter().map(|value| (*value, share)));
    }
    atoms.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = atoms.iter().map(|atom| atom.1).sum();
    let stride = atoms.len().div_ceil(most.max(2)).max(1);
    let (mut below, mut points) = (0.0, Vec::new());
    for (index, (value, share)) in atoms.iter().enumerate() {
        below += share;
        // Both tails stay whole: that is where balancers differ.
        let tail = index < stride || index + 4 * stride >= atoms.len();
        if tail || index % stride == 0 {
            points.push((*value, below / total));
        }
    }
    points
}

/// Shrinks a row of equal bins to at most `most`, each the result of `merge` over those it covers.
pub(super) fn thin(values: &[f32], most: usize, merge: fn(&[f32]) -> f32) -> Vec<f32> {
    values.chunks(bins_per_cell(values.len(), most)).map(merge).collect()
}

/// How many bins [`thin`] merges into one.
pub(super) fn bins_per_cell(bins: usize, most: usize) -> usize {
    bins.div_ceil(most.max(1)).max(1)
}

pub(super) fn mean_f32(values: &[f32]) -> f32 {
    values.iter().sum::<f32>() / values.len().max(1) as f32
}

pub(super) fn max_f32(values: &[f32]) -> f32 {
    values.iter().copied().fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_student() {
        let three = Estimate::of(&[1.0, 2.0, 3.0]).expect("values");
        assert_eq!(three.mean, 2.0);
        assert!((three.ci95 - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(Estimate::of(&[5.0]), Some(Estimate { mean: 5.0, ci95: 0.0 }));
        assert_eq!(Estimate::of(&[]), None);
        for (freedom, exact) in [(11, 2.20099), (20, 2.08596), (30, 2.04227), (100, 1.98397)] {
            assert!((student_t_975(freedom) - exact).abs() < 1e-3, "{freedom}");
        }
    }

    #[test]
    fn pooling_weighs_samples_by_their_size() {
        let low: Vec<f64> = (0..=200).map(|k| f64::from(k) / 200.0).collect();
        let high: Vec<f64> = low.iter().map(|value| value + 10.0).collect();
        let points = pooled_cdf(&[(&low, 300), (&high, 100)], 100);
        let at = |value: f64| points.iter().rfind(|point| point.0 <= value).expect("a point").1;
        assert!((at(5.0) - 0.75).abs() < 0.01, "{}", at(5.0));
        assert_eq!(points.last().expect("a point").1, 1.0);
        assert!(points.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }
}
