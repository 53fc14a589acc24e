//! Warm-up and end of a run, and the interval of its mean from batches of flows.
//!
//! A run starts with an empty network and ends when flows no longer arrive, so its first and last
//! flows may have it easier. Both ends are found by MSER-5 (White, "An effective truncation heuristic
//! for bias reduction in simulation output", 1997): means of five flows are dropped as long as the
//! variance of the mean of the others falls. Logarithms are used, because few slow flows dominate
//! the variance otherwise. The flows between are divided into batches, whose means are nearly
//! independent if batches are long, so that they have an interval of Student's t.

use super::stat;
use crate::summary::SteadyState;

/// Fewer flows make no batches that are long enough.
const FLOWS_MIN: usize = 1000;
/// Flows in a mean of MSER-5.
const GROUP: usize = 5;
/// Numbers of batches that are tried, until their means are not correlated.
const BATCHES: [usize; 2] = [20, 10];

/// Analyses costs of flows in the order of their starts; `None` with too few of them.
pub(crate) fn steady_state(costs: &[f64]) -> Option<SteadyState> {
    if costs.len() < FLOWS_MIN {
        return None;
    }
    let logs: Vec<f64> = costs
        .chunks_exact(GROUP)
        .map(|group| group.iter().map(|cost| cost.max(f64::MIN_POSITIVE).ln()).sum::<f64>())
        .collect();
    let first = truncation(logs.iter().copied(), logs.len() / 2);
    let last = truncation(logs[first..].iter().rev().copied(), logs.len() / 4);
    let kept = &costs[first * GROUP..costs.len() - last * GROUP];
    let batches = BATCHES.into_iter().map(|count| batch_means(kept, count)).find(|means| !is_correlated(means));
    let of_batches = batches.as_ref().map(|means| stat(means));
    Some(SteadyState {
        flows: costs.len() as u64,
        warm_up: (first * GROUP) as u64,
        end: (last * GROUP) as u64,
        mean: kept.iter().sum::<f64>() / kept.len() as f64,
        ci95: of_batches.map(|stat| stat.ci95),
        mean_of_all: costs.iter().sum::<f64>() / costs.len() as f64,
    })
}

/// Returns how many of the first values are dropped, at most `most`: the number at which the
/// squared standard error of the mean of the others is lowest.
fn truncation(values: impl DoubleEndedIterator<Item = f64> + ExactSizeIterator, most: usize) -> usize {
    let count = values.len();
    let (mut sum, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for (dropped, value) in values.enumerate().collect::<Vec<_>>().into_iter().rev() {
        (sum, squares) = (sum + value, squares + value * value);
        let kept = (count - dropped) as f64;
        // Rounding is no reason to drop anything.
        let error = ((squares - sum * sum / kept) / (kept * kept)).max(1e-12);
        // With equal errors the one that drops less.
        if dropped <= most && error <= best.0 {
            best = (error, dropped);
        }
    }
    best.1
}

fn batch_means(values: &[f64], count: usize) -> Vec<f64> {
    let size = values.len() / count;
    values.chunks_exact(size).take(count).map(|batch| batch.iter().sum::<f64>() / size as f64).collect()
}

/// Returns whether successive means are correlated: the ratio of von Neumann, whose distribution is
/// nearly normal, is too low for chance at 5 %.
fn is_correlated(means: &[f64]) -> bool {
    let (count, all) = (means.len() as f64, stat(means));
    let steps: f64 = means.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let squares = all.sd * all.sd * (count - 1.0);
    squares > 0.0 && 1.0 - steps / (2.0 * squares) > 1.645 * ((count - 2.0) / (count * count - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::random::RandomStream;

    /// Costs with exponential noise; correlated with the one before by `memory`.
    fn costs(random: &mut RandomStream, count: usize, memory: f64) -> Vec<f64> {
        let mut state = 0.0;
        let next = |_| {
            state = memory * state + (1.0 - memory) * random.exponential(1.0);
            1.0 + state
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn warm_up_and_end_are_found() {
        let mut random = RandomStream::new(1, "steady");
        let mut all = costs(&mut random, 5000, 0.5);
        all[..600].iter_mut().for_each(|cost| *cost = 1.0 + (*cost - 1.0) / 20.0);
        all[4600..].iter_mut().for_each(|cost| *cost = 1.0 + (*cost - 1.0) / 20.0);
        let found = steady_state(&all).unwrap();
        assert!((550..=650).contains(&found.warm_up) && (350..=450).contains(&found.end), "{found:?}");
        assert!((found.mean - 2.0).abs() < 2.0 * found.ci95.unwrap() && found.mean_of_all < 1.9, "{found:?}");
        assert_eq!(steady_state(&all[..999]), None);
        let flat = steady_state(&[2.0; 1000]).unwrap();
        assert_eq!((flat.warm_up, flat.end, flat.mean, flat.ci95), (0, 0, 2.0, Some(0.0)));
    }

    /// 95 % intervals contain the true mean in 93 to 97 % of runs, also of flows that depend on those
    /// before.
    #[test]
    fn intervals_of_batches_contain_the_true_mean() {
        const RUNS: usize = 2000;
        for (count, memory) in [(1000, 0.0), (5000, 0.0), (5000, 0.9)] {
            let mut random = RandomStream::new(2, "batches");
            let (mut contained, mut known) = (0, 0);
            for _ in 0..RUNS {
                let found = steady_state(&costs(&mut random, count, memory)).unwrap();
                known += usize::from(found.ci95.is_some());
                contained += usize::from(found.ci95.is_some_and(|half| (found.mean - 2.0).abs() <= half));
            }
            let share = contained as f64 / known as f64;
            println!("{count} flows, memory {memory}: {:.1} % of {known}", share * 100.0);
            assert!((0.93..=0.97).contains(&share) && known * 10 > RUNS * 9, "{count}, {memory}: {share}, {known}");
        }
    }
}
