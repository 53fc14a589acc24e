//! Bounds among balancers: computed without packets, compared and never ranked.

use balance::Entry;

use crate::summary::RunSummary;

/// Name of the fluid optimum (mechanisms.md P29), the reference of `share_of_optimum`.
pub const OPTIMUM: &str = "optimum";

/// Returns whether an entry is a bound instead of a balancer.
pub(crate) fn is_bound(entry: &Entry) -> bool {
    entry.is_bound()
}

/// Returns the registry's name in the label of a balancer: `ecmp` of `ecmp:hash=threshold`.
pub(crate) fn name_of(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

/// Returns whether these runs are of the optimum.
pub(crate) fn is_optimum(runs: &[RunSummary]) -> bool {
    runs.first().is_some_and(|run| run.is_bound && name_of(&run.balancer) == OPTIMUM)
}
