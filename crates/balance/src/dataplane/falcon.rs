//! Falcon multipath: a connection has a few flow labels, each with a window that its delay steers.
//! A packet takes the label with most room (mechanisms-2.md P48; Falcon, SIGCOMM 2025; Falcon 0.9
//! specification, section 10; Google's public simulator, github.com/falcon-transport/isekai).
//!
//! - Window of a label (Swift): an acknowledgement with a delay below the target adds `increase` /
//!   w per packet. A delay d above the target t multiplies the window by 1 − `beta` (d − t) / d, or
//!   by 1 − `max_decrease` if that is more, once per round trip.
//! - Choice: the label with the largest window less packets in flight; ties are broken at random.
//! - PLB per label: an acknowledgement is congested if its delay is above `plb` × target. A round
//!   is congested if the share `threshold` of its packets is. After `attempts` congested rounds in
//!   a row the label gets a new value, and keeps its window. A retransmission timeout gives a new
//!   value to the label that carried the lowest unacknowledged packet, and halves its window.
//!
//! These rules are those of the simulator, except where stated below; so are `increase`, `beta`,
//! `max_decrease`, `threshold`, `attempts` and the four labels. Departures, and readings where the
//! sources differ or are silent:
//! - In Falcon the sum of the windows is the window of the connection. Here the transport has its
//!   own, so that only the shares count: windows are scaled to the packets in flight before they
//!   change or are compared. Otherwise the largest window would get all packets of a small flow.
//!   For the choice they have at least one packet, so that a slow label is still measured.
//! - The choice is that of the third generation in the simulator. The second uses weighted round
//!   robin, and keeps retransmissions on the label of their first copy; here they may take any.
//! - The target is a multiple of the base round-trip time: that of the network, or the lowest that
//!   the flow has seen if that is less. Falcon adds terms per hop and for small windows, in
//!   microseconds, and leaves out the time in the receiver. Its second window, that of the
//!   receiver's interface, steers no path.
//! - `target` and `plb` are our choice. The simulator has 1.01 for `plb`, with PLB switched off.
//! - The specification smooths delays, the simulator does not: `smoothing`.
//! - A round is as many packets as the label had in flight when it began. The simulator takes the
//!   window, which is the same if the window is full.
//! - In the simulator a timeout halves the window but leaves the value. A dead label would keep its
//!   share of packets, so that the rule of PLB in Linux and of PRR applies. A timeout soon after
//!   another is not about the copy sent due to the first: it moves no label.
//!
//! The packets in flight of each label are known by packet number. A cumulative acknowledgement
//! covers all packets below its number, on any label. One beyond a gap covers the oldest packet of
//! its label, since packets of one label arrive in order. A packet that is sent again counts where
//! its last copy went, and lost packets count until then. Packets of a value that was replaced
//! count nowhere.
//!
//! Pitfalls: a resequencing buffer delays the packets of fast labels until those of slow ones
//! arrive, and with them the acknowledgements that measure the delay. If all labels meet one queue,
//! as under incast, windows keep their shares and PLB moves labels in vain.
//!
//! - Helps: with transports that take packets in any order: four paths instead of one, each used as
//!   its delay allows, and dead ones replaced.
//! - Hurts: with hosts that need packets in order; in fabrics with many more paths than labels,
//!   over which it spreads less than packet spraying.

use net::{RandomStream, Time};

