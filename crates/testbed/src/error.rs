//! Errors of the testbed.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Namespaces, bridges and queues need root.
    #[error("the testbed creates namespaces, bridges and queues, which needs root; run it with sudo")]
    NotRoot,
    #[error("the testbed needs {missing}, which this machine does not have; on Debian: apt-get install {packages}")]
    Missing { missing: String, packages: String },
    /// The experiment file sets a key to a value that emulated networks do not support.
    #[error("{key}: {reason}")]
    NotHere {
        key: String,
        /// The unsupported value and its replacement.
        reason: String,
    },
    /// The driver process could not be started, or has ended.
    #[error("the driver of the emulated network {0}")]
    Driver(String),
    /// The driver rejected a request.
    #[error("the emulated network: {0}")]
    Refused(String),
    /// The network lost packets although their rate was below its capacity.
    #[error(
        "the emulated network lost {lost} of {sent} packets of the preflight check, below its capacity ({queues} in its queues, {sockets} at sockets): the run would measure this machine and not the balancer; use fewer hosts or lower rates, or wait until the machine is idle"
    )]
    NotLossless {
        sent: u64,
        lost: u64,
        /// Packets dropped by queues.
        queues: u64,
        /// Datagrams dropped by full socket buffers.
        sockets: u64,
    },
    /// The controller could not be started, or did not learn the network.
    #[error("the controller {0}")]
    Controller(String),
    /// A program that sends or receives failed.
    #[error("{program}: {reason}")]
    Traffic { program: String, reason: String },
    #[error("cannot {what} {path}")]
    File {
        /// A verb, such as `open`.
        what: &'static str,
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("interrupted")]
    Interrupted,
}

/// Returns an error about a key of the experiment file.
pub(crate) fn not_here(key: &str, reason: impl Into<String>) -> TestbedError {
    TestbedError::NotHere { key: key.to_owned(), reason: reason.into() }
}
