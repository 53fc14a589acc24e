//! A task graph from the tasks of a trace in any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::Time;

use super::{AT_START, NONE, TaskGraph, TaskTrace, Transfer};
use crate::generate::FLOWS_MAX;

/// Maximum number of dependencies: four for each task.
const WAITS_MAX: usize = 4 * FLOWS_MAX as usize;

/// Mark of a computation until the number of flows is known.
const COMPUTATION: u32 = 1 << 31;

/// The largest duration, so that times of a run stay in range.
pub(crate) const DURATION_MAX: Time = crate::generate::START_MAX;

/// A task whose final number is not known yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Task(u32);

/// An error at a place of the trace: a line of a text, or the position of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Problem {
    pub(crate) place: u32,
    pub(crate) text: String,
}

impl Problem {
    /// The place of a problem of the trace as a whole.
    pub(crate) const WHOLE: u32 = u32::MAX;

    pub(crate) fn new(place: u32, text: impl Into<String>) -> Problem {
        Problem { place, text: text.into() }
    }
}

/// One side of a message.
#[derive(Clone, Copy, Debug)]
struct Endpoint {
    src: u32,
    dst: u32,
    tag: u32,
    place: u32,
    task: Task,
}

/// A graph to which tasks and dependencies are added.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    transfers: Vec<Transfer>,
    transfer_places: Vec<u32>,
    durations: Vec<Time>,
    processors: Vec<u32>,
    computation_places: Vec<u32>,
    processor_count: u32,
    /// Pairs of a task and one that waits for it, the latter perhaps with [`AT_START`].
    waits: Vec<(Task, u32)>,
    sends: Vec<Endpoint>,
    receipts: Vec<Endpoint>,
}

impl Builder {
    pub(crate) fn wait_count(&self) -> usize {
        self.waits.len()
    }

    /// Returns an error if `more` further tasks would be too many.
    pub(crate) fn reserve(&self, more: u64) -> Result<(), String> {
        let tasks = (self.transfers.len() + self.durations.len()) as u64;
        if tasks.saturating_add(more) <= u64::from(FLOWS_MAX) {
            return Ok(());
        }
        Err(format!("that is more than {FLOWS_MAX} tasks; use a shorter trace, or one of fewer ranks"))
    }

    /// Returns an error if `more` further dependencies would be too many.
    pub(crate) fn reserve_waits(&self, more: usize) -> Result<(), String> {
        if self.waits.len() + more <= WAITS_MAX {
            return Ok(());
        }
        Err(format!("that is more than {WAITS_MAX} dependencies; use a shorter trace, or one of fewer ranks"))
    }

    /// Adds a transfer between two ranks, or a join for one that stays within a rank. A message
    /// without payload is one of 1 byte, since its packet takes part in the traffic.
    pub(crate) fn transfer(&mut self, transfer: Transfer, place: u32) -> Result<Task, String> {
        if transfer.src == transfer.dst {
            return self.join(place);
        }
        self.reserve(1)?;
        self.transfers.push(Transfer { size_bytes: transfer.size_bytes.max(1), ..transfer });
        self.transfer_places.push(place);
        Ok(Task(self.transfers.len() as u32 - 1))
    }

    /// Returns the number of a new processor.
    pub(crate) fn processor(&mut self) -> u32 {
        self.processor_count += 1;
        self.processor_count - 1
    }

    pub(crate) fn computation(&mut self, processor: u32, duration: Time, place: u32) -> Result<Task, String> {
        self.reserve(1)?;
        self.durations.push(duration);
        self.processors.push(processor);
        self.computation_places.push(place);
        Ok(Task(COMPUTATION | (self.durations.len() as u32 - 1)))
    }

    /// Adds a task that takes no time.
    pub(crate) fn join(&mut self, place: u32) -> Result<Task, String> {
        self.computation(NONE, Time::ZERO, place)
    }

    pub(crate) fn is_join(&self, task: Task) -> bool {
        task.0 & COMPUTATION != 0 && self.processors[(task.0 & !COMPUTATION) as usize] == NONE
    }

    /// Lets `waiting` start after `awaited` has ended.
    pub(crate) fn after(&mut self, waiting: Task, awaited: Task) -> Result<(), String> {
        self.reserve_waits(1)?;
        self.waits.push((awaited, waiting.0));
        Ok(())
    }

    /// Lets `waiting` start after `awaited` has started.
    pub(crate) fn after_start(&mut self, waiting: Task, awaited: Task) -> Result<(), String> {
        self.reserve_waits(1)?;
        self.waits.push((awaited, waiting.0 | AT_START));
        Ok(())
    }

