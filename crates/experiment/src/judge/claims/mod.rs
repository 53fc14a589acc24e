//! Published claims: statements of a document, fixed before running, and their verdicts.
//!
//! Balancers are compared as in verdicts, by differences paired over seeds. A difference of the
//! wrong sign is noise if its 95 % interval contains 0; otherwise the claim fails.

mod metric;
pub(crate) mod sentence;

use crate::results::statistics::{is_not_clearly_above, pairs, stat};
use crate::summary::{ClaimPoint, ClaimVerdict, Judgement, RunSummary, Stat};

pub use metric::{METRICS, Metric, MetricInfo, NAMES, Unit};

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub id: String,
    pub claim: String,
    pub metric: Metric,
    pub balancer: String,
    pub comparison: Comparison,
    pub factor: f64,
    /// Time window of metrics of the core; `None` for all bins.
    pub window: Option<Window>,
    /// Request class; `None` for all.
    pub class: Option<String>,
    /// Server of a metric of one server.
    pub server: Option<String>,
    /// Points of the claim: at least one load in all, and at least two of each variant for a rise.
    pub at: Vec<Selection>,
    pub reason: Option<String>,
}

/// A time window; bins that end in it count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Beginning, seconds; a bin that ends here does not count.
    pub from_s: f64,
    /// End, seconds.
    pub until_s: f64,
}

impl Claim {
    pub(crate) fn value(&self, run: &RunSummary) -> Option<f64> {
        self.value_of(self.metric, self.window, run)
    }

    pub(crate) fn value_of(&self, metric: Metric, window: Option<Window>, run: &RunSummary) -> Option<f64> {
        let class = self.class.as_deref();
        match (metric, &self.server) {
            (Metric::ServerShare, Some(server)) => return run.requests.as_ref()?.share_of(class, server),
            (Metric::ServerBusy, Some(server)) => return run.requests.as_ref()?.busy_of(server, run.end_us),
            _ => {}
        }
        if class.is_some() {
            return metric.of_answered(run.requests.as_ref()?.class(class)?);
        }
        match window {
            Some(window) => metric.of_window(run, window),
            None => metric.of(run),
        }
    }
}

/// Loads of one variant, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    pub variant: String,
    pub loads: Vec<Option<f64>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Comparison {
    AtMost(String),
    AtLeast(String),
    /// In a range, both ends included; an end may be infinite.
    Within(f64, f64),
    RisesWithLoad,
    /// As high as another balancer's, or different within noise. Only in reproductions.
    TiesWith(String),
    /// Measured, and not judged. Only in reproductions.
    Unjudged,
}

impl Comparison {
    /// Returns the label of the compared balancer.
    pub(crate) fn other(&self) -> Option<&str> {
        match self {
            Comparison::AtMost(other) | Comparison::AtLeast(other) | Comparison::TiesWith(other) => Some(other),
            Comparison::Within(..) | Comparison::RisesWithLoad | Comparison::Unjudged => None,
        }
    }
}

pub fn judge(claims: &[Claim], runs: &[RunSummary]) -> Vec<ClaimVerdict> {
    claims.iter().map(|claim| verdict(claim, runs)).collect()
}

fn verdict(claim: &Claim, runs: &[RunSummary]) -> ClaimVerdict {
    let points: Vec<ClaimPoint> = claim.at.iter().flat_map(|selection| points(claim, selection, runs)).collect();
    let verdict = Judgement::over(&points.iter().map(|point| point.outcome).collect::<Vec<_>>());
    let reason = claim.reason.clone().filter(|text| verdict != Judgement::Holds && !text.trim().is_empty());
    ClaimVerdict {
        id: claim.id.clone(),
        claim: claim.claim.clone(),
        verdict,
        sentence: sentence::sentence(claim, &points),
        points,
        reason,
    }
}

/// Returns the runs of a balancer at one (variant, load), ordered by seed as in the plan.
pub(crate) fn runs_at<'a>(
    runs: &'a [RunSummary],
    balancer: &str,
    variant: &str,
    load: Option<f64>,
) -> Vec<&'a RunSummary> {
    runs.iter().filter(|run| run.balancer == balancer && run.variant == variant && run.load == load).collect()
}

fn points(claim: &Claim, selection: &Selection, runs: &[RunSummary]) -> Vec<ClaimPoint> {
    let of = |balancer: &str, load| runs_at(runs, balancer, &selection.variant, load);
    let point = |(at, load): (usize, &Option<f64>)| {
        let compared = match (&claim.comparison, at.checked_sub(1)) {
            (Comparison::RisesWithLoad, None) => return None,
            (Comparison::RisesWithLoad, Some(before)) => of(&claim.balancer, selection.loads[before]),
            (comparison, _) => comparison.other().map_or_else(Vec::new, |other| of(other, *load)),
        };
        let point = judge_point(claim, &of(&claim.balancer, *load), &compared);
        Some(ClaimPoint { variant: selection.variant.clone(), load: *load, ..point })
    };
    selection.loads.iter().enumerate().filter_map(point).collect()
}

