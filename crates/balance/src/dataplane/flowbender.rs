//! FlowBender: a host moves a flow to another path by changing a header field that switches hash,
//! if too many of its packets come back ECN-marked (mechanisms.md P14; Kabbani, Vamanan, Hasan,
//! Duchene, CoNEXT 2014).
//!
//! Once per round trip the sender computes F, the marked share of the acknowledged packets. After N
//! consecutive rounds with F above T the field's value V changes to the next of 2^b; a round at or
//! below T resets the count. A retransmission timeout changes V immediately: the path may be dead.
//!
//! Readings where the source is silent: a round is the data outstanding when it began. F is counted
//! in packets. The first round begins with the first acknowledgement. A timeout also resets the
//! count, which was about the old path. `next=increment` is what public code does; the paper allows
//! any other value. The paper proposes a random N so that flows with the same marks do not move
//! together: with `jitter` the limit is redrawn from N ..= N + jitter after each move.
//!
//! Pitfalls: the new path is picked blindly and may be worse. Every move reorders. The round after
//! a move is still judged by packets sent on the old path, so with N = 1 a flow that leaves a bad
//! path usually moves twice.
//!
//! - Helps: where only hosts can be changed and switches hash a field that hosts may set; large
//!   flows leave collisions.
//! - Hurts: for flows that end within a few round trips; a blind move may go to a worse path.

use net::RandomStream;

use crate::dataplane::common::{FlowTable, Rounds};
use crate::dataplane::{Cx, HostBalancer, HostFeedback, HostLoss, HostPacket};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("flowbender", "FlowBender")
    .summary(
        "Hosts re-hash a flow when more than a twentieth of a round trip's packets come back marked, or on a \
         timeout.",
    )
    .source("P14; FlowBender, CoNEXT 2014; F0, F2")
    .granularity(Granularity::MovableFlow)
    .senses("ECN echoes, timeouts")
    .params(&[
        Param::number("threshold", 0.0..=1.0, "0.05")
            .doc("T: a round is congested when more than this share of its packets were marked."),
        Param::count("rounds", 1..=1000, "1")
            .unit("round trips")
            .doc("N: congested rounds in a row until the flow moves."),
        Param::count("jitter", 0..=1000, "0")
            .unit("round trips")
            .doc("Maximum number of additional rounds, drawn for each move; above 0 flows do not move in step."),
        Param::count("bits", 1..=15, "3")
            .unit("bits")
            .doc("b: the field has 2^b values, and a flow at most as many paths."),
        Param::choice("next", &["increment", "random"], "increment")
            .doc("The value after a move: the next one, or any other drawn at random."),
    ])
    .example("flowbender:next=random")
    .host(|_, params| {
        Box::new(FlowBender {
            threshold: params.number("threshold"),
            rounds: params.count("rounds") as u32,
            jitter: params.count("jitter") as u32,
            value_count: 1 << params.count("bits"),
            is_random: params.text("next") == "random",
            flows: FlowTable::new(),
        })
    });

struct FlowBender {
    threshold: f64,
    rounds: u32,
    jitter: u32,
    value_count: u16,
    is_random: bool,
    flows: FlowTable<Flow>,
}

#[derive(Clone, Default)]
struct Flow {
    value: u16,
    congested: u32,
    /// Rounds added to N until the next move.
    extra: u32,
    rounds: Rounds,
}

impl FlowBender {
    fn extra(jitter: u32, rng: &mut RandomStream) -> u32 {
        if jitter == 0 { 0 } else { rng.next_below(u64::from(jitter) + 1) as u32 }
    }

    fn bend(&mut self, flow: u32, rng: &mut RandomStream) {
        let step = if self.is_random { 1 + rng.next_below(u64::from(self.value_count) - 1) as u16 } else { 1 };
        let extra = Self::extra(self.jitter, rng);
        let state = self.flows.slot(flow);
        state.value = (state.value + step) % self.value_count;
        state.congested = 0;
        state.extra = extra;
    }
}

