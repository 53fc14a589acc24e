//! Vertigo, the deflection: a packet that finds its queue full takes the better of two random ports
//! (mechanisms-2.md P47; Abdous et al., CoNEXT 2021).
//!
//! Every packet takes the shorter of `choices` random queues. If that queue has no space for it,
//! the packet is deflected: two of the other ports are drawn, and the shorter queue gets it. A
//! packet that no port has space for is dropped by the switch. Retransmissions must not be lost
//! again: they take the shortest of all queues.
//!
//! Not modelled. Vertigo ranks each queue by the remaining bytes of flows and deflects the packet
//! with the most, which may be one that waits already; here queues are first in, first out, and the
//! packet that arrives is deflected. Vertigo deflects to any port; here it is one of the equal-cost
//! next hops, so a full last hop to a host drops. The boost of a retransmission is a better rank;
//! here it is a better port. The shim of hosts that puts packets in order is the resequencing of
//! the simulator.
//!
//! Readings. A switch here does not know the limit of its queues. A queue is full at `full` times
//! the delay at the marking threshold, which is a fifth of the limit by default. `choices=0` draws
//! no port but hashes the flow: deflection over ECMP, where it has more to do.
//!
//! - Helps: with short bursts, while other ports have space: fewer drops, without any state.
//! - Hurts: where all ports are full, or congestion is at the last hop; with receivers that cannot
//!   put packets in order.

use net::{LinkIx, Time};

use crate::dataplane::common::shortest_queue;
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer};
use crate::draw::sample;
use crate::entry::{Entry, Granularity};
use crate::hash::{combine, mix, reduce};
use crate::params::Param;

/// Most ports that are compared for a packet.
const CHOICES_MAX: usize = 8;

pub(crate) static ENTRY: Entry = Entry::declare("vertigo", "Vertigo (deflection)")
    .summary("Sends packets to the shorter of two random queues, and from a full one to the better of two others.")
    .source("P47; CoNEXT 2021")
    .granularity(Granularity::Packet)
    .senses("local queues, retransmissions")
    .params(&[
        Param::count("choices", 0..=CHOICES_MAX as u64, "2").unit("ports").doc(
            "Ports drawn for each packet, of which the one with the shortest queue is taken; 0: hash of the flow.",
        ),
        Param::count("deflections", 1..=CHOICES_MAX as u64, "2")
            .unit("ports")
            .doc("Ports drawn when that queue is full."),
        Param::scaled("full", "5hop").doc("Queueing delay above which a queue is full (not published)."),
    ])
    .example("vertigo:deflections=3")
    .switch(|env, params| {
        Box::new(Vertigo {
            seed: combine(mix(env.seed ^ 0x7665_7274), u64::from(env.switch.0)),
            choices: params.count("choices") as usize,
            deflections: params.count("deflections") as usize,
            full: params.scaled("full", &env.scale),
        })
    });

struct Vertigo {
    seed: u64,
    choices: usize,
    deflections: usize,
    full: Time,
}

/// Returns the position with the shortest queue of `count` random ones, without `except`.
fn best_of(cx: &mut Cx<'_>, links: &[LinkIx], count: usize, except: Option<usize>) -> usize {
    let mut drawn = [0; CHOICES_MAX];
    let others = links.len() - usize::from(except.is_some());
    let drawn = &mut drawn[..count.min(others)];
    sample(cx.rng, others, drawn);
    // Numbers from the excepted position on are those of the next ports.
    let positions =
        drawn.iter().map(|n| *n as usize).map(|n| n + usize::from(except.is_some_and(|except| n >= except)));
    let (rng, ports) = (&mut *cx.rng, cx.ports);
    let mut best = (u64::MAX, u64::MAX, 0);
    for at in positions {
        best = best.min((ports.queued_bytes(links[at]), rng.next_u64(), at));
    }
    best.2
}

