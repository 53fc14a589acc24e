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
    /// Triggered flows with a start time, and due computations. Computations have numbers above those
    /// of flows.
    due: Due,
    /// Time of the earliest event that the caller has scheduled for this.
    armed: u64,
}

/// Flows and computations with their times, earliest on top, then by rank and number.
struct Due {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    is_largest_first: bool,
}

/// Rank of computations: after the flows of the instant.
const LAST: u64 = u64::MAX;

impl Due {
    /// Returns the rank of a flow or a computation at its instant; equal ranks start by number.
    fn rank(&self, list: &FlowList, id: u32) -> u64 {
        match list.flows.get(id as usize) {
            Some(flow) if self.is_largest_first => LAST - flow.size_bytes,
            Some(_) => 0,
            None => LAST,
        }
    }

    fn push(&mut self, list: &FlowList, at: u64, id: u32) {
        self.heap.push(Reverse((at, self.rank(list, id), id)));
    }

    /// Returns the earliest time, picoseconds; `None` if nothing waits.
    fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// Removes the first one that is due by `now`, with its time.
    fn pop(&mut self, now: u64) -> Option<(u64, u32)> {
        self.next().filter(|at| *at <= now)?;
        self.heap.pop().map(|Reverse((at, _, id))| (at, id))
    }
}

impl Starts {
    /// Makes the starts of the flows whose source `is_local`. Of several at the same instant the
    /// first of the list starts first, or the largest.
    pub(crate) fn new(list: &FlowList, is_largest_first: bool, is_local: impl Fn(u32) -> bool) -> Starts {
        let mut due = Due { heap: BinaryHeap::new(), is_largest_first };
        let timed = (0u32..).zip(&list.flows).filter_map(|(id, flow)| match flow.start {
            Start::At(at) if is_local(flow.src.0) => Some((at, due.rank(list, id), id)),
            _ => None,
        });
        let mut timed: Vec<(Time, u64, u32)> = timed.collect();
        timed.sort_unstable();
        let timed = timed.into_iter().map(|(.., id)| id).collect();
        let mut tasks = TaskRun::default();
        if let Some(graph) = &list.tasks {
            tasks = TaskRun::new(graph);
            tasks.ready_computations(graph).for_each(|task| due.push(list, 0, task));
        }
        Starts { timed, cursor: 0, triggers: Triggers::new(&list.flows), tasks, due, armed: NEVER }
    }

    pub(crate) fn next(&self, list: &FlowList) -> Option<u64> {
        let timed = self.timed.get(self.cursor).map(|id| match list.flows[*id as usize].start {
            Start::At(at) => at.as_ps(),
            Start::After { .. } | Start::AfterGroups { .. } | Start::AfterTasks => NEVER,
        });
        timed.into_iter().chain(self.due.next()).min()
    }

    /// Takes a flow that starts by `now`, after the computations that are due before it.
    pub(crate) fn take(&mut self, list: &FlowList, now: u64) -> Option<u32> {
        let Starts { tasks, due, .. } = self;
        while let Some((at, id)) = due.pop(now) {
            match &list.tasks {
                Some(graph) if id as usize >= graph.flow_count() => {
                    tasks.on_due(graph, id, at, |at, task| due.push(list, at, task));
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
            let Starts { tasks, due, .. } = self;
            tasks.started(graph, id, |task| due.push(list, now, task));
        }
        id
    }

    /// Makes flows and computations due that wait for the end of flow `ended`. Returns the time of
    /// the earliest if no event is scheduled by then: the caller schedules one.
    pub(crate) fn trigger(&mut self, list: &FlowList, ended: u32, now: u64) -> Option<u64> {
        let Starts { triggers, tasks, due, .. } = self;
        triggers.ended(ended, |id| {
            if let Start::After { delay, .. } | Start::AfterGroups { delay, .. } = list.flows[id as usize].start {
                due.push(list, now.saturating_add(delay.as_ps()), id);
            }
        });
        if let Some(graph) = &list.tasks {
            tasks.ended(graph, ended, |task| due.push(list, now, task));
        }
        let earliest = due.next();
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

#[cfg(test)]
mod tests {
    use net::HostIx;
    use traffic::Flow;

    use super::*;

    #[test]
    fn flows_of_one_instant_start_in_order_of_the_list_or_largest_first() {
        let flow = |size_bytes, start| Flow { src: HostIx(0), dst: HostIx(1), size_bytes, start, group: 1 };
        let at = |us| Start::At(Time::from_us(us));
        let after = |flow| Start::After { flow, delay: Time::from_us(1) };
        let flows = vec![flow(5, at(1)), flow(9, at(2)), flow(7, at(1)), flow(7, at(1))];
        let flows = flows.into_iter().chain([flow(2, after(0)), flow(8, after(2)), flow(4, after(2))]).collect();
        let list = FlowList { flows, ..FlowList::default() };
        for (is_largest_first, expected) in [(false, [0, 2, 3, 4, 5, 6, 1]), (true, [2, 3, 0, 5, 6, 4, 1])] {
            let mut starts = Starts::new(&list, is_largest_first, |_| true);
            let take = |starts: &mut Starts, us| -> Vec<u32> {
                std::iter::from_fn(|| starts.take(&list, Time::from_us(us).as_ps())).collect()
            };
            let mut order = take(&mut starts, 1);
            for ended in [0, 2] {
                starts.trigger(&list, ended, Time::from_us(1).as_ps());
            }
            order.extend(take(&mut starts, 2));
            assert_eq!(order, expected);
        }
    }
}
