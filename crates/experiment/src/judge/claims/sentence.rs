//! Human-readable verdicts on claims.

use super::{Claim, Comparison, Metric, Unit};
use crate::summary::{ClaimPoint, Judgement};

pub(super) fn sentence(claim: &Claim, points: &[ClaimPoint]) -> String {
    let of = |outcome| points.iter().filter(|point| point.outcome == outcome).collect::<Vec<_>>();
    let (holds, noise, fails) = (of(Judgement::Holds), of(Judgement::WithinNoise), of(Judgement::Fails));
    let mut parts = Vec::new();
    match (holds.as_slice(), points) {
        ([only], [_]) => parts.push(format!("holds{}: {}", at(claim, only), numbers(claim, only))),
        ([], _) => {}
        (holds, _) if holds.len() == points.len() => {
            parts.push(format!("holds at all {} {}{}", points.len(), places(claim), span(claim, points)));
        }
        (holds, _) => parts.push(format!("holds at {} of {} {}", holds.len(), points.len(), places(claim))),
    }
    for (outcome, points) in [("within noise", noise), ("fails", fails)] {
        match points.as_slice() {
            [] => {}
            [only] => parts.push(format!("{outcome}{}: {}", at(claim, only), numbers(claim, only))),
            several => {
                let names: Vec<String> = several.iter().map(|point| place(claim, point)).collect();
                let mut part = format!("{outcome} at {}", names.join(", "));
                if let Some(worst) = several.iter().max_by(|a, b| gap(claim, a).total_cmp(&gap(claim, b))) {
                    part += &format!(", worst{}: {}", at(claim, worst), numbers(claim, worst));
                }
                parts.push(part);
            }
        }
    }
    parts.extend(unfinished_points(claim, points));
    parts.join("; ")
}

fn unfinished_points(claim: &Claim, points: &[ClaimPoint]) -> Option<String> {
    let points: Vec<&ClaimPoint> = points.iter().filter(|point| point.unfinished > 0).collect();
    let is_about_all = matches!(
        claim.metric,
        Metric::CompletedShare | Metric::SlowdownLowerBoundMean | Metric::DroppedPackets | Metric::DeadLinkPackets
    ) || claim.metric.is_of_core();
    if points.is_empty() || is_about_all {
        return None;
    }
    let names: Vec<String> = points.iter().map(|point| place(claim, point)).collect();
    let names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let at = if names.is_empty() { String::new() } else { format!(" at {}", names.join(", ")) };
    Some(format!("not every flow completed{at}"))
}

fn places(claim: &Claim) -> &'static str {
    match claim.comparison {
        Comparison::RisesWithLoad => "steps of load",
        _ if claim.at.len() > 1 => "settings",
        _ => "loads",
    }
}

fn at(claim: &Claim, point: &ClaimPoint) -> String {
    let place = place(claim, point);
    if place.is_empty() { place } else { format!(" at {place}") }
}

fn place(claim: &Claim, point: &ClaimPoint) -> String {
    let load = point.load.map(|load| share(load, 3));
    let variant = Some(point.variant.clone()).filter(|variant| claim.at.len() > 1 && !variant.is_empty());
    match (load, variant) {
        (Some(load), Some(variant)) => format!("{load} ({variant})"),
        (load, variant) => load.or(variant).unwrap_or_default(),
    }
}

fn gap(claim: &Claim, point: &ClaimPoint) -> f64 {
    let Some(value) = point.value else { return f64::INFINITY };
    let claimed = match claim.comparison {
        Comparison::Within(low, high) => Some(if value < low { low } else { high }),
        _ => point.against,
    };
    claimed.map_or(f64::INFINITY, |claimed| (value - claimed).abs() / claimed.abs().max(f64::MIN_POSITIVE))
}

