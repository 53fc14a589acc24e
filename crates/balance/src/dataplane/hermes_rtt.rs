//! The reduced Hermes of F3: paths are classed by round-trip time alone, without probes or ECN
//! (mechanisms.md P13.2; full Hermes is SIGCOMM 2017).
//!
//! A path is good below `good` × base RTT, congested from `congested` × base RTT on, gray between.
//! Every packet is judged, but stays on its flow's path while that is good or has no measurement.
//! The source leaves four points open. The readings here: RTTs up to `good` × base are good.
//! Without a good path, take one without measurement, then the fastest. Judge per packet with
//! stickiness. The last reading is the scope of measurements (`scope`): each flow measures its own
//! paths, since F3 tags packets in the application layer, or all flows of an edge share them.
//! Sharing without probing makes flows follow each other onto the one path known to be good.
//!
//! - Helps: under lasting asymmetry that shows in round-trip times.
//! - Hurts: where packets vanish: a path that loses everything shows no round-trip time that is
//!   bad.

use net::RandomStream;
use net::routes::ClassIx;

use crate::dataplane::common::PathIndex;
use crate::dataplane::{Cx, EdgeBalancer, PacketView, PathFeedback, Paths};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("hermes-rtt", "Hermes (RTT only)")
    .summary("Keeps each flow on its path while the path's round-trip time is good, else moves it to a better one.")
    .source("P13.2; F3 section 3.2.1; after Hermes, SIGCOMM 2017")
    .granularity(Granularity::CautiousPacket)
    .senses("round-trip times")
    .params(&[
        Param::number("good", 1.0..=100.0, "1.5")
            .unit("base RTTs")
            .doc("A path is good below this multiple of the base RTT."),
        Param::number("congested", 1.0..=100.0, "2.0")
            .unit("base RTTs")
            .doc("A path is congested from this multiple on; between the two it is gray."),
        Param::choice("estimate", &["latest", "ewma"], "ewma")
            .doc("Whether a path's RTT is its latest sample or an average with weight 1/8 for the newest."),
        Param::choice("scope", &["flow", "edge"], "flow")
            .doc("Scope of measurements: each flow separately, or all flows of an edge switch."),
    ])
    .example("hermes-rtt:good=1.25")
    .edge(|env, params| {
        let index = PathIndex::outward(env);
        let scaled = |factor: f64| env.base_rtt.iter().map(|rtt| (rtt.as_ps() as f64 * factor) as u64).collect();
        Box::new(HermesRtt {
            smooth: params.text("estimate") == "ewma",
            is_per_flow: params.text("scope") == "flow",
            paths_max: env.path_counts.iter().copied().max().map_or(1, usize::from),
            rtt_ps: vec![UNMEASURED; index.total()],
            good_below_ps: scaled(params.number("good")),
            congested_from_ps: scaled(params.number("congested")),
            index,
        })
    });

/// RTT of a path without a measurement.
const UNMEASURED: u64 = 0;

struct HermesRtt {
    smooth: bool,
    is_per_flow: bool,
    /// Numbers of paths in `rtt_ps`, if flows share it.
    index: PathIndex,
    /// Maximum number of paths to a class: the stride of `rtt_ps` with separate measurements.
    paths_max: usize,
    rtt_ps: Vec<u64>,
    good_below_ps: Vec<u64>,
    congested_from_ps: Vec<u64>,
}

impl HermesRtt {
    /// Returns the start of a flow's measurements of paths to `class`; grows for new flows.
    fn base(&mut self, flow: u32, class: ClassIx) -> usize {
        if !self.is_per_flow {
            return self.index.range(class).start;
        }
        let base = flow as usize * self.paths_max;
        if self.rtt_ps.len() < base + self.paths_max {
            self.rtt_ps.resize(base + self.paths_max, UNMEASURED);
        }
        base
    }

