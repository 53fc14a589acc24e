//! Which packet-ins of a switch wait for their answers.

use hdrhistogram::Histogram;

/// Longest latency kept apart from longer ones, ns: well above the patience of any measurement.
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

/// What an answer was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The first one, after so many ns.
    First(u64),
    /// Another one.
    Duplicate,
    /// The first one, but the probe had been given up.
    Late,
    /// To nothing that was sent lately.
    Stray,
}

/// Probes of one switch, by number. A probe's slot is its number modulo their count.
#[derive(Debug)]
pub struct Book {
    slots: Vec<Slot>,
    next: u32,
    oldest: u32,
    waiting: u32,
}

impl Book {
    /// One with room for so many, at least one.
    pub fn new(slots: u32) -> Book {
        let free = Slot { n: 0, sent_ns: 0, state: State::Free };
        Book { slots: vec![free; slots.max(1) as usize], next: 0, oldest: 0, waiting: 0 }
    }

    #[inline]
    fn place(&self, n: u32) -> usize {
        n as usize % self.slots.len()
    }

    /// Probes that wait.
    #[inline]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The number of a new probe, sent now; `None` while the one whose slot it needs still waits.
    #[inline]
    pub fn send(&mut self, now_ns: u64) -> Option<u32> {
        let n = self.next;
        let place = self.place(n);
        if self.slots[place].state == State::Waiting {
            return None;
        }
        self.slots[place] = Slot { n, sent_ns: now_ns, state: State::Waiting };
        self.next = n.wrapping_add(1);
        self.waiting += 1;
        Some(n)
    }

    /// An answer to the probe whose number agrees with `n` modulo `modulus`.
    #[inline]
    pub fn answer(&mut self, n: u32, modulus: Option<u32>, now_ns: u64) -> Verdict {
        let n = match modulus {
            None => n,
            // The latest number that agrees, and was given.
            Some(modulus) => {
                self.next.wrapping_sub(1).wrapping_sub(self.next.wrapping_sub(1).wrapping_sub(n) % modulus)
            }
        };
        let place = self.place(n);
        let slot = &mut self.slots[place];
        if slot.n != n {
            return Verdict::Stray;
        }
        match slot.state {
            State::Free => Verdict::Stray,
            State::Answered => Verdict::Duplicate,
            State::Expired => {
                slot.state = State::Answered;
                Verdict::Late
            }
            State::Waiting => {
                slot.state = State::Answered;
                let latency_ns = now_ns.saturating_sub(slot.sent_ns);
                self.waiting -= 1;
                self.forget_answered();
                Verdict::First(latency_ns)
            }
        }
    }

