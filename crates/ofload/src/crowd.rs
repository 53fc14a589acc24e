//! Connections that never become switches: noise, messages that do not end, silence.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use net::Stream;
use openflow::{Envelope, Message, Xid, wire};

use crate::attack::{Attack, Deeds, Force, Signals};
use crate::{Error, process};

/// Connections begun and not made yet, at most. The kernel sends again for each of them what a full queue has dropped, all
/// at the same moment and on the generator's core: 9,000 at once stop it for 40 ms, which is no latency of the controller.
const PENDING_MAX: u64 = 64;
/// Connections that get another byte of their endless message between two looks.
const DRIBBLES: usize = 64;
/// Noise is left to itself for so long; then the next connection takes its place.
const NOISE_LASTS: Duration = Duration::from_millis(50);
/// Bytes of one piece of noise, at most.
const NOISE_MAX: u64 = 4_096;
/// A place whose connection could not be made is left alone for so long.
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

/// One connection.
struct Visitor {
    stream: TcpStream,
    since: Instant,
    has_spoken: bool,
}

/// All of them.
pub(crate) struct Crowd {
    attack: Attack,
    controller: SocketAddr,
    poll: Poll,
    visitors: Vec<Option<Visitor>>,
    /// Places without a connection.
    free: Vec<usize>,
    next_dribble: usize,
    rest_until: Option<Instant>,
    draw: Stream,
    deeds: Deeds,
    open: u64,
    pending: u64,
}

impl Crowd {
    pub(crate) fn new(attack: Attack, force: Force, controller: SocketAddr) -> Result<Crowd, Error> {
        let wanted = if attack == Attack::RandomBytes { force.noisy } else { force.connections } as usize;
        process::allow_files(wanted as u64 + 512).map_err(Error::Files)?;
        Ok(Crowd {
            attack,
            controller,
            poll: Poll::new().map_err(Error::Poll)?,
            visitors: (0..wanted).map(|_| None).collect(),
            free: (0..wanted).rev().collect(),
            next_dribble: 0,
            rest_until: None,
            draw: Stream::new(1, attack.name()),
            deeds: Deeds::default(),
            open: 0,
            pending: 0,
        })
    }

    /// Comes and comes again until it is told to stop.
    pub(crate) fn run_until(mut self, signals: &Signals) -> Result<Deeds, Error> {
        let mut events = Events::with_capacity(4_096);
        while !signals.stop.load(Ordering::Acquire) {
            self.connect();
            match self.poll.poll(&mut events, Some(Duration::from_millis(1))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(Error::Poll(error)),
                _ => {}
            }
            for event in &events {
                self.look(event.token().0);
            }
            if self.attack == Attack::HalfMessages {
                self.dribble();
            }
            if self.attack == Attack::RandomBytes {
                self.leave();
            }
            self.deeds.open_max = self.deeds.open_max.max(self.open);
            if self.free.is_empty() || self.deeds.connections >= self.visitors.len() as u64 {
                signals.is_under_way.store(true, Ordering::Release);
            }
        }
        Ok(self.deeds)
    }

