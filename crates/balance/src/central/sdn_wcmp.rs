//! Weighted-cost multipath by select groups: buckets weigh as much as the capacity beyond them (mechanisms.md P02; Zhou et
//! al., EuroSys 2014). In a network of equal links it is ECMP.
//!
//! Reading: proportions are exact as long as they fit into 16 bits; reducing the size of groups for hardware tables is not
//! done. A link that went away takes its capacity with it, so weights follow failures.
//!
//! - Helps: where links of unequal rate lead to the same place, and after failures.
//! - Hurts: like ECMP with few large flows; weights know capacities and no load.

use super::parts::base;
use super::{CentralBalancer, CentralCx, CentralNeeds, FlowSource, NetworkView, Placements, Why};
use crate::dataplane::NO_NEEDS;
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "sdn-wcmp",
    title: "WCMP (central)",
    summary: "Installs select groups whose weights follow the capacity behind each next hop.",
    source: "P02 weighted; EuroSys 2014",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "link rates, failures",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[],
    example: "sdn-wcmp",
    needs: NO_NEEDS,
    build: Build::Central(|_, _| Box::new(SdnWcmp)),
};

struct SdnWcmp;

impl CentralBalancer for SdnWcmp {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::None, counters: false, period: None }
    }

    fn decide(&mut self, _: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        if why == Why::Network {
            placements.set_base(base::by_capacity(view));
        }
    }
}

#[cfg(test)]
mod tests {
    use net::routes::ClassIx;
    use net::{Bandwidth, LinkIx, Routes};

    use crate::central::Base;
    use crate::central::testing::{Driven, World};

    #[test]
    fn weights_follow_capacity_and_failures() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=3,hosts_per_leaf=2").unwrap();
        let routes = Routes::intact(&topology);
        let (from, to) = (routes.class_node(ClassIx(0)), routes.class_node(ClassIx(1)));
        let paths: Vec<Vec<LinkIx>> = (0..3).map(|rank| routes.path(&topology, from, ClassIx(1), rank)).collect();
        // The first spine keeps 4 of 10 Gb/s down to the other leaf.
        let narrow = topology.with_links_changed(|link, facts| {
            if link == paths[0][1] {
                facts.rate = Bandwidth::from_gbps(4);
            }
        });
        let mut world = World::of(narrow);
        let weights = |world: &World| {
            let driven = Driven::new("sdn-wcmp", 1, world);
            let Some(Base::Hops(table)) = driven.placements.base() else { panic!("no base") };
            table.0[&(from, to)].iter().map(|hop| (hop.link, hop.weight)).collect::<Vec<_>>()
        };
        assert_eq!(weights(&world), [(paths[0][0], 2), (paths[1][0], 5), (paths[2][0], 5)]);
        world.set_cable(paths[1][1], false);
        assert_eq!(weights(&world), [(paths[0][0], 2), (paths[2][0], 5)]);
    }
}
