//! `runs.jsonl`: one [`RunRecord`] per line, with the hash of the line in front of it.
//!
//! Each line has its own hash, because lines are independent: a removed line only repeats its run,
//! and records of other plans move within the file. The hash (XXH3-128) detects damage and edits;
//! it is no protection against a forger, who can compute it, too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::store::StoreError;
use crate::summary::RunRecord;

/// Encodes a record as a line: the JSON object of the record, with the hash of that object as its
/// first field.
pub(super) fn line(record: &RunRecord) -> Vec<u8> {
    let object = serde_json::to_vec(record).expect("records contain only values that JSON supports");
    [hash_field(&object).as_bytes(), &object[1..], b"\n"].concat()
}

fn hash_field(object: &[u8]) -> String {
    format!("{{\"hash\":\"{:032x}\",", xxh3_128(object))
}

/// Returns whether a line, without its end, is one that [`line`] returned.
fn is_unchanged(line: &[u8]) -> bool {
    let Some((field, fields)) = line.split_at_checked(hash_field(b"").len()) else { return false };
    field == hash_field(&[b"{", fields].concat()).as_bytes()
}

/// Parses all records of a file; none if it does not exist. A last line without an end is left out:
/// the program was killed while it wrote the line.
///
/// # Errors
/// Any other line is not a record, or was changed.
pub(super) fn read(path: &Path) -> Result<Vec<RunRecord>, StoreError> {
    let bytes = read_bytes(path).map_err(|cause| StoreError::Read { path: path.to_owned(), cause })?;
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    let record = |(number, line): (usize, &[u8])| {
        let content = |cause| StoreError::Content { path: path.to_owned(), line: number, cause };
        let record = serde_json::from_slice(line).map_err(content)?;
        match is_unchanged(line) {
            true => Ok(record),
            false => Err(StoreError::ChangedLine { path: path.to_owned(), line: number }),
        }
    };
    (1..).zip(whole).map(record).collect()
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    }
}

#[derive(Debug)]
pub struct Appender {
    path: PathBuf,
    file: File,
}

impl Appender {
    /// Opens the file, and removes a last line without an end, so that appending starts a new line.
    pub(super) fn open(path: &Path) -> Result<Appender, StoreError> {
        let open = || {
            let bytes = read_bytes(path)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            if whole < bytes.len() {
                file.set_len(whole as u64)?;
            }
            Ok(file)
        };
        let file = open().map_err(|cause| StoreError::Write { path: path.to_owned(), cause })?;
        Ok(Appender { path: path.to_owned(), file })
    }

    /// Appends one line with a single write. After a kill the file therefore ends with a whole line
    /// or with the beginning of one.
    pub fn append(&mut self, record: &RunRecord) -> Result<(), StoreError> {
        let written = self.file.write_all(&line(record)).and_then(|()| self.file.flush());
        written.map_err(|cause| StoreError::Write { path: self.path.clone(), cause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<RunRecord> {
        let record = |fingerprint: &str, seed| {
            let mut record = RunRecord { fingerprint: fingerprint.to_owned(), ..RunRecord::default() };
            (record.summary.seed, record.summary.fct_us.mean) = (seed, 12.5);
            record
        };
        vec![record("a", 1), record("b", 2)]
    }

    #[test]
    fn one_bit_error_at_any_position_is_an_error_or_drops_the_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let mut appender = Appender::open(&path).unwrap();
        records().iter().for_each(|record| appender.append(record).unwrap());
        assert_eq!(read(&path).unwrap(), records());
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            match read(&path) {
                Err(StoreError::Content { line, .. } | StoreError::ChangedLine { line, .. }) => {
                    let first = whole[..at].iter().all(|byte| *byte != b'\n');
                    assert_eq!(line == 1, first, "damage at {at} is reported in line {line}");
                }
                Ok(read) => assert_eq!((at, &read[..]), (whole.len() - 1, &records()[..1]), "damage at {at}"),
                Err(other) => panic!("damage at {at}: {other}"),
            }
        }
    }

    #[test]
    fn last_line_without_an_end_is_dropped_and_appending_starts_a_new_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let [first, second] = &records()[..] else { panic!("two records") };
        for length in 0..line(second).len() {
            fs::write(&path, [&line(first)[..], &line(second)[..length]].concat()).unwrap();
            assert_eq!(read(&path).unwrap(), std::slice::from_ref(first), "{length} bytes of the second line");
            Appender::open(&path).unwrap().append(second).unwrap();
            assert_eq!(read(&path).unwrap(), records(), "after {length} bytes");
        }
    }

    #[test]
    fn edited_figure_is_refused_by_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.jsonl");
        let text: String = records().iter().map(|record| String::from_utf8(line(record)).unwrap()).collect();
        let edited = text.replacen("\"seed\":2", "\"seed\":3", 1);
        assert_ne!(edited, text);
        fs::write(&path, edited).unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.ends_with("runs.jsonl:2 was changed after its run: the hash does not match"), "{error}");
        // Lines without a hash are refused, too.
        let bare = serde_json::to_vec(&records()[0]).unwrap();
        fs::write(&path, [&bare[..], b"\n"].concat()).unwrap();
        assert!(matches!(read(&path), Err(StoreError::ChangedLine { line: 1, .. })));
    }
}
