//! Adaptive packet spraying as Ultra Ethernet allows it: the sender picks an entropy value per
//! packet and learns its fate from each acknowledgement (mechanisms.md P26; Ultra Ethernet 1.0,
//! 2025, which leaves the choice open).
//!
//! Four pickers over a set of 2^`bits` values:
//! - `oblivious`: a counter, XORed with a mask that is redrawn at the end of each turn through the
//!   set; or random values.
//! - `bitmap`: the same order, but values have skip counters: a mark adds 1, a lost packet 4, a
//!   timeout 15, at most 15. The walk skips values with a counter above 0, and decrements the first
//!   one it meets.
//! - `reps`: the first window walks the set, then values that came back unmarked are reused in FIFO
//!   order, and random ones if there is no such value.
//! - `mixed`: values that came back unmarked if there are any, else the walk of `bitmap`.
//!
//! Readings where the source is silent: the size of the set (public simulator: 64). A loss is
//! charged to the value its packet carried. For a trimmed packet the receiver reports it. For a
//! timeout or a fast retransmit, which replace a NACK in networks that do not trim, it is the value
//! of the lowest unacknowledged packet, which the sender remembers for a few windows. If every
//! value must be skipped, the walk ends after one turn. The queue of reusable values holds two
//! windows; beyond that the oldest is discarded. `mixed` has no separate first window: without
//! reusable values it walks anyway.
//!
//! Pitfalls: flows that stay in order pin paths and cause a lasting asymmetry that the oblivious
//! picker cannot detect. A skip is forgotten by walking, so a busy flow forgives sooner than a slow
//! one.
//!
//! - Helps: with transports that take packets in any order; pickers with memory avoid slow paths.
//! - Hurts: under lasting asymmetry with the oblivious picker, which remembers nothing.

use crate::dataplane::common::FlowTable;
use crate::dataplane::{Cx, HostBalancer, HostEnv, HostFeedback, HostLoss, HostPacket};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};
use net::RandomStream;

pub(crate) static ENTRY: Entry = Entry::declare("ue-spray", "Ultra Ethernet spraying")
    .summary("Hosts spray packets over a set of entropy values, reusing good ones and skipping bad ones.")
    .source("P26; Ultra Ethernet 1.0 (arXiv 2508.08906)")
    .granularity(Granularity::Packet)
    .senses("ECN echoes and losses per entropy value")
    .params(&[
        Param::choice("picker", &["mixed", "bitmap", "reps", "oblivious"], "mixed")
            .doc("Reuse good values, else skip bad ones; only skip; only reuse; or ignore feedback."),
        Param::count("bits", 1..=12, "6").unit("bits").doc("The set has 2^bits entropy values."),
        Param::choice("order", &["counter", "random"], "counter")
            .doc("Values of the oblivious picker: a counter XORed with a mask that changes each turn, or random ones."),
    ])
    .example("ue-spray:bits=8")
    .host(|env, params| Box::new(UeSpray::new(env, params)));

const MARK_PENALTY: u8 = 1;
const LOSS_PENALTY: u8 = 4;
const TIMEOUT_PENALTY: u8 = 15;
const MAX_PENALTY: u8 = 15;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Picker {
    Counter,
    Random,
    Bitmap,
    Recycle,
    Mixed,
}

struct UeSpray {
    picker: Picker,
    /// Size of the set less one.
    mask: u16,
    /// Number of packets in the first window, which walk the set.
    first_window: u32,
    flows: FlowTable<Flow>,
    skips: Skips,
    good: Queues,
    sent: Sent,
}

#[derive(Clone, Default)]
struct Flow {
    /// Position of the walk, and its XOR mask.
    index: u16,
    xor: u16,
    una: u32,
}

