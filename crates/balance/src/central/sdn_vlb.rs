//! Valiant load balancing over intermediate switches: the flows of every pair of edge switches are divided evenly over paths
//! via every intermediate, whatever the destination (mechanisms.md P05; Greenberg et al.: VL2, SIGCOMM 2009).
//!
//! Readings: the intermediates are the switches farthest from hosts (cores, spines); where every switch has hosts, as in
//! wide-area networks, all others. A path goes to the intermediate and on to the destination on shortest paths. Rules
//! forward by flow, not by port of arrival, so a path must not visit a switch twice: intermediates that would make it so
//! are left out, and a pair that has none left (in a pod of a fat-tree) stays with the equal-cost base. Where paths over
//! two intermediates are the same, it counts twice. If there are more than `paths`, some are used, others for each pair.
//!
//! Pitfalls: large flows still collide. Paths grow longer in networks without tiers.
//!
//! - Helps: with patterns that concentrate on some shortest paths.
//! - Hurts: in networks without tiers, where paths grow longer; large flows still collide.

use std::collections::VecDeque;

use net::{LinkIx, NodeIx};

use super::parts::base;
use super::parts::edges::{is_switch, levels};
use super::parts::pairs::{Pair, divide_all, spread_ranks};
use super::{CentralBalancer, CentralCx, CentralNeeds, FlowSource, NetworkView, Path, Placements, Why};
use crate::dataplane::NO_NEEDS;
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, ParamKind};
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "sdn-vlb",
    title: "VLB (central)",
    summary: "Divides the flows of every pair of switches evenly over all intermediate switches.",
    source: "P05; SIGCOMM 2009 (VL2)",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "failures",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[Param {
        name: "paths",
        kind: ParamKind::Count { min: 1, max: 1024 },
        default: "64",
        unit: "paths",
        doc: "Most intermediates used by a pair of edge switches.",
    }],
    example: "sdn-vlb",
    needs: NO_NEEDS,
    build: Build::Central(|env, params| Box::new(SdnVlb { paths_max: params.count("paths") as u32, seed: env.seed })),
};

struct SdnVlb {
    paths_max: u32,
    seed: u64,
}

/// Shortest paths from and to an intermediate.
struct Via {
    node: NodeIx,
    /// By node: the link towards the intermediate.
    up: Vec<Option<LinkIx>>,
    /// By node: the link on which the path from the intermediate comes in.
    down: Vec<Option<LinkIx>>,
}

impl CentralBalancer for SdnVlb {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::None, counters: false, period: None }
    }

    fn decide(&mut self, _: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        if why != Why::Network {
            return;
        }
        placements.set_base(base::equal_cost(view));
        let vias: Vec<Via> = intermediates(view).into_iter().map(|node| Via::new(view, node, self.seed)).collect();
        divide_all(view, placements, |pair| self.paths(view, &vias, pair));
    }
}

impl SdnVlb {
    fn paths(&self, view: &NetworkView<'_>, vias: &[Via], pair: Pair) -> Vec<Path> {
        // From another intermediate for every pair, so that a limit leaves none idle.
        let turn = reduce(mix(combine(u64::from(pair.from.0), u64::from(pair.node.0))), vias.len().max(1));
        let in_turn = spread_ranks(vias.len() as u32, self.paths_max).map(|nth| (nth as usize + turn) % vias.len());
        in_turn.filter_map(|via| vias[via].path(view, pair)).collect()
    }
}

impl Via {
    fn new(view: &NetworkView<'_>, node: NodeIx, seed: u64) -> Via {
        Via { node, up: tree(view, node, seed, LinkIx::reverse), down: tree(view, node, seed, |link| link) }
    }

    /// The path of a pair over this intermediate, if no switch is on it twice.
    fn path(&self, view: &NetworkView<'_>, pair: Pair) -> Option<Path> {
        if self.node == pair.from || self.node == pair.node {
            return None;
        }
        let mut path = Vec::new();
        let mut seen = vec![pair.from];
        let mut at = pair.from;
        while at != self.node {
            let link = self.up[at.ix()]?;
            path.push(link);
            at = view.topology.link(link).to;
            seen.push(at);
        }
        let (from_via, mut at) = (path.len(), pair.node);
        while at != self.node {
            let link = self.down[at.ix()]?;
            path.push(link);
            if seen.contains(&at) {
                return None;
            }
            at = view.topology.link(link).from;
        }
        path[from_via..].reverse();
        Some(path.into())
    }
}

