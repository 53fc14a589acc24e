//! Dynamic weighted round robin: as weighted round robin, but the weights are the remaining
//! capacity of each path, measured every period (mechanisms.md P28; F0 section 3.2).
//!
//! The weight of a path is the minimum over its links of rate × (1 − utilisation), at least one
//! hundredth of the rate so that every path stays in use. It is read when the first flow of a
//! period needs it and kept for the rest of the period.
//!
//! F0's pickers are in a controller that polls the whole network. So every edge here reads the
//! utilisation of every link immediately, without messages. Real edges cannot (`conga` can, at the
//! price of feedback). F0 names no period; the default is the fastest interval of typical polling.
//! Rates are those of the intact network, utilisations are current.
//!
//! Pitfall: between two measurements all flows follow the same weights, so the flows of all edges
//! in the next period flood a path that was idle. Turns are smooth, so floods are bounded by the
//! weights.
//!
//! - Helps: where load lasts longer than a period, such as background traffic or cut rates that
//!   routing does not know.
//! - Hurts: where load changes within a period: all edges follow the same stale weights.

use net::LinkIx;
use net::routes::ClassIx;

use crate::dataplane::common::{ALPHA, PathIndex, PathLinks, START, SmoothWrr, T_DRE, sensing};
use crate::dataplane::{Cx, EdgeBalancer, Needs, PacketView, Paths, PortTelemetry};
use crate::entry::Entry;
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("dynamic-wrr", "Dynamic weighted round robin")
    .summary("Gives new flows to the paths in turn, in proportion to their measured remaining capacity.")
    .source("P28 dynamic weighted round robin; F0 section 3.2")
    .senses("utilisation of every link of a path")
    .params(&[
        Param::scaled("period", "125rtt")
            .doc("Time between two measurements of the weights; 10ms at a base RTT of 80 us (the source names none)."),
        T_DRE,
        ALPHA,
        START,
    ])
    .needs(|scale, params| Needs {
        sensing: Some(sensing(scale, params, 8)),
        reads_all_links: true,
        ..Needs::default()
    })
    .edge(|env, params| {
        let index = PathIndex::outward(env);
        Box::new(DynamicWrr {
            period_ps: params.scaled("period", &env.scale).as_ps().max(1),
            links: PathLinks::new(env),
            rates: env.topology.links().iter().map(|link| (link.rate.as_bps_f64() / 1e9) as f32).collect(),
            weights: vec![0.0; index.total()],
            measured: vec![NEVER; index.class_count()],
            turns: SmoothWrr::new(index.clone(), params.text("start") == "random"),
            index,
        })
    });

/// Minimum weight of a path, as a share of its capacity.
const LEAST: f64 = 0.01;

const NEVER: u64 = u64::MAX;

struct DynamicWrr {
    period_ps: u64,
    links: PathLinks,
    /// Rate of every link, by its number, Gb/s.
    rates: Vec<f32>,
    index: PathIndex,
    weights: Vec<f64>,
    /// Number of the period in which the weights of each class were measured.
    measured: Vec<u64>,
    turns: SmoothWrr,
}

impl DynamicWrr {
    fn measure(&mut self, ports: &dyn PortTelemetry, to: ClassIx) {
        let range = self.index.range(to);
        for (path, weight) in self.weights[range].iter_mut().enumerate() {
            let left = |link: &LinkIx| {
                let share = (1.0 - ports.utilisation(*link)).max(LEAST);
                f64::from(self.rates[link.ix()]) * share
            };
            *weight = self.links.of(to, path as u16).iter().map(left).fold(f64::INFINITY, f64::min);
        }
    }
}

impl EdgeBalancer for DynamicWrr {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        if let Some(current) = paths.current {
            return current;
        }
        let period = cx.now.as_ps() / self.period_ps;
        let measured = &mut self.measured[packet.to.0 as usize];
        if *measured != period {
            *measured = period;
            self.measure(cx.ports, packet.to);
        }
        let weights = &self.weights[self.index.range(packet.to)];
        // Shares, so that credit from former weights counts the same regardless of their scale.
        let total: f64 = paths.live.iter().map(|path| weights[usize::from(*path)]).sum();
        self.turns.pick(cx, packet, paths.live, |position| weights[usize::from(paths.live[position])] / total)
    }
}

#[cfg(test)]
mod tests {
    use net::Time;

    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn shares_follow_remaining_capacity_of_worst_link() {
        let mut bench = Bench::edge("dynamic-wrr:period=1ms", 4);
        bench.load((1, 0), 0, 0.5);
        bench.load((1, 1), 1, 0.75);
        bench.load((1, 1), 0, 0.2);
        bench.load((1, 2), 1, 1.1);
        // Remaining: 0.5, 0.25, 0.01 and 1 of a link.
        let found: [f64; 4] = bench.shares(0..17_600);
        for (share, left) in found.iter().zip([0.5, 0.25, 0.01, 1.0]) {
            assert!((share - left / 1.76).abs() < 2e-4, "{found:?}");
        }
    }

    #[test]
    fn weights_hold_for_a_period() {
        let mut bench = Bench::edge("dynamic-wrr:period=1ms", 4);
        let even: [f64; 4] = bench.shares(0..400);
        assert!(even.iter().all(|share| (share - 0.25).abs() < 0.01), "{even:?}");
        bench.load((1, 3), 1, 1.0);
        bench.wait(Time::from_ps(999_999_999));
        let still: [f64; 4] = bench.shares(0..400);
        assert!((still[3] - 0.25).abs() < 0.01, "{still:?}");
        bench.wait(Time::from_ps(1));
        let after: [f64; 4] = bench.shares(0..301);
        assert!(after[3] < 0.01, "{after:?}");
        assert_eq!(bench.choose_path(&packet(1), Some(3)), 3, "flows stay where they are");
    }

    #[test]
    fn dead_paths_get_nothing_and_other_paths_get_their_share() {
        let mut bench = Bench::edge("dynamic-wrr:period=1ms", 4);
        bench.load((1, 0), 0, 0.5);
        bench.live = vec![0, 2];
        let found: [f64; 4] = bench.shares(0..3000);
        assert!((found[0] - 1.0 / 3.0).abs() < 0.01 && found[1] + found[3] == 0.0, "{found:?}");
        bench.live = (0..4).collect();
        let found: [f64; 4] = bench.shares(0..3000);
        assert!((found[1] - 2.0 / 7.0).abs() < 0.01, "{found:?}");
    }
}
