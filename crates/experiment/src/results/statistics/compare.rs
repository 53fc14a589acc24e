//! Comparison of balancers by one metric, paired over seeds.

use super::paired::{Judge, LogRatio, Quantity, Rule};
use super::setting::Setting;
use super::variance::Prior;
use super::{is_not_clearly_above, pairs, stat, unfinished};
use crate::claims::{METRICS, Metric, MetricInfo};
use crate::results::table::{Column, Table, Values};
use crate::summary::{Measure, Ratio, RunSummary, Standing, Stat};

/// One balancer at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    pub variant: String,
    pub load: Option<f64>,
    pub balancer: String,
    pub standing: Standing,
    /// Number of seeds whose run has a value.
    pub seeds: u32,
    pub value: Stat,
    /// Cost / that of the best balancer; all 0 where a value is 0.
    pub ratio: Ratio,
    /// Paired differences to the best balancer.
    pub difference: Stat,
    /// Flows that did not complete, of all seeds.
    pub unfinished: u64,
}

/// Compares the balancers of each variant and load. Runs must be ordered as in plans.
pub fn compare(runs: &[RunSummary], metric: &MetricInfo, rule: &Rule) -> Vec<Compared> {
    let of = |run: &RunSummary| metric.metric.of(run);
    let quantity = Quantity { of: &of, is_higher_better: metric.metric.is_better_high() };
    // The share of completed flows also ranks balancers that leave many unfinished.
    let measure = if metric.metric == Metric::CompletedShare { Measure::Throughput } else { rule.rank_by };
    let settings = super::settings(runs, measure, &quantity);
    let prior = Prior::fit(settings.iter().flat_map(Setting::variances));
    settings.iter().flat_map(|setting| compare_setting(setting, &quantity, prior, rule)).collect()
}

fn compare_setting(setting: &Setting<'_>, quantity: &Quantity<'_>, prior: Prior, rule: &Rule) -> Vec<Compared> {
    let value = |runs: &[RunSummary]| stat(&runs.iter().filter_map(quantity.of).collect::<Vec<_>>());
    // Ratios need positive values. Of others the differences are compared.
    let has_ratios = setting.rivals.iter().copied().flatten().filter_map(quantity.of).all(|value| value > 0.0);
    let mean_cost = |runs: &[RunSummary]| if quantity.is_higher_better { -value(runs).mean } else { value(runs).mean };
    let ranked = || setting.rivals.iter().copied().filter(|runs| setting.able(&runs[0].balancer).is_some());
    let best = match has_ratios {
        true => setting.best(),
        false => ranked().min_by(|a, b| mean_cost(a).total_cmp(&mean_cost(b))),
    };
    let judge = Judge::new(rule, setting.comparisons(), prior);
    let row = |runs: &[RunSummary]| {
        let of_seed = |(run, best)| Some((quantity.of)(run)? - (quantity.of)(best)?);
        let differences: Vec<f64> = best.map_or_else(Vec::new, |best| pairs(runs, best).filter_map(of_seed).collect());
        let costs = differences.iter().map(|value| if quantity.is_higher_better { -value } else { *value });
        let ratio = best.filter(|_| has_ratios).and_then(|best| LogRatio::between(runs, best, quantity));
        let seeds = runs.iter().filter_map(quantity.of).count() as u32;
        let standing = match (best, ratio) {
            _ if seeds == 0 => Standing::Absent,
            _ if runs[0].is_bound => Standing::Bound,
            _ if setting.able(&runs[0].balancer).is_none() => Standing::Incomplete,
            (Some(best), _) if best[0].balancer == runs[0].balancer => Standing::Best,
            (_, Some(ratio)) => judge.decide(&ratio).standing(),
            (Some(best), None) if is_not_clearly_above(&costs.collect::<Vec<_>>(), value(best).mean.abs()) => {
                if differences.iter().all(|difference| *difference == 0.0) {
                    Standing::Tied
                } else {
                    Standing::Undecided
                }
            }
            _ => Standing::Worse,
        };
        Compared {
            variant: runs[0].variant.clone(),
            load: runs[0].load,
            balancer: runs[0].balancer.clone(),
            standing,
            seeds,
            value: value(runs),
            ratio: ratio.map(|ratio| judge.shown(&ratio)).unwrap_or_default(),
            difference: stat(&differences),
            unfinished: unfinished(runs, Measure::Slowdown),
        }
    };
    setting.all.iter().map(|runs| row(runs)).collect()
}