    fn connect(&mut self) {
        if self.rest_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        self.rest_until = None;
        while self.pending < PENDING_MAX {
            let Some(at) = self.free.pop() else { return };
            let made = TcpStream::connect(self.controller).and_then(|mut stream| {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut stream, Token(at), interest)?;
                Ok(stream)
            });
            match made {
                Ok(stream) => {
                    self.visitors[at] = Some(Visitor { stream, since: Instant::now(), has_spoken: false });
                    self.pending += 1;
                }
                Err(_) => {
                    self.deeds.refused += 1;
                    self.free.push(at);
                    self.rest_until = Some(Instant::now() + AFTER_REFUSAL);
                    return;
                }
            }
        }
    }

    /// Something happened at a place.
    fn look(&mut self, at: usize) {
        let Some(visitor) = &mut self.visitors[at] else { return };
        if !visitor.has_spoken && visitor.stream.peer_addr().is_ok() {
            visitor.has_spoken = true;
            (self.pending, self.open) = (self.pending - 1, self.open + 1);
            self.deeds.connections += 1;
            let words = opening(self.attack, &mut self.draw);
            // What the socket does not take at once is not worth waiting for.
            self.deeds.bytes += visitor.stream.write(&words).unwrap_or(0) as u64;
        }
        let mut part = [0; 4_096];
        loop {
            match visitor.stream.read(&mut part) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        match visitor.has_spoken {
            true => self.deeds.closed += 1,
            false => self.deeds.refused += 1,
        }
        self.forget(at);
    }

    fn forget(&mut self, at: usize) {
        let Some(visitor) = self.visitors[at].take() else { return };
        self.free.push(at);
        match visitor.has_spoken {
            true => self.open -= 1,
            false => self.pending -= 1,
        }
    }

    /// Another byte of messages that never end.
    fn dribble(&mut self) {
        for _ in 0..DRIBBLES.min(self.visitors.len()) {
            self.next_dribble = (self.next_dribble + 1) % self.visitors.len();
            let visitor = self.visitors[self.next_dribble].as_mut().filter(|visitor| visitor.has_spoken);
            if let Some(visitor) = visitor {
                self.deeds.bytes += visitor.stream.write(&[0]).unwrap_or(0) as u64;
            }
        }
    }

    /// Noise that was neither refused nor answered makes room for more.
    fn leave(&mut self) {
        for at in 0..self.visitors.len() {
            if self.visitors[at].as_ref().is_some_and(|visitor| visitor.since.elapsed() > NOISE_LASTS) {
                self.forget(at);
            }
        }
    }
}

fn bytes(message: Message) -> Vec<u8> {
    let mut out = Vec::new();
    // What is sent here is small, and has bytes.
    let written = wire::encode(&Envelope { xid: Xid(1), message }, &mut out);
    debug_assert!(written.is_ok(), "hellos and echoes have bytes");
    out
}

/// What a connection says first.
fn opening(attack: Attack, draw: &mut Stream) -> Vec<u8> {
    let hello = || bytes(Message::Hello { versions: 1 << wire::VERSION });
    let noise = |draw: &mut Stream, len: u64| (0..len).map(|_| draw.bits() as u8).collect::<Vec<u8>>();
    match attack {
        Attack::Silent | Attack::Flood => Vec::new(),
        // A packet-in of the greatest length.
        Attack::HalfMessages => [hello(), vec![wire::VERSION, 10, 0xff, 0xff, 0, 0, 0, 9], noise(draw, 64)].concat(),
        Attack::RandomBytes => {
            let len = draw.bits() % NOISE_MAX;
            match draw.bits() % 3 {
                0 => noise(draw, len),
                // Headers that are right, with a body that is not.
                1 => {
                    let mut out = hello();
                    for _ in 0..16 {
                        out.extend([wire::VERSION, (draw.bits() % 32) as u8, 0, 64, 0, 0, 0, 1]);
                        out.extend(noise(draw, 56));
                    }
                    out
                }
                _ => {
                    let mut out = [hello(), bytes(Message::EchoRequest(vec![7; 40])).repeat(16)].concat();
                    for _ in 0..8 {
                        let at = draw.bits() as usize % out.len();
                        out[at] = draw.bits() as u8;
                    }
                    out
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_first_is_what_the_attack_is_called() {
        let mut draw = Stream::new(1, "test");
        assert!(opening(Attack::Silent, &mut draw).is_empty());
        let half = opening(Attack::HalfMessages, &mut draw);
        let (first, length) = wire::decode(&half).unwrap().expect("a hello");
        assert!(matches!(first.message, Message::Hello { .. }));
        assert_eq!(wire::decode(&half[length..]), Ok(None), "the rest never ends");
        // Of many pieces of noise some are refused; all of them are sent whole.
        let pieces: Vec<Vec<u8>> = (0..100).map(|_| opening(Attack::RandomBytes, &mut draw)).collect();
        let is_bad = |piece: &&Vec<u8>| {
            let mut rest = piece.as_slice();
            loop {
                match wire::decode(rest) {
                    Ok(Some((_, length))) => rest = &rest[length..],
                    Ok(None) => return false,
                    Err(_) => return true,
                }
            }
        };
        assert!(pieces.iter().filter(is_bad).count() > 30);
    }
}
