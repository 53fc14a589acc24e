//! Processors that are kept free for the switches.

use std::collections::BTreeMap;
use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// This process, kept to some processors until this is dropped; then every thread may run where it did before.
///
/// Only threads of our own: a shell we were started from, or whoever adopts a driver whose `anabranch` was killed, stays as it is.
pub struct Kept {
    former: BTreeMap<i32, CpuSet>,
    usual: CpuSet,
}

impl Kept {
    /// Keeps all threads there are now, and those they make, to these processors (numbers of the kernel). `None` where the kernel
    /// refuses: it costs accuracy, no result.
    pub fn to(processors: &[usize]) -> Option<Kept> {
        let usual = sched_getaffinity(Pid::from_raw(0)).ok()?;
        let mut wanted = CpuSet::new();
        for processor in processors {
            wanted.set(*processor).ok()?;
        }
        let mut former = BTreeMap::new();
        for thread in threads() {
            // One that has just ended needs no room.
            if let Ok(set) = sched_getaffinity(Pid::from_raw(thread)) {
                former.insert(thread, set);
                let _ = sched_setaffinity(Pid::from_raw(thread), &wanted);
            }
        }
        Some(Kept { former, usual })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for thread in threads() {
            let set = self.former.get(&thread).unwrap_or(&self.usual);
            let _ = sched_setaffinity(Pid::from_raw(thread), set);
        }
    }
}

/// Of this process.
fn threads() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
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
    fn threads_come_back_to_where_they_were() {
        let parent = nix::unistd::getppid().as_raw();
        let (ours, whoever_started_us) = (processors(0), processors(parent));
        let first = ours[..1].to_vec();
        let (end, ended) = channel::<()>();
        let (tell, told) = channel();
        let older = thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw()).expect("somebody listens");
            ended.recv()
        });
        let older_id = told.recv().expect("it says who it is");
        let kept = Kept::to(&first).expect("our own processors");
        let younger = thread::spawn(|| processors(0));
        assert_eq!((processors(0), processors(older_id)), (first.clone(), first.clone()));
        assert_eq!(younger.join().expect("it does nothing wrong"), first);
        assert_eq!(processors(parent), whoever_started_us);
        drop(kept);
        assert_eq!((processors(0), processors(older_id)), (ours.clone(), ours));
        end.send(()).expect("it waits");
        older.join().expect("no panic").expect("it was told");
    }
}
