//! Receivers: every packet is counted once, with its place in its flow and the time it took.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::header::Header;
use crate::clock::now_ns;

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
    fn overtaken_packets_are_reordered_by_how_far() {
        let received = after(&[(0, 1), (200, 2), (1, 3), (199, 4), (201, 5)]);
        assert_eq!((received.reordered, received.reorder_extent, received.duplicates), (2, 199, 0));
    }
}
