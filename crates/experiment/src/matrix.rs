//! Many balancers over many experiments: `matrix.json`, `matrix.csv`, `matrix.md` and their report.
//!
//! Like `summary.json` the schema only grows; a change of meaning raises [`MATRIX_SCHEMA_VERSION`]. Times are
//! microseconds, sizes bytes, shares and slowdowns plain ratios.

mod csv;
mod markdown;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::about::About;
use crate::cost::Cost;
use crate::file::Experiment;
use crate::statistics::is_complete;
use crate::store::{Store, StoreError, pretty};
use crate::summary::{Measure, Point, RunSummary, Stat, Summary, Verdict};
use crate::{Error, report};

/// Version of this schema, written into `matrix.json`.
pub const MATRIX_SCHEMA_VERSION: u32 = 1;

/// `matrix.json`: balancers × scenarios.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Matrix {
    /// [`MATRIX_SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of anabranch that made it.
    pub anabranch: String,
    /// What it is called: the folder of the experiments.
    pub name: String,
    /// Balancers, best first: by [`Row::ratio`], those that miss a scenario after those that do not, bounds last.
    pub rows: Vec<Row>,
    /// Scenarios: one per experiment, variant and load, in the order of the experiments.
    pub columns: Vec<Column>,
}

/// A balancer over all scenarios.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Row {
    /// What it is.
    pub balancer: About,
    /// Geometric mean of [`Cell::ratio`] over the scenarios it is in; `null` where it has none. A scenario at which it
    /// is not ranked counts with 1 at least: nobody gains by leaving flows unfinished.
    pub ratio: Option<f64>,
    /// The same of [`Cell::ratio_p99`].
    pub ratio_p99: Option<f64>,
    /// Geometric mean of the shares of the optimum, where there are any.
    pub share_of_optimum: Option<f64>,
    /// Scenarios it is in.
    pub scenarios: u32,
    /// Scenarios at which it is best or cannot be told apart from the best.
    pub best_or_tied: u32,
    /// Scenarios at which it is not ranked, because it left too many flows unfinished.
    pub unranked: u32,
}

/// A scenario: one point of one experiment.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Column {
    /// Heading, a few words.
    pub title: String,
    /// Which point of the experiment: variant and load, in words; empty where the experiment has one point only.
    pub point: String,
    /// Name of the experiment.
    pub experiment: String,
    /// As in `summary.json`.
    pub variant: String,
    /// As in `summary.json`.
    pub load: Option<f64>,
    /// Its results folder, relative to that of the matrix.
    pub folder: String,
    /// What it is to find out, or its title; empty if it does not say.
    pub question: String,
    /// Topology, traffic, transport and so on, in words.
    pub setting: Vec<(String, String)>,
    /// What to look at before trusting it.
    pub warnings: Vec<String>,
    /// Most seeds of any balancer.
    pub seeds: u32,
    /// What cells hold.
    pub measure: Measure,
    /// Best balancer; empty where there is none.
    pub best: String,
    /// Balancers that cannot be told apart from it.
    pub tied: Vec<String>,
    /// Balancers with the least p99 slowdown among those that are ranked: one, or none where nothing completed.
    pub best_p99: String,
    /// The verdict in a sentence.
    pub sentence: String,
    /// One per balancer of the experiment, in its order; a balancer the experiment lacks has no cell.
    pub cells: Vec<Cell>,
}

/// A balancer in a scenario.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Cell {
    /// Label of the balancer.
    pub balancer: String,
    /// As in `summary.json`: 1 for the best and those tied with it, 0 for what is not ranked.
    pub rank: u32,
    /// Seeds.
    pub seeds: u32,
    /// Flows that started, all seeds.
    pub flows_started: u64,
    /// Flows that completed, all seeds.
    pub flows_completed: u64,
    /// Mean slowdown, unfinished flows counted as far as they had come (with them a lower bound); throughput share
    /// where that is the measure.
    pub mean: Stat,
    /// 99th percentile of slowdown over completed flows; `null` where nothing completed, or throughput is measured.
    pub p99: Option<Stat>,
    /// How many times worse than the best of the scenario: `mean` / its mean (of throughput the inverse). A bound has
    /// one below 1.
    pub ratio: Option<f64>,
    /// The same for `p99`, with the least p99 of those ranked.
    pub ratio_p99: Option<f64>,
    /// As in `summary.json`.
    pub share_of_optimum: Option<Stat>,
    /// What it costs beside.
    pub cost: Cost,
}

impl Cell {
    /// Flows that started and did not complete.
    pub fn unfinished(&self) -> u64 {
        self.flows_started.saturating_sub(self.flows_completed)
    }
}

impl Column {
    /// Title and point.
    pub fn name(&self) -> String {
        if self.point.is_empty() { self.title.clone() } else { format!("{}, {}", self.title, self.point) }
    }

    /// The cell of a balancer.
    pub fn cell(&self, label: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.balancer == label)
    }
}

/// An experiment of a matrix that has been run.
#[derive(Clone, Debug)]
pub struct Part {
    /// Heading of its columns.
    pub title: String,
    /// Its results folder, relative to that of the matrix.
    pub folder: String,
    /// Its results.
    pub summary: Summary,
}

impl Part {
    /// The results of an experiment, which are in a folder of its name.
    pub fn of(experiment: &Experiment, summary: Summary) -> Part {
        let title = experiment.column.clone().unwrap_or_else(|| experiment.name.clone());
        Part { title, folder: experiment.name.clone(), summary }
    }
}

impl Matrix {
    /// Puts the results of experiments side by side.
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

