//! Keeps the processors of the switches free of this process.

use std::collections::BTreeMap;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use procfs::process::Process;

/// Affinity of this process, restored when dropped.
///
/// Only threads of this process are pinned. The shell that started it stays unpinned, and so does
/// the process that adopts the driver if `anabranch` is killed.
pub struct CpuAffinity {
    former: BTreeMap<i32, CpuSet>,
    default: CpuSet,
}

impl CpuAffinity {
    /// Pins all existing threads, and the threads they create, to `processors` (kernel numbers).
    /// Returns `None` if the kernel rejects the affinity mask; the run continues with less accurate
    /// timing.
    pub fn pin(processors: &[usize]) -> Option<CpuAffinity> {
        let default = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut pinned = CpuSet::new();
        for processor in processors {
            pinned.set(*processor).ok()?;
        }
        let mut former = BTreeMap::new();
        for thread in threads() {
            // A thread that has just ended has no affinity.
            let Ok(set) = sched_getaffinity(Pid::from_raw(thread)) else { continue };
            former.insert(thread, set);
            let _ = sched_setaffinity(Pid::from_raw(thread), &pinned);
        }
        Some(CpuAffinity { former, default })
    }
}

impl Drop for CpuAffinity {
    fn drop(&mut self) {
        for thread in threads() {
            let set = self.former.get(&thread).unwrap_or(&self.default);
            let _ = sched_setaffinity(Pid::from_raw(thread), set);
        }
    }
}

fn threads() -> Vec<i32> {
    let tasks = Process::myself().and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten().map(|task| task.tid).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    fn processors(thread: i32) -> Vec<usize> {
        let set = sched_getaffinity(Pid::from_raw(thread)).expect("our own");
        (0..CpuSet::count()).filter(|processor| set.is_set(*processor) == Ok(true)).collect()
    }

    #[test]
    fn dropping_affinity_restores_threads() {
        let parent = nix::unistd::getppid().as_raw();
        let (before, parent_before) = (processors(0), processors(parent));
        let first = before[..1].to_vec();
        let (end, ended) = channel::<()>();
        let (sender, receiver) = channel();
        let older = thread::spawn(move || {
            sender.send(nix::unistd::gettid().as_raw()).expect("the test receives");
            ended.recv()
        });
        let older_id = receiver.recv().expect("the thread sends its id");
        let kept = CpuAffinity::pin(&first).expect("our own processors");
        let younger = thread::spawn(|| processors(0));
        assert_eq!((processors(0), processors(older_id)), (first.clone(), first.clone()));
        assert_eq!(younger.join().expect("it does nothing wrong"), first);
        assert_eq!(processors(parent), parent_before);
        drop(kept);
        assert_eq!((processors(0), processors(older_id)), (before.clone(), before));
        end.send(()).expect("it waits");
        older.join().expect("no panic").expect("the test ends it");
    }
}
