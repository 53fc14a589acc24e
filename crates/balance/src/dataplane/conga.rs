//! CONGA: leaves exchange the congestion of their paths, and every flowlet takes the least
//! congested path (mechanisms.md P12; Alizadeh et al., SIGCOMM 2014).
//!
//! - Every fabric link estimates its utilisation (a DRE), and packets collect the maximum quantised
//!   value on their path.
//! - The edge where they leave stores it per sending edge and path (From-Leaf). It writes one
//!   entry, changed ones first, into the overlay header of each packet going back; the far edge
//!   stores it (To-Leaf).
//! - A packet that starts a flowlet compares all live paths by the larger of the local utilisation
//!   of the path's first link and the To-Leaf entry. It takes the minimum: the path of the previous
//!   flowlet if that is among the best, else a random one of the best.
//! - To-Leaf entries fall to 0 once they are older than `ageing`, so that a path once congested is
//!   tried again.
//!
//! CONGA-Flow, which decides once per flow in practice, is `conga:gap=13ms`.
//!
//! Readings: the LBTag, an uplink's number, is a path's number here, so that fabrics of any depth
//! work; between a leaf and its spines the two are the same. The paper lets old metrics decay
//! "gradually" without details; they drop to 0 immediately, as in the public simulations. It does
//! not specify whether From-Leaf entries age. They do here, since otherwise feedback would keep
//! reporting the state of a path from the time of its last use. If two destinations share an entry
//! of the flowlet table, hardware uses the same uplink for both; this model does the same if the
//! path number exists for both.
//!
//! Pitfalls: traffic paced by a steady stream of acknowledgements has few gaps, hence few
//! decisions. Acknowledgements are packets too: they cause decisions, and without traffic in both
//! directions nothing is fed back.
//!
//! - Helps: under asymmetry and failed links in leaf-spine fabrics, with traffic in both directions
//!   and gaps in it.
//! - Hurts: with few long flows that leave no gaps; with traffic in one direction only; blackholes
//!   look idle to it.

use net::LinkIx;

use crate::dataplane::common::flowlets::{self, FlowletEdge, Signal};
use crate::dataplane::common::{ALPHA, PathIndex, T_DRE, Utilisations, sensing};
use crate::dataplane::{Cx, EdgeEnv, Needs, PacketView, Scale, Sensing};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("conga", "CONGA")
    .summary("Sends each flowlet along the path whose busiest link is least used, as both ends report it.")
    .source("P12; CONGA, SIGCOMM 2014")
    .granularity(Granularity::Flowlet)
    .senses("utilisation of links, by feedback between edges")
    .params(&[
        Param::scaled("gap", "6.25rtt")
            .doc("Idle time that ends a flowlet; published: 500us at a base RTT of 80 us. CONGA-Flow is gap=13ms."),
        flowlets::MODE,
        flowlets::ENTRIES,
        T_DRE,
        ALPHA,
        BITS,
        AGEING,
    ])
    .example("conga:gap=500us")
    .needs(|scale, params| Needs { sensing: Some(quantised(scale, params)), ..Needs::default() })
    .edge(|env, params| FlowletEdge::boxed(env, params, Conga::new(env, params)));

/// Resolution of the metrics, in bits; the published value is 3.
pub(super) const BITS: Param = Param::count("bits", 1..=8, "3").doc("Bits of a quantised utilisation (Q).");

/// Lifetime of the metrics that far edges return.
pub(super) const AGEING: Param = Param::scaled("ageing", "125rtt")
    .doc("Age from which feedback about a path counts as 0; published: 10ms at a base RTT of 80 us.");

pub(super) fn quantised(scale: &Scale, params: &Params) -> Sensing {
    sensing(scale, params, params.count("bits") as u8)
}

/// The metrics of paths, and the choice by them.
pub(super) struct Conga {
    sensing: Sensing,
    index: PathIndex,
    /// First link of each path, by `index`.
    first_links: Vec<LinkIx>,
    /// Metrics of paths according to the far edges.
    remote: Utilisations,
    /// Metrics of the live paths during a decision.
    metrics: Vec<u8>,
}

