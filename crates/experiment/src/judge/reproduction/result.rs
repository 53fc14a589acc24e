//! `reproduction.json`: the verdicts, human-readable and for programs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::validation::VALIDATION_FILE;
use super::{ClaimCounts, Erratum, Grade, Kind, Reading, Standing, ValidationResult, ValidationRow, Verdict};
use crate::store::{Store, pretty};
use crate::summary::{Judgement, Stat};
use crate::{Error, report};

pub(super) const REPRODUCTION: &str = "reproduction.json";

/// Version of the schema of `reproduction.json`; compatible changes only add fields.
pub const REPRODUCTION_SCHEMA_VERSION: u32 = 3;

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Reproduction {
    pub schema: u32,
    pub anabranch: String,
    pub platform: String,
    pub documents: Vec<DocumentResult>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct DocumentResult {
    pub document: String,
    pub title: String,
    pub source: String,
    pub entries: Vec<EntryResult>,
    pub runs: Vec<RunResult>,
    pub curves: Vec<Curve>,
    pub errata: Vec<Erratum>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct EntryResult {
    pub id: String,
    pub question: String,
    pub section: String,
    pub grade: Grade,
    /// Explanation of the grade; empty if it needs none.
    pub grade_reason: String,
    /// Strict verdict: that of the worst number.
    pub verdict: Verdict,
    pub reason: String,
    pub readings: Vec<Reading>,
    pub numbers: Vec<NumberResult>,
    pub runs: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct NumberResult {
    pub what: String,
    /// `null` if the number is not judged.
    pub kind: Option<Kind>,
    /// `null` if the number belongs to all readings.
    pub reading: Option<Reading>,
    pub printed: String,
    pub value: Option<f64>,
    pub metric: String,
    /// `value`, `ratio` or `difference`.
    pub form: String,
    pub points: Vec<PointResult>,
    pub measured: String,
    /// Human-readable band; empty if the number is not judged.
    pub band: String,
    /// Human-readable best possible value; empty if it is unknown.
    pub bound: String,
    /// `null` if the number is not judged.
    pub verdict: Option<Verdict>,
    pub standing: Option<Standing>,
    pub reason: Option<String>,
    pub figure: Option<(String, String)>,
    pub run: String,
}

impl EntryResult {
    /// Returns the explanation of the grade and that of the strict verdict.
    pub fn why(&self) -> String {
        match self.grade_reason.as_str() {
            "" => self.reason.clone(),
            grade => format!("{grade}. Strictly: {}", self.reason),
        }
    }
}

impl NumberResult {
    /// Returns whether the number belongs to a reading that decides.
    pub fn decides(&self) -> bool {
        self.reading.as_ref().is_none_or(|reading| reading.status.decides())
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PointResult {
    pub variant: String,
    pub load: Option<f64>,
    /// `null` if no flow completed that it could be computed from.
    pub measured: Option<Measured>,
    pub outcome: Option<Judgement>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq)]
pub struct Measured {
    /// Mean; for metrics that are extremes, the extreme.
    pub mean: f64,
    pub ci95: f64,
    pub min: f64,
    pub max: f64,
}

impl From<&Stat> for Measured {
    fn from(stat: &Stat) -> Measured {
        Measured { mean: stat.mean, ci95: stat.ci95, min: stat.min, max: stat.max }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RunResult {
    pub name: String,
    pub file: String,
    pub seeds: usize,
    pub seeds_of_file: usize,
    pub reason: Option<String>,
    pub runs: usize,
    pub flows_started: u64,
    pub flows_completed: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Curve {
    pub figure: String,
    pub metric: String,
    /// Whether the x axis is time in seconds instead of load.
    pub over_time: bool,
    pub measured: Vec<Series>,
    pub printed: Vec<Series>,
}

#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Series {
    pub name: String,
    /// x, mean, and the ends of the 95 % interval.
    pub points: Vec<[f64; 4]>,
}

impl Reproduction {
    pub fn new(documents: Vec<DocumentResult>) -> Reproduction {
        let anabranch = env!("CARGO_PKG_VERSION").to_owned();
        Reproduction { schema: REPRODUCTION_SCHEMA_VERSION, anabranch, platform: "sim".to_owned(), documents }
    }

    /// Writes `reproduction.json`, `reproduction.csv`, `reproduction.md` and `report.html`, and
    /// returns the path of the report. If the folder has testbed results of the same experiments
    /// (`validation.json`), the page shows them, too.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        let store = Store::create(folder)?;
        store.write("reproduction.csv", super::csv(self).as_bytes())?;
        store.write("reproduction.md", super::markdown(self).as_bytes())?;
        let validation: Option<ValidationResult> = store.json(VALIDATION_FILE)?;
        let is_of = |row: &&ValidationRow| self.entries().any(|entry| row.ids.contains(&entry.id));
        let rows: Vec<&ValidationRow> =
            validation.iter().flat_map(|validation| &validation.rows).filter(is_of).collect();
        store.write("report.html", report::reproduction_html(Some(self), &rows).as_bytes())?;
        store.write(REPRODUCTION, &pretty(self))?;
        Ok(store.path("report.html"))
    }

    pub fn entries(&self) -> impl Iterator<Item = &EntryResult> {
        self.documents.iter().flat_map(|document| &document.entries)
    }

    pub fn count(&self, grade: Grade) -> usize {
        self.entries().filter(|entry| entry.grade == grade).count()
    }

    /// Such as "9 numbers, 3 claim only".
    pub fn grades_text(&self) -> String {
        let counts = Grade::ALL.into_iter().map(|grade| (self.count(grade), grade.as_str()));
        let counts: Vec<String> =
            counts.filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} {words}")).collect();
        counts.join(", ")
    }

    pub fn claims(&self) -> ClaimCounts {
        ClaimCounts::of(self.entries().flat_map(|entry| &entry.numbers))
    }

    /// Returns how many judged numbers there are of a kind.
    pub fn numbers_of(&self, kind: Kind) -> usize {
        self.entries().flat_map(|entry| &entry.numbers).filter(|number| number.kind == Some(kind)).count()
    }
}
