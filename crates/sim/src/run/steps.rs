//! Runs the partitions of a run, on one or several threads.
//!
//! In each step every partition receives what crossed over in the last one, runs, and sends. Threads claim
//! the partitions, each its own ones first. The thread that ends the last one decides on the next step. No
//! thread waits for one that has no partition, as when another program has its core. Steps with few
//! events are left to the thread that decides: the others would only wait.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::crossings::{Crossings, Departures};
use super::{Interruptions, Pacer, Report, Run, Status, is_interruption};
use crate::engine::Engine;
use crate::queue::{Event, NIL};
use crate::{SimError, Workers};

/// Attempts of a waiting thread before it sleeps: about a millisecond with a core for each thread, else
/// a few microseconds.
const SPINS: [u32; 2] = [100, 20_000];

/// Steps of the mean of their events.
const MEAN_STEPS: u64 = 256;

/// Spins before a thread runs a partition of another one, which may be late by less than the partition takes.
const PATIENCE: u32 = 500;

/// Number of the step after which threads leave.
const OVER: usize = usize::MAX;

/// A partition with what it sends, and how it stood at the end of its last step.
pub(super) struct Part<'r, 'a> {
    pub(super) engine: &'r mut Engine<'a>,
    space: Departures,
    status: Status,
}

impl<'r, 'a> Part<'r, 'a> {
    fn new(engine: &'r mut Engine<'a>, crossings: &Crossings) -> Part<'r, 'a> {
        let status = Status::of(engine);
        Part { engine, space: crossings.departures(), status }
    }

    fn run_step(&mut self, step: usize, end: Event, crossings: &Crossings) {
        self.receive(step.wrapping_sub(1), crossings);
        self.engine.run_step(end);
        crossings.send(step, self.engine, &mut self.space);
        self.status = Status::of(self.engine);
    }

    /// Takes what was sent to this partition in `step`.
    fn receive(&mut self, step: usize, crossings: &Crossings) {
        crossings.receive(step, self.engine, &mut self.space);
    }
}

/// The partitions, all of them locked.
pub(super) type Guards<'s, 'r, 'a> = [MutexGuard<'s, Part<'r, 'a>>];

/// What decides on the steps.
struct Decider<'r, 'a, 'p> {
    pacer: &'r mut Pacer,
    interruptions: &'r mut Interruptions<'a>,
    report: &'r mut Report<'p>,
    /// Events of the run so far.
    events: u64,
    /// Sum of the events of all steps, those of a step less by one part of [`MEAN_STEPS`] with each further step.
    recent_events: u64,
    is_stopped: bool,
}

impl Decider<'_, '_, '_> {
    /// Ends `step`, and returns the end of the next one. `None`: the run ends.
    fn next_step(
        &mut self,
        step: usize,
        end: Event,
        parts: &mut Guards<'_, '_, '_>,
        crossings: &Crossings,
    ) -> Option<Event> {
        if is_interruption(end) {
            parts.iter_mut().for_each(|part| part.receive(step, crossings));
            self.interruptions.act_at(end, parts);
            self.pacer.due = self.interruptions.due();
            self.is_stopped |= self.interruptions.watched.as_ref().is_some_and(|watched| watched.is_stopped);
            parts.iter_mut().for_each(|part| part.status = Status::of(part.engine));
        }
        let status = parts.iter().map(|part| part.status).fold(Status::NONE, Status::and);
        self.pacer.now = end.time;
        self.recent_events += status.events - self.events;
        self.recent_events -= self.recent_events / MEAN_STEPS;
        self.events = status.events;
        self.is_stopped |= self.pacer.report(status).is_some_and(|progress| !(self.report)(&progress));
        if self.is_stopped { None } else { self.pacer.next_step(status) }
    }

    /// Returns the mean number of events of the last steps.
    fn events_per_step(&self) -> u64 {
        self.recent_events / MEAN_STEPS
    }
}

