//! The hash of source files for build scripts, independent of the building machine.

use std::fs;
use std::path::{Path, PathBuf};

/// Hashes all files below these paths, which are relative to the package, and has Cargo run the
/// script again when one changes.
pub fn hash(paths: &[&str]) -> String {
    let mut files = Vec::new();
    for path in paths {
        println!("cargo:rerun-if-changed={path}");
        collect(Path::new(path), &mut files);
    }
    files.sort();
    let mut bytes = Vec::new();
    for file in files {
        let content = fs::read(&file).unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        bytes.extend(file.to_string_lossy().bytes());
        bytes.extend(content.len().to_be_bytes());
        bytes.extend(content);
    }
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes))
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(path) else { return files.push(path.to_owned()) };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.file_name().is_some_and(|name| name != "__pycache__") {
            collect(&path, files);
        }
    }
}