impl SwitchBalancer for Vertigo {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let links = members.links;
        if packet.is_retransmission {
            return shortest_queue(cx, links);
        }
        let first = match self.choices {
            0 => reduce(combine(packet.hash, self.seed), links.len()),
            count => best_of(cx, links, count, None),
        };
        let is_full = cx.ports.queueing_delay(links[first]) > self.full;
        if !is_full || links.len() < 2 {
            return first;
        }
        let other = best_of(cx, links, self.deflections, Some(first));
        if cx.ports.queued_bytes(links[other]) < cx.ports.queued_bytes(links[first]) { other } else { first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    /// Sets the queueing delays of the ports, in hop delays of 80 us, and their bytes at 10 Gb/s.
    fn queues(bench: &mut Bench, hops: &[f64]) {
        for (link, hops) in bench.links.clone().into_iter().zip(hops) {
            bench.ports.delay.insert(link.0, Time::from_ns((hops * 80_000.0) as u64));
            bench.ports.queued.insert(link.0, (hops * 100_000.0) as u64);
        }
    }

    fn shares(bench: &mut Bench, packet: &PacketView) -> [f64; 4] {
        bench.port_hits((0..60_000).map(|_| *packet)).map(|hits| f64::from(hits) / 60_000.0)
    }

    fn assert_shares(shares: [f64; 4], expected: [f64; 4]) {
        assert!(shares.iter().zip(expected).all(|(s, e)| (s - e).abs() < 0.01), "{shares:?}, expected {expected:?}");
    }

    #[test]
    fn the_shorter_of_two_random_queues_is_taken() {
        // Of the six pairs of four ports the best port is in three, the second best wins two, and
        // so on.
        let mut bench = Bench::switch("vertigo", 4);
        queues(&mut bench, &[2.0, 1.0, 4.0, 3.0]);
        assert_shares(shares(&mut bench, &packet(1)), [2.0 / 6.0, 3.0 / 6.0, 0.0, 1.0 / 6.0]);
    }

    #[test]
    fn a_packet_leaves_a_full_queue_for_the_better_of_two_others() {
        let mut bench = Bench::switch("vertigo:choices=0", 4);
        let home = bench.choose(&packet(1));
        let mut hops = [1.0; 4];
        hops[home] = 5.0;
        queues(&mut bench, &hops);
        assert_eq!(bench.choose(&packet(1)), home, "full is above the limit, not at it");
        hops[home] = 5.1;
        let [a, b, c] = [1, 2, 3].map(|step| (home + step) % 4);
        (hops[a], hops[b], hops[c]) = (3.0, 2.0, 4.0);
        queues(&mut bench, &hops);
        // Of the three pairs of the others, the best is in two.
        let mut expected = [0.0; 4];
        (expected[a], expected[b]) = (1.0 / 3.0, 2.0 / 3.0);
        assert_shares(shares(&mut bench, &packet(1)), expected);
    }

    #[test]
    fn a_packet_stays_if_the_others_are_no_better() {
        let mut bench = Bench::switch("vertigo:choices=0", 4);
        let home = bench.choose(&packet(1));
        let mut hops = [9.0; 4];
        hops[home] = 6.0;
        queues(&mut bench, &hops);
        assert!((0..1000).all(|_| bench.choose(&packet(1)) == home));
        let mut two = Bench::switch("vertigo:choices=0", 2);
        queues(&mut two, &[6.0, 6.0]);
        let home = two.choose(&packet(1));
        assert!((0..100).all(|_| two.choose(&packet(1)) == home));
    }

    #[test]
    fn retransmissions_take_the_shortest_of_all() {
        let mut bench = Bench::switch("vertigo:choices=0", 4);
        queues(&mut bench, &[3.0, 1.0, 0.5, 2.0]);
        let again = PacketView { is_retransmission: true, ..packet(1) };
        assert!((0..200).all(|_| bench.choose(&again) == 2));
    }
}
