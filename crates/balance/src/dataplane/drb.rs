//! Digit-reversal bouncing: the packets of a host pair rotate through all paths so that consecutive
//! ones part as early as possible (mechanisms.md P04; Cao et al., CoNEXT 2013).
//!
//! Every pair of hosts counts its packets from a random start. In a fat-tree with m = k/2 the count
//! modulo m², written with two digits to base m and reversed, is (aggregation switch, core): any m
//! consecutive packets use m different uplinks, any m² use every core once. The same holds for any
//! network whose switches at equal distance branch alike; a path's number is its core, since only
//! the downward path remains. See `common/path_order.rs` for other networks.
//!
//! Dead paths are skipped. With `weights=capacity` paths occur in proportion to their rates, spread
//! over the round; the paper leaves the round unweighted. Bare acknowledgements are packets of the
//! pair in the reverse direction and are counted like any others.
//!
//! The start is random: pairs that all count from 0 would use the same core at the same time.
//!
//! - Helps: on symmetric fabrics at high load: consecutive packets of a pair part as early as
//!   possible, so queues stay short.
//! - Hurts: where paths differ (unless `weights=capacity` knows how); where receivers take gaps for
//!   losses.

use net::HostIx;
use net::routes::ClassIx;

use crate::dataplane::common::PathCycles;
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, EdgeHooks, PacketView, Paths};
use crate::entry::{Entry, FlowLevel, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("drb", "DRB")
    .summary("Rotates the packets of each host pair through all paths in digit-reversed order.")
    .flow_level(FlowLevel::EvenSplit)
    .source("P04; CoNEXT 2013; F2")
    .granularity(Granularity::Packet)
    .senses("nothing; dead paths, after failures are detected")
    .params(&[Param::choice("weights", &["none", "capacity"], "none")
        .doc("Whether paths of unequal rate occur equally often or in proportion to their slowest link.")])
    .edge(|env, params| {
        let is_weighted = params.text("weights") == "capacity";
        Box::new(Drb { is_weighted, cycles: PathCycles::new(env), counters: PairCounters::new(env) })
    });

struct Drb {
    is_weighted: bool,
    cycles: PathCycles,
    counters: PairCounters,
}

/// A counter per (sender, receiver), made when a sender first sends to a receiver's class.
struct PairCounters {
    /// Number of each host among the hosts of its class.
    position: Vec<u32>,
    hosts_max: usize,
    class_count: usize,
    /// Start index, plus 1, of the counters from a sender to a class; 0 before the first packet.
    blocks: Vec<u32>,
    counters: Vec<u32>,
}

impl PairCounters {
    fn new(env: &EdgeEnv<'_>) -> PairCounters {
        let class_count = env.path_counts.len();
        let mut sizes = vec![0u32; class_count];
        let position = (0..env.topology.hosts().len() as u32).map(|host| {
            let size = &mut sizes[env.routes.class_of(HostIx(host)).0 as usize];
            *size += 1;
            *size - 1
        });
        let position = position.collect();
        let hosts_max = sizes.iter().copied().max().unwrap_or(1) as usize;
        PairCounters {
            position,
            hosts_max,
            class_count,
            blocks: vec![0; hosts_max * class_count],
            counters: Vec::new(),
        }
    }

    fn of(&mut self, cx: &mut Cx<'_>, src: HostIx, dst: HostIx, to: ClassIx) -> &mut u32 {
        let block = &mut self.blocks[self.position[src.ix()] as usize * self.class_count + to.0 as usize];
        if *block == 0 {
            *block = self.counters.len() as u32 + 1;
            self.counters.extend((0..self.hosts_max).map(|_| cx.rng.next_u64() as u32));
        }
        &mut self.counters[*block as usize - 1 + self.position[dst.ix()] as usize]
    }
}

impl EdgeBalancer for Drb {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let counter = self.counters.of(cx, packet.src, packet.dst, packet.to);
        self.cycles.next(packet.to, counter, paths)
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { weights: self.is_weighted, ..EdgeHooks::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use net::{HostIx, LinkIx};

    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    /// Makes a packet from the first edge switch of a fat-tree to the last.
    fn across(bench: &mut Bench, k: u32) -> PacketView {
        let last = bench.topology().hosts().len() as u32 - 1;
        bench.live = (0..(k * k / 4) as u16).collect();
        PacketView { to: ClassIx(k * k / 2 - 1), dst: HostIx(last), ..packet(1) }
    }

    /// Checks the oracle of P04 on consecutive packets: distinct uplinks, then distinct paths.
    fn check_windows(bench: &Bench, to: ClassIx, picks: &[u16], m: usize) {
        let path = |rank: &u16| bench.path(to.0, u32::from(*rank));
        for window in picks.windows(m) {
            let uplinks: BTreeSet<LinkIx> = window.iter().map(|rank| path(rank)[0]).collect();
            assert_eq!(uplinks.len(), m, "{window:?}");
        }
        for window in picks.windows(m * m) {
            let cores: BTreeSet<_> = window.iter().map(|rank| bench.topology().link(path(rank)[1]).to).collect();
            assert_eq!(cores.len(), m * m, "{window:?}");
        }
    }

    #[test]
    fn m_packets_use_m_uplinks_and_m_squared_every_core() {
        for k in [4, 6, 8] {
            let mut bench = Bench::edge_on("drb", &format!("fat-tree:k={k}"), 0);
            let packet = across(&mut bench, k);
            let picks: Vec<u16> = (0..200).map(|_| bench.choose_path(&packet, None)).collect();
            check_windows(&bench, packet.to, &picks, k as usize / 2);
        }
    }

    #[test]
    fn the_digits_of_the_count_are_reversed() {
        // k = 8: the low digit of the count picks the aggregation switch, the high digit its core.
        let mut bench = Bench::edge_on("drb", "fat-tree:k=8", 0);
        let packet = across(&mut bench, 8);
        let rank_of = |n: u16| (n % 4) * 4 + n / 4;
        let first = bench.choose_path(&packet, None);
        let start = (0..16).find(|n| rank_of(*n) == first).unwrap();
        for n in 1..64 {
            assert_eq!(bench.choose_path(&packet, Some(first)), rank_of((start + n) % 16));
        }
    }

    #[test]
    fn two_tiers_are_plain_round_robin() {
        let mut bench = Bench::edge("drb", 4);
        let first = bench.choose_path(&packet(1), None);
        for n in 1..20 {
            assert_eq!(bench.choose_path(&packet(1), None), (first + n) % 4);
        }
    }

    #[test]
    fn host_pairs_count_separately_and_flows_of_pair_together() {
        let mut bench = Bench::edge("drb", 16);
        let to = |dst: u32, flow: u32| PacketView { dst: HostIx(dst), to: ClassIx(2), ..packet(flow) };
        let first = bench.choose_path(&to(9, 1), None);
        let starts: BTreeSet<u16> =
            (8..12).filter(|dst| *dst != 9).map(|dst| bench.choose_path(&to(dst, 2), None)).collect();
        assert!(starts.len() > 1, "three other pairs started alike");
        assert_eq!(bench.choose_path(&to(9, 3), None), (first + 1) % 16, "a new flow of the pair goes on counting");
        let other_sender = PacketView { src: HostIx(1), ..to(9, 1) };
        bench.choose_path(&other_sender, None);
        assert_eq!(bench.choose_path(&to(9, 1), None), (first + 2) % 16);
    }

    #[test]
    fn dead_paths_drop_out_of_the_round_and_come_back() {
        let mut bench = Bench::edge("drb", 4);
        bench.choose_path(&packet(1), None);
        bench.live = vec![0, 3];
        let picks: Vec<u16> = (0..8).map(|_| bench.choose_path(&packet(1), None)).collect();
        assert!(picks.windows(2).all(|pair| pair[0] != pair[1]), "{picks:?}");
        bench.live = vec![2];
        assert_eq!(bench.choose_path(&packet(1), Some(2)), 2);
        bench.live = (0..4).collect();
        let picks: BTreeSet<u16> = (0..4).map(|_| bench.choose_path(&packet(1), None)).collect();
        assert_eq!(picks.len(), 4);
    }

    #[test]
    fn weighted_paths_come_in_proportion() {
        let mut bench = Bench::edge("drb:weights=capacity", 4);
        bench.weights = vec![16_384, 3_277, 16_384, 16_384];
        let hits: [u32; 4] = bench.hits((0..160).map(|_| packet(1)));
        assert_eq!(hits, [50, 10, 50, 50]);
        bench.live = vec![1, 2];
        bench.weights = vec![100, 200];
        let hits: [u32; 4] = bench.hits((0..30).map(|_| packet(1)));
        assert_eq!(hits, [0, 10, 20, 0]);
    }
}
