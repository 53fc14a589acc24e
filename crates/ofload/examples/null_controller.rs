//! A minimal controller that returns every packet by packet-out and decides nothing. It shows the
//! speed of the generator itself: `cargo run --release -p anabranch-ofload --example
//! null_controller -- 127.0.0.1:6653`.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// Hello with the bitmap of 1.3, features request.
const GREETING: [u8; 24] = [4, 0, 0, 16, 0, 0, 0, 1, 0, 1, 0, 8, 0, 0, 0, 0x10, 4, 5, 0, 8, 0, 0, 0, 2];
/// Packet-out up to its frame: no buffer, from the controller, one output to port 1.
const OUT: [u8; 40] = [
    4, 13, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0,
    0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
];
const ECHO_REQUEST: u8 = 2;
const PACKET_IN: u8 = 10;
const LISTENER: Token = Token(usize::MAX);

struct Session {
    stream: TcpStream,
    inbox: Vec<u8>,
    len: usize,
    outbox: Vec<u8>,
}

impl Session {
    fn serve(&mut self) -> io::Result<bool> {
        loop {
            match self.stream.read(&mut self.inbox[self.len..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.len += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.flush(),
                Err(error) => return Err(error),
            }
            let is_full = self.len == self.inbox.len();
            self.answer();
            if !is_full {
                return self.flush();
            }
        }
    }

    fn answer(&mut self) {
        let mut at = 0;
        while let Some(header) = self.inbox[..self.len].get(at..at + 8) {
            let len = usize::from(u16::from_be_bytes([header[2], header[3]])).max(8);
            let kind = header[1];
            let Some(message) = self.inbox[..self.len].get(at..at + len) else { break };
            at += len;
            if kind == ECHO_REQUEST {
                self.outbox.extend_from_slice(&[4, 3]);
                self.outbox.extend_from_slice(&message[2..]);
            } else if kind == PACKET_IN && message.len() > 42 {
                let match_len = usize::from(u16::from_be_bytes([message[26], message[27]])).next_multiple_of(8);
                let Some(frame) = message.get(24 + match_len + 2..) else { continue };
                let mut head = OUT;
                head[2..4].copy_from_slice(&((OUT.len() + frame.len()) as u16).to_be_bytes());
                self.outbox.extend_from_slice(&head);
                self.outbox.extend_from_slice(frame);
            }
        }
        self.inbox.copy_within(at..self.len, 0);
        self.len -= at;
    }

    fn flush(&mut self) -> io::Result<bool> {
        let mut written = 0;
        while written < self.outbox.len() {
            match self.stream.write(&self.outbox[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.outbox.drain(..written);
        Ok(true)
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6653".to_owned());
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(address)?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut sessions: Vec<Option<Session>> = Vec::new();
    let mut events = Events::with_capacity(1_024);
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let interest = Interest::READABLE | Interest::WRITABLE;
                    poll.registry().register(&mut stream, Token(sessions.len()), interest)?;
                    stream.set_nodelay(true)?;
                    let outbox = GREETING.to_vec();
                    sessions.push(Some(Session { stream, inbox: vec![0; 256 * 1024], len: 0, outbox }));
                }
            } else if let Some(session) = &mut sessions[event.token().0]
                && !session.serve().unwrap_or(false)
            {
                sessions[event.token().0] = None;
            }
        }
    }
}
