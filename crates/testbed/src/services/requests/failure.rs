//! Reasons why requests fail.

use std::io::{self, ErrorKind};

/// Reason why a page did not arrive, with its name in records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("refused")]
    Refused,
    #[error("reset")]
    Reset,
    /// No response arrived in time. The flag is set if the connection was established.
    #[error("no {} in time", awaited(.0))]
    TimedOut(bool),
    #[error("unreachable")]
    Unreachable,
    /// The server returned a status other than success.
    #[error("status {0}")]
    Status(u16),
    /// The server named another address. A second redirect is not followed.
    #[error("redirected again")]
    Redirected(std::net::SocketAddrV4),
    #[error("cut short")]
    Short,
    /// The run stopped the request.
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Other(String),
}

fn awaited(is_connected: &bool) -> &'static str {
    if *is_connected { "answer" } else { "connection" }
}

impl Failure {
    /// Classifies an error. `is_connected`: whether the connection was established.
    pub(super) fn classify(cause: &io::Error, is_connected: bool) -> Failure {
        // Failures that the protocol detects travel inside I/O errors.
        if let Some(failure) = cause.get_ref().and_then(|inner| inner.downcast_ref::<Failure>()) {
            return failure.clone();
        }
        match cause.kind() {
            ErrorKind::ConnectionRefused => Failure::Refused,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => Failure::Reset,
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::TimedOut(is_connected),
            ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Failure::Unreachable,
            ErrorKind::UnexpectedEof => Failure::Short,
            _ => Failure::Other(cause.to_string()),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, failure)
    }
}
