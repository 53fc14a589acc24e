//! SPAIN with its paths installed by the controller (mechanisms.md P06; Mudigonda et al., NSDI 2010): for every pair of edge
//! switches up to `k` paths, each sharing as few links as it can with those before; the flows of the pair are divided
//! among them.
//!
//! Paths are computed and packed into VLANs as for `spain` (`dataplane/parts/vlans.rs`), and what does not fit into
//! `vlans` VLANs is not used.
//!
//! Readings: the switch of the source divides flows by hash, where SPAIN's hosts draw. Failures are known to the controller,
//! which lays paths out anew; hosts need not notice silence.
//!
//! - Helps: where a few disjoint paths per pair of edge switches are enough and tables are small.
//! - Hurts: where more paths exist than are laid out; flows are divided by hash, so large ones collide.

use super::parts::base;
use super::parts::dag::Dag;
use super::parts::pairs::divide_all;
use super::{CentralBalancer, CentralCx, CentralEnv, CentralNeeds, FlowSource, NetworkView, Placements, Why};
use crate::dataplane::NO_NEEDS;
use crate::dataplane::parts::vlans::{Plan, Vlans};
use crate::params::Params;
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "sdn-spain",
    title: "SPAIN (central)",
    summary: "Divides the flows of every pair of switches among a few paths that share few links.",
    source: "P06; NSDI 2010; F2",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "failures",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[Plan::K, Plan::VLANS, Plan::TRIALS],
    example: "sdn-spain",
    needs: NO_NEEDS,
    build: Build::Central(|env, params| Box::new(SdnSpain::new(env, params))),
};

struct SdnSpain {
    plan: Plan,
    seed: u64,
}

impl SdnSpain {
    fn new(env: &CentralEnv, params: &Params) -> SdnSpain {
        SdnSpain { plan: Plan::from_params(params), seed: env.seed }
    }
}

impl CentralBalancer for SdnSpain {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::None, counters: false, period: None }
    }

    fn decide(&mut self, _: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        if why != Why::Network {
            return;
        }
        placements.set_base(base::equal_cost(view));
        let (dag, vlans) = (Dag::new(view), Vlans::new(view.topology, view.routes, self.seed, &self.plan));
        divide_all(view, placements, |pair| {
            let tagged = vlans.paths(pair.own, pair.to).iter();
            tagged.map(|tagged| dag.path(pair.ends(), u32::from(tagged.path))).collect()
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::central::Why;
    use crate::central::testing::{Driven, World};

    #[test]
    fn few_paths_of_a_pair_share_no_link() {
        let mut world = World::new("fat-tree:k=8");
        let mut driven = Driven::new("sdn-spain:k=4", 1, &world);
        let check = |driven: &Driven| {
            for paths in driven.placements.pairs().values() {
                let links: BTreeSet<_> = paths.iter().flat_map(|path| path.path.iter()).collect();
                assert_eq!(links.len(), paths.iter().map(|path| path.path.len()).sum::<usize>());
            }
            driven.placements.pairs().values().map(|paths| paths.len()).collect::<Vec<_>>()
        };
        assert!(check(&driven).iter().all(|paths| *paths == 4));
        let dead = driven.placements.pairs().values().next().unwrap()[0].path[0];
        world.set_cable(dead, false);
        driven.decide(&world, Why::Network);
        assert!(
            driven.placements.pairs().values().flat_map(|paths| paths.iter()).all(|path| !path.path.contains(&dead))
        );
    }

    #[test]
    fn a_limit_on_vlans_is_a_limit_on_paths() {
        let world = World::new("fat-tree:k=4");
        let longest = |spec| {
            let driven = Driven::new(spec, 1, &world);
            driven.placements.pairs().values().map(|paths| paths.len()).max()
        };
        assert_eq!((longest("sdn-spain"), longest("sdn-spain:vlans=3")), (Some(4), Some(3)));
    }
}