/// Last step in which a partition was claimed, alone in its cache line.
#[repr(align(64))]
#[derive(Default)]
struct Claim(AtomicUsize);

/// The step that threads share.
struct Board {
    step: AtomicUsize,
    /// End of the step: its time and component.
    end: (AtomicU64, AtomicU32),
    /// Last claims, by number of the partition.
    claims: Vec<Claim>,
    /// Partitions that have not ended the step.
    left: AtomicUsize,
    spins: u32,
    sleeping: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Board {
    fn new(partitions: usize, have_own_cores: bool) -> Board {
        Board {
            step: AtomicUsize::new(0),
            end: (AtomicU64::new(0), AtomicU32::new(NIL)),
            claims: (0..partitions).map(|_| Claim::default()).collect(),
            left: AtomicUsize::new(0),
            spins: SPINS[usize::from(have_own_cores)],
            sleeping: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Offers a step to all threads; [`OVER`] ends their work.
    fn publish(&self, step: usize, end: Event) {
        self.end.0.store(end.time, Ordering::Relaxed);
        self.end.1.store(end.component, Ordering::Relaxed);
        self.left.store(self.claims.len(), Ordering::Relaxed);
        self.step.store(step, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            // A thread that has counted itself holds this lock until it sleeps.
            drop(lock(&self.sleep));
            self.wake.notify_all();
        }
    }

    /// Waits for a step after `last`. `None`: the run has ended.
    fn step_after(&self, last: usize) -> Option<usize> {
        if !self.is_next_soon(last, self.spins) {
            let mut guard = lock(&self.sleep);
            self.sleeping.fetch_add(1, Ordering::SeqCst);
            while self.step.load(Ordering::SeqCst) == last {
                guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
        }
        Some(self.step.load(Ordering::Acquire)).filter(|next| *next != OVER)
    }

    /// Returns whether a step after `last` is offered before `spins` attempts have passed.
    fn is_next_soon(&self, last: usize, spins: u32) -> bool {
        (0..spins).any(|_| {
            std::hint::spin_loop();
            self.step.load(Ordering::Acquire) != last
        })
    }

    /// Returns the end of the step. It is valid for a thread that has then claimed a partition.
    fn end(&self) -> Event {
        Event { time: self.end.0.load(Ordering::Relaxed), component: self.end.1.load(Ordering::Relaxed) }
    }

    /// Returns whether the caller is to run a partition in `step`: no other has claimed it.
    fn claim(&self, partition: usize, step: usize) -> bool {
        self.claims[partition].0.fetch_max(step, Ordering::AcqRel) < step
    }
}

/// Ends the work of all threads when dropped: by a panic, since who ends normally forgets it.
struct Release<'b>(&'b Board);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.publish(OVER, Event::NEVER);
    }
}

/// Everything that the threads of a run share.
struct Shared<'r, 'a, 'p> {
    workers: &'r dyn Workers,
    threads: usize,
    parts: Vec<Mutex<Part<'r, 'a>>>,
    crossings: Crossings,
    decider: Mutex<Decider<'r, 'a, 'p>>,
    board: Board,
}

/// Locks what threads share. A thread that has panicked leaves it usable: the run ends by that panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run<'_> {
    /// Runs all steps, or until `report` returns false.
    pub(super) fn run_steps(&mut self, workers: &dyn Workers, report: &mut Report<'_>) -> Result<(), SimError> {
        let Run { engines, pacer, interruptions, .. } = self;
        let crossings = Crossings::new(engines.len());
        let threads = workers.count().clamp(1, engines.len());
        let parts: Vec<_> = engines.iter_mut().map(|engine| Mutex::new(Part::new(engine, &crossings))).collect();
        let (events, recent_events) = (0, 0);
        let decider = Decider { pacer, interruptions, report, events, recent_events, is_stopped: false };
        let board = Board::new(parts.len(), workers.have_own_cores(threads));
        let shared = Shared { workers, threads, parts, crossings, decider: Mutex::new(decider), board };
        if threads > 1 {
            workers.run(threads, &|thread| shared.work(thread));
        } else {
            shared.work(0);
        }
        for part in &shared.parts {
            // One of them has what the last step sent, the other nothing.
            (0..2).for_each(|step| lock(part).receive(step, &shared.crossings));
        }
        if lock(&shared.decider).is_stopped { Err(SimError::Interrupted) } else { Ok(()) }
    }
}

