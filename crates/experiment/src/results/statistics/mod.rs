//! Statistics over seeds, and the ranking: paired ratios on common random numbers.

mod compare;
#[cfg(test)]
mod coverage;
mod overall;
mod paired;
mod setting;
mod steady;
pub mod student_t;
mod variance;
mod verdict;

use std::borrow::Borrow;

use crate::results::bounds::is_optimum;
use crate::summary::{Measure, Overall, Point, RunSummary, SizeBucket, Standing, Stat, Verdict};
use paired::{Judge, LogRatio, Quantity};
use setting::Setting;
use student_t::t975;
use variance::Prior;

pub use compare::{Compared, compare, comparison_table, run_table};
pub use paired::Rule;
pub(crate) use steady::steady_state;

/// A single seed allows no statistical distinction; results within this share count as equal.
const TIE_SHARE: f64 = 0.02;

/// A balancer cannot win if its share of unfinished flows exceeds that of the most complete one by
/// more than this.
const UNFINISHED_SHARE: f64 = 0.001;

const SMALL_BYTES: u64 = 100_000;
/// Buckets that end above this contain large flows, bytes.
const LARGE_ABOVE_BYTES: u64 = 1_000_000;

pub fn stat(values: &[f64]) -> Stat {
    if values.is_empty() {
        return Stat::default();
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let sd = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    Stat {
        mean,
        sd,
        ci95: t975(values.len() - 1) * sd / n.sqrt(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// What runs say: see the fields of [`Summary`](crate::summary::Summary).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    pub points: Vec<Point>,
    pub verdicts: Vec<Verdict>,
    pub overall: Option<Overall>,
}

/// Computes one point per (variant, load, balancer) and one verdict per (variant, load). Runs must
/// be ordered by variant, load, balancer and seed, as in plans. Bounds get points and no rank.
pub fn evaluate(runs: &[RunSummary], rule: &Rule) -> Evaluation {
    let measure = rule.rank_by;
    let of = |run: &RunSummary| Some(measure.of_run(run));
    let quantity = Quantity { of: &of, is_higher_better: measure.is_higher_better() };
    let settings = settings(runs, measure, &quantity);
    let prior = Prior::fit(settings.iter().flat_map(Setting::variances));
    let others = verdict::OtherMetric::all(runs, rule);
    let mut evaluation = Evaluation { overall: overall::overall(&settings, &quantity, rule), ..Evaluation::default() };
    for (ix, setting) in settings.iter().enumerate() {
        let judge = Judge::new(rule, setting.comparisons(), prior);
        evaluation.points.extend(points(setting, &judge, &quantity, measure));
        evaluation.verdicts.push(verdict::verdict(setting, &judge, (ix, &others), rule));
    }
    evaluation
}

fn settings<'a>(runs: &'a [RunSummary], measure: Measure, quantity: &Quantity<'_>) -> Vec<Setting<'a>> {
    let groups = runs.chunk_by(|a, b| (&a.variant, a.load) == (&b.variant, b.load));
    groups.map(|group| Setting::of(group, measure, quantity)).collect()
}

fn points<'a>(
    setting: &'a Setting<'a>,
    judge: &'a Judge,
    quantity: &'a Quantity<'a>,
    measure: Measure,
) -> impl Iterator<Item = Point> + 'a {
    let ranks = setting.ranks(judge, quantity);
    let optimum = setting.all.iter().copied().find(|runs| is_optimum(runs));
    setting.all.iter().map(move |runs| {
        let position = setting.rivals.iter().position(|rival| rival[0].balancer == runs[0].balancer);
        let rank = position.map_or(0, |position| ranks[position]);
        let ratio = setting.best().and_then(|best| LogRatio::between(runs, best, quantity));
        let is_best = setting.best().is_some_and(|best| best[0].balancer == runs[0].balancer);
        let standing = match ratio {
            _ if runs[0].is_bound => Standing::Bound,
            _ if is_best => Standing::Best,
            Some(ratio) if rank > 0 => judge.decide(&ratio).standing(),
            _ => Standing::Incomplete,
        };
        Point {
            rank,
            standing,
            ratio: ratio.map(|ratio| judge.shown(&ratio)).unwrap_or_default(),
            share_of_optimum: optimum.and_then(|optimum| share_of_optimum(runs, optimum, measure)),
            ..point(runs)
        }
    })
}

fn share_of_optimum(runs: &[RunSummary], optimum: &[RunSummary], measure: Measure) -> Option<Stat> {
    let shares: Vec<f64> = pairs(runs, optimum)
        .map(|(run, optimum)| measure.ratio(measure.of_run(optimum), measure.of_run(run)))
        .filter(|share| share.is_finite() && *share > 0.0)
        .collect();
    (!shares.is_empty()).then(|| stat(&shares))
}

fn point(runs: &[RunSummary]) -> Point {
    let over = |value: &dyn Fn(&RunSummary) -> Option<f64>| stat(&runs.iter().filter_map(value).collect::<Vec<_>>());
    // A run in which no flow completed has no mean. Counting it as 0 would rank it first.
    let completed =
        |value: fn(&RunSummary) -> f64| over(&move |run: &RunSummary| (run.fct_us.count > 0).then(|| value(run)));
    let grouped = |value: fn(&RunSummary) -> f64| {
        over(&move |run: &RunSummary| (run.groups.time_us.count > 0).then(|| value(run)))
    };
    Point {
        variant: runs[0].variant.clone(),
        load: runs[0].load,
        balancer: runs[0].balancer.clone(),
        is_bound: runs[0].is_bound,
        seeds: runs.len() as u32,
        flows_started: runs.iter().map(|run| run.flows.started).sum(),
        flows_completed: runs.iter().map(|run| run.flows.completed).sum(),
        fct_mean_us: completed(|run| run.fct_us.mean),
        fct_p50_us: completed(|run| run.fct_us.p50),
        fct_p99_us: completed(|run| run.fct_us.p99),
        slowdown_mean: completed(|run| run.slowdown.mean),
        slowdown_p99: completed(|run| run.slowdown.p99),
        small_fct_mean_us: over(&small_fct_mean_us),
        large_fct_mean_us: over(&|run| mean_fct_us(run, |bucket| bucket.max_bytes > LARGE_ABOVE_BYTES)),
        group_mean_us: grouped(|run| run.groups.time_us.mean),
        group_p99_us: grouped(|run| run.groups.time_us.p99),
        group_max_us: grouped(|run| run.groups.time_us.max),
        groups_unfinished: runs.iter().map(|run| run.groups.unfinished).sum(),
        group_lower_bound_us: over(&|run| has_groups(run).then_some(run.groups.time_lower_bound_mean_us)),
        bus_gbps: over(&|run| (run.groups.bus_gbps_mean > 0.0).then_some(run.groups.bus_gbps_mean)),
        drop_share: over(&|run| Some(drop_share(run))),
        throughput_share: over(&|run| Some(run.throughput_share)),
        slowdown_lower_bound: over(&|run| Some(run.slowdown_lower_bound_mean)),
        ..Point::default()
    }
}

pub(crate) fn small_fct_mean_us(run: &RunSummary) -> Option<f64> {
    fct_mean_up_to_us(run, SMALL_BYTES)
}

pub(crate) fn fct_mean_up_to_us(run: &RunSummary, bytes: u64) -> Option<f64> {
    mean_fct_us(run, |bucket| bucket.max_bytes <= bytes)
}

fn mean_fct_us(run: &RunSummary, is_included: impl Fn(&SizeBucket) -> bool) -> Option<f64> {
    let buckets = run.fct_us_by_size.iter().filter(|bucket| is_included(bucket));
    let (sum, count) = buckets.fold((0.0, 0u64), |(sum, count), bucket| {
        (sum + bucket.fct_us.mean * bucket.fct_us.count as f64, count + bucket.fct_us.count)
    });
    (count > 0).then(|| sum / count as f64)
}

pub(crate) fn drop_share(run: &RunSummary) -> f64 {
    let dropped: u64 = run.packets.dropped.values().sum();
    if run.packets.sent == 0 { 0.0 } else { dropped as f64 / run.packets.sent as f64 }
}

fn has_groups(run: &RunSummary) -> bool {
    Measure::GroupTime.started(run) > 0
}

fn unfinished(runs: &[RunSummary], measure: Measure) -> u64 {
    runs.iter().map(|run| measure.unfinished(run)).sum()
}

fn started(runs: &[RunSummary], measure: Measure) -> u64 {
    runs.iter().map(|run| measure.started(run)).sum()
}

/// Returns whether this number of unfinished flows or groups is about as low as that of the most complete
/// balancer.
pub(crate) fn is_complete(unfinished: u64, least_unfinished: u64, started: u64) -> bool {
    unfinished.saturating_sub(least_unfinished) as f64 <= UNFINISHED_SHARE * started as f64
}

/// Returns the mean over seeds of the quantity that ranks balancers.
fn ranked_mean(runs: &[RunSummary], measure: Measure) -> f64 {
    stat(&runs.iter().map(|run| measure.of_run(run)).collect::<Vec<_>>()).mean
}

/// Pairs the runs of two balancers or platforms that have the same seed, and so the same flows.
pub(crate) fn pairs<'a, R: Borrow<RunSummary>>(
    runs: &'a [R],
    others: &'a [R],
) -> impl Iterator<Item = (&'a RunSummary, &'a RunSummary)> {
    let same_seed = |run: &RunSummary| others.iter().map(R::borrow).find(|other| other.seed == run.seed);
    runs.iter().map(R::borrow).filter_map(move |run| Some((run, same_seed(run)?)))
}

/// Returns whether paired differences are compatible with 0 or less. Their 95 % interval decides;
/// one seed has no interval, so a small share of `from` counts as a tie.
pub(crate) fn is_not_clearly_above(differences: &[f64], from: f64) -> bool {
    let difference = stat(differences);
    if differences.len() > 1 {
        return difference.mean - difference.ci95 <= 0.0;
    }
    difference.mean <= TIE_SHARE * from
}

#[cfg(test)]
pub(crate) mod tests;
