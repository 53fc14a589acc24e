//! Computes figures from runs, and verdicts from figures.

use std::collections::BTreeMap;

use super::grade::{grade, standing};
use super::result::{Curve, DocumentResult, EntryResult, Measured, NumberResult, PointResult, RunResult, Series};
use super::table::{band_text, bound_text, measured_text};
use super::verdict::{reason, verdict, verdict_of};
use super::{BoundOf, CurvePlan, Entry, Index, Number, PrintedSeries, Reading};
use crate::claims::{self, Comparison, Selection, Window};
use crate::results::statistics::{pairs, stat};
use crate::summary::{Judgement, RunSummary, Stat, Summary};

pub fn judge(index: &Index, ids: &[String], summaries: &BTreeMap<usize, Summary>) -> DocumentResult {
    let is_selected = |entry: &&Entry| ids.contains(&entry.id);
    let is_drawn = |plan: &&CurvePlan| plan.ids.iter().any(|id| ids.contains(id)) && summaries.contains_key(&plan.run);
    DocumentResult {
        document: index.document.clone(),
        title: index.title.clone(),
        source: index.source.clone(),
        entries: index.entries.iter().filter(is_selected).map(|entry| judge_entry(index, entry, summaries)).collect(),
        runs: summaries.iter().map(|(run, summary)| run_result(index, *run, summary)).collect(),
        curves: index.curves.iter().filter(is_drawn).map(|plan| curve(plan, &summaries[&plan.run])).collect(),
        errata: index
            .errata
            .iter()
            .filter(|erratum| erratum.id == index.document || ids.contains(&erratum.id))
            .cloned()
            .collect(),
    }
}

fn run_result(index: &Index, run: usize, summary: &Summary) -> RunResult {
    let plan = &index.runs[run];
    RunResult {
        name: plan.name.clone(),
        file: plan.file.clone(),
        seeds: plan.experiment.seeds.len(),
        seeds_of_file: plan.seeds_of_file,
        reason: plan.reason.clone(),
        runs: summary.runs.len(),
        flows_started: summary.runs.iter().map(|run| run.flows.started).sum(),
        flows_completed: summary.runs.iter().map(|run| run.flows.completed).sum(),
    }
}

fn judge_entry(index: &Index, entry: &Entry, summaries: &BTreeMap<usize, Summary>) -> EntryResult {
    let own: Vec<&Number> = index.numbers.iter().filter(|number| number.claim.id == entry.id).collect();
    let numbers: Vec<NumberResult> = own.iter().map(|number| judge_number(index, number, summaries)).collect();
    let mut runs: Vec<String> = Vec::new();
    for number in own {
        for run in [Some(number.run), number.other.as_ref().map(|other| other.run)].into_iter().flatten() {
            let name = &index.runs[run].name;
            if !runs.contains(name) {
                runs.push(name.clone());
            }
        }
    }
    let (verdict, reason) = verdict_of(&numbers);
    let readings: Vec<Reading> = index.readings.iter().filter(|reading| reading.id == entry.id).cloned().collect();
    let (grade, grade_reason) = grade(&numbers, &readings, entry.missing.as_deref());
    EntryResult {
        id: entry.id.clone(),
        question: entry.question.clone(),
        section: entry.section.clone(),
        grade,
        grade_reason,
        verdict,
        reason,
        readings,
        numbers,
        runs,
    }
}

fn judge_number(index: &Index, number: &Number, summaries: &BTreeMap<usize, Summary>) -> NumberResult {
    let points = measure_points(number, summaries);
    let verdict = verdict(number, &points);
    let bound = bound(number, summaries);
    let form = match &number.other {
        None => "value",
        Some(other) if other.is_difference => "difference",
        Some(_) => "ratio",
    };
    let reading = number.reading.map(|reading| &index.readings[reading]);
    NumberResult {
        what: number.claim.claim.clone(),
        kind: number.kind,
        reading: reading.cloned(),
        printed: number.printed.clone(),
        value: number.value,
        metric: number.claim.metric.name().to_owned(),
        form: form.to_owned(),
        measured: measured_text(number, &points),
        band: band_text(number),
        bound: bound_text(number, bound),
        verdict,
        standing: standing(number, verdict, &points),
        reason: reason(number, reading, verdict, &points),
        figure: number.figure.clone(),
        run: index.runs[number.run].name.clone(),
        points,
    }
}

