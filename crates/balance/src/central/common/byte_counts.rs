//! Bytes that pairs of edge switches exchanged in a period, from the counters of flows.

use std::collections::BTreeMap;

use net::Time;

use crate::central::common::edges::{Ends, ends};
use crate::central::{FlowId, NetworkView};

/// The last readings of all flows, and the end of the last period.
#[derive(Debug, Default)]
pub struct ByteCounts {
    /// By flow: bytes at its last reading.
    last: Vec<u64>,
    ended_at: Time,
}

impl ByteCounts {
    /// Returns the bytes of a flow since its last reading, with its ends; `None` if the flow is
    /// unknown or has no choice of paths.
    pub fn read(&mut self, view: &NetworkView<'_>, flow: FlowId) -> Option<(Ends, u64)> {
        let info = view.flows.get(flow)?;
        self.last.resize(view.flows.capacity().max(self.last.len()), 0);
        let before = std::mem::replace(&mut self.last[flow.ix()], info.bytes);
        ends(view, info).map(|ends| (ends, info.bytes.saturating_sub(before)))
    }

    /// Handles a flow that starts: its number may be that of an earlier one.
    pub fn flow_started(&mut self, flow: FlowId) {
        if let Some(last) = self.last.get_mut(flow.ix()) {
            *last = 0;
        }
    }

    /// Ends a period. Returns its length in seconds; that of `period` if no time has passed.
    pub fn end_period(&mut self, view: &NetworkView<'_>, period: Time) -> f64 {
        let elapsed = view.now.saturating_sub(std::mem::replace(&mut self.ended_at, view.now));
        if elapsed == Time::ZERO { period } else { elapsed }.as_s_f64()
    }
}

/// The bytes that each pair of edge switches has exchanged in the present period.
#[derive(Debug, Default)]
pub struct PairBytes {
    counts: ByteCounts,
    sums: BTreeMap<Ends, u64>,
}

impl PairBytes {
    /// Adds the bytes of a flow since its last reading; call it before a flow is forgotten.
    pub fn count(&mut self, view: &NetworkView<'_>, flow: FlowId) {
        if let Some((ends, bytes)) = self.counts.read(view, flow) {
            *self.sums.entry(ends).or_default() += bytes;
        }
    }

    /// Handles a flow that starts.
    pub fn flow_started(&mut self, flow: FlowId) {
        self.counts.flow_started(flow);
    }

    /// Counts all flows and ends a period. Returns the bytes of each pair, and the length of the
    /// period in seconds, as [`ByteCounts::end_period`] does.
    pub fn end_period(&mut self, view: &NetworkView<'_>, period: Time) -> (BTreeMap<Ends, u64>, f64) {
        view.flows.iter().for_each(|(flow, _)| self.count(view, flow));
        (std::mem::take(&mut self.sums), self.counts.end_period(view, period))
    }

    /// Sees to it that the next period has a pair, perhaps with 0 bytes.
    pub fn expect(&mut self, ends: Ends) {
        self.sums.entry(ends).or_default();
    }

    /// Forgets the pairs: destinations may have new numbers.
    pub fn forget_pairs(&mut self) {
        self.sums.clear();
    }
}
