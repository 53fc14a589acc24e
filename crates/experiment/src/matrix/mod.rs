//! Many balancers over many experiments: `matrix.json`, `matrix.csv`, `matrix.md` and their report.
//!
//! As in `summary.json`, compatible changes only add fields, and a change of meaning raises
//! [`MATRIX_SCHEMA_VERSION`]. Times are microseconds, sizes bytes, shares and slowdowns plain
//! ratios.

mod csv;
mod markdown;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::input::Experiment;
use crate::results::balancer_info::BalancerInfo;
use crate::results::cost::Cost;
use crate::results::statistics::is_complete;
use crate::store::{Store, pretty};
use crate::summary::{Measure, Point, RunSummary, Standing, Stat, Summary, Verdict};
use crate::{Error, report};

/// Version of this schema, written into `matrix.json`.
pub const MATRIX_SCHEMA_VERSION: u32 = 3;

/// `matrix.json`: balancers × scenarios.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Matrix {
    pub schema: u32,
    pub anabranch: String,
    pub name: String,
    /// Balancers ordered by [`Row::ratio`], best first; those that miss a scenario follow, bounds
    /// are last.
    pub rows: Vec<Row>,
    pub columns: Vec<Column>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Row {
    pub balancer: BalancerInfo,
    /// Geometric mean of [`Cell::ratio`] over its scenarios; `null` without any. A scenario at
    /// which it is not ranked counts with 1 at least, so that unfinished flows are no advantage.
    pub ratio: Option<f64>,
    pub ratio_p99: Option<f64>,
    pub share_of_optimum: Option<f64>,
    pub scenarios: u32,
    pub best_or_tied: u32,
    /// Number of scenarios in which it may be as good as the best.
    pub undecided: u32,
    pub unranked: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Column {
    pub title: String,
    /// Human-readable variant and load; empty if the experiment has only one point.
    pub point: String,
    pub experiment: String,
    pub variant: String,
    pub load: Option<f64>,
    pub folder: String,
    /// Question of the experiment, else its title; empty without either.
    pub question: String,
    pub setting: Vec<(String, String)>,
    pub warnings: Vec<String>,
    pub seeds: u32,
    pub rank_by: Measure,
    /// Best balancer; empty without a ranked one.
    pub best: String,
    pub tied: Vec<String>,
    pub undecided: Vec<String>,
    pub best_p99: String,
    pub sentence: String,
    /// One per balancer of the experiment, in its order; other balancers have no cell.
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Cell {
    pub balancer: String,
    /// As in `summary.json`: 1 for the best and balancers tied with it, 0 if not ranked.
    pub rank: u32,
    pub standing: Standing,
    pub seeds: u32,
    pub flows_started: u64,
    pub flows_completed: u64,
    /// The quantity that ranks balancers ([`Column::rank_by`]): mean slowdown, throughput share, or mean
    /// group time in microseconds.
    pub mean: Stat,
    /// Whether `mean` is a lower bound, because unfinished flows or groups count with what they had
    /// reached.
    #[serde(default)]
    pub is_lower_bound: bool,
    /// 99th percentile of slowdown over completed flows; `null` if none completed, and if another
    /// quantity ranks balancers.
    pub p99: Option<Stat>,
    /// Ratio to the best of the scenario, paired over seeds. It may be below 1 for a bound.
    pub ratio: Option<f64>,
    /// Ratio of `p99` to the lowest p99 of ranked balancers.
    pub ratio_p99: Option<f64>,
    pub share_of_optimum: Option<Stat>,
    pub cost: Cost,
}

impl Cell {
    pub fn unfinished(&self) -> u64 {
        self.flows_started.saturating_sub(self.flows_completed)
    }
}

impl Column {
    pub fn name(&self) -> String {
        if self.point.is_empty() { self.title.clone() } else { format!("{}, {}", self.title, self.point) }
    }

    pub fn cell(&self, label: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.balancer == label)
    }
}

#[derive(Clone, Debug)]
pub struct Part {
    pub title: String,
    pub folder: String,
    pub summary: Summary,
}

impl Part {
    pub fn of(experiment: &Experiment, summary: Summary) -> Part {
        let title = experiment.column.clone().unwrap_or_else(|| experiment.name.clone());
        Part { title, folder: experiment.name.clone(), summary }
    }
}

impl Matrix {
    pub fn build(name: &str, parts: &[Part]) -> Matrix {
        let columns: Vec<Column> = parts.iter().flat_map(columns).collect();
        let mut rows: Vec<Row> = balancers(parts).into_iter().map(|about| row(about, &columns)).collect();
        let order = |row: &Row| (row.balancer.is_bound, columns.len() as u32 - row.scenarios);
        let ratio = |row: &Row| row.ratio.unwrap_or(f64::INFINITY);
        rows.sort_by(|a, b| order(a).cmp(&order(b)).then(ratio(a).total_cmp(&ratio(b))));
        Matrix {
            schema: MATRIX_SCHEMA_VERSION,
            anabranch: env!("CARGO_PKG_VERSION").to_owned(),
            name: name.to_owned(),
            rows,
            columns,
        }
    }

    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        store.write("matrix.csv", csv::csv(self).as_bytes())?;
        store.write("matrix.md", self.markdown().as_bytes())?;
        store.write("report.html", report::matrix_html(self).as_bytes())?;
        store.write("matrix.json", &pretty(self))?;
        Ok(store.path("report.html"))
    }

    pub fn load(folder: &Path) -> Result<Matrix, Error> {
        Ok(Store::open(folder).read("matrix.json")?)
    }

    pub fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    pub fn has_optimum(&self) -> bool {
        self.rows.iter().any(|row| row.share_of_optimum.is_some())
    }
}

