//! The balancers of one setting: a variant at a load.

use super::paired::{Decision, Judge, LogRatio, Quantity};
use super::{is_complete, started, unfinished};
use crate::summary::{Measure, RunSummary};

/// The runs of a setting by balancer, and the order of the balancers by their costs.
pub(super) struct Setting<'a> {
    pub all: Vec<&'a [RunSummary]>,
    /// Those that are no bounds.
    pub rivals: Vec<&'a [RunSummary]>,
    /// Positions in `rivals` of those that can be ranked, best first.
    order: Vec<usize>,
    /// Comparisons with the best, as in `rivals`; `None` for the best itself.
    ratios: Vec<Option<LogRatio>>,
}

impl<'a> Setting<'a> {
    /// Orders the balancers of a setting, whose runs must be ordered by balancer, by a quantity.
    pub(super) fn of(group: &'a [RunSummary], measure: Measure, quantity: &Quantity<'_>) -> Setting<'a> {
        let all: Vec<&[RunSummary]> = group.chunk_by(|a, b| a.balancer == b.balancer).collect();
        let rivals: Vec<&[RunSummary]> = all.iter().copied().filter(|runs| !runs[0].is_bound).collect();
        let least_unfinished = rivals.iter().map(|runs| unfinished(runs, measure)).min().unwrap_or(0);
        let is_able = |runs: &[RunSummary]| {
            let (open, started) = (unfinished(runs, measure), started(runs, measure));
            // A balancer that completes nothing is not the best of those that do not either.
            open < started && is_complete(open, least_unfinished, started)
        };
        let cost = |ix: &usize| quantity.mean_log_cost(rivals[*ix]).filter(|_| is_able(rivals[*ix]));
        let mut costs: Vec<(f64, usize)> = (0..rivals.len()).filter_map(|ix| Some((cost(&ix)?, ix))).collect();
        costs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let order: Vec<usize> = costs.into_iter().map(|(_, ix)| ix).collect();
        let to_best = |ix: usize| {
            let best = order.first().filter(|best| **best != ix)?;
            LogRatio::between(rivals[ix], rivals[*best], quantity)
        };
        let ratios = (0..rivals.len()).map(to_best).collect();
        Setting { all, rivals, order, ratios }
    }

    pub(super) fn best(&self) -> Option<&'a [RunSummary]> {
        self.order.first().map(|ix| self.rivals[*ix])
    }

    /// Returns the ranked balancers but the best, best first, with their ratios to it.
    pub(super) fn others(&self) -> impl Iterator<Item = (&'a [RunSummary], LogRatio)> {
        self.order.iter().skip(1).filter_map(|ix| Some((self.rivals[*ix], self.ratios[*ix]?)))
    }

    /// Returns the runs of a balancer, if it is ranked.
    pub(super) fn able(&self, balancer: &str) -> Option<&'a [RunSummary]> {
        self.order.iter().map(|ix| self.rivals[*ix]).find(|runs| runs[0].balancer == balancer)
    }

    /// Returns the variances of the comparisons with the best, and their degrees of freedom.
    pub(super) fn variances(&self) -> impl Iterator<Item = (f64, usize)> {
        self.others().map(|(_, ratio)| (ratio.variance, ratio.seeds - 1))
    }

    pub(super) fn comparisons(&self) -> usize {
        self.order.len().saturating_sub(1)
    }

    /// Returns the ranks of the rivals: 1 for the best and those that are not worse than it. The best
    /// of the others follows, and so on. 0 for those that are not ranked.
    pub(super) fn ranks(&self, judge: &Judge, quantity: &Quantity<'_>) -> Vec<u32> {
        let mut ranks = vec![0; self.rivals.len()];
        let mut left = self.order.clone();
        while let Some(&head) = left.first() {
            let rank = (self.order.len() - left.len()) as u32 + 1;
            let is_worse = |ix: &usize| {
                let ratio = LogRatio::between(self.rivals[*ix], self.rivals[head], quantity);
                *ix != head && ratio.is_none_or(|ratio| judge.decide(&ratio) == Decision::Worse)
            };
            let (worse, group): (Vec<usize>, Vec<usize>) = left.into_iter().partition(is_worse);
            group.into_iter().for_each(|ix| ranks[ix] = rank);
            left = worse;
        }
        ranks
    }
}
