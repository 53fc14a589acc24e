//! Adaptive packet spraying as Ultra Ethernet allows it: the sender picks an entropy value per
//! packet and learns its fate from each acknowledgement (mechanisms.md P26; Ultra Ethernet 1.0,
//! 2025, which leaves the choice open). STrack is one of its pickers, see below.
//!
//! Four pickers over a set of 2^`bits` values:
//! - `oblivious`: a counter, XORed with a mask that is redrawn at the end of each turn through the
//!   set; or random values.
//! - `bitmap`: the same order, but values have skip counters: a mark adds 1, a lost packet 4, a
//!   timeout 15, up to `skips` (15). The walk skips values with a counter above 0, and decrements
//!   the first one it meets.
//! - `reps`: the first window walks the set, then values that came back unmarked are reused in FIFO
//!   order, and random ones if there is no such value.
//! - `mixed`: values that came back unmarked if there are any, else the walk of `bitmap`.
//!
//! STrack (mechanisms-2.md P46; Le et al., arXiv 2407.15266) has a bit per path: a marked path is
//! skipped once, and using its turn clears the bit. That is `picker=bitmap,skips=1` over a
//! transport that takes packets in any order and has a window by delay (`spray`). The abstract of
//! the paper says that it skips marked paths; the single bit is from memory.
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

use std::collections::VecDeque;

use net::RandomStream;

use crate::dataplane::common::{FlowTable, SentValues};
use crate::dataplane::{Cx, HostBalancer, HostFeedback, HostLoss, HostPacket};
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("ue-spray", "Ultra Ethernet spraying")
    .summary("Hosts spray packets over a set of entropy values, reusing good ones and skipping bad ones.")
    .flow_level(FlowLevel::AdaptiveSplit)
    .source("P26, P46; Ultra Ethernet 1.0 (arXiv 2508.08906); STrack (arXiv 2407.15266)")
    .granularity(Granularity::Packet)
    .senses("ECN echoes and losses per entropy value")
    .params(&[
        Param::choice("picker", &["mixed", "bitmap", "reps", "oblivious"], "mixed")
            .doc("Reuse good values, else skip bad ones; only skip; only reuse; or ignore feedback."),
        Param::count("bits", 1..=12, "6").unit("bits").doc("The set has 2^bits entropy values."),
        Param::count("skips", 1..=15, "15")
            .unit("turns")
            .doc("Largest skip counter: turns for which a bad value can be skipped; with 1, `bitmap` is STrack."),
        Param::choice("order", &["counter", "random"], "counter")
            .doc("Values of the oblivious picker: a counter XORed with a mask that changes each turn, or random ones."),
    ])
    .example("ue-spray:bits=8")
    .host(|env, params| {
        let size = 1usize << params.count("bits");
        // Bounds memory with huge windows.
        let window = env.window_packets.min(1 << 12) as usize;
        Box::new(UeSpray {
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
            skips_max: params.count("skips") as u8,
            good_max: (2 * window).next_power_of_two(),
            sent_max: SentValues::capacity(env.window_packets),
        })
    });

const MARK_PENALTY: u8 = 1;
const LOSS_PENALTY: u8 = 4;
const TIMEOUT_PENALTY: u8 = 15;

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
    /// Maximum of each skip counter.
    skips_max: u8,
    /// Maximum number of values in `good`.
    good_max: usize,
    /// Number of packets in `sent`.
    sent_max: usize,
}

#[derive(Clone, Default)]
struct Flow {
    /// Position of the walk, and its XOR mask.
    index: u16,
    xor: u16,
    una: u32,
    /// Skip counters of all values; empty for pickers without skips.
    skips: Vec<u8>,
    /// Values that came back unmarked, oldest first.
    good: VecDeque<u16>,
    /// Values of the latest packets; empty for pickers without skips.
    sent: SentValues,
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
    fn walk_past(&mut self, mask: u16, rng: &mut RandomStream) -> u16 {
        let value = usize::from(self.value());
        if let Some(counter) = self.skips.get_mut(value).filter(|counter| **counter > 0) {
            *counter -= 1;
            for _ in 0..=mask {
                self.step(mask, rng);
                if self.skips[usize::from(self.value())] == 0 {
                    break;
                }
            }
        }
        self.walk(mask, rng)
    }
    /// Charges a value, up to `skips_max`; unknown ones are ignored.
    fn charge(&mut self, value: u16, penalty: u8, skips_max: u8) {
        if let Some(counter) = self.skips.get_mut(usize::from(value)) {
            *counter = (*counter + penalty).min(skips_max);
        }
    }
}

