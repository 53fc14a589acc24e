//! SPAIN with paths installed by the controller (mechanisms.md P06; Mudigonda et al., NSDI 2010):
//! every pair of edge switches gets up to `k` paths, each sharing as few links as possible with the
//! previous ones; the flows of the pair are split over them.
//!
//! Paths are computed and packed into VLANs as for `spain` (`dataplane/common/vlans.rs`). Paths
//! that do not fit into `vlans` VLANs are not used.
//!
//! Readings: the switch of the source splits flows by hash, while SPAIN's hosts draw paths. The
//! controller knows about failures and recomputes the paths; hosts need not detect silence.
//!
//! - Helps: if a few disjoint paths per pair of edge switches are enough and tables are small.
//! - Hurts: if more paths exist than are laid out; flows are split by hash, so large ones collide.

use super::common::{Dag, default_routes, divide_all, on_network_change};
use crate::dataplane::common::{Plan, Vlans};
use crate::entry::Entry;

pub(crate) static ENTRY: Entry = Entry::declare("sdn-spain", "SPAIN (central)")
    .summary("Splits the flows of every pair of switches over a few paths that share few links.")
    .source("P06; NSDI 2010; F2")
    .senses("failures")
    .params(&[Plan::K, Plan::VLANS, Plan::TRIALS])
    .central(|env, params| {
        let (plan, seed) = (Plan::from_params(params), env.seed);
        on_network_change(move |view, placements| {
            default_routes::equal_cost(view, placements);
            let (dag, vlans) = (Dag::new(view), Vlans::new(view.topology, view.routes, seed, &plan));
            divide_all(view, placements, |pair| {
                let tagged = vlans.paths(pair.own, pair.to).iter();
                tagged.map(|tagged| dag.path(pair.ends(), u32::from(tagged.path))).collect()
            });
        })
    });

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::central::testing::DrivenBalancer;

    #[test]
    fn few_paths_of_a_pair_share_no_link() {
        let mut driven = DrivenBalancer::new("sdn-spain:k=4", 1, "fat-tree:k=8");
        for paths in driven.splits() {
            let links: BTreeSet<_> = paths.iter().flat_map(|path| path.path.iter()).collect();
            assert_eq!(links.len(), paths.iter().map(|path| path.path.len()).sum::<usize>());
            assert_eq!(paths.len(), 4);
        }
        let dead = driven.splits().next().unwrap()[0].path[0];
        driven.set_cable(dead, false);
        assert!(driven.splits().flatten().all(|path| !path.path.contains(&dead)));
    }

    #[test]
    fn a_limit_on_vlans_is_a_limit_on_paths() {
        let longest = |spec| DrivenBalancer::new(spec, 1, "fat-tree:k=4").splits().map(<[_]>::len).max();
        assert_eq!((longest("sdn-spain"), longest("sdn-spain:vlans=3")), (Some(4), Some(3)));
    }
}
