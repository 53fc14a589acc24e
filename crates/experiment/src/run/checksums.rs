//! `SHA256SUMS`: the hashes of the published files of a results folder, in the format of
//! `sha256sum --check`.
//!
//! The file lists only files that do not depend on time or machine, so it is the same whenever the
//! experiment is repeated.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use ring::digest::{Context, SHA256};

use crate::store::{Store, StoreError};

const BUFFER: usize = 1 << 20;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checksums {
    /// Hashes as hexadecimal digits, by name within the folder.
    hashes: BTreeMap<String, String>,
}

impl Checksums {
    pub(crate) const NAME: &'static str = "SHA256SUMS";

    /// Computes the hashes of files of a folder.
    pub fn of(store: &Store, names: impl IntoIterator<Item = String>) -> Result<Checksums, StoreError> {
        let hash = |name: String| {
            let path = store.path(&name);
            let hash = sha256(&path).map_err(|cause| StoreError::Read { path, cause })?;
            Ok((name, hash))
        };
        Ok(Checksums { hashes: names.into_iter().map(hash).collect::<Result<_, StoreError>>()? })
    }

    /// Reads the file of a folder; `None` if it does not exist.
    pub fn read(store: &Store) -> Result<Option<Checksums>, StoreError> {
        let path = store.path(Checksums::NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(StoreError::Read { path, cause }),
        };
        // A line in another form lists no file, so that the file it was about counts as changed.
        let entry = |line: &str| line.split_once("  ").map(|(hash, name)| (name.to_owned(), hash.to_owned()));
        Ok(Some(Checksums { hashes: text.lines().filter_map(entry).collect() }))
    }

    pub fn write(&self, store: &Store) -> Result<(), StoreError> {
        let lines: String = self.hashes.iter().map(|(name, hash)| format!("{hash}  {name}\n")).collect();
        store.write(Checksums::NAME, lines.as_bytes())
    }

    /// Replaces the hash of one file by its present one.
    pub fn update(&mut self, store: &Store, name: &str) -> Result<(), StoreError> {
        let Checksums { hashes } = Checksums::of(store, [name.to_owned()])?;
        self.hashes.extend(hashes);
        Ok(())
    }

    /// Returns whether a file is listed.
    pub fn has(&self, name: &str) -> bool {
        self.hashes.contains_key(name)
    }

    /// Checks that a file is as it was when its hash was written.
    ///
    /// # Errors
    /// It differs, is not listed or cannot be read.
    pub fn check(&self, store: &Store, name: &str) -> Result<(), StoreError> {
        let now = Checksums::of(store, [name.to_owned()])?;
        match now.hashes.get(name) == self.hashes.get(name) {
            true => Ok(()),
            false => Err(StoreError::ChangedFile { path: store.path(name), sums: Checksums::NAME }),
        }
    }
}

fn sha256(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut buffer) = (File::open(path)?, Context::new(&SHA256), vec![0; BUFFER]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hash.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_sha256sum_and_changes_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(folder.path()).unwrap();
        assert_eq!(Checksums::read(&store).unwrap(), None);
        store.write("a", b"abc").unwrap();
        let sums = Checksums::of(&store, ["a".to_owned()]).unwrap();
        sums.write(&store).unwrap();
        // The test vector of FIPS 180-4.
        let line = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n";
        assert_eq!(std::fs::read_to_string(store.path(Checksums::NAME)).unwrap(), line);
        let mut sums = Checksums::read(&store).unwrap().expect("it was written");
        assert!(sums.has("a") && !sums.has("b"));
        sums.check(&store, "a").unwrap();
        store.write("a", b"abd").unwrap();
        let error = sums.check(&store, "a").unwrap_err().to_string();
        assert!(error.ends_with("a is not the file that SHA256SUMS lists"), "{error}");
        sums.update(&store, "a").unwrap();
        sums.check(&store, "a").unwrap();
    }
}