fn balancers(parts: &[Part]) -> Vec<BalancerInfo> {
    let mut balancers: Vec<BalancerInfo> = Vec::new();
    for run in parts.iter().flat_map(|part| &part.summary.runs) {
        if !balancers.iter().any(|about| about.label == run.balancer) {
            balancers.push(BalancerInfo { is_bound: run.is_bound, ..BalancerInfo::of(&run.balancer, &run.parameters) });
        }
    }
    balancers
}

fn columns(part: &Part) -> Vec<Column> {
    part.summary.verdicts.iter().map(|verdict| column(part, verdict)).collect()
}

fn column(part: &Part, verdict: &Verdict) -> Column {
    let summary = &part.summary;
    let is_here = |variant: &str, load: Option<f64>| (variant, load) == (verdict.variant.as_str(), verdict.load);
    let points: Vec<&Point> = summary.points.iter().filter(|point| is_here(&point.variant, point.load)).collect();
    let runs: Vec<&RunSummary> = summary.runs.iter().filter(|run| is_here(&run.variant, run.load)).collect();
    let setting = |key: &str| summary.setting.iter().find(|(name, _)| name == key).map(|(_, text)| text.clone());
    let lowest_p99 = lowest_p99(&points, summary.rank_by);
    let cell = |point: &&Point| {
        let own: Vec<&RunSummary> = runs.iter().copied().filter(|run| run.balancer == point.balancer).collect();
        cell(point, &own, summary.rank_by, lowest_p99.map(|least| least.slowdown_p99.mean))
    };
    Column {
        title: part.title.clone(),
        point: if summary.verdicts.len() > 1 { point_text(verdict) } else { String::new() },
        experiment: summary.experiment.clone(),
        variant: verdict.variant.clone(),
        load: verdict.load,
        folder: part.folder.clone(),
        question: setting("question").or_else(|| setting("title")).unwrap_or_default(),
        setting: summary.setting.clone(),
        warnings: summary.warnings.clone(),
        seeds: points.iter().map(|point| point.seeds).max().unwrap_or(0),
        rank_by: summary.rank_by,
        best: verdict.best.clone(),
        tied: verdict.tied.clone(),
        undecided: verdict.undecided.clone(),
        best_p99: lowest_p99.map_or_else(String::new, |least| least.balancer.clone()),
        sentence: verdict.sentence.clone(),
        cells: points.iter().map(cell).collect(),
    }
}

