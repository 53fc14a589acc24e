//! TLB: short flows move with every packet, long flows only when their queue exceeds the shortest
//! one by a threshold that grows with the load of short flows (mechanisms-2.md P47; Hu et al., TNET
//! 2021).
//!
//! A flow is short until this switch has forwarded `short` bytes of it. Every packet of a short
//! flow takes the shortest queue. A long flow keeps its port while the queue there is at most the
//! threshold longer than the shortest one; else it moves to that. The more short flows there are,
//! the more queues are left to them: long flows stay together where they are.
//!
//! The published threshold comes from a model like M/G/1, which computes the queue that short flows
//! can bear within their deadlines. Here it is, as a reading,
//!
//! `threshold = packet_bytes + gain * short_bytes / next_hops`,
//!
//! with the bytes of short flows at this switch in the last interval. The second term is the queue
//! that the short flows of an interval would be at each next hop. The interval is a reading too,
//! after the 500 us that are remembered from the paper. Intervals begin at multiples of their
//! length. A switch without packets for longer than one has no load.
//!
//! Other readings where the source is silent: acknowledgements are flows of small packets, by the
//! same rules. Queues are compared in bytes, ties are broken at random. A flow whose port fails
//! takes the shortest queue.
//!
//! An interval of many RTTs makes the threshold late. With a `short` above the size of most flows
//! most packets are sprayed.
//!
//! - Helps: mixes of few long and many short flows: short ones avoid the queues of the long ones.
//! - Hurts: hosts must put packets of short flows in order; congestion after the next hop is
//!   invisible, and with many short flows two long ones stay together on a port.

use net::{LinkIx, Time};

use crate::dataplane::common::{SwitchFlows, shortest_queue};
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("tlb", "TLB")
    .summary("Sprays short flows to the shortest queue; moves long flows only above a threshold of queues.")
    .source("P47; TNET 2021")
    .granularity(Granularity::Packet)
    .senses("local queues; bytes of each flow")
    .params(&[
        Param::count("short", 0..=1 << 40, "100000").unit("bytes").doc("Bytes after which a flow counts as long."),
        Param::scaled("interval", "5rtt").doc("Time over which the load of short flows is counted."),
        Param::number("gain", 0.0..=1000.0, "1")
            .doc("Bytes of the threshold for each byte of short flows per next hop and interval."),
    ])
    .example("tlb:short=50000")
    .switch(|env, params| {
        Box::new(Tlb {
            short_bytes: params.count("short"),
            gain: params.number("gain"),
            packet_bytes: u64::from(env.scale.packet_bytes),
            load: ShortLoad::new(params.scaled("interval", &env.scale).max(INTERVAL_MIN)),
            flows: SwitchFlows::new(),
        })
    });

const INTERVAL_MIN: Time = Time::from_ns(100);

struct Tlb {
    short_bytes: u64,
    gain: f64,
    packet_bytes: u64,
    load: ShortLoad,
    flows: SwitchFlows<Flow>,
}

#[derive(Clone, Copy, Default)]
struct Flow {
    /// Bytes before the present packet.
    bytes: u64,
    link: Option<LinkIx>,
}

/// Bytes of short flows in this interval and in the last one.
struct ShortLoad {
    interval_ps: u64,
    number: u64,
    current: u64,
    last: u64,
}

impl ShortLoad {
    fn new(interval: Time) -> ShortLoad {
        ShortLoad { interval_ps: interval.as_ps(), number: 0, current: 0, last: 0 }
    }

    fn advance(&mut self, now: Time) {
        let number = now.as_ps() / self.interval_ps;
        if number != self.number {
            self.last = if number == self.number + 1 { self.current } else { 0 };
            (self.number, self.current) = (number, 0);
        }
    }
}

impl SwitchBalancer for Tlb {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let links = members.links;
        self.load.advance(cx.now);
        let flow = self.flows.of(packet);
        let is_short = flow.bytes < self.short_bytes;
        flow.bytes = flow.bytes.saturating_add(u64::from(packet.bytes));
        let shortest = shortest_queue(cx, links);
        let at = if is_short {
            self.load.current += u64::from(packet.bytes);
            shortest
        } else {
            let threshold = self.packet_bytes + (self.gain * self.load.last as f64 / links.len() as f64) as u64;
            let limit = cx.ports.queued_bytes(links[shortest]).saturating_add(threshold);
            let current = links.iter().position(|link| Some(*link) == flow.link);
            current.filter(|at| cx.ports.queued_bytes(links[*at]) <= limit).unwrap_or(shortest)
        };
        flow.link = Some(links[at]);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::common::departures::queues::Queues;
    use crate::dataplane::testing::{Bench, packet};

    /// Long after two packets of 1500 bytes.
    const SPEC: &str = "tlb:short=3000,interval=100us";

    fn queue(bench: &mut Bench, bytes: [u64; 4]) {
        for (link, bytes) in bench.links.clone().into_iter().zip(bytes) {
            bench.ports.queued.insert(link.0, bytes);
        }
    }

    /// Makes flow 1 long, on port 0.
    fn with_long_flow(spec: &str) -> Bench {
        let mut bench = Bench::switch(spec, 4);
        queue(&mut bench, [0, 9000, 9000, 9000]);
        (0..2).for_each(|_| assert_eq!(bench.choose(&packet(1)), 0));
        bench
    }

