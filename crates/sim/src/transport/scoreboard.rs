//! Sender state of each segment between the lowest unacknowledged and the highest sent:
//! acknowledged, lost and not yet retransmitted, or in flight (RFC 6675, in whole segments).
//!
//! The scoreboard uses rings of bits as wide as the window. Each of the two edges passes every
//! segment once, so an acknowledgement costs constant time on average.

use crate::bits::{has, put, take};
use crate::packet::since;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Limit of those sent before [`Limits::since`]: the plain time-out.
    pub(crate) first: u64,
    /// Limit of those sent since: the backed-off time-out.
    pub(crate) repeated: u64,
    pub(crate) since: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    pub(crate) lost: u32,
    pub(crate) has_repeated: bool,
    /// Time until the next of the others times out, picoseconds.
    pub(crate) left: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scoreboard {
    acked: Box<[u64]>,
    lost: Box<[u64]>,
    /// Time each segment was last sent, for transports that time single packets; else empty.
    stamps: Box<[u32]>,
    acked_count: u32,
    pub(crate) lost_count: u32,
    /// Segments below have been judged: enough beyond them has arrived to call them lost.
    edge: u32,
    /// Segments at or above the edge acknowledged out of order.
    acked_beyond: u32,
    lost_from: u32,
}

impl Scoreboard {
    /// Creates a scoreboard for windows of up to `64 * words` segments; `words` is a power of two.
    pub(crate) fn new(words: usize, is_timed: bool) -> Scoreboard {
        let ring = || vec![0u64; words].into_boxed_slice();
        let stamps = if is_timed { words * 64 } else { 0 };
        Scoreboard {
            acked: ring(),
            lost: ring(),
            stamps: vec![0u32; stamps].into_boxed_slice(),
            ..Scoreboard::default()
        }
    }

    pub(crate) fn reset(&mut self) {
        self.acked.fill(0);
        self.lost.fill(0);
        (self.acked_count, self.lost_count, self.edge, self.acked_beyond, self.lost_from) = (0, 0, 0, 0, 0);
    }

    /// Returns how many of `outstanding` segments from `una` on are assumed to be in flight.
    #[inline]
    pub(crate) fn in_network(&self, outstanding: u32) -> u32 {
        outstanding - self.acked_count - self.lost_count
    }

    /// Removes everything below `ack`. Returns how much of it was not acknowledged before.
    pub(crate) fn advance(&mut self, una: u32, ack: u32) -> u32 {
        let mut newly = 0;
        for segment in una..ack {
            if take(&mut self.acked, segment) {
                self.acked_count -= 1;
                self.acked_beyond -= u32::from(segment >= self.edge);
            } else {
                newly += 1;
                self.lost_count -= u32::from(take(&mut self.lost, segment));
            }
        }
        self.edge = self.edge.max(ack);
        self.lost_from = self.lost_from.max(ack);
        newly
    }

    /// Records the arrival of a segment above `una`. Returns false if that was known.
    pub(crate) fn acknowledge(&mut self, segment: u32) -> bool {
        if !put(&mut self.acked, segment) {
            return false;
        }
        self.acked_count += 1;
        self.acked_beyond += u32::from(segment >= self.edge);
        self.lost_count -= u32::from(take(&mut self.lost, segment));
        true
    }

    /// Judges the segments beyond which at least `threshold` others have arrived: the missing ones
    /// are lost (IsLost of RFC 6675 §4), except retransmissions sent after `cause` (by their
    /// stamps), which nothing has overtaken. Returns the number of newly lost segments.
    pub(crate) fn find_lost(&mut self, threshold: u32, cause: u32) -> u32 {
        let mut found = 0;
        while self.acked_beyond >= threshold.max(1) {
            let segment = self.edge;
            self.edge += 1;
            if has(&self.acked, segment) {
                self.acked_beyond -= 1;
                // Stamps wrap; the difference of two that are close is small in one direction.
            } else if self.stamp_of(segment).is_none_or(|sent| cause.wrapping_sub(sent) < 1 << 31) {
                found += u32::from(self.mark_lost(segment));
            }
        }
        found
    }

    /// Marks one outstanding segment as lost. Returns false if it has arrived or was lost already.
    pub(crate) fn mark_lost(&mut self, segment: u32) -> bool {
        if has(&self.acked, segment) || !put(&mut self.lost, segment) {
            return false;
        }
        self.lost_count += 1;
        self.lost_from = self.lost_from.min(segment);
        true
    }

    pub(crate) fn mark_all_lost(&mut self, una: u32, next: u32) {
        for segment in una..next {
            self.mark_lost(segment);
        }
        (self.edge, self.acked_beyond) = (next, 0);
    }

