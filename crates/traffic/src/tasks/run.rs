//! The state of a task graph in a run.

use super::{AT_START, NONE, TaskGraph};

/// Tasks of one run that have not ended. The caller owns the queue of due tasks: it reports flows
/// that start and end, and hands back computations at the times it was given for them.
///
/// No call allocates.
#[derive(Clone, Debug, Default)]
pub struct TaskRun {
    /// Number of events that each task still waits for.
    waits: Vec<u32>,
    /// The next computation in the queue of the same processor.
    behind: Vec<u32>,
    processors: Vec<Processor>,
}

#[derive(Clone, Copy, Debug)]
struct Processor {
    running: u32,
    /// First and last task of its queue.
    first: u32,
    last: u32,
}

impl TaskRun {
    /// Creates the state at the beginning.
    pub fn new(graph: &TaskGraph) -> TaskRun {
        let idle = Processor { running: NONE, first: NONE, last: NONE };
        TaskRun {
            waits: graph.waits(),
            behind: vec![NONE; graph.durations.len()],
            processors: vec![idle; graph.processor_count as usize],
        }
    }

    /// Returns the computations that wait for nothing and are due at time 0.
    pub fn ready_computations(&self, graph: &TaskGraph) -> impl Iterator<Item = u32> {
        let computations = (0u32..).zip(&self.waits).skip(graph.flow_count());
        computations.filter(|(_, waits)| **waits == 0).map(|(task, _)| task)
    }

    /// Handles the start of a flow: calls `release` with each task that waited for it last.
    pub fn started(&mut self, graph: &TaskGraph, flow: u32, release: impl FnMut(u32)) {
        self.count_down(graph, flow, AT_START, release);
    }

    /// Handles the delivery of the last byte of a flow.
    pub fn ended(&mut self, graph: &TaskGraph, flow: u32, release: impl FnMut(u32)) {
        self.count_down(graph, flow, 0, release);
    }

    /// Handles a computation that is due at `now`, in picoseconds: it has become ready, or it ends.
    /// Calls `due` with the time and number of each task that follows, perhaps of itself.
    pub fn on_due(&mut self, graph: &TaskGraph, task: u32, now: u64, mut due: impl FnMut(u64, u32)) {
        let ix = task as usize - graph.flow_count();
        let number = graph.processors[ix];
        if number == NONE {
            self.count_down(graph, task, AT_START, |next| due(now, next));
            return self.count_down(graph, task, 0, |next| due(now, next));
        }
        let processor = &mut self.processors[number as usize];
        if processor.running == NONE {
            return self.begin(graph, task, now, &mut due);
        }
        if processor.running != task {
            match processor.first {
                NONE => processor.first = task,
                _ => self.behind[processor.last as usize - graph.flow_count()] = task,
            }
            processor.last = task;
            return;
        }
        processor.running = NONE;
        let next = processor.first;
        if next != NONE {
            processor.first = self.behind[next as usize - graph.flow_count()];
        }
        self.count_down(graph, task, 0, |next| due(now, next));
        if next != NONE {
            self.begin(graph, next, now, &mut due);
        }
    }

    fn begin(&mut self, graph: &TaskGraph, task: u32, now: u64, due: &mut impl FnMut(u64, u32)) {
        let ix = task as usize - graph.flow_count();
        self.processors[graph.processors[ix] as usize].running = task;
        due(now.saturating_add(graph.durations[ix].as_ps()), task);
        self.count_down(graph, task, AT_START, |next| due(now, next));
    }

    fn count_down(&mut self, graph: &TaskGraph, task: u32, mark: u32, mut release: impl FnMut(u32)) {
        for next in graph.successors(task).iter().filter(|next| **next & AT_START == mark) {
            let next = next & !AT_START;
            let waits = &mut self.waits[next as usize];
            *waits = waits.saturating_sub(1);
            if *waits == 0 {
                release(next);
            }
        }
    }
}