impl Shared<'_, '_, '_> {
    fn work(&self, thread: usize) {
        let release = Release(&self.board);
        if thread == 0 {
            self.lead(0, Event { time: 0, component: NIL });
        }
        let (mut last, mut patience) = (0, PATIENCE);
        while let Some(step) = self.board.step_after(last) {
            self.take_part(thread, step, &mut patience);
            last = step;
        }
        std::mem::forget(release);
    }

    /// Runs the partitions of a thread in a step, and those of threads that do not come.
    fn take_part(&self, thread: usize, step: usize, patience: &mut u32) {
        let end = self.board.end();
        let claimed = |partition: usize| {
            let is_claimed = self.board.claim(partition, step);
            if is_claimed {
                lock(&self.parts[partition]).run_step(step, end, &self.crossings);
            }
            is_claimed
        };
        let own = (thread..self.parts.len()).step_by(self.threads);
        let run = own.filter(|partition| claimed(*partition)).count();
        if self.end_partitions(run, step, end) || self.board.is_next_soon(step, *patience) {
            return;
        }
        let others = (0..self.parts.len()).filter(|partition| partition % self.threads != thread);
        let run = others.filter(|partition| claimed(*partition)).count();
        // A thread that was late once is not waited for, until it comes in time again.
        *patience = if run > 0 { 0 } else { PATIENCE };
        self.end_partitions(run, step, end);
    }

    /// Notes that `run` partitions have ended a step. Who ends the last one leads, and gets true.
    fn end_partitions(&self, run: usize, step: usize, end: Event) -> bool {
        let is_last = run > 0 && self.board.left.fetch_sub(run, Ordering::AcqRel) == run;
        if is_last {
            self.lead(step, end);
        }
        is_last
    }

    /// Ends a step and runs further ones alone, up to one that all threads share or to the end.
    fn lead(&self, mut step: usize, mut end: Event) {
        let mut decider = lock(&self.decider);
        let mut parts: Vec<_> = self.parts.iter().map(lock).collect();
        while let Some(next) = decider.next_step(step, end, &mut parts, &self.crossings) {
            (step, end) = (step + 1, next);
            if self.threads > 1 && self.workers.share_steps(decider.events_per_step() / self.threads as u64) {
                drop((parts, decider));
                return self.board.publish(step, end);
            }
            parts.iter_mut().for_each(|part| part.run_step(step, end, &self.crossings));
        }
        self.board.publish(OVER, Event::NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other threads would wait forever, and with them the run.
    #[test]
    fn a_panic_ends_the_work_of_all_threads() {
        let board = Board::new(3, false);
        board.publish(7, Event::NEVER);
        assert_eq!(board.step_after(0), Some(7));
        let failed = std::panic::catch_unwind(|| {
            let _release = Release(&board);
            panic!("a thread panics in a step");
        });
        assert!(failed.is_err());
        assert_eq!(board.step_after(7), None);
    }

    #[test]
    fn a_partition_is_claimed_once_a_step() {
        let board = Board::new(2, true);
        board.publish(4, Event::NEVER);
        assert!(board.claim(1, 4) && board.claim(0, 4));
        assert!(!board.claim(1, 4), "taken");
        // Steps that one thread runs alone are not claimed.
        board.publish(9, Event::NEVER);
        assert!(board.claim(1, 9));
        assert!(!board.claim(1, 4), "a thread that comes late");
    }
}
