//! The flows that statistics are about.

use net::Time;
use sim::{FlowEnd, FlowRecord, Outcome};
use traffic::{Flow, FlowList};

/// A flow with its record.
pub(super) type Measured<'a> = (&'a Flow, &'a FlowRecord);

/// Flows in averages: those of the warm-up are left out. Next to collectives, averages over single
/// flows are about the background alone.
pub(super) struct Selection<'a> {
    pub(super) flows: Vec<Measured<'a>>,
    /// Flows of groups with their positions in the list, in its order.
    pub(super) grouped: Vec<(usize, Measured<'a>)>,
    /// Number of flows that started during the warm-up.
    pub(super) warm_up: u64,
}

impl<'a> Selection<'a> {
    pub(super) fn of(flows: &'a FlowList, outcome: &'a Outcome, warm_up: Time, has_background: bool) -> Selection<'a> {
        let is_early = |record: &FlowRecord| record.end != FlowEnd::NotStarted && record.started < warm_up;
        let all = || flows.flows.iter().zip(&outcome.flows);
        let mut early_groups: Vec<u32> =
            all().filter(|(_, record)| is_early(record)).map(|(flow, _)| flow.group).collect();
        let warm_up = early_groups.len() as u64;
        early_groups.sort_unstable();
        early_groups.dedup();
        let in_group = |flow: &Flow| flow.group > 0 && early_groups.binary_search(&flow.group).is_err();
        Selection {
            flows: all().filter(|(flow, record)| !(is_early(record) || has_background && flow.group > 0)).collect(),
            grouped: all().enumerate().filter(|(_, (flow, _))| in_group(flow)).collect(),
            warm_up,
        }
    }

    /// Returns the records of completed flows.
    pub(super) fn completed(&self) -> impl Iterator<Item = &'a FlowRecord> + Clone {
        self.flows.iter().map(|(_, record)| *record).filter(|record| record.end == FlowEnd::Completed)
    }
}
