//! `reproduction.json`: the verdicts, human-readable and for programs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::validation::WORLDS;
use super::{Erratum, ValidationResult, ValidationRow, Verdict};
use crate::store::{Store, pretty};
use crate::summary::{PointOutcome, Stat};
use crate::{Error, report};

/// File name.
pub(super) const REPRODUCTION: &str = "reproduction.json";

/// Version of the schema of `reproduction.json`; compatible changes only add fields.
pub const REPRODUCTION_SCHEMA_VERSION: u32 = 1;

/// Verdicts on the experiments of documents.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Reproduction {
    /// [`REPRODUCTION_SCHEMA_VERSION`].
    pub schema: u32,
    /// Version of anabranch.
    pub anabranch: String,
    /// `sim`.
    pub world: String,
    /// Ordered by name.
    pub documents: Vec<DocumentResult>,
}

/// One document.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct DocumentResult {
    /// Such as `F3`.
    pub document: String,
    pub title: String,
    /// Origin of the document.
    pub source: String,
    /// Experiments of the document.
    pub entries: Vec<EntryResult>,
    /// Results folders behind the verdicts.
    pub runs: Vec<RunResult>,
    /// Figures with curves.
    pub curves: Vec<Curve>,
    /// Errors in the document.
    pub wrong: Vec<Erratum>,
}

/// One experiment of a document.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct EntryResult {
    /// Such as `E3.1`.
    pub id: String,
    pub question: String,
    /// Section of the document.
    pub section: String,
    /// Verdict of the worst number.
    pub verdict: Verdict,
    /// One-line reason.
    pub reason: String,
    /// Ordered as in the index.
    pub numbers: Vec<NumberResult>,
    /// Names of the runs behind the verdict.
    pub runs: Vec<String>,
}

/// One printed number.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct NumberResult {
    /// Description of the number.
    pub what: String,
    /// The number as printed.
    pub printed: String,
    /// The printed value.
    pub value: Option<f64>,
    /// The metric, as in experiment files.
    pub metric: String,
    /// `value`, `ratio` or `difference`.
    pub kind: String,
    /// Measured value at each point of the number.
    pub places: Vec<PointResult>,
    /// Human-readable measured value, with its 95 % interval.
    pub ours: String,
    /// Human-readable band; empty if the number is not judged.
    pub band: String,
    /// Human-readable best possible value; empty if it is unknown.
    pub bound: String,
    /// `null` if the number is not judged.
    pub verdict: Option<Verdict>,
    /// Reason why it is not reproduced, or how the document contradicts itself.
    pub reason: Option<String>,
    /// Figure of the report that shows the number, and its label there.
    pub figure: Option<(String, String)>,
    /// Name of the run behind the number.
    pub run: String,
}

/// Measured value at one variant and load.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PointResult {
    /// As in the runs.
    pub variant: String,
    /// As in the runs.
    pub load: Option<f64>,
    /// `null` if no flow completed that it could be computed from.
    pub measured: Option<Measured>,
    /// Whether the printed statement holds here; `null` if the number is not judged.
    pub outcome: Option<PointOutcome>,
}

/// A value over seeds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct Measured {
    /// Mean; for metrics that are extremes, the extreme.
    pub mean: f64,
    /// Half width of the 95 % interval; 0 with one seed.
    pub ci95: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
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
    /// Number of seeds run.
    pub seeds: usize,
    /// Number of seeds in the file.
    pub seeds_of_file: usize,
    /// Reason for running less than the file.
    pub reason: Option<String>,
    /// Number of runs.
    pub runs: usize,
    /// Flows or requests that started, over all runs.
    pub flows_started: u64,
    /// Flows or requests that completed, over all runs.
    pub flows_completed: u64,
}

/// A figure of the document with the measured curves.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Curve {
    pub figure: String,
    /// The metric, as in experiment files.
    pub metric: String,
    /// Whether the x axis is time in seconds instead of load.
    pub over_time: bool,
    /// Measured curves, one per balancer.
    pub ours: Vec<Series>,
    /// Curves of the document.
    pub printed: Vec<Series>,
}

/// Points of a curve.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Series {
    pub name: String,
    /// x, mean, and the ends of the 95 % interval.
    pub points: Vec<[f64; 4]>,
}

impl Reproduction {
    /// Creates the result of judged documents, with the version of this program.
    pub fn new(documents: Vec<DocumentResult>) -> Reproduction {
        let anabranch = env!("CARGO_PKG_VERSION").to_owned();
        Reproduction { schema: REPRODUCTION_SCHEMA_VERSION, anabranch, world: "sim".to_owned(), documents }
    }

    /// Writes `reproduction.json`, `reproduction.csv`, `reproduction.md` and `report.html`, and
    /// returns the path of the report. If the folder has testbed results of the same experiments
    /// (`worlds.json`), the page shows them, too.
    ///
    /// # Errors
    /// The folder cannot be written, or its files are not of this program.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        store.write("reproduction.csv", super::csv(self).as_bytes())?;
        store.write("reproduction.md", super::markdown(self).as_bytes())?;
        let worlds: Option<ValidationResult> = store.json(WORLDS)?;
        let is_of = |row: &&ValidationRow| self.entries().any(|entry| row.ids.contains(&entry.id));
        let rows: Vec<&ValidationRow> = worlds.iter().flat_map(|worlds| &worlds.rows).filter(is_of).collect();
        store.write("report.html", report::reproduction_html(Some(self), &rows).as_bytes())?;
        store.write(REPRODUCTION, &pretty(self))?;
        Ok(store.path("report.html"))
    }

    /// Returns the experiments of all documents.
    pub fn entries(&self) -> impl Iterator<Item = &EntryResult> {
        self.documents.iter().flat_map(|document| &document.entries)
    }

    /// Returns the number of experiments with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.entries().filter(|entry| entry.verdict == verdict).count()
    }
}
