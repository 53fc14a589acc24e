//! Outstanding packet-ins of a switch.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Maximum recorded latency, in ns: well above the response timeout of any measurement.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Free,
    Waiting,
    Answered,
    Expired,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    n: u32,
    sent_ns: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseMatch {
    First(u64),
    Duplicate,
    Late,
    /// Response to no recent probe.
    Unmatched,
}

/// Probes of one switch, by number. The slot of a probe is its number modulo the number of slots.
#[derive(Debug)]
pub struct OutstandingProbes {
    slots: Vec<Slot>,
    next: u32,
    oldest: u32,
    waiting: u32,
}

impl OutstandingProbes {
    /// Creates a table with this number of slots, at least one.
    pub fn new(slots: u32) -> OutstandingProbes {
        let free = Slot { n: 0, sent_ns: 0, state: State::Free };
        OutstandingProbes { slots: vec![free; slots.max(1) as usize], next: 0, oldest: 0, waiting: 0 }
    }

    #[inline]
    fn slot_ix(&self, n: u32) -> usize {
        n as usize % self.slots.len()
    }

    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Returns the number of a new probe, sent now; `None` while its slot holds an outstanding
    /// probe.
    #[inline]
    pub fn send(&mut self, now_ns: u64) -> Option<u32> {
        let n = self.next;
        let ix = self.slot_ix(n);
        if self.slots[ix].state == State::Waiting {
            return None;
        }
        self.slots[ix] = Slot { n, sent_ns: now_ns, state: State::Waiting };
        self.next = n.wrapping_add(1);
        self.waiting += 1;
        Some(n)
    }

    #[inline]
    pub fn answer(&mut self, n: u32, modulus: Option<u32>, now_ns: u64) -> ResponseMatch {
        let n = match modulus {
            None => n,
            // The latest assigned number that is congruent.
            Some(modulus) => {
                self.next.wrapping_sub(1).wrapping_sub(self.next.wrapping_sub(1).wrapping_sub(n) % modulus)
            }
        };
        let ix = self.slot_ix(n);
        let slot = &mut self.slots[ix];
        if slot.n != n {
            return ResponseMatch::Unmatched;
        }
        match slot.state {
            State::Free => ResponseMatch::Unmatched,
            State::Answered => ResponseMatch::Duplicate,
            State::Expired => {
                slot.state = State::Answered;
                ResponseMatch::Late
            }
            State::Waiting => {
                slot.state = State::Answered;
                let latency_ns = now_ns.saturating_sub(slot.sent_ns);
                self.waiting -= 1;
                self.forget_answered();
                ResponseMatch::First(latency_ns)
            }
        }
    }

    fn is_waiting(&self, n: u32) -> bool {
        let slot = &self.slots[self.slot_ix(n)];
        slot.n == n && slot.state == State::Waiting
    }

    /// Skips answered probes, so that searches for the oldest one are short.
    #[inline]
    fn forget_answered(&mut self) {
        while self.oldest != self.next && !self.is_waiting(self.oldest) {
            self.oldest = self.oldest.wrapping_add(1);
        }
    }
    pub fn oldest(&self, matches: impl Fn(u32) -> bool) -> Option<u32> {
        let count = self.next.wrapping_sub(self.oldest);
        (0..count).map(|at| self.oldest.wrapping_add(at)).find(|n| self.is_waiting(*n) && matches(*n))
    }

    pub fn expire(&mut self, deadline_ns: u64) -> u32 {
        let mut expired = 0;
        self.forget_answered();
        while self.oldest != self.next {
            // The oldest probe is outstanding: answered ones have been skipped.
            let ix = self.slot_ix(self.oldest);
            let slot = &mut self.slots[ix];
            if slot.sent_ns >= deadline_ns {
                break;
            }
            slot.state = State::Expired;
            self.waiting -= 1;
            expired += 1;
            self.forget_answered();
        }
        expired
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    pub packet_ins: u64,
    pub answered: u64,
    pub unanswered: u64,
    /// Unanswered packet-ins with a late response.
    pub late: u64,
    /// Further responses to answered packet-ins.
    pub duplicates: u64,
    /// Responses to no recent packet-in.
    pub unmatched: u64,
    /// Packet-ins due in an open loop but not sent, since their slot held an outstanding probe.
    pub not_sent: u64,
    pub flow_mods: u64,
    pub packet_outs: u64,
    /// Errors received, and messages of the controller that were rejected.
    pub errors: u64,
    pub connections_lost: u64,
}

#[derive(Clone, Debug)]
pub struct Tally {
    pub counts: Counts,
    /// First responses during the loop; `counts.answered` has those after its end, too.
    pub responses: u64,
    /// Latency of first responses, in ns.
    pub latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are in order");
        Tally { counts: Counts::default(), responses: 0, latency }
    }
}

