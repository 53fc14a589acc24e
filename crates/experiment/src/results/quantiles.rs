//! Exact quantiles, by sorting.

use crate::summary::Quantiles;

/// Returns the nearest-rank quantile `q` of a sorted list; 0 for an empty list.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).or(sorted.last()).copied().unwrap_or(0.0)
}

pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Returns mean and quantiles of a sorted list; all 0 for an empty list.
pub fn summary(sorted: &[f64]) -> Quantiles {
    if sorted.is_empty() {
        return Quantiles::default();
    }
    Quantiles {
        count: sorted.len() as u64,
        mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        p50: quantile(sorted, 0.50),
        p95: quantile(sorted, 0.95),
        p99: quantile(sorted, 0.99),
        p999: quantile(sorted, 0.999),
        max: sorted[sorted.len() - 1],
    }
}

/// Returns the 201 values at 0, 0.5, 1, … 100 %; empty for an empty list.
pub fn curve(sorted: &[f64]) -> Vec<f64> {
    if sorted.is_empty() {
        return Vec::new();
    }
    (0..=200).map(|step| quantile(sorted, f64::from(step) / 200.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_members_of_the_list() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let q = summary(&values);
        assert_eq!((q.p50, q.p95, q.p99, q.p999, q.max, q.mean), (50.0, 95.0, 99.0, 100.0, 100.0, 50.5));
        assert_eq!((quantile(&values, 0.0), quantile(&[], 0.5)), (1.0, 0.0));
        assert_eq!(curve(&values).len(), 201);
        assert_eq!(summary(&[]), Quantiles::default());
    }

    proptest::proptest! {
        #[test]
        fn at_least_the_share_lies_at_or_below(values in proptest::collection::vec(0.0f64..1e6, 1..50), q in 0.0f64..1.0) {
            let values = sorted(values);
            let at = quantile(&values, q);
            let below = values.iter().filter(|value| **value <= at).count() as f64;
            proptest::prop_assert!(below >= q * values.len() as f64);
            let strictly = values.iter().filter(|value| **value < at).count() as f64;
            proptest::prop_assert!(strictly < q * values.len() as f64 || strictly == 0.0);
        }
    }
}
