//! SRD, the scalable reliable datagram transport of AWS: every packet takes one of up to 64 paths,
//! chosen by the recent round-trip times of the paths (mechanisms-2.md P49; Shalev et al., IEEE
//! Micro 40(6), 2020).
//!
//! A flow has `paths` entropy values, each with a smoothed round-trip time. A packet takes the
//! faster of two random values. A retransmission timeout is charged to the value that the lowest
//! unacknowledged packet carried: it is not used for `avoid`. A retransmission never takes the
//! value of its last copy.
//!
//! From memory: up to 64 paths per pair of hosts, chosen by round-trip times, and losses sent again
//! on another path. Readings where the source is silent:
//! - Two random choices, the smoothing (`gain`, as in RFC 6298), `avoid`, and knowledge per flow
//!   rather than per pair of hosts.
//! - A value that was never used counts as the fastest, so that all are explored. A value without
//!   an answer to its first packet, or since its last timeout, counts as the slowest. Otherwise
//!   dead values would pass for unexplored ones and collect a window of packets.
//! - A timeout soon after another is not about the copy sent due to the first, and charges no
//!   value. Trimmed packets and fast retransmits charge none either: a packet that is merely lost
//!   shows that a path is busy, as its round-trip times do.
//! - If all values are avoided, the one whose time ends first is used.
//!
//! Pitfalls: both draws are from all values, so the slowest of 64 still gets one packet in 4,096.
//! It must get some, since only its packets can show that it has recovered, but a flow may end
//! before that. A timeout is charged to one value even if several are dead.
//!
//! - Helps: with transports that take packets in any order: slow and dead paths are avoided without
//!   help from switches, not even marks.
//! - Hurts: with hosts that need packets in order; where all paths have much the same round-trip
//!   time and noise decides; with flows of less than a few windows, which are sprayed at random.

use net::{RandomStream, Time};

use crate::dataplane::common::{FlowTable, SentValues};
use crate::dataplane::{Cx, HostBalancer, HostFeedback, HostLoss, HostPacket};
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("srd", "SRD")
    .summary("Hosts send each packet on the faster of two random paths out of 64, by smoothed round-trip times.")
    .flow_level(FlowLevel::AdaptiveSplit)
    .source("P49; SRD, IEEE Micro 40(6), 2020")
    .granularity(Granularity::Packet)
    .senses("round-trip times and timeouts per entropy value")
    .params(&[
        Param::count("paths", 1..=4096, "64").unit("entropy values").doc("Entropy values of a flow."),
        Param::number("gain", 0.001..=1.0, "0.125")
            .doc("Weight of a new sample in the smoothed round-trip time of its value."),
        Param::scaled("avoid", "10rtt").doc("Time for which a value is not used after a timeout."),
    ])
    .example("srd:paths=16")
    .host(|env, params| {
        Box::new(Srd {
            paths: params.count("paths") as u16,
            gain: params.number("gain"),
            avoid: params.scaled("avoid", &env.scale),
            base_rtt: env.scale.base_rtt,
            sent_max: SentValues::capacity(env.window_packets),
            flows: FlowTable::new(),
        })
    });

/// Number of draws for a value that may be used before all values are looked at.
const ATTEMPTS: usize = 8;

struct Srd {
    paths: u16,
    gain: f64,
    avoid: Time,
    base_rtt: Time,
    /// Number of packets whose values a flow remembers.
    sent_max: usize,
    flows: FlowTable<Flow>,
}

#[derive(Clone, Default)]
struct Flow {
    una: u32,
    /// Round-trip time of the latest acknowledgement; that of the network before the first.
    latest_rtt: Time,
    values: Vec<Value>,
    sent: SentValues,
}

#[derive(Clone, Copy, Default)]
struct Value {
    /// Smoothed round-trip time; [`UNUSED`] or [`NO_ANSWER`] if it is not known.
    rtt: Time,
    avoided_until: Time,
}

/// Below every round-trip time: a value that no packet has carried yet.
const UNUSED: Time = Time::ZERO;
/// Above every round-trip time: no answer to any packet so far, or since a timeout.
const NO_ANSWER: Time = Time::MAX;

impl Flow {
    /// Returns a random value that is not avoided and not the `excluded` one, if there is such a
    /// value.
    fn draw(&self, now: Time, excluded: Option<u16>, rng: &mut RandomStream) -> u16 {
        let is_usable = |value: u16| Some(value) != excluded && self.values[usize::from(value)].avoided_until <= now;
        let mut draws = (0..ATTEMPTS).map(|_| rng.next_below(self.values.len() as u64) as u16);
        draws.find(|value| is_usable(*value)).unwrap_or_else(|| {
            let all = 0..self.values.len() as u16;
            let key = |value: &u16| (Some(*value) == excluded, self.values[usize::from(*value)].avoided_until);
            all.min_by_key(key).unwrap_or(0)
        })
    }

