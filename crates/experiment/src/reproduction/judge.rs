//! From runs to figures, from figures to verdicts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::result::{Curve, DocumentResult, EntryResult, Measured, NumberResult, Place, RunResult, Series};
use super::table::{band_words, bound_words, ours_words};
use super::{BoundOf, Check, CurvePlan, Entry, Index, Number, PrintedSeries};
use crate::claims::{self, Selection, Window};
use crate::statistics::stat;
use crate::summary::{PointOutcome, RunSummary, Stat, Summary};

/// Whether what was printed came out, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// Equal to the closed form.
    #[serde(rename = "exact")]
    Exact,
    /// In the band, or ordered as printed.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The document contradicts itself.
    #[serde(rename = "document inconsistent")]
    DocumentInconsistent,
    /// Outside the band, but on the right side.
    #[serde(rename = "direction only")]
    DirectionOnly,
    /// Anything else.
    #[serde(rename = "not reproduced")]
    NotReproduced,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Exact,
        Verdict::Reproduced,
        Verdict::DocumentInconsistent,
        Verdict::DirectionOnly,
        Verdict::NotReproduced,
    ];

    /// In words, as in files.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Reproduced => "reproduced",
            Verdict::DocumentInconsistent => "document inconsistent",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
        }
    }

    /// Whether the printed number stands.
    pub const fn holds(self) -> bool {
        matches!(self, Verdict::Exact | Verdict::Reproduced)
    }
}

/// Judges experiments of a document by the results of its runs, given by their positions in the index.
pub fn judge(index: &Index, ids: &[String], summaries: &BTreeMap<usize, Summary>) -> DocumentResult {
    let is_asked = |entry: &&Entry| ids.contains(&entry.id);
    let is_drawn = |plan: &&CurvePlan| plan.ids.iter().any(|id| ids.contains(id)) && summaries.contains_key(&plan.run);
    DocumentResult {
        document: index.document.clone(),
        title: index.title.clone(),
        source: index.source.clone(),
        entries: index.entries.iter().filter(is_asked).map(|entry| judge_entry(index, entry, summaries)).collect(),
        runs: summaries.iter().map(|(run, summary)| run_result(index, *run, summary)).collect(),
        curves: index.curves.iter().filter(is_drawn).map(|plan| curve(plan, &summaries[&plan.run])).collect(),
        wrong: index
            .wrong
            .iter()
            .filter(|wrong| wrong.id == index.document || ids.contains(&wrong.id))
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
    EntryResult {
        id: entry.id.clone(),
        question: entry.question.clone(),
        section: entry.section.clone(),
        verdict,
        reason,
        numbers,
        runs,
    }
}

/// An experiment is as good as its worst number; the words name that number.
pub(super) fn verdict_of(numbers: &[NumberResult]) -> (Verdict, String) {
    let judged: Vec<(&NumberResult, Verdict)> =
        numbers.iter().filter_map(|number| Some((number, number.verdict?))).collect();
    let Some(worst) = judged.iter().map(|(_, verdict)| *verdict).max() else {
        return (Verdict::NotReproduced, "nothing of it is judged".to_owned());
    };
    let held = judged.iter().filter(|(_, verdict)| verdict.holds()).count();
    let of = |count: usize| if count == 1 { "the number".to_owned() } else { format!("all {count} numbers") };
    if worst.holds() {
        let how = if worst == Verdict::Exact { "equal to the closed form" } else { "as printed or in their bands" };
        return (worst, format!("{} {how}", of(judged.len())));
    }
    let bad: Vec<&NumberResult> =
        judged.iter().filter(|(_, verdict)| *verdict == worst).map(|(number, _)| *number).collect();
    let first = bad[0];
    let others = if bad.len() > 1 { format!(" (and {} more)", bad.len() - 1) } else { String::new() };
    let band = if first.band.is_empty() { String::new() } else { format!(", asked {}", first.band) };
    let why = first.reason.as_ref().map_or_else(|| "not explained".to_owned(), Clone::clone);
    let words = format!("{held} of {} hold; {}: ours {}{band}{others}; {why}", judged.len(), first.what, first.ours);
    (worst, words)
}

fn judge_number(index: &Index, number: &Number, summaries: &BTreeMap<usize, Summary>) -> NumberResult {
    let places = places(number, summaries);
    let verdict = verdict(number, &places);
    let bound = bound(number, summaries);
    let kind = match &number.other {
        None => "value",
        Some(other) if other.is_difference => "difference",
        Some(_) => "ratio",
    };
    NumberResult {
        what: number.claim.claim.clone(),
        printed: number.printed.clone(),
        value: number.value,
        metric: number.claim.metric.name().to_owned(),
        kind: kind.to_owned(),
        ours: ours_words(number, &places),
        band: band_words(number),
        bound: bound_words(number, bound),
        verdict,
        reason: reason(number, verdict, &places),
        figure: number.figure.clone(),
        run: index.runs[number.run].name.clone(),
        places,
    }
}

/// The runs of a balancer at a variant and load.
fn of<'a>(summary: Option<&'a Summary>, balancer: &str, variant: &str, load: Option<f64>) -> Vec<&'a RunSummary> {
    let runs = summary.map_or(&[][..], |summary| &summary.runs);
    runs.iter().filter(|run| run.balancer == balancer && run.variant == variant && run.load == load).collect()
}

