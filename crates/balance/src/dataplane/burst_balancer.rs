//! BurstBalancer: a small sketch finds large bursts, and only these are balanced; all other flows
//! keep the port of their hash (mechanisms-2.md P47; Liu et al., TPDS 2024).
//!
//! The sketch is an array of buckets, and every flow hashes to one of them. A bucket records one
//! flow, with a vote, the time of its last packet, and a port once the flow has been moved. A
//! packet of the recorded flow adds a vote, a packet of another flow removes one. At zero votes the
//! other flow takes the bucket, and it also does if the recorded flow has been idle for `age`. So
//! large flows stay in the sketch, and its memory does not depend on the number of flows.
//!
//! If a recorded flow with more than `burst` votes begins a flowlet, which is a packet after a
//! pause of more than `gap`, the flowlet moves to the port with the fewest bytes queued. The flow
//! stays there until its next flowlet. Flows that are not recorded are hashed as by `ecmp`.
//!
//! The rule of the votes is that of the authors' published code. There, a flow that has been moved
//! is replaced only after `age`, so that it does not jump back to its hash amid a burst; the same
//! holds here. Their simulation (10 Gb/s, base RTT about 80 us) has 250 buckets, a gap of 200 us
//! and an age of 50 ms; their switch program has 65,536 buckets and moves a flow with more than 30
//! votes. Our readings: every switch with several next hops has a sketch, not only the first
//! one; the least queued port is the choice, while the authors' programs draw a port by a hash
//! (`pick=random`).
//!
//! With few buckets large flows displace each other. Acknowledgements of large flows are large
//! flows of small packets, and are balanced like these.
//!
//! - Helps: with few large bursts among many small flows: nearly all flows keep a path that is
//!   known in advance, and the large ones avoid queues.
//! - Hurts: where bursts have no gaps, or no flow is large: then it is ECMP; congestion after the
//!   next hop is invisible.

use crate::dataplane::common::{random_port, shortest_queue};
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, SwitchEnv, ecmp};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("burst-balancer", "BurstBalancer")
    .summary("Moves the flowlets of large bursts, which a sketch finds, and hashes all other flows.")
    .source("P47; TPDS 2024")
    .granularity(Granularity::Flowlet)
    .senses("gaps in large flows; local queues")
    .params(&[
        Param::count("buckets", 1..=1 << 20, "250").doc("Buckets of the sketch; each records one flow."),
        Param::count("burst", 0..=1 << 20, "30")
            .unit("packets")
            .doc("Votes above which a flow is large: its packets less those of other flows in its bucket."),
        Param::scaled("gap", "2.5rtt").doc("Pause that ends a flowlet; published: 200us at a base RTT of 80 us."),
        Param::scaled("age", "600rtt")
            .doc("Pause after which a recorded flow is forgotten; published: 50ms at a base RTT of 80 us."),
        Param::choice("pick", &["least-queued", "random"], "least-queued").doc("Port of a flowlet that is moved."),
    ])
    .example("burst-balancer:burst=10")
    .switch(|env, params| Box::new(BurstBalancer::new(env, params)));

struct BurstBalancer {
    burst: u32,
    gap_ps: u64,
    age_ps: u64,
    picks_queue: bool,
    buckets: Vec<Bucket>,
    hashed: Box<dyn SwitchBalancer>,
}

/// The record of a flow; unused if it has neither votes nor a link.
#[derive(Clone, Copy, Default)]
struct Bucket {
    flow_hash: u64,
    votes: u32,
    last_ps: u64,
    /// Link to which the flow was moved.
    link: Option<u32>,
}

impl BurstBalancer {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> BurstBalancer {
        BurstBalancer {
            burst: params.count("burst") as u32,
            gap_ps: params.scaled("gap", &env.scale).as_ps(),
            age_ps: params.scaled("age", &env.scale).as_ps(),
            picks_queue: params.text("pick") == "least-queued",
            buckets: vec![Bucket::default(); params.count("buckets") as usize],
            hashed: ecmp::by_default(env),
        }
    }