    #[test]
    fn every_packet_of_a_short_flow_takes_the_shortest_queue() {
        let mut bench = Bench::switch("tlb", 4);
        // 66 packets are 99,000 bytes: the 67th is the last one of a short flow.
        for sent in 0..67usize {
            let mut queues = [1; 4];
            queues[sent % 4] = 0;
            queue(&mut bench, queues);
            assert_eq!(bench.choose(&packet(1)), sent % 4, "packet {sent}");
        }
        queue(&mut bench, [0, 1, 1, 1]);
        assert_eq!(bench.choose(&packet(1)), 66 % 4, "a long flow stays");
        assert_eq!(bench.choose(&packet(2)), 0, "other flows are short");
    }

    #[test]
    fn a_long_flow_moves_above_the_threshold_only() {
        let mut bench = with_long_flow(SPEC);
        // No full interval has passed: the threshold is one packet.
        queue(&mut bench, [2000, 500, 9000, 9000]);
        assert_eq!(bench.choose(&packet(1)), 0);
        queue(&mut bench, [2001, 500, 9000, 9000]);
        assert_eq!(bench.choose(&packet(1)), 1);
        queue(&mut bench, [500, 2000, 9000, 9000]);
        assert_eq!(bench.choose(&packet(1)), 1, "it stays where it went");
    }

    #[test]
    fn the_threshold_grows_with_the_bytes_of_short_flows_in_the_last_interval() {
        for (spec, gain) in [("", 1), (",gain=0.5", 2)] {
            let mut bench = with_long_flow(&format!("{SPEC}{spec}"));
            bench.now = Time::from_us(100);
            // 40 short packets are 60,000 bytes, so 15,000 per next hop; those of flow 1 do not
            // count.
            (100..140).for_each(|flow| assert!(bench.choose(&packet(flow)) < 4));
            bench.choose(&packet(1));
            bench.now = Time::from_us(299);
            let threshold = 1500 + 15_000 / gain;
            queue(&mut bench, [threshold, 0, 9000, 9000]);
            assert_eq!(bench.choose(&packet(1)), 0, "gain 1/{gain}");
            queue(&mut bench, [threshold + 1, 0, 9000, 9000]);
            assert_eq!(bench.choose(&packet(1)), 1, "gain 1/{gain}");
        }
    }

    #[test]
    fn the_load_is_forgotten_after_an_interval_without_short_flows() {
        for (later_us, stays) in [(299, true), (300, false), (900, false)] {
            let mut bench = with_long_flow(SPEC);
            bench.now = Time::from_us(150);
            (100..140).for_each(|flow| assert!(bench.choose(&packet(flow)) < 4));
            bench.now = Time::from_us(later_us);
            queue(&mut bench, [10_000, 0, 9000, 9000]);
            assert_eq!(bench.choose(&packet(1)) == 0, stays, "{later_us} us");
        }
    }

    #[test]
    fn flows_that_take_a_number_again_are_short_and_failed_ports_are_left() {
        let mut bench = with_long_flow(SPEC);
        queue(&mut bench, [100, 90, 80, 70]);
        assert_eq!(bench.choose(&packet(1)), 0);
        assert_eq!(bench.choose(&PacketView { is_data: false, hash: 9, ..packet(1) }), 3);
        let gone = bench.remove(0);
        assert_eq!(bench.choose(&packet(1)), 2, "the last of three");
        bench.restore(0, gone);
        assert_eq!(bench.choose(&packet(1)), 3, "it stays there");
        let successor = PacketView { hash: 1, ..packet(1) };
        queue(&mut bench, [100, 90, 10, 70]);
        assert_eq!(bench.choose(&successor), 2);
        assert_eq!(bench.choose(&packet(1)), 2, "the entry was the successor's: a short flow again");
    }

    #[test]
    fn short_flows_avoid_the_queue_of_a_long_one_which_rarely_moves() {
        // A long flow at 7 Gb/s on one of four ports of 10 Gb/s, short flows at 10 Gb/s together;
        // returns the mean queueing delay of short flows in microseconds, and the moves of the long
        // one.
        let mean_delay = |spec: &str| {
            let mut bench = Bench::switch(spec, 4);
            let mut rng = net::RandomStream::new(5, "arrivals");
            let mut queues = Queues::default();
            let (mut delay, mut count, mut moves, mut long) = (0.0, 0.0, 0, None);
            for sent in 0..40_000u32 {
                bench.wait(Time::from_ps(rng.exponential(706_000.0) as u64));
                queues.show(&mut bench);
                let is_long = rng.next_f64() < 7.0 / 17.0;
                let flow = if is_long { 1 } else { 100 + sent / 20 };
                let link = bench.choose_link(&packet(flow));
                let leaves = queues.send(link, bench.now, 1500);
                if is_long {
                    moves += u32::from(long.replace(link).is_some_and(|before| before != link));
                } else {
                    delay += leaves.saturating_sub(bench.now).as_us_f64() - 1.2;
                    count += 1.0;
                }
            }
            (delay / count, moves)
        };
        let [tlb, without, ecmp] = ["tlb:interval=400us", "tlb:interval=400us,gain=0", "ecmp"].map(mean_delay);
        assert!(tlb.0 < 0.1 * ecmp.0, "tlb {tlb:?}, ecmp {ecmp:?}");
        assert!(tlb.1 < 100 && without.1 > 10 * tlb.1, "moves of the long flow: {tlb:?}, without gain {without:?}");
    }
}
