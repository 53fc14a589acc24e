//! Why requests fail.

use std::io::{self, ErrorKind};

/// Why a page did not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The other side refused the connection.
    Refused,
    /// It was broken off.
    Reset,
    /// Nobody answered in time; whether the connection stood.
    TimedOut(bool),
    /// The network said that there is no way.
    Unreachable,
    /// The server answered, and not with the page.
    Status(u16),
    /// The answer ended before its end.
    Short,
    /// We were told to give up.
    Stopped,
    /// Something else.
    Other(String),
}

impl Failure {
    /// In a word.
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

    /// Of an error of a connection that stood, or did not yet.
    pub(super) fn of(cause: &io::Error, is_connected: bool) -> Failure {
        match cause.get_ref().and_then(|inner| inner.downcast_ref::<Bad>()) {
            Some(Bad::Status(status)) => return Failure::Status(*status),
            Some(Bad::Short) => return Failure::Short,
            Some(Bad::Stopped) => return Failure::Stopped,
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

/// Faults of an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Bad {
    #[error("status {0}")]
    Status(u16),
    #[error("cut short")]
    Short,
    #[error("stopped")]
    Stopped,
}

impl From<Bad> for io::Error {
    fn from(bad: Bad) -> io::Error {
        io::Error::new(ErrorKind::InvalidData, bad)
    }
}