impl HostBalancer for FlowBender {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first {
            self.flows.renew(packet.flow).extra = Self::extra(self.jitter, cx.rng);
        }
        self.flows.slot(packet.flow).value
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, feedback: &HostFeedback) {
        let (threshold, rounds) = (self.threshold, self.rounds);
        let state = self.flows.slot(feedback.flow);
        let Some(round) = state.rounds.count(feedback) else { return };
        if f64::from(round.marked) <= threshold * f64::from(round.acked) {
            state.congested = 0;
            return;
        }
        state.congested += 1;
        if state.congested >= rounds + state.extra {
            self.bend(feedback.flow, cx.rng);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        if loss == HostLoss::Timeout {
            self.bend(flow, cx.rng);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dataplane::HostLoss;
    use crate::dataplane::testing::Bench;

    /// A sender with a window of `WINDOW` packets; each is acknowledged immediately.
    struct Sender {
        bench: Bench,
        flow: u32,
        una: u32,
    }

    const WINDOW: u32 = 20;

    impl Sender {
        fn new(spec: &str) -> Sender {
            Sender::on(Bench::host(spec), 1)
        }
        fn on(mut bench: Bench, flow: u32) -> Sender {
            bench.entropy(flow, 0);
            Sender { bench, flow, una: 0 }
        }
        /// Acknowledges a window, the first `marked` packets of it marked; returns V after it.
        fn round(&mut self, marked: u32) -> u16 {
            // The next window is sent when the last packet of this one is acknowledged.
            self.bench.ack_window(self.flow, &mut self.una, WINDOW, marked, WINDOW);
            self.value()
        }
        fn value(&mut self) -> u16 {
            self.bench.entropy(self.flow, self.una + 1)
        }
    }

    #[test]
    fn more_than_a_twentieth_marked_moves_the_flow_to_the_next_of_eight_values() {
        let mut sender = Sender::new("flowbender");
        assert_eq!(sender.value(), 0);
        assert_eq!(sender.round(0), 0);
        assert_eq!(sender.round(1), 0, "5 % is not above 5 %");
        let values: Vec<u16> = (0..9).map(|_| sender.round(2)).collect();
        assert_eq!(values, [1, 2, 3, 4, 5, 6, 7, 0, 1]);
        assert_eq!(sender.round(0), 1);
    }

    #[test]
    fn several_rounds_must_be_congested_in_a_row() {
        let mut sender = Sender::new("flowbender:rounds=3");
        let marks = [20, 20, 0, 20, 20, 20, 20, 20, 20];
        let values: Vec<u16> = marks.into_iter().map(|marked| sender.round(marked)).collect();
        assert_eq!(values, [0, 0, 0, 0, 0, 1, 1, 1, 2]);
    }

    #[test]
    fn timeout_moves_immediately_and_resets_count() {
        let mut sender = Sender::new("flowbender:rounds=2");
        assert_eq!(sender.round(20), 0);
        sender.bench.host_loss(1, HostLoss::FastRetransmit);
        assert_eq!(sender.value(), 0, "only the timer indicates a dead path");
        sender.bench.host_loss(1, HostLoss::Timeout);
        assert_eq!(sender.value(), 1);
        assert_eq!(sender.round(20), 1);
        assert_eq!(sender.round(20), 2);
    }

    #[test]
    fn random_next_value_differs_and_covers_all_values() {
        let mut sender = Sender::new("flowbender:next=random");
        let (mut last, mut seen) = (0, [0u32; 8]);
        for _ in 0..7_000 {
            let value = sender.round(20);
            assert_ne!(value, last);
            seen[usize::from(value)] += 1;
            last = value;
        }
        assert!(seen.iter().all(|n| (775..975).contains(n)), "{seen:?}");
    }

    #[test]
    fn jitter_spreads_the_round_in_which_flows_move() {
        let mut moved = [0u32; 4];
        let mut bench = Bench::host("flowbender:rounds=1,jitter=2");
        for flow in 0..3_000 {
            let mut sender = Sender::on(bench, flow);
            let rounds = (1..=3).find(|_| sender.round(20) != 0).expect("moves within N + jitter rounds");
            moved[rounds] += 1;
            bench = sender.bench;
        }
        assert!(moved[0] == 0 && moved[1..].iter().all(|n| (900..1_100).contains(n)), "{moved:?}");
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut sender = Sender::new("flowbender:rounds=2");
        (0..3).for_each(|_| _ = sender.round(20));
        assert_eq!(sender.value(), 1);
        let mut sender = Sender::on(sender.bench, 1);
        assert_eq!(sender.value(), 0);
        assert_eq!(sender.round(20), 0, "the congested round before was another flow's");
        assert_eq!(sender.round(20), 1);
    }

    #[test]
    fn flows_are_judged_separately() {
        let mut one = Sender::new("flowbender");
        one.round(20);
        let mut other = Sender::on(one.bench, 4_000);
        assert_eq!(other.round(0), 0);
        assert_eq!(other.bench.entropy(1, 50), 1);
    }
}
