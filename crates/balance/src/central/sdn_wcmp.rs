//! Weighted-cost multipath by select groups: the weight of a group bucket is the capacity beyond it
//! (mechanisms.md P02; Zhou et al., EuroSys 2014). In a network of equal links it is ECMP.
//!
//! Reading: proportions are exact if they fit into 16 bits; groups are not reduced for hardware
//! tables. A failed link removes its capacity, so weights follow failures.
//!
//! - Helps: where links of unequal rate lead to the same destination, and after failures.
//! - Hurts: like ECMP with few large flows; weights consider capacities but no load.

use super::common::{default_routes, on_network_change};
use crate::entry::Entry;

pub(crate) static ENTRY: Entry = Entry::declare("sdn-wcmp", "WCMP (central)")
    .summary("Installs select groups whose weights follow the capacity behind each next hop.")
    .source("P02 weighted; EuroSys 2014")
    .senses("link rates, failures")
    .central(|_, _| on_network_change(default_routes::by_capacity));

#[cfg(test)]
mod tests {
    use net::routes::ClassIx;
    use net::{Bandwidth, LinkIx, Routes};

    use crate::central::DefaultRoutes;
    use crate::central::testing::{DrivenBalancer, TestNetwork};

    #[test]
    fn weights_follow_capacity_and_failures() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=3,hosts_per_leaf=2").unwrap();
        let routes = Routes::intact(&topology);
        let (from, to) = (routes.class_node(ClassIx(0)), routes.class_node(ClassIx(1)));
        let paths: Vec<Vec<LinkIx>> = (0..3).map(|rank| routes.path(&topology, from, ClassIx(1), rank)).collect();
        // The first spine keeps 4 of 10 Gb/s down to the other leaf.
        let narrow = topology.with_links_changed(|link, info| {
            if link == paths[0][1] {
                info.rate = Bandwidth::from_gbps(4);
            }
        });
        let mut driven = DrivenBalancer::on("sdn-wcmp", 1, TestNetwork::of(narrow));
        let weights = |driven: &DrivenBalancer| {
            let Some(DefaultRoutes::Hops(table)) = driven.placements.default_routes() else {
                panic!("the balancer has set no default routes")
            };
            table.get(from, to).expect("next hops").iter().map(|hop| (hop.link, hop.weight)).collect::<Vec<_>>()
        };
        assert_eq!(weights(&driven), [(paths[0][0], 2), (paths[1][0], 5), (paths[2][0], 5)]);
        driven.set_cable(paths[1][1], false);
        assert_eq!(weights(&driven), [(paths[0][0], 2), (paths[2][0], 5)]);
    }
}
