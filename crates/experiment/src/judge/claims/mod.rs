//! Published claims: statements of a document, fixed before running, and their verdicts.
//!
//! Balancers are compared as in verdicts, by differences paired over seeds. A difference of the
//! wrong sign is noise if its 95 % interval contains 0; otherwise the claim fails.

mod metric;
pub(crate) mod sentence;

use crate::results::statistics::{is_not_clearly_above, stat};
use crate::summary::{ClaimOutcome, ClaimPoint, ClaimVerdict, PointOutcome, RunSummary, Stat};

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
    /// Server of [`Metric::ServerShare`].
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
        if let (Metric::ServerShare, Some(server)) = (metric, &self.server) {
            return run.requests.as_ref()?.share_of(class, server);
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
    /// In a range, both ends included.
    Within(f64, f64),
    RisesWithLoad,
}

pub fn judge(claims: &[Claim], runs: &[RunSummary]) -> Vec<ClaimVerdict> {
    claims.iter().map(|claim| verdict(claim, runs)).collect()
}

fn verdict(claim: &Claim, runs: &[RunSummary]) -> ClaimVerdict {
    let points: Vec<ClaimPoint> = claim.at.iter().flat_map(|selection| points(claim, selection, runs)).collect();
    let count = |outcome| points.iter().filter(|point| point.outcome == outcome).count();
    // If the sign is wrong at half of the points, large noise does not confirm the claim.
    let verdict = match (count(PointOutcome::Fails), count(PointOutcome::Holds)) {
        (1.., _) => ClaimOutcome::NotReproduced,
        (0, holds) if 2 * holds > points.len() => ClaimOutcome::Reproduced,
        _ => ClaimOutcome::WithinNoise,
    };
    let is_reproduced = verdict == ClaimOutcome::Reproduced;
    let reason = claim.reason.clone().filter(|text| !is_reproduced && !text.trim().is_empty());
    ClaimVerdict {
        id: claim.id.clone(),
        claim: claim.claim.clone(),
        verdict,
        sentence: sentence::sentence(claim, &points),
        points,
        reason,
    }
}

fn points(claim: &Claim, selection: &Selection, runs: &[RunSummary]) -> Vec<ClaimPoint> {
    let of = |balancer: &str, load: Option<f64>| -> Vec<&RunSummary> {
        let is_of_claim =
            |run: &&RunSummary| run.balancer == balancer && run.variant == selection.variant && run.load == load;
        runs.iter().filter(is_of_claim).collect()
    };
    let loads = selection.loads.iter().copied();
    let named = |load: Option<f64>, point: ClaimPoint| ClaimPoint { variant: selection.variant.clone(), load, ..point };
    match &claim.comparison {
        Comparison::AtMost(other) => loads
            .map(|load| named(load, compare_balancers(claim, &of(&claim.balancer, load), &of(other, load), 1.0)))
            .collect(),
        Comparison::AtLeast(other) => loads
            .map(|load| named(load, compare_balancers(claim, &of(&claim.balancer, load), &of(other, load), -1.0)))
            .collect(),
        Comparison::Within(low, high) => {
            loads.map(|load| named(load, range(claim, &of(&claim.balancer, load), *low, *high))).collect()
        }
        Comparison::RisesWithLoad => {
            let step = |pair: &[Option<f64>]| {
                named(pair[1], compare_loads(claim, &of(&claim.balancer, pair[0]), &of(&claim.balancer, pair[1])))
            };
            selection.loads.windows(2).map(step).collect()
        }
    }
}

/// Balancers whose means differ by less than this share of the mean are tied.
pub(crate) const TIE: f64 = 1e-3;

/// Compares two balancers on their common seeds; a difference with the sign of `wrong` contradicts
/// the claim.
pub(crate) fn compare_balancers(claim: &Claim, own: &[&RunSummary], other: &[&RunSummary], wrong: f64) -> ClaimPoint {
    let metric = claim.metric;
    let pair = |run: &&RunSummary| {
        let other = other.iter().find(|other| other.seed == run.seed)?;
        Some((claim.value(run)?, claim.value(other)? * claim.factor))
    };
    let pairs: Vec<(f64, f64)> = own.iter().filter_map(pair).collect();
    let differences: Vec<f64> = pairs.iter().map(|(own, other)| own - other).collect();
    let excess: Vec<f64> = differences.iter().map(|difference| difference * wrong).collect();
    let mean = |values: Vec<f64>| metric.over(&stat(&values));
    let against = mean(pairs.iter().map(|(_, other)| *other).collect());
    let outcome = match stat(&excess).mean {
        // No seed completed for both balancers, so the claim was not reproduced.
        _ if pairs.is_empty() => PointOutcome::Fails,
        // A tie does not confirm a claim about two balancers.
        excess if excess.abs() <= TIE * against.abs() => PointOutcome::WithinNoise,
        excess if excess <= 0.0 => PointOutcome::Holds,
        _ if is_not_clearly_above(&excess, against.abs()) => PointOutcome::WithinNoise,
        _ => PointOutcome::Fails,
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

pub(crate) fn range(claim: &Claim, runs: &[&RunSummary], low: f64, high: f64) -> ClaimPoint {
    let value = over_seeds(claim, runs).map(|stat| claim.metric.over(&stat));
    let holds = value.is_some_and(|value| low <= value && value <= high);
    ClaimPoint {
        outcome: if holds { PointOutcome::Holds } else { PointOutcome::Fails },
        value,
        unfinished: unfinished(runs),
        ..ClaimPoint::default()
    }
}

/// Compares one load with the next; a drop is noise if the two intervals overlap.
pub(crate) fn compare_loads(claim: &Claim, lower: &[&RunSummary], upper: &[&RunSummary]) -> ClaimPoint {
    let metric = claim.metric;
    let (before, after) = (over_seeds(claim, lower), over_seeds(claim, upper));
    let outcome = match (&before, &after) {
        (Some(before), Some(after)) => {
            let drop = metric.over(before) - metric.over(after);
            let one_seed = lower.len().min(upper.len()) < 2;
            match drop {
                drop if drop <= 0.0 => PointOutcome::Holds,
                drop if one_seed && is_not_clearly_above(&[drop], metric.over(after)) => PointOutcome::WithinNoise,
                drop if !one_seed && drop <= before.ci95 + after.ci95 => PointOutcome::WithinNoise,
                _ => PointOutcome::Fails,
            }
        }
        _ => PointOutcome::Fails,
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
