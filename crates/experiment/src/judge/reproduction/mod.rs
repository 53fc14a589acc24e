//! Reproductions: the printed results of documents, compared with results of this program.
//!
//! An *index* (`reproduce.toml` in the folder of a document's experiments) names the files for each
//! experiment of the document. For each printed number it gives the measured figure to compare, and
//! the band that figure must lie in. Bands are data, fixed before running. These rules turn them
//! into verdicts:
//!
//! | verdict of a number | when |
//! | --- | --- |
//! | exact | equal to the closed form (`equals`, within `tolerance`) |
//! | reproduced | in its band, or ordered as printed |
//! | document inconsistent | the document contradicts itself (`inconsistent` has the arithmetic) |
//! | direction only | outside its band, but with half of the printed effect at least, on the same side of the baseline |
//! | not reproduced | anything else |
//!
//! Numbers without a band are measured and not judged. The strict verdict of an experiment is the
//! worst of its numbers, in this order. Its grade ([`Grade`]) asks which claims of the document
//! hold, and with which size.

mod grade;
mod judge;
mod keys;
mod read;
mod result;
mod swap;
mod table;
mod validation;
mod verdict;

use std::path::PathBuf;

use crate::claims::{Claim, Metric, Window};
use crate::input::Experiment;
use crate::summary::RunSummary;

pub use grade::{ClaimCounts, Grade, Kind, Reading, Standing, Status};
pub use judge::judge;
pub use keys::LAYOUT;
pub use read::is_index;
pub use result::{
    Curve, DocumentResult, EntryResult, Measured, NumberResult, PointResult, REPRODUCTION_SCHEMA_VERSION, Reproduction,
    RunResult, Series,
};
pub use swap::swap;
pub use table::{claims_text, csv, kind_text, markdown};
pub use validation::{ValidationResult, ValidationRow, ValidationVerdict};
pub use verdict::Verdict;

#[derive(Clone, Debug)]
pub struct Index {
    pub document: String,
    pub title: String,
    pub source: String,
    pub path: PathBuf,
    pub entries: Vec<Entry>,
    pub readings: Vec<Reading>,
    pub runs: Vec<Run>,
    pub testbed: Vec<TestbedRun>,
    pub numbers: Vec<Number>,
    pub curves: Vec<CurvePlan>,
    pub errata: Vec<Erratum>,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub id: String,
    pub question: String,
    pub section: String,
    /// Input that the document does not print and that the result depends on.
    pub missing: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Run {
    pub name: String,
    pub experiment: Experiment,
    pub file: String,
    pub seeds_of_file: usize,
    /// Reason for running less than the file; `None` if it runs in full.
    pub reason: Option<String>,
}

#[derive(Clone, Debug)]
pub struct TestbedRun {
    pub name: String,
    pub ids: Vec<String>,
    pub simulated: Experiment,
    pub emulated: Experiment,
    pub file: String,
    pub explanations: Vec<Explanation>,
}

/// The reason why a figure differs between the platforms, found in packet captures.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Label of the variant; `None` for all.
    pub variant: Option<String>,
    pub balancer: String,
    pub metric: crate::claims::Metric,
    /// Range of the difference (a share of the simulated value) when the reason was written;
    /// outside it the reason does not apply.
    pub found: (f64, f64),
    pub reason: String,
}

#[derive(Clone, Debug)]
pub struct Number {
    pub claim: Claim,
    /// `None` if the number is not judged.
    pub kind: Option<Kind>,
    /// Position in [`Index::readings`]; `None` if the number belongs to all of its experiment.
    pub reading: Option<usize>,
    pub printed: String,
    /// The printed value in the unit of the metric, or of the ratio or difference.
    pub value: Option<f64>,
    /// Position in [`Index::runs`].
    pub run: usize,
    pub other: Option<ComparedFigure>,
    /// Closed form; an equal figure is exact.
    pub equals: Option<f64>,
    /// Largest difference from the closed form that counts as equal, as a share of it.
    pub tolerance: f64,
    pub every_seed: bool,
    /// Value without the effect, for the direction; 1 for ratios if `None`.
    pub baseline: Option<f64>,
    pub per: Option<Metric>,
    pub bound: Option<BoundOf>,
    pub inconsistent: Option<String>,
    /// Range of the measured value when the reason was written; outside it the reason does not
    /// apply.
    pub found: Option<(f64, f64)>,
    /// Figure of the report that shows the number, and its label there.
    pub figure: Option<(String, String)>,
}

impl Number {
    pub(crate) fn of_run(&self, run: &RunSummary, window: Option<Window>) -> Option<f64> {
        let value = self.claim.value_of(self.claim.metric, window, run)?;
        match self.per {
            Some(per) => Some(value / self.claim.value_of(per, window, run)?).filter(|share| share.is_finite()),
            None => Some(value),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    pub run: usize,
    pub balancer: String,
    /// Label of the variant; `None` for all.
    pub variant: Option<String>,
    pub window: Option<Window>,
    pub is_difference: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum BoundOf {
    Value(f64),
    Balancer(String),
}

#[derive(Clone, Debug)]
pub struct CurvePlan {
    pub figure: String,
    pub ids: Vec<String>,
    pub run: usize,
    pub metric: Metric,
    pub balancers: Vec<String>,
    pub variant: String,
    pub over_time: bool,
    /// Offset from measured times to the document's times, seconds.
    pub shift_s: f64,
    pub printed: Vec<PrintedSeries>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PrintedSeries {
    pub name: String,
    /// x and y, in the units of the figure.
    pub points: Vec<(f64, f64)>,
}

/// An error in the document.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, PartialEq)]
pub struct Erratum {
    /// The experiment, or the document.
    pub id: String,
    pub says: String,
    pub arithmetic: String,
    pub instead: String,
}

impl Index {
    pub fn ids_of(&self, selector: &str) -> Vec<String> {
        let is_all = selector.eq_ignore_ascii_case("all") || selector.eq_ignore_ascii_case(&self.document);
        let ids = self.entries.iter().map(|entry| entry.id.clone());
        ids.filter(|id| is_all || id.eq_ignore_ascii_case(selector)).collect()
    }

    pub fn runs_of(&self, ids: &[String]) -> Vec<usize> {
        let is_selected = |id: &String| ids.contains(id);
        let mut is_needed = vec![false; self.runs.len()];
        for number in self.numbers.iter().filter(|number| is_selected(&number.claim.id)) {
            is_needed[number.run] = true;
            if let Some(other) = &number.other {
                is_needed[other.run] = true;
            }
        }
        for curve in self.curves.iter().filter(|curve| curve.ids.iter().any(is_selected)) {
            is_needed[curve.run] = true;
        }
        (0..self.runs.len()).filter(|run| is_needed[*run]).collect()
    }
}

#[cfg(test)]
mod tests;
