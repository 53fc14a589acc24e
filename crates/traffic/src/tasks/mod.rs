//! Tasks of execution traces: transfers, computations, and which of them wait for others.
//!
//! Tasks are numbered: the flows of the list first, by their positions, then the computations. A
//! computation occupies one processor of a rank for its duration; those of one processor run one
//! after the other, in the order in which they become ready, ties by number. A computation without
//! a processor takes no time: it only joins what it waits for.

mod builder;
mod run;

use std::sync::Arc;

use net::{Time, Topology};

use crate::collectives::{CollectiveError, RankOptions};
use crate::flow::{Flow, FlowList, Start};

pub(crate) use builder::{Builder, DURATION_MAX, Problem, Task};
pub use run::TaskRun;

/// Number of a processor or task that does not exist.
const NONE: u32 = u32::MAX;

/// Mark of a successor that waits for the start of a task, not for its end.
const AT_START: u32 = 1 << 30;

/// The successors of each task, and the computations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskGraph {
    flow_count: u32,
    /// Positions at which the successors of each task begin, and the end of the last.
    begins: Vec<u32>,
    /// Numbers of waiting tasks, some with [`AT_START`].
    successors: Vec<u32>,
    /// Durations of the computations, in the order of their numbers.
    durations: Vec<Time>,
    /// Processors of the computations; [`NONE`] for one that takes no time.
    processors: Vec<u32>,
    processor_count: u32,
}

impl TaskGraph {
    /// Returns the number of tasks that are flows.
    pub fn flow_count(&self) -> usize {
        self.flow_count as usize
    }

    /// Returns the number of tasks that are computations or joins.
    pub fn computation_count(&self) -> usize {
        self.durations.len()
    }

    fn task_count(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// Returns the successors of a task, with their marks.
    fn successors(&self, task: u32) -> &[u32] {
        &self.successors[self.begins[task as usize] as usize..self.begins[task as usize + 1] as usize]
    }

    /// Returns the number of events that each task waits for.
    fn waits(&self) -> Vec<u32> {
        let mut waits = vec![0; self.task_count()];
        self.successors.iter().for_each(|next| waits[(next & !AT_START) as usize] += 1);
        waits
    }

    /// Returns a task that waits, perhaps through others, for itself.
    fn circular(&self) -> Option<u32> {
        let mut waits = self.waits();
        let mut ready: Vec<u32> =
            (0u32..).zip(&waits).filter(|(_, waits)| **waits == 0).map(|(task, _)| task).collect();
        while let Some(task) = ready.pop() {
            for next in self.successors(task).iter().map(|next| next & !AT_START) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    ready.push(next);
                }
            }
        }
        let is_left = |task: u32| waits[task as usize] > 0;
        let mut at = (0..self.task_count() as u32).find(|task| is_left(*task))?;
        // Every task that is left waits for another one that is left: a walk back ends in a circle.
        let mut before = vec![NONE; self.task_count()];
        for task in (0..self.task_count() as u32).filter(|task| is_left(*task)) {
            self.successors(task).iter().for_each(|next| before[(next & !AT_START) as usize] = task);
        }
        for _ in 0..self.task_count() {
            at = before[at as usize];
        }
        Some(at)
    }

    fn with_durations_scaled(&self, scale: f64) -> TaskGraph {
        let scaled = |time: &Time| Time::from_s_f64(time.as_s_f64() * scale);
        TaskGraph { durations: self.durations.iter().map(scaled).collect(), ..self.clone() }
    }
}

/// A transfer between two ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) group: u32,
    pub(crate) size_bytes: u64,
}

/// An execution trace: what ranks compute and send, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskTrace {
    file: String,
    rank_count: u32,
    transfers: Vec<Transfer>,
    graph: Arc<TaskGraph>,
}

/// How an execution trace is fitted to a topology.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TaskOptions {
    /// The hosts of the ranks, whose number is that of the trace.
    pub ranks: RankOptions,
    /// Sizes are multiplied by this (and are then at least 1 byte).
    pub size_scale: f64,
    /// Durations of computations are multiplied by this.
    pub time_scale: f64,
}

impl Default for TaskOptions {
    fn default() -> TaskOptions {
        TaskOptions { ranks: RankOptions::default(), size_scale: 1.0, time_scale: 1.0 }
    }
}

impl TaskTrace {
    /// Returns the flows of a run with the graph that starts them. The seed decides a shuffled
    /// placement and nothing else.
    ///
    /// # Errors
    /// More ranks than hosts, or another number of ranks in the options than in the trace.
    pub fn flows(&self, topology: &Topology, options: &TaskOptions, seed: u64) -> Result<FlowList, CollectiveError> {
        if let Some(asked) = options.ranks.count.filter(|asked| *asked != self.rank_count) {
            return Err(CollectiveError::RanksOfTrace { traced: self.rank_count, asked });
        }
        let hosts = RankOptions { count: Some(self.rank_count), ..options.ranks }.hosts(topology, seed)?;
        let size = |bytes: u64| match options.size_scale {
            // Kept exact where nothing is scaled: beyond 2^53 a float would round.
            1.0 => bytes,
            scale => (libm::round(bytes as f64 * scale) as u64).max(1),
        };
        let graph = match options.time_scale {
            1.0 => Arc::clone(&self.graph),
            scale => Arc::new(self.graph.with_durations_scaled(scale)),
        };
        let waits = graph.waits();
        let flow = |(transfer, waits): (&Transfer, &u32)| Flow {
            src: hosts[transfer.src as usize],
            dst: hosts[transfer.dst as usize],
            size_bytes: size(transfer.size_bytes),
            start: if *waits == 0 { Start::At(Time::ZERO) } else { Start::AfterTasks },
            group: transfer.group,
        };
        let flows = self.transfers.iter().zip(&waits).map(flow).collect();
        Ok(FlowList { flows, description: self.describe(options), tasks: Some(graph), ..FlowList::default() })
    }

    pub fn describe(&self, options: &TaskOptions) -> String {
        format!(
            "execution trace {} of {} transfers and {} other tasks on {} ranks, {}, sizes x {}, computation x {}",
            self.file,
            self.transfers.len(),
            self.graph.computation_count(),
            self.rank_count,
            options.ranks.placement,
            options.size_scale,
            options.time_scale
        )
    }
}
