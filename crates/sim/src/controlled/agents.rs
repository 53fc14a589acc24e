//! Agents on hosts: they tell the controller of flows, and slow flows down for it.

use std::collections::BTreeMap;

use balance::central::{AgentOrder, AgentReport};
use net::{Bandwidth, FiveTuple};

use super::agenda::Item;
use super::flows::NewTuple;
use super::{Controlled, time};

/// All agents.
#[derive(Debug, Default)]
pub(super) struct Agents {
    /// Flows that have sent more are reported; `None` before the controller has said.
    threshold: Option<u64>,
    /// Slots of the flows there are.
    flows: BTreeMap<FiveTuple, u32>,
    tally: AgentTally,
}

/// What agents did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AgentTally {
    pub(super) reports: u64,
    pub(super) paces_ignored: u64,
}

impl Agents {
    /// A flow is in a slot.
    pub(super) fn name(&mut self, tuple: FiveTuple, slot: u32) {
        self.flows.insert(tuple, slot);
    }

    /// The slot of a flow.
    pub(super) fn slot_of(&self, tuple: &FiveTuple) -> Option<u32> {
        self.flows.get(tuple).copied()
    }

    pub(super) fn note_report(&mut self) {
        self.tally.reports += 1;
    }

    pub(super) fn tally(&self) -> AgentTally {
        self.tally
    }
}

impl Controlled<'_> {
    /// A flow begins in a slot. Answers whether the agenda has changed.
    pub(crate) fn flow_opened(&mut self, now: u64, slot: u32, flow: &NewTuple) {
        self.flows.open(slot, flow);
        if let Some(state) = self.flows.get(slot) {
            self.agents.name(state.tuple, slot);
        }
        // "More than 0" is meant as: at once.
        if self.agents.threshold == Some(0) {
            self.report_started(now, slot);
        }
    }

    /// A flow has sent this much payload for the first time.
    #[inline]
    pub(crate) fn note_sent(&mut self, now: u64, slot: u32, payload: u32) {
        let Some(state) = self.flows.get_mut(slot) else { return };
        state.sent += u64::from(payload);
        if !state.is_reported
            && !state.is_virtual
            && self.agents.threshold.is_some_and(|threshold| state.sent > threshold)
        {
            self.report_started(now, slot);
        }
    }

    /// A flow has ended and its slot is free.
    pub(crate) fn flow_closed(&mut self, now: u64, slot: u32) {
        let Some(state) = self.flows.get(slot) else { return };
        let (tuple, bytes, is_reported) = (state.tuple, state.sent, state.is_reported);
        self.flows.close(slot);
        if self.agents.flows.get(&tuple) == Some(&slot) {
            self.agents.flows.remove(&tuple);
        }
        if is_reported {
            self.report(now, AgentReport::Ended { tuple, bytes });
        }
    }

    #[cold]
    fn report_started(&mut self, now: u64, slot: u32) {
        let is_size_told = self.config.are_sizes_told;
        let Some(state) = self.flows.get_mut(slot) else { return };
        state.is_reported = true;
        let size = is_size_told.then_some(state.size);
        let report = AgentReport::Started { tuple: state.tuple, bytes: state.sent, size };
        self.report(now, report);
    }

    fn report(&mut self, now: u64, report: AgentReport) {
        let at = self.clock(now) + self.config.agent_latency.as_ps();
        self.agenda.put(at, Item::Report(report));
    }

    /// A report reaches the controller, unless that is down.
    pub(super) fn deliver_report(&mut self, clock: u64, report: AgentReport) {
        if self.is_plane_down {
            return;
        }
        self.agents.tally.reports += 1;
        self.plane.report(time(clock), report);
        self.drain_plane(clock);
    }

    /// An order reaches the agents.
    pub(super) fn deliver_order(&mut self, order: AgentOrder, is_pacing_possible: bool) {
        match order {
            AgentOrder::ReportAbove(bytes) => self.agents.threshold = Some(bytes),
            AgentOrder::Pace { .. } if !is_pacing_possible => self.agents.tally.paces_ignored += 1,
            AgentOrder::Pace { tuple, rate } => {
                let slot = self.agents.flows.get(&tuple).copied();
                if let Some(state) = slot.and_then(|slot| self.flows.get_mut(slot)) {
                    state.pace = rate;
                }
            }
        }
    }

    /// The rate a flow has been told to keep to.
    pub(crate) fn pace_of(&self, slot: u32) -> Option<Bandwidth> {
        self.flows.get(slot)?.pace
    }
}
