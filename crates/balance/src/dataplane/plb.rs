//! PLB, protective load balancing: a host draws a new flow label for a connection that was
//! congested for several round trips, sooner if it is idle at that time (mechanisms.md P24; Qureshi
//! et al., SIGCOMM 2022; Linux `tcp_plb`).
//!
//! At the end of each round trip: if at least the share K of the acknowledged packets was marked,
//! the number of congested rounds grows by one (N at most), else it is reset. The connection gets a
//! new label after M congested rounds if nothing is in flight, since then nothing can be reordered,
//! and after N rounds in any case. A retransmission timeout draws a new label immediately, resets
//! the rounds, and suspends moves for congestion for a time drawn from one to two times `suspend`:
//! routing is being repaired, and re-hashing would only spread the trouble.
//!
//! Readings where the source is silent: the suspension's 60 s have no unit of the network. They are
//! read as 600,000 base round-trip times of 100 us, and `suspend=60s` is Linux' value. Counts are
//! in packets. As in Linux, idleness is tested when a round ends, a new label may equal the old one
//! (once in 65,535), and congested rounds are counted during a suspension too, so that it may end
//! with a move.
//!
//! Pitfalls: K = 0 moves as often as N allows, regardless of congestion. Small windows have coarse
//! shares. The new path may be worse. With the defaults a flow must last a dozen congested round
//! trips, so most flows of short workloads never move.
//!
//! - Helps: long-lived connections, moved when they are idle so that nothing is reordered.
//! - Hurts: where flows are short: with the defaults a flow must last a dozen congested round trips
//!   before it moves.

use net::{RandomStream, Time};

use crate::dataplane::common::{FlowTable, Rounds};
use crate::dataplane::{Cx, HostBalancer, HostFeedback, HostLoss, HostPacket, draw_entropy};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("plb", "PLB")
    .summary("Hosts draw a new flow label after several congested round trips, earlier if nothing is in flight.")
    .source("P24; PLB, SIGCOMM 2022; Linux tcp_plb")
    .granularity(Granularity::MovableFlow)
    .senses("ECN echoes, timeouts")
    .params(&[
        Param::number("threshold", 0.0..=1.0, "0.5")
            .doc("K: a round is congested when at least this share of its packets were marked."),
        Param::count("idle", 0..=31, "3")
            .unit("round trips")
            .doc("M: congested rounds until a connection with nothing in flight moves; 0 for never."),
        Param::count("forced", 1..=31, "12").unit("round trips").doc("N: congested rounds until any connection moves."),
        Param::scaled("suspend", "600000rtt")
            .doc("No moves for congestion for one to two times this after a timeout; Linux: 60s."),
    ])
    .example("plb:forced=4,idle=1")
    .host(|env, params| {
        Box::new(Plb {
            threshold: params.number("threshold"),
            idle: params.count("idle") as u8,
            forced: params.count("forced") as u8,
            suspend: params.scaled("suspend", &env.scale),
            flows: FlowTable::new(),
        })
    });

struct Plb {
    threshold: f64,
    idle: u8,
    forced: u8,
    suspend: Time,
    flows: FlowTable<Flow>,
}

#[derive(Clone, Default)]
struct Flow {
    label: u16,
    /// Consecutive congested rounds, at most N.
    congested: u8,
    rounds: Rounds,
    suspended_until: Time,
}

impl Flow {
    fn repath(&mut self, rng: &mut RandomStream) {
        self.label = draw_entropy(rng);
        self.congested = 0;
    }
}

