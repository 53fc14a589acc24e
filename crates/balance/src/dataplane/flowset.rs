//! Congestion-aware flowset switching: buckets of the ECMP table move from congested to idle ports
//! (mechanisms-2.md P47; draft-li-rtgwg-congestion-aware-flowset-switching-00, 2026).
//!
//! A switch hashes flows to `buckets`, and each bucket has a port. All flows of a bucket are a
//! flowset. Every `period` the switch assesses the queues of the ports. If the longest delay
//! exceeds the shortest by more than `margin`, one bucket moves from the congested to the idle
//! port. Counters of the bytes of each bucket in the last period say which: the largest bucket that
//! fits into half of the difference of the queues, or the smallest one if none does. A port keeps
//! its last active bucket, since a move would only move the congestion.
//!
//! Known from the draft's abstract: periodic assessment, gradual moves by levels of congestion, and
//! that packets of a flow stay in order. Our readings: the queueing delay as the level, one bucket
//! per set of next hops and period, the choice of the bucket, all constants, and how the order is
//! kept: a bucket moves with its first packet that does not leave this switch before the previous
//! packet of the bucket. A move without such a packet lapses at the next assessment. With
//! `order=ignored` buckets move immediately.
//!
//! Assessments are made when a packet finds that the period has passed. After a failure the
//! remaining next hops have another table, which starts with an even layout; with the failed port
//! its table returns.
//!
//! Many small buckets balance more finely. A `period` below the RTT moves buckets before hosts have
//! reacted to the last move.
//!
//! - Helps: hash collisions of several flows, and ports with traffic that ECMP does not know.
//! - Hurts: one large flow is a bucket that cannot be divided; traffic without gaps moves late or
//!   never unless the order is ignored; congestion after the next hop is invisible.

use std::cmp::Reverse;

use net::{LinkIx, Time};

use crate::dataplane::common::{Departures, MemberSets, least};
use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("flowset", "Flowset switching")
    .summary("Hashes flows to buckets and moves single buckets from congested to idle ports.")
    .source("P47; draft-li-rtgwg-congestion-aware-flowset-switching-00")
    .granularity(Granularity::MovableFlow)
    .senses("local queueing delays; bytes of each bucket")
    .params(&[
        Param::count("buckets", 2..=65_536, "256").doc("Hash buckets of each set of next hops."),
        Param::scaled("period", "2rtt").doc("Time between two assessments of the ports."),
        Param::scaled("margin", "0.25hop").doc("Difference of queueing delays up to which no bucket moves."),
        Param::choice("order", &["kept", "ignored"], "kept")
            .doc("Whether a bucket waits for a packet that leaves the switch in order, or moves immediately."),
    ])
    .example("flowset:buckets=128")
    .switch(|env, params| Box::new(Flowset::new(env, params)));

const PERIOD_MIN: Time = Time::from_ns(100);

struct Flowset {
    seed: u64,
    bucket_count: usize,
    period: Time,
    margin: Time,
    keeps_order: bool,
    departures: Departures,
    sets: MemberSets<Table>,
}

/// The buckets of a set of next hops.
struct Table {
    buckets: Vec<Bucket>,
    assess_at: Time,
    /// Bucket and port of a move that is due.
    due: Option<(usize, u16)>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Position in the set of next hops.
    port: u16,
    /// Bytes since the last assessment.
    bytes: u64,
    /// Time when its last packet will have left the switch.
    leaves: Time,
}

impl Flowset {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Flowset {
        Flowset {
            seed: env.hash_seed(),
            bucket_count: params.count("buckets") as usize,
            period: params.scaled("period", &env.scale).max(PERIOD_MIN),
            margin: params.scaled("margin", &env.scale),
            keeps_order: params.text("order") == "kept",
            departures: Departures::new(env),
            sets: MemberSets::new(env.class_count),
        }
    }
}

impl SwitchBalancer for Flowset {
    fn choose(&mut self, cx: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let Flowset { seed, bucket_count, period, margin, keeps_order, departures, ref mut sets } = *self;
        let next_assessment = cx.now.saturating_add(period);
        let table = sets.of(packet.to, members, || Table::new(bucket_count, members.links.len(), next_assessment));
        if cx.now >= table.assess_at {
            table.assess(cx, members.links, margin);
            table.assess_at = next_assessment;
        }
        let number = reduce(mix(packet.hash ^ seed), bucket_count);
        let bucket = &mut table.buckets[number];
        let delay = |port: u16| cx.ports.queueing_delay(members.links[usize::from(port)]);
        if let Some((due, port)) = table.due
            && due == number
            && (!keeps_order || delay(port) >= departures.delay_in_order(cx.now, bucket.leaves, packet.bytes))
        {
            bucket.port = port;
            table.due = None;
        }
        bucket.bytes += u64::from(packet.bytes);
        bucket.leaves = departures.departure(cx.now, bucket.leaves, delay(bucket.port), packet.bytes);
        usize::from(bucket.port)
    }
}

impl Table {
    fn new(bucket_count: usize, port_count: usize, assess_at: Time) -> Table {
        let bucket = |number: usize| Bucket { port: (number % port_count) as u16, bytes: 0, leaves: Time::ZERO };
        Table { buckets: (0..bucket_count).map(bucket).collect(), assess_at, due: None }
    }