impl Flow {
    fn step(&mut self, mask: u16, rng: &mut RandomStream) {
        self.index = (self.index + 1) & mask;
        if self.index == 0 {
            self.xor = rng.next_u64() as u16 & mask;
        }
    }
    fn value(&self) -> u16 {
        self.index ^ self.xor
    }
    fn walk(&mut self, mask: u16, rng: &mut RandomStream) -> u16 {
        let value = self.value();
        self.step(mask, rng);
        value
    }
    /// Walks to the next value that is not skipped.
    fn walk_past(&mut self, skips: &mut [u8], mask: u16, rng: &mut RandomStream) -> u16 {
        if skips[usize::from(self.value())] > 0 {
            skips[usize::from(self.value())] -= 1;
            for _ in 0..=mask {
                self.step(mask, rng);
                if skips[usize::from(self.value())] == 0 {
                    break;
                }
            }
        }
        self.walk(mask, rng)
    }
}

/// Skip counters of every flow, `2^bits` each; empty for pickers without skips.
struct Skips {
    size: usize,
    counters: Vec<u8>,
}

impl Skips {
    fn of(&mut self, flow: u32) -> &mut [u8] {
        let start = flow as usize * self.size;
        if self.counters.len() < start + self.size {
            self.counters.resize(start + self.size, 0);
        }
        &mut self.counters[start..start + self.size]
    }
    fn charge(&mut self, flow: u32, value: u16, penalty: u8) {
        if let Some(counter) = self.of(flow).get_mut(usize::from(value)) {
            *counter = (*counter + penalty).min(MAX_PENALTY);
        }
    }
}

struct Queues {
    /// Capacity per flow, a power of two.
    places: usize,
    values: Vec<u16>,
    /// Number of values ever appended and removed.
    ends: FlowTable<(u32, u32)>,
}

impl Queues {
    fn new(places: usize) -> Queues {
        Queues { places: places.next_power_of_two(), values: Vec::new(), ends: FlowTable::new() }
    }
    fn put(&mut self, flow: u32, value: u16) {
        let start = flow as usize * self.places;
        if self.values.len() < start + self.places {
            self.values.resize(start + self.places, 0);
        }
        let (put, taken) = self.ends.slot(flow);
        self.values[start + *put as usize % self.places] = value;
        *put = put.wrapping_add(1);
        if put.wrapping_sub(*taken) as usize > self.places {
            *taken = taken.wrapping_add(1);
        }
    }
    fn take(&mut self, flow: u32) -> Option<u16> {
        let (put, taken) = self.ends.slot(flow);
        if put == taken {
            return None;
        }
        let place = *taken as usize % self.places;
        *taken = taken.wrapping_add(1);
        Some(self.values[flow as usize * self.places + place])
    }
}

/// Entropy values of the latest packets, per flow.
struct Sent {
    /// Number of remembered packets, a power of two.
    window: usize,
    /// Packet number and value; an entry with another number belongs to another packet.
    packets: Vec<(u32, u16)>,
}

impl Sent {
    const NONE: (u32, u16) = (u32::MAX, 0);

    fn note(&mut self, packet: &HostPacket, value: u16) {
        let start = packet.flow as usize * self.window;
        if self.packets.len() < start + self.window {
            self.packets.resize(start + self.window, Sent::NONE);
        }
        self.packets[start + packet.seq as usize % self.window] = (packet.seq, value);
    }
    fn value(&self, flow: u32, seq: u32) -> Option<u16> {
        let (noted, value) = *self.packets.get(flow as usize * self.window + seq as usize % self.window)?;
        (noted == seq).then_some(value)
    }
    fn forget(&mut self, flow: u32) {
        let start = (flow as usize * self.window).min(self.packets.len());
        let end = (start + self.window).min(self.packets.len());
        self.packets[start..end].fill(Sent::NONE);
    }
}

