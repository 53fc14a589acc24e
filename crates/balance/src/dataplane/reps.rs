//! REPS, recycled entropy packet spraying: every packet has its own entropy value, and values whose
//! packets came back unmarked are reused (mechanisms.md P25; Bonato et al., arXiv 2407.21625 and
//! its artifact).
//!
//! A connection keeps a ring of the last 8 values acknowledged without a mark. A packet takes the
//! oldest of them that has not been reused; if all were, a random one of 65,535. A retransmission
//! timeout that looks like a failure *freezes* the ring: its values are used in turn, fresh or not,
//! because they are known to get through and random ones are not. The first acknowledgement after
//! `freeze` thaws it: the ring is emptied and one window is sent on random values.
//!
//! Readings where the source is silent: with trimmed packets a timeout means failure. Without,
//! congestion can cause one too, so the ring is frozen only if the last measured round trip was
//! below `low_rtt` × base: loss without a queue. This base RTT is the largest of the network, the only
//! one known to hosts here. Duplicate acknowledgements return their value like any other. A value
//! may be used `lifetime` times, for receivers that acknowledge several packets together. The thaw
//! is stored with a resolution of one microsecond.
//!
//! Pitfalls: acknowledgements that cover several packets starve the ring (`lifetime`). Flows
//! shorter than a window are sprayed at random. A high marking threshold hides asymmetry. REPS
//! needs receivers that accept packets in any order.
//!
//! - Helps: with transports that take packets in any order: slow or broken paths drop out of the
//!   recycled values.
//! - Hurts: with hosts that acknowledge several packets together, which starves the ring; with
//!   flows shorter than a window, which are sprayed at random; over DCTCP with cut rates, where it
//!   did no better than ECMP in our canon.

use net::Time;

use crate::dataplane::common::FlowTable;
use crate::dataplane::{Cx, HostBalancer, HostFeedback, HostLoss, HostPacket, draw_entropy};
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("reps", "REPS")
    .summary("Hosts spray packets over entropy values and reuse those that came back unmarked.")
    .flow_level(FlowLevel::AdaptiveSplit)
    .source("P25; REPS, arXiv 2407.21625")
    .granularity(Granularity::Packet)
    .senses("ECN echoes per entropy value, timeouts")
    .params(&[
        Param::scaled("freeze", "1250rtt")
            .doc("Minimum time a ring stays frozen; published: 10ms, which is this number of base RTTs of 8 us."),
        Param::choice("freeze_on", &["low-rtt-timeout", "timeout", "never"], "low-rtt-timeout").doc(
            "Events that freeze: timeouts that follow a low round trip, all timeouts (networks that trim), or \
             nothing.",
        ),
        Param::number("low_rtt", 1.0..=1000.0, "1.65")
            .unit("base RTTs")
            .doc("A round trip below this multiple of the base RTT is low."),
        Param::count("lifetime", 1..=15, "1").unit("packets").doc(
            "Number of packets that may use a recycled value; above 1 for acknowledgements that cover several \
             packets.",
        ),
    ])
    .example("reps:freeze=10ms")
    .host(|env, params| {
        let low_rtt = env.scale.base_rtt.as_ps() as f64 * params.number("low_rtt");
        Box::new(Reps {
            freeze_us: micros(params.scaled("freeze", &env.scale)),
            is_failure: match params.text("freeze_on") {
                "never" => |_| false,
                "timeout" => |_| true,
                _ => |ring| ring.cursors & LOW_RTT != 0,
            },
            low_rtt: Time::from_ps(low_rtt as u64),
            lifetime: params.count("lifetime") as u8,
            explore: env.window_packets,
            flows: FlowTable::new(),
        })
    });

const RING: u8 = 8;

struct Reps {
    freeze_us: u64,
    /// Whether a timeout looks like a failure.
    is_failure: fn(&Ring) -> bool,
    low_rtt: Time,
    lifetime: u8,
    explore: u32,
    flows: FlowTable<Ring>,
}