/// The switches farthest from hosts; all, where none is farther than others.
fn intermediates(view: &NetworkView<'_>) -> Vec<NodeIx> {
    let levels = levels(view);
    let nodes = || (0..view.topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(view, *node));
    let top = nodes().map(|node| levels[node.ix()]).filter(|level| *level != u16::MAX).max().unwrap_or(0);
    nodes().filter(|node| levels[node.ix()] == top).collect()
}

/// By node: the link of a shortest-path tree around `root` that connects it; `used` gives the direction of a link away from
/// the root that traffic takes. Ties are drawn per node and root, so that parallel ways are all used.
fn tree(view: &NetworkView<'_>, root: NodeIx, seed: u64, used: impl Fn(LinkIx) -> LinkIx) -> Vec<Option<LinkIx>> {
    let mut distance = vec![u16::MAX; view.topology.nodes().len()];
    let mut by = vec![None; distance.len()];
    distance[root.ix()] = 0;
    let mut queue = VecDeque::from([root]);
    while let Some(node) = queue.pop_front() {
        let turn = combine(combine(mix(seed), u64::from(root.0)), u64::from(node.0));
        let out = view.topology.out_links(node);
        let first = reduce(turn, out.len().max(1));
        for link in out[first..].iter().chain(&out[..first]) {
            let far = view.topology.link(*link).to;
            let is_new = distance[far.ix()] == u16::MAX && is_switch(view, far) && view.alive[used(*link).ix()];
            if is_new {
                distance[far.ix()] = distance[node.ix()] + 1;
                by[far.ix()] = Some(used(*link));
                queue.push_back(far);
            }
        }
    }
    by
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::central::testing::{Driven, World};

    #[test]
    fn every_core_carries_its_part_of_every_pair_of_pods() {
        let world = World::new("fat-tree:k=4");
        let driven = Driven::new("sdn-vlb", 1, &world);
        assert_eq!(driven.placements.pairs().len(), 8 * 6, "pairs inside a pod are left to the base");
        for paths in driven.placements.pairs().values() {
            let cores: BTreeSet<_> = paths.iter().map(|path| world.topology.link(path.path[1]).to).collect();
            assert_eq!((paths.len(), cores.len()), (4, 4));
            assert!(paths.iter().all(|path| path.path.len() == 4));
        }
    }

    #[test]
    fn dead_intermediates_are_left_out_and_a_limit_is_kept() {
        let mut world = World::new("leaf-spine:leaves=4,spines=4,hosts_per_leaf=2");
        let mut driven = Driven::new("sdn-vlb:paths=3", 1, &world);
        assert_eq!(driven.placements.pairs().len(), 4 * 3);
        assert!(driven.placements.pairs().values().all(|paths| paths.len() == 3));
        let used: BTreeSet<_> = driven
            .placements
            .pairs()
            .values()
            .flat_map(|paths| paths.iter())
            .map(|path| world.topology.link(path.path[0]).to)
            .collect();
        assert_eq!(used.len(), 4, "all spines are used by some pair");
        let spine = *used.first().unwrap();
        for link in world.topology.out_links(spine).to_vec() {
            world.set_cable(link, false);
        }
        driven.decide(&world, Why::Network);
        let over = |path: &Path| path.iter().any(|link| world.topology.link(*link).to == spine);
        assert!(driven.placements.pairs().values().flat_map(|paths| paths.iter()).all(|path| !over(&path.path)));
        assert!(driven.placements.pairs().values().all(|paths| (2..=3).contains(&paths.len())));
    }

    #[test]
    fn networks_without_tiers_go_over_what_others_there_are() {
        let longest = |family| {
            let driven = Driven::new("sdn-vlb", 1, &World::new(family));
            driven.placements.pairs().values().map(|paths| paths.len()).max()
        };
        // Two of the nine nodes have no hosts; all eight routers of the other have.
        assert_eq!((longest("geni-wan"), longest("flattened-butterfly:k=8,n=2")), (Some(2), Some(6)));
    }
}