use crate::dataplane::common::{FlowTable, SentValues, least};
use crate::dataplane::{Cx, ENTROPIES, HostBalancer, HostFeedback, HostLoss, HostPacket, draw_entropy};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("falcon", "Falcon multipath")
    .summary("Hosts spread packets over a few flow labels by windows that delay steers, and replace congested labels.")
    .source("P48; Falcon, SIGCOMM 2025; Falcon 0.9; isekai simulator")
    .granularity(Granularity::Packet)
    .senses("round-trip times and timeouts per label")
    .params(&[
        Param::count("labels", 1..=16, "4").doc("Labels of a connection."),
        Param::number("target", 1.0..=100.0, "1.5")
            .unit("base RTTs")
            .doc("Delay below which the window of a label grows, and above which it shrinks."),
        Param::number("increase", 0.0..=100.0, "1").unit("packets").doc("Growth of a window per round trip."),
        Param::number("beta", 0.0..=1.0, "0.8").doc("Weight of the excess delay in the decrease of a window."),
        Param::number("max_decrease", 0.0..=0.99, "0.5").doc("Largest share that a window loses in a round trip."),
        Param::number("smoothing", 0.0..=0.99, "0").doc("Weight of earlier delays in the smoothed delay of a label."),
        Param::number("plb", 1.0..=100.0, "1.5")
            .doc("An acknowledgement is congested above this multiple of the target."),
        Param::number("threshold", 0.0..=1.0, "0.5")
            .doc("A round is congested when at least this share of its packets was."),
        Param::count("attempts", 0..=255, "5")
            .unit("round trips")
            .doc("Congested rounds in a row until a label gets a new value; 0 for never."),
    ])
    .example("falcon:labels=8")
    .host(|env, params| {
        Box::new(Falcon {
            rules: Rules::new(params),
            base_rtt: env.scale.base_rtt,
            labels: params.count("labels") as usize,
            sent_max: SentValues::capacity(env.window_packets),
            flows: FlowTable::new(),
        })
    });

/// Smallest window, packets; as in the simulator.
const MIN_WINDOW: f64 = 0.01;

struct Falcon {
    rules: Rules,
    base_rtt: Time,
    labels: usize,
    /// Number of packets whose values a flow remembers.
    sent_max: usize,
    flows: FlowTable<Flow>,
}

struct Rules {
    target: f64,
    increase: f64,
    beta: f64,
    max_decrease: f64,
    smoothing: f64,
    plb: f64,
    threshold: f64,
    attempts: u8,
}

#[derive(Clone, Default)]
struct Flow {
    /// Lowest round-trip time so far, at most that of the network.
    base_rtt: Time,
    /// Round-trip time of the latest acknowledgement; that of the network before the first.
    latest_rtt: Time,
    una: u32,
    /// Number after the highest packet sent.
    next: u32,
    labels: Vec<Label>,
    /// Values of unacknowledged packets: each counts in `in_flight` of the label that has the
    /// value.
    sent: SentValues,
}

#[derive(Clone, Copy, Default)]
struct Label {
    value: u16,
    window: f64,
    in_flight: u32,
    /// No earlier packet of this value is in flight.
    oldest: u32,
    /// Smoothed delay; 0 before the first sample.
    delay_ps: f64,
    shrunk_at: Time,
    round: Round,
    /// Congested rounds in a row.
    congested_rounds: u8,
}

#[derive(Clone, Copy, Default)]
struct Round {
    /// Number of acknowledged packets that ends it.
    size: u32,
    acked: u32,
    congested: u32,
}

impl Rules {
    fn new(params: &Params) -> Rules {
        Rules {
            target: params.number("target"),
            increase: params.number("increase"),
            beta: params.number("beta"),
            max_decrease: params.number("max_decrease"),
            smoothing: params.number("smoothing"),
            plb: params.number("plb"),
            threshold: params.number("threshold"),
            attempts: params.count("attempts") as u8,
        }
    }

    /// Changes the window of a label by the delay of `acked` packets. Returns whether it must get a
    /// new value.
    fn apply(&self, label: &mut Label, acked: u32, rtt: Time, base_rtt: Time, now: Time) -> bool {
        let sample = rtt.as_ps() as f64;
        let weight = if label.delay_ps > 0.0 { self.smoothing } else { 0.0 };
        label.delay_ps = weight * label.delay_ps + (1.0 - weight) * sample;
        let (delay, target) = (label.delay_ps, self.target * base_rtt.as_ps() as f64);
        if delay < target {
            label.window += self.increase * f64::from(acked) / label.window.max(1.0);
        } else if now.saturating_sub(label.shrunk_at) >= rtt {
            let decrease = self.beta * (delay - target) / delay.max(1.0);
            label.shrink(decrease.min(self.max_decrease));
            label.shrunk_at = now;
        }
        self.judge(label, acked, delay > self.plb * target)
    }

