//! The order in which the flows of the list start, and the computations of an execution trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use net::Time;
use traffic::{FlowList, Start, TaskRun, Triggers};

use crate::timers::NEVER;

pub(crate) struct Starts {
    /// Flows with a start time, earliest first.
    timed: Vec<u32>,
    cursor: usize,
    triggers: Triggers,
    tasks: TaskRun,
    /// Triggered flows with a start time and due computations, earliest on top. Computations have
    /// numbers above those of flows.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Time of the earliest event that the caller has scheduled for this.
    armed: u64,
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
        let (mut tasks, mut due) = (TaskRun::default(), BinaryHeap::new());
        if let Some(graph) = &list.tasks {
            tasks = TaskRun::new(graph);
            due.extend(tasks.ready_computations(graph).map(|task| Reverse((0, task))));
        }
        Starts { timed, cursor: 0, triggers: Triggers::new(&list.flows), tasks, due, armed: NEVER }
    }

    pub(crate) fn next(&self, list: &FlowList) -> Option<u64> {
        let timed = self.timed.get(self.cursor).map(|id| match list.flows[*id as usize].start {
            Start::At(at) => at.as_ps(),
            Start::After { .. } | Start::AfterGroups { .. } | Start::AfterTasks => NEVER,
        });
        let due = self.due.peek().map(|Reverse((at, _))| *at);
        timed.into_iter().chain(due).min()
    }

    /// Takes a flow that starts by `now`, after the computations that are due before it.
    pub(crate) fn take(&mut self, list: &FlowList, now: u64) -> Option<u32> {
        let Starts { tasks, due, .. } = self;
        while let Some(Reverse((at, id))) = due.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            due.pop();
            match &list.tasks {
                Some(graph) if id as usize >= graph.flow_count() => {
                    tasks.on_due(graph, id, at, |at, task| due.push(Reverse((at, task))));
                }
                _ => return Some(self.started(list, id, now)),
            }
        }
        let id = *self.timed.get(self.cursor)?;
        if matches!(list.flows[id as usize].start, Start::At(at) if at.as_ps() <= now) {
            self.cursor += 1;
            return Some(self.started(list, id, now));
        }
        None
    }

    /// Makes tasks due that wait for the start of a flow.
    fn started(&mut self, list: &FlowList, id: u32, now: u64) -> u32 {
        if let Some(graph) = &list.tasks {
            self.tasks.started(graph, id, |task| self.due.push(Reverse((now, task))));
        }
        id
    }

    /// Makes flows and computations due that wait for the end of flow `ended`. Returns the time of
    /// the earliest if no event is scheduled by then: the caller schedules one.
    pub(crate) fn trigger(&mut self, list: &FlowList, ended: u32, now: u64) -> Option<u64> {
        let Starts { triggers, tasks, due, .. } = self;
        triggers.ended(ended, |id| {
            if let Start::After { delay, .. } | Start::AfterGroups { delay, .. } = list.flows[id as usize].start {
                due.push(Reverse((now.saturating_add(delay.as_ps()), id)));
            }
        });
        if let Some(graph) = &list.tasks {
            tasks.ended(graph, ended, |task| due.push(Reverse((now, task))));
        }
        let earliest = due.peek().map(|Reverse((at, _))| *at);
        self.arm(earliest)
    }

    /// Returns the time of the next start after those by `now`, for which the caller schedules an
    /// event; `None` if that is scheduled.
    pub(crate) fn rearm(&mut self, list: &FlowList, now: u64) -> Option<u64> {
        if self.armed <= now {
            self.armed = NEVER;
        }
        let next = self.next(list);
        self.arm(next)
    }

    // One event for the earliest start: one for each trigger would multiply, as each asks for the next.
    fn arm(&mut self, at: Option<u64>) -> Option<u64> {
        let at = at.filter(|at| *at < self.armed)?;
        self.armed = at;
        Some(at)
    }
}
