//! Small statistics for the figures, in addition to the summary.

/// Returns the distribution of several pooled samples, each given by `quantiles` at even steps and
/// its count: points (value, share of all at or below it), at most about `most` of them.
pub(super) fn pooled_cdf(samples: &[(&[f64], u64)], most: usize) -> Vec<(f64, f64)> {
    let mut atoms: Vec<(f64, f64)> = Vec::new();
    for (quantiles, count) in samples.iter().filter(|(quantiles, count)| quantiles.len() > 1 && *count > 0) {
        // The quantile at step k represents the share of flows between the neighbouring steps.
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
        // Both tails stay complete, because balancers differ there.
        let tail = index < stride || index + 4 * stride >= atoms.len();
        if tail || index % stride == 0 {
            points.push((*value, below / total));
        }
    }
    points
}

pub(super) fn thin(values: &[f32], most: usize, merge: fn(&[f32]) -> f32) -> Vec<f32> {
    values.chunks(bins_per_cell(values.len(), most)).map(merge).collect()
}

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
