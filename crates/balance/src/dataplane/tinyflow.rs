//! TinyFlow: elephants are cut into pieces of 10 KB that each take a random path; mice keep the
//! path of their hash (mechanisms.md P20; Xu and Li, LANMAN 2014).
//!
//! The edge samples packets from its hosts with probability `p`. Two samples of one flow within
//! `window` make it an elephant until it ends. An elephant's bytes are counted; the packet that
//! takes the count above `piece` resets it and moves to another of the equal-cost paths, drawn at
//! random. All other flows are hashed.
//!
//! Readings where the sources are silent: p is 1/100. The choice is among whole paths, since only
//! edge switches count bytes. Bare acknowledgements are packets like any other, since a sampling
//! switch cannot distinguish them. A new elephant stays on the path of its hash until its first
//! piece has ended. If the path of an elephant dies, the flow counts as a new one.
//!
//! Samples are few: a flow at line rate of 10 Gb/s has about four in 500 us, one at 1 Gb/s less
//! than one. Bursts of mice are sometimes classified as elephants. Every piece reorders, so
//! receivers resequence.
//!
//! - Helps: for short flows that share paths with a few large ones.
//! - Hurts: where paths differ, since pieces go to random ones; every piece of a large flow
//!   reorders.

use net::Time;

use crate::dataplane::common::FlowTable;
use crate::dataplane::{Cx, EdgeBalancer, PacketView, Paths};
use crate::entry::{Entry, Granularity};
use crate::hash::{mix, reduce};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("tinyflow", "TinyFlow")
    .summary("Moves sampled elephants to another random path every 10 KB and hashes all other flows.")
    .source("P20; LANMAN 2014; F0")
    .granularity(Granularity::Flowcell)
    .senses("samples of its hosts' packets")
    .params(&[
        Param::number("p", 0.0..=1.0, "0.01").doc("Probability that a packet is sampled."),
        Param::scaled("window", "6.4hop").doc(
            "Two samples of a flow no further apart make it an elephant; published: 500us, as many packet times \
             as that is at 10 Gb/s and 65 packets.",
        ),
        Param::count("piece", 1..=1 << 30, "10000").unit("bytes").doc("Bytes after which an elephant moves."),
    ])
    .edge(|env, params| {
        Box::new(TinyFlow {
            seed: mix(env.seed),
            probability: params.number("p"),
            window: params.scaled("window", &env.scale),
            piece_bytes: params.count("piece") as u32,
            flows: FlowTable::new(),
        })
    });

struct TinyFlow {
    seed: u64,
    probability: f64,
    window: Time,
    piece_bytes: u32,
    flows: FlowTable<Flow>,
}

#[derive(Clone, Copy, Default)]
enum Flow {
    /// The flow has not been sampled yet.
    #[default]
    Unknown,
    /// Time of the last sample.
    Sampled(Time),
    /// Bytes of the current piece.
    Elephant(u32),
}

fn another(cx: &mut Cx<'_>, live: &[u16], current: Option<u16>) -> u16 {
    match current.and_then(|current| live.binary_search(&current).ok()) {
        Some(at) if live.len() > 1 => {
            let pick = cx.rng.next_below(live.len() as u64 - 1) as usize;
            live[pick + usize::from(pick >= at)]
        }
        _ => live[cx.rng.next_below(live.len() as u64) as usize],
    }
}

impl EdgeBalancer for TinyFlow {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let flow = match paths.current {
            Some(_) => *self.flows.slot(packet.flow),
            None => Flow::Unknown,
        };
        let by_hash = || paths.live[reduce(mix(packet.hash ^ self.seed), paths.live.len())];
        let (flow, path) = match (flow, paths.current) {
            (Flow::Elephant(bytes), Some(current)) => match bytes.saturating_add(packet.bytes) {
                bytes if bytes > self.piece_bytes => (Flow::Elephant(0), another(cx, paths.live, paths.current)),
                bytes => (Flow::Elephant(bytes), current),
            },
            (flow, current) => {
                let flow = match flow {
                    mouse if cx.rng.next_f64() >= self.probability => mouse,
                    Flow::Sampled(last) if cx.now.saturating_sub(last) <= self.window => Flow::Elephant(0),
                    _ => Flow::Sampled(cx.now),
                };
                // A mouse follows its hash, also when paths died or returned.
                let stays = matches!(flow, Flow::Elephant(_));
                (flow, current.filter(|_| stays).unwrap_or_else(by_hash))
            }
        };
        *self.flows.slot(packet.flow) = flow;
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    /// Sends `count` packets of a flow, `gap` apart; returns the paths they took.
    fn send(bench: &mut Bench, flow: u32, current: &mut Option<u16>, count: usize, gap: Time) -> Vec<u16> {
        let paths = (0..count).map(|_| {
            let path = bench.choose_path(&packet(flow), *current);
            *current = Some(path);
            bench.wait(gap);
            path
        });
        paths.collect()
    }