impl Tally {
    /// Returns the number of packet-ins that are neither answered nor expired.
    pub fn waiting(&self) -> u64 {
        self.counts.packet_ins - self.counts.answered - self.counts.unanswered
    }

    pub fn add(&mut self, other: &Tally) {
        let (own, more) = (&mut self.counts, &other.counts);
        own.packet_ins += more.packet_ins;
        own.answered += more.answered;
        own.unanswered += more.unanswered;
        own.late += more.late;
        own.duplicates += more.duplicates;
        own.unmatched += more.unmatched;
        own.not_sent += more.not_sent;
        own.flow_mods += more.flow_mods;
        own.packet_outs += more.packet_outs;
        own.errors += more.errors;
        self.responses += other.responses;
        self.latency += &other.latency;
    }

    #[inline]
    pub fn note(&mut self, verdict: ResponseMatch, is_in_loop: bool) {
        match verdict {
            ResponseMatch::First(ns) => {
                self.latency.saturating_record(ns.max(1));
                self.counts.answered += 1;
                self.responses += u64::from(is_in_loop);
            }
            ResponseMatch::Duplicate => self.counts.duplicates += 1,
            ResponseMatch::Late => self.counts.late += 1,
            ResponseMatch::Unmatched => self.counts.unmatched += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_response_completes_probe() {
        let mut probes = OutstandingProbes::new(4);
        let n = probes.send(100).unwrap();
        assert_eq!(probes.answer(n, None, 350), ResponseMatch::First(250));
        assert_eq!(probes.answer(n, None, 360), ResponseMatch::Duplicate);
        assert_eq!(probes.answer(n + 1, None, 360), ResponseMatch::Unmatched);
        assert_eq!(probes.waiting(), 0);
    }

    #[test]
    fn expired_probe_gets_late_response() {
        let mut probes = OutstandingProbes::new(8);
        let numbers: Vec<u32> = (0..4).map(|at| probes.send(at * 10).unwrap()).collect();
        assert_eq!(probes.answer(numbers[1], None, 50), ResponseMatch::First(40));
        assert_eq!(probes.expire(20), 1);
        assert_eq!(probes.answer(numbers[0], None, 60), ResponseMatch::Late);
        assert_eq!(probes.answer(numbers[0], None, 60), ResponseMatch::Duplicate);
        assert_eq!((probes.waiting(), probes.expire(1_000), probes.waiting()), (2, 2, 0));
    }

    #[test]
    fn outstanding_slot_is_not_reused() {
        let mut probes = OutstandingProbes::new(2);
        assert_eq!((probes.send(0), probes.send(0), probes.send(0)), (Some(0), Some(1), None));
        assert_eq!(probes.answer(0, None, 1), ResponseMatch::First(1));
        assert_eq!(probes.send(5), Some(2));
        // Probe 2 has taken the slot.
        assert_eq!(probes.answer(0, None, 6), ResponseMatch::Unmatched);
    }

    #[test]
    fn oldest_matching_probe_found() {
        let mut probes = OutstandingProbes::new(8);
        (0..6).for_each(|_| assert!(probes.send(0).is_some()));
        assert_eq!(probes.answer(1, None, 0), ResponseMatch::First(0));
        assert_eq!(probes.oldest(|n| n % 2 == 1), Some(3));
        assert_eq!(probes.oldest(|n| n > 6), None);
    }

    #[test]
    fn partial_number_matches_latest_probe() {
        let mut probes = OutstandingProbes::new(16);
        (0..10).for_each(|_| assert!(probes.send(0).is_some()));
        // 9 is the latest number congruent to 1 modulo 4; 6 is congruent to 2, and 2 as well, but
        // it is older.
        assert_eq!(probes.answer(2, Some(4), 5), ResponseMatch::First(5));
        assert_eq!(probes.answer(6, None, 5), ResponseMatch::Duplicate);
        assert_eq!(probes.answer(1, Some(4), 5), ResponseMatch::First(5));
        assert_eq!(probes.answer(9, None, 5), ResponseMatch::Duplicate);
    }
}