/// Ours at every variant and load the number is about.
fn places(number: &Number, summaries: &BTreeMap<usize, Summary>) -> Vec<Place> {
    let own = |variant: &str, load| of(summaries.get(&number.run), &number.claim.balancer, variant, load);
    let mut places = Vec::new();
    for Selection { variant, loads } in &number.claim.at {
        for (at, load) in loads.iter().enumerate() {
            let runs = own(variant, *load);
            let other: Option<Vec<&RunSummary>> = number.other.as_ref().map(|other| {
                let there = other.variant.as_deref().unwrap_or(variant);
                of(summaries.get(&other.run), &other.balancer, there, *load)
            });
            let measured = match &other {
                None => claims::over_seeds(&number.claim, &runs),
                Some(other) => paired(number, &runs, other),
            };
            let measured = measured.map(|stat| measured_of(number, &stat));
            let before = at.checked_sub(1).map(|before| own(variant, loads[before]));
            let outcome = match number.check {
                Check::Beside => None,
                Check::Band(low, high) => Some(match &measured {
                    Some(ours) if (low..=high).contains(&ours.mean) => PointOutcome::Holds,
                    _ => PointOutcome::Fails,
                }),
                Check::AtMost | Check::AtLeast => {
                    let wrong = if number.check == Check::AtMost { 1.0 } else { -1.0 };
                    Some(claims::rivals(&number.claim, &runs, other.as_deref().unwrap_or(&[]), wrong).outcome)
                }
                Check::Rises => before.map(|before| claims::rise(&number.claim, &before, &runs).outcome),
            };
            places.push(Place { variant: variant.clone(), load: *load, measured, outcome });
        }
    }
    places
}

/// A metric that is an extreme is one over seeds too.
fn measured_of(number: &Number, stat: &Stat) -> Measured {
    let metric = number.claim.metric;
    if metric.is_extreme() && number.other.is_none() {
        return Measured { mean: metric.over(stat), ci95: 0.0, min: stat.min, max: stat.max };
    }
    Measured::from(stat)
}

/// Ratio or difference on the seeds both have.
fn paired(number: &Number, own: &[&RunSummary], other: &[&RunSummary]) -> Option<Stat> {
    let is_difference = number.other.as_ref().is_some_and(|other| other.is_difference);
    let pair = |run: &&RunSummary| {
        let other = other.iter().find(|other| other.seed == run.seed)?;
        let (own, other) = (number.claim.value(run)?, number.claim.value(other)?);
        Some(if is_difference { own - other } else { own / other }).filter(|value| value.is_finite())
    };
    let values: Vec<f64> = own.iter().filter_map(pair).collect();
    (!values.is_empty()).then(|| stat(&values))
}

pub(super) fn verdict(number: &Number, places: &[Place]) -> Option<Verdict> {
    if number.inconsistent.is_some() {
        return Some(Verdict::DocumentInconsistent);
    }
    let ours: Vec<&Measured> = places.iter().filter_map(|place| place.measured.as_ref()).collect();
    let is_complete = !places.is_empty() && ours.len() == places.len();
    let is_equal = |closed: f64| {
        let near = |value: f64| (value - closed).abs() <= number.tolerance * closed.abs();
        ours.iter().all(|ours| near(ours.min) && near(ours.max))
    };
    if is_complete && number.equals.is_some_and(is_equal) {
        return Some(Verdict::Exact);
    }
    if number.check == Check::Beside {
        return number.equals.map(|_| Verdict::NotReproduced);
    }
    let outcomes: Vec<PointOutcome> = places.iter().filter_map(|place| place.outcome).collect();
    let count = |outcome| outcomes.iter().filter(|other| **other == outcome).count();
    let holds = count(PointOutcome::Fails) == 0 && 2 * count(PointOutcome::Holds) > outcomes.len();
    Some(match (is_complete && holds, is_complete && ours.iter().all(|ours| has_direction(number, ours))) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::DirectionOnly,
        (false, false) => Verdict::NotReproduced,
    })
}

/// Whether a value outside its band is on the right side: in the range that the index gives, or for ratios on the same side of 1
/// as all of the band, and that not by chance.
fn has_direction(number: &Number, ours: &Measured) -> bool {
    if let Some((low, high)) = number.direction {
        return (low..=high).contains(&ours.mean);
    }
    if number.other.as_ref().is_none_or(|other| other.is_difference) {
        return false;
    }
    let (above, below) = (ours.mean - ours.ci95 > 1.0, ours.mean + ours.ci95 < 1.0);
    match number.check {
        Check::Band(low, _) if low >= 1.0 => above,
        Check::Band(_, high) if high <= 1.0 => below,
        Check::AtLeast if number.claim.times > 1.0 => above,
        Check::AtMost if number.claim.times < 1.0 => below,
        _ => false,
    }
}

/// A reason explains what was found when it was written, and nothing else.
pub(super) fn reason(number: &Number, verdict: Option<Verdict>, places: &[Place]) -> Option<String> {
    let verdict = verdict?;
    if verdict == Verdict::DocumentInconsistent {
        return number.inconsistent.clone();
    }
    if verdict.holds() {
        return None;
    }
    let (reason, (low, high)) = (number.claim.reason.as_ref()?, number.found?);
    let is_off = |place: &&Place| {
        number.check == Check::Beside || place.outcome.is_some_and(|outcome| outcome != PointOutcome::Holds)
    };
    let is_known = |place: &Place| place.measured.is_some_and(|ours| (low..=high).contains(&ours.mean));
    if places.iter().filter(is_off).all(is_known) {
        return Some(reason.clone());
    }
    Some(format!("not explained: the reason that is known was written for {low} to {high}, and this is something else"))
}

/// Mean of what it can be at best.
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
        ours: plan.balancers.iter().map(series).collect(),
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
