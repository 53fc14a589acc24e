//! QDAPS, queueing delay aware packet spraying: the next packet of a flow takes the shortest queue
//! from which it does not leave before the previous one (mechanisms-2.md P47; Huang et al., ICNP
//! 2018, TNET 2021).
//!
//! A switch remembers when the previous packet of each flow will have left. The next packet may
//! take a port whose queueing delay is at least the time that is left until then. Of those it takes
//! the shortest queue; equal ones are drawn at random. Once the previous packet has left, any port
//! will do.
//!
//! Readings where the source is silent, some from memory: the port of the previous packet always
//! counts, since its queue keeps the order; if no other port qualifies, it remains. A departure is
//! the end of a transmission. Delays are read with the packet in transmission in full, and a short
//! packet needs a longer queue, so that not even an acknowledgement overtakes the data before it.
//! The published mechanism also reroutes long flows that are blocked behind a long queue, and
//! samples queues where a switch has several engines; both are left out.
//!
//! Packets leave this switch in order. Further on they may meet different queues, and overtake each
//! other there. The order holds while queues are first in, first out, and links keep their rates.
//!
//! - Helps: in two tiers, packets use all uplinks and leave the first switch in order: fewer gaps
//!   than with other spraying.
//! - Hurts: a flow behind a long queue stays there until its packets come slower than the queue
//!   drains; congestion at later switches is invisible, and reorders.

use net::{LinkIx, Time};

use crate::dataplane::common::{Departures, SwitchFlows, least};
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer};
use crate::entry::{Entry, Granularity};

pub(crate) static ENTRY: Entry = Entry::declare("qdaps", "QDAPS")
    .summary("Sends every packet to the shortest queue from which it leaves after the flow's previous packet.")
    .source("P47; ICNP 2018, TNET 2021")
    .granularity(Granularity::Packet)
    .senses("local queueing delays")
    .switch(|env, _| Box::new(Qdaps { departures: Departures::new(env), flows: SwitchFlows::new() }));

struct Qdaps {
    departures: Departures,
    flows: SwitchFlows<Previous>,
}

/// The previous packet of a flow.
#[derive(Clone, Copy, Default)]
struct Previous {
    link: Option<LinkIx>,
    leaves: Time,
}

impl SwitchBalancer for Qdaps {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let previous = self.flows.of(packet);
        let needed = self.departures.delay_in_order(cx.now, previous.leaves, packet.bytes);
        let ports = cx.ports;
        let delays = || (0u16..).zip(members.links).map(|(at, link)| (ports.queueing_delay(*link), at, *link));
        let in_order = delays().filter(|(delay, _, link)| *delay >= needed || Some(*link) == previous.link);
        let chosen = least(cx.rng, in_order.map(|(delay, at, _)| (delay, at)));
        // Empty only if the previous port has failed, and the packet on it with it.
        let chosen = chosen.or_else(|| least(cx.rng, delays().map(|(delay, at, _)| (delay, at))));
        let at = chosen.map_or(0, usize::from);
        let link = members.links[at];
        let delay = ports.queueing_delay(link);
        let leaves = self.departures.departure(cx.now, previous.leaves, delay, packet.bytes);
        *previous = Previous { link: Some(link), leaves };
        at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::dataplane::common::departures::queues::Queues;
    use crate::dataplane::testing::{Bench, packet};

    fn delays(bench: &mut Bench, us: &[u64]) {
        for (link, us) in bench.links.clone().into_iter().zip(us) {
            bench.ports.delay.insert(link.0, Time::from_us(*us));
        }
    }

    #[test]
    fn the_shortest_queue_that_keeps_the_order_is_taken() {
        let mut bench = Bench::switch("qdaps", 4);
        delays(&mut bench, &[50, 30, 80, 90]);
        assert_eq!(bench.choose(&packet(1)), 1, "the first packet of a flow: the shortest queue");
        // It leaves after 31.2 us. After 10 us 21.2 us are left.
        bench.wait(Time::from_us(10));
        delays(&mut bench, &[20, 60, 22, 21]);
        assert_eq!(bench.choose(&packet(1)), 2, "22 us, not 20 or 21");
        assert_eq!(bench.choose(&packet(2)), 0, "another flow is free");
        // Now 23.2 us are left, and no queue is that long but the one of the previous packet.
        delays(&mut bench, &[20, 23, 40, 21]);
        assert_eq!(bench.choose(&packet(1)), 2);
        delays(&mut bench, &[0, 0, 0, 0]);
        assert_eq!(bench.choose(&packet(1)), 2, "the same port keeps the order, however short its queue");
        bench.wait(Time::from_us(42));
        delays(&mut bench, &[5, 4, 6, 3]);
        assert_eq!(bench.choose(&packet(1)), 3, "all packets have left");
    }

