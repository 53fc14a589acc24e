//! Files that survive a restart: virtual services and learned hosts.
//!
//! Both are small and read once, so each change writes a complete new file and renames it over the
//! old one: as safe as a database, and simpler. [`StoredFile`] does this for any content; what a
//! failure means is up to its user, because services are the only copy and hosts are a cache.
//! `docs/decisions/0004-stored-files.md` has the reasons.

mod disk;
mod format;
#[cfg(test)]
pub(crate) mod sim_disk;
mod stored_file;
mod versions;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use disk::{Disk, RealDisk};
pub(crate) use format::Format;
pub(crate) use stored_file::{LoadError, ReplaceError, StoredFile};
pub(crate) use versions::Versions;

pub(crate) fn with_suffix(file: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(end);
    PathBuf::from(name)
}

/// Returns the folder of a file; the current one if the path has none.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
