//! The table of numbers as text, CSV and Markdown.

use super::result::{DocumentResult, EntryResult, Measured, NumberResult, PointResult, Reproduction};
use super::{BoundOf, ClaimCounts, Kind, Number, Standing, Verdict};
use crate::claims::Comparison;
use crate::claims::sentence::{significant, spread, text, unit};
use crate::summary::Judgement;

fn value_text(number: &Number, value: f64, digits: usize) -> String {
    match &number.other {
        Some(other) if !other.is_difference => format!("{} ×", significant(value, digits)),
        _ if number.per.is_some() => significant(value, digits),
        _ => text(number.claim.metric, value, digits),
    }
}

fn digits(number: &Number, value: f64) -> usize {
    let Comparison::Within(low, high) = number.claim.comparison else { return 4 };
    let is_apart =
        |digits: &usize| [low, high].iter().all(|end| significant(value, *digits) != significant(*end, *digits));
    if (low..=high).contains(&value) { 4 } else { (4..9).find(is_apart).unwrap_or(9) }
}

fn spread_text(number: &Number, measured: &Measured) -> String {
    let is_ratio = number.other.as_ref().is_some_and(|other| !other.is_difference);
    let (size, unit) = match (is_ratio, number.per) {
        (true, _) => (1.0, " ×"),
        (false, Some(_)) => (1.0, ""),
        (false, None) => unit(number.claim.metric, measured.mean),
    };
    let mean = significant(measured.mean / size, digits(number, measured.mean));
    if number.every_seed {
        let end = |value: f64| significant(value / size, digits(number, value));
        return format!("{mean}{unit}, seeds {} to {}{unit}", end(measured.min), end(measured.max));
    }
    spread(&mean, measured.mean, measured.ci95, (size, unit))
}

pub(super) fn measured_text(number: &Number, points: &[PointResult]) -> String {
    let known: Vec<&Measured> = points.iter().filter_map(|point| point.measured.as_ref()).collect();
    let nothing = "nothing that could be measured".to_owned();
    match (points, known.as_slice()) {
        (_, []) => nothing,
        ([_], [only]) => spread_text(number, only),
        (points, known) => {
            let (low, high) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), measured| {
                (low.min(measured.mean), high.max(measured.mean))
            });
            let (low, high) = (value_text(number, low, 3), value_text(number, high, 3));
            let range = if low == high { low } else { format!("{low} to {high}") };
            let judged = points.iter().filter(|point| point.outcome.is_some()).count();
            let count = |outcome| points.iter().filter(|point| point.outcome == Some(outcome)).count();
            let (noise, fails) = (count(Judgement::WithinNoise), count(Judgement::Fails));
            let missing = points.len() - known.len();
            let mut parts = vec![range];
            if judged > 0 {
                parts.push(format!("holds at {} of {judged}", count(Judgement::Holds)));
            }
            if noise > 0 {
                parts.push(format!("within noise at {noise}"));
            }
            if fails > 0 {
                parts.push(format!("fails at {fails}"));
            }
            if missing > 0 {
                parts.push(format!("{nothing} at {missing}"));
            }
            parts.join(", ")
        }
    }
}

pub(super) fn band_text(number: &Number) -> String {
    let value = |value: f64| value_text(number, value, 5);
    let against = number.other.as_ref().map(|other| {
        let variant = other.variant.as_ref().map(|variant| format!(" at {variant}")).unwrap_or_default();
        let time = other.window.map(|window| format!(" from {} to {} s", window.from_s, window.until_s));
        let variant = variant + &time.unwrap_or_default();
        let than = if other.is_difference { " from" } else { "" };
        format!("{than} {}{variant}", other.balancer)
    });
    let against = against.unwrap_or_default();
    let each = if number.every_seed { ", every seed" } else { "" };
    let factor = number.claim.factor;
    match number.claim.comparison {
        Comparison::TiesWith(_) => format!("a tie, or within noise{against}"),
        Comparison::Unjudged => number.equals.map(|closed| format!("exactly {}", value(closed))).unwrap_or_default(),
        Comparison::Within(low, high) if high.is_infinite() => format!("at least {}{against}{each}", value(low)),
        Comparison::Within(low, high) if low.is_infinite() => format!("at most {}{against}{each}", value(high)),
        Comparison::Within(low, high) if low == high => format!("{}{against}{each}", value(low)),
        Comparison::Within(low, high) => format!("{} to {}{against}{each}", value(low), value(high)),
        Comparison::AtMost(_) if factor == 1.0 => format!("at most{against}"),
        Comparison::AtLeast(_) if factor == 1.0 => format!("at least{against}"),
        Comparison::AtMost(_) => format!("at most {}{against}", value(factor)),
        Comparison::AtLeast(_) => format!("at least {}{against}", value(factor)),
        Comparison::RisesWithLoad => "rises with load".to_owned(),
    }
}

pub(super) fn bound_text(number: &Number, bound: Option<f64>) -> String {
    let Some(bound) = bound else { return String::new() };
    let whose = match &number.bound {
        Some(BoundOf::Balancer(label)) => format!(" ({label})"),
        _ => String::new(),
    };
    // A bound is one of the figure itself, even if the measured value is a ratio.
    format!("{}{whose}", text(number.claim.metric, bound, 4))
}

