//! Hostile connections that never become switches: noise, incomplete messages, silence.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use net::RandomStream;
use openflow::{Envelope, Message, Xid, wire};

use crate::attack::{Attack, AttackIntensity, AttackStats, Signals};
use crate::{Error, process};

/// Maximum number of connections being established. The kernel retransmits SYNs that a full queue
/// has dropped, all at the same time and on the generator's core. 9,000 of them block it for 40 ms,
/// which is not latency of the controller.
const PENDING_MAX: u64 = 64;
/// Number of connections that get another byte of their incomplete message per poll.
const DRIBBLES_PER_POLL: usize = 64;
const NOISE_LIFETIME: Duration = Duration::from_millis(50);
const NOISE_MAX: u64 = 4_096;
const AFTER_REFUSAL: Duration = Duration::from_millis(20);

struct HostileConnection {
    stream: TcpStream,
    since: Instant,
    is_established: bool,
}

pub(crate) struct HostilePeers {
    attack: Attack,
    controller: SocketAddr,
    poll: Poll,
    connections: Vec<Option<HostileConnection>>,
    free: Vec<usize>,
    next_dribble: usize,
    rest_until: Option<Instant>,
    draw: RandomStream,
    stats: AttackStats,
    open: u64,
    pending: u64,
}

impl HostilePeers {
    pub(crate) fn new(
        attack: Attack,
        intensity: AttackIntensity,
        controller: SocketAddr,
    ) -> Result<HostilePeers, Error> {
        let wanted = if attack == Attack::RandomBytes { intensity.noisy } else { intensity.connections } as usize;
        process::allow_files(wanted as u64 + 512).map_err(Error::Files)?;
        Ok(HostilePeers {
            attack,
            controller,
            poll: Poll::new().map_err(Error::Poll)?,
            connections: (0..wanted).map(|_| None).collect(),
            free: (0..wanted).rev().collect(),
            next_dribble: 0,
            rest_until: None,
            draw: RandomStream::new(1, attack.name()),
            stats: AttackStats::default(),
            open: 0,
            pending: 0,
        })
    }

    pub(crate) fn run_until(mut self, signals: &Signals) -> Result<AttackStats, Error> {
        let mut events = Events::with_capacity(4_096);
        while !signals.stop.load(Ordering::Acquire) {
            self.connect();
            match self.poll.poll(&mut events, Some(Duration::from_millis(1))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(Error::Poll(error)),
                _ => {}
            }
            for event in &events {
                self.handle_event(event.token().0);
            }
            if self.attack == Attack::HalfMessages {
                self.dribble();
            }
            if self.attack == Attack::RandomBytes {
                self.close_old_noise();
            }
            self.stats.open_max = self.stats.open_max.max(self.open);
            if self.free.is_empty() || self.stats.connections >= self.connections.len() as u64 {
                signals.is_in_effect.store(true, Ordering::Release);
            }
        }
        Ok(self.stats)
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
                    self.connections[at] =
                        Some(HostileConnection { stream, since: Instant::now(), is_established: false });
                    self.pending += 1;
                }
                Err(_) => {
                    self.stats.refused += 1;
                    self.free.push(at);
                    self.rest_until = Some(Instant::now() + AFTER_REFUSAL);
                    return;
                }
            }
        }
    }

    fn handle_event(&mut self, at: usize) {
        let Some(connection) = &mut self.connections[at] else { return };
        if !connection.is_established && connection.stream.peer_addr().is_ok() {
            connection.is_established = true;
            (self.pending, self.open) = (self.pending - 1, self.open + 1);
            self.stats.connections += 1;
            let bytes = opening(self.attack, &mut self.draw);
            // Bytes that the socket does not accept immediately are dropped.
            self.stats.bytes += connection.stream.write(&bytes).unwrap_or(0) as u64;
        }
        let mut part = [0; 4_096];
        loop {
            match connection.stream.read(&mut part) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        match connection.is_established {
            true => self.stats.closed += 1,
            false => self.stats.refused += 1,
        }
        self.forget(at);
    }

    fn forget(&mut self, at: usize) {
        let Some(connection) = self.connections[at].take() else { return };
        self.free.push(at);
        match connection.is_established {
            true => self.open -= 1,
            false => self.pending -= 1,
        }
    }
    fn dribble(&mut self) {
        for _ in 0..DRIBBLES_PER_POLL.min(self.connections.len()) {
            self.next_dribble = (self.next_dribble + 1) % self.connections.len();
            let connection =
                self.connections[self.next_dribble].as_mut().filter(|connection| connection.is_established);
            if let Some(connection) = connection {
                self.stats.bytes += connection.stream.write(&[0]).unwrap_or(0) as u64;
            }
        }
    }

    fn close_old_noise(&mut self) {
        for at in 0..self.connections.len() {
            if self.connections[at].as_ref().is_some_and(|connection| connection.since.elapsed() > NOISE_LIFETIME) {
                self.forget(at);
            }
        }
    }
}

fn bytes(message: Message) -> Vec<u8> {
    let mut out = Vec::new();
    // Hellos and echoes are small and can be encoded.
    let written = wire::encode(&Envelope { xid: Xid(1), message }, &mut out);
    debug_assert!(written.is_ok(), "hellos and echoes can be encoded");
    out
}

fn opening(attack: Attack, draw: &mut RandomStream) -> Vec<u8> {
    let hello = || bytes(Message::Hello { versions: 1 << wire::VERSION });
    let noise = |draw: &mut RandomStream, len: u64| (0..len).map(|_| draw.next_u64() as u8).collect::<Vec<u8>>();
    match attack {
        Attack::Silent | Attack::Flood => Vec::new(),
        // A packet-in of maximum length.
        Attack::HalfMessages => [hello(), vec![wire::VERSION, 10, 0xff, 0xff, 0, 0, 0, 9], noise(draw, 64)].concat(),
        Attack::RandomBytes => {
            let len = draw.next_u64() % NOISE_MAX;
            match draw.next_u64() % 3 {
                0 => noise(draw, len),
                // A valid header with a random body.
                1 => {
                    let mut out = hello();
                    for _ in 0..16 {
                        out.extend([wire::VERSION, (draw.next_u64() % 32) as u8, 0, 64, 0, 0, 0, 1]);
                        out.extend(noise(draw, 56));
                    }
                    out
                }
                _ => {
                    let mut out = [hello(), bytes(Message::EchoRequest(vec![7; 40])).repeat(16)].concat();
                    for _ in 0..8 {
                        let at = draw.next_u64() as usize % out.len();
                        out[at] = draw.next_u64() as u8;
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
    fn opening_bytes_match_attack_kind() {
        let mut draw = RandomStream::new(1, "test");
        assert!(opening(Attack::Silent, &mut draw).is_empty());
        let half = opening(Attack::HalfMessages, &mut draw);
        let (first, length) = wire::decode(&half).unwrap().expect("a hello");
        assert!(matches!(first.message, Message::Hello { .. }));
        assert_eq!(wire::decode(&half[length..]), Ok(None), "the rest never ends");
        // Some of many pieces of noise are rejected; all are sent completely.
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
