//! The results folder: records are appended as runs end; all other files are written atomically.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
}

#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

const RECORDS: &str = "runs.jsonl";
const PARTS: &str = "parts";

impl Store {
    pub fn create(folder: &Path) -> Result<Store, StoreError> {
        let store = Store { folder: folder.to_owned() };
        if folder.is_file() {
            let cause = io::Error::new(io::ErrorKind::NotADirectory, "this is a file, not a folder");
            return Err(store.cannot_write(folder)(cause));
        }
        fs::create_dir_all(folder).map_err(store.cannot_write(folder))?;
        let probe = folder.join(".probe");
        File::create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(store.cannot_write(folder))?;
        Ok(store)
    }

    pub fn open(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file atomically: under a temporary name, then renamed.
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

    pub fn summary(&self) -> Result<Summary, StoreError> {
        self.read("summary.json")
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

    /// Reads all records, in the order they were appended; none if the file does not exist. If the
    /// program was killed while writing the last line, the incomplete line is dropped from the
    /// file, too, so that appending starts with a whole line.
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

    pub fn appender(&self) -> Result<Appender, StoreError> {
        let path = self.path(RECORDS);
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(self.cannot_write(&path))?;
        Ok(Appender { path, file })
    }

    pub fn write_records<'a>(&self, records: impl Iterator<Item = &'a RunRecord>) -> Result<(), StoreError> {
        let mut text = Vec::new();
        for record in records {
            text.extend(line(record));
        }
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
        self.write(&format!("{PARTS}/{fingerprint}"), &postcard::to_stdvec(rows).expect("rows are plain numbers"))
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

#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: File,
}

impl Appender {
    /// Appends one line with a single write. Other processes, or a later run after a kill,
    /// therefore find a whole line or the beginning of one.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        let written = self.file.write_all(&line(record)).and_then(|()| self.file.flush());
        written.map_err(|cause| StoreError::Write { path: self.path.clone(), cause })
    }
}

fn line(record: &RunRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("records contain only values that JSON supports");
    line.push(b'\n');
    line
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("results contain only values that JSON supports");
    text.push(b'\n');
    text
}

/// Reads the flows of a run, encoded by postcard. `like` has the values shared by all rows, which the
/// file leaves out.
fn flows_of(bytes: &[u8], like: &FlowRow) -> io::Result<Vec<FlowRow>> {
    let damaged = |_| io::Error::new(io::ErrorKind::InvalidData, "the file is truncated or damaged; remove it");
    let mut rows: Vec<FlowRow> = postcard::from_bytes(bytes).map_err(damaged)?;
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
        let bytes = postcard::to_stdvec(&vec![row.clone(), row.clone()]).unwrap();
        assert_eq!(flows_of(&bytes, &row).unwrap(), [row.clone(), row.clone()]);
        assert!(flows_of(&bytes[..bytes.len() - 3], &row).is_err());
        assert!(flows_of(&[0xff; 136], &row).is_err());
    }
}
