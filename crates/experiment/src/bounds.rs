//! Bounds among balancers: computed without packets, to compare with and never to rank.

use balance::Entry;

use crate::summary::RunSummary;

/// Name of the fluid optimum (mechanisms.md P29), which shares of the optimum are taken of.
pub const OPTIMUM: &str = "optimum";

/// Whether an entry is a bound and no balancer.
pub(crate) fn is_bound(entry: &Entry) -> bool {
    entry.is_bound()
}

/// The registry's name in the label of a balancer: `ecmp` of `ecmp:hash=threshold`.
pub(crate) fn name_of(label: &str) -> &str {
    label.split(':').next().unwrap_or(label)
}

/// Whether these runs are of the optimum.
pub(crate) fn is_optimum(runs: &[RunSummary]) -> bool {
    runs.first().is_some_and(|run| run.is_bound && name_of(&run.balancer) == OPTIMUM)
}
