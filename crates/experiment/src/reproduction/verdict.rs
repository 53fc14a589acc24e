//! Verdicts: the rules that make them of figures, bands and what was printed.

use serde::{Deserialize, Serialize};

use super::result::{Measured, NumberResult, Place};
use super::{Check, Number};
use crate::summary::PointOutcome;

/// Whether what was printed came out, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Verdict {
    /// Equal to the closed form.
    #[serde(rename = "exact")]
    Exact,
    /// In the band, or ordered as printed.
    #[serde(rename = "reproduced")]
    Reproduced,
    /// The document contradicts itself.
    #[serde(rename = "document inconsistent")]
    DocumentInconsistent,
    /// Outside the band, but on the right side.
    #[serde(rename = "direction only")]
    DirectionOnly,
    /// Anything else.
    #[serde(rename = "not reproduced")]
    NotReproduced,
}

impl Verdict {
    /// All of them, the best first.
    pub const ALL: [Verdict; 5] = [
        Verdict::Exact,
        Verdict::Reproduced,
        Verdict::DocumentInconsistent,
        Verdict::DirectionOnly,
        Verdict::NotReproduced,
    ];

    /// In words, as in files.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Reproduced => "reproduced",
            Verdict::DocumentInconsistent => "document inconsistent",
            Verdict::DirectionOnly => "direction only",
            Verdict::NotReproduced => "not reproduced",
        }
    }

    /// Whether the printed number stands.
    pub const fn holds(self) -> bool {
        matches!(self, Verdict::Exact | Verdict::Reproduced)
    }
}

/// An experiment is as good as its worst number; the words name that number.
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
    let band = if first.band.is_empty() { String::new() } else { format!(", asked {}", first.band) };
    let why = first.reason.as_ref().map_or_else(|| "not explained".to_owned(), Clone::clone);
    let words = format!("{held} of {} hold; {}: ours {}{band}{others}; {why}", judged.len(), first.what, first.ours);
    (worst, words)
}

pub(super) fn verdict(number: &Number, places: &[Place]) -> Option<Verdict> {
    if number.inconsistent.is_some() {
        return Some(Verdict::DocumentInconsistent);
    }
    let ours: Vec<&Measured> = places.iter().filter_map(|place| place.measured.as_ref()).collect();
    let is_complete = !places.is_empty() && ours.len() == places.len();
    let is_equal = |closed: f64| {
        let near = |value: f64| (value - closed).abs() <= number.tolerance * closed.abs();
        ours.iter().all(|ours| near(ours.min) && near(ours.max))
    };
    if is_complete && number.equals.is_some_and(is_equal) {
        return Some(Verdict::Exact);
    }
    if number.check == Check::Beside {
        return number.equals.map(|_| Verdict::NotReproduced);
    }
    let outcomes: Vec<PointOutcome> = places.iter().filter_map(|place| place.outcome).collect();
    let count = |outcome| outcomes.iter().filter(|other| **other == outcome).count();
    let holds = count(PointOutcome::Fails) == 0 && 2 * count(PointOutcome::Holds) > outcomes.len();
    Some(match (is_complete && holds, is_complete && ours.iter().all(|ours| has_direction(number, ours))) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::DirectionOnly,
        (false, false) => Verdict::NotReproduced,
    })
}

/// The part of the effect that the document printed which ours must have, for the direction to be right.
const EFFECT: f64 = 0.5;

/// Whether a value outside its band has the direction of the document: on the same side of the baseline as what was printed, not by
/// chance, and with half of its effect at least. Without a printed value, or where the baseline itself is in the band, there is none.
fn has_direction(number: &Number, ours: &Measured) -> bool {
    let (low, high) = match number.check {
        Check::Band(low, high) => (low, high),
        Check::AtMost => (f64::NEG_INFINITY, number.claim.times),
        Check::AtLeast => (number.claim.times, f64::INFINITY),
        Check::Beside | Check::Ties | Check::Rises => return false,
    };
    let is_ratio = number.other.as_ref().is_some_and(|other| !other.is_difference);
    let (Some(value), Some(baseline)) = (number.value, number.baseline.or(is_ratio.then_some(1.0))) else {
        return false;
    };
    let (is_above, effect) = (baseline < low, value - baseline);
    if (low..=high).contains(&baseline) || (effect > 0.0) != is_above || effect == 0.0 {
        return false;
    }
    let nearest = if is_above { ours.mean - ours.ci95 } else { ours.mean + ours.ci95 };
    let share = |ours: f64| (ours - baseline) / effect;
    share(ours.mean) >= EFFECT && share(nearest) > 0.0
}

/// A reason explains what was found when it was written, and nothing else.
pub(super) fn reason(number: &Number, verdict: Option<Verdict>, places: &[Place]) -> Option<String> {
    let verdict = verdict?;
    if verdict == Verdict::DocumentInconsistent {
        return number.inconsistent.clone();
    }
    if verdict.holds() {
        return None;
    }
    let (reason, (low, high)) = (number.claim.reason.as_ref()?, number.found?);
    let is_off = |place: &&Place| {
        number.check == Check::Beside || place.outcome.is_some_and(|outcome| outcome != PointOutcome::Holds)
    };
    let is_known = |place: &Place| place.measured.is_some_and(|ours| (low..=high).contains(&ours.mean));
    if places.iter().filter(is_off).all(is_known) {
        return Some(reason.clone());
    }
    Some(format!("not explained: the reason that is known was written for {low} to {high}, and this is something else"))
}
