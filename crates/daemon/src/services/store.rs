//! Where what is wanted is written down: one file, whole at every moment.
//!
//! All of it is small and read once, so that a file written anew and put in place of the old one is as safe as a database and
//! simpler: data and folder are flushed to the disk before a change counts. Its first line tells the format, and the length
//! and hash of the rest, so that damage is noticed and not taken for fewer wishes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::Desired;

/// What the first line begins with; the number is that of the format.
const MAGIC: &str = "anabranch-services 1";

/// A store that cannot be used. It is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be read or made.
    #[error("cannot use the store of services {file}")]
    Io {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Someone else uses it.
    #[error("another daemon uses the store of services {file}")]
    InUse {
        /// The file.
        file: String,
    },
    /// It holds something else, or is damaged.
    #[error(
        "{file} does not hold virtual services as they were written: {words}; it was left as it is: put back a copy, or move it away to begin without"
    )]
    Content {
        /// The file.
        file: String,
        /// What is wrong with it.
        words: String,
    },
}

/// The file.
#[derive(Debug)]
pub(crate) struct Store {
    file: PathBuf,
    /// Locked as long as this lives.
    _lock: File,
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    PathBuf::from(name)
}

impl Store {
    /// Opens a store and reads what it holds; one that is not there holds nothing.
    ///
    /// # Errors
    /// It is in use, or cannot be used. Nothing has changed then.
    pub(crate) fn open(file: &Path) -> Result<(Store, Desired), StoreError> {
        let name = || file.display().to_string();
        let failed = |source| StoreError::Io { file: name(), source };
        let lock = File::options().create(true).truncate(false).write(true).open(beside(file, ".lock"));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(StoreError::InUse { file: name() }),
            Err(fs::TryLockError::Error(source)) => return Err(failed(source)),
        }
        let desired = match fs::read(file) {
            Ok(bytes) => decode(&bytes).map_err(|words| StoreError::Content { file: name(), words })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Desired::default(),
            Err(source) => return Err(failed(source)),
        };
        Ok((Store { file: file.to_owned(), _lock: lock }, desired))
    }

    /// Where services are written down, beside the file of hosts.
    pub(crate) fn beside(state: &Path) -> PathBuf {
        beside(state, ".services")
    }

    /// Writes everything down. When this returns, it is on the disk.
    ///
    /// # Errors
    /// It may not be: what is there is all of this, or all that was before.
    pub(crate) fn write(&self, desired: &Desired) -> io::Result<()> {
        let new = beside(&self.file, ".new");
        let mut file = File::create(&new)?;
        file.write_all(&encode(desired)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.file)?;
        // The name is the folder's.
        let folder = self.file.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// The first line that belongs to a body.
fn head_of(body: &[u8]) -> String {
    format!("{MAGIC} {} {:016x}", body.len(), xxh3_64(body))
}

fn encode(desired: &Desired) -> io::Result<Vec<u8>> {
    let mut body = serde_json::to_vec_pretty(desired)?;
    body.push(b'\n');
    let mut text = head_of(&body).into_bytes();
    text.push(b'\n');
    text.append(&mut body);
    Ok(text)
}

fn decode(bytes: &[u8]) -> Result<Desired, String> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or("it has no first line")?;
    let (head, body) = (&bytes[..end], &bytes[end + 1..]);
    if !head.starts_with(MAGIC.as_bytes()) {
        return Err(format!("its first line does not begin with `{MAGIC}`: another program or version wrote it"));
    }
    if head != head_of(body).as_bytes() {
        return Err("its content is not what its first line says: it was cut, edited or damaged".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::spec::Name;
    use super::super::{Origin, read};
    use super::*;

    fn some() -> Desired {
        let mut desired = Desired::default();
        let name = Name::try_from("web".to_owned()).expect("a name");
        let pool = read(serde_json::json!({"members": [{"name": "a", "address": "10.0.0.1"}]})).expect("a pool");
        let service = read(serde_json::json!({"address": "10.0.0.9", "port": 80, "pool": "web"})).expect("a service");
        desired.put_pool(Origin::Api, &name, pool).expect("a pool");
        desired.put_service(Origin::Api, &name, service).expect("a service");
        desired
    }

    #[test]
    fn what_was_written_comes_back_and_nothing_else_is_taken_for_it() {
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

        // Every bit of damage, everywhere, and every length.
        let whole = fs::read(&file).expect("the file");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(decode(&bytes).is_err(), "damage at {at}");
            assert!(decode(&whole[..at]).is_err(), "cut at {at}");
        }
        fs::write(&file, "{}").expect("the file");
        let error = Store::open(&file).expect_err("that is something else").to_string();
        assert!(error.contains("left as it is"), "{error}");
        assert_eq!(fs::read(&file).expect("the file"), b"{}", "it is kept");
    }
}
