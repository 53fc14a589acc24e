//! Receivers: every packet is counted once, with its place in its flow and the time it took.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::header::Header;
use crate::clock::now_ns;

/// Silences up to this are not kept: a busy machine comes late by itself.
const SILENCE_NS: u64 = 10_000_000;

/// Most breaks kept of a flow: one that loses every other packet is no stream with interruptions any more.
const BREAKS_MAX: usize = 100_000;

/// A place where packets did not follow each other as they were sent, or not at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Break {
    /// When the first packet after it was sent, nanoseconds of CLOCK_MONOTONIC.
    pub sent_ns: u64,
    /// Silence before that packet, nanoseconds.
    pub silence_ns: u64,
    /// Packets skipped there that never arrived.
    pub lost: u64,
    /// The first sequence skipped, and the one after the last.
    pub skipped: (u64, u64),
}

/// What arrived of one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Received {
    /// Different packets that arrived before the end of the run.
    pub packets: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// Different packets that arrived after it: they were in flight.
    pub late: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Packets that arrived below the highest sequence seen.
    pub reordered: u64,
    /// Largest distance below it.
    pub reorder_extent: u64,
    /// Sum of the times from socket to socket, nanoseconds, of `packets`.
    pub delay_sum_ns: u64,
    /// Arrival of the last of `packets`, nanoseconds of CLOCK_MONOTONIC; 0 for none.
    pub last_ns: u64,
    /// Longest time between two consecutive arrivals before the end, nanoseconds.
    pub longest_gap_ns: u64,
    /// Breaks but those that are short and skip nothing, in order of time.
    pub breaks: Vec<Break>,
    /// The sequence after the highest seen.
    next: u64,
    /// Which have been seen, a bit each.
    seen: Vec<u64>,
}

impl Received {
    /// Whether anything arrived.
    pub fn has_any(&self) -> bool {
        self.packets + self.late > 0
    }

    /// Nothing more arrives: what was skipped and has not come is lost. Breaks that turn out to be none are forgotten.
    pub(super) fn finish(&mut self) {
        let seen = &self.seen;
        let has =
            |sequence: u64| seen.get((sequence / 64) as usize).is_some_and(|word| word & (1 << (sequence % 64)) != 0);
        for one in &mut self.breaks {
            one.lost = (one.skipped.0..one.skipped.1).filter(|sequence| !has(*sequence)).count() as u64;
        }
        self.breaks.retain(|one| one.lost > 0 || one.silence_ns > SILENCE_NS);
    }

    /// Notes a break, if this packet comes after one.
    fn note(&mut self, header: &Header, now_ns: u64) {
        let silence_ns = if self.last_ns > 0 { now_ns.saturating_sub(self.last_ns) } else { 0 };
        let is_break = header.sequence > self.next || silence_ns > SILENCE_NS;
        if is_break && self.breaks.len() < BREAKS_MAX {
            let skipped = (self.next, header.sequence.max(self.next));
            self.breaks.push(Break { sent_ns: header.sent_ns, silence_ns, lost: 0, skipped });
        }
    }

    /// One packet.
    pub(super) fn take(&mut self, header: &Header, bytes: usize, now_ns: u64, end_ns: u64) {
        let (word, bit) = ((header.sequence / 64) as usize, 1 << (header.sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        self.seen[word] |= bit;
        self.note(header, now_ns);
        if header.sequence < self.next {
            self.reordered += 1;
            self.reorder_extent = self.reorder_extent.max(self.next - 1 - header.sequence);
        }
        self.next = self.next.max(header.sequence + 1);
        if now_ns > end_ns {
            self.late += 1;
            return;
        }
        if self.last_ns > 0 {
            self.longest_gap_ns = self.longest_gap_ns.max(now_ns.saturating_sub(self.last_ns));
        }
        self.last_ns = now_ns;
        self.packets += 1;
        self.bytes += bytes as u64;
        self.delay_sum_ns += now_ns.saturating_sub(header.sent_ns);
    }
}

/// Receives until it is told to stop. Sequences beyond what any sender of ours reaches are not ours.
pub(super) fn listen(socket: &UdpSocket, flows: &Mutex<Vec<Received>>, stop: &AtomicBool, end_ns: u64) {
    const SEQUENCE_MAX: u64 = 1 << 32;
    let mut payload = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        // A time-out is a look at the flag; other errors are those of packets that could not be sent.
        let Ok(bytes) = socket.recv(&mut payload) else { continue };
        let now = now_ns();
        let Some(header) = Header::read(&payload[..bytes]).filter(|header| header.sequence < SEQUENCE_MAX) else {
            continue;
        };
        let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flow) = flows.get_mut(header.flow as usize) {
            flow.take(&header, bytes, now, end_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arrivals: &[(u64, u64)]) -> Received {
        let mut received = Received::default();
        for (sequence, now) in arrivals {
            received.take(&Header { flow: 0, sequence: *sequence, sent_ns: 0 }, 100, *now, 1000);
        }
        received
    }

    #[test]
    fn packets_are_counted_once_in_time_or_late() {
        let received = after(&[(0, 10), (1, 20), (1, 30), (2, 1001)]);
        assert_eq!((received.packets, received.bytes, received.late, received.duplicates), (2, 200, 1, 1));
        assert_eq!((received.delay_sum_ns, received.last_ns, received.longest_gap_ns), (30, 20, 10));
    }

    #[test]
    fn what_is_skipped_and_never_comes_is_a_break() {
        let ms = 1_000_000;
        let mut received = Received::default();
        for (sequence, at) in [(0, 1), (1, 2), (4, 5), (5, 6), (7, 7), (6, 8), (9, 60), (10, 90)] {
            received.take(&Header { flow: 0, sequence, sent_ns: at * ms - 1 }, 100, at * ms, 1000 * ms);
        }
        received.finish();
        let breaks: Vec<_> = received.breaks.iter().map(|one| (one.sent_ns, one.silence_ns, one.lost)).collect();
        // 2 and 3 are lost; 6 came late, which is no break; 8 is lost in a silence; the last silence loses nothing.
        assert_eq!(breaks, [(5 * ms - 1, 3 * ms, 2), (60 * ms - 1, 52 * ms, 1), (90 * ms - 1, 30 * ms, 0)]);
    }

    #[test]
    fn overtaken_packets_are_reordered_by_how_far() {
        let received = after(&[(0, 1), (200, 2), (1, 3), (199, 4), (201, 5)]);
        assert_eq!((received.reordered, received.reorder_extent, received.duplicates), (2, 199, 0));
    }
}
