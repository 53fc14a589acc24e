//! The order in which the flows of the list start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::Time;
use traffic::{FlowList, Start, Triggers};

use crate::timers::NEVER;

pub(crate) struct Starts {
    /// Flows with a start time, earliest first.
    timed: Vec<u32>,
    cursor: usize,
    triggers: Triggers,
    /// Triggered flows with a start time, earliest on top.
    due: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Starts {
    /// Makes the starts of the flows whose source `is_local`.
    pub(crate) fn new(list: &FlowList, is_local: impl Fn(u32) -> bool) -> Starts {
        let timed = (0u32..).zip(&list.flows).filter_map(|(id, flow)| match flow.start {
            Start::At(at) if is_local(flow.src.0) => Some((at, id)),
            _ => None,
        });
        let mut timed: Vec<(Time, u32)> = timed.collect();
        timed.sort_unstable();
        let timed = timed.into_iter().map(|(_, id)| id).collect();
        Starts { timed, cursor: 0, triggers: Triggers::new(&list.flows), due: BinaryHeap::new() }
    }

    pub(crate) fn next(&self, list: &FlowList) -> Option<u64> {
        let timed = self.timed.get(self.cursor).map(|id| match list.flows[*id as usize].start {
            Start::At(at) => at.as_ps(),
            Start::After { .. } | Start::AfterGroups { .. } => NEVER,
        });
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        timed.into_iter().chain(due).min()
    }

    pub(crate) fn take(&mut self, list: &FlowList, now: u64) -> Option<u32> {
        if let Some(Reverse((at, id))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            return Some(id);
        }
        let id = *self.timed.get(self.cursor)?;
        if matches!(list.flows[id as usize].start, Start::At(at) if at.as_ps() <= now) {
            self.cursor += 1;
            return Some(id);
        }
        None
    }

    /// Makes flows due that wait for the end of flow `ended`. Returns the earliest of their starts.
    pub(crate) fn trigger(&mut self, list: &FlowList, ended: u32, now: u64) -> Option<u64> {
        let Starts { triggers, due, .. } = self;
        let mut earliest = None;
        triggers.ended(ended, |id| {
            let (Start::After { delay, .. } | Start::AfterGroups { delay, .. }) = list.flows[id as usize].start else {
                return;
            };
            let at = now.saturating_add(delay.as_ps());
            due.push(Reverse((at, id)));
            earliest = Some(earliest.map_or(at, |e: u64| e.min(at)));
        });
        earliest
    }
}
