//! Bounds to compare balancers with: the best that a network could do, computed without packets.
//!
//! | bound | computes | method |
//! | --- | --- | --- |
//! | [`optimum`] | a run's completion times | a fluid limited by cuts of the network alone |
//! | [`fastpass`] | a run's completion times | a timeslot and a path for every packet |
//! | [`cuts`] | static rates | max-min fair within host links, or within all cuts |
//! | [`mcf`] | a static common share | the best splitting over any paths, with a certificate |
//! | [`fixed_path`] | static rates, completion times | max-min fair over given paths |
//!
//! A bound detects failures immediately and keeps everything sent before. Silent faults do not
//! affect it. Of the transport it uses only the packet format. A flow whose hosts stay cut off is
//! *running* when the run ends: in a bound no flow fails.

pub mod cuts;
pub mod fastpass;
pub(crate) mod fill;
pub mod fixed_path;
pub mod mcf;
pub mod optimum;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use net::{Routes, Time};

use crate::hosts::starts::Starts;
use crate::ideal::Ideals;
use crate::links::faults::Faults;
use crate::outcome::{Accounting, EngineRecord, FlowEnd, FlowRecord, LinkRecord, Outcome, Series};
use crate::scenario::Scenario;
use crate::timers::NEVER;
use crate::{Progress, SimError};

/// Events between two progress reports: a few milliseconds of work.
const EVENTS_PER_REPORT: u64 = 1 << 10;

/// Order in which a bound serves flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Order {
    #[default]
    MaxMin,
    /// The one with the least left to send first; of pairs of hosts the one with that flow.
    Srpt,
}

/// Flows from their start to their record, the same for every bound.
pub(crate) struct Ledger<'a> {
    scenario: &'a Scenario<'a>,
    starts: Starts,
    pub(crate) records: Vec<FlowRecord>,
    ideals: Ideals<'a>,
    /// Flows that have sent everything, by the arrival time of their last byte.
    ending: BinaryHeap<Reverse<(u64, u32)>>,
    /// Times of future capacity changes, latest first.
    changes: Vec<u64>,
    faults: Faults,
    until: u64,
    pub(crate) now: u64,
    events: u64,
    active: u64,
    peak: u64,
    done: u64,
}

impl<'a> Ledger<'a> {
    pub(crate) fn new(scenario: &'a Scenario<'a>, routes: Arc<Routes>) -> Ledger<'a> {
        let faults = Faults::new(scenario.topology, &scenario.config.failures);
        let mut changes = faults.change_times();
        changes.reverse();
        Ledger {
            scenario,
            starts: Starts::new(scenario.flows, false, |_| true),
            records: vec![FlowRecord::default(); scenario.flows.flows.len()],
            ideals: Ideals::new(scenario.topology, &scenario.config.transport, routes),
            ending: BinaryHeap::new(),
            changes,
            faults,
            until: scenario.config.stop.until.map_or(NEVER, Time::as_ps),
            now: 0,
            events: 0,
            active: 0,
            peak: 0,
            done: 0,
        }
    }

    pub(crate) fn next_event(&self) -> u64 {
        let start = self.starts.next(self.scenario.flows).unwrap_or(NEVER);
        let end = self.ending.peek().map_or(NEVER, |Reverse((at, _))| *at);
        start.min(end).min(self.next_change())
    }

    pub(crate) fn next_change(&self) -> u64 {
        self.changes.last().copied().unwrap_or(NEVER)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.active > 0 || self.starts.next(self.scenario.flows).is_some()
    }

    /// Advances to `next` and reports the progress at intervals. Returns false if the run ends before:
    /// at its stop time, or because nothing more can happen ([`NEVER`]) although flows are open.
    pub(crate) fn proceed(&mut self, next: u64, progress: &mut dyn FnMut(&Progress) -> bool) -> Result<bool, SimError> {
        debug_assert!(next >= self.now, "time runs forward");
        if next == NEVER && self.until == NEVER {
            return Ok(false);
        }
        self.events += u64::from(next != NEVER);
        self.now = next.min(self.until);
        if next > self.until {
            return Ok(false);
        }
        let report = Progress {
            now: Time::from_ps(self.now),
            flows_done: self.done,
            flows_listed: self.records.len() as u64,
            events: self.events,
        };
        let goes_on = !self.events.is_multiple_of(EVENTS_PER_REPORT) || progress(&report);
        if goes_on { Ok(true) } else { Err(SimError::Interrupted) }
    }

    /// Returns the current rates, bits per second, if they changed since the last call.
    pub(crate) fn changed_rates(&mut self) -> Option<Vec<u64>> {
        let mut has_changed = false;
        while self.next_change() <= self.now {
            self.changes.pop();
            has_changed = true;
        }
        has_changed.then(|| self.faults.rates(self.scenario.topology, self.now))
    }

    pub(crate) fn begin(&mut self) -> Option<u32> {
        let id = self.starts.take(self.scenario.flows, self.now)?;
        let flow = &self.scenario.flows.flows[id as usize];
        let ideal = self.ideals.fct(flow.src, flow.dst, flow.size_bytes);
        self.records[id as usize].begin(self.now);
        self.records[id as usize].ideal = Time::from_ps(ideal);
        self.active += 1;
        self.peak = self.peak.max(self.active);
        Some(id)
    }

    /// Records that a flow has sent everything, and arrives at `at` or, if later, its ideal time.
    pub(crate) fn arrives(&mut self, id: u32, at: u64) {
        let record = &self.records[id as usize];
        let earliest = record.started.saturating_add(record.ideal).as_ps();
        self.ending.push(Reverse((at.max(earliest).max(self.now), id)));
    }

    /// Records that a flow has failed.
    pub(crate) fn fail(&mut self, id: u32) {
        let record = &mut self.records[id as usize];
        record.end = FlowEnd::Failed;
        record.fct = Time::from_ps(self.now).saturating_sub(record.started);
        self.active -= 1;
        self.done += 1;
    }

    pub(crate) fn undelivered(&self) -> Vec<(u64, u32)> {
        self.ending.iter().map(|Reverse(end)| *end).collect()
    }

    /// Closes the flows that have arrived by now; those waiting for them become due.
    pub(crate) fn close_arrived(&mut self) {
        while let Some(Reverse((at, id))) = self.ending.peek().copied().filter(|Reverse((at, _))| *at <= self.now) {
            self.ending.pop();
            let record = &mut self.records[id as usize];
            record.end = FlowEnd::Completed;
            record.fct = Time::from_ps(at).saturating_sub(record.started);
            record.delivered_bytes = self.scenario.flows.flows[id as usize].size_bytes;
            self.active -= 1;
            self.done += 1;
            let _ = self.starts.trigger(self.scenario.flows, id, self.now);
        }
    }

    pub(crate) fn outcome(mut self, link_bytes: Vec<u64>, series: Series) -> Result<Outcome, SimError> {
        let now = Time::from_ps(self.now);
        for record in self.records.iter_mut().filter(|record| record.end == FlowEnd::Running) {
            record.fct = now.saturating_sub(record.started);
        }
        let accounting = Accounting::of_flows(&self.records);
        accounting.check().map_err(SimError::Accounting)?;
        Ok(Outcome {
            link_series: Vec::new(),
            capture: crate::Capture::default(),
            end: now,
            accounting,
            links: link_bytes.into_iter().map(|bytes| LinkRecord { bytes, ..LinkRecord::default() }).collect(),
            series,
            engine: EngineRecord { events: self.events, peak_flows: self.peak, ..EngineRecord::default() },
            flows: self.records,
            ..Outcome::default()
        })
    }
}
