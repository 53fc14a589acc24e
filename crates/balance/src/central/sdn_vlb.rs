//! Valiant load balancing over intermediate switches: the flows of every pair of edge switches are
//! split evenly over paths via every intermediate, regardless of the destination (mechanisms.md
//! P05; Greenberg et al.: VL2, SIGCOMM 2009).
//!
//! Readings: the intermediates are the switches farthest from hosts (cores, spines); if every
//! switch has hosts, as in wide-area networks, all others. A path goes to the intermediate and on
//! to the destination on shortest paths. Rules forward by flow, not by port of arrival, so a path
//! must not visit a switch twice. Intermediates with such paths are left out, and a pair without
//! intermediates (in a pod of a fat-tree) uses the equal-cost default routes. If the paths over two
//! intermediates are the same, the path counts twice. If there are more than `paths` intermediates,
//! each pair uses a different selection.
//!
//! - Helps: with traffic patterns that concentrate on some shortest paths.
//! - Hurts: in networks without tiers, where paths grow longer; large flows still collide.

use std::collections::VecDeque;

use net::{LinkIx, NodeIx};

use super::common::{Pair, default_routes, divide_all, is_switch, levels, on_network_change, spread_ranks};
use super::{NetworkView, Path};
use crate::entry::Entry;
use crate::hash::{combine, mix, reduce};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("sdn-vlb", "VLB (central)")
    .summary("Splits the flows of every pair of switches evenly over all intermediate switches.")
    .source("P05; SIGCOMM 2009 (VL2)")
    .senses("failures")
    .params(&[Param::count("paths", 1..=1024, "64")
        .unit("paths")
        .doc("Maximum number of intermediates per pair of edge switches.")])
    .central(|env, params| {
        let (paths_max, seed) = (params.count("paths") as u32, env.seed);
        on_network_change(move |view, placements| {
            default_routes::equal_cost(view, placements);
            let vias: Vec<Via> = intermediates(view).into_iter().map(|node| Via::new(view, node, seed)).collect();
            divide_all(view, placements, |pair| paths(view, &vias, paths_max, pair));
        })
    });

/// Shortest paths from and to an intermediate.
struct Via {
    node: NodeIx,
    /// By node: the link towards the intermediate.
    up: Vec<Option<LinkIx>>,
    /// By node: the last link of the path from the intermediate.
    down: Vec<Option<LinkIx>>,
}

fn paths(view: &NetworkView<'_>, vias: &[Via], paths_max: u32, pair: Pair) -> Vec<Path> {
    // Pairs start at different intermediates, so that a limit leaves none idle.
    let turn = reduce(mix(combine(u64::from(pair.from.0), u64::from(pair.node.0))), vias.len().max(1));
    let in_turn = spread_ranks(vias.len() as u32, paths_max).map(|nth| (nth as usize + turn) % vias.len());
    in_turn.filter_map(|via| vias[via].path(view, pair)).collect()
}

impl Via {
    fn new(view: &NetworkView<'_>, node: NodeIx, seed: u64) -> Via {
        Via { node, up: tree(view, node, seed, LinkIx::reverse), down: tree(view, node, seed, |link| link) }
    }

    /// Returns the path of a pair over this intermediate, unless it visits a switch twice.
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

/// Returns the switches farthest from hosts; all switches if the distance is the same everywhere.
fn intermediates(view: &NetworkView<'_>) -> Vec<NodeIx> {
    let levels = levels(view);
    let nodes = || (0..view.topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(view, *node));
    let top = nodes().map(|node| levels[node.ix()]).filter(|level| *level != u16::MAX).max().unwrap_or(0);
    nodes().filter(|node| levels[node.ix()] == top).collect()
}

/// Returns, by node, the link of a shortest-path tree around `root` that connects it; `used` maps a
/// link away from the root to the direction of traffic. Ties are drawn per node and root, so that
/// all parallel cables are used.
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
    use crate::central::testing::DrivenBalancer;
    use crate::central::{DecisionTrigger, WeightedPath};

    #[test]
    fn every_core_carries_its_part_of_every_pair_of_pods() {
        let driven = DrivenBalancer::new("sdn-vlb", 1, "fat-tree:k=4");
        assert_eq!(driven.placements.splits().len(), 8 * 6, "pairs inside a pod use the default routes");
        for paths in driven.splits() {
            let cores: BTreeSet<_> = paths.iter().map(|path| driven.network.topology.link(path.path[1]).to).collect();
            assert_eq!((paths.len(), cores.len()), (4, 4));
            assert!(paths.iter().all(|path| path.path.len() == 4));
        }
    }

    #[test]
    fn dead_intermediates_are_left_out_and_a_limit_is_kept() {
        let mut driven = DrivenBalancer::new("sdn-vlb:paths=3", 1, "leaf-spine:leaves=4,spines=4,hosts_per_leaf=2");
        assert_eq!(driven.placements.splits().len(), 4 * 3);
        assert!(driven.splits().all(|paths| paths.len() == 3));
        let spine_of = |path: &WeightedPath, driven: &DrivenBalancer| driven.network.topology.link(path.path[0]).to;
        let used: BTreeSet<_> = driven.splits().flatten().map(|path| spine_of(path, &driven)).collect();
        assert_eq!(used.len(), 4, "all spines are used by some pair");
        let spine = *used.first().unwrap();
        for link in driven.network.topology.out_links(spine).to_vec() {
            driven.network.set_cable(link, false);
        }
        driven.decide(DecisionTrigger::NetworkChanged);
        let over = |path: &Path| path.iter().any(|link| driven.network.topology.link(*link).to == spine);
        assert!(driven.splits().flatten().all(|path| !over(&path.path)));
        assert!(driven.splits().all(|paths| (2..=3).contains(&paths.len())));
    }

    #[test]
    fn networks_without_tiers_use_all_other_switches() {
        let longest = |family| DrivenBalancer::new("sdn-vlb", 1, family).splits().map(<[_]>::len).max();
        // Two of the nine nodes have no hosts; all eight routers of the other network have.
        assert_eq!((longest("geni-wan"), longest("flattened-butterfly:k=8,n=2")), (Some(2), Some(6)));
    }
}
