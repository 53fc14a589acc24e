//! Runs the partitions of a run on several threads.
//!
//! In each step every thread runs its partitions, waits for the others, and receives what crossed over.
//! Then all decide on the next step, by the same rule and the same numbers. Only where something acts on
//! all partitions do the others wait for the first thread, which does it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::crossings::{Crossings, Departures};
use super::{Interruptions, Pacer, Report, Run, Status, is_interruption, status_of};
use crate::engine::Engine;
use crate::queue::Event;
use crate::{SimError, Workers};

/// Attempts of a waiting thread before it sleeps: about a millisecond with a core for each thread, else
/// a few microseconds.
const SPINS: [u32; 2] = [100, 20_000];

/// A barrier whose threads spin for a while, since most steps take less time than waking a thread.
struct Barrier {
    threads: usize,
    spins: u32,
    waiting: AtomicUsize,
    round: AtomicUsize,
    sleeping: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    /// Whether a thread has panicked: it never arrives again.
    is_broken: AtomicBool,
}

/// Releases the other threads of a barrier if this thread panics.
struct Release<'b>(&'b Barrier);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::SeqCst);
            drop(lock(&self.0.sleep));
            self.0.wake.notify_all();
        }
    }
}

impl Barrier {
    fn new(threads: usize, have_own_cores: bool) -> Barrier {
        Barrier {
            threads,
            spins: SPINS[usize::from(have_own_cores)],
            waiting: AtomicUsize::new(0),
            round: AtomicUsize::new(0),
            sleeping: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Waits for the other threads. Returns false if one of them has panicked.
    #[must_use]
    fn wait(&self) -> bool {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::SeqCst);
            if self.sleeping.load(Ordering::SeqCst) > 0 {
                // A thread that has counted itself holds this lock until it sleeps.
                drop(lock(&self.sleep));
                self.wake.notify_all();
            }
            return true;
        }
        for _ in 0..self.spins {
            if self.round.load(Ordering::Acquire) != round {
                return true;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.sleep);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        while self.round.load(Ordering::SeqCst) == round && !self.is_broken.load(Ordering::SeqCst) {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
        self.round.load(Ordering::SeqCst) != round
    }
}

/// Everything that the threads of a run share.
struct Shared<'r, 'a> {
    engines: Vec<Mutex<&'r mut Engine<'a>>>,
    /// Status of each partition after even and odd steps.
    status: Vec<Mutex<Status>>,
    interruptions: Mutex<&'r mut Interruptions<'a>>,
    /// Status of all partitions after an interruption, and when the next ones are due.
    interrupted: Mutex<(Status, [Event; 2])>,
    /// Whether the run was asked to stop, after even and odd steps.
    is_stopped: [AtomicBool; 2],
    crossings: Crossings,
    barrier: Barrier,
}

/// Locks what threads share. A thread that has panicked leaves it usable: the run ends by that panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Run<'a> {
    pub(super) fn run_parallel(&mut self, workers: &dyn Workers, report: &mut Report<'_>) -> Result<(), SimError> {
        let threads = workers.count().min(self.engines.len());
        let Run { engines, pacer, interruptions, .. } = self;
        let first = status_of(&mut engines.iter_mut().collect::<Vec<_>>());
        let shared = Shared {
            status: (0..2 * engines.len()).map(|_| Mutex::new(Status::NONE)).collect(),
            interrupted: Mutex::new((first, pacer.due)),
            interruptions: Mutex::new(interruptions),
            is_stopped: [AtomicBool::new(false), AtomicBool::new(false)],
            crossings: Crossings::new(engines.len()),
            engines: engines.iter_mut().map(Mutex::new).collect(),
            barrier: Barrier::new(threads, workers.have_own_cores(threads)),
        };
        let begin = pacer.clone();
        let first_thread = Mutex::new((pacer, report));
        workers.run(threads, &|thread| {
            let mut never = |_: &crate::Progress| true;
            if thread == 0 {
                let (pacer, report) = &mut *lock(&first_thread);
                shared.work(0, pacer, first, *report);
            } else {
                shared.work(thread, &mut begin.clone(), first, &mut never);
            }
        });
        let is_stopped = shared.is_stopped.iter().any(|flag| flag.load(Ordering::Relaxed));
        if is_stopped { Err(SimError::Interrupted) } else { Ok(()) }
    }
}

impl Shared<'_, '_> {
    fn work(&self, thread: usize, pacer: &mut Pacer, first: Status, report: &mut Report<'_>) {
        let own: Vec<usize> = (thread..self.engines.len()).step_by(self.barrier.threads).collect();
        let mut space: Vec<Departures> = own.iter().map(|_| self.crossings.departures()).collect();
        let (mut status, mut step) = (first, 0);
        let _release = Release(&self.barrier);
        while let Some(end) = pacer.next_step(status) {
            for (partition, space) in own.iter().zip(&mut space) {
                let mut engine = lock(&self.engines[*partition]);
                engine.run_step(end);
                self.crossings.send(step, &mut engine, space);
                *lock(&self.status[self.place(step, *partition)]) = Status::of(&mut engine);
            }
            if !self.barrier.wait() {
                return;
            }
            for (partition, space) in own.iter().zip(&mut space) {
                self.crossings.receive(step, &mut lock(&self.engines[*partition]), space);
            }
            // Set by the first thread before the barrier.
            if self.is_stopped[step % 2].load(Ordering::Acquire) {
                return;
            }
            let all = (0..self.engines.len()).map(|partition| *lock(&self.status[self.place(step, partition)]));
            status = all.fold(Status::NONE, Status::and);
            if is_interruption(end) {
                if !self.barrier.wait() {
                    return;
                }
                if thread == 0 {
                    self.interrupt(end);
                }
                if !self.barrier.wait() {
                    return;
                }
                (status, pacer.due) = *lock(&self.interrupted);
            }
            pacer.now = end.time;
            step += 1;
            if pacer.report(status).is_some_and(|progress| !report(&progress)) {
                self.is_stopped[step % 2].store(true, Ordering::Release);
            }
        }
    }

    fn place(&self, step: usize, partition: usize) -> usize {
        (step % 2) * self.engines.len() + partition
    }

    fn interrupt(&self, end: Event) {
        let mut guards: Vec<_> = self.engines.iter().map(lock).collect();
        let mut engines: Vec<&mut Engine<'_>> = guards.iter_mut().map(|guard| &mut ***guard).collect();
        let mut interruptions = lock(&self.interruptions);
        interruptions.act_at(end, &mut engines);
        *lock(&self.interrupted) = (status_of(&mut engines), interruptions.due());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other threads would wait forever, and with them the run.
    #[test]
    fn threads_leave_a_barrier_if_one_panics() {
        let barrier = Barrier::new(3, false);
        let ends = |thread: u32| {
            let _release = Release(&barrier);
            let first = barrier.wait();
            assert!(thread > 0, "the first thread panics after a round");
            (first, barrier.wait())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || ends(thread))).collect();
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join().ok()).collect();
            assert_eq!(results, [None, Some((true, false)), Some((true, false))]);
        });
    }
}