fn of<'a>(summary: Option<&'a Summary>, balancer: &str, variant: &str, load: Option<f64>) -> Vec<&'a RunSummary> {
    summary.map_or_else(Vec::new, |summary| claims::runs_at(&summary.runs, balancer, variant, load))
}

fn measure_points(number: &Number, summaries: &BTreeMap<usize, Summary>) -> Vec<PointResult> {
    let own = |variant: &str, load| of(summaries.get(&number.run), &number.claim.balancer, variant, load);
    let mut points = Vec::new();
    for Selection { variant, loads } in &number.claim.at {
        for (at, load) in loads.iter().enumerate() {
            let runs = own(variant, *load);
            let other: Option<Vec<&RunSummary>> = number.other.as_ref().map(|other| {
                let there = other.variant.as_deref().unwrap_or(variant);
                of(summaries.get(&other.run), &other.balancer, there, *load)
            });
            let measured = match &other {
                None => over_seeds(number, &runs),
                Some(other) => paired(number, &runs, other),
            };
            let measured = measured.map(|stat| measured_of(number, &stat));
            let before = at.checked_sub(1).map(|before| own(variant, loads[before]));
            let judged = |compared: &[&RunSummary]| claims::judge_point(&number.claim, &runs, compared).outcome;
            let outcome = match number.claim.comparison {
                Comparison::Unjudged => None,
                // A tie does not confirm a claim that one balancer is above or below another.
                Comparison::Within(low, high)
                    if is_order(number, low, high)
                        && measured.is_some_and(|measured| (measured.mean - 1.0).abs() <= claims::TIE) =>
                {
                    Some(Judgement::WithinNoise)
                }
                Comparison::Within(low, high) => Some(judge_measured(measured.as_ref(), |measured| {
                    let is_inside = |value: f64| (low..=high).contains(&value);
                    match number.every_seed {
                        true => is_inside(measured.min) && is_inside(measured.max),
                        false => is_inside(measured.mean),
                    }
                })),
                Comparison::TiesWith(_) => Some(judge_measured(measured.as_ref(), |measured| {
                    (measured.mean - 1.0).abs() <= measured.ci95.max(claims::TIE)
                })),
                Comparison::AtMost(_) | Comparison::AtLeast(_) => Some(judged(other.as_deref().unwrap_or(&[]))),
                Comparison::RisesWithLoad => before.as_deref().map(judged),
            };
            points.push(PointResult { variant: variant.clone(), load: *load, measured, outcome });
        }
    }
    points
}

/// Returns whether a band states that a ratio is above or below 1.
fn is_order(number: &Number, low: f64, high: f64) -> bool {
    let is_ratio = number.other.as_ref().is_some_and(|other| !other.is_difference);
    is_ratio && ((low == 1.0 && high.is_infinite()) || (high == 1.0 && low.is_infinite()))
}

fn judge_measured(measured: Option<&Measured>, holds: impl Fn(&Measured) -> bool) -> Judgement {
    if measured.is_some_and(holds) { Judgement::Holds } else { Judgement::Fails }
}

fn measured_of(number: &Number, stat: &Stat) -> Measured {
    let metric = number.claim.metric;
    if metric.is_extreme() && number.other.is_none() {
        return Measured { mean: metric.over(stat), ci95: 0.0, min: stat.min, max: stat.max };
    }
    Measured::from(stat)
}

fn over_seeds(number: &Number, runs: &[&RunSummary]) -> Option<Stat> {
    let values: Vec<f64> = runs.iter().filter_map(|run| number.of_run(run, number.claim.window)).collect();
    (!values.is_empty()).then(|| stat(&values))
}

