//! A disk in memory that distinguishes what programs see from what survives a power failure, and
//! fails on request.
//!
//! Failed flushes are as bad as on Linux: what they should have written is lost, and flushing it
//! again reports success.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;

use super::{Disk, disk::NewFile};

/// Result of an operation that was chosen to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// An error; nothing is done. Of a write, the first half is done.
    Error,
    /// An error, although everything is done.
    ErrorAfterwards,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    content: Vec<u8>,
    /// Content on disk; `None` if it was never flushed.
    flushed: Option<Vec<u8>>,
    /// A flush failed: later ones succeed without writing.
    is_marked_clean: bool,
}

/// Inodes by the paths of their names.
type Names = BTreeMap<PathBuf, usize>;

#[derive(Clone, Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: Names,
    flushed_names: Names,
    /// Changes of names that are not on disk, in order: each sets or removes some names.
    pending: Vec<Vec<(PathBuf, Option<usize>)>>,
    /// Number of pending changes when the flush of the folder failed: until there is another one,
    /// flushes succeed without writing.
    marked_clean: Option<usize>,
    operations: usize,
    failing: Range<usize>,
    fault: Option<Fault>,
    is_stalled: bool,
    fails_reads: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk(Arc<(Mutex<State>, Condvar)>);

impl SimDisk {
    /// Lets the operations of these numbers fail, counted from now.
    pub(crate) fn fail(&self, operations: Range<usize>, fault: Fault) {
        let mut state = self.state();
        let now = state.operations;
        state.failing = now + operations.start..now.saturating_add(operations.end);
        state.fault = Some(fault);
    }

    /// Lets all operations wait, or ends that.
    pub(crate) fn stall(&self, is_stalled: bool) {
        self.state().is_stalled = is_stalled;
        self.0.1.notify_all();
    }

    /// Lets all reads fail as on a damaged medium.
    pub(crate) fn fail_reads(&self) {
        self.state().fails_reads = true;
    }

    pub(crate) fn operations(&self) -> usize {
        self.state().operations
    }

    /// Returns the disk as a restarted program finds it.
    pub(crate) fn after_restart(&self) -> SimDisk {
        SimDisk::with(State { fault: None, fails_reads: false, ..self.state().clone() })
    }

    /// Returns all disks that a power failure can leave: any beginning of the pending names, and
    /// nothing, half or all of each content that was not flushed.
    pub(crate) fn after_power_failures(&self) -> Vec<SimDisk> {
        let state = self.state();
        let mut disks = Vec::new();
        for done in 0..=state.pending.len() {
            let mut names = state.flushed_names.clone();
            state.pending[..done].iter().flatten().for_each(|(path, inode)| set(&mut names, path, *inode));
            for parts in 0..=2 {
                let of = |inode: &Inode| {
                    let torn = inode.content[..inode.content.len() * parts / 2].to_vec();
                    let content = inode.flushed.clone().unwrap_or(torn);
                    Inode { flushed: Some(content.clone()), content, is_marked_clean: false }
                };
                let (inodes, flushed_names) = (state.inodes.iter().map(of).collect(), names.clone());
                disks.push(SimDisk::with(State { inodes, names: names.clone(), flushed_names, ..State::default() }));
            }
        }
        disks
    }

    fn with(state: State) -> SimDisk {
        SimDisk(Arc::new((Mutex::new(state), Condvar::new())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state as soon as the disk responds.
    fn ready(&self) -> MutexGuard<'_, State> {
        let (state, woken) = &*self.0;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        woken.wait_while(state, |state| state.is_stalled).unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(names: &mut Names, path: &Path, inode: Option<usize>) {
    match inode {
        Some(inode) => names.insert(path.to_owned(), inode),
        None => names.remove(path),
    };
}

impl State {
    /// Counts an operation. Returns its fault.
    fn begin(&mut self) -> Option<Fault> {
        self.operations += 1;
        self.fault.filter(|_| self.failing.contains(&(self.operations - 1)))
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn change_names(&mut self, changes: &[(&Path, Option<usize>)]) -> io::Result<()> {
        let fault = self.begin();
        if fault != Some(Fault::Error) {
            changes.iter().for_each(|(path, inode)| set(&mut self.names, path, *inode));
            self.pending.push(changes.iter().map(|(path, inode)| ((*path).to_owned(), *inode)).collect());
        }
        fault.map_or(Ok(()), |_| Err(io::Error::other("injected I/O error")))
    }
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
}

impl Write for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.ready();
        let fault = state.begin();
        let length = if fault == Some(Fault::Error) { bytes.len() / 2 } else { bytes.len() };
        state.inodes[self.inode].content.extend_from_slice(&bytes[..length]);
        fault.map_or(Ok(length), |_| Err(io::ErrorKind::StorageFull.into()))
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile for SimFile {
    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.ready();
        let fault = state.begin();
        let inode = &mut state.inodes[self.inode];
        if fault == Some(Fault::Error) {
            inode.is_marked_clean = true;
        } else if !inode.is_marked_clean {
            inode.flushed = Some(inode.content.clone());
        }
        fault.map_or(Ok(()), |_| Err(io::Error::other("injected I/O error")))
    }
}

impl Disk for SimDisk {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let state = self.ready();
        if state.fails_reads {
            return Err(Errno::EIO.into());
        }
        Ok(state.inodes[state.find(file)?].content.clone())
    }
    fn create(&self, file: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut state = self.ready();
        if state.find(file).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.inodes.push(Inode::default());
        let inode = state.inodes.len() - 1;
        state.change_names(&[(file, Some(inode))])?;
        Ok(Box::new(SimFile { disk: self.clone(), inode }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.ready();
        let inode = state.find(from)?;
        state.change_names(&[(from, None), (to, Some(inode))])
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.ready();
        let inode = state.find(from)?;
        state.change_names(&[(to, Some(inode))])
    }
    fn remove(&self, file: &Path) -> io::Result<()> {
        let mut state = self.ready();
        state.find(file)?;
        state.change_names(&[(file, None)])
    }
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let state = self.ready();
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.filter_map(|path| Some(path.file_name()?.to_owned())).collect())
    }
    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut state = self.ready();
        let fault = state.begin();
        let pending = state.pending.len();
        if fault == Some(Fault::Error) {
            state.marked_clean = Some(pending);
        } else if state.marked_clean != Some(pending) {
            state.pending.clear();
            state.flushed_names = state.names.clone();
            state.marked_clean = None;
        }
        fault.map_or(Ok(()), |_| Err(io::Error::other("injected I/O error")))
    }
}
