//! Comparison of both fidelities on a small copy of an experiment.
//!
//! The copy has the same shape of network, load, workload, transport and failures, but a size that
//! packets can simulate. Both fidelities run the same flows. The error of each figure is the range
//! over seeds; the report shows it next to the figures of the large experiment.

mod copy;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

pub use copy::{CopyError, copy};

use crate::input::Experiment;
use crate::run::execute::{Observer, Options};
use crate::run::{Error, run};
use crate::summary::{FidelityCheck, FidelityError, RunSummary, Summary};

/// Runs both fidelities of a copy into folders below `out` and compares them.
///
/// # Errors
/// A folder cannot be written, a run fails, or `stop` was set.
pub fn check(
    copies: &[Experiment; 2],
    out: &Path,
    jobs: usize,
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<FidelityCheck, Error> {
    let [packets, rates] = copies;
    let summary = |experiment: &Experiment, name: &str| {
        let options = Options { out: out.join(name), jobs, threads: 0, flows: false, flow_lists: false };
        run(experiment, &options, observer, stop)
    };
    let (packets, rates) = (summary(packets, "packet")?, summary(rates, "flow")?);
    let variant = &copies[0].variants[0];
    Ok(FidelityCheck {
        topology: variant.topology.name().to_owned(),
        hosts: variant.topology.hosts().len() as u64,
        flows: variant.flow_counts.first().copied().unwrap_or(0),
        seeds: copies[0].seeds.len() as u32,
        errors: compare(&packets, &rates),
    })
}

/// Returns the errors of all figures that both summaries have.
pub fn compare(packets: &Summary, rates: &Summary) -> Vec<FidelityError> {
    let mut errors: Vec<FidelityError> = Vec::new();
    let mut counts: BTreeMap<usize, f64> = BTreeMap::new();
    for run in packets.runs.iter().filter(|run| !run.is_bound) {
        let key = |run: &RunSummary| (run.variant.clone(), run.balancer.clone(), run.load.map(f64::to_bits), run.seed);
        let Some(other) = rates.runs.iter().find(|other| key(other) == key(run)) else { continue };
        let others: BTreeMap<String, f64> = figures(other).into_iter().collect();
        for (figure, value) in figures(run) {
            let Some(rate) = others.get(&figure).copied() else { continue };
            let is_same = |error: &FidelityError| {
                (&error.variant, &error.balancer, error.load, &error.figure)
                    == (&run.variant, &run.balancer, run.load, &figure)
            };
            let error = rate / value - 1.0;
            let at = errors.iter().position(is_same).unwrap_or_else(|| {
                errors.push(FidelityError {
                    variant: run.variant.clone(),
                    load: run.load,
                    balancer: run.balancer.clone(),
                    figure: figure.clone(),
                    low: error,
                    high: error,
                    ..FidelityError::default()
                });
                errors.len() - 1
            });
            let count = counts.entry(at).or_insert(0.0);
            *count += 1.0;
            let entry = &mut errors[at];
            entry.packets += (value - entry.packets) / *count;
            entry.rates += (rate - entry.rates) / *count;
            (entry.low, entry.high) = (entry.low.min(error), entry.high.max(error));
        }
    }
    errors
}

/// Returns the figures of a run that are compared, above 0.
pub(crate) fn figures(run: &RunSummary) -> Vec<(String, f64)> {
    let mut figures =
        vec![("mean slowdown".to_owned(), run.slowdown.mean), ("p99 slowdown".to_owned(), run.slowdown.p99)];
    for bucket in run.fct_us_by_size.iter().filter(|bucket| bucket.slowdown.count > 0) {
        figures.push((format!("mean slowdown {}", bucket.bucket), bucket.slowdown.mean));
        figures.push((format!("p99 slowdown {}", bucket.bucket), bucket.slowdown.p99));
    }
    figures.push(("group time, µs".to_owned(), run.groups.time_us.mean));
    figures.retain(|(_, value)| *value > 0.0);
    figures
}

#[cfg(test)]
mod tests;
