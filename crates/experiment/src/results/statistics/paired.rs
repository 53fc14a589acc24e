//! Comparison of two balancers, paired over seeds.
//!
//! Costs differ by factors, and a seed changes the costs of all balancers alike. So what is compared
//! is the mean over seeds of the logarithm of the ratio of both costs, with an interval of Student's
//! t. The interval is shown as it is judged.

use super::student_t::half_width;
use super::variance::Prior;
use crate::summary::{Measure, Ratio, RunSummary, Standing};

/// The quantity, margin and confidence by which balancers are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    pub rank_by: Measure,
    /// Difference that does not matter in practice, as a share: a balancer is tied with the best if
    /// the whole interval of the ratio is below 1 + margin.
    pub margin: f64,
    /// Probability that all intervals of a setting contain the true ratios.
    pub confidence: f64,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule { rank_by: Measure::default(), margin: 0.01, confidence: 0.95 }
    }
}

/// A quantity of runs by which balancers are compared.
#[derive(Clone, Copy)]
pub(super) struct Quantity<'a> {
    pub of: &'a dyn Fn(&RunSummary) -> Option<f64>,
    pub is_higher_better: bool,
}

impl Quantity<'_> {
    /// Returns the logarithm of the cost of a run; infinite for a throughput of 0.
    pub(super) fn log_cost(&self, run: &RunSummary) -> Option<f64> {
        let log = (self.of)(run).filter(|value| *value >= 0.0)?.ln();
        Some(if self.is_higher_better { -log } else { log })
    }

    pub(super) fn mean_log_cost(&self, runs: &[RunSummary]) -> Option<f64> {
        let logs: Vec<f64> = runs.iter().filter_map(|run| self.log_cost(run)).collect();
        (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
    }
}

/// The logarithm of the ratio of two costs over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LogRatio {
    pub mean: f64,
    pub variance: f64,
    pub seeds: usize,
}

impl LogRatio {
    /// Returns the ratio of the costs of these runs to those of others with the same seeds; `None`
    /// without such seeds.
    pub(super) fn between(runs: &[RunSummary], others: &[RunSummary], quantity: &Quantity<'_>) -> Option<LogRatio> {
        let difference = |(run, other)| Some(difference(quantity.log_cost(run)?, quantity.log_cost(other)?));
        LogRatio::of(&super::pairs(runs, others).filter_map(difference).collect::<Vec<f64>>())
    }

    pub(super) fn of(differences: &[f64]) -> Option<LogRatio> {
        let seeds = differences.len();
        let mean = differences.iter().sum::<f64>() / seeds as f64;
        let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
        let variance = if seeds > 1 && mean.is_finite() { squares / (seeds - 1) as f64 } else { 0.0 };
        (seeds > 0).then_some(LogRatio { mean, variance, seeds })
    }
}

/// Two infinite costs are equal.
fn difference(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { a - b }
}

/// Result of a comparison with a better balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Worse,
    /// The difference is below the margin.
    Tied,
    /// Neither: more seeds are needed.
    Undecided,
}

impl Decision {
    pub(super) fn standing(self) -> Standing {
        match self {
            Decision::Worse => Standing::Worse,
            Decision::Tied => Standing::Tied,
            Decision::Undecided => Standing::Undecided,
        }
    }
}

/// Judges the comparisons of one setting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    log_margin: f64,
    /// Confidence of the interval of each comparison.
    confidence: f64,
    prior: Prior,
}

/// Number of seeds above which an estimate of the needed number is not useful.
const SEEDS_MAX: u32 = 1000;

impl Judge {
    /// Creates a judge of a number of comparisons, whose intervals hold together (Bonferroni): a
    /// balancer is declared worse than another one of as many by chance in 5 % of settings at most.
    pub(super) fn new(rule: &Rule, comparisons: usize, prior: Prior) -> Judge {
        let confidence = 1.0 - (1.0 - rule.confidence) / comparisons.max(1) as f64;
        Judge { log_margin: rule.margin.ln_1p(), confidence, prior }
    }