impl UeSpray {
    fn new(env: &HostEnv, params: &Params) -> UeSpray {
        let size = 1usize << params.count("bits");
        // Bounds memory with huge windows: older packets only reduce adaptivity a little.
        let window = env.window_packets.min(1 << 12) as usize;
        UeSpray {
            picker: match (params.text("picker"), params.text("order")) {
                ("oblivious", "counter") => Picker::Counter,
                ("oblivious", _) => Picker::Random,
                ("bitmap", _) => Picker::Bitmap,
                ("reps", _) => Picker::Recycle,
                _ => Picker::Mixed,
            },
            mask: (size - 1) as u16,
            first_window: env.window_packets.min(size as u32),
            flows: FlowTable::new(),
            skips: Skips { size, counters: Vec::new() },
            good: Queues::new(2 * window),
            sent: Sent { window: (4 * window).next_power_of_two(), packets: Vec::new() },
        }
    }

    fn skips_values(&self) -> bool {
        matches!(self.picker, Picker::Bitmap | Picker::Mixed)
    }
    fn recycles_values(&self) -> bool {
        matches!(self.picker, Picker::Recycle | Picker::Mixed)
    }

    fn begin(&mut self, flow: u32, rng: &mut RandomStream) {
        // Flows start at different values; otherwise all would send their first packets alike.
        self.flows.renew(flow).xor = rng.next_u64() as u16 & self.mask;
        if self.skips_values() {
            self.skips.of(flow).fill(0);
            self.sent.forget(flow);
        }
        if self.recycles_values() {
            self.good.ends.renew(flow);
        }
    }

    fn pick(&mut self, packet: &HostPacket, rng: &mut RandomStream) -> u16 {
        let mask = self.mask;
        let state = self.flows.slot(packet.flow);
        match self.picker {
            Picker::Counter => state.walk(mask, rng),
            Picker::Random => rng.next_u64() as u16 & mask,
            Picker::Bitmap => state.walk_past(self.skips.of(packet.flow), mask, rng),
            Picker::Recycle if packet.seq < self.first_window => state.walk(mask, rng),
            Picker::Recycle => self.good.take(packet.flow).unwrap_or_else(|| rng.next_u64() as u16 & mask),
            Picker::Mixed => match self.good.take(packet.flow) {
                Some(value) => value,
                None => state.walk_past(self.skips.of(packet.flow), mask, rng),
            },
        }
    }
}