/// State of a connection: 24 bytes; the paper says less than 25.
#[derive(Clone, Copy, Default)]
struct Ring {
    entropies: [u16; RING as usize],
    /// If frozen: the microsecond until which. Else: remaining packets on random values.
    clock: u32,
    /// One bit per slot: acknowledged and not yet used up.
    fresh: u8,
    /// Slots written since it was empty.
    filled: u8,
    /// Uses of the oldest fresh value.
    uses: u8,
    /// Slots written next, and used next while frozen, 3 bits each; frozen; last RTT low.
    cursors: u8,
}

const FROZEN: u8 = 1 << 6;
const LOW_RTT: u8 = 1 << 7;

impl Ring {
    fn is_frozen(&self) -> bool {
        self.cursors & FROZEN != 0
    }
    fn head(&self) -> u8 {
        self.cursors & 7
    }
    fn frozen_head(&self) -> u8 {
        (self.cursors >> 3) & 7
    }
    fn set_heads(&mut self, head: u8, frozen_head: u8) {
        self.cursors = (self.cursors & (FROZEN | LOW_RTT)) | (head % RING) | ((frozen_head % RING) << 3);
    }

    /// Stores a value that came back unmarked, in place of the oldest.
    fn put(&mut self, entropy: u16) {
        let head = self.head();
        // Only the oldest fresh value can be partly used; without it the next is the oldest.
        let is_taken = self.fresh & 1 << head != 0;
        self.filled = (self.filled + 1).min(RING);
        self.uses = if is_taken { 0 } else { self.uses };
        self.entropies[usize::from(head)] = entropy;
        self.fresh |= 1 << head;
        self.set_heads(head + 1, self.frozen_head());
    }

    /// Returns the oldest fresh value and counts a use of it.
    fn take(&mut self, lifetime: u8) -> Option<u16> {
        if self.fresh == 0 {
            return None;
        }
        // The slot written next is the oldest, so slots in order of age begin there.
        let head = self.head();
        let slot = (head + self.fresh.rotate_right(u32::from(head)).trailing_zeros() as u8) % RING;
        self.uses += 1;
        if self.uses >= lifetime {
            self.fresh &= !(1 << slot);
            self.uses = 0;
        }
        Some(self.entropies[usize::from(slot)])
    }

    /// Returns the next value of a frozen ring, fresh or not.
    fn take_frozen(&mut self) -> Option<u16> {
        let slot = self.frozen_head();
        if self.filled == 0 {
            return None;
        }
        self.fresh &= !(1 << slot);
        self.set_heads(self.head(), (slot + 1) % self.filled);
        Some(self.entropies[usize::from(slot)])
    }

    fn freeze(&mut self, until_us: u64) {
        self.cursors |= FROZEN;
        self.clock = u32::try_from(until_us).unwrap_or(u32::MAX);
    }

    fn thaw(&mut self, explore: u32) {
        *self = Ring { clock: explore, cursors: self.cursors & LOW_RTT, ..Ring::default() };
    }
}

/// Returns the whole microseconds of a time.
fn micros(time: Time) -> u64 {
    time.as_ps() / 1_000_000
}

