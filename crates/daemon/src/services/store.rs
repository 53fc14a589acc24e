//! The file of desired services, complete at every moment.
//!
//! The content is small and read once, so a file that replaces the old one is as safe as a database
//! and simpler: data and folder are flushed to the disk before a change counts. The first line
//! holds the format and the length and hash of the rest, so that damage is detected and not taken
//! for missing services.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::Desired;

const MAGIC: &str = "anabranch-services 2";

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot use the store of services {file}")]
    Io { file: String, source: io::Error },
    #[error("another daemon uses the store of services {file}")]
    InUse { file: String },
    #[error(
        "{file} is not an intact store of virtual services: {message}; the file was left unchanged: restore a copy, or move it away to start without services"
    )]
    Content { file: String, message: String },
}

#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
    /// Held as long as the store exists.
    _lock: File,
}

fn with_suffix(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    PathBuf::from(name)
}

impl Store {
    pub(crate) fn open(file: &Path) -> Result<(Store, Desired), StoreError> {
        let name = || file.display().to_string();
        let failed = |source| StoreError::Io { file: name(), source };
        let lock = File::options().create(true).truncate(false).write(true).open(with_suffix(file, ".lock"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse { file: name() }),
            Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        let desired = match fs::read(file) {
            Ok(bytes) => decode(&bytes).map_err(|message| StoreError::Content { file: name(), message })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Desired::default(),
            Err(source) => return Err(failed(source)),
        };
        Ok((Store { file: file.to_owned(), _lock: lock }, desired))
    }

    pub(crate) fn path_for(state: &Path) -> PathBuf {
        with_suffix(state, ".services")
    }
    pub(crate) fn write(&self, desired: &Desired) -> io::Result<()> {
        replace_file(&self.file, &encode(desired)?)
    }
}

/// Replaces a file, so that it is complete at every moment. When this returns, it is on disk.
pub(crate) fn replace_file(file: &Path, content: &[u8]) -> io::Result<()> {
    let new = with_suffix(file, ".new");
    let mut written = File::create(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    fs::rename(&new, file)?;
    // The folder holds the name of the file.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn head_of(body: &[u8]) -> String {
    format!("{MAGIC} {} {:016x}", body.len(), xxh3_64(body))
}

fn encode(desired: &Desired) -> io::Result<Vec<u8>> {
    let mut body = serde_json::to_vec_pretty(desired)?;
    body.push(b'\n');
    Ok([head_of(&body).as_bytes(), b"\n", &body].concat())
}

fn decode(bytes: &[u8]) -> Result<Desired, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("the first line is missing")?;
    let (head, body) = (&bytes[..end], &bytes[end + 1..]);
    if !head.starts_with(MAGIC.as_bytes()) {
        return Err(format!("the first line does not begin with `{MAGIC}`: another program or version wrote it"));
    }
    if head != head_of(body).as_bytes() {
        return Err("length or hash does not match: the file was truncated, edited or damaged".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::tests::some;
    use super::*;

    #[test]
    fn content_round_trips_and_damage_is_detected() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("services");
        let (store, empty) = Store::open(&file).expect("a store that is not there is empty");
        assert_eq!(empty, Desired::default());
        assert!(matches!(Store::open(&file), Err(StoreError::InUse { .. })), "one daemon at a time");
        store.write(&some()).expect("it is written");
        drop(store);
        let (store, read) = Store::open(&file).expect("a store");
        assert_eq!(read, some());
        drop(store);

        // One bit error at every position, and every length.
        let whole = fs::read(&file).expect("the file");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(decode(&bytes).is_err(), "damage at {at}");
            assert!(decode(&whole[..at]).is_err(), "cut at {at}");
        }
        fs::write(&file, "{}").expect("the file");
        let error = Store::open(&file).expect_err("another content is rejected").to_string();
        assert!(error.contains("left unchanged"), "{error}");
        assert_eq!(fs::read(&file).expect("the file"), b"{}", "it is kept");
    }
}
