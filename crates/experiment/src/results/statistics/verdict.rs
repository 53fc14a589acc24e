//! The verdict on one point as a sentence.

use super::{Ranking, is_complete, ranked_mean, started, unfinished};
use crate::summary::{Measure, RunSummary, Verdict};

/// Maximum number of names in a list: longer ones are not readable.
const NAMES_MAX: usize = 5;

pub(super) fn verdict(all: &[RunSummary], rivals: &[&[RunSummary]], ranking: &Ranking, measure: Measure) -> Verdict {
    let named = |best: String, tied, sentence| Verdict {
        variant: all[0].variant.clone(),
        load: all[0].load,
        best,
        tied,
        sentence,
    };
    let Some(best) = ranking.best() else {
        let why = match rivals.is_empty() {
            true => "There are bounds only and no balancer to compare.",
            false if measure == Measure::GroupTime => "No group of flows started, so nothing can be compared.",
            false => "No flow started, so nothing can be compared.",
        };
        return named(String::new(), Vec::new(), why.to_owned());
    };
    let tied: Vec<String> = ranking.tied().into_iter().map(|ix| rivals[ix][0].balancer.clone()).collect();
    let next = ranking
        .all()
        .map(|ix| rivals[ix])
        .find(|runs| runs[0].balancer != rivals[best][0].balancer && !tied.contains(&runs[0].balancer));
    let mut sentence = comparison(rivals[best], next, &tied, measure);
    sentence += &unfinished_text(rivals, measure);
    named(rivals[best][0].balancer.clone(), tied, sentence)
}

fn comparison(best: &[RunSummary], next: Option<&[RunSummary]>, tied: &[String], measure: Measure) -> String {
    let name = &best[0].balancer;
    let (quantity, extreme) = (measure.quantity(), if measure.is_higher_better() { "highest" } else { "lowest" });
    let mean = describe(measure, ranked_mean(best, measure));
    let seeds = match best.len() {
        1 => "1 seed".to_owned(),
        n => format!("{n} seeds"),
    };
    let lead = next.map(|runs| lead(measure, best, runs));
    let noise = if best.len() == 1 {
        "within 2 %, which one seed cannot resolve"
    } else {
        "within noise (the 95 % interval of the paired difference contains 0)"
    };
    match (tied.is_empty(), lead) {
        // A single seed does not show how much seeds differ.
        (true, Some(lead)) if best.len() == 1 => {
            format!(
                "{name} has the {extreme} {quantity}, {mean} over {seeds}, {lead}; with one seed this may be chance."
            )
        }
        (true, None) => format!("{name} has {quantity} {mean} over {seeds}."),
        (true, Some(lead)) => format!("{name} wins: {quantity} {mean} over {seeds}, {lead}."),
        (false, None) => {
            let are = are(tied);
            format!("No clear winner over {seeds}: {name} has the {extreme} {quantity}, {mean}, but {are} {noise}.")
        }
        (false, Some(lead)) => {
            format!("{name} has the {extreme} {quantity}, {mean} over {seeds}, {lead}; {} {noise}.", are(tied))
        }
    }
}

fn describe(measure: Measure, mean: f64) -> String {
    match measure {
        Measure::Slowdown => format!("{mean:.2}"),
        Measure::Throughput => format!("{:.1} % of the host links", mean * 100.0),
        Measure::GroupTime if mean >= 1e6 => format!("{:.2} s", mean / 1e6),
        Measure::GroupTime if mean >= 1e3 => format!("{:.2} ms", mean / 1e3),
        Measure::GroupTime => format!("{mean:.1} us"),
    }
}

fn lead(measure: Measure, best: &[RunSummary], other: &[RunSummary]) -> String {
    let (best, value, name) = (ranked_mean(best, measure), ranked_mean(other, measure), &other[0].balancer);
    match measure {
        Measure::Throughput if value == 0.0 => format!("{name} carries nothing"),
        Measure::Throughput => format!("{:.1} % above {name} ({:.1} %)", (best / value - 1.0) * 100.0, value * 100.0),
        _ => format!("{:.1} % below {name} ({})", (1.0 - best / value) * 100.0, describe(measure, value)),
    }
}

fn unfinished_text(rivals: &[&[RunSummary]], measure: Measure) -> String {
    let unfinished = |runs: &[RunSummary]| unfinished(runs, measure);
    let started = |runs: &[RunSummary]| started(runs, measure);
    let noun = measure.noun();
    let least_unfinished = rivals.iter().map(|runs| unfinished(runs)).min().unwrap_or(0);
    let is_ranked = |runs: &[RunSummary]| is_complete(unfinished(runs), least_unfinished, started(runs));
    let open: Vec<&[RunSummary]> = rivals.iter().copied().filter(|runs| unfinished(runs) > 0).collect();
    if open.len() > NAMES_MAX {
        let unranked = open.iter().filter(|runs| !is_ranked(runs)).count();
        let most = open.iter().max_by_key(|runs| unfinished(runs)).expect("there are several");
        let judged = if unranked > 0 { format!("; {unranked} of them are not ranked for it") } else { String::new() };
        let (name, count, all) = (&most[0].balancer, unfinished(most), started(most));
        return format!(
            " {} balancers left {noun}s unfinished, most of all {name}, {count} of {all}{judged}.",
            open.len()
        );
    }
    let sentence = |runs: &&[RunSummary]| {
        let judged = if is_ranked(runs) { "" } else { ", so it is not ranked" };
        format!(" {} left {} of {} {noun}s unfinished{judged}.", runs[0].balancer, unfinished(runs), started(runs))
    };
    open.iter().map(sentence).collect()
}

fn are(names: &[String]) -> String {
    match names {
        [one] => format!("{one} is"),
        [start @ .., last] if names.len() <= NAMES_MAX => format!("{} and {last} are", start.join(", ")),
        [] => String::new(),
        many => format!("{} and {} others are", many[..NAMES_MAX - 2].join(", "), many.len() - (NAMES_MAX - 2)),
    }
}