impl HostBalancer for Reps {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first {
            self.flows.renew(packet.flow);
        }
        let ring = self.flows.slot(packet.flow);
        let recycled = if ring.is_frozen() {
            ring.take_frozen()
        } else if ring.clock > 0 {
            ring.clock -= 1;
            None
        } else {
            ring.take(self.lifetime)
        };
        recycled.unwrap_or_else(|| draw_entropy(cx.rng))
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, feedback: &HostFeedback) {
        let ring = self.flows.slot(feedback.flow);
        let is_low = feedback.rtt < self.low_rtt;
        ring.cursors = if is_low { ring.cursors | LOW_RTT } else { ring.cursors & !LOW_RTT };
        if ring.is_frozen() && micros(cx.now) > u64::from(ring.clock) {
            ring.thaw(self.explore);
        }
        if !feedback.marked {
            ring.put(feedback.entropy);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        let ring = self.flows.slot(flow);
        let is_exploring = !ring.is_frozen() && ring.clock > 0;
        if loss == HostLoss::Timeout && (self.is_failure)(ring) && !ring.is_frozen() && !is_exploring {
            ring.freeze(micros(cx.now) + self.freeze_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use net::{RandomStream, Time};
    use std::collections::VecDeque;

    use super::Ring;
    use crate::dataplane::testing::{BASE_RTT, Bench};
    use crate::dataplane::{HostFeedback, HostLoss};

    /// Values acknowledged in these tests; random draws hit them once in 2,000 packets or so.
    const KNOWN: std::ops::Range<u16> = 10..40;

    struct Sender {
        bench: Bench,
    }

    impl Sender {
        fn new(spec: &str) -> Sender {
            let mut bench = Bench::host(spec);
            bench.entropy(1, 0);
            Sender { bench }
        }
        fn next(&mut self) -> u16 {
            self.bench.entropy(1, 7)
        }
        fn ack_after(&mut self, entropy: u16, marked: bool, base_rtts: f64) {
            let rtt = Time::from_ps((BASE_RTT.as_ps() as f64 * base_rtts) as u64);
            self.bench.ack(&HostFeedback { flow: 1, entropy, marked, acked: 1, una: 1, next: 9, rtt });
        }
        fn ack(&mut self, entropy: u16) {
            self.ack_after(entropy, false, 1.0);
        }
        /// Returns how many of the next `n` values were acknowledged before.
        fn known(&mut self, n: usize) -> usize {
            (0..n).filter(|_| KNOWN.contains(&self.next())).count()
        }
    }

    #[test]
    fn the_state_of_a_connection_is_below_25_bytes() {
        assert!(size_of::<Ring>() < 25, "{}", size_of::<Ring>());
    }

    #[test]
    fn unmarked_values_are_used_once_more_oldest_first_and_marked_ones_never() {
        let mut sender = Sender::new("reps");
        sender.ack(11);
        sender.ack_after(12, true, 1.0);
        sender.ack(13);
        assert_eq!([sender.next(), sender.next()], [11, 13]);
        assert_eq!(sender.known(50), 0, "used up");
        sender.ack(14);
        assert_eq!(sender.next(), 14);
    }

    #[test]
    fn the_ring_keeps_the_last_eight() {
        let mut sender = Sender::new("reps");
        (10..22).for_each(|entropy| sender.ack(entropy));
        let used: Vec<u16> = (0..8).map(|_| sender.next()).collect();
        assert_eq!(used, (14..22).collect::<Vec<_>>());
        assert_eq!(sender.known(50), 0);
    }

    #[test]
    fn ring_equals_queue_of_eight_under_any_interleaving() {
        let mut random = RandomStream::new(3, "schedule");
        for lifetime in [1, 3] {
            let mut sender = Sender::new(&format!("reps:lifetime={lifetime}"));
            let mut queue: VecDeque<(u16, u8)> = VecDeque::new();
            for i in 0..5_000u32 {
                if random.next_below(2) == 0 {
                    let entropy = 10 + (i % 30) as u16;
                    sender.ack(entropy);
                    if queue.len() == 8 {
                        queue.pop_front();
                    }
                    queue.push_back((entropy, lifetime));
                } else if let Some((entropy, left)) = queue.front_mut() {
                    assert_eq!(sender.next(), *entropy, "at {i}");
                    *left -= 1;
                    if *left == 0 {
                        queue.pop_front();
                    }
                }
            }
        }
    }

    #[test]
    fn a_timeout_without_queueing_freezes_the_ring() {
        let mut sender = Sender::new("reps:freeze=10ms");
        [11, 12, 13].into_iter().for_each(|entropy| sender.ack(entropy));
        assert_eq!(sender.next(), 11);
        sender.bench.host_loss(1, HostLoss::Timeout);
        let used: Vec<u16> = (0..7).map(|_| sender.next()).collect();
        assert_eq!(used, [11, 12, 13, 11, 12, 13, 11], "used or not, from the first slot on");
    }

    #[test]
    fn frozen_ring_stores_acknowledged_values_and_thaws_after_freeze_time() {
        let mut sender = Sender::new("reps:freeze=10ms");
        sender.ack(11);
        sender.bench.host_loss(1, HostLoss::Timeout);
        sender.ack(12);
        assert_eq!([sender.next(), sender.next(), sender.next()], [11, 12, 11]);
        sender.bench.wait(Time::from_ms(10));
        sender.ack(13);
        assert_eq!(sender.known(6), 6, "not before the deadline has passed");
        sender.bench.wait(Time::from_us(1));
        assert_eq!(sender.known(6), 6, "an acknowledgement must say so");
        sender.ack(14);
        // The window is 83 packets: random values, then the one value of the emptied ring.
        assert_eq!(sender.known(83), 0);
        assert_eq!(sender.next(), 14);
        assert_eq!(sender.known(20), 0);
    }

    #[test]
    fn a_frozen_or_exploring_connection_does_not_freeze_again() {
        let mut sender = Sender::new("reps:freeze=10ms");
        sender.ack(11);
        sender.bench.host_loss(1, HostLoss::Timeout);
        sender.bench.wait(Time::from_ms(6));
        sender.bench.host_loss(1, HostLoss::Timeout);
        sender.bench.wait(Time::from_us(4_001));
        sender.ack(12);
        assert_eq!(sender.known(1), 0, "the second timeout did not put off the thaw");
        sender.bench.host_loss(1, HostLoss::Timeout);
        assert_eq!(sender.known(82), 0, "still exploring");
        sender.bench.host_loss(1, HostLoss::Timeout);
        assert_eq!(sender.known(5), 5, "frozen");
    }

    #[test]
    fn which_timeouts_freeze_is_a_choice() {
        for (spec, base_rtts, is_frozen) in [
            ("reps", 1.64, true),
            ("reps", 1.65, false),
            ("reps:freeze_on=timeout", 9.0, true),
            ("reps:freeze_on=never", 1.0, false),
        ] {
            let mut sender = Sender::new(spec);
            sender.ack_after(11, false, base_rtts);
            sender.bench.host_loss(1, HostLoss::FastRetransmit);
            sender.bench.host_loss(1, HostLoss::Trimmed(11));
            assert_eq!(sender.known(2), 1, "{spec}: only timeouts count");
            sender.bench.host_loss(1, HostLoss::Timeout);
            assert_eq!(sender.known(5), if is_frozen { 5 } else { 0 }, "{spec} after {base_rtts} base RTTs");
        }
    }

    #[test]
    fn an_empty_ring_can_freeze_and_stays_random() {
        let mut sender = Sender::new("reps:freeze_on=timeout");
        sender.bench.host_loss(1, HostLoss::Timeout);
        assert_eq!(sender.known(50), 0);
    }

    #[test]
    fn random_values_cover_the_space_without_the_reserved_one() {
        let mut sender = Sender::new("reps");
        let mut quarters = [0u32; 4];
        for _ in 0..40_000 {
            let entropy = sender.next();
            assert!(entropy < 65_535);
            quarters[usize::from(entropy >> 14)] += 1;
        }
        assert!(quarters.iter().all(|n| (9_600..10_400).contains(n)), "{quarters:?}");
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut sender = Sender::new("reps");
        [11, 12].into_iter().for_each(|entropy| sender.ack(entropy));
        sender.bench.host_loss(1, HostLoss::Timeout);
        sender.bench.entropy(1, 0);
        assert_eq!(sender.known(50), 0);
        sender.ack(13);
        assert_eq!(sender.next(), 13);
    }
}
