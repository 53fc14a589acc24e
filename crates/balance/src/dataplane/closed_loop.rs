//! A closed loop for tests of hosts that spray: one flow with a constant number of packets in
//! flight, whose round-trip times the test sets by entropy value.

use std::collections::{BTreeMap, BTreeSet};

use net::Time;

use super::testing::{BASE_RTT, Bench};
use super::{HostFeedback, HostLoss, HostPacket};

const FLOW: u32 = 1;
/// Time until a packet without an answer is sent again, base RTTs.
const TIMEOUT_RTTS: u64 = 5;

pub(crate) struct ClosedLoop {
    pub(crate) bench: Bench,
    /// Number of packets in flight.
    window: usize,
    acks: Acks,
    una: u32,
    next: u32,
    /// Acknowledged packets from `una` on.
    early: BTreeSet<u32>,
    /// Ends of packets in flight by time and a running number.
    ends: BTreeMap<(Time, u64), End>,
    sent: u64,
}

/// The way in which the receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// Each packet, in any order.
    Single,
    /// All packets below the first that is missing.
    Cumulative,
}

struct End {
    seq: u32,
    value: u16,
    sent: Time,
    is_lost: bool,
}

impl ClosedLoop {
    pub(crate) fn new(spec: &str, window: usize, acks: Acks) -> ClosedLoop {
        let (early, ends) = (BTreeSet::new(), BTreeMap::new());
        ClosedLoop { bench: Bench::host(spec), window, acks, una: 0, next: 0, early, ends, sent: 0 }
    }

    /// Sends packets, each as soon as another has left. `rtt` is the round-trip time of the next
    /// packet on a value; `None` loses it. Returns the number of packets by value.
    pub(crate) fn run(&mut self, packets: u64, mut rtt: impl FnMut(u16, Time) -> Option<Time>) -> BTreeMap<u16, u32> {
        let mut hits = BTreeMap::new();
        for _ in 0..packets {
            let mut again = None;
            while again.is_none() && self.ends.len() >= self.window {
                again = self.step();
            }
            let seq = again.unwrap_or(self.next);
            self.next = self.next.max(seq + 1);
            let packet = HostPacket { flow: FLOW, seq, is_first: self.sent == 0, is_retransmission: again.is_some() };
            let value = self.bench.host_packet(&packet);
            let time = rtt(value, self.bench.now);
            let end = self.bench.now + time.unwrap_or(BASE_RTT * TIMEOUT_RTTS);
            self.ends.insert((end, self.sent), End { seq, value, sent: self.bench.now, is_lost: time.is_none() });
            self.sent += 1;
            *hits.entry(value).or_default() += 1;
        }
        hits
    }

    /// Handles the next end of a packet. Returns the packet that must be sent again.
    fn step(&mut self) -> Option<u32> {
        let ((now, _), end) = self.ends.pop_first()?;
        self.bench.now = now;
        if end.is_lost {
            self.bench.host_loss(FLOW, HostLoss::Timeout);
            return Some(end.seq);
        }
        let before = self.una;
        let is_new = end.seq >= self.una && self.early.insert(end.seq);
        while self.early.remove(&self.una) {
            self.una += 1;
        }
        let acked = if self.acks == Acks::Single { u32::from(is_new) } else { self.una - before };
        let (una, next, rtt) = (self.una, self.next, now - end.sent);
        self.bench.ack(&HostFeedback { flow: FLOW, entropy: end.value, marked: false, acked, una, next, rtt });
        None
    }
}
