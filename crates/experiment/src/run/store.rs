//! The results folder: records are appended as runs end; all other files are written atomically.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::checksums::Checksums;
use crate::records::{self, Appender};
use crate::results::flow_row::FlowRow;
use crate::summary::{RunRecord, Summary};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot write to {path}")]
    Write {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{path}:{line} is not a record of this program")]
    Content {
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        #[source]
        cause: serde_json::Error,
    },
    #[error("{path}:{line} was changed after its run: the hash does not match")]
    ChangedLine { path: PathBuf, line: usize },
    #[error("{path} is not the file that {sums} lists")]
    ChangedFile { path: PathBuf, sums: &'static str },
    #[error("{path} is not finished: it has no {sums}")]
    Unfinished { path: PathBuf, sums: &'static str },
    #[error("another process writes to the results folder {path}")]
    InUse { path: PathBuf },
}

#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Held as long as the store exists; `None` for readers.
    _lock: Option<File>,
}

const LOCK: &str = ".lock";
const RECORDS: &str = "runs.jsonl";
pub(crate) const SUMMARY: &str = "summary.json";
const PARTS: &str = "parts";

impl Store {
    /// Creates the folder if it does not exist, and locks it against other writers.
    pub fn create(folder: &Path) -> Result<Store, StoreError> {
        let store = Store::open(folder);
        if folder.is_file() {
            let cause = io::Error::new(io::ErrorKind::NotADirectory, "this is a file, not a folder");
            return Err(store.cannot_write(folder)(cause));
        }
        fs::create_dir_all(folder).map_err(store.cannot_write(folder))?;
        let path = folder.join(LOCK);
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(store.cannot_write(folder))?;
        match lock.try_lock() {
            Ok(()) => Ok(Store { _lock: Some(lock), ..store }),
            Err(fs::TryLockError::WouldBlock) => Err(StoreError::InUse { path: store.folder }),
            Err(fs::TryLockError::Error(cause)) => Err(store.cannot_write(&path)(cause)),
        }
    }

    /// Opens a folder for reading.
    pub fn open(folder: &Path) -> Store {
        Store { folder: folder.to_owned(), _lock: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file atomically: under a temporary name, then renamed.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        self.write_with(name, |file| file.write_all(content))
    }

    /// Copies a file into the folder, which may be that file.
    pub(crate) fn copy_file(&self, name: &str, from: &Path) -> Result<(), StoreError> {
        self.write_with(name, |file| io::copy(&mut File::open(from)?, file).map(drop))
    }

    fn write_with(&self, name: &str, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), StoreError> {
        let path = self.path(name);
        let partial = self.path(&format!("{name}.partial"));
        let write = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::create(&partial)?;
            content(&mut file)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|cause| {
            let _ = fs::remove_file(&partial);
            StoreError::Write { path: path.clone(), cause }
        })
    }

    pub fn summary(&self) -> Result<Summary, StoreError> {
        self.read(SUMMARY)
    }

    /// Reads the summary of a finished folder.
    ///
    /// # Errors
    /// It was changed after it was written.
    pub(crate) fn intact_summary(&self) -> Result<Summary, StoreError> {
        let summary = self.summary()?;
        let unfinished = || StoreError::Unfinished { path: self.folder.clone(), sums: Checksums::NAME };
        Checksums::read(self)?.ok_or_else(unfinished)?.check(self, SUMMARY)?;
        Ok(summary)
    }

    /// Reads a JSON file; `None` if it does not exist.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        match self.read(name) {
            Err(StoreError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let path = self.path(name);
        let text = fs::read_to_string(&path).map_err(|cause| StoreError::Read { path: path.clone(), cause })?;
        serde_json::from_str(&text).map_err(|cause| StoreError::Content { path, line: cause.line(), cause })
    }

    /// Reads all records, in the order they were appended; none if the file does not exist. A last
    /// line without an end is left out.
    pub fn records(&self) -> Result<Vec<RunRecord>, StoreError> {
        records::read(&self.path(RECORDS))
    }

    pub fn appender(&self) -> Result<Appender, StoreError> {
        Appender::open(&self.path(RECORDS))
    }

    pub fn write_records<'a>(&self, records: impl Iterator<Item = &'a RunRecord>) -> Result<(), StoreError> {
        let text: Vec<u8> = records.flat_map(records::line).collect();
        self.write(RECORDS, &text)
    }

    pub fn write_timings(&self, records: &[RunRecord]) -> Result<(), StoreError> {
        let timings: BTreeMap<&str, serde_json::Value> = records
            .iter()
            .map(|record| {
                let engine = &record.summary.engine;
                let mut timing = serde_json::json!({
                    "balancer": record.summary.balancer,
                    "variant": record.summary.variant,
                    "load": record.summary.load,
                    "seed": record.summary.seed,
                    "wall_s": engine.wall_s,
                    "peak_rss_bytes": engine.peak_rss_bytes,
                });
                if engine.decision_us > 0.0 {
                    timing["decision_us"] = engine.decision_us.into();
                }
                (record.fingerprint.as_str(), timing)
            })
            .collect();
        self.write("timings.json", &pretty(&timings))
    }

    pub fn write_part(&self, fingerprint: &str, rows: &[FlowRow]) -> Result<(), StoreError> {
        self.write(&format!("{PARTS}/{fingerprint}"), &part_of(rows))
    }

    pub fn has_part(&self, fingerprint: &str) -> bool {
        self.path(PARTS).join(fingerprint).is_file()
    }

    /// Reads the flows of a run; `like` has the values shared by all its rows.
    pub fn part(&self, fingerprint: &str, like: &FlowRow) -> Result<Vec<FlowRow>, StoreError> {
        let path = self.path(PARTS).join(fingerprint);
        let read = fs::read(&path).and_then(|bytes| flows_of(&bytes, like));
        read.map_err(|cause| StoreError::Read { path, cause })
    }

    /// Copies a file of another folder, unless this one has it.
    pub(crate) fn copy(&self, from: &Store, name: &str) -> Result<(), StoreError> {
        if self.path(name).is_file() {
            return Ok(());
        }
        let path = from.path(name);
        let content = fs::read(&path).map_err(|cause| StoreError::Read { path, cause })?;
        self.write(name, &content)
    }

    /// Copies the flows of a run from another folder.
    pub(crate) fn copy_part(&self, from: &Store, fingerprint: &str) -> Result<(), StoreError> {
        self.copy(from, &format!("{PARTS}/{fingerprint}"))
    }

    pub fn remove_parts(&self) -> Result<(), StoreError> {
        let path = self.path(PARTS);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::Write { path, cause: error }),
            _ => Ok(()),
        }
    }

    fn cannot_write(&self, path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
        let path = path.to_owned();
        |cause| StoreError::Write { path, cause }
    }
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("results contain only values that JSON supports");
    text.push(b'\n');
    text
}

