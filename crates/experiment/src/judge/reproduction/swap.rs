//! Swapped balancers: a test of the verdicts.

use std::collections::BTreeMap;

use super::Index;
use crate::summary::Summary;

/// Judges the runs of each of two balancers as those of the other: claims that distinguish them must
/// turn. Returns the number of runs that were swapped.
pub fn swap(index: &Index, summaries: &mut BTreeMap<usize, Summary>, one: &str, other: &str) -> usize {
    let mut swapped = 0;
    for (run, summary) in summaries {
        let labels: Vec<String> = index.runs[*run].experiment.balancers.iter().map(balance::Spec::label).collect();
        if ![one, other].iter().all(|balancer| labels.iter().any(|label| label == balancer)) {
            continue;
        }
        for run in &mut summary.runs {
            let taken = if run.balancer == one {
                other
            } else if run.balancer == other {
                one
            } else {
                continue;
            };
            taken.clone_into(&mut run.balancer);
            swapped += 1;
        }
    }
    swapped
}