impl Conga {
    pub(super) fn new(env: &EdgeEnv<'_>, params: &Params) -> Conga {
        let index = PathIndex::outward(env);
        Conga {
            sensing: quantised(&env.scale, params),
            first_links: index.first_links(env),
            index,
            remote: Utilisations::new(env, params.scaled("ageing", &env.scale)),
            metrics: Vec::with_capacity(env.path_counts.iter().copied().max().map_or(0, usize::from)),
        }
    }
}

impl Signal for Conga {
    fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], last: Option<u16>) -> u16 {
        let first_links = &self.first_links[self.index.range(packet.to)];
        let remote = self.remote.of(cx.now, packet.to);
        self.metrics.clear();
        let (mut best, mut best_count) = (u8::MAX, 0);
        // Paths with the same first link are neighbours: compute its utilisation once.
        let mut local = (None, 0);
        for path in live {
            let first = first_links[usize::from(*path)];
            if local.0 != Some(first) {
                local = (Some(first), self.sensing.quantise(cx.ports.utilisation(first)));
            }
            let metric = local.1.max(remote(*path));
            self.metrics.push(metric);
            if metric < best {
                (best, best_count) = (metric, 0);
            }
            best_count += u64::from(metric == best);
        }
        let of = |path: u16| live.binary_search(&path).ok().map(|position| self.metrics[position]);
        if let Some(last) = last
            && of(last) == Some(best)
        {
            return last;
        }
        let mut ties = live.iter().zip(&self.metrics).filter(|(_, metric)| **metric == best);
        ties.nth(cx.rng.next_below(best_count) as usize).map_or(live[0], |(path, _)| *path)
    }

    fn utilisations(&mut self) -> Option<&mut Utilisations> {
        Some(&mut self.remote)
    }
}

#[cfg(test)]
mod tests {
    use net::Time;
    use net::routes::ClassIx;

    use super::*;
    use crate::dataplane::common::{pack, unpack};
    use crate::dataplane::testing::{Bench, arrival, needs, packet};
    use crate::dataplane::{Arrival, Delivery};
    use crate::hash::mix;

    /// Gaps of exactly 100 us, ageing after 1 ms.
    const SPEC: &str = "conga:gap=100us,gap_mode=exact,ageing=1ms";

    fn told(bench: &mut Bench, path: u16, metric: u8) {
        let delivery = bench.decapsulate(&packet(9), &arrival(ClassIx(1), 0, pack(path, metric)));
        assert_eq!(delivery, Delivery::Pass);
    }

    /// Delivers a packet from class 1 that met `utilisation` on `path`.
    fn met(bench: &mut Bench, path: u16, utilisation: u8) {
        bench.decapsulate(&packet(9), &Arrival { utilisation, ..arrival(ClassIx(1), path, 0) });
    }

    #[test]
    fn a_flowlet_takes_the_least_of_the_greater_of_local_and_remote() {
        let mut bench = Bench::edge(SPEC, 4);
        // Local 0.5, 0, 0.25, 0 is 4, 0, 2, 0 of 8; remote is 0, 7, 1, 3; maxima are 4, 7, 2, 3.
        for (path, utilisation) in (0..).zip([0.5, 0.0, 0.25, 0.0]) {
            bench.load((1, path), 0, utilisation);
        }
        for (path, metric) in [(1, 7), (2, 1), (3, 3)] {
            told(&mut bench, path, metric);
        }
        assert!((0..20).all(|flow| bench.choose_path(&packet(flow), None) == 2));
        bench.load((1, 2), 0, 0.99);
        assert!((100..120).all(|flow| bench.choose_path(&packet(flow), None) == 3));
        // The decision lasts exactly as long as the flowlet.
        assert_eq!(bench.choose_path(&packet(0), Some(2)), 2);
        bench.wait(Time::from_us(101));
        assert_eq!(bench.choose_path(&packet(0), Some(2)), 3);
    }

    #[test]
    fn a_new_flowlet_keeps_its_path_if_that_is_among_the_best() {
        let mut bench = Bench::edge(SPEC, 4);
        let first = bench.choose_path(&packet(1), None);
        for _ in 0..50 {
            bench.wait(Time::from_us(150));
            assert_eq!(bench.choose_path(&packet(1), Some(first)), first);
        }
        told(&mut bench, first, 1);
        bench.wait(Time::from_us(150));
        let second = bench.choose_path(&packet(1), Some(first));
        assert_ne!(second, first);
    }

