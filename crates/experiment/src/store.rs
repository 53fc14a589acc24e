//! The results folder: records appended as runs end, everything else written whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::rows::FlowRow;
use crate::summary::{RunRecord, Summary};

mod part;

/// Why a results folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be written to.
    #[error("cannot write to {path}")]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// It cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// A file in it does not hold what it should.
    #[error("{path}:{line} is not a record of this program")]
    Content {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Why not.
        #[source]
        cause: serde_json::Error,
    },
}

/// A folder for the results of one experiment.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

const RECORDS: &str = "runs.jsonl";
const PARTS: &str = "parts";

impl Store {
    /// Makes the folder if need be, and makes sure that it can be written to.
    ///
    /// # Errors
    /// It cannot.
    pub fn create(folder: &Path) -> Result<Store, StoreError> {
        let store = Store { folder: folder.to_owned() };
        if folder.is_file() {
            let cause = io::Error::new(io::ErrorKind::NotADirectory, "it is a file, not a folder");
            return Err(store.cannot_write(folder)(cause));
        }
        fs::create_dir_all(folder).map_err(store.cannot_write(folder))?;
        let probe = folder.join(".probe");
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(store.cannot_write(folder))?;
        Ok(store)
    }

    /// A folder with results in it.
    pub fn open(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file under a temporary name, then renames it: it is there in full or as it was.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let path = self.path(name);
        let partial = self.path(&format!("{name}.partial"));
        let write = || {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::create(&partial)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&partial, &path)
        };
        write().map_err(|cause| {
            let _ = fs::remove_file(&partial);
            StoreError::Write { path: path.clone(), cause }
        })
    }

    /// The summary.
    ///
    /// # Errors
    /// There is none, or it is broken.
    pub fn summary(&self) -> Result<Summary, StoreError> {
        self.read("summary.json")
    }

    /// A file of JSON; `None` if there is none.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        match self.read(name) {
            Err(StoreError::Read { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some),
        }
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        let path = self.path(name);
        let text = fs::read_to_string(&path).map_err(|cause| StoreError::Read { path: path.clone(), cause })?;
        serde_json::from_str(&text).map_err(|cause| StoreError::Content { path, line: cause.line(), cause })
    }

    /// All records, in the order they were appended; none if there is no file. A last line that was cut off when the
    /// program was killed is dropped, from the file too, so that appending goes on with a whole line.
    ///
    /// # Errors
    /// The file cannot be read or mended, or a line other than the last is broken.
    pub fn records(&self) -> Result<Vec<RunRecord>, StoreError> {
        let path = self.path(RECORDS);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(StoreError::Read { path, cause }),
        };
        let mut records = Vec::new();
        let mut good = 0;
        for (line, content) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let is_last = good + content.len() == bytes.len();
            match serde_json::from_slice(content) {
                Ok(record) if content.ends_with(b"\n") => records.push(record),
                _ if is_last => break,
                Ok(_) => break,
                Err(cause) => return Err(StoreError::Content { path, line, cause }),
            }
            good += content.len();
        }
        if good < bytes.len() {
            let mend = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(good as u64));
            mend.map_err(self.cannot_write(&path))?;
        }
        Ok(records)
    }

    /// Opens the records for appending.
    ///
    /// # Errors
    /// They cannot be.
    pub fn appender(&self) -> Result<Appender, StoreError> {
        let path = self.path(RECORDS);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(self.cannot_write(&path))?;
        Ok(Appender { path, file })
    }

    /// Replaces all records.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_records<'a>(&self, records: impl Iterator<Item = &'a RunRecord>) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for record in records {
            text.extend(line(record));
        }
        self.write(RECORDS, &text)
    }

    /// Wall time and memory of each run, by fingerprint.
    ///
    /// # Errors
    /// They cannot be written.
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

    /// Keeps the flows of a run until all are done.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write_part(&self, fingerprint: &str, rows: &[FlowRow]) -> Result<(), StoreError> {
        self.write(&format!("{PARTS}/{fingerprint}"), &part::encode(rows))
    }

    /// Whether the flows of a run are kept.
    pub fn has_part(&self, fingerprint: &str) -> bool {
        self.path(PARTS).join(fingerprint).is_file()
    }

    /// The flows of a run, with what `like` says about the run.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn part(&self, fingerprint: &str, like: &FlowRow) -> Result<Vec<FlowRow>, StoreError> {
        let path = self.path(PARTS).join(fingerprint);
        let read = fs::read(&path).and_then(|bytes| part::decode(&bytes, like));
        read.map_err(|cause| StoreError::Read { path, cause })
    }

    /// Removes the kept flows.
    ///
    /// # Errors
    /// They cannot be removed.
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

/// `runs.jsonl`, growing.
#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: File,
}

impl Appender {
    /// Appends one line, in one write, so that another process or a kill sees a whole line or the beginning of one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        let written = self.file.write_all(&line(record)).and_then(|()| self.file.flush());
        written.map_err(|cause| StoreError::Write { path: self.path.clone(), cause })
    }
}

fn line(record: &RunRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("records hold only what JSON can say");
    line.push(b'\n');
    line
}

/// JSON for people, with a newline at the end.
pub(crate) fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("results hold only what JSON can say");
    text.push(b'\n');
    text
}
