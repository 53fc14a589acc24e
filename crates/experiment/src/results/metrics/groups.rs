//! Completion times of groups of flows: jobs, coflows, collectives.

use sim::FlowEnd;

use crate::results::quantiles::{sorted, summary};
use crate::summary::GroupTimes;

use super::selection::Measured;

/// Computes the times of groups, which have numbers above 0. A group is complete if all its flows
/// are. Its time is from the first start to the last delivery.
pub(super) fn group_times(flows: &[Measured<'_>]) -> GroupTimes {
    let mut members: Vec<(u32, usize)> = flows.iter().zip(0..).map(|((flow, _), ix)| (flow.group, ix)).collect();
    members.sort_unstable();
    let (mut times, mut unfinished) = (Vec::new(), 0);
    for group in members.chunk_by(|(a, _), (b, _)| a == b) {
        let records = || group.iter().map(|(_, ix)| flows[*ix].1);
        if records().any(|record| record.end != FlowEnd::Completed) {
            unfinished += 1;
            continue;
        }
        let begin = records().map(|record| record.started).min().unwrap_or_default();
        let end = records().map(|record| record.started.saturating_add(record.fct)).max().unwrap_or_default();
        times.push(end.saturating_sub(begin).as_us_f64());
    }
    GroupTimes { unfinished, time_us: summary(&sorted(times)) }
}