fn point_text(verdict: &Verdict) -> String {
    let load = verdict.load.map(report::text::load_text);
    let variant = Some(verdict.variant.clone()).filter(|variant| !variant.is_empty());
    load.into_iter().chain(variant).collect::<Vec<_>>().join(", ")
}

/// Returns the balancer with the lowest p99. Unranked ones are excluded: a tail over completed
/// flows ignores the slow flows a balancer left unfinished.
fn lowest_p99<'a>(points: &[&'a Point], measure: Measure) -> Option<&'a Point> {
    if measure != Measure::Slowdown {
        return None;
    }
    let rivals = || points.iter().copied().filter(|point| !point.is_bound && point.flows_completed > 0);
    let open = |point: &Point| point.flows_started - point.flows_completed;
    let least_open = rivals().map(open).min()?;
    let complete = rivals().filter(|point| is_complete(open(point), least_open, point.flows_started));
    complete.min_by(|a, b| a.slowdown_p99.mean.total_cmp(&b.slowdown_p99.mean))
}

fn cell(point: &Point, runs: &[&RunSummary], measure: Measure, lowest_p99: Option<f64>) -> Cell {
    let mean = measure.of_point(point).clone();
    let has_p99 = measure == Measure::Slowdown && point.flows_completed > 0;
    let p99 = has_p99.then(|| point.slowdown_p99.clone());
    let is_usable = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    Cell {
        balancer: point.balancer.clone(),
        rank: point.rank,
        standing: point.standing,
        seeds: point.seeds,
        flows_started: point.flows_started,
        flows_completed: point.flows_completed,
        is_lower_bound: measure.is_lower_bound(point),
        ratio: Some(point.ratio.value).filter(is_usable),
        ratio_p99: p99.as_ref().zip(lowest_p99).map(|(p99, least)| p99.mean / least).filter(is_usable),
        mean,
        p99,
        share_of_optimum: point.share_of_optimum.clone(),
        cost: Cost::of(runs),
    }
}

fn row(about: BalancerInfo, columns: &[Column]) -> Row {
    let cells: Vec<(&Column, &Cell)> =
        columns.iter().filter_map(|column| Some((column, column.cell(&about.label)?))).collect();
    let mean = |of: fn(&Cell) -> Option<f64>| geometric_mean(cells.iter().filter_map(|(_, cell)| of(cell)));
    let is_unranked = |cell: &Cell| cell.rank == 0 && !about.is_bound;
    let ratio = |of: fn(&Cell) -> Option<f64>| {
        let least = |cell: &Cell| if is_unranked(cell) { 1.0 } else { 0.0 };
        geometric_mean(cells.iter().filter_map(|(_, cell)| Some(of(cell)?.max(least(cell)))))
    };
    let count =
        |test: &dyn Fn(&Column, &Cell) -> bool| cells.iter().filter(|(column, cell)| test(column, cell)).count() as u32;
    Row {
        ratio: ratio(|cell| cell.ratio),
        ratio_p99: ratio(|cell| cell.ratio_p99),
        share_of_optimum: mean(|cell| cell.share_of_optimum.as_ref().map(|share| share.mean)),
        scenarios: cells.len() as u32,
        best_or_tied: count(&|_, cell| matches!(cell.standing, Standing::Best | Standing::Tied)),
        undecided: count(&|_, cell| cell.standing == Standing::Undecided),
        unranked: count(&|_, cell| is_unranked(cell)),
        balancer: about,
    }
}

/// Returns the mean by logarithms: twice as good at one point and half as good at another cancel
/// out.
fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests;