    fn random(live: &[u16], rng: &mut RandomStream, wanted: impl Fn(u16) -> bool) -> Option<u16> {
        let count = live.iter().filter(|path| wanted(**path)).count() as u64;
        if count == 0 {
            return None;
        }
        let pick = rng.next_below(count) as usize;
        live.iter().copied().filter(|path| wanted(*path)).nth(pick)
    }
}

impl EdgeBalancer for HermesRtt {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let class = packet.to.0 as usize;
        let base = self.base(packet.flow, packet.to);
        if self.is_per_flow && paths.current.is_none() {
            // A new flow, perhaps with the number of one that has ended.
            self.rtt_ps[base..base + self.paths_max].fill(UNMEASURED);
        }
        let rtt = |path: u16| self.rtt_ps[base + usize::from(path)];
        let good = |path: u16| rtt(path) != UNMEASURED && rtt(path) < self.good_below_ps[class];
        if let Some(current) = paths.current
            && (good(current) || rtt(current) == UNMEASURED)
        {
            return current;
        }
        Self::random(paths.live, cx.rng, good)
            .or_else(|| Self::random(paths.live, cx.rng, |path| rtt(path) == UNMEASURED))
            .or_else(|| {
                // Gray paths are below congested ones, so the fastest is of the better class.
                let fastest = paths.live.iter().copied().min_by_key(|path| rtt(*path))?;
                match paths.current {
                    Some(current) if rtt(current) < self.congested_from_ps[class] && rtt(fastest) == rtt(current) => {
                        Some(current)
                    }
                    _ => Some(fastest),
                }
            })
            .unwrap_or(paths.live[0])
    }

    fn on_feedback(&mut self, _: &mut Cx<'_>, feedback: &PathFeedback) {
        let base = self.base(feedback.flow, feedback.to);
        let slot = &mut self.rtt_ps[base + usize::from(feedback.path)];
        let sample = feedback.rtt.as_ps().max(1);
        *slot = if self.smooth && *slot != UNMEASURED { *slot - *slot / 8 + sample / 8 } else { sample };
    }
}

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn a_good_path_is_kept_and_a_bad_one_left() {
        let mut bench = Bench::edge("hermes-rtt:estimate=latest", 4);
        let p = packet(1);
        let first = bench.choose_path(&p, None);
        assert_eq!(bench.choose_path(&p, Some(first)), first, "an unmeasured current path is kept");
        bench.feedback(first, 1.2);
        assert_eq!(bench.choose_path(&p, Some(first)), first, "1.2 base RTTs is good");
        bench.feedback(first, 1.7);
        assert_ne!(bench.choose_path(&p, Some(first)), first, "gray is left while others are unmeasured");
    }

    #[test]
    fn without_good_or_unmeasured_paths_the_fastest_wins() {
        let mut bench = Bench::edge("hermes-rtt:estimate=latest", 4);
        for (path, rtts) in [(0, 3.0), (1, 1.8), (2, 2.5), (3, 4.0)] {
            bench.feedback(path, rtts);
        }
        assert_eq!(bench.choose_path(&packet(1), Some(0)), 1);
    }

    #[test]
    fn flows_with_separate_measurements_start_at_random() {
        let mut bench = Bench::edge("hermes-rtt:estimate=latest", 4);
        bench.feedback(2, 1.0); // of flow 1
        let mut seen = [false; 4];
        (10..60).for_each(|flow| seen[usize::from(bench.choose_path(&packet(flow), None))] = true);
        assert_eq!(seen, [true; 4], "other flows know nothing of path 2");
        bench.feedback(2, 3.0);
        assert_ne!(bench.choose_path(&packet(1), Some(2)), 2, "flow 1 leaves it");
    }

    #[test]
    fn good_path_is_kept_and_others_are_never_measured() {
        // The WAN pathology F3 reports for 20 % load.
        let mut bench = Bench::edge("hermes-rtt:scope=edge", 4);
        bench.feedback(2, 1.0);
        assert!((0..50).all(|flow| bench.choose_path(&packet(flow), None) == 2));
    }
}
