//! Earlier versions of a stored file, kept next to it as `FILE.000001`, `FILE.000002` and so on.

use std::io;
use std::path::PathBuf;

use super::{StoredFile, folder_of, with_suffix};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    /// Number of versions to keep; 0 for none.
    pub(crate) count: usize,
}

impl Versions {
    /// Returns all versions with their numbers, oldest first.
    pub(crate) fn list(file: &StoredFile) -> io::Result<Vec<(u64, PathBuf)>> {
        let Some(own) = file.path.file_name().and_then(|name| name.to_str()) else { return Ok(Vec::new()) };
        let number = |name: &str| {
            let digits = name.strip_prefix(own)?.strip_prefix('.')?;
            let is_number = digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| is_number)
        };
        let names = file.disk.names(folder_of(&file.path))?;
        let numbers = names.iter().filter_map(|name| number(name.to_str()?));
        let mut versions: Vec<_> = numbers.map(|number| (number, path(file, number))).collect();
        versions.sort();
        Ok(versions)
    }

    /// Gives the present content a second name, under which it stays when the file is replaced.
    /// Returns that name; `None` if there is no file or none is kept.
    pub(crate) fn keep(self, file: &StoredFile) -> io::Result<Option<PathBuf>> {
        if self.count == 0 {
            return Ok(None);
        }
        let last = Versions::list(file)?.last().map_or(0, |(number, _)| *number);
        let version = path(file, last + 1);
        match file.disk.link(&file.path, &version) {
            Ok(()) => Ok(Some(version)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the oldest versions above the number to keep.
    pub(crate) fn prune(self, file: &StoredFile) -> io::Result<()> {
        let versions = Versions::list(file)?;
        let surplus = versions.len().saturating_sub(self.count);
        versions[..surplus].iter().try_for_each(|(_, path)| file.disk.remove(path))
    }

    /// Returns the newest version that is intact.
    pub(crate) fn newest_intact(file: &StoredFile) -> Option<PathBuf> {
        let versions = Versions::list(file).ok()?;
        versions.into_iter().rev().map(|(_, path)| path).find(|path| matches!(file.load_from(path), Ok(Some(_))))
    }
}

fn path(file: &StoredFile, number: u64) -> PathBuf {
    with_suffix(&file.path, &format!(".{number:06}"))
}
