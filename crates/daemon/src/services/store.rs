//! The file of desired services: the only copy of the changes that clients were promised.
//!
//! Damage therefore refuses to start, and a change whose fate on disk is unknown stops all further
//! changes until a complete rewrite has succeeded (`docs/decisions/0004-stored-files.md`).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Desired;
use crate::storage::{Disk, Format, LoadError, ReplaceError, StoredFile, Versions, with_suffix};

const FORMAT: Format = Format { kind: "anabranch-services", oldest: 2, newest: 3, bare: 2 };

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use the store of services {file}")]
    Io { file: String, source: io::Error },
    #[error("another daemon uses the store of services {file}")]
    InUse { file: String },
    #[error("cannot read the store of services {file}: {message}; the file was left unchanged: {remedy}")]
    Content { file: String, message: String, remedy: String },
}

/// The reason why a change was not stored, or may not have been.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// The change was not made.
    #[error("{0}")]
    Rejected(io::Error),
    /// The change may be there after a restart.
    #[error(
        "the outcome of this change is unknown: {0}; the daemon does not use it, but a restart may. Repair the disk of \
         the state file, then repeat the change"
    )]
    Unknown(String),
    /// The change was not made, because the fate of an earlier one is unknown.
    #[error(
        "the change was not made: the state file cannot be written since an earlier failure: {0}. Repair its disk, \
         then repeat the change"
    )]
    Halted(String),
}

#[derive(Debug)]
pub(crate) struct Store {
    file: StoredFile,
    versions: Versions,
    state: Mutex<State>,
    /// Held as long as the store exists.
    _lock: Option<File>,
}

#[derive(Debug)]
struct State {
    /// The body that was stored last; the file has it unless `failure` is set.
    confirmed: Vec<u8>,
    /// The failure since which the content on disk is unknown.
    failure: Option<String>,
}

impl Store {
    /// Opens the store and locks it against other daemons.
    pub(crate) fn open(disk: Arc<dyn Disk>, file: &Path, versions: usize) -> Result<(Store, Desired), StoreError> {
        let name = || file.display().to_string();
        let failed = |source| StoreError::Io { file: name(), source };
        let lock = File::options().create(true).truncate(false).write(true).open(with_suffix(file, ".lock"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse { file: name() }),
            Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        let (store, desired) = Store::load(disk, file, versions)?;
        Ok((Store { _lock: Some(lock), ..store }, desired))
    }

    fn load(disk: Arc<dyn Disk>, file: &Path, versions: usize) -> Result<(Store, Desired), StoreError> {
        let file = StoredFile { disk, path: file.to_owned(), format: FORMAT };
        let name = file.path.display().to_string();
        let content = |message: String| StoreError::Content { file: name.clone(), message, remedy: remedy(&file) };
        let body = match file.load() {
            Ok(body) => body,
            Err(LoadError::Io(source)) => return Err(StoreError::Io { file: name, source }),
            Err(LoadError::Content(error)) => return Err(content(error.to_string())),
        };
        let desired = match &body {
            Some(body) => serde_json::from_slice(body).map_err(|error| content(error.to_string()))?,
            None => Desired::default(),
        };
        let confirmed = body.clone().map_or_else(|| encode(&desired), Ok);
        let confirmed = confirmed.map_err(|source| StoreError::Io { file: name, source })?;
        let store = Store {
            file,
            versions: Versions { count: versions },
            state: Mutex::new(State { confirmed, failure: None }),
            _lock: None,
        };
        if body.is_some() {
            store.confirm();
        }
        Ok((store, desired))
    }

    /// Writes what was read again: the previous instance may have ended before the content was on
    /// disk, and clients are about to see it. A failure does not prevent the start, because the
    /// content is intact and the network needs its controller.
    fn confirm(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current =
            self.file.disk.read(&self.file.path).is_ok_and(|bytes| bytes == FORMAT.encode(&state.confirmed));
        if !is_current {
            // Another version wrote the file: the operator may want to return to that version.
            self.keep_version();
        }
        if let Err(error) = self.file.replace(&state.confirmed) {
            tracing::error!("{} cannot be written: {error}; changes of services are refused", self.file.path.display());
            state.failure = Some(error.to_string());
        }
    }

    pub(crate) fn path_for(state: &Path) -> PathBuf {
        with_suffix(state, ".services")
    }

    pub(crate) fn write(&self, desired: &Desired) -> Result<(), WriteError> {
        let body = encode(desired).map_err(WriteError::Rejected)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.recover(&mut state)?;
        let kept = self.keep_version();
        let Err(failure) = self.file.replace(&body) else {
            state.confirmed = body;
            if let Err(error) = self.versions.prune(&self.file) {
                tracing::warn!("cannot remove old versions of {}: {error}", self.file.path.display());
            }
            return Ok(());
        };
        // Otherwise repeated failures would displace the real versions.
        kept.map(|version| self.file.disk.remove(&version));
        let error = match failure {
            ReplaceError::Kept(error) => return Err(WriteError::Rejected(error)),
            ReplaceError::Unknown(error) => error,
        };
        // The file may have the new body. If the old one can be written, the change is undone.
        if self.file.replace(&state.confirmed).is_ok() {
            return Err(WriteError::Rejected(error));
        }
        tracing::error!("the content of {} on disk is unknown: {error}", self.file.path.display());
        state.failure = Some(error.to_string());
        Err(WriteError::Unknown(error.to_string()))
    }

    /// Ends the state after a failure by a complete rewrite of what was acknowledged.
    fn recover(&self, state: &mut State) -> Result<(), WriteError> {
        let Some(failure) = &state.failure else { return Ok(()) };
        match self.file.replace(&state.confirmed) {
            Ok(()) => {
                tracing::info!("{} was written again; changes are accepted", self.file.path.display());
                state.failure = None;
                Ok(())
            }
            Err(error) => Err(WriteError::Halted(format!("{failure}; now: {error}"))),
        }
    }

    /// Versions are an aid for operators: a file system without hard links has none.
    fn keep_version(&self) -> Option<PathBuf> {
        self.versions.keep(&self.file).unwrap_or_else(|error| {
            tracing::warn!("cannot keep the present version of {}: {error}", self.file.path.display());
            None
        })
    }
}

fn encode(desired: &Desired) -> io::Result<Vec<u8>> {
    let mut body = serde_json::to_vec_pretty(desired)?;
    body.push(b'\n');
    Ok(body)
}

fn remedy(file: &StoredFile) -> String {
    let path = file.path.display();
    match Versions::newest_intact(file) {
        Some(version) => {
            format!("the newest intact version is before the last change: cp {} {path}", version.display())
        }
        None => "restore a copy, or move the file away to start without services".to_owned(),
    }
}

#[cfg(test)]
mod tests;
