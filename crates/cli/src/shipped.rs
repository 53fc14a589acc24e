//! The folders `experiments` and `data` of the repository, which the program contains.
//!
//! A path into one of them that does not exist is that of the file in the program. The files are
//! written to the user's cache, because experiments refer to others by relative paths.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use include_dir::{Dir, DirEntry, include_dir};
use xxhash_rust::xxh3::Xxh3;

static FOLDERS: [(&str, Dir<'_>); 2] = [
    ("experiments", include_dir!("$CARGO_MANIFEST_DIR/../../experiments")),
    ("data", include_dir!("$CARGO_MANIFEST_DIR/../../data")),
];

/// Returns the path of an existing file or folder: `text`, or if that does not exist, the file of
/// that name in the program. Other paths are returned as they are.
///
/// # Errors
/// The files of the program cannot be written to the cache.
pub fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.exists() || !contains(&path) {
        return Ok(path);
    }
    Ok(unpacked()?.join(path))
}

/// Returns the name by which [`path()`] finds a file of the program; other paths unchanged.
pub fn name(path: &Path) -> &Path {
    UNPACKED.get().and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(path)
}

fn contains(path: &Path) -> bool {
    FOLDERS.iter().any(|(name, folder)| match path.strip_prefix(name) {
        Ok(rest) => rest.as_os_str().is_empty() || folder.get_entry(rest).is_some(),
        Err(_) => false,
    })
}

static UNPACKED: OnceLock<PathBuf> = OnceLock::new();

/// Returns the folder with the files of the program; the first call of this build writes them.
fn unpacked() -> Result<PathBuf, String> {
    if let Some(folder) = UNPACKED.get() {
        return Ok(folder.clone());
    }
    let folder = cache()?.join(format!("{}-{:016x}", env!("CARGO_PKG_VERSION"), hash()));
    if !folder.is_dir() {
        write(&folder).map_err(|cause| {
            let folder = folder.display();
            format!(
                "cannot write the files of the program to {folder}: {cause}; name another folder with XDG_CACHE_HOME"
            )
        })?;
    }
    Ok(UNPACKED.get_or_init(|| folder).clone())
}

fn cache() -> Result<PathBuf, String> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = of("XDG_CACHE_HOME").or_else(|| of("HOME").map(|home| home.join(".cache")));
    let missing = "there is no folder for the files of the program: neither XDG_CACHE_HOME nor HOME is set";
    Ok(folder.ok_or(missing)?.join("anabranch"))
}

/// Writes all files, or none: another process may do the same.
fn write(folder: &Path) -> std::io::Result<()> {
    let partial = folder.with_extension(format!("{}.partial", std::process::id()));
    for (name, content) in &FOLDERS {
        let inside = partial.join(name);
        fs::create_dir_all(&inside)?;
        content.extract(&inside)?;
    }
    let renamed = fs::rename(&partial, folder);
    if renamed.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    if folder.is_dir() { Ok(()) } else { renamed }
}

/// Returns the hash of all files, so that each build finds its own.
fn hash() -> u64 {
    fn add(hash: &mut Xxh3, folder: &Dir<'_>) {
        for entry in folder.entries() {
            hash.update(entry.path().as_os_str().as_encoded_bytes());
            match entry {
                DirEntry::Dir(inner) => add(hash, inner),
                DirEntry::File(file) => hash.update(file.contents()),
            }
        }
    }
    let mut hash = Xxh3::new();
    FOLDERS.iter().for_each(|(_, folder)| add(&mut hash, folder));
    hash.digest()
}
