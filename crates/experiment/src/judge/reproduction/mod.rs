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
//! Numbers without a band are measured and not judged. The verdict of an experiment is the worst of
//! its numbers, in this order.

mod judge;
mod read;
mod result;
mod table;
mod validation;
mod verdict;

use std::path::PathBuf;

use crate::claims::{Claim, Metric, Window};
use crate::input::Experiment;
use crate::summary::RunSummary;

pub use judge::judge;
pub use read::{INDEX_KEYS, is_index};
pub use result::{
    Curve, DocumentResult, EntryResult, Measured, NumberResult, PointResult, REPRODUCTION_SCHEMA_VERSION, Reproduction,
    RunResult, Series,
};
pub use table::{csv, markdown};
pub use validation::{Explained, ValidationResult, ValidationRow, ValidationVerdict};
pub use verdict::Verdict;

/// The index of one document.
#[derive(Clone, Debug)]
pub struct Index {
    /// Short name, such as `F3`.
    pub document: String,
    pub title: String,
    /// Origin of the document.
    pub source: String,
    /// The index file.
    pub path: PathBuf,
    /// Experiments of the document.
    pub entries: Vec<Entry>,
    /// Runs in the simulator.
    pub runs: Vec<Run>,
    /// Runs on both platforms.
    pub testbed: Vec<TestbedRun>,
    /// Printed numbers with the measured figures.
    pub numbers: Vec<Number>,
    /// Figures with curves.
    pub curves: Vec<CurvePlan>,
    pub wrong: Vec<Erratum>,
}

/// An experiment of the document.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Such as `E3.1`.
    pub id: String,
    pub question: String,
    /// Section of the document.
    pub section: String,
}

/// An experiment file behind numbers.
#[derive(Clone, Debug)]
pub struct Run {
    /// Name used by numbers and for the folder of the results.
    pub name: String,
    /// The experiment, with the changes of the index.
    pub experiment: Experiment,
    /// The file, as the index names it.
    pub file: String,
    /// Number of seeds in the file.
    pub seeds_of_file: usize,
    /// Reason for running less than the file; `None` if it runs in full.
    pub reason: Option<String>,
}

/// An experiment file that runs in the simulator and on the testbed.
#[derive(Clone, Debug)]
pub struct TestbedRun {
    /// Name of the results folder.
    pub name: String,
    /// Experiments of the document it is about.
    pub ids: Vec<String>,
    /// The experiment in the simulator.
    pub simulated: Experiment,
    /// The experiment on the testbed: fewer seeds, the same flows.
    pub emulated: Experiment,
    /// The file, as the index names it.
    pub file: String,
    /// Known reasons for differences between the platforms.
    pub explanations: Vec<Explanation>,
}

/// The reason why a figure differs between the platforms, found in packet captures.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Label of the variant; `None` for all.
    pub variant: Option<String>,
    /// Label of the balancer.
    pub balancer: String,
    pub metric: crate::claims::Metric,
    /// Range of the difference (a share of the simulated value) when the reason was written;
    /// outside it the reason does not apply.
    pub found: (f64, f64),
    /// The reason, a sentence.
    pub reason: String,
}

/// A number that a document prints, and the measured figure.
#[derive(Clone, Debug)]
pub struct Number {
    /// Experiment, sentence, metric, balancer, comparison, points and reason.
    pub claim: Claim,
    /// The number as printed, such as `98.1 %`.
    pub printed: String,
    /// The printed value in the unit of the metric, or of the ratio or difference.
    pub value: Option<f64>,
    /// Position in [`Index::runs`].
    pub run: usize,
    pub check: Check,
    /// The compared figure.
    pub other: Option<ComparedFigure>,
    /// Closed form; an equal figure is exact.
    pub equals: Option<f64>,
    /// Largest difference from the closed form that counts as equal, as a share of it.
    pub tolerance: f64,
    /// Whether every seed must be in the band, not only the mean.
    pub every_seed: bool,
    /// Value without the effect, for the direction; 1 for ratios if `None`.
    pub baseline: Option<f64>,
    /// Metric that divides this one, run by run.
    pub per: Option<Metric>,
    /// Best possible value.
    pub bound: Option<BoundOf>,
    /// How the document contradicts itself.
    pub inconsistent: Option<String>,
    /// Range of the measured value when the reason was written; outside it the reason does not
    /// apply.
    pub found: Option<(f64, f64)>,
    /// Figure of the report that shows the number, and its label there.
    pub figure: Option<(String, String)>,
}

impl Number {
    /// Returns the value in a run: the metric in a time window, divided by [`Number::per`] if
    /// given.
    pub(crate) fn of_run(&self, run: &RunSummary, window: Option<Window>) -> Option<f64> {
        let value = self.claim.value_of(self.claim.metric, window, run)?;
        match self.per {
            Some(per) => Some(value / self.claim.value_of(per, window, run)?).filter(|share| share.is_finite()),
            None => Some(value),
        }
    }
}

/// The judgement of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// Not judged.
    Unjudged,
    /// In a band, both ends included.
    Band(f64, f64),
    /// At most [`Claim::times`] the other figure.
    AtMost,
    /// At least [`Claim::times`] the other figure.
    AtLeast,
    /// The 95 % interval of the ratio to the other figure contains 1.
    Ties,
    /// Rises with load.
    Rises,
}

/// The other figure of a ratio, a difference or an order.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    /// Position in [`Index::runs`].
    pub run: usize,
    /// Label of the balancer.
    pub balancer: String,
    /// Variant, if it is another one.
    pub variant: Option<String>,
    /// Time window, if it is another one.
    pub window: Option<Window>,
    /// Whether the measured value is a difference instead of a ratio.
    pub is_difference: bool,
}

/// The best possible value of a number.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundOf {
    /// A known value.
    Value(f64),
    /// The value of this balancer in the same run, such as `optimum`.
    Balancer(String),
}

/// A figure of the document with curves.
#[derive(Clone, Debug)]
pub struct CurvePlan {
    /// Title, such as `F0, chart 5: CLLBL under stride(30)`.
    pub figure: String,
    /// Experiments of the document it belongs to.
    pub ids: Vec<String>,
    /// Position in [`Index::runs`].
    pub run: usize,
    /// Metric on the y axis.
    pub metric: Metric,
    /// Labels of the balancers.
    pub balancers: Vec<String>,
    /// Label of the variant.
    pub variant: String,
    /// Whether the x axis is time instead of load.
    pub over_time: bool,
    /// Offset from measured times to the document's times, seconds.
    pub shift_s: f64,
    /// The document's points.
    pub printed: Vec<PrintedSeries>,
}

/// Points of a figure of the document.
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
    /// The wrong statement.
    pub says: String,
    /// The proof that it is wrong.
    pub arithmetic: String,
    /// The correct statement.
    pub instead: String,
}

impl Index {
    /// Returns the experiments that a request selects: a document, one of its experiments, or
    /// `all`.
    pub fn ids_of(&self, selector: &str) -> Vec<String> {
        let is_all = selector.eq_ignore_ascii_case("all") || selector.eq_ignore_ascii_case(&self.document);
        let ids = self.entries.iter().map(|entry| entry.id.clone());
        ids.filter(|id| is_all || id.eq_ignore_ascii_case(selector)).collect()
    }

    /// Returns the positions of the runs behind these experiments, in the order of the index.
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
