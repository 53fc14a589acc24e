//! Comparison of balancers by one metric, paired over seeds.

use super::{is_complete, is_not_clearly_above, pairs, started, stat, unfinished};
use crate::claims::{METRICS, Metric, MetricInfo};
use crate::results::table::{Column, Table, Values};
use crate::summary::{Measure, RunSummary, Stat};

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
    /// Paired differences to the best balancer.
    pub difference: Stat,
    /// Flows that did not complete, of all seeds.
    pub unfinished: u64,
}

/// Standing of a balancer in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Best,
    /// Within noise of the best.
    Tied,
    Worse,
    /// More flows did not complete than with others: the value leaves out the slowest.
    Incomplete,
    /// A bound, not a balancer.
    Bound,
    /// No run has a value.
    Absent,
}

impl Standing {
    pub fn as_str(self) -> &'static str {
        match self {
            Standing::Best => "best",
            Standing::Tied => "tied",
            Standing::Worse => "worse",
            Standing::Incomplete => "incomplete",
            Standing::Bound => "bound",
            Standing::Absent => "absent",
        }
    }
}

/// Compares the balancers of each variant and load. Runs must be ordered as in plans.
pub fn compare(runs: &[RunSummary], metric: &MetricInfo, rank_by: Measure) -> Vec<Compared> {
    let groups = runs.chunk_by(|a, b| (&a.variant, a.load) == (&b.variant, b.load));
    groups.flat_map(|group| compare_group(group, metric, rank_by)).collect()
}

fn compare_group(group: &[RunSummary], metric: &MetricInfo, rank_by: Measure) -> Vec<Compared> {
    let all: Vec<&[RunSummary]> = group.chunk_by(|a, b| a.balancer == b.balancer).collect();
    let rivals = || all.iter().filter(|runs| !runs[0].is_bound);
    let least_unfinished = rivals().map(|runs| unfinished(runs, rank_by)).min().unwrap_or(0);
    let is_able = |runs: &[RunSummary]| {
        metric.metric == Metric::CompletedShare
            || is_complete(unfinished(runs, rank_by), least_unfinished, started(runs, rank_by))
    };
    let sign = if metric.metric.is_better_high() { -1.0 } else { 1.0 };
    let value = |runs: &[RunSummary]| stat(&runs.iter().filter_map(|run| metric.metric.of(run)).collect::<Vec<_>>());
    let seeds = |runs: &[RunSummary]| runs.iter().filter(|run| metric.metric.of(run).is_some()).count();
    let best = rivals()
        .filter(|runs| is_able(runs) && seeds(runs) > 0)
        .min_by(|a, b| (sign * value(a).mean).total_cmp(&(sign * value(b).mean)));
    let row = |runs: &&[RunSummary]| {
        let differences: Vec<f64> = best.map_or_else(Vec::new, |best| {
            let difference = |(run, best)| Some(metric.metric.of(run)? - metric.metric.of(best)?);
            pairs(runs, best).filter_map(difference).collect()
        });
        let costs: Vec<f64> = differences.iter().map(|difference| sign * difference).collect();
        let standing = match best {
            _ if seeds(runs) == 0 => Standing::Absent,
            _ if runs[0].is_bound => Standing::Bound,
            Some(best) if best[0].balancer == runs[0].balancer => Standing::Best,
            _ if !is_able(runs) => Standing::Incomplete,
            Some(best) if is_not_clearly_above(&costs, value(best).mean.abs()) => Standing::Tied,
            _ => Standing::Worse,
        };
        Compared {
            variant: runs[0].variant.clone(),
            load: runs[0].load,
            balancer: runs[0].balancer.clone(),
            standing,
            seeds: seeds(runs) as u32,
            value: value(runs),
            difference: stat(&differences),
            unfinished: unfinished(runs, Measure::Slowdown),
        }
    };
    all.iter().map(row).collect()
}

/// Returns a comparison by column.
pub fn comparison_table(rows: &[Compared]) -> Table {
    let column = |name: &str, values| Column { name: name.to_owned(), values };
    let number = |value: fn(&Compared) -> f64| {
        Values::of_optional(rows.iter().map(|row| (row.standing != Standing::Absent).then(|| value(row))))
    };
    vec![
        column("variant", Values::of_texts(rows.iter().map(|row| &row.variant))),
        column("load", Values::of_optional(rows.iter().map(|row| row.load))),
        column("balancer", Values::of_texts(rows.iter().map(|row| &row.balancer))),
        column("standing", Values::of_texts(rows.iter().map(|row| row.standing.as_str()))),
        column("seeds", Values::U32(rows.iter().map(|row| row.seeds).collect())),
        column("value", number(|row| row.value.mean)),
        column("value_ci95", number(|row| row.value.ci95)),
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
        let rows = compare(runs, slowdown(), Measure::Slowdown);
        rows.into_iter().map(|row| (row.balancer, row.standing.as_str())).collect()
    }

    #[test]
    fn differences_are_paired_and_ties_are_named() {
        let mut runs = Vec::new();
        for (balancer, values) in [("a", [2.0, 4.0, 6.0]), ("b", [2.1, 3.9, 6.1]), ("c", [3.0, 5.0, 7.0])] {
            runs.extend((1..).zip(values).map(|(seed, value)| run(balancer, seed, value, 0)));
        }
        let expected = [("a", "best"), ("b", "tied"), ("c", "worse")].map(|(name, text)| (name.to_owned(), text));
        assert_eq!(standings(&runs), expected);
        let row = compare(&runs, slowdown(), Measure::Slowdown).pop().unwrap();
        assert_eq!((row.difference.mean, row.difference.ci95), (1.0, 0.0));
    }

    #[test]
    fn balancer_that_leaves_flows_unfinished_is_not_best() {
        let runs = [run("a", 1, 1.0, 50), run("b", 1, 2.0, 0)];
        assert_eq!(standings(&runs), [("a".to_owned(), "incomplete"), ("b".to_owned(), "best")]);
    }
}
