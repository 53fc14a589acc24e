//! The file that starts this program, for the controller of a testbed and the runs of a benchmark,
//! which are separate processes.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
static PYTHON: OnceLock<PathBuf> = OnceLock::new();

/// Sets the interpreter and the file that start this program, where that is not the file of the running process: the
/// process of the Python package is an interpreter. Only the first call counts.
pub fn set_program(path: PathBuf, python: PathBuf) {
    let _ = (PROGRAM.set(path), PYTHON.set(python));
}

pub fn path() -> io::Result<PathBuf> {
    PROGRAM.get().map_or_else(std::env::current_exe, |path| Ok(path.clone()))
}

/// Returns the interpreter that has the Python package.
pub fn python() -> PathBuf {
    let given = std::env::var_os("ANABRANCH_PYTHON").map(PathBuf::from);
    given.or_else(|| PYTHON.get().cloned()).unwrap_or_else(|| PathBuf::from("python3"))
}
