//! One connection of a fake switch: its socket and what waits on both sides of it.

use std::io::{self, Read, Write};

use mio::net::TcpStream;

/// Room for what is read at once; a message is 64 KiB at most.
const INBOX: usize = 256 * 1024;
/// A controller that does not read is not written to beyond this. One answer about rules it has asked for may be long: after
/// a second of load a switch that keeps rules has tens of thousands, at some 150 bytes each.
const OUTBOX_MAX: usize = 128 * 1024 * 1024;

/// Whether bytes can be exchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    /// The connection is being made.
    Connecting,
    /// They can.
    Open,
    /// No more.
    Closed(String),
}

/// A connection.
#[derive(Debug)]
pub struct Channel {
    /// The socket.
    pub stream: TcpStream,
    /// Whether it can be used.
    pub state: State,
    /// What was read and not taken: `inbox[start..end]`.
    inbox: Vec<u8>,
    start: usize,
    end: usize,
    /// What is to be written: from `written` on.
    pub outbox: Vec<u8>,
    written: usize,
    is_writable: bool,
}

/// What a read brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// Bytes, and there may be more.
    More,
    /// All there is for now.
    Drained,
}

impl Channel {
    /// A connection about to be made.
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

    /// Whether bytes can be exchanged.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The socket says that it can be written to: the connection is there, or has failed, or takes bytes again.
    pub fn writable(&mut self) {
        self.is_writable = true;
        if self.state != State::Connecting {
            return;
        }
        match self.stream.take_error() {
            Ok(Some(error)) | Err(error) => self.close(error.to_string()),
            Ok(None) if self.stream.peer_addr().is_ok() => {
                self.state = State::Open;
                // Answers must not wait for acknowledgements.
                if let Err(error) = self.stream.set_nodelay(true) {
                    self.close(error.to_string());
                }
            }
            // Not connected yet: another event will come.
            Ok(None) => {}
        }
    }

    /// Ends it.
    pub fn close(&mut self, why: impl Into<String>) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(why.into());
            // It may be gone already.
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
                // A short read has emptied the socket; what comes later brings another event.
                return if self.end == self.inbox.len() { Filled::More } else { Filled::Drained };
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Filled::More,
            Err(error) => self.close(error.to_string()),
        }
        Filled::Drained
    }

    /// Lends what was read; to be given back by [`Channel::put_back`].
    pub fn take_inbox(&mut self) -> (Vec<u8>, std::ops::Range<usize>) {
        (std::mem::take(&mut self.inbox), self.start..self.end)
    }

    /// The buffer again, with what of it was not used.
    pub fn put_back(&mut self, mut inbox: Vec<u8>, rest: std::ops::Range<usize>) {
        let len = rest.len();
        if rest.start > 0 {
            inbox.copy_within(rest, 0);
        }
        (self.inbox, self.start, self.end) = (inbox, 0, len);
    }

    /// Writes what the socket takes.
    pub fn flush(&mut self) {
        if !self.is_open() || !self.is_writable {
            return self.limit();
        }
        while self.written < self.outbox.len() {
            match self.stream.write(&self.outbox[self.written..]) {
                Ok(0) => return self.close("the connection takes no bytes"),
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
