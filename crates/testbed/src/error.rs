//! Errors of the testbed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    #[error("the testbed creates namespaces, bridges and queues, which needs root; run it with sudo")]
    NotRoot,
    #[error("the testbed needs {missing}, which this machine does not have; on Debian: apt-get install {packages}")]
    Missing { missing: String, packages: String },
    /// The experiment file sets a key to a value that emulated networks do not support. The reason
    /// names the value and its replacement.
    #[error("{key}: {reason}")]
    NotHere { key: String, reason: String },
    /// The driver process could not be started, or has ended.
    #[error("the driver of the emulated network {0}")]
    Driver(String),
    #[error("the emulated network: {0}")]
    Refused(String),
    /// The network lost packets although their rate was below its capacity: in queues, or at full
    /// socket buffers.
    #[error(
        "the emulated network lost {lost} of {sent} packets of the preflight check, below its capacity ({queues} in its queues, {sockets} at sockets): the run would measure this machine and not the balancer; use fewer hosts or lower rates, or wait until the machine is idle"
    )]
    NotLossless { sent: u64, lost: u64, queues: u64, sockets: u64 },
    /// The controller could not be started, or did not learn the network.
    #[error("the controller {0}")]
    Controller(String),
    #[error("{program}: {reason}")]
    Traffic { program: String, reason: String },
    /// `what` is a verb, such as `open`.
    #[error("cannot {what} {path}")]
    File {
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("interrupted")]
    Interrupted,
}

pub type Result<T, E = TestbedError> = std::result::Result<T, E>;

/// Returns an error about a key of the experiment file.
pub(crate) fn not_here(key: &str, reason: impl Into<String>) -> TestbedError {
    TestbedError::NotHere { key: key.to_owned(), reason: reason.into() }
}

pub(crate) fn failed(program: &str, reason: impl Into<String>) -> TestbedError {
    TestbedError::Traffic { program: program.to_owned(), reason: reason.into() }
}

pub(crate) fn file_error<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> TestbedError + 'a {
    move |cause| TestbedError::File { what, path: path.to_owned(), cause }
}

pub(crate) fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(file_error("make", path))
}

pub(crate) fn write_file(path: &Path, text: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, text).map_err(file_error("write", path))
}

/// Returns the last lines of a log, to quote them in an error.
pub(crate) fn log_tail(log: &Path, lines: usize) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut tail: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(lines).collect();
    tail.reverse();
    if tail.is_empty() { "it printed no output".to_owned() } else { tail.join("; ") }
}
