//! Two worlds side by side: the same experiment simulated and on real switches, and whether they agree.
//!
//! Runs of the same variant, load, balancer and seed are compared, for these had the same flows. Where a balancer draws (a hash, a
//! tie), two worlds draw differently though nothing is wrong with either; how far apart that alone would leave them is estimated
//! from the spread over the seeds of both, and a difference within it is told apart from one that is not.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::claims::{self, Claim, Metric, Window};
use crate::statistics::stat;
use crate::student::t975;
use crate::summary::{ClaimOutcome, RunSummary, Stat, Summary};

/// What is compared, and how close it has to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// Figures of a run.
    pub metrics: Vec<Metric>,
    /// For metrics of the core: the time bins that count; all if `None`.
    pub window: Option<Window>,
    /// Greatest difference, as a share of the first world's value.
    pub tolerance: f64,
}

impl Default for Terms {
    fn default() -> Terms {
        let metrics = vec![Metric::CoreCllblRx, Metric::CoreCllblTx, Metric::CoreBbRx, Metric::CoreBbTx];
        Terms { metrics, window: None, tolerance: 0.1 }
    }
}

/// Whether one figure is the same in both worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closeness {
    /// Within the tolerance.
    Agrees,
    /// Beyond it, but not beyond what draws alone do with this few runs: more seeds would tell.
    WithinNoise,
    /// Beyond both.
    Differs,
}

impl Closeness {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Closeness::Agrees => "agrees",
            Closeness::WithinNoise => "within noise",
            Closeness::Differs => "DIFFERS",
        }
    }
}

/// One figure of one balancer in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Label of the variant.
    pub variant: String,
    /// Offered load.
    pub load: Option<f64>,
    /// Label of the balancer.
    pub balancer: String,
    /// Name of the metric, as in experiment files.
    pub metric: String,
    /// Over the seeds both worlds ran: the first world's.
    pub first: Stat,
    /// The second world's.
    pub second: Stat,
    /// How many seeds those are.
    pub seeds: usize,
    /// Over all seeds of the first world.
    #[serde(default)]
    pub first_all: Stat,
    /// How many seeds the first world ran.
    #[serde(default)]
    pub first_seeds: usize,
    /// Mean of (second − first) / mean of first.
    pub difference: f64,
    /// How large that gets by draws alone in 95 of 100 such comparisons, estimated from the spread over all seeds of both worlds.
    pub noise: f64,
    /// The verdict.
    pub closeness: Closeness,
}

/// What became of a claim of the experiment in both worlds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// Short name.
    pub id: String,
    /// The claim in a sentence.
    pub claim: String,
    /// In the first world; `None` where it is not judged.
    pub first: Option<ClaimOutcome>,
    /// In the second.
    pub second: Option<ClaimOutcome>,
    /// In the first world, where it ran more than the second: over the runs alone that both have.
    #[serde(default)]
    pub first_shared: Option<ClaimOutcome>,
    /// What was found in the second world, or else in the first.
    pub sentence: String,
}

/// Two worlds side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// What both ran.
    pub experiment: String,
    /// Names of the worlds.
    pub worlds: [String; 2],
    /// Beginning of the part of the time that counts, seconds.
    pub from_s: f64,
    /// Its end; `None` for the end of the run.
    pub until_s: Option<f64>,
    /// Greatest difference that agrees.
    pub tolerance: f64,
    /// Ordered by variant, load, balancer as in the first world, metric.
    pub rows: Vec<Row>,
    /// Claims of the experiment file.
    pub claims: Vec<ClaimRow>,
    /// What was not compared, in words.
    pub left_out: Vec<String>,
}

impl ClaimRow {
    /// What the first world says over the runs that both have, where that is something else than what all its runs say.
    pub fn otherwise(&self) -> Option<ClaimOutcome> {
        self.first_shared.filter(|shared| Some(*shared) != self.first)
    }
}