    /// Keeps searches for the oldest short.
    #[inline]
    fn forget_answered(&mut self) {
        while self.oldest != self.next {
            let slot = &self.slots[self.place(self.oldest)];
            if slot.n == self.oldest && slot.state == State::Waiting {
                return;
            }
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// The oldest waiting probe that `is_meant` names.
    pub fn oldest(&self, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        let count = self.next.wrapping_sub(self.oldest);
        (0..count).map(|at| self.oldest.wrapping_add(at)).find(|n| {
            let slot = &self.slots[self.place(*n)];
            slot.n == *n && slot.state == State::Waiting && is_meant(*n)
        })
    }

    /// Gives up probes sent before `deadline_ns`; how many.
    pub fn expire(&mut self, deadline_ns: u64) -> u32 {
        let mut expired = 0;
        self.forget_answered();
        while self.oldest != self.next {
            // The oldest one waits: all others have been passed over.
            let place = self.place(self.oldest);
            let slot = &mut self.slots[place];
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

/// What happened in one loop.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Packet-ins sent.
    pub sent: u64,
    /// Packet-ins that were due, but whose place was taken by one still waiting.
    pub withheld: u64,
    /// First answers, while the loop lasted.
    pub responses: u64,
    /// First answers after its end, within the patience.
    pub responses_after: u64,
    /// Packet-ins not answered within the patience.
    pub unanswered: u64,
    /// Of those: answered later.
    pub late: u64,
    /// Further answers.
    pub duplicates: u64,
    /// Answers to nothing.
    pub strays: u64,
    /// Flow-mods received.
    pub flow_mods: u64,
    /// Packet-outs received.
    pub packet_outs: u64,
    /// Error messages received and messages of the controller refused.
    pub errors: u64,
    /// Latency of first answers, ns.
    pub latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            sent: 0,
            withheld: 0,
            responses: 0,
            responses_after: 0,
            unanswered: 0,
            late: 0,
            duplicates: 0,
            strays: 0,
            flow_mods: 0,
            packet_outs: 0,
            errors: 0,
            latency: Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are in order"),
        }
    }
}

impl Tally {
    /// Packet-ins neither answered nor given up.
    pub fn waiting(&self) -> u64 {
        self.sent - self.responses - self.responses_after - self.unanswered
    }

    /// Adds what happened in another loop.
    pub fn add(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.withheld += other.withheld;
        self.responses += other.responses;
        self.responses_after += other.responses_after;
        self.unanswered += other.unanswered;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.strays += other.strays;
        self.flow_mods += other.flow_mods;
        self.packet_outs += other.packet_outs;
        self.errors += other.errors;
        self.latency += &other.latency;
    }

    /// Notes an answer.
    #[inline]
    pub fn note(&mut self, verdict: Verdict, is_in_loop: bool) {
        match verdict {
            Verdict::First(ns) => {
                self.latency.saturating_record(ns.max(1));
                if is_in_loop {
                    self.responses += 1;
                } else {
                    self.responses_after += 1;
                }
            }
            Verdict::Duplicate => self.duplicates += 1,
            Verdict::Late => self.late += 1,
            Verdict::Stray => self.strays += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_probe_is_answered_once() {
        let mut book = Book::new(4);
        let n = book.send(100).unwrap();
        assert_eq!(book.answer(n, None, 350), Verdict::First(250));
        assert_eq!(book.answer(n, None, 360), Verdict::Duplicate);
        assert_eq!(book.answer(n + 1, None, 360), Verdict::Stray);
        assert_eq!(book.waiting(), 0);
    }

    #[test]
    fn what_waits_too_long_is_given_up_and_comes_late() {
        let mut book = Book::new(8);
        let numbers: Vec<u32> = (0..4).map(|at| book.send(at * 10).unwrap()).collect();
        assert_eq!(book.answer(numbers[1], None, 50), Verdict::First(40));
        assert_eq!(book.expire(20), 1);
        assert_eq!(book.answer(numbers[0], None, 60), Verdict::Late);
        assert_eq!(book.answer(numbers[0], None, 60), Verdict::Duplicate);
        assert_eq!((book.waiting(), book.expire(1_000), book.waiting()), (2, 2, 0));
    }

    #[test]
    fn a_slot_that_waits_is_not_given_away() {
        let mut book = Book::new(2);
        assert_eq!((book.send(0), book.send(0), book.send(0)), (Some(0), Some(1), None));
        assert_eq!(book.answer(0, None, 1), Verdict::First(1));
        assert_eq!(book.send(5), Some(2));
        // Its slot was taken over by number 2.
        assert_eq!(book.answer(0, None, 6), Verdict::Stray);
    }

    #[test]
    fn the_oldest_one_meant_is_found() {
        let mut book = Book::new(8);
        (0..6).for_each(|_| assert!(book.send(0).is_some()));
        assert_eq!(book.answer(1, None, 0), Verdict::First(0));
        assert_eq!(book.oldest(|n| n % 2 == 1), Some(3));
        assert_eq!(book.oldest(|n| n > 6), None);
    }

    #[test]
    fn numbers_known_in_part_are_the_latest_that_agree() {
        let mut book = Book::new(16);
        (0..10).for_each(|_| assert!(book.send(0).is_some()));
        // 9 is the latest; 6 modulo 4 is 2, and 2 agrees too, but is older.
        assert_eq!(book.answer(2, Some(4), 5), Verdict::First(5));
        assert_eq!(book.answer(6, None, 5), Verdict::Duplicate);
        assert_eq!(book.answer(1, Some(4), 5), Verdict::First(5));
        assert_eq!(book.answer(9, None, 5), Verdict::Duplicate);
    }
}
