//! Receivers: they count every packet once, with its sequence and its delay.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::header::Header;
use crate::clock::now_ns;

/// Shorter gaps are ignored: they also come from a busy machine.
const SILENCE_NS: u64 = 10_000_000;

/// Maximum number of recorded gaps per flow. A flow that loses every other packet is not a stream
/// with interruptions.
const GAPS_MAX: usize = 100_000;

/// A gap in a flow: packets are missing, out of order, or late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryGap {
    /// Sending time of the first packet after the gap, nanoseconds of CLOCK_MONOTONIC.
    pub sent_ns: u64,
    /// Time without a packet before that one, nanoseconds.
    pub silence_ns: u64,
    pub lost: u64,
    /// The first skipped sequence, and the one after the last.
    pub skipped: (u64, u64),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Received {
    /// Distinct packets that arrived before the end of the run.
    pub packets: u64,
    pub bytes: u64,
    /// Distinct packets that arrived after the end of the run: they were in flight.
    pub late: u64,
    pub duplicates: u64,
    /// Packets that arrived below the highest sequence seen, and the largest distance below it.
    pub reordered: u64,
    pub reorder_extent: u64,
    /// Sum of the socket-to-socket delays of `packets`, nanoseconds.
    pub delay_sum_ns: u64,
    /// Arrival of the last of `packets`, nanoseconds of CLOCK_MONOTONIC; 0 for none.
    pub last_ns: u64,
    /// Longest time between two consecutive arrivals before the end, nanoseconds.
    pub longest_gap_ns: u64,
    /// Gaps in order of time, without short ones that skip nothing.
    pub gaps: Vec<DeliveryGap>,
    next: u64,
    seen: Vec<u64>,
}

impl Received {
    pub fn has_any(&self) -> bool {
        self.packets + self.late > 0
    }

    /// Finishes the gaps: skipped packets that have not arrived are lost. Gaps without loss and
    /// with little silence are removed.
    pub(super) fn finish(&mut self) {
        let seen = &self.seen;
        let has =
            |sequence: u64| seen.get((sequence / 64) as usize).is_some_and(|word| word & (1 << (sequence % 64)) != 0);
        for gap in &mut self.gaps {
            gap.lost = (gap.skipped.0..gap.skipped.1).filter(|sequence| !has(*sequence)).count() as u64;
        }
        self.gaps.retain(|gap| gap.lost > 0 || gap.silence_ns > SILENCE_NS);
    }

    fn record_gap(&mut self, header: &Header, now_ns: u64) {
        let silence_ns = if self.last_ns > 0 { now_ns.saturating_sub(self.last_ns) } else { 0 };
        let is_gap = header.sequence > self.next || silence_ns > SILENCE_NS;
        if is_gap && self.gaps.len() < GAPS_MAX {
            let skipped = (self.next, header.sequence.max(self.next));
            self.gaps.push(DeliveryGap { sent_ns: header.sent_ns, silence_ns, lost: 0, skipped });
        }
    }

    pub(super) fn count_packet(&mut self, header: &Header, bytes: usize, now_ns: u64, end_ns: u64) {
        let (word, bit) = ((header.sequence / 64) as usize, 1 << (header.sequence % 64));
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        if self.seen[word] & bit != 0 {
            self.duplicates += 1;
            return;
        }
        self.seen[word] |= bit;
        self.record_gap(header, now_ns);
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

/// Receives until `stop` is set. A sequence that no sender reaches belongs to another program.
pub(super) fn listen(socket: &UdpSocket, flows: &Mutex<Vec<Received>>, stop: &AtomicBool, end_ns: u64) {
    const SEQUENCE_MAX: u64 = 1 << 32;
    let mut payload = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        // A timeout lets the loop check the flag; other errors come from packets that could not be
        // sent.
        let Ok(bytes) = socket.recv(&mut payload) else { continue };
        let now = now_ns();
        let Some(header) = Header::read(&payload[..bytes]).filter(|header| header.sequence < SEQUENCE_MAX) else {
            continue;
        };
        let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flow) = flows.get_mut(header.flow as usize) {
            flow.count_packet(&header, bytes, now, end_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(arrivals: &[(u64, u64)]) -> Received {
        let mut received = Received::default();
        for (sequence, now) in arrivals {
            received.count_packet(&Header { flow: 0, sequence: *sequence, sent_ns: 0 }, 100, *now, 1000);
        }
        received
    }

    #[test]
    fn packets_count_once_as_received_or_late() {
        let received = after(&[(0, 10), (1, 20), (1, 30), (2, 1001)]);
        assert_eq!((received.packets, received.bytes, received.late, received.duplicates), (2, 200, 1, 1));
        assert_eq!((received.delay_sum_ns, received.last_ns, received.longest_gap_ns), (30, 20, 10));
    }

    #[test]
    fn skipped_and_missing_packets_are_gap() {
        let ms = 1_000_000;
        let mut received = Received::default();
        for (sequence, at) in [(0, 1), (1, 2), (4, 5), (5, 6), (7, 7), (6, 8), (9, 60), (10, 90)] {
            received.count_packet(&Header { flow: 0, sequence, sent_ns: at * ms - 1 }, 100, at * ms, 1000 * ms);
        }
        received.finish();
        let gaps: Vec<_> = received.gaps.iter().map(|gap| (gap.sent_ns, gap.silence_ns, gap.lost)).collect();
        // 2 and 3 are lost; 6 is late, which is no gap; 8 is lost in a silence; the last silence
        // loses nothing.
        assert_eq!(gaps, [(5 * ms - 1, 3 * ms, 2), (60 * ms - 1, 52 * ms, 1), (90 * ms - 1, 30 * ms, 0)]);
    }

    #[test]
    fn reordering_extent_is_largest_distance() {
        let received = after(&[(0, 1), (200, 2), (1, 3), (199, 4), (201, 5)]);
        assert_eq!((received.reordered, received.reorder_extent, received.duplicates), (2, 199, 0));
    }
}