    /// Counts acknowledged packets for PLB. Returns whether the label was congested for too long.
    fn judge(&self, label: &mut Label, acked: u32, is_congested: bool) -> bool {
        let round = &mut label.round;
        if round.size == 0 {
            round.size = label.in_flight + acked;
        }
        round.acked += acked;
        round.congested += if is_congested { acked } else { 0 };
        if round.acked < round.size {
            return false;
        }
        let was_congested = f64::from(round.congested) >= self.threshold * f64::from(round.acked);
        *round = Round { size: label.in_flight, ..Round::default() };
        label.congested_rounds = if was_congested { label.congested_rounds.saturating_add(1) } else { 0 };
        self.attempts > 0 && label.congested_rounds >= self.attempts
    }
}

impl Label {
    fn shrink(&mut self, share: f64) {
        self.window = (self.window * (1.0 - share)).max(MIN_WINDOW);
    }
}

impl Flow {
    /// Returns the place of the label that has a value now.
    fn label_of(&self, value: u16) -> Option<usize> {
        self.labels.iter().position(|label| label.value == value)
    }

    fn in_flight(&self) -> f64 {
        self.labels.iter().map(|label| f64::from(label.in_flight)).sum()
    }

    /// Returns the label with most room, if windows are scaled to the packets in flight and the
    /// next one.
    fn roomiest(&self, rng: &mut RandomStream) -> usize {
        let factor = self.factor_to(self.in_flight() + 1.0);
        let lack = |label: &Label| f64::from(label.in_flight) - (factor * label.window).max(1.0);
        let labels = self.labels.iter().zip(0..).map(|(label, place)| (lack(label), place));
        usize::from(least(rng, labels).unwrap_or(0))
    }

    /// Returns the factor that scales the windows to a sum.
    fn factor_to(&self, sum: f64) -> f64 {
        sum / self.labels.iter().map(|label| label.window).sum::<f64>()
    }

    fn scale_windows(&mut self, sum: f64) {
        let factor = self.factor_to(sum);
        self.labels.iter_mut().for_each(|label| label.window = (factor * label.window).max(MIN_WINDOW));
    }

    fn note_sent(&mut self, seq: u32, place: usize, again: Option<Time>) {
        let label = &mut self.labels[place];
        label.in_flight += 1;
        label.oldest = label.oldest.min(seq);
        // The last copy of a retransmitted packet no longer counts as in flight.
        if let Some(value) = self.sent.note(seq, label.value, again) {
            self.note_left(value);
        }
        self.next = self.next.max(seq.saturating_add(1));
    }

    /// Counts a packet that is no longer in flight.
    fn note_left(&mut self, value: u16) {
        if let Some(place) = self.label_of(value) {
            self.labels[place].in_flight = self.labels[place].in_flight.saturating_sub(1);
        }
    }

    /// Counts the packets that an acknowledgement covers.
    fn note_acked(&mut self, feedback: &HostFeedback) {
        let oldest = self.oldest_remembered(feedback.una);
        for seq in self.una.max(oldest)..feedback.una {
            if let Some(value) = self.sent.take(seq) {
                self.note_left(value);
            }
        }
        let beyond_gap = feedback.acked.saturating_sub(feedback.una.saturating_sub(self.una));
        self.una = self.una.max(feedback.una);
        for _ in 0..beyond_gap {
            if !self.take_oldest(feedback.entropy) {
                break;
            }
        }
    }