/// Judges a claim at one point. `compared` are the runs of the other balancer, or for a rise those
/// at the previous load.
pub(crate) fn judge_point(claim: &Claim, own: &[&RunSummary], compared: &[&RunSummary]) -> ClaimPoint {
    match &claim.comparison {
        Comparison::AtMost(_) => compare_balancers(claim, own, compared, 1.0),
        Comparison::AtLeast(_) => compare_balancers(claim, own, compared, -1.0),
        Comparison::RisesWithLoad => compare_loads(claim, compared, own),
        Comparison::Within(low, high) => range(claim, own, *low, *high),
        Comparison::TiesWith(_) | Comparison::Unjudged => ClaimPoint::default(),
    }
}

/// Balancers whose means differ by less than this share of the mean are tied.
pub(crate) const TIE: f64 = 1e-3;

/// Compares two balancers on their common seeds; a difference with the sign of `wrong` contradicts
/// the claim.
fn compare_balancers(claim: &Claim, own: &[&RunSummary], other: &[&RunSummary], wrong: f64) -> ClaimPoint {
    let metric = claim.metric;
    let of_pair = |(run, other)| Some((claim.value(run)?, claim.value(other)? * claim.factor));
    let pairs: Vec<(f64, f64)> = pairs(own, other).filter_map(of_pair).collect();
    let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
    let excess: Vec<f64> = differences.iter().map(|difference| difference * wrong).collect();
    let mean = |values: Vec<f64>| metric.over(&stat(&values));
    let against = mean(pairs.iter().map(|(_, other)| *other).collect());
    let outcome = match stat(&excess).mean {
        // No seed completed for both balancers, so the claim does not hold.
        _ if pairs.is_empty() => Judgement::Fails,
        // A tie does not confirm a claim about two balancers.
        excess if excess.abs() <= TIE * against.abs() => Judgement::WithinNoise,
        excess if excess <= 0.0 => Judgement::Holds,
        _ if is_not_clearly_above(&excess, against.abs()) => Judgement::WithinNoise,
        _ => Judgement::Fails,
    };
    ClaimPoint {
        outcome,
        value: (!pairs.is_empty()).then(|| mean(pairs.iter().map(|(own, _)| *own).collect())),
        against: (!pairs.is_empty()).then_some(against),
        difference: stat(&differences),
        unfinished: unfinished(own) + unfinished(other),
        ..ClaimPoint::default()
    }
}

fn range(claim: &Claim, runs: &[&RunSummary], low: f64, high: f64) -> ClaimPoint {
    let value = over_seeds(claim, runs).map(|stat| claim.metric.over(&stat));
    let holds = value.is_some_and(|value| low <= value && value <= high);
    ClaimPoint {
        outcome: if holds { Judgement::Holds } else { Judgement::Fails },
        value,
        unfinished: unfinished(runs),
        ..ClaimPoint::default()
    }
}

/// Compares one load with the next; a drop is noise if the two intervals overlap.
fn compare_loads(claim: &Claim, lower: &[&RunSummary], upper: &[&RunSummary]) -> ClaimPoint {
    let metric = claim.metric;
    let (before, after) = (over_seeds(claim, lower), over_seeds(claim, upper));
    let outcome = match (&before, &after) {
        (Some(before), Some(after)) => {
            let drop = metric.over(before) - metric.over(after);
            let one_seed = lower.len().min(upper.len()) < 2;
            match drop {
                drop if drop <= 0.0 => Judgement::Holds,
                drop if one_seed && is_not_clearly_above(&[drop], metric.over(after)) => Judgement::WithinNoise,
                drop if !one_seed && drop <= before.ci95 + after.ci95 => Judgement::WithinNoise,
                _ => Judgement::Fails,
            }
        }
        _ => Judgement::Fails,
    };
    ClaimPoint {
        outcome,
        value: after.map(|stat| metric.over(&stat)),
        against: before.map(|stat| metric.over(&stat)),
        unfinished: unfinished(lower) + unfinished(upper),
        ..ClaimPoint::default()
    }
}

pub(crate) fn over_seeds(claim: &Claim, runs: &[&RunSummary]) -> Option<Stat> {
    let values: Vec<f64> = runs.iter().filter_map(|run| claim.value(run)).collect();
    (!values.is_empty()).then(|| stat(&values))
}

fn unfinished(runs: &[&RunSummary]) -> u64 {
    runs.iter().map(|run| run.flows.failed + run.flows.running).sum()
}

#[cfg(test)]
mod tests;