    /// Counts a packet in the sketch. Returns the position of its port if its flow has been moved.
    fn position(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> Option<usize> {
        let now = cx.now.as_ps();
        // Mixed once more: switches on the path may have spread packets by the same hash.
        let number = reduce(mix(packet.hash ^ 0x6275_7273_7473), self.buckets.len());
        let bucket = &mut self.buckets[number];
        let idle_ps = now.saturating_sub(bucket.last_ps);
        if bucket.flow_hash != packet.hash {
            bucket.votes = bucket.votes.saturating_sub(1);
            if idle_ps > self.age_ps || bucket.votes == 0 && bucket.link.is_none() {
                *bucket = Bucket { flow_hash: packet.hash, votes: 1, last_ps: now, link: None };
            }
            return None;
        }
        if idle_ps > self.age_ps {
            *bucket = Bucket { flow_hash: packet.hash, ..Bucket::default() };
        }
        bucket.votes = bucket.votes.saturating_add(1);
        bucket.last_ps = now;
        if idle_ps > self.gap_ps && bucket.votes > self.burst {
            let at = match self.picks_queue {
                true => shortest_queue(cx, members.links),
                false => random_port(cx.rng, members.links),
            };
            bucket.link = Some(members.links[at].0);
        }
        let position = members.links.iter().position(|link| Some(link.0) == bucket.link);
        if position.is_none() {
            // The port has failed, or the flow was never moved.
            bucket.link = None;
        }
        position
    }
}

impl SwitchBalancer for BurstBalancer {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        self.position(cx, packet, members).unwrap_or_else(|| self.hashed.choose(cx, packet, members))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use net::Time;

    use crate::dataplane::testing::{Bench, packet};

    const SPEC: &str = "burst-balancer:buckets=1,burst=3,gap=100us,age=10ms";

    fn queue(bench: &mut Bench, bytes: [u64; 4]) {
        for (link, bytes) in bench.links.clone().into_iter().zip(bytes) {
            bench.ports.queued.insert(link.0, bytes);
        }
    }

    fn hashed(flow: u32) -> usize {
        Bench::switch("ecmp", 4).choose(&packet(flow))
    }

    /// Sends packets of a flow without a pause between them; they take the port of its hash.
    fn send_hashed(bench: &mut Bench, flow: u32, packets: u32) {
        (0..packets).for_each(|_| assert_eq!(bench.choose(&packet(flow)), hashed(flow)));
    }

    #[test]
    fn the_next_flowlet_of_a_large_burst_takes_the_shortest_queue() {
        let mut bench = Bench::switch(SPEC, 4);
        let short = (hashed(1) + 1) % 4;
        let mut queues = [9000; 4];
        queues[short] = 10;
        queue(&mut bench, queues);
        send_hashed(&mut bench, 1, 20);
        bench.wait(Time::from_us(100));
        assert_eq!(bench.choose(&packet(1)), hashed(1), "the gap itself does not end the flowlet");
        bench.wait(Time::from_us(101));
        assert_eq!(bench.choose(&packet(1)), short);
        queue(&mut bench, [0, 0, 0, 0]);
        bench.wait(Time::from_us(100));
        assert_eq!(bench.choose(&packet(1)), short, "the flowlet stays");
        queue(&mut bench, [9, 9, 9, 1]);
        bench.wait(Time::from_us(101));
        assert_eq!(bench.choose(&packet(1)), 3);
    }

    #[test]
    fn flows_with_few_votes_keep_the_port_of_their_hash() {
        let mut bench = Bench::switch(SPEC, 4);
        let mut queues = [0; 4];
        queues[hashed(1)] = 9000;
        queue(&mut bench, queues);
        for _ in 0..3 {
            assert_eq!(bench.choose(&packet(1)), hashed(1), "at most three votes");
            bench.wait(Time::from_us(200));
        }
        assert_ne!(bench.choose(&packet(1)), hashed(1), "the fourth vote");
    }

