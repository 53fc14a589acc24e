//! LetFlow: every flowlet takes a random port (mechanisms.md P17; Vanini et al., NSDI 2017).
//!
//! A switch remembers the port of each flow's current burst. A packet that follows within the gap
//! takes the same port; one that comes later, or whose port is gone, takes a random one of the
//! equal-cost set. Nothing is measured: on slow paths packets spread out, flowlets end sooner, and
//! traffic drifts to paths where flowlets last long.
//!
//! The gap is published as 500 us at 10 Gb/s and 100 us at 100 Gb/s with RDMA. The default scales
//! with the base RTT as CONGA's does, so that the two are comparable; 500 us belong to a base RTT
//! of 80 us. The paper keeps flowlets in a hashed table with an age bit, which is the default;
//! `gap_mode=exact` has an entry per flow.
//!
//! A gap that is too short reorders, one that is too long never moves; paced traffic has no gaps. A
//! gap of one RTT does not rule out reordering: the difference between the queues on two paths may
//! be larger.
//!
//! - Helps: where traffic has gaps: slow paths break bursts up, so traffic drifts away from them
//!   without any measurement, also after silent failures.
//! - Hurts: where traffic is paced or fills its window all the time: no gap, no choice.

use crate::dataplane::common::flowlets::{self, Flowlets};
use crate::dataplane::common::{at_switch, random_port};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("letflow", "LetFlow")
    .summary("Sends each flowlet to an equal-cost next hop drawn at random.")
    .source("P17; NSDI 2017")
    .granularity(Granularity::Flowlet)
    .senses("gaps in flows")
    .params(&[
        Param::scaled("gap", "6.25rtt")
            .doc("Idle time that ends a flowlet; published: 500us at 10 Gb/s (here at a base RTT of 80 us)."),
        flowlets::MODE,
        flowlets::ENTRIES,
    ])
    .switch(|env, params| {
        let mut flowlets: Flowlets<u32> = Flowlets::from_params(params, &env.scale);
        at_switch(move |cx, packet, links| flowlets.position(cx.now, packet, links, || random_port(cx.rng, links)))
    });

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::dataplane::PacketView;
    use crate::dataplane::testing::{Bench, packet};

    const EXACT: &str = "letflow:gap=500us,gap_mode=exact";

    #[test]
    fn packets_within_the_gap_share_a_port() {
        let mut bench = Bench::switch(EXACT, 8);
        for flow in 0..50 {
            let first = bench.choose(&packet(flow));
            for _ in 0..20 {
                bench.wait(Time::from_us(500));
                assert_eq!(bench.choose(&packet(flow)), first, "every packet extends the flowlet");
            }
        }
    }

    #[test]
    fn every_flowlet_draws_a_port_afresh() {
        let mut bench = Bench::switch(EXACT, 4);
        let mut follows = [[0u32; 4]; 4];
        let mut last = bench.choose(&packet(1));
        for _ in 0..64_000 {
            bench.wait(Time::from_ps(500_000_001));
            let next = bench.choose(&packet(1));
            follows[last][next] += 1;
            last = next;
        }
        // Independent of the previous port, which may come again.
        assert!(follows.iter().flatten().all(|n| (3_700..4_300).contains(n)), "{follows:?}");
    }

    #[test]
    fn the_age_bit_ends_flowlets_between_one_gap_and_two() {
        let mut bench = Bench::switch("letflow:gap=500us", 64);
        let first = bench.choose(&packet(1));
        bench.wait(Time::from_us(999));
        assert_eq!(bench.choose(&packet(1)), first, "up to two gaps after a sweep");
        let mut moved = 0;
        for flow in 2..200 {
            let before = bench.choose(&packet(flow));
            bench.wait(Time::from_us(1000));
            moved += u32::from(bench.choose(&packet(flow)) != before);
        }
        assert!(moved > 180, "{moved} of 198; one in 64 draws the same port again");
    }

    #[test]
    fn the_default_gap_is_the_published_one_at_a_base_rtt_of_80_us() {
        // The bench's base RTT is 100 us: 625 us.
        let mut bench = Bench::switch("letflow:gap_mode=exact", 64);
        let first = bench.choose(&packet(1));
        bench.wait(Time::from_us(625));
        assert_eq!(bench.choose(&packet(1)), first);
        let stays = (2..66).filter(|flow| {
            let before = bench.choose(&packet(*flow));
            bench.wait(Time::from_us(626));
            bench.choose(&packet(*flow)) == before
        });
        assert!(stays.count() < 8);
    }

    #[test]
    fn removed_port_is_left_immediately_and_may_return() {
        let mut bench = Bench::switch(EXACT, 4);
        for flow in 0..100 {
            let link = bench.choose_link(&packet(flow));
            let position = bench.links.iter().position(|l| *l == link).unwrap();
            let gone = bench.remove(position);
            let other = bench.choose_link(&packet(flow));
            assert_ne!(other, gone);
            bench.restore(position, gone);
            assert_eq!(bench.choose_link(&packet(flow)), other, "the flowlet stays where it went");
        }
        bench.links.truncate(1);
        assert_eq!(bench.choose(&packet(3)), 0);
    }

    #[test]
    fn a_reused_flow_number_and_the_other_direction_draw_for_themselves() {
        let mut bench = Bench::switch(EXACT, 64);
        let mut alike = [0, 0];
        for flow in 0..100 {
            let first = bench.choose(&packet(flow));
            let ack = PacketView { is_data: false, hash: packet(flow).hash ^ 1, ..packet(flow) };
            alike[0] += u32::from(bench.choose(&ack) == first);
            assert_eq!(bench.choose(&packet(flow)), first, "acknowledgements leave the data alone");
            let successor = PacketView { hash: packet(flow).hash ^ 2, ..packet(flow) };
            alike[1] += u32::from(bench.choose(&successor) == first);
        }
        assert!(alike.iter().all(|n| *n < 8), "{alike:?}: about one in 64 by chance");
    }
}
