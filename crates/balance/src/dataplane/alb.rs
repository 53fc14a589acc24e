//! ALB: edges measure one-way latencies of their paths, remove the unknown offset of the clocks,
//! and move flowlets from paths that are slower than the fastest one by a margin (mechanisms-2.md
//! P47; Shi et al., IWQoS 2018, and Computer Networks 157, 2019).
//!
//! A packet carries the time at which it entered the fabric, by the clock of its edge. The edge
//! where it leaves subtracts that from the time of its clock. The difference of two latencies of
//! one pair of edges does not contain the offset of their clocks. The edge therefore subtracts the
//! lowest latency that it has seen from the other edge over any path, and returns the rest for one
//! path in each packet that goes back, as CONGA returns utilisations. A flowlet that starts stays
//! on the path of the one before it unless that is slower than the fastest live path by more than
//! `margin`. Otherwise, and if it is the first of its flow, it takes a random one of the paths
//! within the margin.
//!
//! The clocks of a simulation are exact. Each edge therefore gets a wrong one here, off by a
//! constant that is drawn up to `clock_offset` in both directions. No choice depends on it.
//!
//! Readings: constants were not at hand. The gap is that of CONGA, the margin a quarter of a
//! congested hop. A latency is an average with the share `gain` for the newest packet. It excludes
//! the time that links take for the bytes of the packet on the first path, since acknowledgements
//! and data would otherwise seem to use different paths; propagation and slower links of other
//! paths stay in it. An entry older than `ageing` counts as the lowest latency, so that a path is
//! tried again. Clocks do not drift, so the lowest latency is never forgotten. Hosts of the source
//! also ignore acknowledgements of an abandoned path when they set their rate; this is not built,
//! since edges do not control windows.
//!
//! - Helps: under asymmetry of rates or delays, which the latency of a path contains and a mark
//!   does not.
//! - Hurts: without traffic in both directions, and without gaps; a queue shorter than the margin
//!   stays.

use net::Time;
use net::routes::ClassIx;

use crate::dataplane::common::flowlets::{self, FlowletEdge, Signal};
use crate::dataplane::common::{CongestionFromLeaf, PathIndex, empty_delays, is_live};
use crate::dataplane::{Arrival, Cx, Delivery, EdgeEnv, PacketView};
use crate::entry::{Entry, Granularity};
use crate::hash::{combine, mix};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("alb", "ALB")
    .summary("Moves flowlets to paths of lower one-way latency, measured with clocks that need not agree.")
    .source("P47; ALB, IWQoS 2018")
    .granularity(Granularity::Flowlet)
    .senses("one-way latencies of paths, by feedback between edges")
    .params(&[
        Param::scaled("gap", "6.25rtt").doc("Idle time that ends a flowlet; the value of CONGA, as none is known."),
        Param { default: "exact", ..flowlets::MODE },
        flowlets::ENTRIES,
        Param::scaled("margin", "0.25hop").doc("Latency by which a path must exceed the fastest one to be left."),
        Param::number("gain", 0.001..=1.0, "0.125").doc("Share of the newest packet in the latency of a path."),
        Param::scaled("ageing", "125rtt").doc("Age from which the latency of a path counts as the lowest one."),
        Param::scaled("clock_offset", "10rtt").doc("Largest error of the clock of an edge, which the choices ignore."),
    ])
    .example("alb:margin=0.5hop")
    .edge(|env, params| FlowletEdge::boxed(env, params, Alb::new(env, params)));

/// Header of a packet without an entry; others have a path plus 1 above the latency.
const NO_ENTRY: u32 = 0;

/// Limit of errors and latencies, about a week: sums of some of them fit a signed number.
const LONGEST_PS: u64 = 1 << 59;

