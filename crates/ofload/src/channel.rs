//! One connection of an emulated switch: its socket and its buffers.

use std::io::{self, Read, Write};

use mio::net::TcpStream;

/// Size of the receive buffer; a message has at most 64 KiB.
const INBOX: usize = 256 * 1024;
/// Maximum number of unsent bytes; a controller that leaves more unread is disconnected. One
/// statistics reply may be long: after a second of load a switch that keeps rules has tens of
/// thousands, at some 150 bytes each.
const OUTBOX_MAX: usize = 128 * 1024 * 1024;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum State {
    Connecting,
    Open,
    Closed(String),
}

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

impl Channel {
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

    pub fn close(&mut self, reason: impl Into<String>) {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(reason.into());
            // The socket may be closed already.
            let _ = self.stream.shutdown(std::net::Shutdown::Both);
        }
        self.outbox.clear();
        self.written = 0;
    }

    /// Reads from the socket. Returns whether it may have more bytes.
    pub fn fill(&mut self) -> bool {
        if !self.is_open() {
            return false;
        }
        match self.stream.read(&mut self.inbox[self.end..]) {
            Ok(0) => self.close("the controller closed the connection"),
            Ok(count) => {
                self.end += count;
                // A short read has emptied the socket; later bytes cause another event.
                return self.end == self.inbox.len();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(error) => self.close(error.to_string()),
        }
        false
    }

    pub fn take_inbox(&mut self) -> (Vec<u8>, std::ops::Range<usize>) {
        (std::mem::take(&mut self.inbox), self.start..self.end)
    }
    pub fn put_back(&mut self, mut inbox: Vec<u8>, rest: std::ops::Range<usize>) {
        let len = rest.len();
        if rest.start > 0 {
            inbox.copy_within(rest, 0);
        }
        (self.inbox, self.start, self.end) = (inbox, 0, len);
    }

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
