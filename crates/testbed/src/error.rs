//! Why an emulated network cannot do what it was asked.

use std::io;
use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// Namespaces, bridges and queues are root's.
    #[error("the testbed makes namespaces, bridges and queues, which needs root; run it with sudo")]
    NotRoot,
    /// Programs are not installed.
    #[error("the testbed needs {missing}, which this machine does not have; on Debian: apt-get install {packages}")]
    Missing {
        /// Names of what is missing.
        missing: String,
        /// Packages that bring it.
        packages: String,
    },
    /// An experiment asks for what emulated networks do not have.
    #[error("{key}: {reason}")]
    NotHere {
        /// The key of the file.
        key: String,
        /// What cannot be done, and what would do.
        reason: String,
    },
    /// The driver of the network could not be started, or is gone.
    #[error("the driver of the emulated network {0}")]
    Driver(String),
    /// The driver could not do something.
    #[error("the emulated network: {0}")]
    Refused(String),
    /// The network lost packets that it had room for.
    #[error(
        "the emulated network lost {lost} of {sent} packets of the proof, which fit it ({queues} in its queues, {sockets} at \
         sockets): what it would measure is this machine, not the balancer; use fewer hosts or lower rates, or wait until the \
         machine is idle"
    )]
    NotLossless {
        /// Packets sent.
        sent: u64,
        /// Packets that did not arrive.
        lost: u64,
        /// Packets queues dropped.
        queues: u64,
        /// Datagrams sockets dropped.
        sockets: u64,
    },
    /// The controller could not be started, or does not come to know the network.
    #[error("the controller {0}")]
    Controller(String),
    /// A program that sends or receives did not do its part.
    #[error("{program}: {reason}")]
    Traffic {
        /// Which.
        program: String,
        /// What happened.
        reason: String,
    },
    /// A file or socket.
    #[error("cannot {what} {path}")]
    File {
        /// What was to be done.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// Asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// An error about a key of the experiment file.
pub(crate) fn not_here(key: &str, reason: impl Into<String>) -> TestbedError {
    TestbedError::NotHere { key: key.to_owned(), reason: reason.into() }
}