struct Alb {
    /// Errors of the clocks of all edges, by class, picoseconds.
    clock_errors_ps: Vec<i64>,
    own: ClassIx,
    /// Unit of the latencies in headers: 1/256 of the delay of a congested hop.
    step_ps: u64,
    /// Latency above the fastest path at which a path is left, in steps.
    margin: u64,
    gain: f64,
    ageing_ps: u64,
    /// Time that the links of the first path from each class need for a byte, picoseconds.
    ps_per_byte: Vec<f64>,
    inward: PathIndex,
    /// Latencies of the paths that end here, with the offset of the clocks.
    arriving: Vec<Measured>,
    /// The lowest latency from each class so far; `None` before the first packet.
    lowest_ps: Vec<Option<i64>>,
    turns: CongestionFromLeaf,
    outward: PathIndex,
    /// Latencies of the paths that begin here above the lowest one, in steps, with their times.
    returned: Vec<(u16, u64)>,
}

/// The latency of a path.
#[derive(Clone, Copy, Default)]
struct Measured {
    average_ps: i64,
    /// Time of the last packet; `None` before the first.
    at: Option<Time>,
}

impl Alb {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Alb {
        let scaled = |name| params.scaled(name, &env.scale);
        let step_ps = (env.scale.hop_delay.as_ps() / 256).max(1);
        let (inward, outward) = (PathIndex::inward(env), PathIndex::outward(env));
        let largest = scaled("clock_offset").as_ps().min(LONGEST_PS);
        let error = |class| (combine(mix(env.seed), class) % (2 * largest + 1)) as i64 - largest as i64;
        Alb {
            clock_errors_ps: (0..env.path_counts.len() as u64).map(error).collect(),
            own: env.class,
            step_ps,
            margin: scaled("margin").as_ps() / step_ps,
            gain: params.number("gain"),
            ageing_ps: scaled("ageing").as_ps(),
            ps_per_byte: empty_delays(env).into_iter().map(|(_, per_byte)| per_byte).collect(),
            arriving: vec![Measured::default(); inward.total()],
            inward,
            lowest_ps: vec![None; env.path_counts.len()],
            turns: CongestionFromLeaf::new(env, scaled("ageing")),
            returned: vec![(0, 0); outward.total()],
            outward,
        }
    }

    /// Returns the latency of a packet by the clocks of both edges, without the time for its bytes.
    fn latency_ps(&self, bytes: u32, arrival: &Arrival) -> i64 {
        let error = |class: ClassIx| self.clock_errors_ps[class.0 as usize];
        let for_bytes = (f64::from(bytes) * self.ps_per_byte[arrival.from.0 as usize]) as i64;
        let one_way = arrival.one_way.as_ps().min(LONGEST_PS) as i64;
        one_way + error(self.own) - error(arrival.from) - for_bytes
    }

    fn measure(&mut self, now: Time, bytes: u32, arrival: &Arrival) {
        let Some(at) = self.inward.get(arrival.from, arrival.path) else { return };
        let latency_ps = self.latency_ps(bytes, arrival);
        let path = &mut self.arriving[at];
        let is_fresh = path.at.is_some_and(|at| now.saturating_sub(at).as_ps() <= self.ageing_ps);
        let before = if is_fresh { path.average_ps } else { latency_ps };
        // The difference is the same for any clocks, and so is its rounded part.
        let average_ps = before + ((latency_ps - before) as f64 * self.gain) as i64;
        *path = Measured { average_ps, at: Some(now) };
        let lowest = &mut self.lowest_ps[arrival.from.0 as usize];
        *lowest = Some(lowest.map_or(latency_ps, |lowest| lowest.min(latency_ps)));
        let steps = self.steps(arrival.from, average_ps);
        self.turns.note(arrival.from, arrival.path, steps, now);
    }

    /// Returns the part of a latency above the lowest one, in steps.
    fn steps(&self, from: ClassIx, latency_ps: i64) -> u16 {
        let lowest = self.lowest_ps[from.0 as usize].unwrap_or(latency_ps);
        let above = latency_ps.saturating_sub(lowest).max(0) as u64;
        (above / self.step_ps).min(u64::from(u16::MAX)) as u16
    }
}

