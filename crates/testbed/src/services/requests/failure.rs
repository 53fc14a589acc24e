//! Reasons why requests fail.

use std::io::{self, ErrorKind};

/// Reason why a page did not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// No response arrived in time. The flag is set if the connection was established.
    TimedOut(bool),
    /// The network reported the destination as unreachable.
    Unreachable,
    /// The server returned a status other than success.
    Status(u16),
    /// The response ended early.
    Short,
    /// The run stopped the request.
    Stopped,
    Other(String),
}

impl Failure {
    pub fn name(&self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::TimedOut(false) => "no connection in time",
            Failure::TimedOut(true) => "no answer in time",
            Failure::Unreachable => "unreachable",
            Failure::Status(_) => "status",
            Failure::Short => "cut short",
            Failure::Stopped => "stopped",
            Failure::Other(_) => "other",
        }
    }

    /// Classifies an error. `is_connected`: whether the connection was established.
    pub(super) fn classify(cause: &io::Error, is_connected: bool) -> Failure {
        match cause.get_ref().and_then(|inner| inner.downcast_ref::<ResponseError>()) {
            Some(ResponseError::Status(status)) => return Failure::Status(*status),
            Some(ResponseError::Short) => return Failure::Short,
            Some(ResponseError::Stopped) => return Failure::Stopped,
            None => {}
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

/// Defects of a response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    #[error("status {0}")]
    Status(u16),
    #[error("cut short")]
    Short,
    #[error("stopped")]
    Stopped,
}

impl From<ResponseError> for io::Error {
    fn from(bad: ResponseError) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, bad)
    }
}
