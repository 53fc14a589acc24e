//! Equal-cost multi-path: a hash picks the next hop of each flow (mechanisms.md P02, RFC 2992).
//!
//! `seeds=none` gives every switch the same hash, which polarises: in a fat-tree only k/2 of (k/2)²
//! paths are used. The five rules differ in how many flows move when a next hop disappears.
//!
//! Enhanced ECMP (Gangidi et al., SIGCOMM 2024) hashes the queue pair of RDMA packets too. Here each
//! queue pair has its own source port (`traffic.queue_pairs`), so this is plain `ecmp`. If all
//! queue pairs of two hosts share their ports, `ecmp-path:key=hosts` shows the effect.
//!
//! - Helps: with many flows of similar size on equal paths; needs no state and never reorders.
//! - Hurts: with few large flows, which collide and stay together; with paths of unequal capacity;
//!   with switches that all hash alike (`seeds=none`).

use net::LinkIx;

use crate::dataplane::common::{at_switch, by_packet};
use crate::dataplane::{PacketView, SwitchBalancer, SwitchEnv};
use crate::entry::{Entry, FlowLevel};
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("ecmp", "ECMP")
    .summary("Hashes each flow onto one of the equal-cost next hops at every switch.")
    .flow_level(FlowLevel::Path)
    .source("P02; RFC 2992; F0, F2, F3")
    .params(&[
        Param::choice("hash", &["modulo", "threshold", "rendezvous", "resilient"], "modulo").doc(
            "Selection by the hash: modulo N, equal regions (RFC 2992), highest random weight, or a resilient \
             bucket table.",
        ),
        Param::choice("seeds", &["per-switch", "none"], "per-switch")
            .doc("Independent hash seeds per switch, or the same hash everywhere (shows polarisation)."),
        Param::count("buckets", 2..=4096, "256").doc("Table size of the resilient rule."),
    ])
    .example("ecmp:hash=resilient,buckets=64")
    .also_as_groups()
    .switch(|env, params| match params.text("hash") {
        "threshold" => hashed(seed(env, params), |hash, links| reduce(hash, links.len())),
        "rendezvous" => hashed(seed(env, params), |hash, links| {
            let weight = |link: &LinkIx| combine(hash, u64::from(link.0));
            (0..links.len()).max_by_key(|i| weight(&links[*i])).expect("a group has members")
        }),
        "resilient" => {
            let mut tables = Resilient::new(env, params);
            let seed = seed(env, params);
            at_switch(move |_, packet, links| tables.select(mix(packet.hash ^ seed), packet, links))
        }
        _ => hashed(seed(env, params), modulo),
    });

pub(super) fn seed(env: &SwitchEnv<'_>, params: &Params) -> u64 {
    match params.text("seeds") {
        "none" => 0,
        _ => env.hash_seed(),
    }
}

/// Makes `ecmp` with its defaults, for mechanisms that leave the choice of path to it: flows take
/// the paths they would take with `ecmp`.
pub(super) fn by_default(env: &SwitchEnv<'_>) -> Box<dyn SwitchBalancer> {
    hashed(env.hash_seed(), modulo)
}

fn hashed<R>(seed: u64, rule: R) -> Box<dyn SwitchBalancer>
where
    R: Fn(u64, &[LinkIx]) -> usize + Send + 'static,
{
    by_packet(move |packet, links| rule(mix(packet.hash ^ seed), links))
}

fn modulo(hash: u64, links: &[LinkIx]) -> usize {
    // 32 bits suffice for at most a few hundred ports and divide several times faster than 64.
    (hash as u32 % links.len() as u32) as usize
}

/// A table of hash buckets per destination class. If members change, only buckets of removed
/// members are refilled, so other flows stay. Members that return regain their share of buckets.
struct Resilient {
    bucket_count: usize,
    tables: Vec<Table>,
}

#[derive(Clone, Default)]
struct Table {
    members: Vec<LinkIx>,
    buckets: Vec<LinkIx>,
}

impl Resilient {
    fn new(env: &SwitchEnv<'_>, params: &Params) -> Resilient {
        Resilient { bucket_count: params.count("buckets") as usize, tables: vec![Table::default(); env.class_count] }
    }

    fn select(&mut self, hash: u64, packet: &PacketView, links: &[LinkIx]) -> usize {
        let table = &mut self.tables[packet.to.0 as usize];
        if table.members != links {
            table.refill(self.bucket_count, links);
        }
        let link = table.buckets[reduce(hash, self.bucket_count)];
        links.iter().position(|l| *l == link).expect("refill leaves only live members")
    }
}