impl UeSpray {
    fn skips_values(&self) -> bool {
        matches!(self.picker, Picker::Bitmap | Picker::Mixed)
    }
    fn recycles_values(&self) -> bool {
        matches!(self.picker, Picker::Recycle | Picker::Mixed)
    }

    fn begin(&mut self, flow: u32, rng: &mut RandomStream) {
        let skips_values = self.skips_values();
        let flow = self.flows.slot(flow);
        // Flows start at different values; otherwise all would send their first packets alike.
        (flow.index, flow.xor, flow.una) = (0, rng.next_u64() as u16 & self.mask, 0);
        flow.good.clear();
        if skips_values {
            flow.skips.clear();
            flow.skips.resize(usize::from(self.mask) + 1, 0);
            flow.sent.begin(self.sent_max);
        }
    }

    fn pick(&mut self, packet: &HostPacket, rng: &mut RandomStream) -> u16 {
        let mask = self.mask;
        let flow = self.flows.slot(packet.flow);
        match self.picker {
            Picker::Counter => flow.walk(mask, rng),
            Picker::Random => rng.next_u64() as u16 & mask,
            Picker::Bitmap => flow.walk_past(mask, rng),
            Picker::Recycle if packet.seq < self.first_window => flow.walk(mask, rng),
            Picker::Recycle => flow.good.pop_front().unwrap_or_else(|| rng.next_u64() as u16 & mask),
            Picker::Mixed => flow.good.pop_front().unwrap_or_else(|| flow.walk_past(mask, rng)),
        }
    }
}

impl HostBalancer for UeSpray {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first {
            self.begin(packet.flow, cx.rng);
        }
        let value = self.pick(packet, cx.rng);
        self.flows.slot(packet.flow).sent.note(packet.seq, value, packet.is_retransmission.then_some(cx.now));
        value
    }

    fn on_ack(&mut self, _: &mut Cx<'_>, feedback: &HostFeedback) {
        let recycles_values = self.recycles_values();
        let flow = self.flows.slot(feedback.flow);
        flow.una = feedback.una;
        if feedback.marked {
            flow.charge(feedback.entropy, MARK_PENALTY, self.skips_max);
        } else if recycles_values {
            if flow.good.len() == self.good_max {
                flow.good.pop_front();
            }
            flow.good.push_back(feedback.entropy);
        }
    }

    fn on_loss(&mut self, _: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        let flow = self.flows.slot(flow);
        let (value, penalty) = match loss {
            HostLoss::Trimmed(value) => (Some(value), LOSS_PENALTY),
            HostLoss::FastRetransmit => (flow.sent.get(flow.una), LOSS_PENALTY),
            HostLoss::Timeout => (flow.sent.get(flow.una), TIMEOUT_PENALTY),
        };
        if let Some(value) = value {
            flow.charge(value, penalty, self.skips_max);
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
    fn strack_skips_a_bad_value_once_however_bad_it_is() {
        type Charge = fn(&mut Sender);
        let charges: [Charge; 3] = [
            |sender| (0..5).for_each(|_| sender.marked(5)),
            |sender| sender.bench.host_loss(1, HostLoss::Trimmed(5)),
            |sender| (0..5).for_each(|_| sender.bench.host_loss(1, HostLoss::Trimmed(5))),
        ];
        for charge in charges {
            let mut sender = Sender::new("ue-spray:picker=bitmap,bits=4,skips=1");
            sender.take(16);
            charge(&mut sender);
            // Its bit is cleared where its turn comes, so that 15 packets pass it once.
            assert!(!sender.take(15).contains(&5));
            assert_eq!(sorted(sender.take(16)), (0..16).collect::<Vec<_>>());
        }
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