/// Returns the ratio or difference on common seeds. Orders are judged by means, so their ratio is
/// the ratio of the means: if a few seeds have much larger values than the others, the mean of the
/// ratios can be on the other side of 1.
fn paired(number: &Number, own: &[&RunSummary], other: &[&RunSummary]) -> Option<Stat> {
    let is_difference = number.other.as_ref().is_some_and(|other| other.is_difference);
    let window = number.claim.window;
    let other_window = number.other.as_ref().and_then(|other| other.window).or(window);
    let of_pair = |(run, other)| Some((number.of_run(run, window)?, number.of_run(other, other_window)?));
    let pairs: Vec<(f64, f64)> = pairs(own, other).filter_map(of_pair).collect();
    let compared = |(own, other): &(f64, f64)| if is_difference { own - other } else { own / other };
    let values: Vec<f64> = pairs.iter().map(compared).filter(|value| value.is_finite()).collect();
    let over_pairs = (!values.is_empty()).then(|| stat(&values))?;
    match number.claim.comparison {
        Comparison::AtMost(_) | Comparison::AtLeast(_) => ratio_of_means(&pairs, over_pairs),
        _ => Some(over_pairs),
    }
}

/// Returns the ratio of the means with its interval, by the residuals around it (W. G. Cochran,
/// Sampling Techniques, 3rd ed., section 6.4); the range stays the one over pairs.
fn ratio_of_means(pairs: &[(f64, f64)], over_pairs: Stat) -> Option<Stat> {
    let own: f64 = pairs.iter().map(|(own, _)| own).sum();
    let other: f64 = pairs.iter().map(|(_, other)| other).sum();
    let (ratio, mean) = (own / other, other / pairs.len() as f64);
    let residuals: Vec<f64> = pairs.iter().map(|(own, other)| (own - ratio * other) / mean).collect();
    let Stat { sd, ci95, .. } = stat(&residuals);
    ratio.is_finite().then_some(Stat { mean: ratio, sd, ci95, ..over_pairs })
}

fn bound(number: &Number, summaries: &BTreeMap<usize, Summary>) -> Option<f64> {
    match number.bound.as_ref()? {
        BoundOf::Value(value) => Some(*value),
        BoundOf::Balancer(label) => {
            let at = number.claim.at.first()?;
            let load = at.loads.first().copied().flatten();
            let runs = of(summaries.get(&number.run), label, &at.variant, load);
            claims::over_seeds(&number.claim, &runs).map(|stat| stat.mean)
        }
    }
}

fn curve(plan: &CurvePlan, summary: &Summary) -> Curve {
    let series = |balancer: &String| {
        let runs: Vec<&RunSummary> =
            summary.runs.iter().filter(|run| run.balancer == *balancer && run.variant == plan.variant).collect();
        let points = if plan.over_time { over_time(plan, &runs) } else { over_load(plan, &runs) };
        Series { name: balancer.clone(), points }
    };
    let printed = |series: &PrintedSeries| Series {
        name: series.name.clone(),
        points: series.points.iter().map(|(x, y)| [*x, *y, *y, *y]).collect(),
    };
    Curve {
        figure: plan.figure.clone(),
        metric: plan.metric.name().to_owned(),
        over_time: plan.over_time,
        measured: plan.balancers.iter().map(series).collect(),
        printed: plan.printed.iter().map(printed).collect(),
    }
}

fn over_load(plan: &CurvePlan, runs: &[&RunSummary]) -> Vec<[f64; 4]> {
    let mut loads: Vec<f64> = runs.iter().filter_map(|run| run.load).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let point = |load: f64| {
        let values: Vec<f64> =
            runs.iter().filter(|run| run.load == Some(load)).filter_map(|run| plan.metric.of(run)).collect();
        (!values.is_empty()).then(|| interval(load, &stat(&values)))
    };
    loads.into_iter().filter_map(point).collect()
}

fn over_time(plan: &CurvePlan, runs: &[&RunSummary]) -> Vec<[f64; 4]> {
    let Some(first) = runs.first() else { return Vec::new() };
    let mut from_s = 0.0;
    let mut points = Vec::new();
    for bin in &first.core.bins {
        let window = Window { from_s, until_s: bin.until_s };
        let values: Vec<f64> = runs.iter().filter_map(|run| plan.metric.of_window(run, window)).collect();
        if !values.is_empty() {
            points.push(interval(bin.until_s + plan.shift_s, &stat(&values)));
        }
        from_s = bin.until_s;
    }
    points
}

fn interval(x: f64, stat: &Stat) -> [f64; 4] {
    [x, stat.mean, stat.mean - stat.ci95, stat.mean + stat.ci95]
}