    #[test]
    fn ties_are_broken_at_random() {
        let mut bench = Bench::edge(SPEC, 4);
        told(&mut bench, 2, 1);
        let hits: [u32; 4] = bench.hits((0..3000).map(packet));
        assert!(hits[2] == 0 && [0, 1, 3].iter().all(|path| (900..1100).contains(&hits[*path])), "{hits:?}");
    }

    #[test]
    fn feedback_expires_after_ageing_time() {
        let mut bench = Bench::edge(SPEC, 2);
        told(&mut bench, 0, 7);
        bench.wait(Time::from_ms(1));
        assert!(
            (0..50).all(|flow| bench.choose_path(&packet(flow), None) == 1),
            "still fresh after just the ageing time"
        );
        bench.wait(Time::from_ps(1));
        assert!((100..200).any(|flow| bench.choose_path(&packet(flow), None) == 0), "then it counts as idle");
    }

    #[test]
    fn measurements_are_returned_to_sending_edge() {
        let mut bench = Bench::edge(SPEC, 4);
        let back = packet(1);
        assert_eq!(bench.encapsulate(&back, 0), 0, "nothing to tell yet");
        met(&mut bench, 3, 6);
        met(&mut bench, 1, 2);
        let headers = [0; 3].map(|_| unpack(bench.encapsulate(&back, 0)));
        assert_eq!(headers, [Some((1, 2)), Some((3, 6)), Some((1, 2))]);
        let elsewhere = PacketView { to: ClassIx(2), ..back };
        assert_eq!(bench.encapsulate(&elsewhere, 0), 0, "other edges receive no entry for it");
        // An acknowledgement carries feedback as data does.
        let ack = PacketView { is_data: false, bytes: 64, ..back };
        assert_eq!(unpack(bench.encapsulate(&ack, 0)), Some((3, 6)));
    }

    #[test]
    fn invalid_header_changes_nothing() {
        let mut bench = Bench::edge(SPEC, 4);
        told(&mut bench, 4, 7);
        told(&mut bench, 60_000, 7);
        met(&mut bench, u16::MAX, 3);
        let headers = [0; 3].map(|_| unpack(bench.encapsulate(&packet(1), 0)));
        assert_eq!(headers, [Some((0, 0)); 3], "only path 0 was ever seen in a valid packet");
        let mut seen = [false; 4];
        (0..60).for_each(|flow| seen[usize::from(bench.choose_path(&packet(flow), None))] = true);
        assert_eq!(seen, [true; 4]);
    }

    #[test]
    fn flowlets_leave_paths_that_die() {
        for spec in [SPEC, "conga:gap=100us,entries=8"] {
            let mut bench = Bench::edge(spec, 4);
            let before: Vec<u16> = (0..40).map(|flow| bench.choose_path(&packet(flow), None)).collect();
            bench.live = vec![1, 3];
            for (flow, path) in (0..40).zip(before) {
                let current = Some(path).filter(|path| bench.live.contains(path));
                bench.choose_path(&packet(flow), current);
            }
            bench.live = (0..4).collect();
            [1, 3].into_iter().for_each(|path| told(&mut bench, path, 5));
            bench.wait(Time::from_us(200));
            let after: Vec<u16> = (0..40).map(|flow| bench.choose_path(&packet(flow), None)).collect();
            assert!(
                after.iter().all(|path| [0, 2].contains(path)),
                "{spec}: paths that return are used again: {after:?}"
            );
        }
    }

    #[test]
    fn new_flow_with_reused_number_makes_new_decision() {
        let mut bench = Bench::edge(SPEC, 4);
        let old = bench.choose_path(&packet(1), None);
        told(&mut bench, old, 7);
        let successor = PacketView { hash: mix(77), ..packet(1) };
        assert_ne!(bench.choose_path(&successor, None), old, "within the gap of the flow before it");
    }

    #[test]
    fn header_fits_24_bits() {
        let sensing = needs("conga:bits=8").sensing.unwrap();
        assert_eq!(sensing.time_constant(), Time::from_us(200), "two base RTTs");
        assert!(pack(u16::MAX - 1, sensing.quantise(1.0)) < 1 << 24);
    }
}