impl Table {
    fn refill(&mut self, bucket_count: usize, links: &[LinkIx]) {
        let fill = |bucket: usize| links[reduce(mix(bucket as u64 + 1), links.len())];
        if self.buckets.is_empty() {
            self.buckets = (0..bucket_count).map(|bucket| links[bucket % links.len()]).collect();
        } else if links.len() > self.members.len() {
            // After a failure: the original layout returns.
            for (bucket, link) in self.buckets.iter_mut().enumerate() {
                let original = links[bucket % links.len()];
                if !self.members.contains(&original) || !links.contains(link) {
                    *link = original;
                }
            }
        } else {
            for (bucket, link) in self.buckets.iter_mut().enumerate() {
                if !links.contains(link) {
                    *link = fill(bucket);
                }
            }
        }
        self.members.clear();
        self.members.extend_from_slice(links);
    }
}

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, packet};

    /// Returns the fraction of flows whose next hop changes when member `gone` of four disappears.
    fn disruption(spec: &str, gone: usize) -> f64 {
        let mut bench = Bench::switch(spec, 4);
        let flows = 40_000;
        let before: Vec<_> = (0..flows).map(|flow| bench.choose_link(&packet(flow))).collect();
        bench.remove(gone);
        let moved = (0..flows).filter(|flow| bench.choose_link(&packet(*flow)) != before[*flow as usize]).count();
        moved as f64 / f64::from(flows)
    }

    #[test]
    fn disruption_matches_rfc_2992_and_the_minimum() {
        // mechanisms.md §10 oracle 6, N = 4.
        for (spec, gone, expected) in [
            ("ecmp:hash=modulo", 1, 3.0 / 4.0),
            ("ecmp:hash=threshold", 0, 1.0 / 2.0),
            ("ecmp:hash=threshold", 3, 1.0 / 2.0),
            ("ecmp:hash=threshold", 1, 1.0 / 3.0),
            ("ecmp:hash=rendezvous", 2, 1.0 / 4.0),
            ("ecmp:hash=resilient,buckets=256", 1, 1.0 / 4.0),
        ] {
            let moved = disruption(spec, gone);
            assert!((moved - expected).abs() < 0.01, "{spec} without {gone}: {moved}, expected {expected}");
        }
    }

    #[test]
    fn every_rule_spreads_evenly() {
        for rule in ["modulo", "threshold", "rendezvous", "resilient"] {
            let mut bench = Bench::switch(&format!("ecmp:hash={rule}"), 4);
            let hits: [u32; 4] = bench.port_hits((0..40_000).map(packet));
            assert!(hits.iter().all(|n| (9_400..10_600).contains(n)), "{rule}: {hits:?}");
        }
    }

    /// The expected maximum over the mean of n ports, each host with `pairs` queue pairs of equal load.
    fn imbalance(ports: u32, pairs: u32) -> f64 {
        let trials = 600;
        let mut sum = 0.0;
        for trial in 0..trials {
            let mut bench = Bench::switch("ecmp", ports);
            let mut load = vec![0u32; ports as usize];
            (0..ports * pairs).for_each(|pair| load[bench.choose(&packet(trial * 10_000 + pair))] += 1);
            sum += f64::from(load.into_iter().max().unwrap()) / f64::from(pairs);
        }
        sum / f64::from(trials)
    }

    #[test]
    fn more_queue_pairs_even_out_the_uplinks_of_a_rack() {
        // mechanisms-2.md P37: 16 hosts on 16 uplinks, and 64 on 64.
        let of_16 = [(1, 3.08), (2, 2.41), (4, 1.97), (8, 1.67), (16, 1.46), (32, 1.32)];
        let of_64 = [(1, 3.95), (16, 1.63)];
        let cases = of_16.map(|case| (16, case)).into_iter().chain(of_64.map(|case| (64, case)));
        for (ports, (pairs, expected)) in cases {
            let found = imbalance(ports, pairs);
            assert!(
                (found - expected).abs() < 0.06,
                "{ports} ports, {pairs} queue pairs: {found}, expected {expected}"
            );
        }
    }

    #[test]
    fn a_returning_member_restores_the_resilient_layout() {
        let mut bench = Bench::switch("ecmp:hash=resilient", 4);
        let before: Vec<_> = (0..1000).map(|flow| bench.choose_link(&packet(flow))).collect();
        let gone = bench.remove(2);
        (0..1000).for_each(|flow| assert_ne!(bench.choose_link(&packet(flow)), gone));
        bench.restore(2, gone);
        assert_eq!(before, (0..1000).map(|flow| bench.choose_link(&packet(flow))).collect::<Vec<_>>());
    }
}
