//! Reproductions: what a document printed, beside what its experiments give here.
//!
//! An *index* (`reproduce.toml` in the folder of a document's experiments) says which files answer which experiment of the document,
//! which figure of ours stands beside each printed number, and in which band it must lie. Bands are data, fixed before running; the
//! rules that make verdicts of them are here:
//!
//! | verdict of a number | when |
//! | --- | --- |
//! | exact | equal to the closed form (`equals`, within `tolerance`) |
//! | reproduced | in its band, or ordered as printed |
//! | document inconsistent | the document contradicts itself about it (`inconsistent` has the arithmetic) |
//! | direction only | outside its band, but with half of the printed effect at least, on the same side of the baseline |
//! | not reproduced | anything else |
//!
//! Numbers without a band are looked at and not judged. An experiment is as good as its worst number, in this order.

mod judge;
mod read;
mod result;
mod table;
mod verdict;
mod worlds;

use std::path::PathBuf;

use crate::claims::{Claim, Metric, Window};
use crate::file::Experiment;
use crate::summary::RunSummary;

pub use judge::judge;
pub use read::{INDEX_KEYS, is_index};
pub use result::{
    Curve, DocumentResult, EntryResult, Measured, NumberResult, Place, REPRODUCTION_SCHEMA_VERSION, Reproduction,
    RunResult, Series,
};
pub use table::{csv, markdown};
pub use verdict::Verdict;
pub use worlds::{WorldsResult, WorldsRow, WorldsVerdict};

/// The index of one document.
#[derive(Clone, Debug)]
pub struct Index {
    /// Short name, such as `F3`.
    pub document: String,
    /// Its title.
    pub title: String,
    /// Where it comes from.
    pub source: String,
    /// The index file.
    pub path: PathBuf,
    /// Its experiments.
    pub entries: Vec<Entry>,
    /// What is run in the simulator.
    pub runs: Vec<Run>,
    /// What is run in two worlds.
    pub testbed: Vec<TestbedRun>,
    /// What it printed and what stands beside it.
    pub numbers: Vec<Number>,
    /// Its figures that are curves.
    pub curves: Vec<CurvePlan>,
    /// What it got wrong.
    pub wrong: Vec<Wrong>,
}

/// An experiment of the document.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Such as `E3.1`.
    pub id: String,
    /// What it asks.
    pub question: String,
    /// Where in the document.
    pub section: String,
}

/// An experiment file that answers numbers.
#[derive(Clone, Debug)]
pub struct Run {
    /// What numbers call it: a folder of the results.
    pub name: String,
    /// The experiment, with the changes of the index.
    pub experiment: Experiment,
    /// The file, as the index names it.
    pub file: String,
    /// Seeds of the file itself.
    pub seeds_of_file: usize,
    /// Why less than the file is run, if it is.
    pub reason: Option<String>,
}

/// An experiment file that runs in the simulator and on the testbed.
#[derive(Clone, Debug)]
pub struct TestbedRun {
    /// A folder of the results.
    pub name: String,
    /// The experiments of the document it is about.
    pub ids: Vec<String>,
    /// As the simulator runs it.
    pub simulated: Experiment,
    /// As the testbed runs it: fewer seeds, the same flows.
    pub emulated: Experiment,
    /// The file, as the index names it.
    pub file: String,
}

/// A number that a document prints, and what answers it here.
#[derive(Clone, Debug)]
pub struct Number {
    /// Experiment, words, metric, balancer, comparison, places and reason.
    pub claim: Claim,
    /// The document's own words for it, such as `98.1 %`.
    pub printed: String,
    /// The same as a number, in the unit of the metric, or of the ratio or difference.
    pub value: Option<f64>,
    /// Position in [`Index::runs`].
    pub run: usize,
    /// How it is judged.
    pub check: Check,
    /// What it is compared with.
    pub other: Option<Other>,
    /// Equal to this it is exact: a closed form.
    pub equals: Option<f64>,
    /// What counts as equal, as a share of the closed form.
    pub tolerance: f64,
    /// Whether every seed must be in the band, and not only the mean.
    pub every_seed: bool,
    /// What the printed value is an effect against, for the direction; 1 for ratios if `None`.
    pub baseline: Option<f64>,
    /// Divides the metric, run by run.
    pub per: Option<Metric>,
    /// What it can be at best, in words, and whose value that is.
    pub bound: Option<BoundOf>,
    /// How the document contradicts itself about it.
    pub inconsistent: Option<String>,
    /// Where ours was when the reason was written; elsewhere the reason explains nothing.
    pub found: Option<(f64, f64)>,
    /// The figure of the report it is drawn in, and its label there.
    pub figure: Option<(String, String)>,
}

