//! Equal-cost multipath by select groups: every switch spreads flows over its equal-cost next hops
//! by hash (mechanisms.md P02).
//!
//! Pitfalls: each switch uses its built-in hash. If all switches use the same one, they polarise:
//! the second choice always follows the first. Some switches ignore UDP ports.
//!
//! - Helps: with many flows on equal paths; switches decide locally, so an absent or slow
//!   controller loses no packets.
//! - Hurts: with few large flows, which collide; on switches that all hash alike, unless the
//!   controller makes them differ (`ecmp_hashing`).

use super::common::default_routes;
use super::{CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowSource, NetworkView, Placements};
use crate::dataplane::NO_NEEDS;
use crate::entry::{Build, Entry, Granularity, Platform, Reorders};

/// Registry entry, listed in [`crate::registry`].
pub static ENTRY: Entry = Entry {
    name: "sdn-ecmp",
    title: "ECMP (central)",
    summary: "Installs a select group over all equal-cost next hops of every switch.",
    source: "P02; RFC 2992",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "nothing",
    platforms: &[Platform::Simulator, Platform::OpenFlow],
    params: &[],
    example: "sdn-ecmp",
    needs: NO_NEEDS,
    build: Build::Central(|_, _| Box::new(SdnEcmp)),
};

struct SdnEcmp;

impl CentralBalancer for SdnEcmp {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::None, counters: false, period: None }
    }

    fn decide(
        &mut self,
        _: &mut CentralCx<'_>,
        view: &NetworkView<'_>,
        why: DecisionTrigger,
        placements: &mut Placements,
    ) {
        if why == DecisionTrigger::NetworkChanged {
            placements.set_default_routes(default_routes::equal_cost(view));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::central::testing::{DrivenBalancer, TestNetwork, least, mean};

    #[test]
    fn shares_are_those_of_independent_hashes() {
        // mechanisms.md P02: stride(N/2), k=4 all equal 0.63 of ideal; k=8 all equal 0.54; k=8 with
        // twice the rate 0.87.
        for (family, expected, tolerance) in [
            ("fat-tree:k=4", 0.63, 0.03),
            ("fat-tree:k=8", 0.54, 0.02),
            ("fat-tree:k=8,host_rate=1Mbps,fabric_rate=2Mbps", 0.87, 0.02),
        ] {
            let mut network = TestNetwork::new(family);
            let driven = DrivenBalancer::new("sdn-ecmp", 1, &network);
            let half = network.topology.hosts().len() as u32 / 2;
            let flows = network.stride(half);
            let shares: Vec<f64> = (0..40).map(|seed| mean(&network.rates(&flows, &driven.placements, seed))).collect();
            assert!((mean(&shares) - expected).abs() < tolerance, "{family}: {}", mean(&shares));
            assert!(least(&network.rates(&flows, &driven.placements, 0)) < 0.6, "elephants collide");
        }
    }
}