    /// Decides on the move of this period, and begins to count the bytes of the next one.
    fn assess(&mut self, cx: &mut Cx<'_>, links: &[LinkIx], margin: Time) {
        let ports = cx.ports;
        let delays = || (0u16..).zip(links).map(|(at, link)| (ports.queueing_delay(*link), at));
        let idle = least(cx.rng, delays()).unwrap_or(0);
        let congested = least(cx.rng, delays().map(|(delay, at)| (Reverse(delay), at))).unwrap_or(0);
        let [from, to] = [congested, idle].map(|port| links[usize::from(port)]);
        let difference = ports.queueing_delay(from).saturating_sub(ports.queueing_delay(to));
        self.due = None;
        if difference > margin {
            let surplus = ports.queued_bytes(from).saturating_sub(ports.queued_bytes(to));
            self.due = self.bucket_of(congested, surplus / 2).map(|bucket| (bucket, idle));
        }
        self.buckets.iter_mut().for_each(|bucket| bucket.bytes = 0);
    }

    /// Returns the bucket that should leave a port which has `surplus` bytes too many; `None` if
    /// that is the only active one.
    fn bucket_of(&self, port: u16, surplus: u64) -> Option<usize> {
        let is_active = |bucket: &Bucket| bucket.port == port && bucket.bytes > 0;
        let active = || self.buckets.iter().enumerate().filter(|(_, bucket)| is_active(bucket));
        active().nth(1)?;
        let fitting = active().filter(|(_, bucket)| bucket.bytes <= surplus).max_by_key(|(_, bucket)| bucket.bytes);
        fitting.or_else(|| active().min_by_key(|(_, bucket)| bucket.bytes)).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::dataplane::common::departures::queues::Queues;
    use crate::dataplane::testing::{Bench, packet};
    use crate::hash::combine;

    const SPEC: &str = "flowset:period=100us,margin=20us,buckets=64,order=ignored";

    fn queue(bench: &mut Bench, us: &[u64]) {
        for (link, us) in bench.links.clone().into_iter().zip(us) {
            bench.ports.delay.insert(link.0, Time::from_us(*us));
            bench.ports.queued.insert(link.0, us * 1250);
        }
    }

    /// Returns three flows of different buckets on the first of two ports.
    fn flows_on_one_port(spec: &str) -> (Bench, [u32; 3]) {
        let mut bench = Bench::switch(spec, 2);
        let mut buckets = BTreeMap::new();
        for flow in 0..200 {
            // The bench has the seed 1 and the switch 3.
            let bucket = reduce(mix(packet(flow).hash ^ combine(mix(1), 3)), 64);
            if bench.choose(&packet(flow)) == 0 {
                buckets.entry(bucket).or_insert(flow);
            }
        }
        assert!(buckets.len() > 25, "half of 64 buckets");
        let mut flows = buckets.into_values();
        let flows = [(); 3].map(|()| flows.next().unwrap());
        // A period without queues resets the counters.
        bench.now = Time::from_us(100);
        bench.choose(&packet(flows[0]));
        bench.now = Time::from_us(200);
        (bench, flows)
    }

    fn send(bench: &mut Bench, flow: u32, packets: u32) {
        (0..packets).for_each(|_| assert_eq!(bench.choose(&packet(flow)), 0));
    }

    #[test]
    fn buckets_are_spread_evenly_and_stay_while_queues_are_equal() {
        let mut bench = Bench::switch(SPEC, 4);
        let first: Vec<usize> = (0..4000).map(|flow| bench.choose(&packet(flow))).collect();
        for port in 0..4 {
            let hits = first.iter().filter(|at| **at == port).count();
            assert!((850..1150).contains(&hits), "{hits}");
        }
        for period in 1..50 {
            bench.now = Time::from_us(100 * period);
            queue(&mut bench, &[50, 70, 60, 55]);
            let now: Vec<usize> = (0..4000).map(|flow| bench.choose(&packet(flow))).collect();
            assert_eq!(now, first, "the difference does not exceed the margin");
        }
    }

    #[test]
    fn the_largest_bucket_that_fits_into_half_of_the_difference_moves() {
        let (mut bench, [a, b, c]) = flows_on_one_port(SPEC);
        send(&mut bench, a, 4);
        send(&mut bench, b, 9);
        send(&mut bench, c, 30);
        // 24 us at 10 Gb/s are 30,000 bytes: ten packets fit into half.
        bench.now = Time::from_us(300);
        queue(&mut bench, &[25, 1]);
        assert_eq!([c, b, a].map(|flow| bench.choose(&packet(flow))), [0, 1, 0]);
        bench.wait(Time::from_us(99));
        assert_eq!(bench.choose(&packet(c)), 0, "one bucket in each period");
    }

    #[test]
    fn the_smallest_bucket_moves_if_none_fits_and_the_last_one_stays() {
        let (mut bench, [a, b, _]) = flows_on_one_port(SPEC);
        send(&mut bench, a, 40);
        send(&mut bench, b, 20);
        bench.now = Time::from_us(300);
        queue(&mut bench, &[25, 1]);
        assert_eq!([a, b].map(|flow| bench.choose(&packet(flow))), [0, 1]);
        for period in 4..20 {
            send(&mut bench, a, 40);
            bench.now = Time::from_us(100 * period);
            assert_eq!(bench.choose(&packet(a)), 0, "alone on its port");
        }
    }

    #[test]
    fn a_bucket_waits_for_a_packet_that_leaves_in_order() {
        let (mut bench, [a, b, _]) = flows_on_one_port(&SPEC.replace("ignored", "kept"));
        queue(&mut bench, &[60, 0]);
        send(&mut bench, a, 40);
        bench.now = Time::from_us(299);
        send(&mut bench, b, 20);
        bench.now = Time::from_us(300);
        send(&mut bench, a, 1);
        send(&mut bench, b, 1);
        // The last packet of `b` leaves 61.2 us after its arrival.
        bench.wait(Time::from_us(61));
        bench.ports.delay.insert(bench.links[0].0, Time::ZERO);
        assert_eq!(bench.choose(&packet(b)), 0);
        bench.wait(Time::from_us(2));
        assert_eq!(bench.choose(&packet(b)), 1);
    }

    #[test]
    fn a_move_that_no_packet_can_make_lapses() {
        let (mut bench, [a, b, _]) = flows_on_one_port(&SPEC.replace("ignored", "kept"));
        queue(&mut bench, &[60, 0]);
        for us in 200..400 {
            bench.now = Time::from_us(us);
            send(&mut bench, a, 2);
            send(&mut bench, b, 1);
        }
        queue(&mut bench, &[0, 0]);
        bench.now = Time::from_us(500);
        assert_eq!(bench.choose(&packet(b)), 0, "queues are equal by now");
    }

    #[test]
    fn after_a_failure_all_buckets_are_on_live_ports_and_the_table_returns() {
        let mut bench = Bench::switch(SPEC, 4);
        let first: Vec<LinkIx> = (0..500).map(|flow| bench.choose_link(&packet(flow))).collect();
        let gone = bench.remove(2);
        let ports: BTreeSet<u32> = (0..500).map(|flow| bench.choose_link(&packet(flow)).0).collect();
        assert!(ports.len() == 3 && !ports.contains(&gone.0));
        bench.restore(2, gone);
        assert_eq!(first, (0..500).map(|flow| bench.choose_link(&packet(flow))).collect::<Vec<_>>());
    }

    #[test]
    fn unequal_load_of_the_hash_becomes_equal() {
        // 40 flows at 30 Gb/s over four ports of 10 Gb/s; returns the share of the port with most
        // packets in the second half, and how many packets left before the previous one of their
        // flow.
        let run = |spec: &str| {
            let mut bench = Bench::switch(spec, 4);
            let mut rng = net::RandomStream::new(9, "arrivals");
            let (mut queues, mut departures) = (Queues::default(), [Time::ZERO; 40]);
            let (mut hits, mut early) = ([0u32; 4], 0);
            for sent in 0..40_000 {
                bench.wait(Time::from_ps(rng.exponential(400_000.0) as u64));
                queues.show(&mut bench);
                let flow = rng.next_below(40) as u32;
                let port = bench.choose(&packet(flow));
                let leaves = queues.send(bench.links[port], bench.now, 1500);
                hits[port] += u32::from(sent >= 20_000);
                let last = &mut departures[flow as usize];
                early += u32::from(leaves < *last);
                *last = leaves.max(*last);
            }
            (f64::from(*hits.iter().max().unwrap()) / 20_000.0, early)
        };
        let hashed = run("flowset:margin=1s");
        assert!(hashed.0 > 0.34 && hashed.1 == 0, "{hashed:?}");
        let (kept, ignored) = (run("flowset:period=200us"), run("flowset:period=200us,order=ignored"));
        assert!(kept.0 < 0.29 && kept.1 == 0, "{kept:?}, hashed {hashed:?}");
        assert!(ignored.0 < 0.29 && ignored.1 < 200, "{ignored:?}, hashed {hashed:?}");
    }

    proptest! {
        #[test]
        fn packets_of_a_bucket_leave_the_switch_in_order(
            steps in vec((0u64..8000, 0u32..40, prop_oneof![Just(1500u32), Just(64)]), 1..600),
        ) {
            let mut bench = Bench::switch("flowset:buckets=8,period=10us,margin=1us", 4);
            let (mut queues, mut departures) = (Queues::default(), BTreeMap::new());
            for (pause_ns, flow, bytes) in steps {
                // Some flows pause, so that buckets move.
                bench.wait(Time::from_ns(if flow == 0 { 20 * pause_ns } else { pause_ns / 20 }));
                queues.show(&mut bench);
                let link = bench.choose_link(&PacketView { bytes, ..packet(flow) });
                let leaves = queues.send(link, bench.now, bytes);
                let before = departures.insert(flow, leaves).unwrap_or(Time::ZERO);
                prop_assert!(leaves >= before, "flow {flow} at {:?}", bench.now);
            }
        }
    }
}