    /// Returns the lowest number that may be remembered if `end` is the highest, exclusive.
    fn oldest_remembered(&self, end: u32) -> u32 {
        end.saturating_sub(self.sent.len() as u32)
    }

    /// Counts the oldest packet of a value as acknowledged. Returns whether there was one.
    fn take_oldest(&mut self, value: u16) -> bool {
        let Some(place) = self.label_of(value) else { return false };
        let start = self.labels[place].oldest.max(self.una).max(self.oldest_remembered(self.next));
        let found = (start..self.next).find(|seq| self.sent.get(*seq) == Some(value));
        self.labels[place].oldest = found.map_or(self.next, |seq| seq + 1);
        if let Some(seq) = found {
            self.sent.take(seq);
            self.note_left(value);
        }
        found.is_some()
    }

    /// Gives a label a random value that no other label has. The packets of the old one count
    /// nowhere.
    fn replace(&mut self, place: usize, rng: &mut RandomStream) {
        let mut value = draw_entropy(rng);
        while self.label_of(value).is_some() {
            value = (value + 1) % ENTROPIES;
        }
        let Label { window, shrunk_at, .. } = self.labels[place];
        self.labels[place] = Label { value, window, shrunk_at, oldest: self.next, ..Label::default() };
    }
}

impl Falcon {
    fn begin(&mut self, flow: u32, rng: &mut RandomStream) {
        let flow = self.flows.slot(flow);
        (flow.base_rtt, flow.latest_rtt) = (self.base_rtt, self.base_rtt);
        (flow.una, flow.next) = (0, 0);
        flow.labels.clear();
        // No label keeps this value: all are replaced.
        flow.labels.resize(self.labels, Label { value: ENTROPIES, window: 1.0, ..Label::default() });
        flow.sent.begin(self.sent_max);
        (0..self.labels).for_each(|place| flow.replace(place, rng));
    }
}

