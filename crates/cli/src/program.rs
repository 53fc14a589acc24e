//! The file that starts this program, for the controller of a testbed and the runs of a benchmark,
//! which are separate processes.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Sets the file that starts this program, where that is not the file of the running process: the
/// process of the Python package is an interpreter. Only the first call counts.
pub fn set_program(path: PathBuf) {
    let _ = PROGRAM.set(path);
}

pub fn path() -> io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |path| Ok(path.clone()))
}