    fn moves(paths: &[u16]) -> Vec<usize> {
        (1..paths.len()).filter(|i| paths[*i] != paths[i - 1]).collect()
    }

    #[test]
    fn two_samples_within_the_window_make_an_elephant() {
        // Every packet is sampled. Gaps of the window pair up, gaps of just above it never do.
        let mut bench = Bench::edge("tinyflow:p=1,window=500us", 8);
        let apart = send(&mut bench, 1, &mut None, 500, Time::from_ps(500_000_001));
        assert_eq!(moves(&apart), [0usize; 0]);
        let near = send(&mut bench, 2, &mut None, 500, Time::from_us(500));
        assert!(!moves(&near).is_empty());
    }

    #[test]
    fn an_elephant_moves_with_the_packet_that_exceeds_ten_kilobytes() {
        let mut bench = Bench::edge("tinyflow:p=1", 8);
        let paths = send(&mut bench, 1, &mut None, 2 + 7 * 10, Time::from_us(1));
        // The second packet makes it an elephant; six packets are 9000 bytes, seven exceed 10000.
        let expected: Vec<usize> = (1..=10).map(|piece| 1 + 7 * piece).collect();
        assert_eq!(moves(&paths), expected, "and never to the path it is on");
    }

    #[test]
    fn pieces_use_all_other_paths_evenly() {
        let mut bench = Bench::edge("tinyflow:p=1,piece=1", 4);
        let mut current = None;
        send(&mut bench, 1, &mut current, 2, Time::from_us(1));
        let paths = send(&mut bench, 1, &mut current, 40_000, Time::from_us(1));
        let mut hits = [0u32; 4];
        paths.iter().for_each(|path| hits[usize::from(*path)] += 1);
        assert!(hits.iter().all(|n| (9_500..10_500).contains(n)), "{hits:?}");
    }

    #[test]
    fn mice_follow_their_hash() {
        let mut bench = Bench::edge("tinyflow:p=0", 8);
        let mut hits = [0u32; 8];
        for flow in 0..8_000 {
            let paths = send(&mut bench, flow, &mut None, 3, Time::ZERO);
            assert!(moves(&paths).is_empty());
            hits[usize::from(paths[0])] += 1;
        }
        assert!(hits.iter().all(|n| (850..1_150).contains(n)), "{hits:?}");
    }

    #[test]
    fn one_packet_in_a_hundred_is_sampled() {
        // A flow without end: a second sample after 200 packets on average, then pieces of 7 packets.
        let mut bench = Bench::edge("tinyflow:window=1s", 8);
        let flows = 2_000;
        let mut detection = |flow| {
            let start = bench.choose_path(&packet(flow), None);
            let first_move = (1..).find(|_| bench.choose_path(&packet(flow), Some(start)) != start);
            first_move.map_or(0, |at: usize| at - 7)
        };
        let mean = (0..flows).map(&mut detection).sum::<usize>() as f64 / f64::from(flows);
        // The second sample is packet 199 counted from 0; its standard deviation is 141 packets.
        assert!((mean - 199.0).abs() < 5.0 * 141.0 / f64::from(flows).sqrt(), "{mean}");
    }

    #[test]
    fn reused_numbers_and_dead_paths_start_as_mice() {
        let mut bench = Bench::edge("tinyflow:p=1", 4);
        let mut current = None;
        send(&mut bench, 1, &mut current, 50, Time::from_us(1));
        let mut successor = None;
        let paths = send(&mut bench, 1, &mut successor, 8, Time::from_us(1));
        assert!(moves(&paths).is_empty(), "two samples and six packets to its first move");
        bench.live = vec![2];
        assert!(send(&mut bench, 1, &mut successor, 50, Time::from_us(1)).iter().all(|path| *path == 2));
        bench.live = vec![1, 3];
        assert!(send(&mut bench, 1, &mut None, 50, Time::from_us(1)).iter().all(|path| path % 2 == 1));
    }
}