    /// Writes `matrix.json`, `matrix.csv`, `matrix.md` and `report.html`; answers the path of the report.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        store.write("matrix.csv", csv::csv(self).as_bytes())?;
        store.write("matrix.md", self.markdown().as_bytes())?;
        store.write("report.html", report::matrix_html(self).as_bytes())?;
        store.write("matrix.json", &pretty(self))?;
        Ok(store.path("report.html"))
    }

    /// Reads `matrix.json` of a folder.
    ///
    /// # Errors
    /// It is not there, or is not one of this program.
    pub fn load(folder: &Path) -> Result<Matrix, Error> {
        let path = folder.join("matrix.json");
        let text = std::fs::read_to_string(&path).map_err(|cause| StoreError::Read { path: path.clone(), cause })?;
        let read = serde_json::from_str(&text);
        Ok(read.map_err(|cause| StoreError::Content { path, line: cause.line(), cause })?)
    }

    /// The table as Markdown: rows balancers, columns scenarios.
    pub fn markdown(&self) -> String {
        markdown::markdown(self)
    }

    /// Whether any scenario has the optimum beside it.
    pub fn has_optimum(&self) -> bool {
        self.rows.iter().any(|row| row.share_of_optimum.is_some())
    }
}

/// Every balancer of any experiment, in the order they are first met.
fn balancers(parts: &[Part]) -> Vec<About> {
    let mut balancers: Vec<About> = Vec::new();
    for run in parts.iter().flat_map(|part| &part.summary.runs) {
        if !balancers.iter().any(|about| about.label == run.balancer) {
            balancers.push(About { is_bound: run.is_bound, ..About::of(&run.balancer, &run.parameters) });
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
    let best_mean =
        points.iter().find(|point| point.balancer == verdict.best).map(|best| measured(best, summary.measure).mean);
    let least_p99 = least_p99(&points, summary.measure);
    let cell = |point: &&Point| {
        let own: Vec<&RunSummary> = runs.iter().copied().filter(|run| run.balancer == point.balancer).collect();
        cell(point, &own, summary.measure, best_mean, least_p99.map(|least| least.slowdown_p99.mean))
    };
    Column {
        title: part.title.clone(),
        point: if summary.verdicts.len() > 1 { point_words(verdict) } else { String::new() },
        experiment: summary.experiment.clone(),
        variant: verdict.variant.clone(),
        load: verdict.load,
        folder: part.folder.clone(),
        question: setting("question").or_else(|| setting("title")).unwrap_or_default(),
        setting: summary.setting.clone(),
        warnings: summary.warnings.clone(),
        seeds: points.iter().map(|point| point.seeds).max().unwrap_or(0),
        measure: summary.measure,
        best: verdict.best.clone(),
        tied: verdict.tied.clone(),
        best_p99: least_p99.map_or_else(String::new, |least| least.balancer.clone()),
        sentence: verdict.sentence.clone(),
        cells: points.iter().map(cell).collect(),
    }
}

/// `60 %, transport.kind=dctcp`.
fn point_words(verdict: &Verdict) -> String {
    let load = verdict.load.map(report::text::load_text);
    let variant = Some(verdict.variant.clone()).filter(|variant| !variant.is_empty());
    load.into_iter().chain(variant).collect::<Vec<_>>().join(", ")
}

fn measured(point: &Point, measure: Measure) -> &Stat {
    match measure {
        Measure::Slowdown => &point.slowdown_bound,
        Measure::Throughput => &point.throughput_share,
    }
}

/// The balancer with the least p99: a tail over completed flows only says nothing of one that left its slowest open.
fn least_p99<'a>(points: &[&'a Point], measure: Measure) -> Option<&'a Point> {
    if measure == Measure::Throughput {
        return None;
    }
    let rivals = || points.iter().copied().filter(|point| !point.is_bound && point.flows_completed > 0);
    let open = |point: &Point| point.flows_started - point.flows_completed;
    let least_open = rivals().map(open).min()?;
    let complete = rivals().filter(|point| is_complete(open(point), least_open, point.flows_started));
    complete.min_by(|a, b| a.slowdown_p99.mean.total_cmp(&b.slowdown_p99.mean))
}

fn cell(point: &Point, runs: &[&RunSummary], measure: Measure, best: Option<f64>, least_p99: Option<f64>) -> Cell {
    let mean = measured(point, measure).clone();
    let has_p99 = measure == Measure::Slowdown && point.flows_completed > 0;
    let p99 = has_p99.then(|| point.slowdown_p99.clone());
    let times = |value: f64, best: f64| match measure {
        Measure::Slowdown => value / best,
        Measure::Throughput => best / value,
    };
    let is_usable = |ratio: &f64| ratio.is_finite() && *ratio > 0.0;
    Cell {
        balancer: point.balancer.clone(),
        rank: point.rank,
        seeds: point.seeds,
        flows_started: point.flows_started,
        flows_completed: point.flows_completed,
        ratio: best.map(|best| times(mean.mean, best)).filter(is_usable),
        ratio_p99: p99.as_ref().zip(least_p99).map(|(p99, least)| p99.mean / least).filter(is_usable),
        mean,
        p99,
        share_of_optimum: point.share_of_optimum.clone(),
        cost: Cost::of(runs),
    }
}

fn row(about: About, columns: &[Column]) -> Row {
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
        best_or_tied: count(&|column, cell| column.best == cell.balancer || column.tied.contains(&cell.balancer)),
        unranked: count(&|_, cell| is_unranked(cell)),
        balancer: about,
    }
}

/// Ratios are averaged by their logarithms: twice as good here and half as good there is no better and no worse.
fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let logarithms: Vec<f64> = ratios.map(f64::ln).collect();
    (!logarithms.is_empty()).then(|| (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp())
}

#[cfg(test)]
mod tests;