impl Signal for Alb {
    fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], last: Option<u16>) -> u16 {
        let returned = &self.returned[self.outward.range(packet.to)];
        let latency = |path: u16| {
            let (steps, at_ps) = returned[usize::from(path)];
            let is_fresh = cx.now.as_ps().saturating_sub(at_ps) <= self.ageing_ps;
            if is_fresh { u64::from(steps) } else { 0 }
        };
        let limit = live.iter().map(|path| latency(*path)).min().unwrap_or(0) + self.margin;
        if let Some(last) = last.filter(|last| is_live(live, *last) && latency(*last) <= limit) {
            return last;
        }
        let near = live.iter().copied().filter(|path| latency(*path) <= limit);
        let nth = cx.rng.next_below(near.clone().count().max(1) as u64) as usize;
        near.clone().nth(nth).unwrap_or(live[0])
    }

    fn header(&mut self, now: Time, to: ClassIx) -> u32 {
        let Some((path, _)) = self.turns.tell(to, now) else { return NO_ENTRY };
        // The lowest latency may have changed since the entry was noted.
        let average_ps = self.inward.get(to, path).map_or(0, |at| self.arriving[at].average_ps);
        (u32::from(path) + 1) << 16 | u32::from(self.steps(to, average_ps))
    }

    fn arrived(&mut self, now: Time, packet: &PacketView, arrival: &Arrival) -> Delivery {
        self.measure(now, packet.bytes, arrival);
        if let Some(path) = (arrival.tag >> 16).checked_sub(1)
            && let Some(at) = self.outward.get(arrival.from, path as u16)
        {
            self.returned[at] = (arrival.tag as u16, now.as_ps());
        }
        Delivery::Pass
    }
}

#[cfg(test)]
mod tests {
    use net::RandomStream;

    use super::*;
    use crate::dataplane::testing::{Bench, arrival, packet};

    /// Gaps of 100 us; a step is 80 us / 256, so the margin of 20 us is 64 steps.
    const SPEC: &str = "alb:gap=100us,margin=20us,ageing=1ms,gain=1,clock_offset=3ms";

    /// Delivers the latency of a path to class 1 above the lowest, in steps.
    fn returned(bench: &mut Bench, path: u32, steps: u32) {
        bench.decapsulate(&packet(9), &arrival(ClassIx(1), 0, (path + 1) << 16 | steps));
    }

    /// Delivers a packet of class 1 that took `path` in this time.
    fn took(bench: &mut Bench, path: u16, bytes: u32, us: u64) {
        let packet = PacketView { bytes, ..packet(9) };
        bench.decapsulate(&packet, &Arrival { one_way: Time::from_us(us), ..arrival(ClassIx(1), path, 0) });
    }

    fn header(bench: &mut Bench) -> Option<(u32, u32)> {
        let header = bench.encapsulate(&packet(1), 0);
        (header >> 16).checked_sub(1).map(|path| (path, header & 0xffff))
    }

    #[test]
    fn flowlets_move_only_beyond_the_margin() {
        let mut bench = Bench::edge(SPEC, 4);
        for (path, steps) in [(0, 164), (1, 100), (2, 165), (3, 400)] {
            returned(&mut bench, path, steps);
        }
        let hits: [u32; 4] = bench.hits((100..1100).map(packet));
        assert!(hits[2] + hits[3] == 0 && (400..600).contains(&hits[0]), "within the margin of 64: {hits:?}");
        let first = bench.choose_path(&packet(1), None);
        for _ in 0..20 {
            bench.wait(Time::from_us(50));
            assert_eq!(bench.choose_path(&packet(1), Some(first)), first, "the flowlet goes on");
        }
        // The other of the two gets faster by 65 steps and more.
        returned(&mut bench, first.into(), 300);
        returned(&mut bench, (1 - first).into(), 100);
        assert_eq!(bench.choose_path(&packet(1), Some(first)), first, "no gap yet");
        bench.wait(Time::from_us(101));
        assert_ne!(bench.choose_path(&packet(1), Some(first)), first);
    }