/// Returns a comparison by column.
pub fn comparison_table(rows: &[Compared]) -> Table {
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    let number = |value: fn(&Compared) -> f64| {
        Values::of_optional(rows.iter().map(|row| (row.standing != Standing::Absent).then(|| value(row))))
    };
    let ratio = |value: fn(&Ratio) -> f64| {
        Values::of_optional(rows.iter().map(|row| (row.ratio.value > 0.0).then(|| value(&row.ratio))))
    };
    vec![
        column("variant", Values::of_texts(rows.iter().map(|row| &row.variant))),
        column("load", Values::of_optional(rows.iter().map(|row| row.load))),
        column("balancer", Values::of_texts(rows.iter().map(|row| &row.balancer))),
        column("standing", Values::of_texts(rows.iter().map(|row| row.standing.as_str()))),
        column("seeds", Values::U32(rows.iter().map(|row| row.seeds).collect())),
        column("value", number(|row| row.value.mean)),
        column("value_ci95", number(|row| row.value.ci95)),
        column("ratio", ratio(|ratio| ratio.value)),
        column("ratio_low", ratio(|ratio| ratio.low)),
        column("ratio_high", ratio(|ratio| ratio.high)),
        column("difference", number(|row| row.difference.mean)),
        column("difference_ci95", number(|row| row.difference.ci95)),
        column("unfinished", Values::U64(rows.iter().map(|row| row.unfinished).collect())),
    ]
}

/// Returns the runs by column: what identifies a run, and every metric.
pub fn run_table(runs: &[RunSummary]) -> Table {
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    let mut table = vec![
        column("variant", Values::of_texts(runs.iter().map(|run| &run.variant))),
        column("load", Values::of_optional(runs.iter().map(|run| run.load))),
        column("balancer", Values::of_texts(runs.iter().map(|run| &run.balancer))),
        column("is_bound", Values::Flag(runs.iter().map(|run| run.is_bound).collect())),
        column("seed", Values::U64(runs.iter().map(|run| run.seed).collect())),
    ];
    let metric = |info: &MetricInfo| column(info.name, Values::of_optional(runs.iter().map(|run| info.metric.of(run))));
    table.extend(METRICS.iter().map(metric));
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::statistics::tests::run;

    fn slowdown() -> &'static MetricInfo {
        METRICS.iter().find(|info| info.name == "slowdown_lower_bound_mean").unwrap()
    }

    fn standings(runs: &[RunSummary]) -> Vec<(String, &'static str)> {
        let rows = compare(runs, slowdown(), &Rule::default());
        rows.into_iter().map(|row| (row.balancer, row.standing.as_str())).collect()
    }

    #[test]
    fn differences_are_paired_and_ties_are_named() {
        let mut runs = Vec::new();
        for (balancer, values) in [("a", [2.0, 4.0, 6.0]), ("b", [2.1, 3.9, 6.1]), ("c", [4.0, 8.0, 12.0])] {
            runs.extend((1..).zip(values).map(|(seed, value)| run(balancer, seed, value, 0)));
        }
        let expected = [("a", "best"), ("b", "undecided"), ("c", "worse")].map(|(name, text)| (name.to_owned(), text));
        assert_eq!(standings(&runs), expected);
        let row = compare(&runs, slowdown(), &Rule::default()).pop().unwrap();
        assert!((row.ratio.value - 2.0).abs() < 1e-12 && row.ratio.low < 2.0 && row.difference.mean == 4.0, "{row:?}");
    }

    #[test]
    fn zeros_have_no_ratio() {
        let drops = METRICS.iter().find(|info| info.name == "dropped_packets").unwrap();
        let mut runs: Vec<RunSummary> = [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1), ("c", 2)]
            .map(|(name, seed)| run(name, seed, 2.0, 0))
            .into();
        for run in runs.iter_mut().filter(|run| run.balancer == "c") {
            run.packets.dropped.insert("queue".to_owned(), 100 + run.seed);
        }
        let rows = compare(&runs, drops, &Rule::default());
        let found: Vec<(&str, f64)> = rows.iter().map(|row| (row.standing.as_str(), row.ratio.value)).collect();
        assert_eq!(found, [("best", 0.0), ("tied", 0.0), ("worse", 0.0)]);
    }

    #[test]
    fn balancer_that_leaves_flows_unfinished_is_not_best() {
        let runs = [run("a", 1, 1.0, 50), run("b", 1, 2.0, 0)];
        assert_eq!(standings(&runs), [("a".to_owned(), "incomplete"), ("b".to_owned(), "best")]);
    }
}
