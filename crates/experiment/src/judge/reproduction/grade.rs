//! Grades: how far an experiment of a document is reproduced, from its claims and magnitudes in
//! every reading of the document.

use serde::{Deserialize, Serialize};

use super::result::{NumberResult, PointResult};
use super::{Number, Verdict};
use crate::claims::{self, Comparison};
use crate::summary::Judgement;

/// The role of a number in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A sentence that the document concludes: an order, a growth, a tie.
    Claim,
    /// A figure that the document prints, with the band that the measured figure must lie in.
    Magnitude,
    /// A calibration, a conservation law, or a closed form of this project. Never counts.
    Check,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Claim, Kind::Magnitude, Kind::Check];
    pub(super) const NAMES: [&'static str; 3] = ["claim", "magnitude", "check"];

    pub const fn as_str(self) -> &'static str {
        Kind::NAMES[self as usize]
    }
}

/// The basis of a reading of an ambiguous document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The text of the document gives this reading.
    Printed,
    /// The document does not say.
    Open,
    /// The document says so, and its own arithmetic contradicts it. Decides nothing.
    Corrected,
    /// The document's results exclude it. Decides nothing.
    Refuted,
}

impl Status {
    pub(super) const ALL: [Status; 4] = [Status::Printed, Status::Open, Status::Corrected, Status::Refuted];
    pub(super) const NAMES: [&'static str; 4] = ["printed", "open", "corrected", "refuted"];

    pub const fn as_str(self) -> &'static str {
        Status::NAMES[self as usize]
    }

    pub const fn decides(self) -> bool {
        matches!(self, Status::Printed | Status::Open)
    }
}

/// A reading of the document for one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Id of the experiment that it is a reading of, such as E3.2.
    pub id: String,
    pub name: String,
    pub status: Status,
    /// Text or experiment that the status follows from.
    pub reason: String,
}

/// How the measured figure stands to the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    Holds,
    /// Holds at some points, and is excluded at others.
    Part,
    /// Does not hold, and is not excluded.
    Noise,
    /// The 95 % interval excludes it.
    Contradicted,
    /// The document contradicts itself about it.
    Inconsistent,
}

impl Standing {
    pub const fn as_str(self) -> &'static str {
        match self {
            Standing::Holds => "holds",
            Standing::Part => "part",
            Standing::Noise => "noise",
            Standing::Contradicted => "contradicted",
            Standing::Inconsistent => "inconsistent",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Grade {
    #[serde(rename = "numbers")]
    Numbers,
    #[serde(rename = "claim and size")]
    ClaimAndSize,
    #[serde(rename = "claim only")]
    ClaimOnly,
    #[serde(rename = "part")]
    Part,
    #[serde(rename = "depends on reading")]
    DependsOnReading,
    #[serde(rename = "inconclusive")]
    Inconclusive,
    #[serde(rename = "contradicted")]
    Contradicted,
    #[serde(rename = "document inconsistent")]
    DocumentInconsistent,
    #[serde(rename = "calibrated")]
    Calibrated,
}

impl Grade {
    pub const ALL: [Grade; 9] = [
        Grade::Numbers,
        Grade::ClaimAndSize,
        Grade::ClaimOnly,
        Grade::Part,
        Grade::DependsOnReading,
        Grade::Inconclusive,
        Grade::Contradicted,
        Grade::DocumentInconsistent,
        Grade::Calibrated,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Grade::Numbers => "numbers",
            Grade::ClaimAndSize => "claim and size",
            Grade::ClaimOnly => "claim only",
            Grade::Part => "part",
            Grade::DependsOnReading => "depends on reading",
            Grade::Inconclusive => "inconclusive",
            Grade::Contradicted => "contradicted",
            Grade::DocumentInconsistent => "document inconsistent",
            Grade::Calibrated => "calibrated",
        }
    }

    /// Returns whether all claims hold.
    pub const fn holds(self) -> bool {
        matches!(self, Grade::Numbers | Grade::ClaimAndSize | Grade::ClaimOnly)
    }
}

/// Returns how the figures stand to a number, or `None` if it is not judged.
pub(super) fn standing(number: &Number, verdict: Option<Verdict>, points: &[PointResult]) -> Option<Standing> {
    Some(match verdict? {
        Verdict::Exact | Verdict::Reproduced => Standing::Holds,
        Verdict::DocumentInconsistent => Standing::Inconsistent,
        Verdict::DirectionOnly | Verdict::NotReproduced => {
            let is_excluded = |point: &&PointResult| is_excluded(number, point);
            let holds = points.iter().any(|point| point.outcome == Some(Judgement::Holds));
            match (points.iter().find(is_excluded), holds) {
                (Some(_), true) => Standing::Part,
                (Some(_), false) => Standing::Contradicted,
                (None, _) => Standing::Noise,
            }
        }
    })
}

/// Returns whether the 95 % interval of a figure excludes the number. One seed has no interval: its
/// figure excludes what it does not equal.
fn is_excluded(number: &Number, point: &PointResult) -> bool {
    let Some(measured) = point.measured else { return false };
    let (lower, upper) = (measured.mean - measured.ci95, measured.mean + measured.ci95);
    match number.claim.comparison {
        // These are judged by their own intervals: a failure is an exclusion.
        Comparison::AtMost(_) | Comparison::AtLeast(_) | Comparison::RisesWithLoad => {
            point.outcome == Some(Judgement::Fails)
        }
        Comparison::TiesWith(_) => (measured.mean - 1.0).abs() > measured.ci95.max(claims::TIE),
        Comparison::Within(low, high) => lower > high || upper < low,
        Comparison::Unjudged => number.equals.is_some_and(|closed| {
            let margin = number.tolerance * closed.abs();
            lower > closed + margin || upper < closed - margin
        }),
    }
}

/// Counts of the claims that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    pub held: usize,
    pub part: usize,
    pub inconclusive: usize,
    pub contradicted: usize,
}