    #[test]
    fn latencies_return_without_offset_and_without_the_time_for_bytes() {
        for spec in [SPEC, "alb:gain=1,clock_offset=0s", "alb:gain=1,clock_offset=400s"] {
            let mut bench = Bench::edge(spec, 4);
            assert_eq!(header(&mut bench), None);
            // 1500 bytes at 10 Gb/s take 1.2 us on each of two links; 64 bytes 0.1024 us in total.
            took(&mut bench, 2, 1500, 60);
            took(&mut bench, 1, 1500, 40);
            let headers = [header(&mut bench), header(&mut bench)];
            assert_eq!(headers, [Some((1, 0)), Some((2, 64))], "{spec}: 20 us");
            took(&mut bench, 2, 64, 40);
            let (path, steps) = header(&mut bench).unwrap();
            assert_eq!((path, steps), (2, 7), "{spec}: 2.2976 us more than the data packet");
        }
    }

    #[test]
    fn an_old_latency_counts_as_the_lowest() {
        let mut bench = Bench::edge(SPEC, 2);
        returned(&mut bench, 1, 900);
        bench.wait(Time::from_ms(1));
        assert!((0..50).all(|flow| bench.choose_path(&packet(flow), None) == 0));
        bench.wait(Time::from_ps(1));
        assert!((100..150).any(|flow| bench.choose_path(&packet(flow), None) == 1));
    }

    #[test]
    fn invalid_headers_change_nothing() {
        let mut bench = Bench::edge(SPEC, 2);
        returned(&mut bench, 2, 9);
        returned(&mut bench, 65_534, 9);
        took(&mut bench, u16::MAX, 1500, 90);
        let hits: [u32; 2] = bench.hits((0..100).map(packet));
        assert!(hits.iter().all(|hits| *hits > 20), "{hits:?}");
    }

    /// Random packets, latencies, returned entries and gaps; returns all headers and choices.
    fn history(clock_offset: &str, seed: u64) -> Vec<u32> {
        let mut bench = Bench::edge(&format!("alb:gap=100us,clock_offset={clock_offset}"), 4);
        let mut rng = RandomStream::new(seed, "history");
        let mut seen = Vec::new();
        for _ in 0..2000 {
            bench.wait(Time::from_ns(rng.next_below(60_000)));
            let (path, flow) = (rng.next_below(4) as u16, rng.next_below(8) as u32);
            let tag = (u32::from(path) + 1) << 16 | rng.next_below(300) as u32;
            let one_way = Time::from_ns(5_000 + rng.next_below(200_000));
            bench.decapsulate(&packet(9), &Arrival { one_way, ..arrival(ClassIx(1), rng.next_below(4) as u16, tag) });
            seen.push(u32::from(bench.choose_path(&packet(flow), Some(path))));
            seen.push(bench.encapsulate(&packet(flow), 0));
        }
        seen
    }

    #[test]
    fn choices_and_headers_are_the_same_for_any_clocks() {
        for seed in 0..5 {
            let exact = history("0s", seed);
            assert!(exact.iter().any(|value| value >> 16 > 0 && value & 0xffff > 50), "headers are not empty");
            for offset in ["1ns", "777us", "3s", "1000000s"] {
                assert!(history(offset, seed) == exact, "seed {seed}, clocks off by up to {offset}");
            }
        }
        assert!(history("0s", 1) != history("0s", 2));
    }

    #[test]
    fn clocks_of_edges_differ() {
        crate::dataplane::testing::with_edge_env("leaf-spine:leaves=4,spines=2", 0, |env| {
            let spec = crate::registry::Spec::parse("alb:clock_offset=1ms").unwrap();
            let errors = Alb::new(env, &spec.params).clock_errors_ps;
            let distinct: std::collections::BTreeSet<i64> = errors.iter().copied().collect();
            assert!(distinct.len() == 4 && errors.iter().all(|error| error.abs() <= 1_000_000_000), "{errors:?}");
        });
    }
}
