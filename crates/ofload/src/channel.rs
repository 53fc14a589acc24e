//! One connection of an emulated switch: its socket and its buffers.

use std::io::{self, Read, Write};

use mio::net::TcpStream;

/// Size of the receive buffer; a message has at most 64 KiB.
const INBOX: usize = 256 * 1024;
/// Maximum number of unsent bytes; a controller that leaves more unread is disconnected. One
/// statistics reply may be long: after a second of load a switch that keeps rules has tens of
/// thousands, at some 150 bytes each.
const OUTBOX_MAX: usize = 128 * 1024 * 1024;

/// State of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    Connecting,
    Open,
    /// Closed, with the reason.
    Closed(String),
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    pub stream: TcpStream,
    pub state: State,
    /// Bytes read and not processed: `inbox[start..end]`.
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes to write, from `written` on.
    pub outbox: Vec<u8>,
    written: usize,
    is_writable: bool,
}

/// Result of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// Bytes were read, and more may follow.
    More,
    /// The socket is empty.
    Drained,
}

impl Channel {
    /// Creates the channel of a connecting socket.
    pub fn new(stream: TcpStream) -> Channel {
        Channel {
            stream,
            state: State::Connecting,
            inbox: vec![0; INBOX],
            start: 0,
            end: 0,
            outbox: Vec::new(),
            written: 0,
            is_writable: false,
        }
    }

    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Handles a writable socket: it has connected, failed, or accepts bytes again.
    pub fn writable(&mut self) {
        self.is_writable = true;
        if self.state != State::Connecting {
            return;
        }
        match self.stream.take_error() {
            Ok(Some(error)) | Err(error) => self.close(error.to_string()),
            Ok(None) if self.stream.peer_addr().is_ok() => {
                self.state = State::Open;
                // Nagle's algorithm would delay responses until an acknowledgement.
                if let Err(error) = self.stream.set_nodelay(true) {
                    self.close(error.to_string());
                }
            }
            // Still connecting: another event follows.
            Ok(None) => {}
        }
    }

    /// Closes the connection.
    pub fn close(&mut self, reason: impl Into<String>) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(reason.into());
            // The socket may be closed already.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        self.outbox.clear();
        self.written = 0;
    }

    /// Reads once.
    pub fn fill(&mut self) -> Filled {
        if !self.is_open() {
            return Filled::Drained;
        }
        match self.stream.read(&mut self.inbox[self.end..]) {
            Ok(0) => self.close("the controller closed the connection"),
            Ok(count) => {
                self.end += count;
                // A short read has emptied the socket; later bytes cause another event.
                return if self.end == self.inbox.len() { Filled::More } else { Filled::Drained };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Filled::More,
            Err(error) => self.close(error.to_string()),
        }
        Filled::Drained
    }

    /// Lends the received bytes, which [`Channel::put_back`] returns.
    pub fn take_inbox(&mut self) -> (Vec<u8>, std::ops::Range<usize>) {
        (std::mem::take(&mut self.inbox), self.start..self.end)
    }

    /// Returns the buffer with the range of unprocessed bytes.
    pub fn put_back(&mut self, mut inbox: Vec<u8>, rest: std::ops::Range<usize>) {
        let len = rest.len();
        if rest.start > 0 {
            inbox.copy_within(rest, 0);
        }
        (self.inbox, self.start, self.end) = (inbox, 0, len);
    }

    /// Writes as many bytes as the socket accepts.
    pub fn flush(&mut self) {
        if !self.is_open() || !self.is_writable {
            return self.limit();
        }
        while self.written < self.outbox.len() {
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(0) => return self.close("the connection accepts no bytes"),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_writable = false;
                    return self.limit();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return self.close(error.to_string()),
            }
        }
        self.outbox.clear();
        self.written = 0;
    }

    fn limit(&mut self) {
        if self.outbox.len() - self.written > OUTBOX_MAX {
            self.close(format!("the controller has left {} MiB unread", OUTBOX_MAX >> 20));
        }
    }
}