impl ClaimCounts {
    pub fn of<'a>(numbers: impl Iterator<Item = &'a NumberResult>) -> ClaimCounts {
        let mut counts = ClaimCounts::default();
        for number in numbers.filter(|number| number.kind == Some(Kind::Claim) && number.decides()) {
            match number.standing {
                Some(Standing::Holds) => counts.held += 1,
                Some(Standing::Part) => counts.part += 1,
                Some(Standing::Noise) => counts.inconclusive += 1,
                Some(Standing::Contradicted) => counts.contradicted += 1,
                Some(Standing::Inconsistent) | None => {}
            }
        }
        counts
    }

    pub fn all(self) -> usize {
        self.held + self.part + self.inconclusive + self.contradicted
    }
}

/// Returns the grade of an experiment and its explanation. `missing` is an input that the document
/// does not print and that its result depends on: checks alone decide nothing without it.
pub(super) fn grade(numbers: &[NumberResult], readings: &[Reading], missing: Option<&str>) -> (Grade, String) {
    let deciding: Vec<&Reading> = readings.iter().filter(|reading| reading.status.decides()).collect();
    let of_reading = |name: Option<&str>| {
        let of = |number: &&NumberResult| match &number.reading {
            None => true,
            Some(reading) => Some(reading.name.as_str()) == name,
        };
        grade_of(&numbers.iter().filter(of).collect::<Vec<_>>())
    };
    let (grade, text) = match deciding.as_slice() {
        [] => (of_reading(None), String::new()),
        [only] => (of_reading(Some(&only.name)), String::new()),
        several => {
            let grades: Vec<Grade> = several.iter().map(|reading| of_reading(Some(&reading.name))).collect();
            let held = grades.iter().filter(|grade| grade.holds()).count();
            let each: Vec<String> = several
                .iter()
                .zip(&grades)
                .map(|(reading, grade)| format!("{}: {}", reading.name, grade.as_str()))
                .collect();
            let text = format!("holds in {held} of {} readings ({})", several.len(), each.join("; "));
            (over_readings(&grades, held), text)
        }
    };
    match missing {
        Some(missing) if !grade.holds() => {
            let text = if text.is_empty() { String::new() } else { format!("; {text}") };
            (Grade::Inconclusive, format!("{missing}{text}"))
        }
        _ => (grade, text),
    }
}

fn over_readings(grades: &[Grade], held: usize) -> Grade {
    let worst = grades.iter().copied().max().unwrap_or(Grade::Calibrated);
    match held {
        0 if grades.iter().all(|grade| *grade == Grade::Contradicted) => Grade::Contradicted,
        0 if grades.contains(&Grade::Part) => Grade::Part,
        0 if grades.contains(&Grade::Inconclusive) || grades.contains(&Grade::Contradicted) => Grade::Inconclusive,
        0 => worst,
        held if held == grades.len() => worst,
        _ => Grade::DependsOnReading,
    }
}

/// Returns the grade in one reading.
fn grade_of(numbers: &[&NumberResult]) -> Grade {
    let of = |kind: Kind| numbers.iter().filter(move |number| number.kind == Some(kind));
    let standings = |kind: Kind| of(kind).filter_map(|number| number.standing).collect::<Vec<_>>();
    let (claims, magnitudes) = (standings(Kind::Claim), standings(Kind::Magnitude));
    if claims.is_empty() && magnitudes.is_empty() {
        return Grade::Calibrated;
    }
    let consistent = |standings: Vec<Standing>| -> Vec<Standing> {
        standings.into_iter().filter(|standing| *standing != Standing::Inconsistent).collect()
    };
    let (claims, magnitudes) = (consistent(claims), consistent(magnitudes));
    let has = |standings: &[Standing], sought: Standing| standings.contains(&sought);
    let hold = |standings: &[Standing]| standings.iter().all(|standing| *standing == Standing::Holds);
    let misses_have_direction = of(Kind::Magnitude)
        .filter(|number| !matches!(number.standing, None | Some(Standing::Holds | Standing::Inconsistent)))
        .all(|number| number.verdict == Some(Verdict::DirectionOnly));
    match (claims.as_slice(), magnitudes.as_slice()) {
        ([], []) => Grade::DocumentInconsistent,
        (claims, magnitudes) if hold(claims) && hold(magnitudes) => Grade::Numbers,
        (claims, _) if hold(claims) && misses_have_direction => Grade::ClaimAndSize,
        ([], magnitudes) => without_claims(magnitudes),
        (claims, _) if hold(claims) => Grade::ClaimOnly,
        (claims, _) if has(claims, Standing::Holds) || has(claims, Standing::Part) => Grade::Part,
        (claims, _) if has(claims, Standing::Noise) => Grade::Inconclusive,
        _ => Grade::Contradicted,
    }
}

/// A document that concludes nothing is judged by its figures.
fn without_claims(magnitudes: &[Standing]) -> Grade {
    if magnitudes.contains(&Standing::Holds) || magnitudes.contains(&Standing::Part) {
        Grade::Part
    } else if magnitudes.contains(&Standing::Noise) {
        Grade::Inconclusive
    } else {
        Grade::Contradicted
    }
}
