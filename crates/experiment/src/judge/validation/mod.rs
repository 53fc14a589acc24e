//! Validation: the same experiment in the simulator and on real switches, with a verdict on each
//! figure.
//!
//! Runs of the same variant, load, balancer and seed are compared, because they have the same
//! flows. If a balancer draws at random (a hash, a tie), the platforms draw differently although
//! both are correct. The spread over the seeds of both gives an estimate of the resulting
//! difference, and a difference within it counts as noise.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::claims::{self, Claim, Metric, Window};
use crate::results::statistics::student_t::t975;
use crate::results::statistics::{pairs, stat};
use crate::summary::{Judgement, RunSummary, Stat, Summary};

#[derive(Clone, Debug, PartialEq)]
pub struct ValidationCriteria {
    pub metrics: Vec<Metric>,
    /// Time window of metrics of the core; `None` for all bins.
    pub window: Option<Window>,
    /// Largest difference that agrees, as a share of the first platform's value.
    pub tolerance: f64,
}

impl Default for ValidationCriteria {
    fn default() -> ValidationCriteria {
        let metrics = vec![Metric::CoreCllblRx, Metric::CoreCllblTx, Metric::CoreBbRx, Metric::CoreBbTx];
        ValidationCriteria { metrics, window: None, tolerance: 0.1 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub variant: String,
    pub load: Option<f64>,
    pub balancer: String,
    pub metric: String,
    pub first: Stat,
    pub second: Stat,
    pub seeds: usize,
    /// The first platform's value over all its seeds.
    #[serde(default)]
    pub first_all: Stat,
    #[serde(default)]
    pub first_seeds: usize,
    /// Mean of (second − first) / mean of first.
    pub difference: f64,
    /// Difference that random draws alone stay below in 95 of 100 such comparisons, estimated from
    /// the spread over all seeds of both platforms.
    pub noise: f64,
    /// Holds if the difference is within the tolerance. Within noise if it is larger, but explained
    /// by random draws with this few runs: more seeds would decide.
    pub verdict: Judgement,
    /// Why the platforms differ, if that is known.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Row {
    /// Returns the verdict and whether a difference is explained, as text.
    pub const fn verdict_text(&self) -> &'static str {
        match (self.verdict, &self.reason) {
            (Judgement::Holds, _) => "agrees",
            (Judgement::WithinNoise, _) => "within noise",
            (Judgement::Fails, Some(_)) => "differs, explained",
            (Judgement::Fails, None) => "differs",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    pub id: String,
    pub claim: String,
    /// On the first platform; `None` if the claim is not judged there.
    pub first: Option<Judgement>,
    pub second: Option<Judgement>,
    /// On the first platform over the common runs only; `None` if it has no other runs.
    #[serde(default)]
    pub first_shared: Option<Judgement>,
    /// The sentence of the second platform, else of the first.
    pub sentence: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    pub experiment: String,
    pub platforms: [String; 2],
    /// Beginning of the time window, seconds.
    pub from_s: f64,
    /// End of the time window; `None` for the end of the run.
    pub until_s: Option<f64>,
    pub tolerance: f64,
    pub rows: Vec<Row>,
    pub claims: Vec<ClaimRow>,
    pub left_out: Vec<String>,
}

impl ClaimRow {
    pub(crate) fn judgements(&self) -> impl Iterator<Item = Judgement> {
        [self.first, self.second].into_iter().flatten()
    }

    /// Returns the first platform's verdict over the common runs, if it differs from that over all
    /// its runs.
    pub fn otherwise(&self) -> Option<Judgement> {
        self.first_shared.filter(|shared| Some(*shared) != self.first)
    }
}

impl Validation {
    pub fn of(first: &Summary, second: &Summary, criteria: &ValidationCriteria, claims: &[Claim]) -> Validation {
        let mut rows = Vec::new();
        let mut left_out = BTreeSet::new();
        let mut shared: Vec<RunSummary> = Vec::new();
        for point in points(&first.runs) {
            let [own, other] = [point.runs(&first.runs), point.runs(&second.runs)];
            let common: Vec<RunSummary> = pairs(&own, &other).map(|(run, _)| run.clone()).collect();
            if common.is_empty() {
                left_out.insert(format!("{}: no run of it in {}", point.name(), platform(second)));
                continue;
            }
            shared.extend(common);
            for metric in &criteria.metrics {
                match row(&point, *metric, [&own, &other], criteria) {
                    Some(row) => rows.push(row),
                    None => drop(left_out.insert(format!("{}: {} has no value", point.name(), metric.name()))),
                }
            }
        }
        let only_second = points(&second.runs).into_iter().filter(|point| point.runs(&first.runs).is_empty());
        left_out.extend(only_second.map(|point| format!("{}: no run of it in {}", point.name(), platform(first))));
        let window = criteria.window.unwrap_or(Window { from_s: 0.0, until_s: f64::INFINITY });
        Validation {
            experiment: first.experiment.clone(),
            platforms: [platform(first), platform(second)],
            from_s: window.from_s,
            until_s: Some(window.until_s).filter(|until| until.is_finite()),
            tolerance: criteria.tolerance,
            rows,
            claims: claim_rows(first, second, claims, &shared),
            left_out: left_out.into_iter().collect(),
        }
    }

    pub fn count(&self, verdict: Judgement) -> usize {
        self.rows.iter().filter(|row| row.verdict == verdict).count()
    }

    /// Returns the number of figures that differ for a known reason.
    pub fn explained(&self) -> usize {
        self.rows.iter().filter(|row| row.reason.is_some()).count()
    }

    pub fn broken_claims(&self) -> impl Iterator<Item = &ClaimRow> {
        self.claims.iter().filter(|claim| claim.judgements().any(|judgement| judgement == Judgement::Fails))
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Point {
    variant: String,
    load: Option<f64>,
    balancer: String,
}

impl Point {
    fn name(&self) -> String {
        let load = self.load.map(|load| format!("load {load}"));
        let variant = Some(self.variant.clone()).filter(|variant| !variant.is_empty());
        [Some(self.balancer.clone()), load, variant].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn runs<'a>(&self, runs: &'a [RunSummary]) -> Vec<&'a RunSummary> {
        claims::runs_at(runs, &self.balancer, &self.variant, self.load)
    }
}

fn points(runs: &[RunSummary]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for run in runs {
        let point = Point { variant: run.variant.clone(), load: run.load, balancer: run.balancer.clone() };
        if !points.contains(&point) {
            points.push(point);
        }
    }
    points
}

fn platform(summary: &Summary) -> String {
    summary.runs.first().map_or_else(|| "nothing".to_owned(), |run| run.platform.clone())
}

fn row(point: &Point, metric: Metric, [own, other]: [&[&RunSummary]; 2], criteria: &ValidationCriteria) -> Option<Row> {
    let value = |run: &RunSummary| match criteria.window.filter(|_| metric.is_of_core()) {
        Some(window) => metric.of_window(run, window),
        None => metric.of(run),
    };
    let common: Vec<(f64, f64)> =
        pairs(own, other).filter_map(|(run, other)| Some((value(run)?, value(other)?))).collect();
    if common.is_empty() {
        return None;
    }
    let first = stat(&common.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let second = stat(&common.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let [all_first, all_second] =
        [own, other].map(|runs| runs.iter().filter_map(|run| value(run)).collect::<Vec<f64>>());
    let base = first.mean.abs().max(f64::MIN_POSITIVE);
    let difference = (second.mean - first.mean) / base;
    let noise = noise(&[&all_first, &all_second], common.len()) / base;
    let verdict = match difference.abs() {
        off if off <= criteria.tolerance => Judgement::Holds,
        off if off <= noise => Judgement::WithinNoise,
        // NaN does not agree.
        _ => Judgement::Fails,
    };
    Some(Row {
        variant: point.variant.clone(),
        load: point.load,
        balancer: point.balancer.clone(),
        metric: metric.name().to_owned(),
        seeds: common.len(),
        first_all: stat(&all_first),
        first_seeds: all_first.len(),
        first,
        second,
        difference,
        noise,
        verdict,
        reason: None,
    })
}

/// Returns the half width of the 95 % interval of a difference of two means over `seeds` each that
/// is due to random draws alone. The spread is that within each platform, over all its seeds;
/// differences between the platforms are not noise.
fn noise(platforms: &[&[f64]; 2], seeds: usize) -> f64 {
    let freedom: usize = platforms.iter().map(|values| values.len().saturating_sub(1)).sum();
    if freedom == 0 {
        return 0.0;
    }
    let squares: f64 =
        platforms.iter().map(|values| stat(values).sd.powi(2) * values.len().saturating_sub(1) as f64).sum();
    t975(freedom) * (squares / freedom as f64 * 2.0 / seeds as f64).sqrt()
}

fn claim_rows(first: &Summary, second: &Summary, claims: &[Claim], shared: &[RunSummary]) -> Vec<ClaimRow> {
    let mut rows: Vec<ClaimRow> = Vec::new();
    for (at, summary) in [first, second].into_iter().enumerate() {
        for verdict in &summary.claims {
            let row = row_of(&mut rows, &verdict.id, &verdict.claim);
            *(if at == 0 { &mut row.first } else { &mut row.second }) = Some(verdict.verdict);
            row.sentence = verdict.sentence.clone();
        }
    }
    if shared.len() < first.runs.len() {
        for verdict in claims::judge(claims, shared) {
            row_of(&mut rows, &verdict.id, &verdict.claim).first_shared = Some(verdict.verdict);
        }
    }
    rows
}

fn row_of<'a>(rows: &'a mut Vec<ClaimRow>, id: &str, claim: &str) -> &'a mut ClaimRow {
    let at = rows.iter().position(|row| (row.id.as_str(), row.claim.as_str()) == (id, claim)).unwrap_or_else(|| {
        let (id, claim) = (id.to_owned(), claim.to_owned());
        rows.push(ClaimRow { id, claim, first: None, second: None, first_shared: None, sentence: String::new() });
        rows.len() - 1
    });
    &mut rows[at]
}

#[cfg(test)]
mod tests;