impl HostBalancer for Falcon {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first || self.flows.slot(packet.flow).labels.is_empty() {
            self.begin(packet.flow, cx.rng);
        }
        let flow = self.flows.slot(packet.flow);
        let place = flow.roomiest(cx.rng);
        flow.note_sent(packet.seq, place, packet.is_retransmission.then_some(cx.now));
        flow.labels[place].value
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, feedback: &HostFeedback) {
        let flow = self.flows.slot(feedback.flow);
        (flow.base_rtt, flow.latest_rtt) = (flow.base_rtt.min(feedback.rtt), feedback.rtt);
        let place = flow.label_of(feedback.entropy);
        let before = place.map_or(0, |place| flow.labels[place].in_flight);
        flow.scale_windows(flow.in_flight().max(1.0));
        flow.note_acked(feedback);
        let Some(place) = place else { return };
        let label = &mut flow.labels[place];
        // A duplicate acknowledges no packet, but its packet has arrived and measured the delay.
        let acked = before.saturating_sub(label.in_flight).max(1);
        if self.rules.apply(label, acked, feedback.rtt, flow.base_rtt, cx.now) {
            flow.replace(place, cx.rng);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        let flow = self.flows.slot(flow);
        if loss != HostLoss::Timeout {
            return;
        }
        // Other packets of the value may time out later: by then no label has it.
        let value = flow.sent.overdue(flow.una, cx.now, flow.latest_rtt);
        let Some(place) = value.and_then(|value| flow.label_of(value)) else { return };
        flow.labels[place].shrink(self.rules.max_decrease);
        flow.replace(place, cx.rng);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use net::{RandomStream, Time};

    use super::{Flow, Label, Rules};
    use crate::dataplane::closed_loop::{Acks, ClosedLoop};
    use crate::dataplane::common::SentValues;
    use crate::dataplane::testing::{BASE_RTT, Bench};
    use crate::dataplane::{HostFeedback, HostLoss};

    const PACKETS: u64 = 8_000;

    /// Returns the share of packets of each value, smallest first.
    fn shares(hits: &BTreeMap<u16, u32>) -> Vec<f64> {
        let total = f64::from(hits.values().sum::<u32>());
        let mut shares: Vec<f64> = hits.values().map(|hits| f64::from(*hits) / total).collect();
        shares.sort_by(f64::total_cmp);
        shares
    }

    /// Runs a flow until all its labels have carried packets; returns one of them.
    fn first_value(flow: &mut ClosedLoop) -> u16 {
        let hits = flow.run(100, |_, _| Some(BASE_RTT));
        *hits.keys().next().unwrap()
    }

    fn assert_equal(hits: &BTreeMap<u16, u32>, labels: usize) {
        let shares = shares(hits);
        let equal = 1.0 / labels as f64;
        assert_eq!(shares.len(), labels);
        assert!(shares.iter().all(|share| (0.95 * equal..1.05 * equal).contains(share)), "{shares:?}");
    }

    #[test]
    fn equal_labels_get_equal_shares() {
        for acks in [Acks::Single, Acks::Cumulative] {
            for (spec, labels) in [("falcon", 4), ("falcon:labels=1", 1), ("falcon:labels=16", 16)] {
                let mut flow = ClosedLoop::new(spec, 48, acks);
                assert_equal(&flow.run(PACKETS, |_, _| Some(BASE_RTT)), labels);
            }
        }
        // Equal delays above the target keep shares equal too.
        let mut flow = ClosedLoop::new("falcon:attempts=0", 48, Acks::Single);
        assert_equal(&flow.run(PACKETS, |_, _| Some(BASE_RTT * 4)), 4);
    }

    #[test]
    fn label_with_double_delay_gets_less_until_it_recovers() {
        for acks in [Acks::Single, Acks::Cumulative] {
            for window in [8, 48, 300] {
                let mut flow = ClosedLoop::new("falcon", window, acks);
                let slow = first_value(&mut flow);
                let rtt = |value| Some(BASE_RTT * if value == slow { 2 } else { 1 });
                flow.run(100 * window as u64, |value, _| rtt(value));
                let hits = flow.run(PACKETS, |value, _| rtt(value));
                let share = f64::from(hits[&slow]) / PACKETS as f64;
                assert!((0.001..0.08).contains(&share), "window {window}: {share}");
                // The others differ by at most two packets in flight.
                let error = |other: &f64| (other - (1.0 - share) / 3.0).abs();
                assert!(shares(&hits)[1..].iter().all(|other| error(other) < 2.0 / window as f64), "{hits:?}");
                flow.run(500 * window as u64, |_, _| Some(BASE_RTT));
                assert_equal(&flow.run(PACKETS, |_, _| Some(BASE_RTT)), 4);
            }
        }
    }

    #[test]
    fn target_follows_the_lowest_round_trip_time_seen() {
        // Hosts that are close: double the delay, but less than the base round-trip time of the
        // network.
        let mut flow = ClosedLoop::new("falcon", 48, Acks::Single);
        let slow = first_value(&mut flow);
        let hits = flow.run(PACKETS, |value, _| Some(Time::from_us(if value == slow { 40 } else { 20 })));
        assert!(hits[&slow] < PACKETS as u32 / 10, "{hits:?}");
    }

    #[test]
    fn congested_label_gets_a_new_value_and_others_keep_theirs() {
        for (spec, is_replaced) in [("falcon", true), ("falcon:attempts=0", false), ("falcon:plb=3", false)] {
            let mut flow = ClosedLoop::new(spec, 48, Acks::Single);
            let slow = first_value(&mut flow);
            let rtt = |value| Some(BASE_RTT * if value == slow { 3 } else { 1 });
            let hits = flow.run(PACKETS, |value, _| rtt(value));
            assert_eq!(hits.len(), if is_replaced { 5 } else { 4 }, "{spec}: {hits:?}");
            assert_eq!(flow.run(1000, |value, _| rtt(value)).contains_key(&slow), !is_replaced, "{spec}");
        }
    }

    #[test]
    fn dead_label_is_replaced_at_a_timeout_and_no_other_label_is() {
        for acks in [Acks::Single, Acks::Cumulative] {
            let mut flow = ClosedLoop::new("falcon", 48, acks);
            let dead = first_value(&mut flow);
            let hits = flow.run(PACKETS, |value, _| (value != dead).then_some(BASE_RTT));
            assert_eq!(hits.len(), 5, "one value more: {hits:?}");
            assert!(hits[&dead] <= 48, "{hits:?}");
            assert_equal(&flow.run(PACKETS, |value, _| (value != dead).then_some(BASE_RTT)), 4);
        }
    }

    fn rules(spec: &str) -> Rules {
        let spec = crate::registry::Spec::parse(spec).unwrap();
        Rules::new(&spec.params)
    }

    #[test]
    fn windows_follow_swift() {
        let rules = rules("falcon:target=2");
        let mut label = Label { window: 10.0, in_flight: 100, ..Label::default() };
        let mut apply = |rtts: u64, acked, now: Time| {
            rules.apply(&mut label, acked, BASE_RTT * rtts, BASE_RTT, now);
            label.window
        };
        let now = BASE_RTT * 10;
        assert_eq!(apply(1, 1, now), 10.1, "an n-th of a packet for each acknowledged one");
        assert_eq!(apply(4, 1, now), 10.1 * (1.0 - 0.8 * 0.5));
        assert_eq!(apply(4, 1, now + BASE_RTT * 4 - Time::from_ps(1)), 10.1 * 0.6, "once per round trip");
        assert_eq!(apply(40, 1, now + BASE_RTT * 40), 10.1 * 0.6 * 0.5, "at most by half");
    }

    #[test]
    fn smoothing_spreads_a_delay_over_several_acknowledgements() {
        let rules = rules("falcon:smoothing=0.75");
        let mut label = Label { window: 10.0, in_flight: 100, ..Label::default() };
        let delays = [1, 5, 1].map(|rtts| {
            rules.apply(&mut label, 1, BASE_RTT * rtts, BASE_RTT, Time::ZERO);
            label.delay_ps / BASE_RTT.as_ps() as f64
        });
        assert_eq!(delays, [1.0, 2.0, 1.75]);
    }

    #[test]
    fn five_congested_rounds_in_a_row_replace_a_label() {
        let rules = rules("falcon");
        let mut label = Label { in_flight: 10, ..Label::default() };
        // Ten packets are in flight, so that ten acknowledgements are a round.
        label.round.size = 10;
        let mut round =
            |congested| (0..10).filter(|packet| rules.judge(&mut label, 1, *packet < congested)).count() == 1;
        assert_eq!([5, 10, 5, 10].map(&mut round), [false; 4], "half of the packets is enough");
        assert_eq!([4, 5, 5, 5, 5].map(&mut round), [false; 5], "one round with less begins from zero");
        assert!(round(5));
    }

    /// A flow with labels of values 0 to 3.
    fn flow() -> Flow {
        let mut flow = Flow { base_rtt: BASE_RTT, ..Flow::default() };
        flow.labels = (0..4).map(|value| Label { value, window: 20.0, ..Label::default() }).collect();
        flow.sent.begin(SentValues::capacity(83));
        flow
    }

    fn feedback(entropy: u16, acked: u32, una: u32) -> HostFeedback {
        HostFeedback { flow: 1, entropy, marked: false, acked, una, next: 0, rtt: BASE_RTT }
    }

    fn in_flight(flow: &Flow) -> [u32; 4] {
        [0, 1, 2, 3].map(|place: usize| flow.labels[place].in_flight)
    }

    #[test]
    fn packets_in_flight_are_exact_without_loss() {
        let mut random = RandomStream::new(7, "schedule");
        for acks in [Acks::Single, Acks::Cumulative] {
            let mut flow = flow();
            // Packets that have not arrived, by label; the labels keep them in order.
            let mut labels: [Vec<u32>; 4] = Default::default();
            for _ in 0..20_000 {
                let place = random.next_below(4) as usize;
                let lowest = labels.iter().filter_map(|packets| packets.first().copied()).min();
                if flow.next - lowest.unwrap_or(flow.next) < 200 && random.next_below(2) == 0 {
                    labels[place].push(flow.next);
                    flow.note_sent(flow.next, place, None);
                } else if !labels[place].is_empty() {
                    labels[place].remove(0);
                    let lowest = labels.iter().filter_map(|packets| packets.first().copied()).min();
                    let una = lowest.unwrap_or(flow.next);
                    let acked = if acks == Acks::Single { 1 } else { una - flow.una };
                    flow.note_acked(&feedback(place as u16, acked, una));
                }
                if acks == Acks::Single {
                    assert_eq!(in_flight(&flow), [0, 1, 2, 3].map(|place: usize| labels[place].len() as u32));
                } else {
                    let total = in_flight(&flow).iter().sum::<u32>();
                    assert_eq!(total, flow.next - flow.una, "all that are not acknowledged");
                }
            }
        }
    }

    #[test]
    fn packets_in_flight_recover_from_any_feedback() {
        let mut random = RandomStream::new(8, "schedule");
        let mut flow = flow();
        for _ in 0..20_000 {
            let seq = flow.una + random.next_below(u64::from(flow.next - flow.una) + 1) as u32;
            let place = random.next_below(4) as usize;
            match random.next_below(8) {
                0..4 => flow.note_sent(flow.next, place, None),
                4 => flow.note_sent(seq, place, Some(Time::ZERO)),
                5 => flow.note_acked(&feedback(place as u16, random.next_below(5) as u32, seq)),
                6 => flow.note_acked(&feedback(place as u16, 1, flow.una)),
                _ if random.next_below(100) == 0 => flow.replace(place, &mut random),
                _ => {}
            }
            let counted = |label: &Label| (0..flow.next).filter(|seq| flow.sent.get(*seq) == Some(label.value)).count();
            if random.next_below(50) == 0 {
                assert!(flow.labels.iter().all(|label| counted(label) == label.in_flight as usize));
            }
        }
        let value = flow.labels[0].value;
        flow.note_acked(&feedback(value, 0, flow.next));
        assert_eq!(in_flight(&flow), [0; 4]);
        flow.note_acked(&feedback(value, u32::MAX, u32::MAX));
        flow.note_sent(u32::MAX, 0, None);
        assert_eq!(in_flight(&flow)[0], 1);
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut flow = ClosedLoop::new("falcon", 48, Acks::Single);
        let slow = first_value(&mut flow);
        flow.run(PACKETS, |value, _| Some(BASE_RTT * if value == slow { 2 } else { 1 }));
        let mut hits = BTreeMap::<u16, u32>::new();
        (0..80).for_each(|seq| *hits.entry(flow.bench.entropy(1, seq)).or_default() += 1);
        assert!(!hits.contains_key(&slow) && hits.values().all(|packets| *packets == 20), "{hits:?}");
    }

    #[test]
    fn feedback_about_unknown_flows_and_values_is_harmless() {
        let mut bench = Bench::host("falcon");
        bench.ack(&feedback(0, 9, 9));
        bench.host_loss(1, HostLoss::Timeout);
        let value = bench.entropy(1, 5);
        bench.ack(&HostFeedback { rtt: Time::ZERO, ..feedback(value, 100, 900) });
        bench.ack(&feedback(value ^ 1, 1, 3));
        bench.host_loss(1, HostLoss::Timeout);
        assert!((901..981).filter(|seq| bench.entropy(1, *seq) == value).count() > 10);
    }
}
