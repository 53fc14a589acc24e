//! `reproduction.json`: what came out, for people and programs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::worlds::WORLDS;
use super::{Verdict, WorldsResult, WorldsRow, Wrong};
use crate::store::{Store, pretty};
use crate::summary::{PointOutcome, Stat};
use crate::{Error, report};

/// The name of the file.
pub(super) const REPRODUCTION: &str = "reproduction.json";

/// Version of the schema of `reproduction.json`; fields are only ever added.
pub const REPRODUCTION_SCHEMA_VERSION: u32 = 1;

/// Experiments of documents beside what they printed.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Reproduction {
    /// [`REPRODUCTION_SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of anabranch.
    pub anabranch: String,
    /// `sim`.
    pub world: String,
    /// In the order of their names.
    pub documents: Vec<DocumentResult>,
}

/// One document.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct DocumentResult {
    /// Such as `F3`.
    pub document: String,
    /// Its title.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// Its experiments.
    pub entries: Vec<EntryResult>,
    /// What was run.
    pub runs: Vec<RunResult>,
    /// Its figures that are curves.
    pub curves: Vec<Curve>,
    /// What it got wrong.
    pub wrong: Vec<Wrong>,
}

/// One experiment of a document.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct EntryResult {
    /// Such as `E3.1`.
    pub id: String,
    /// What it asks.
    pub question: String,
    /// Where in the document.
    pub section: String,
    /// That of its worst number.
    pub verdict: Verdict,
    /// Why, on a line.
    pub reason: String,
    /// In the order of the index.
    pub numbers: Vec<NumberResult>,
    /// Names of the runs that back it.
    pub runs: Vec<String>,
}

/// One printed number.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct NumberResult {
    /// What it is.
    pub what: String,
    /// The document's words for it.
    pub printed: String,
    /// The same as a number.
    pub value: Option<f64>,
    /// The metric, as in experiment files.
    pub metric: String,
    /// `value`, `ratio` or `difference`.
    pub kind: String,
    /// Ours at each place it is about.
    pub places: Vec<Place>,
    /// Ours in words, with its 95 % interval.
    pub ours: String,
    /// Its band in words; empty where it is not judged.
    pub band: String,
    /// What it can be at best, in words; empty where that is not known.
    pub bound: String,
    /// `null` where it is not judged.
    pub verdict: Option<Verdict>,
    /// Why it is not reproduced, or how the document contradicts itself.
    pub reason: Option<String>,
    /// The figure of the report it is drawn in, and its label.
    pub figure: Option<(String, String)>,
    /// The run that answers it.
    pub run: String,
}

/// Ours at one variant and load.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Place {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// `null` where nothing completed that it could be taken from.
    pub measured: Option<Measured>,
    /// Whether what was printed holds here; `null` where it is not judged.
    pub outcome: Option<PointOutcome>,
}

/// A value over seeds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct Measured {
    /// Mean; for metrics that are extremes, the extreme.
    pub mean: f64,
    /// Half width of its 95 % interval; 0 with one seed.
    pub ci95: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl From<&Stat> for Measured {
    fn from(stat: &Stat) -> Measured {
        Measured { mean: stat.mean, ci95: stat.ci95, min: stat.min, max: stat.max }
    }
}

/// A results folder behind the verdicts.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RunResult {
    /// Name of the folder, below the one of the document.
    pub name: String,
    /// The experiment file, as the index names it.
    pub file: String,
    /// Seeds run.
    pub seeds: usize,
    /// Seeds of the file.
    pub seeds_of_file: usize,
    /// Why it was not run as the file is.
    pub reason: Option<String>,
    /// Runs.
    pub runs: usize,
    /// Flows or requests that started, over all runs.
    pub flows_started: u64,
    /// Those that completed.
    pub flows_completed: u64,
}

/// A figure of the document with our curves.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Curve {
    /// Title.
    pub figure: String,
    /// The metric, as in experiment files.
    pub metric: String,
    /// Against time in seconds, or else load.
    pub over_time: bool,
    /// Ours, by balancer.
    pub ours: Vec<Series>,
    /// The document's.
    pub printed: Vec<Series>,
}

/// Points of a curve.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// x, mean, and the ends of the 95 % interval.
    pub points: Vec<[f64; 4]>,
}

impl Reproduction {
    /// Of this program, for documents that have been judged.
    pub fn new(documents: Vec<DocumentResult>) -> Reproduction {
        let anabranch = env!("CARGO_PKG_VERSION").to_owned();
        Reproduction { schema: REPRODUCTION_SCHEMA_VERSION, anabranch, world: "sim".to_owned(), documents }
    }

    /// Writes `reproduction.json`, `reproduction.csv`, `reproduction.md` and `report.html`; answers the path of the report. What the
    /// folder has of real switches (`worlds.json`) about the same experiments is on the page, too.
    ///
    /// # Errors
    /// The folder cannot be written, or what is in it is not of this program.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        store.write("reproduction.csv", super::csv(self).as_bytes())?;
        store.write("reproduction.md", super::markdown(self).as_bytes())?;
        let worlds: Option<WorldsResult> = store.json(WORLDS)?;
        let is_of = |row: &&WorldsRow| self.entries().any(|entry| row.ids.contains(&entry.id));
        let rows: Vec<&WorldsRow> = worlds.iter().flat_map(|worlds| &worlds.rows).filter(is_of).collect();
        store.write("report.html", report::reproduction_html(Some(self), &rows).as_bytes())?;
        store.write(REPRODUCTION, &pretty(self))?;
        Ok(store.path("report.html"))
    }

    /// All experiments.
    pub fn entries(&self) -> impl Iterator<Item = &EntryResult> {
        self.documents.iter().flat_map(|document| &document.entries)
    }

    /// How many experiments have a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.entries().filter(|entry| entry.verdict == verdict).count()
    }
}
