//! Equal-cost multipath by select groups: every switch spreads flows over its equal-cost next hops by hash
//! (mechanisms.md P02).
//!
//! Pitfalls: the hash is the switch's own. Switches that all use the same one polarise: after the first choice the second is
//! no choice any more. Some leave the ports of UDP out.
//!
//! - Helps: with many flows on equal paths; switches decide by themselves, so a controller that is gone or slow costs
//!   nothing.
//! - Hurts: with few large flows, which collide; on switches that all hash alike, unless the controller makes them
//!   differ (`spread`).

use super::parts::base;
use super::{CentralBalancer, CentralCx, CentralNeeds, FlowSource, NetworkView, Placements, Why};
use crate::dataplane::NO_NEEDS;
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "sdn-ecmp",
    title: "ECMP (central)",
    summary: "Installs a select group over all equal-cost next hops of every switch.",
    source: "P02; RFC 2992",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "nothing",
    worlds: &[World::Simulator, World::OpenFlow],
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

    fn decide(&mut self, _: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        if why == Why::Network {
            placements.set_base(base::equal_cost(view));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::central::testing::{Driven, World, least, mean};

    #[test]
    fn shares_are_those_of_independent_hashes() {
        // mechanisms.md P02: stride(N/2), k=4 all equal 0.63 of ideal; k=8 all equal 0.54; k=8 with twice the rate 0.87.
        for (family, expected, tolerance) in [
            ("fat-tree:k=4", 0.63, 0.03),
            ("fat-tree:k=8", 0.54, 0.02),
            ("fat-tree:k=8,host_rate=1Mbps,fabric_rate=2Mbps", 0.87, 0.02),
        ] {
            let mut world = World::new(family);
            let driven = Driven::new("sdn-ecmp", 1, &world);
            let half = world.topology.hosts().len() as u32 / 2;
            let flows = world.stride(half);
            let shares: Vec<f64> = (0..40).map(|seed| mean(&world.rates(&flows, &driven.placements, seed))).collect();
            assert!((mean(&shares) - expected).abs() < tolerance, "{family}: {}", mean(&shares));
            assert!(least(&world.rates(&flows, &driven.placements, 0)) < 0.6, "elephants collide");
        }
    }
}