    /// Returns half the width of the interval if there were this many seeds.
    fn half_width(&self, ratio: &LogRatio, seeds: usize) -> f64 {
        let (variance, degrees) = self.prior.pooled(ratio.variance, ratio.seeds - 1);
        let more = seeds as f64 - ratio.seeds as f64;
        half_width(self.confidence, degrees + more) * (variance / seeds as f64).sqrt()
    }

    fn decide_by(&self, mean: f64, half_width: f64) -> Decision {
        match () {
            () if (mean - half_width).abs().max((mean + half_width).abs()) <= self.log_margin => Decision::Tied,
            () if mean - half_width > 0.0 => Decision::Worse,
            () => Decision::Undecided,
        }
    }

    /// Decides a comparison with a better balancer. One seed has no interval: the ratio decides.
    pub(super) fn decide(&self, ratio: &LogRatio) -> Decision {
        match ratio.seeds {
            1 if ratio.mean <= self.log_margin => Decision::Tied,
            1 => Decision::Worse,
            seeds => self.decide_by(ratio.mean, self.half_width(ratio, seeds)),
        }
    }

    pub(super) fn shown(&self, ratio: &LogRatio) -> Ratio {
        let half_width = self.half_width(ratio, ratio.seeds);
        match ratio.mean.is_finite() {
            true => Ratio {
                value: ratio.mean.exp(),
                low: (ratio.mean - half_width).exp(),
                high: (ratio.mean + half_width).exp(),
            },
            false => Ratio::default(),
        }
    }

    /// Returns about how many seeds would decide an undecided comparison, if its mean and its variance
    /// stayed as they are; `None` for more than a thousand.
    pub(super) fn seeds_needed(&self, ratio: &LogRatio) -> Option<u32> {
        let mut seeds = ratio.seeds as u32 + 1;
        while self.decide_by(ratio.mean, self.half_width(ratio, seeds as usize)) == Decision::Undecided {
            seeds += seeds.div_ceil(10);
            if seeds > SEEDS_MAX {
                return None;
            }
        }
        Some(seeds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(comparisons: usize) -> Judge {
        Judge::new(&Rule::default(), comparisons, Prior::default())
    }

    #[test]
    fn interval_is_that_of_the_textbook() {
        let ratio = LogRatio::of(&[0.1, 0.2, 0.3]).unwrap();
        assert!((ratio.mean - 0.2).abs() < 1e-12 && (ratio.variance - 0.01).abs() < 1e-12);
        let shown = judge(1).shown(&ratio);
        let half_width = 4.302_653 * 0.1 / 3f64.sqrt();
        assert!((shown.value - 0.2f64.exp()).abs() < 1e-9);
        assert!(
            (shown.low.ln() - (0.2 - half_width)).abs() < 1e-6 && (shown.high.ln() - (0.2 + half_width)).abs() < 1e-6
        );
        assert_eq!(judge(1).decide(&ratio), Decision::Undecided);
        // 2.78 × 0.1 / √5 = 0.124; 6.2 with a second comparison.
        assert_eq!(judge(1).seeds_needed(&ratio), Some(4));
        assert!(judge(30).seeds_needed(&ratio) > judge(2).seeds_needed(&ratio));
    }

    #[test]
    fn margin_decides_between_tied_and_worse() {
        let of = |differences: &[f64]| judge(1).decide(&LogRatio::of(differences).unwrap());
        assert_eq!(of(&[0.004, 0.005, 0.006]), Decision::Tied, "worse, but by less than matters");
        assert_eq!(of(&[0.000, 0.001, -0.001]), Decision::Tied);
        assert_eq!(of(&[0.019, 0.020, 0.021]), Decision::Worse);
        assert_eq!(of(&[0.0, 0.02, 0.04]), Decision::Undecided);
        assert_eq!(of(&[0.0, 0.0]), Decision::Tied, "the same runs");
        assert_eq!((of(&[0.009]), of(&[0.02])), (Decision::Tied, Decision::Worse), "one seed");
        assert_eq!(of(&[f64::INFINITY, f64::INFINITY]), Decision::Worse);
    }
}