fn numbers(claim: &Claim, point: &ClaimPoint) -> String {
    let Some(value) = point.value else { return "no flow completed that it could be taken from".to_owned() };
    let pair = |a: f64, b: f64| distinct_texts(claim.metric, a, b);
    match (&claim.comparison, point.against) {
        (Comparison::Within(low, high), _) if value < *low => {
            let (value, low) = pair(value, *low);
            format!("{value}, below {low} to {}", text(claim.metric, *high, 3))
        }
        (Comparison::Within(low, high), _) if value > *high => {
            let (value, high) = pair(value, *high);
            format!("{value}, above {} to {high}", text(claim.metric, *low, 3))
        }
        (Comparison::Within(..), _) | (_, None) => text(claim.metric, value, 3),
        (Comparison::RisesWithLoad, Some(before)) => {
            let (value, before) = pair(value, before);
            format!("{value} after {before}")
        }
        (_, Some(other)) => {
            let factor = claim.factor;
            let of = if factor == 1.0 {
                String::new()
            } else {
                format!(" ({} × {})", significant(factor, 3), text(claim.metric, other / factor, 3))
            };
            let (value, other) = pair(value, other);
            format!("{value} against {other}{of}")
        }
    }
}

fn span(claim: &Claim, points: &[ClaimPoint]) -> String {
    let ends = points.first().and_then(|first| first.against).zip(points.last().and_then(|last| last.value));
    match (&claim.comparison, ends, claim.at.len()) {
        (Comparison::RisesWithLoad, Some((first, last)), 1) => {
            let (first, last) = distinct_texts(claim.metric, first, last);
            format!(": from {first} to {last}")
        }
        _ => String::new(),
    }
}

fn distinct_texts(metric: Metric, a: f64, b: f64) -> (String, String) {
    let pair = |digits| (text(metric, a, digits), text(metric, b, digits));
    (3..9).map(pair).find(|(first, second)| first != second || a == b).unwrap_or_else(|| pair(9))
}

pub(crate) fn text(metric: Metric, value: f64, digits: usize) -> String {
    let (size, unit) = unit(metric, value);
    format!("{}{unit}", significant(value / size, digits))
}

/// Returns the most readable unit of a value: its size and its suffix.
pub(crate) fn unit(metric: Metric, value: f64) -> (f64, &'static str) {
    match metric.unit() {
        Unit::Plain => (1.0, ""),
        Unit::Share => (0.01, " %"),
        Unit::BytesPerS => (1e3, " kB/s"),
        Unit::Time => match value.abs() {
            us if us >= 999_500.0 => (1e6, " s"),
            us if us >= 999.5 => (1e3, " ms"),
            _ => (1.0, " µs"),
        },
    }
}

fn share(value: f64, digits: usize) -> String {
    format!("{} %", significant(value * 100.0, digits))
}

pub(crate) fn spread(mean_text: &str, mean: f64, ci95: f64, (size, unit): (f64, &str)) -> String {
    // A difference in the last bits of a sum is rounding.
    if ci95 > 1e-6 * mean.abs() {
        format!("{mean_text} ± {}{unit}", significant(ci95 / size, 2))
    } else {
        format!("{mean_text}{unit}")
    }
}

pub(crate) fn significant(value: f64, digits: usize) -> String {
    // Bands with one end have an infinite one.
    let before = if value == 0.0 || !value.is_finite() { 1 } else { value.abs().log10().floor() as i64 + 1 };
    let decimals = usize::try_from(digits as i64 - before).unwrap_or(0).min(12);
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_but_never_look_equal() {
        assert_eq!(distinct_texts(Metric::FctMean, 20_312.0, 18_207.0), ("20.3 ms".to_owned(), "18.2 ms".to_owned()));
        assert_eq!(distinct_texts(Metric::FctMean, 54.43, 54.4), ("54.43 µs".to_owned(), "54.4 µs".to_owned()));
        assert_eq!(distinct_texts(Metric::SlowdownMin, 0.9998, 1.0), ("0.9998".to_owned(), "1".to_owned()));
        assert_eq!(text(Metric::CompletedShare, 1.0, 3), "100 %");
        assert_eq!((share(0.3, 3), share(0.01, 3)), ("30 %".to_owned(), "1 %".to_owned()));
        assert_eq!((significant(0.0, 3), significant(f64::INFINITY, 3)), ("0".to_owned(), "inf".to_owned()));
    }
}