    #[test]
    fn other_flows_of_a_bucket_take_votes_and_then_the_bucket() {
        let mut bench = Bench::switch(SPEC, 4);
        let mut queues = [0; 4];
        queues[hashed(2)] = 9000;
        queue(&mut bench, queues);
        send_hashed(&mut bench, 1, 5);
        // Five packets remove the votes, and the fifth one records its flow.
        send_hashed(&mut bench, 2, 5 + 2);
        bench.wait(Time::from_us(200));
        assert_ne!(bench.choose(&packet(2)), hashed(2), "four votes");
        bench.wait(Time::from_us(200));
        send_hashed(&mut bench, 1, 1);
    }

    #[test]
    fn a_flow_that_was_moved_keeps_its_bucket_until_it_is_old() {
        let mut bench = Bench::switch(SPEC, 4);
        let mut queues = [0; 4];
        queues[hashed(1)] = 9000;
        queue(&mut bench, queues);
        send_hashed(&mut bench, 1, 4);
        bench.wait(Time::from_us(200));
        let moved = bench.choose(&packet(1));
        assert_ne!(moved, hashed(1));
        send_hashed(&mut bench, 2, 100);
        assert_eq!(bench.choose(&packet(1)), moved, "without votes");
        bench.wait(Time::from_us(10_001));
        send_hashed(&mut bench, 2, 1);
        assert_eq!(bench.choose(&packet(1)), hashed(1), "another flow has the bucket");
        // A flow that returns after its age is forgotten too.
        let mut bench = Bench::switch(SPEC, 4);
        send_hashed(&mut bench, 1, 50);
        bench.wait(Time::from_us(10_001));
        send_hashed(&mut bench, 1, 3);
    }

    #[test]
    fn a_removed_port_is_left_for_that_of_the_hash() {
        let mut bench = Bench::switch(SPEC, 4);
        let mut queues = [9000; 4];
        let short = (hashed(1) + 2) % 4;
        queues[short] = 0;
        queue(&mut bench, queues);
        send_hashed(&mut bench, 1, 10);
        bench.wait(Time::from_us(200));
        assert_eq!(bench.choose(&packet(1)), short);
        let gone = bench.remove(short);
        let mut ecmp = Bench::switch("ecmp", 4);
        ecmp.remove(short);
        assert_eq!(bench.choose_link(&packet(1)), ecmp.choose_link(&packet(1)));
        bench.restore(short, gone);
        send_hashed(&mut bench, 1, 1);
    }

    #[test]
    fn a_random_pick_draws_every_port() {
        let mut bench = Bench::switch(&format!("{SPEC},pick=random"), 4);
        queue(&mut bench, [0, 9000, 9000, 9000]);
        send_hashed(&mut bench, 1, 10);
        let mut hits = [0u32; 4];
        for _ in 0..8000 {
            bench.wait(Time::from_us(101));
            hits[bench.choose(&packet(1))] += 1;
        }
        assert!(hits.iter().all(|n| (1850..2150).contains(n)), "{hits:?}");
    }

    #[test]
    fn nearly_all_flows_keep_their_port_where_random_flowlets_move_most() {
        // Ten large flows among two thousand small ones of nine packets each, in three bursts.
        let changed = |spec: &str| {
            let mut bench = Bench::switch(spec, 4);
            let mut ports: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
            for round in 0..200u32 {
                bench.now = Time::from_us(u64::from(round) * 300);
                for flow in (0..10).flat_map(|flow| [flow; 20]).chain((0..30).map(|at| 1000 + (round / 3) * 30 + at)) {
                    let count = if flow < 1000 { 1 } else { 3 };
                    for _ in 0..count {
                        let port = bench.choose(&packet(flow));
                        *bench.ports.queued.entry(bench.links[port].0).or_default() += 1500;
                        ports.entry(flow).or_default().insert(port);
                    }
                }
                bench.ports.queued.clear();
            }
            let moved = |range: std::ops::Range<u32>| ports.range(range).filter(|(_, ports)| ports.len() > 1).count();
            (moved(0..10), moved(1000..10_000))
        };
        let (bursts, letflow) = (changed("burst-balancer:gap=200us"), changed("letflow:gap=200us,gap_mode=exact"));
        assert!(bursts.0 >= 8 && bursts.1 == 0, "{bursts:?}");
        assert!(letflow.0 == 10 && letflow.1 > 1500, "{letflow:?}");
    }
}