    pub(crate) fn expire(&mut self, una: u32, next: u32, now: u64, limits: &Limits) -> Expiry {
        let mut expiry = Expiry { lost: 0, has_repeated: false, left: None };
        for segment in una..next {
            if has(&self.acked, segment) || has(&self.lost, segment) {
                continue;
            }
            let sent = self.stamps[segment as usize & (self.stamps.len() - 1)];
            let is_new = (sent.wrapping_sub(limits.since) as i32) >= 0;
            let left = (if is_new { limits.repeated } else { limits.first }).saturating_sub(since(sent, now));
            if left == 0 {
                expiry.lost += u32::from(self.mark_lost(segment));
                expiry.has_repeated |= is_new;
            } else {
                expiry.left = Some(expiry.left.map_or(left, |least: u64| least.min(left)));
            }
        }
        expiry
    }

    pub(crate) fn take_lost(&mut self) -> Option<u32> {
        if self.lost_count == 0 {
            return None;
        }
        let mut at = self.lost_from;
        loop {
            let word = self.lost[(at >> 6) as usize & (self.lost.len() - 1)] >> (at & 63);
            if word != 0 {
                at += word.trailing_zeros();
                break;
            }
            at = (at | 63) + 1;
        }
        take(&mut self.lost, at);
        self.lost_count -= 1;
        self.lost_from = at + 1;
        Some(at)
    }

    #[inline]
    pub(crate) fn note_sent(&mut self, segment: u32, stamp: u32) {
        let mask = self.stamps.len().wrapping_sub(1);
        if let Some(at) = self.stamps.get_mut(segment as usize & mask) {
            *at = stamp;
        }
    }

    /// Returns the stamp of the latest transmission of a segment, or `None` if stamps are off.
    pub(crate) fn stamp_of(&self, segment: u32) -> Option<u32> {
        self.stamps.get(segment as usize & self.stamps.len().wrapping_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use net::RandomStream;

    use super::*;

    #[test]
    fn three_beyond_make_a_segment_lost_once() {
        let mut board = Scoreboard::new(2, false);
        for segment in [1, 2] {
            assert!(board.acknowledge(segment));
            assert_eq!(board.find_lost(3, 0), 0);
        }
        assert!(board.acknowledge(4));
        assert_eq!(board.find_lost(3, 0), 1, "0, but not 3: only one lies beyond it");
        assert_eq!((board.lost_count, board.in_network(6)), (1, 2), "3 and 5 are in flight");
        assert_eq!(board.take_lost(), Some(0));
        assert_eq!((board.find_lost(3, 0), board.take_lost()), (0, None), "it is not lost again");
        assert_eq!(board.advance(0, 3), 1);
        assert_eq!(board.in_network(3), 2);
    }

    #[test]
    fn later_packets_use_longer_timeouts() {
        let ms = 1_000_000_000u64;
        let mut board = Scoreboard::new(1, true);
        for (segment, at) in [(0, 0), (1, ms), (2, 2 * ms), (3, 4 * ms)] {
            board.note_sent(segment, crate::packet::stamp(at));
        }
        board.acknowledge(1);
        let limits = Limits { first: 3 * ms, repeated: 6 * ms, since: crate::packet::stamp(4 * ms) };
        let expiry = board.expire(0, 4, 4 * ms, &limits);
        assert_eq!((expiry.lost, expiry.has_repeated), (1, false));
        assert!(expiry.left.is_some_and(|left| left.abs_diff(ms) < 1 << 15), "2 has one left, 3 has six");
        assert_eq!(board.take_lost(), Some(0));
        board.note_sent(0, crate::packet::stamp(4 * ms));
        let expiry = board.expire(0, 4, 10 * ms + (1 << 15), &limits);
        assert_eq!((expiry.lost, expiry.has_repeated, expiry.left), (3, true, None));
    }

    /// Compares with sets under random acknowledgements, through several turns of the ring.
    #[test]
    fn the_rings_agree_with_sets() {
        let mut rng = RandomStream::new(3, "board");
        let mut board = Scoreboard::new(1, false);
        let (mut acked, mut lost) = (BTreeSet::new(), BTreeSet::new());
        let (mut una, mut next, mut judged) = (0u32, 0u32, 0u32);
        for _ in 0..20_000 {
            next = (next + rng.next_below(3) as u32).min(una + 60);
            if next > una + 1 && rng.next_below(4) > 0 {
                let segment = una + 1 + rng.next_below(u64::from(next - una - 1)) as u32;
                assert_eq!(board.acknowledge(segment), acked.insert(segment));
                lost.remove(&segment);
            } else if next > una {
                let mut ack = una + 1;
                while acked.contains(&ack) {
                    ack += 1;
                }
                let newly = (una..ack).filter(|s| !acked.contains(s)).count() as u32;
                assert_eq!(board.advance(una, ack), newly);
                acked.retain(|s| *s >= ack);
                lost.retain(|s| *s >= ack);
                (una, judged) = (ack, judged.max(ack));
            }
            board.find_lost(3, 0);
            while acked.range(judged..).count() >= 3 {
                if !acked.contains(&judged) {
                    lost.insert(judged);
                }
                judged += 1;
            }
            assert_eq!((board.lost_count, board.in_network(next - una)), {
                let away = next - una - (acked.len() + lost.len()) as u32;
                (lost.len() as u32, away)
            });
            if rng.next_below(3) == 0 {
                assert_eq!(board.take_lost(), lost.pop_first());
            }
        }
    }
}