const HEADER: &str = "document,id,question,number,kind,reading,reading_status,printed,printed_value,form,metric,measured,\
                      measured_mean,measured_ci95,band,bound,standing,verdict,reason,verdict_of_id,grade_of_id,run";

pub fn csv(reproduction: &Reproduction) -> String {
    let entries =
        reproduction.documents.iter().flat_map(|document| document.entries.iter().map(move |entry| (document, entry)));
    let numbers =
        entries.flat_map(|(document, entry)| entry.numbers.iter().map(move |number| (document, entry, number)));
    let record = |(document, entry, number): (&DocumentResult, &EntryResult, &NumberResult)| {
        let only = match number.points.as_slice() {
            [PointResult { measured: Some(measured), .. }] => Some(measured),
            _ => None,
        };
        let real = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        [
            document.document.clone(),
            entry.id.clone(),
            entry.question.clone(),
            number.what.clone(),
            number.kind.map_or("", Kind::as_str).to_owned(),
            number.reading.as_ref().map_or("", |reading| &reading.name).to_owned(),
            number.reading.as_ref().map_or("", |reading| reading.status.as_str()).to_owned(),
            number.printed.clone(),
            real(number.value),
            number.form.clone(),
            number.metric.clone(),
            number.measured.clone(),
            real(only.map(|measured| measured.mean)),
            real(only.map(|measured| measured.ci95)),
            number.band.clone(),
            number.bound.clone(),
            number.standing.map_or("", Standing::as_str).to_owned(),
            number.verdict.map_or("", Verdict::as_str).to_owned(),
            number.reason.clone().unwrap_or_default(),
            entry.verdict.as_str().to_owned(),
            entry.grade.as_str().to_owned(),
            number.run.clone(),
        ]
    };
    crate::results::csv::text(HEADER, numbers.map(record))
}

pub fn markdown(reproduction: &Reproduction) -> String {
    let mut out = String::from("# Printed results of the documents, and measured results\n\n");
    out += &format!("{}\n\n", claims_text(reproduction));
    out += "| id | question | grade | strict verdict | why |\n| --- | --- | --- | --- | --- |\n";
    for entry in reproduction.entries() {
        let (grade, verdict) = (entry.grade.as_str().to_owned(), entry.verdict.as_str().to_owned());
        let cells = [&entry.id, &entry.question, &grade, &verdict, &entry.why()];
        out += &format!("| {} |\n", cells.map(|cell| cell_text(cell)).join(" | "));
    }
    for document in &reproduction.documents {
        out += &format!("\n## {}: {}\n\n{}\n", document.document, document.title, document.source);
        for entry in &document.entries {
            out += &format!("\n### {}: {} — {}\n\n", entry.id, entry.question, entry.grade.as_str());
            out += "| number | kind | printed | measured | expected | bound | verdict |\n| --- | --- | --- | --- | --- | --- | --- |\n";
            entry.numbers.iter().for_each(|number| out += &number_row(number));
        }
        out += "\n| results | file | seeds | runs | flows done |\n| --- | --- | --- | --- | --- |\n";
        for run in &document.runs {
            let seeds = match &run.reason {
                Some(reason) => format!("{} of {}: {reason}", run.seeds, run.seeds_of_file),
                None => run.seeds.to_string(),
            };
            let flows = format!("{} of {}", run.flows_completed, run.flows_started);
            out += &format!("| {} | {} | {} | {} | {flows} |\n", run.name, run.file, cell_text(&seeds), run.runs);
        }
    }
    out
}

/// Such as "Of 120 claims 100 hold, 2 hold in part, 15 are inconclusive and 3 are contradicted."
pub fn claims_text(reproduction: &Reproduction) -> String {
    let counts = reproduction.claims();
    let (all, ClaimCounts { held, part, inconclusive, contradicted }) = (counts.all(), counts);
    format!(
        "Of {all} claims {held} hold, {part} hold in part, {inconclusive} are inconclusive and {contradicted} are \
         contradicted. Grades of the {} experiments: {}. Numbers by kind: {} claims, {} magnitudes, {} checks; claims of \
         corrected and refuted readings do not count.",
        reproduction.entries().count(),
        reproduction.grades_text(),
        reproduction.numbers_of(Kind::Claim),
        reproduction.numbers_of(Kind::Magnitude),
        reproduction.numbers_of(Kind::Check),
    )
}

/// Such as "claim; any of equals (open)".
pub fn kind_text(number: &NumberResult) -> String {
    let kind = number.kind.map_or("–", Kind::as_str);
    match &number.reading {
        Some(reading) => format!("{kind}; {} ({})", reading.name, reading.status.as_str()),
        None => kind.to_owned(),
    }
}

fn number_row(number: &NumberResult) -> String {
    let verdict = number.verdict.map_or("–", Verdict::as_str);
    let why = number.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let verdict = format!("{verdict}{why}");
    let kind = kind_text(number);
    let cells = [&number.what, &kind, &number.printed, &number.measured, &number.band, &number.bound, &verdict];
    format!("| {} |\n", cells.map(|cell| cell_text(cell)).join(" | "))
}

fn cell_text(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
