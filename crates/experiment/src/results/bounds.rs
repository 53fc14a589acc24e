//! Bounds among balancers: computed without packets, compared and never ranked.

use crate::summary::RunSummary;

/// Name of the fluid optimum (mechanisms.md P29), the reference of `share_of_optimum`.
pub const OPTIMUM: &str = "optimum";

pub(crate) fn name_of(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

pub(crate) fn is_optimum(runs: &[RunSummary]) -> bool {
    runs.first().is_some_and(|run| run.is_bound && name_of(&run.balancer) == OPTIMUM)
}