impl Number {
    /// What it is about, of a run: the metric in a part of the time, divided by [`Number::per`] if there is one.
    pub(crate) fn of_run(&self, run: &RunSummary, window: Option<Window>) -> Option<f64> {
        let value = self.claim.value_of(self.claim.metric, window, run)?;
        match self.per {
            Some(per) => Some(value / self.claim.value_of(per, window, run)?).filter(|share| share.is_finite()),
            None => Some(value),
        }
    }
}

/// How a number is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Check {
    /// Not at all.
    Beside,
    /// In a band, both ends included.
    Band(f64, f64),
    /// At most so many times the other figure.
    AtMost,
    /// At least so many times the other figure.
    AtLeast,
    /// The 95 % interval of the ratio to the other figure contains 1.
    Ties,
    /// Rises with load.
    Rises,
}

/// The other figure of a ratio, a difference or an order.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Position in [`Index::runs`].
    pub run: usize,
    /// Label of the balancer.
    pub balancer: String,
    /// Its variant, where it is not the same.
    pub variant: Option<String>,
    /// Its part of the time, where it is not the same.
    pub window: Option<Window>,
    /// Whether ours is the difference and not the ratio.
    pub is_difference: bool,
}

/// What a number can be at best.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundOf {
    /// A known value.
    Value(f64),
    /// What this balancer of the same run has, such as `optimum`.
    Balancer(String),
}

/// A figure of the document that is a curve.
#[derive(Clone, Debug)]
pub struct CurvePlan {
    /// Title, such as `F0, chart 5: CLLBL under stride(30)`.
    pub figure: String,
    /// Experiments of the document it belongs to.
    pub ids: Vec<String>,
    /// Position in [`Index::runs`].
    pub run: usize,
    /// What is drawn.
    pub metric: Metric,
    /// Labels of the balancers.
    pub balancers: Vec<String>,
    /// Which variant.
    pub variant: String,
    /// Against time and not against load.
    pub over_time: bool,
    /// Added to our times to get the document's, seconds.
    pub shift_s: f64,
    /// The document's points.
    pub printed: Vec<PrintedSeries>,
}

/// Points of a figure of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct PrintedSeries {
    /// Its name.
    pub name: String,
    /// x and y, in the units of the figure.
    pub points: Vec<(f64, f64)>,
}

/// Something the document got wrong.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize, PartialEq)]
pub struct Wrong {
    /// The experiment, or the document.
    pub id: String,
    /// What it says.
    pub says: String,
    /// Why that cannot be.
    pub arithmetic: String,
    /// What holds instead.
    pub instead: String,
}

impl Index {
    /// Whether a number or run belongs to what is asked for: a document, an experiment of it, or `all`.
    pub fn ids_of(&self, asked: &str) -> Vec<String> {
        let is_all = asked.eq_ignore_ascii_case("all") || asked.eq_ignore_ascii_case(&self.document);
        let ids = self.entries.iter().map(|entry| entry.id.clone());
        ids.filter(|id| is_all || id.eq_ignore_ascii_case(asked)).collect()
    }

    /// Positions of the runs that answer these experiments, in the order of the index.
    pub fn runs_of(&self, ids: &[String]) -> Vec<usize> {
        let is_asked = |id: &String| ids.contains(id);
        let mut wanted = vec![false; self.runs.len()];
        for number in self.numbers.iter().filter(|number| is_asked(&number.claim.id)) {
            wanted[number.run] = true;
            if let Some(other) = &number.other {
                wanted[other.run] = true;
            }
        }
        for curve in self.curves.iter().filter(|curve| curve.ids.iter().any(is_asked)) {
            wanted[curve.run] = true;
        }
        (0..self.runs.len()).filter(|run| wanted[*run]).collect()
    }
}

#[cfg(test)]
mod tests;