impl HostBalancer for UeSpray {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first {
            self.begin(packet.flow, cx.rng);
        }
        let value = self.pick(packet, cx.rng);
        if self.skips_values() {
            self.sent.note(packet, value);
        }
        value
    }

    fn on_ack(&mut self, _: &mut Cx<'_>, feedback: &HostFeedback) {
        self.flows.slot(feedback.flow).una = feedback.una;
        if feedback.marked {
            if self.skips_values() {
                self.skips.charge(feedback.flow, feedback.entropy, MARK_PENALTY);
            }
        } else if self.recycles_values() {
            self.good.put(feedback.flow, feedback.entropy);
        }
    }

    fn on_loss(&mut self, _: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        if !self.skips_values() {
            return;
        }
        let una = self.flows.slot(flow).una;
        let (value, penalty) = match loss {
            HostLoss::Trimmed(value) => (Some(value), LOSS_PENALTY),
            HostLoss::FastRetransmit => (self.sent.value(flow, una), LOSS_PENALTY),
            HostLoss::Timeout => (self.sent.value(flow, una), TIMEOUT_PENALTY),
        };
        if let Some(value) = value {
            self.skips.charge(flow, value, penalty);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{BASE_RTT, Bench};
    use crate::dataplane::{HostFeedback, HostLoss};

    struct Sender {
        bench: Bench,
        seq: u32,
    }

    impl Sender {
        fn new(spec: &str) -> Sender {
            Sender { bench: Bench::host(spec), seq: 0 }
        }
        fn next(&mut self) -> u16 {
            self.seq += 1;
            self.bench.entropy(1, self.seq - 1)
        }
        fn take(&mut self, n: usize) -> Vec<u16> {
            (0..n).map(|_| self.next()).collect()
        }
        fn ack(&mut self, entropy: u16, marked: bool, una: u32) {
            let (rtt, next) = (BASE_RTT, self.seq);
            self.bench.ack(&HostFeedback { flow: 1, entropy, marked, acked: 1, una, next, rtt });
        }
        fn good(&mut self, entropy: u16) {
            self.ack(entropy, false, 0);
        }
        fn marked(&mut self, entropy: u16) {
            self.ack(entropy, true, 0);
        }
    }

    fn sorted(mut values: Vec<u16>) -> Vec<u16> {
        values.sort_unstable();
        values
    }

    #[test]
    fn counter_takes_each_value_once_per_turn_in_changing_order() {
        let mut sender = Sender::new("ue-spray:picker=oblivious,bits=4");
        let turns: Vec<Vec<u16>> = (0..20).map(|_| sender.take(16)).collect();
        for turn in &turns {
            assert_eq!(sorted(turn.clone()), (0..16).collect::<Vec<_>>());
            let xor = turn[0];
            assert!(turn.iter().enumerate().all(|(i, value)| *value == i as u16 ^ xor), "{turn:?}");
        }
        let mut masks = sorted(turns.iter().map(|turn| turn[0]).collect());
        masks.dedup();
        assert!(masks.len() > 8, "20 draws of 16 masks gave {masks:?}");
        let mut random = Sender::new("ue-spray:picker=oblivious,bits=4,order=random");
        assert_ne!(sorted(random.take(16)), (0..16).collect::<Vec<_>>());
    }

    #[test]
    fn oblivious_picker_ignores_feedback() {
        let (mut told, mut untold) = (0, 0);
        for (count, tell) in [(&mut told, true), (&mut untold, false)] {
            let mut sender = Sender::new("ue-spray:picker=oblivious,bits=2");
            for _ in 0..400 {
                let value = sender.next();
                *count += u32::from(value == 3);
                if tell {
                    sender.ack(value, value == 3, 0);
                    sender.bench.host_loss(1, HostLoss::Trimmed(3));
                }
            }
        }
        assert_eq!((told, untold), (100, 100));
    }

    #[test]
    fn penalties_are_one_four_and_fifteen_of_at_most_fifteen() {
        // The number of passes over value 5 shows its counter: each visit takes one off.
        let skipped = |charge: &dyn Fn(&mut Sender)| {
            let mut sender = Sender::new("ue-spray:picker=bitmap,bits=4");
            sender.take(16);
            charge(&mut sender);
            let mut picks = 0;
            while sender.next() != 5 {
                picks += 1;
                assert!(picks < 400, "value 5 never returns");
            }
            // Each turn without value 5 has 15 picks; the last one stops somewhere within a turn.
            picks / 15
        };
        assert_eq!(skipped(&|_| ()), 0);
        assert_eq!(skipped(&|sender| sender.marked(5)), 1);
        assert_eq!(skipped(&|sender| (0..3).for_each(|_| sender.marked(5))), 3);
        assert_eq!(skipped(&|sender| sender.bench.host_loss(1, HostLoss::Trimmed(5))), 4);
        assert_eq!(skipped(&|sender| (0..9).for_each(|_| sender.bench.host_loss(1, HostLoss::Trimmed(5)))), 15);
    }

    #[test]
    fn only_the_first_value_to_skip_is_forgiven() {
        let mut sender = Sender::new("ue-spray:picker=bitmap,bits=3");
        let turn = sender.take(8);
        assert_eq!(sorted(turn), (0..8).collect::<Vec<_>>());
        // All but two values must be skipped once; a pick forgives one: some are skipped twice.
        (0..6).for_each(|value| sender.marked(value));
        let picks = sender.take(2);
        assert!(picks.iter().all(|value| [6, 7].contains(value)), "{picks:?}");
    }

    #[test]
    fn a_lost_packet_is_charged_to_the_value_it_carried() {
        for (loss, penalty) in [(HostLoss::FastRetransmit, 4), (HostLoss::Timeout, 15)] {
            let mut sender = Sender::new("ue-spray:picker=bitmap,bits=4");
            let turn = sender.take(16);
            // Packets 0 to 8 arrived: number 9 is missing.
            sender.ack(turn[8], false, 9);
            sender.bench.host_loss(1, loss);
            let missing = turn[9];
            let picks: Vec<u16> = sender.take(15 * penalty);
            assert!(!picks.contains(&missing), "{loss:?}: skipped for {penalty} turns");
            assert!(sender.take(17).contains(&missing), "{loss:?}: then used again");
        }
    }

    #[test]
    fn all_bad_set_is_still_used() {
        let mut sender = Sender::new("ue-spray:picker=bitmap,bits=2");
        sender.next();
        for value in 0..4 {
            (0..4).for_each(|_| sender.bench.host_loss(1, HostLoss::Trimmed(value)));
        }
        let picks = sender.take(200);
        assert!((0..4).all(|value| picks.contains(&value)));
    }

    #[test]
    fn the_reps_picker_walks_one_window_and_then_recycles() {
        // The bench's window is 83 packets: the set is smaller, so its 16 values go first.
        let mut sender = Sender::new("ue-spray:picker=reps,bits=4");
        let mut first_window = sender.take(1);
        sender.good(3);
        first_window.extend(sender.take(15));
        assert_eq!(sorted(first_window), (0..16).collect::<Vec<_>>());
        sender.marked(9);
        [7, 7, 2].into_iter().for_each(|value| sender.good(value));
        assert_eq!(sender.take(4), [3, 7, 7, 2], "first come, first served, and no marked ones");
        let random = sender.take(1600);
        assert!((0..16).all(|value| random.iter().filter(|v| **v == value).count() > 50), "then random");
    }

    #[test]
    fn mixed_picker_recycles_first_and_otherwise_skips_bad_values() {
        let mut sender = Sender::new("ue-spray:bits=3");
        sender.next();
        sender.good(6);
        sender.bench.host_loss(1, HostLoss::Trimmed(2));
        assert_eq!(sender.next(), 6);
        assert!(!sender.take(20).contains(&2));
        sender.good(2);
        assert_eq!(sender.next(), 2, "an unmarked acknowledgement proves it works");
    }

    #[test]
    fn good_values_beyond_two_windows_push_out_the_oldest() {
        let mut sender = Sender::new("ue-spray:bits=12");
        sender.next();
        // Two windows of 83 packets, rounded up to a power of two.
        (0..300).for_each(|value| sender.good(value));
        assert_eq!(sender.take(256), (44..300).collect::<Vec<_>>());
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut sender = Sender::new("ue-spray:bits=3");
        sender.take(8);
        sender.good(4);
        (0..8).filter(|value| *value != 1).for_each(|value| sender.bench.host_loss(1, HostLoss::Trimmed(value)));
        sender.seq = 0;
        assert_eq!(sorted(sender.take(8)), (0..8).collect::<Vec<_>>());
        // The old flow's packets are forgotten: the loss is charged to the new flow's packet 0.
        sender.seq = 0;
        let first = sender.next();
        sender.bench.host_loss(1, HostLoss::Timeout);
        assert!(!sender.take(7 * 15).contains(&first));
    }

    #[test]
    fn feedback_about_unknown_flows_and_values_is_harmless() {
        let mut sender = Sender::new("ue-spray:bits=3");
        sender.bench.host_loss(900, HostLoss::Timeout);
        sender.bench.host_loss(7, HostLoss::Trimmed(60_000));
        sender.marked(60_000);
        assert_eq!(sorted(sender.take(8)), (0..8).collect::<Vec<_>>());
    }
}