    /// Lets tasks start after receipts have started, given as `(waiting, receipt, place)`.
    ///
    /// A receipt starts when it waits for nothing but its message. A further join waits for the
    /// same dependencies without the message; they are those after the first `since`.
    pub(crate) fn after_posts(&mut self, posts: &[(Task, Task, u32)], since: usize) -> Result<(), Problem> {
        let mut joins: BTreeMap<u32, Task> = BTreeMap::new();
        for (waiting, receipt, place) in posts {
            let at = |text| Problem::new(*place, text);
            let join = match joins.get(&receipt.0) {
                Some(join) => *join,
                None => self.join(*place).map_err(at)?,
            };
            joins.insert(receipt.0, join);
            self.after(*waiting, join).map_err(at)?;
        }
        if posts.is_empty() {
            return Ok(());
        }
        for ix in since..self.waits.len() {
            let (awaited, waiting) = self.waits[ix];
            if let Some(join) = joins.get(&(waiting & !AT_START)) {
                self.reserve_waits(1).map_err(|text| Problem::new(posts[0].2, text))?;
                self.waits.push((awaited, join.0 | waiting & AT_START));
            }
        }
        Ok(())
    }

    /// Declares that `task` sends from one rank to another.
    pub(crate) fn send(&mut self, (src, dst, tag): (u32, u32, u32), task: Task, place: u32) {
        self.sends.push(Endpoint { src, dst, tag, place, task });
    }

    /// Declares that `task` receives the message of the matching send.
    pub(crate) fn receipt(&mut self, (src, dst, tag): (u32, u32, u32), task: Task, place: u32) {
        self.receipts.push(Endpoint { src, dst, tag, place, task });
    }

    /// Pairs sends and receipts of the same ranks and tag, in order.
    fn pair(&mut self) -> Result<(), Problem> {
        let (mut sends, mut receipts) = (std::mem::take(&mut self.sends), std::mem::take(&mut self.receipts));
        let names = |end: &Endpoint| (end.src, end.dst, end.tag);
        for ends in [&mut sends, &mut receipts] {
            ends.sort_unstable_by_key(|end| (names(end), end.place));
        }
        let (mut sends, mut receipts) = (sends.iter().peekable(), receipts.iter().peekable());
        let unmatched = |end: &Endpoint, side: &str, other: &str| {
            let Endpoint { src, dst, tag, .. } = end;
            let text =
                format!("the {side} from rank {src} to rank {dst} with tag {tag} has no {other}; add the {other}");
            Err(Problem::new(end.place, text))
        };
        loop {
            match (sends.peek(), receipts.peek()) {
                (None, None) => return Ok(()),
                (Some(send), Some(receipt)) if names(send) == names(receipt) => {
                    self.after(receipt.task, send.task).map_err(|text| Problem::new(receipt.place, text))?;
                    sends.next();
                    receipts.next();
                }
                (Some(send), receipt) if receipt.is_none_or(|receipt| names(send) < names(receipt)) => {
                    return unmatched(send, "send", "recv");
                }
                (_, Some(receipt)) => return unmatched(receipt, "recv", "send"),
                (Some(send), None) => return unmatched(send, "send", "recv"),
            }
        }
    }

    /// Returns the trace of this name.
    pub(crate) fn finish(mut self, file: &str, rank_count: u32) -> Result<TaskTrace, Problem> {
        self.pair()?;
        if self.transfers.is_empty() {
            let text = "there is no transfer between two ranks; nothing would be sent";
            return Err(Problem::new(Problem::WHOLE, text));
        }
        let flow_count = self.transfers.len() as u32;
        let number = |task: u32| if task & COMPUTATION == 0 { task } else { flow_count + (task & !COMPUTATION) };
        let mut begins = vec![0u32; self.transfers.len() + self.durations.len() + 1];
        self.waits.iter().for_each(|(awaited, _)| begins[number(awaited.0) as usize] += 1);
        let mut sum = 0;
        for begin in &mut begins {
            sum += std::mem::replace(begin, sum);
        }
        let mut successors = vec![0u32; self.waits.len()];
        for (awaited, waiting) in std::mem::take(&mut self.waits) {
            let end = &mut begins[number(awaited.0) as usize];
            successors[*end as usize] = number(waiting & !AT_START) | waiting & AT_START;
            *end += 1;
        }
        // Each begin has moved to the end of its part, where the next part begins.
        begins.rotate_right(1);
        begins[0] = 0;
        let Builder { transfers, durations, processors, processor_count, .. } = self;
        let graph = TaskGraph { flow_count, begins, successors, durations, processors, processor_count };
        if let Some(task) = graph.circular() {
            let place = match task.checked_sub(flow_count) {
                Some(computation) => self.computation_places[computation as usize],
                None => self.transfer_places[task as usize],
            };
            return Err(Problem::new(
                place,
                "it waits, directly or through others, for itself; remove a dependency of this circle",
            ));
        }
        Ok(TaskTrace { file: file.to_owned(), rank_count, transfers, graph: Arc::new(graph) })
    }
}