impl Agreement {
    /// Compares two results of one experiment, which makes these claims.
    pub fn of(first: &Summary, second: &Summary, terms: &Terms, claims: &[Claim]) -> Agreement {
        let mut rows = Vec::new();
        let mut left_out = BTreeSet::new();
        let mut shared: Vec<RunSummary> = Vec::new();
        for point in points(&first.runs) {
            let (ours, theirs) = (of_point(&first.runs, &point), of_point(&second.runs, &point));
            let before = shared.len();
            shared.extend(ours.iter().filter(|(seed, _)| theirs.contains_key(*seed)).map(|(_, run)| (*run).clone()));
            if shared.len() == before {
                left_out.insert(format!("{}: no run of it in {}", point.name(), world(second)));
                continue;
            }
            for metric in &terms.metrics {
                match row(&point, *metric, (&ours, &theirs), terms) {
                    Some(row) => rows.push(row),
                    None => drop(left_out.insert(format!("{}: {} has no value", point.name(), metric.name()))),
                }
            }
        }
        let known: BTreeSet<String> = points(&first.runs).iter().map(Point::name).collect();
        let strange = points(&second.runs).into_iter().filter(|point| !known.contains(&point.name()));
        left_out.extend(strange.map(|point| format!("{}: no run of it in {}", point.name(), world(first))));
        let window = terms.window.unwrap_or(Window { from_s: 0.0, until_s: f64::INFINITY });
        Agreement {
            experiment: first.experiment.clone(),
            worlds: [world(first), world(second)],
            from_s: window.from_s,
            until_s: Some(window.until_s).filter(|until| until.is_finite()),
            tolerance: terms.tolerance,
            rows,
            claims: claim_rows(first, second, claims, &shared),
            left_out: left_out.into_iter().collect(),
        }
    }

    /// How many figures have this verdict.
    pub fn count(&self, closeness: Closeness) -> usize {
        self.rows.iter().filter(|row| row.closeness == closeness).count()
    }

    /// Claims that do not hold in one of the worlds.
    pub fn broken_claims(&self) -> impl Iterator<Item = &ClaimRow> {
        let is_broken = |outcome: Option<ClaimOutcome>| outcome == Some(ClaimOutcome::NotReproduced);
        self.claims.iter().filter(move |claim| is_broken(claim.first) || is_broken(claim.second))
    }
}

/// What is compared with each other.
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

/// Runs of a point by their seed.
fn of_point<'a>(runs: &'a [RunSummary], point: &Point) -> BTreeMap<u64, &'a RunSummary> {
    let is_of =
        |run: &&RunSummary| (&run.variant, run.load, &run.balancer) == (&point.variant, point.load, &point.balancer);
    runs.iter().filter(is_of).map(|run| (run.seed, run)).collect()
}

fn world(summary: &Summary) -> String {
    summary.runs.first().map_or_else(|| "nothing".to_owned(), |run| run.world.clone())
}

type Runs<'a> = BTreeMap<u64, &'a RunSummary>;

fn row(point: &Point, metric: Metric, (ours, theirs): (&Runs<'_>, &Runs<'_>), terms: &Terms) -> Option<Row> {
    let value = |run: &RunSummary| match terms.window.filter(|_| metric.is_of_core()) {
        Some(window) => metric.of_window(run, window),
        None => metric.of(run),
    };
    let pair = |(seed, run): (&u64, &&RunSummary)| Some((value(run)?, value(theirs.get(seed)?)?));
    let pairs: Vec<(f64, f64)> = ours.iter().filter_map(pair).collect();
    if pairs.is_empty() {
        return None;
    }
    let first = stat(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let second = stat(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let all = |runs: &Runs<'_>| -> Vec<f64> { runs.values().filter_map(|run| value(run)).collect() };
    let [all_ours, all_theirs] = [all(ours), all(theirs)];
    let base = first.mean.abs().max(f64::MIN_POSITIVE);
    let difference = (second.mean - first.mean) / base;
    let noise = noise(&[&all_ours, &all_theirs], pairs.len()) / base;
    let closeness = match difference.abs() {
        off if off <= terms.tolerance => Closeness::Agrees,
        off if off <= noise => Closeness::WithinNoise,
        // A value that is no number does not agree.
        _ => Closeness::Differs,
    };
    Some(Row {
        variant: point.variant.clone(),
        load: point.load,
        balancer: point.balancer.clone(),
        metric: metric.name().to_owned(),
        seeds: pairs.len(),
        first_all: stat(&all_ours),
        first_seeds: all_ours.len(),
        first,
        second,
        difference,
        noise,
        closeness,
    })
}

/// Half width of the 95 % interval of a difference of two means over `seeds` each, if nothing but draws made it. The spread is that
/// within each world, over all its seeds: differences between the worlds do not count as noise.
fn noise(worlds: &[&[f64]; 2], seeds: usize) -> f64 {
    let freedom: usize = worlds.iter().map(|values| values.len().saturating_sub(1)).sum();
    if freedom == 0 {
        return 0.0;
    }
    let squares: f64 =
        worlds.iter().map(|values| stat(values).sd.powi(2) * values.len().saturating_sub(1) as f64).sum();
    t975(freedom) * (squares / freedom as f64 * 2.0 / seeds as f64).sqrt()
}

/// Claims of either world, and over those runs of the first that both have.
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
