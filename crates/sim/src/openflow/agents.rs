//! Agents on hosts: they report flows to the controller and apply its rate limits.

use std::collections::BTreeMap;

use balance::central::{AgentCommand, AgentReport};
use net::{Bandwidth, FiveTuple, Time};
use traffic::Flow;

use super::event_queue::ControlEvent;
use super::{Controlled, time};
use crate::switching::plane::ControlPlane;

#[derive(Debug, Default)]
pub(super) struct Agents {
    /// Report threshold in bytes; `None` until the controller has set it.
    threshold: Option<u64>,
    pub(super) flows: BTreeMap<FiveTuple, u32>,
}

impl Controlled<'_> {
    pub(crate) fn flow_opened(&mut self, now: u64, slot: u32, id: u32, flow: &Flow, tuple: FiveTuple) {
        self.settle_flow(slot);
        let macs = self.config.hosts_resolve.then(|| self.arp.macs_between(flow.src, flow.dst));
        self.flows.open(slot, id, flow, tuple, macs);
        self.agents.flows.insert(tuple, slot);
        // "More than 0" means: as soon as the flow begins.
        if self.agents.threshold == Some(0) {
            self.report_started(now, slot);
        }
    }

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

    pub(crate) fn flow_closed(&mut self, now: u64, slot: u32) {
        let Some(state) = self.flows.get(slot) else { return };
        let (tuple, bytes, is_reported) = (state.tuple, state.sent, state.is_reported);
        self.settle_flow(slot);
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
        let is_size_told = self.config.reports_flow_sizes;
        let Some(state) = self.flows.get_mut(slot) else { return };
        state.is_reported = true;
        let size = is_size_told.then_some(state.size);
        let report = AgentReport::Started { tuple: state.tuple, bytes: state.sent, size };
        self.report(now, report);
    }

    fn report(&mut self, now: u64, report: AgentReport) {
        let at = self.clock(now) + self.config.agent_latency.as_ps();
        self.events.put(at, ControlEvent::Report(report));
    }

    /// Delivers a report to the controller, unless the controller is down.
    pub(super) fn deliver_report(&mut self, clock: u64, deliver: impl FnOnce(&mut dyn ControlPlane, Time)) {
        if self.is_plane_down {
            return;
        }
        self.cost.record.agent_reports += 1;
        deliver(self.plane, time(clock));
        self.drain_plane(clock);
    }

    pub(super) fn deliver_command(&mut self, order: AgentCommand, can_limit_rates: bool) {
        match order {
            AgentCommand::SetReportThreshold(bytes) => self.agents.threshold = Some(bytes),
            AgentCommand::SetRateLimit { .. } if !can_limit_rates => self.cost.record.rate_limits_ignored += 1,
            AgentCommand::SetRateLimit { tuple, rate } => {
                let slot = self.agents.flows.get(&tuple).copied();
                if let Some(state) = slot.and_then(|slot| self.flows.get_mut(slot)) {
                    state.rate_limit = rate;
                }
            }
        }
    }

    pub(crate) fn rate_limit_of(&self, slot: u32) -> Option<Bandwidth> {
        self.flows.get(slot)?.rate_limit
    }
}