/// Encodes the flows of a run: a hash, then the rows in postcard's format.
fn part_of(rows: &[FlowRow]) -> Vec<u8> {
    let rows = postcard::to_stdvec(rows).expect("rows are plain numbers");
    [&xxh3_128(&rows).to_le_bytes()[..], &rows].concat()
}

/// Parses the flows of a run. `like` has the values shared by all rows, which the file leaves out.
fn flows_of(bytes: &[u8], like: &FlowRow) -> io::Result<Vec<FlowRow>> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the file is truncated or damaged; remove it");
    let (hash, rows) = bytes.split_first_chunk().ok_or_else(damaged)?;
    if xxh3_128(rows).to_le_bytes() != *hash {
        return Err(damaged());
    }
    let mut rows: Vec<FlowRow> = postcard::from_bytes(rows).map_err(|_| damaged())?;
    for row in &mut rows {
        let FlowRow { run, load, seed, .. } = *like;
        (row.run, row.load, row.seed) = (run, load, seed);
        (row.balancer, row.variant) = (like.balancer.clone(), like.variant.clone());
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::flow_row::FlowStatus;

    #[test]
    fn rows_read_back_equal_and_damage_is_an_error() {
        let row = FlowRow {
            run: 3,
            balancer: "ecmp".into(),
            load: Some(0.5),
            seed: 9,
            flow: 1,
            src: 2,
            dst: 3,
            size_bytes: 10_000,
            start_us: Some(0.0),
            status: FlowStatus::Running,
            sender_fct_us: Some(4.5),
            ideal_us: 10.25,
            delivered_bytes: 7,
            packets_sent: 8,
            retransmitted: 1,
            reordered: 2,
            path_changes: 5,
            ..FlowRow::default()
        };
        let bytes = part_of(&[row.clone(), row.clone()]);
        assert_eq!(flows_of(&bytes, &row).unwrap(), [row.clone(), row.clone()]);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(flows_of(&damaged, &row).is_err(), "damage at {at}");
            assert!(flows_of(&bytes[..at], &row).is_err(), "cut at {at}");
        }
    }
}
