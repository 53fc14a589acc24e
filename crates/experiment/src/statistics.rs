//! Statistics over seeds, and who won: paired differences on common random numbers.

use crate::student::t975;
use crate::summary::{Point, RunSummary, SizeBucket, Stat, Verdict};

/// Without several seeds nothing can be told apart statistically; within this share results count as equal.
const TIE_SHARE: f64 = 0.02;

/// A balancer that left more than this share of its flows unfinished beyond the most complete one cannot win.
const UNFINISHED_SHARE: f64 = 0.001;

/// Sizes up to this are small, bytes.
const SMALL_BYTES: u64 = 100_000;
/// Buckets that end above this hold large flows, bytes.
const LARGE_ABOVE_BYTES: u64 = 1_000_000;

/// Mean, sample standard deviation, 95 % interval and range; all 0 for no values.
pub fn stat(values: &[f64]) -> Stat {
    if values.is_empty() {
        return Stat::default();
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    let sd = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
    Stat {
        mean,
        sd,
        ci95: t975(values.len() - 1) * sd / n.sqrt(),
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

/// One point per (variant, load, balancer) and one verdict per (variant, load). Runs come ordered by variant, load,
/// balancer and seed, as plans are.
pub fn evaluate(runs: &[RunSummary]) -> (Vec<Point>, Vec<Verdict>) {
    let mut points = Vec::new();
    let mut verdicts = Vec::new();
    for group in runs.chunk_by(|a, b| (&a.variant, a.load) == (&b.variant, b.load)) {
        let rivals: Vec<&[RunSummary]> = group.chunk_by(|a, b| a.balancer == b.balancer).collect();
        let best = best(&rivals);
        for rival in &rivals {
            points.push(point(rival, best.map(|best| rivals[best])));
        }
        verdicts.push(verdict(&rivals, best));
    }
    (points, verdicts)
}

fn point(runs: &[RunSummary], best: Option<&[RunSummary]>) -> Point {
    let over = |value: &dyn Fn(&RunSummary) -> Option<f64>| stat(&runs.iter().filter_map(value).collect::<Vec<_>>());
    // A run in which nothing completed has no mean; counting it as 0 would make it the best.
    let completed =
        |value: fn(&RunSummary) -> f64| over(&move |run: &RunSummary| (run.fct_us.count > 0).then(|| value(run)));
    Point {
        variant: runs[0].variant.clone(),
        load: runs[0].load,
        balancer: runs[0].balancer.clone(),
        seeds: runs.len() as u32,
        flows_started: runs.iter().map(|run| run.flows.started).sum(),
        flows_completed: runs.iter().map(|run| run.flows.completed).sum(),
        fct_mean_us: completed(|run| run.fct_us.mean),
        fct_p50_us: completed(|run| run.fct_us.p50),
        fct_p99_us: completed(|run| run.fct_us.p99),
        slowdown_mean: completed(|run| run.slowdown.mean),
        slowdown_p99: completed(|run| run.slowdown.p99),
        small_fct_mean_us: over(&small_fct_mean_us),
        large_fct_mean_us: over(&|run| mean_fct_us(run, |bucket| bucket.max_bytes > LARGE_ABOVE_BYTES)),
        drop_share: over(&|run| Some(drop_share(run))),
        throughput_share: over(&|run| Some(run.throughput_share)),
        slowdown_bound: over(&|run| Some(run.slowdown_bound_mean)),
        slowdown_vs_best: best.map_or_else(Stat::default, |best| stat(&differences(runs, best))),
    }
}

/// Mean completion time of small flows, if any of them completed.
pub(crate) fn small_fct_mean_us(run: &RunSummary) -> Option<f64> {
    mean_fct_us(run, |bucket| bucket.max_bytes <= SMALL_BYTES)
}

/// Mean completion time over some size buckets, if any flow of them completed.
fn mean_fct_us(run: &RunSummary, wanted: impl Fn(&SizeBucket) -> bool) -> Option<f64> {
    let buckets = run.fct_us_by_size.iter().filter(|bucket| wanted(bucket));
    let (sum, count) = buckets.fold((0.0, 0u64), |(sum, count), bucket| {
        (sum + bucket.fct_us.mean * bucket.fct_us.count as f64, count + bucket.fct_us.count)
    });
    (count > 0).then(|| sum / count as f64)
}

fn drop_share(run: &RunSummary) -> f64 {
    let dropped: u64 = run.packets.dropped.values().sum();
    if run.packets.sent == 0 { 0.0 } else { dropped as f64 / run.packets.sent as f64 }
}

fn unfinished(runs: &[RunSummary]) -> u64 {
    runs.iter().map(|run| run.flows.failed + run.flows.running).sum()
}

fn started(runs: &[RunSummary]) -> u64 {
    runs.iter().map(|run| run.flows.started).sum()
}

fn bound_mean(runs: &[RunSummary]) -> f64 {
    stat(&runs.iter().map(|run| run.slowdown_bound_mean).collect::<Vec<_>>()).mean
}

/// Whether it completed about as much as the most complete one.
fn is_complete(runs: &[RunSummary], least_unfinished: u64) -> bool {
    (unfinished(runs) - least_unfinished) as f64 <= UNFINISHED_SHARE * started(runs) as f64
}

/// The position of the rival with the least slowdown among the complete ones; `None` where no flow started.
fn best(rivals: &[&[RunSummary]]) -> Option<usize> {
    let least_unfinished = rivals.iter().map(|runs| unfinished(runs)).min()?;
    let able = (0..rivals.len()).filter(|ix| started(rivals[*ix]) > 0 && is_complete(rivals[*ix], least_unfinished));
    able.min_by(|a, b| bound_mean(rivals[*a]).total_cmp(&bound_mean(rivals[*b])))
}

/// Slowdown minus that of the best, on the seeds both have.
fn differences(runs: &[RunSummary], best: &[RunSummary]) -> Vec<f64> {
    let pairs =
        runs.iter().filter_map(|run| best.iter().find(|other| other.seed == run.seed).map(|other| (run, other)));
    pairs.map(|(run, other)| run.slowdown_bound_mean - other.slowdown_bound_mean).collect()
}

/// Whether a rival cannot be told apart from the best.
fn is_tied(runs: &[RunSummary], best: &[RunSummary]) -> bool {
    cannot_be_told_above(&differences(runs, best), bound_mean(best))
}

/// Whether paired differences may as well be 0 or below: their 95 % interval says so, or with one seed, which has
/// none, the difference is a small share of what it is a difference from.
pub(crate) fn cannot_be_told_above(differences: &[f64], from: f64) -> bool {
    let difference = stat(differences);
    if differences.len() > 1 {
        return difference.mean - difference.ci95 <= 0.0;
    }
    difference.mean <= TIE_SHARE * from
}

fn verdict(rivals: &[&[RunSummary]], best: Option<usize>) -> Verdict {
    let first = &rivals[0][0];
    let named = |best: String, tied, sentence| Verdict {
        variant: first.variant.clone(),
        load: first.load,
        best,
        tied,
        sentence,
    };
    let Some(best_ix) = best else {
        return named(String::new(), Vec::new(), "No flow started, so nothing can be compared.".to_owned());
    };
    let best = rivals[best_ix];
    let least_unfinished = rivals.iter().map(|runs| unfinished(runs)).min().unwrap_or(0);
    let others = || rivals.iter().enumerate().filter(move |(ix, _)| *ix != best_ix).map(|(_, runs)| *runs);
    let complete = || others().filter(|runs| is_complete(runs, least_unfinished));
    let tied: Vec<String> =
        complete().filter(|runs| is_tied(runs, best)).map(|runs| runs[0].balancer.clone()).collect();
    let mut sentence = comparison(best, &complete().collect::<Vec<_>>(), &tied);
    for runs in rivals.iter().filter(|runs| unfinished(runs) > 0) {
        let judged = if is_complete(runs, least_unfinished) { "" } else { ", so it is not ranked" };
        sentence +=
            &format!(" {} left {} of {} flows unfinished{judged}.", runs[0].balancer, unfinished(runs), started(runs));
    }
    named(best[0].balancer.clone(), tied, sentence)
}

/// The sentence about those that are ranked.
fn comparison(best: &[RunSummary], others: &[&[RunSummary]], tied: &[String]) -> String {
    let name = &best[0].balancer;
    let mean = bound_mean(best);
    let seeds = match best.len() {
        1 => "1 seed".to_owned(),
        n => format!("{n} seeds"),
    };
    let next = others
        .iter()
        .filter(|runs| !tied.contains(&runs[0].balancer))
        .min_by(|a, b| bound_mean(a).total_cmp(&bound_mean(b)));
    let lead = next.map(|runs| {
        let other = bound_mean(runs);
        format!("{:.1} % below {} ({other:.2})", (1.0 - mean / other) * 100.0, runs[0].balancer)
    });
    let noise = if best.len() == 1 {
        "within 2 %, and one seed cannot tell more"
    } else {
        "within noise (the 95 % interval of the paired difference contains 0)"
    };
    match (tied.is_empty(), lead) {
        (true, None) => format!("{name} has mean slowdown {mean:.2} over {seeds}."),
        (true, Some(lead)) => format!("{name} wins: mean slowdown {mean:.2} over {seeds}, {lead}."),
        (false, None) => {
            format!(
                "No clear winner over {seeds}: {name} has the least mean slowdown, {mean:.2}, but {} {noise}.",
                are(tied)
            )
        }
        (false, Some(lead)) => {
            format!("{name} has the least mean slowdown, {mean:.2} over {seeds}, {lead}; {} {noise}.", are(tied))
        }
    }
}

fn are(names: &[String]) -> String {
    match names {
        [one] => format!("{one} is"),
        [start @ .., last] => format!("{} and {last} are", start.join(", ")),
        [] => String::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
