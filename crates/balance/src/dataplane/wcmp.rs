//! Weighted ECMP: hash regions in proportion to the capacity behind each next hop (mechanisms.md
//! P02 `weighted`; WCMP, Zhou et al., EuroSys 2014).
//!
//! - Helps: where next hops lead to unequal capacity that routing knows: cut rates, failed links
//!   beyond the next hop.
//! - Hurts: like ECMP with few large flows; nothing is measured, so load and silent failures are
//!   not detected.

use crate::dataplane::{Cx, NO_NEEDS, NextHops, PacketView, SwitchBalancer, ecmp};
use crate::entry::{Build, Entry, Granularity, Platform, Reorders};
use crate::hash::{mix, reduce};
use crate::params::{Param, ParamKind};

/// Registry entry, listed in [`crate::registry`].
pub static ENTRY: Entry = Entry {
    name: "wcmp",
    title: "Weighted ECMP",
    summary: "Hashes each flow onto a next hop in proportion to the capacity reachable through it.",
    source: "P02 weighted; WCMP, EuroSys 2014",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "capacities, after failures are detected",
    platforms: &[Platform::Simulator, Platform::OpenFlow],
    params: &[Param {
        name: "seeds",
        kind: ParamKind::Choice(&["per-switch", "none"]),
        default: "per-switch",
        unit: "",
        doc: "Independent hash seeds per switch, or the same hash everywhere.",
    }],
    example: "wcmp",
    needs: NO_NEEDS,
    build: Build::Switch(|env, params| Box::new(Wcmp { seed: ecmp::seed(env, params) })),
};

struct Wcmp {
    seed: u64,
}

impl SwitchBalancer for Wcmp {
    fn choose(&mut self, _: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let total: u64 = members.weights.iter().map(|w| u64::from(*w)).sum();
        let mut point = reduce(mix(packet.hash ^ self.seed), total as usize) as u64;
        for (i, weight) in members.weights.iter().enumerate() {
            if point < u64::from(*weight) {
                return i;
            }
            point -= u64::from(*weight);
        }
        members.links.len() - 1
    }

    fn needs_weights(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn shares_follow_the_weights() {
        let mut bench = Bench::switch("wcmp", 3);
        bench.weights = vec![10, 40, 50];
        let mut hits = [0f64; 3];
        for flow in 0..100_000 {
            hits[bench.choose(&packet(flow))] += 1e-5;
        }
        assert!((hits[0] - 0.1).abs() < 0.01 && (hits[1] - 0.4).abs() < 0.01, "{hits:?}");
    }
}
