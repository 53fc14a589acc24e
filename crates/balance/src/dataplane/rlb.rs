//! RLB: packets keep away from ports that priority flow control will soon pause
//! (mechanisms-2.md P47; ICPP 2023).
//!
//! In a lossless network a packet behind a paused port is overtaken by all later packets of its
//! flow that other ports take. RLB predicts pauses, and sends a packet that would be caught by one
//! elsewhere. Here every packet takes a random equal-cost next hop, as in spraying, but not one
//! whose queue will pass the threshold within `horizon`:
//!
//! `queue + trend * horizon > pause`.
//!
//! If all next hops are excluded, the packet takes the one with the smallest predicted queue.
//!
//! Readings where the source is silent. The queue is that of the port at this switch: a port that
//! is paused grows a queue, as does one whose neighbour is about to be flooded. The trend is the
//! average change of the queue over samples that are `interval` apart, taken when packets come; a
//! new sample has the weight `gain`. A shrinking queue is not extrapolated: the present one counts.
//! The threshold is `pause` for one queue, while switches count the bytes that came over each link.
//! The published mechanism is an addition to other balancers, of which spraying is the one here. It
//! also sends packets round through the switch if no port is left, which is not modelled; and its
//! warnings come from the neighbour that will send the pause.
//!
//! Thresholds of the experiment file (`switch.pause_above`) replace those of the balancer in
//! switches, but not `pause` in the prediction: set both.
//!
//! - Helps: in lossless fabrics with several equal-cost ports, of which some are paused now and
//!   then.
//! - Hurts: where pauses come from the receivers: every port leads to the same congestion; where
//!   queues change faster than packets sample them.

use net::{LinkIx, Time};

use crate::dataplane::common::least;
use crate::dataplane::{Cx, Lossless, Needs, NextHops, PacketView, SwitchBalancer};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("rlb", "RLB")
    .summary("Sprays packets over the ports whose queues, by their trend, will not reach the pause threshold.")
    .source("P47; ICPP 2023")
    .granularity(Granularity::Packet)
    .senses("local queues and their trends")
    .params(&[
        Param::count("pause", 1..=1 << 30, "40000")
            .unit("bytes")
            .doc("Predicted queue above which a port is excluded, and bytes of a neighbour above which it is paused."),
        Param::count("resume", 1..=1 << 30, "20000")
            .unit("bytes")
            .doc("Bytes at which a paused neighbour goes on; at most `pause`."),
        Param::scaled("horizon", "0.25rtt").doc("Time ahead for which queues are predicted (not published)."),
        Param::scaled("interval", "0.02rtt").doc("Shortest time between two samples of a queue (not published)."),
        Param::number("gain", 0.01..=1.0, "0.5").doc("Weight of the newest sample in the trend (not published)."),
    ])
    .example("rlb:horizon=0.5rtt")
    .needs(|_, params| {
        let pause_above_bytes = params.count("pause") as u32;
        let resume_below_bytes = (params.count("resume") as u32).min(pause_above_bytes);
        Needs { lossless: Some(Lossless { priorities: 1, pause_above_bytes, resume_below_bytes }), ..Needs::default() }
    })
    .switch(|env, params| {
        Box::new(Rlb {
            pause: params.count("pause") as f64,
            horizon_ps: params.scaled("horizon", &env.scale).as_ps() as f64,
            interval: params.scaled("interval", &env.scale).max(Time::from_ps(1)),
            gain: params.number("gain"),
            ports: Vec::new(),
        })
    });

struct Rlb {
    pause: f64,
    horizon_ps: f64,
    interval: Time,
    gain: f64,
    /// The ports that were candidates, in the order of their links.
    ports: Vec<Port>,
}

struct Port {
    link: LinkIx,
    sampled_at: Time,
    queued_bytes: u64,
    /// Average change of the queue, bytes per picosecond.
    trend: f64,
}

impl Rlb {
    /// Returns the queue of a port after the horizon, bytes; samples it if that is due.
    fn predicted(&mut self, now: Time, link: LinkIx, queued_bytes: u64) -> f64 {
        let at = match self.ports.binary_search_by_key(&link, |port| port.link) {
            Ok(at) => at,
            Err(at) => {
                self.ports.insert(at, Port { link, sampled_at: now, queued_bytes, trend: 0.0 });
                at
            }
        };
        let port = &mut self.ports[at];
        let passed = now.saturating_sub(port.sampled_at);
        if passed >= self.interval {
            let change = (queued_bytes as f64 - port.queued_bytes as f64) / passed.as_ps() as f64;
            port.trend += (change - port.trend) * self.gain;
            (port.sampled_at, port.queued_bytes) = (now, queued_bytes);
        }
        queued_bytes as f64 + port.trend.max(0.0) * self.horizon_ps
    }
}