    #[test]
    fn a_short_packet_needs_a_longer_queue() {
        let mut bench = Bench::switch("qdaps", 2);
        delays(&mut bench, &[10, 50]);
        assert_eq!(bench.choose(&packet(1)), 0);
        // 11.2 us are left. A packet of 375 bytes takes 0.3 us, 0.9 us less than a full one.
        delays(&mut bench, &[100, 12]);
        assert_eq!(bench.choose(&PacketView { bytes: 375, ..packet(1) }), 0);
        delays(&mut bench, &[100, 13]);
        assert_eq!(bench.choose(&PacketView { bytes: 375, ..packet(2) }), 1);
    }

    #[test]
    fn idle_ports_are_used_evenly() {
        let mut bench = Bench::switch("qdaps", 4);
        let mut hits = [0u32; 4];
        for _ in 0..40_000 {
            bench.wait(Time::from_ns(1200));
            hits[bench.choose(&packet(1))] += 1;
        }
        assert!(hits.iter().all(|n| (9_500..10_500).contains(n)), "{hits:?}");
    }

    #[test]
    fn a_failed_port_is_left_and_later_flows_and_acknowledgements_start_afresh() {
        let mut bench = Bench::switch("qdaps", 4);
        delays(&mut bench, &[100, 200, 300, 400]);
        assert_eq!(bench.choose(&packet(1)), 0);
        delays(&mut bench, &[100, 20, 30, 40]);
        assert_eq!(bench.choose(&packet(1)), 0);
        assert_eq!(bench.choose(&PacketView { is_data: false, hash: 99, ..packet(1) }), 1);
        assert_eq!(bench.choose(&packet(1)), 0, "the acknowledgement leaves the data alone");
        let successor = PacketView { hash: packet(1).hash ^ 2, ..packet(1) };
        assert_eq!(bench.choose(&successor), 1);
        bench.choose(&packet(3));
        // The previous packet takes 21.2 us. Its port is gone, another queue is long enough.
        delays(&mut bench, &[1, 1, 30, 20]);
        bench.remove(1);
        assert_eq!(bench.choose(&packet(3)), 1);
        bench.remove(1);
        assert_eq!(bench.choose(&packet(3)), 0, "no queue is long enough: the shortest");
    }

    /// An arrival: time since the last one in nanoseconds, flow, size and cross traffic to a port.
    type Step = (u64, u32, u32, Option<(usize, u32)>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = || prop_oneof![Just(1500u32), Just(64), 64u32..1500];
        vec((0u64..1500, 0u32..6, bytes(), proptest::option::of((0usize..4, bytes()))), 1..600)
    }

    proptest! {
        #[test]
        fn packets_of_a_flow_leave_the_switch_in_order_under_any_schedule(steps in steps()) {
            let mut bench = Bench::switch("qdaps", 4);
            let (mut queues, mut departures) = (Queues::default(), BTreeMap::new());
            for (pause_ns, flow, bytes, cross) in steps {
                bench.wait(Time::from_ns(pause_ns));
                if let Some((port, bytes)) = cross {
                    queues.send(bench.links[port], bench.now, bytes);
                }
                queues.show(&mut bench);
                let link = bench.choose_link(&PacketView { bytes, ..packet(flow) });
                let leaves = queues.send(link, bench.now, bytes);
                let before = departures.insert(flow, leaves).unwrap_or(Time::ZERO);
                prop_assert!(leaves >= before, "flow {flow} at {:?}: {leaves:?} after {before:?}", bench.now);
            }
        }
    }

    #[test]
    fn the_order_makes_queues_little_longer_than_those_of_spraying_by_queues_alone() {
        // Eight flows share four ports at 80 % of their rate, in random order; returns the share of
        // packets that leave before the previous one of their flow, and the mean queueing delay in
        // microseconds.
        let run = |spec: &str| {
            let mut bench = Bench::switch(spec, 4);
            let mut rng = net::RandomStream::new(5, "arrivals");
            let (mut queues, mut departures) = (Queues::default(), [Time::ZERO; 8]);
            let (mut early, mut delay) = (0, 0.0);
            for _ in 0..40_000 {
                bench.wait(Time::from_ps(rng.exponential(375_000.0) as u64));
                queues.show(&mut bench);
                let flow = rng.next_below(8) as u32;
                let link = bench.choose_link(&packet(flow));
                let leaves = queues.send(link, bench.now, 1500);
                delay += leaves.saturating_sub(bench.now).as_us_f64() - 1.2;
                let last = &mut departures[flow as usize];
                early += u32::from(leaves < *last);
                *last = leaves.max(*last);
            }
            (f64::from(early) / 40_000.0, delay / 40_000.0)
        };
        let (qdaps, drill) = (run("qdaps"), run("drill"));
        assert!(qdaps.0 == 0.0 && drill.0 > 0.05, "qdaps {qdaps:?}, drill {drill:?}");
        assert!(qdaps.1 < 1.3 * drill.1, "qdaps {qdaps:?}, drill {drill:?}");
    }
}