impl HostBalancer for Plb {
    fn entropy(&mut self, cx: &mut Cx<'_>, packet: &HostPacket) -> u16 {
        if packet.is_first {
            self.flows.renew(packet.flow).repath(cx.rng);
        }
        self.flows.slot(packet.flow).label
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, feedback: &HostFeedback) {
        let flow = self.flows.slot(feedback.flow);
        let Some(round) = flow.rounds.count(feedback) else { return };
        let is_congested = f64::from(round.marked) >= self.threshold * f64::from(round.acked);
        flow.congested = if is_congested { (flow.congested + 1).min(self.forced) } else { 0 };
        let is_idle = feedback.una == feedback.next;
        let is_due = flow.congested >= self.forced || (self.idle > 0 && is_idle && flow.congested >= self.idle);
        if is_due && cx.now >= flow.suspended_until {
            flow.repath(cx.rng);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, flow: u32, loss: HostLoss) {
        if loss != HostLoss::Timeout {
            return;
        }
        let pause = Time::from_ps((self.suspend.as_ps() as f64 * (1.0 + cx.rng.next_f64())) as u64);
        let flow = self.flows.slot(flow);
        flow.suspended_until = cx.now.saturating_add(pause);
        flow.repath(cx.rng);
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::dataplane::HostLoss;
    use crate::dataplane::testing::Bench;

    const WINDOW: u32 = 10;

    struct Sender {
        bench: Bench,
        una: u32,
    }

    impl Sender {
        fn new(spec: &str) -> Sender {
            let mut bench = Bench::host(spec);
            bench.entropy(1, 0);
            Sender { bench, una: 0 }
        }
        /// Acknowledges a window, `marked` packets marked; returns whether the label changed.
        fn round(&mut self, marked: u32, in_flight: u32) -> bool {
            let before = self.label();
            self.bench.ack_window(1, &mut self.una, WINDOW, marked, in_flight);
            self.label() != before
        }
        fn label(&mut self) -> u16 {
            self.bench.entropy(1, self.una + 1)
        }
        /// Returns the number of congested rounds until the label changes, of at most 40.
        fn rounds_to_move(&mut self, marked: u32, in_flight: u32) -> Option<usize> {
            (1..=40).find(|_| self.round(marked, in_flight))
        }
    }

    #[test]
    fn busy_connection_moves_after_twelve_congested_rounds_and_resets_count() {
        let mut sender = Sender::new("plb");
        assert_eq!(sender.rounds_to_move(5, WINDOW), Some(12), "half the packets marked is congested");
        assert_eq!(sender.rounds_to_move(10, WINDOW), Some(12));
        assert_eq!(sender.rounds_to_move(4, WINDOW), None, "less than half is not");
    }

    #[test]
    fn an_idle_connection_moves_after_three() {
        assert_eq!(Sender::new("plb").rounds_to_move(10, 0), Some(3));
        assert_eq!(Sender::new("plb:idle=0").rounds_to_move(10, 0), Some(12), "idle moves switched off");
        let mut sender = Sender::new("plb");
        assert!((0..5).all(|_| !sender.round(10, WINDOW)));
        assert!(sender.round(10, 0), "five busy rounds and an idle one");
    }

    #[test]
    fn uncongested_round_resets_count() {
        let mut sender = Sender::new("plb");
        assert!((0..11).all(|_| !sender.round(10, WINDOW)));
        assert!(!sender.round(0, WINDOW));
        assert_eq!(sender.rounds_to_move(10, WINDOW), Some(12));
    }

    #[test]
    fn timeout_moves_immediately_and_suspends_congestion_moves() {
        let mut sender = Sender::new("plb:suspend=60s");
        let before = sender.label();
        sender.bench.host_loss(1, HostLoss::FastRetransmit);
        assert_eq!(sender.label(), before);
        sender.bench.host_loss(1, HostLoss::Timeout);
        assert_ne!(sender.label(), before);
        sender.bench.wait(Time::from_s(59));
        assert_eq!(sender.rounds_to_move(10, WINDOW), None, "suspended for at least 60 s");
        sender.bench.host_loss(1, HostLoss::Timeout);
        sender.bench.wait(Time::from_s(120));
        assert_eq!(sender.rounds_to_move(10, WINDOW), Some(12), "over after 120 s; the timeout forgot the rounds");
    }

    #[test]
    fn suspensions_differ_and_lie_between_one_and_two() {
        // One instance with many flows; the test records the time at which each first moves again.
        let mut bench = Bench::host("plb:suspend=1s,forced=1");
        let flows = 1_000;
        for flow in 0..flows {
            bench.entropy(flow, 0);
            bench.host_loss(flow, HostLoss::Timeout);
        }
        let mut ended = [0u32; 4];
        let mut labels: Vec<u16> = (0..flows).map(|flow| bench.entropy(flow, 1)).collect();
        let mut is_over = vec![false; flows as usize];
        for (quarter, count) in ended.iter_mut().enumerate() {
            bench.now = Time::from_ms(1_250 + 250 * quarter as u64);
            for flow in 0..flows {
                bench.ack_window(flow, &mut (quarter as u32), 1, 1, 0);
                let label = bench.entropy(flow, 9);
                let slot = flow as usize;
                if label != labels[slot] && !is_over[slot] {
                    is_over[slot] = true;
                    *count += 1;
                }
                labels[slot] = label;
            }
        }
        assert!(ended.iter().all(|n| (200..300).contains(n)), "{ended:?}");
        assert_eq!(ended.iter().sum::<u32>(), flows, "all are over after twice the parameter");
    }

    #[test]
    fn the_default_suspension_scales_with_the_network() {
        let mut sender = Sender::new("plb:forced=1");
        sender.bench.host_loss(1, HostLoss::Timeout);
        // 600,000 base round trips of the bench's 100 us are Linux' 60 s.
        sender.bench.wait(Time::from_s(60));
        assert!(!sender.round(10, WINDOW));
        sender.bench.wait(Time::from_s(60));
        assert!(sender.round(10, WINDOW));
    }

    #[test]
    fn new_flow_resets_state_of_reused_number() {
        let mut sender = Sender::new("plb");
        sender.bench.host_loss(1, HostLoss::Timeout);
        (0..11).for_each(|_| _ = sender.round(10, WINDOW));
        sender.bench.entropy(1, 0);
        sender.una = 0;
        assert_eq!(sender.rounds_to_move(10, WINDOW), Some(12), "neither rounds nor suspension are inherited");
    }
}