impl SwitchBalancer for Rlb {
    fn choose(&mut self, cx: &mut Cx<'_>, _: &PacketView, members: NextHops<'_>) -> usize {
        let (now, ports, pause) = (cx.now, cx.ports, self.pause);
        // Equal ranks are drawn from at random: all ports that are not excluded, or the best of the
        // others.
        let ranked = (0u16..).zip(members.links).map(|(at, link)| {
            let predicted = self.predicted(now, *link, ports.queued_bytes(*link));
            (if predicted > pause { predicted } else { 0.0 }, at)
        });
        least(cx.rng, ranked).map_or(0, usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, needs, packet};

    /// Sets the queues of all ports after a time, and makes one choice so that they are sampled.
    fn queues(bench: &mut Bench, after: Time, bytes: [u64; 4]) {
        bench.wait(after);
        for (link, bytes) in bench.links.clone().into_iter().zip(bytes) {
            bench.ports.queued.insert(link.0, bytes);
        }
        bench.choose(&packet(1));
    }

    fn hits(bench: &mut Bench) -> [u32; 4] {
        bench.port_hits((0..4000).map(|_| packet(1)))
    }

    fn used(bench: &mut Bench) -> [bool; 4] {
        hits(bench).map(|hits| hits > 0)
    }

    #[test]
    fn ports_below_the_threshold_are_used_evenly_at_any_queue() {
        let mut bench = Bench::switch("rlb", 4);
        queues(&mut bench, Time::ZERO, [0, 39_000, 20_000, 40_000]);
        let hits = hits(&mut bench);
        assert!(hits.iter().all(|hits| (850..1150).contains(hits)), "{hits:?}");
    }

    #[test]
    fn a_port_is_excluded_above_the_threshold_and_before_it_by_its_trend() {
        // The horizon is 25 us, the interval 2 us, and the gain 1.
        let mut bench = Bench::switch("rlb:gain=1", 4);
        queues(&mut bench, Time::ZERO, [0, 40_001, 0, 0]);
        assert_eq!(used(&mut bench), [true, false, true, true]);
        // 1,000 bytes in 2 us are 12,500 within the horizon: ports 0 and 2 will hold 39,500 and
        // 41,500.
        queues(&mut bench, Time::from_us(2), [26_000, 0, 28_000, 0]);
        queues(&mut bench, Time::from_us(2), [27_000, 0, 29_000, 0]);
        assert_eq!(used(&mut bench), [true, true, false, true]);
        // Port 2 shrinks, and its present queue counts. Port 3 is sampled too early: its trend is
        // old.
        queues(&mut bench, Time::from_us(2), [0, 0, 28_500, 10_000]);
        queues(&mut bench, Time::from_us(1), [0, 0, 28_500, 39_000]);
        assert_eq!(used(&mut bench), [true, true, true, false], "10,000 in 2 us are 125,000 in the horizon");
    }

    #[test]
    fn if_all_are_excluded_the_smallest_prediction_is_taken() {
        let mut bench = Bench::switch("rlb", 4);
        queues(&mut bench, Time::ZERO, [90_000, 60_000, 50_000, 70_000]);
        assert_eq!(used(&mut bench), [false, false, true, false]);
        queues(&mut bench, Time::from_us(5), [90_000, 60_000, 59_000, 70_000]);
        assert_eq!(used(&mut bench), [false, true, false, false], "port 2 grows");
    }

    #[test]
    fn the_average_trend_is_a_closed_form() {
        // Queues grow at 100 bytes per microsecond from rest: after n samples the trend is 1 - 2^-n
        // of it.
        let mut rlb =
            Rlb { pause: 40_000.0, horizon_ps: 25e6, interval: Time::from_us(2), gain: 0.5, ports: Vec::new() };
        for n in 0..20u64 {
            let predicted = rlb.predicted(Time::from_us(2 * n), LinkIx(7), 200 * n);
            let expected = 200.0 * n as f64 + 25.0 * 100.0 * (1.0 - 0.5f64.powi(n as i32));
            assert!((predicted - expected).abs() < 1e-6, "sample {n}: {predicted}, {expected} expected");
        }
    }

    #[test]
    fn needs_are_lossless_switches() {
        let lossless = |pause_above_bytes, resume_below_bytes| {
            Some(Lossless { priorities: 1, pause_above_bytes, resume_below_bytes })
        };
        assert_eq!(needs("rlb").lossless, lossless(40_000, 20_000));
        assert_eq!(needs("rlb:pause=3000").lossless, lossless(3_000, 3_000));
    }
}
