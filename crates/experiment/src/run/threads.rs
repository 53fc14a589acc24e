//! Threads for the partitions of one simulation.

use std::thread;

use sim::Workers;

/// This number of threads, which last for one run.
#[derive(Clone, Copy, Debug)]
pub struct Threads(pub usize);

impl Workers for Threads {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        thread::scope(|scope| {
            for number in 1..threads {
                scope.spawn(move || work(number));
            }
            work(0);
        });
    }

    fn have_own_cores(&self, threads: usize) -> bool {
        thread::available_parallelism().is_ok_and(|cores| threads <= cores.get())
    }
}
