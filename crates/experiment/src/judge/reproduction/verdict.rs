//! Verdict rules on figures, bands and printed values.

use serde::{Deserialize, Serialize};

use super::result::{Measured, NumberResult, PointResult};
use super::{Number, Reading};
use crate::claims::Comparison;
use crate::summary::Judgement;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    #[serde(rename = "exact")]
    Exact,
    #[serde(rename = "reproduced")]
    Reproduced,
    #[serde(rename = "document inconsistent")]
    DocumentInconsistent,
    /// Outside the band, but on the right side.
    #[serde(rename = "direction only")]
    DirectionOnly,
    #[serde(rename = "not reproduced")]
    NotReproduced,
}

impl Verdict {
    pub const ALL: [Verdict; 5] = [
        Verdict::Exact,
        Verdict::Reproduced,
        Verdict::DocumentInconsistent,
        Verdict::DirectionOnly,
        Verdict::NotReproduced,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Reproduced => "reproduced",
            Verdict::DocumentInconsistent => "document inconsistent",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
        }
    }

    pub const fn holds(self) -> bool {
        matches!(self, Verdict::Exact | Verdict::Reproduced)
    }
}

pub(super) fn verdict_of(numbers: &[NumberResult]) -> (Verdict, String) {
    let judged: Vec<(&NumberResult, Verdict)> =
        numbers.iter().filter_map(|number| Some((number, number.verdict?))).collect();
    let Some(worst) = judged.iter().map(|(_, verdict)| *verdict).max() else {
        return (Verdict::NotReproduced, "nothing of it is judged".to_owned());
    };
    let held = judged.iter().filter(|(_, verdict)| verdict.holds()).count();
    let of = |count: usize| if count == 1 { "the number".to_owned() } else { format!("all {count} numbers") };
    if worst.holds() {
        let how = if worst == Verdict::Exact { "equal to the closed form" } else { "as printed or in their bands" };
        return (worst, format!("{} {how}", of(judged.len())));
    }
    let bad: Vec<&NumberResult> =
        judged.iter().filter(|(_, verdict)| *verdict == worst).map(|(number, _)| *number).collect();
    let first = bad[0];
    let others = if bad.len() > 1 { format!(" (and {} more)", bad.len() - 1) } else { String::new() };
    let band = if first.band.is_empty() { String::new() } else { format!(", expected {}", first.band) };
    let why = first.reason.as_ref().map_or_else(|| "not explained".to_owned(), Clone::clone);
    let summary =
        format!("{held} of {} hold; {}: measured {}{band}{others}; {why}", judged.len(), first.what, first.measured);
    (worst, summary)
}

pub(super) fn verdict(number: &Number, points: &[PointResult]) -> Option<Verdict> {
    if number.inconsistent.is_some() {
        return Some(Verdict::DocumentInconsistent);
    }
    let measured: Vec<&Measured> = points.iter().filter_map(|point| point.measured.as_ref()).collect();
    let is_complete = !points.is_empty() && measured.len() == points.len();
    let is_equal = |closed: f64| {
        let near = |value: f64| (value - closed).abs() <= number.tolerance * closed.abs();
        measured.iter().all(|measured| near(measured.min) && near(measured.max))
    };
    if is_complete && number.equals.is_some_and(is_equal) {
        return Some(Verdict::Exact);
    }
    if number.claim.comparison == Comparison::Unjudged {
        return number.equals.map(|_| Verdict::NotReproduced);
    }
    let outcomes: Vec<Judgement> = points.iter().filter_map(|point| point.outcome).collect();
    let holds = Judgement::over(&outcomes) == Judgement::Holds;
    Some(match (is_complete && holds, is_complete && measured.iter().all(|measured| has_direction(number, measured))) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::DirectionOnly,
        (false, false) => Verdict::NotReproduced,
    })
}

const EFFECT: f64 = 0.5;

/// Returns whether a value outside its band has the direction of the document: on the same side of
/// the baseline as the printed value, not by chance, and with at least half of its effect. The
/// direction is undefined without a printed value, and if the baseline is in the band.
fn has_direction(number: &Number, measured: &Measured) -> bool {
    let (low, high) = match number.claim.comparison {
        Comparison::Within(low, high) => (low, high),
        Comparison::AtMost(_) => (f64::NEG_INFINITY, number.claim.factor),
        Comparison::AtLeast(_) => (number.claim.factor, f64::INFINITY),
        Comparison::Unjudged | Comparison::TiesWith(_) | Comparison::RisesWithLoad => return false,
    };
    let is_ratio = number.other.as_ref().is_some_and(|other| !other.is_difference);
    let (Some(value), Some(baseline)) = (number.value, number.baseline.or(is_ratio.then_some(1.0))) else {
        return false;
    };
    let (is_above, effect) = (baseline < low, value - baseline);
    if (low..=high).contains(&baseline) || (effect > 0.0) != is_above || effect == 0.0 {
        return false;
    }
    let nearest = if is_above { measured.mean - measured.ci95 } else { measured.mean + measured.ci95 };
    let share = |value: f64| (value - baseline) / effect;
    share(measured.mean) >= EFFECT && share(nearest) > 0.0
}

/// Returns the reason if it applies: only to the range it was written for. A number of a reading that
/// is known to be wrong has the reason of the reading.
pub(super) fn reason(
    number: &Number,
    reading: Option<&Reading>,
    verdict: Option<Verdict>,
    points: &[PointResult],
) -> Option<String> {
    let verdict = verdict?;
    if verdict == Verdict::DocumentInconsistent {
        return number.inconsistent.clone();
    }
    if verdict.holds() {
        return None;
    }
    let Some((reason, (low, high))) = number.claim.reason.as_ref().zip(number.found) else {
        return reading.filter(|reading| !reading.status.decides()).map(|reading| reading.reason.clone());
    };
    let is_off = |point: &&PointResult| {
        number.claim.comparison == Comparison::Unjudged
            || point.outcome.is_some_and(|outcome| outcome != Judgement::Holds)
    };
    let is_known = |point: &PointResult| point.measured.is_some_and(|measured| (low..=high).contains(&measured.mean));
    if points.iter().filter(is_off).all(is_known) {
        return Some(reason.clone());
    }
    Some(format!("not explained: the known reason applies to {low} to {high}"))
}