    fn pick(&self, now: Time, excluded: Option<u16>, rng: &mut RandomStream) -> u16 {
        // The second draw may equal the first: the slowest value must be used now and then.
        let (first, second) = (self.draw(now, excluded, rng), self.draw(now, excluded, rng));
        let rtt = |value: u16| self.values[usize::from(value)].rtt;
        if rtt(second) < rtt(first) { second } else { first }
    }
}

impl HostBalancer for Srd {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        let flow = self.flows.slot(packet.flow);
        if packet.is_first || flow.values.is_empty() {
            (flow.una, flow.latest_rtt) = (0, self.base_rtt);
            flow.values.clear();
            flow.values.resize(usize::from(self.paths), Value::default());
            flow.sent.begin(self.sent_max);
        }
        let last = if packet.is_retransmission { flow.sent.get(packet.seq) } else { None };
        let value = flow.pick(cx.now, last, cx.rng);
        let state = &mut flow.values[usize::from(value)];
        if state.rtt == UNUSED {
            state.rtt = NO_ANSWER;
        }
        flow.sent.note(packet.seq, value, packet.is_retransmission.then_some(cx.now));
        value
    }

    fn on_ack(&mut self, _: &mut Cx<'_>, feedback: &HostFeedback) {
        let flow = self.flows.slot(feedback.flow);
        (flow.una, flow.latest_rtt) = (feedback.una, feedback.rtt);
        let Some(value) = flow.values.get_mut(usize::from(feedback.entropy)) else { return };
        value.rtt = match value.rtt {
            UNUSED | NO_ANSWER => feedback.rtt,
            old => {
                let (old, new) = (old.as_ps() as f64, feedback.rtt.as_ps() as f64);
                Time::from_ps((old + self.gain * (new - old)) as u64)
            }
        };
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        let flow = self.flows.slot(flow);
        if loss == HostLoss::Timeout
            && let Some(value) = flow.sent.overdue(flow.una, cx.now, flow.latest_rtt)
            && let Some(value) = flow.values.get_mut(usize::from(value))
        {
            *value = Value { rtt: NO_ANSWER, avoided_until: cx.now.saturating_add(self.avoid) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use net::{RandomStream, Time};

    use crate::dataplane::closed_loop::{Acks, ClosedLoop};
    use crate::dataplane::testing::{BASE_RTT, Bench};
    use crate::dataplane::{HostFeedback, HostLoss, HostPacket};

    const PACKETS: u64 = 64_000;

    fn sprayed() -> ClosedLoop {
        ClosedLoop::new("srd", 83, Acks::Single)
    }

    /// Returns the share of packets of each value, in multiples of an equal share.
    fn shares(hits: &BTreeMap<u16, u32>) -> Vec<f64> {
        let equal = f64::from(hits.values().sum::<u32>()) / 64.0;
        (0..64).map(|value| f64::from(hits.get(&value).copied().unwrap_or(0)) / equal).collect()
    }

    fn send_again(bench: &mut Bench, seq: u32) -> u16 {
        bench.host_packet(&HostPacket { flow: 1, seq, is_first: false, is_retransmission: true })
    }

    fn take(bench: &mut Bench, packets: std::ops::Range<u32>) -> Vec<u16> {
        packets.map(|seq| bench.entropy(1, seq)).collect()
    }

    #[test]
    fn equal_paths_get_nearly_equal_shares() {
        let mut random = RandomStream::new(5, "noise");
        for (noise, range) in [(0.0, 0.85..1.15), (0.1, 0.4..1.4), (1.0, 0.3..1.5)] {
            let mut rtt = || Time::from_ps((BASE_RTT.as_ps() as f64 * (1.0 + noise * random.next_f64())) as u64);
            let shares = shares(&sprayed().run(PACKETS, |_, _| Some(rtt())));
            assert!(shares.iter().all(|share| range.contains(share)), "noise {noise}: {shares:?}");
        }
    }

    #[test]
    fn slow_path_gets_a_small_part_of_its_share_but_some_packets() {
        let hits = sprayed().run(PACKETS, |value, _| Some(BASE_RTT * if value == 7 { 2 } else { 1 }));
        let shares = shares(&hits);
        // Two draws of the slowest of 64 values: 1/64 of an equal share.
        assert!((0.005..0.05).contains(&shares[7]), "{shares:?}");
        assert!((0..64).all(|value| value == 7 || (0.85..1.15).contains(&shares[value])), "{shares:?}");
    }

    #[test]
    fn path_that_recovers_gets_its_share_again() {
        let mut flow = sprayed();
        flow.run(PACKETS, |value, _| Some(BASE_RTT * if value < 16 { 2 } else { 1 }));
        flow.run(PACKETS, |_, _| Some(BASE_RTT));
        let shares = shares(&flow.run(PACKETS, |_, _| Some(BASE_RTT)));
        assert!(shares[..16].iter().sum::<f64>() / 16.0 > 0.5, "{shares:?}");
    }

    #[test]
    fn timed_out_value_is_not_used_for_ten_round_trips() {
        let mut bench = Bench::host("srd:paths=2");
        let lost = bench.entropy(1, 0);
        bench.wait(BASE_RTT * 5);
        bench.host_loss(1, HostLoss::FastRetransmit);
        bench.host_loss(1, HostLoss::Trimmed(lost));
        assert!(take(&mut bench, 1..50).contains(&lost), "only timeouts count");
        bench.host_loss(1, HostLoss::Timeout);
        assert!(!take(&mut bench, 50..100).contains(&lost));
        bench.wait(BASE_RTT * 10 - Time::from_ps(1));
        assert!(!take(&mut bench, 100..150).contains(&lost));
        bench.wait(Time::from_ps(1));
        assert!(take(&mut bench, 150..200).contains(&lost));
    }

    #[test]
    fn timeouts_that_follow_do_not_condemn_the_copy_just_sent() {
        let mut bench = Bench::host("srd:paths=4");
        let lost = bench.entropy(1, 0);
        bench.wait(BASE_RTT * 5);
        bench.host_loss(1, HostLoss::Timeout);
        let copy = send_again(&mut bench, 0);
        bench.host_loss(1, HostLoss::Timeout);
        let later = take(&mut bench, 1..200);
        assert!(copy != lost && later.contains(&copy) && !later.contains(&lost));
    }

    #[test]
    fn dead_paths_get_less_than_a_quarter_of_their_share() {
        let mut flow = sprayed();
        let alive = |value: u16| (!value.is_multiple_of(4)).then_some(BASE_RTT);
        flow.run(3_200, |_, _| Some(BASE_RTT));
        flow.run(3_200, |value, _| alive(value));
        let shares = shares(&flow.run(PACKETS, |value, _| alive(value)));
        // 16 of 64 values: a sixteenth of packets would be two draws of dead ones, less those
        // avoided.
        let dead = shares.iter().step_by(4).sum::<f64>() / 64.0;
        assert!((0.005..0.0625).contains(&dead), "{dead} of all packets");
    }

    #[test]
    fn retransmission_takes_another_value_if_there_is_one() {
        let mut bench = Bench::host("srd:paths=2");
        assert!((0..100).all(|seq| bench.entropy(1, seq) != send_again(&mut bench, seq)));
        let mut bench = Bench::host("srd:paths=1");
        bench.entropy(1, 0);
        bench.wait(BASE_RTT * 5);
        bench.host_loss(1, HostLoss::Timeout);
        assert_eq!([send_again(&mut bench, 0), bench.entropy(1, 1)], [0, 0], "a value must be used");
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut bench = Bench::host("srd:paths=2");
        let lost = bench.entropy(1, 0);
        bench.wait(BASE_RTT * 5);
        bench.host_loss(1, HostLoss::Timeout);
        let first = bench.entropy(1, 0);
        assert!(take(&mut bench, 1..50).contains(&lost));
        bench.host_loss(1, HostLoss::Timeout);
        assert!(!take(&mut bench, 50..100).contains(&first), "the new flow's packet 0 is charged");
    }

    #[test]
    fn feedback_about_unknown_flows_and_values_is_harmless() {
        let mut bench = Bench::host("srd:paths=2");
        let feedback =
            |flow, entropy| HostFeedback { flow, entropy, marked: false, acked: 1, una: 9, next: 0, rtt: Time::ZERO };
        bench.ack(&feedback(900, 0));
        bench.host_loss(901, HostLoss::Timeout);
        bench.entropy(1, 0);
        bench.ack(&feedback(1, 60_000));
        bench.host_loss(1, HostLoss::Timeout);
        assert!(take(&mut bench, 1..50).contains(&0));
    }
}
