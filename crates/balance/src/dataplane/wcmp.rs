//! Weighted ECMP: hash regions in proportion to the capacity behind each next hop (mechanisms.md
//! P02 `weighted`; WCMP, Zhou et al., EuroSys 2014).
//!
//! - Helps: where next hops lead to unequal capacity that routing knows: cut rates, failed links
//!   beyond the next hop.
//! - Hurts: like ECMP with few large flows; nothing is measured, so load and silent failures are
//!   not detected.

use crate::dataplane::{Cx, NextHops, PacketView, SwitchBalancer, ecmp};
use crate::entry::{Entry, FlowLevel};
use crate::hash::{mix, position_of_point, reduce};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("wcmp", "Weighted ECMP")
    .summary("Hashes each flow onto a next hop in proportion to the capacity reachable through it.")
    .flow_level(FlowLevel::Path)
    .source("P02 weighted; WCMP, EuroSys 2014")
    .senses("capacities, after failures are detected")
    .params(&[Param::choice("seeds", &["per-switch", "none"], "per-switch")
        .doc("Independent hash seeds per switch, or the same hash everywhere.")])
    .also_as_groups()
    .switch(|env, params| Box::new(Wcmp { seed: ecmp::seed(env, params) }));

struct Wcmp {
    seed: u64,
}

impl SwitchBalancer for Wcmp {
    fn choose(&mut self, _: &mut Cx<'_>, packet: &PacketView, members: NextHops<'_>) -> usize {
        let total: u64 = members.weights.iter().map(|w| u64::from(*w)).sum();
        let point = reduce(mix(packet.hash ^ self.seed), total as usize) as u64;
        let weights = members.weights.iter().map(|weight| u64::from(*weight));
        position_of_point(point, weights).unwrap_or(members.links.len() - 1)
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
        let hits: [u32; 3] = bench.port_hits((0..100_000).map(packet));
        let hits = hits.map(|hits| f64::from(hits) * 1e-5);
        assert!((hits[0] - 0.1).abs() < 0.01 && (hits[1] - 0.4).abs() < 0.01, "{hits:?}");
    }
}
