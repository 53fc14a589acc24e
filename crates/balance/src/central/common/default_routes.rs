//! Default routes of networks: equal-cost, weighted by capacity, or one tree per destination.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::routes::{ClassIx, ClassVersion};
use net::{LinkIx, NodeIx};

use crate::central::common::edges::{edges, is_switch, levels};
use crate::central::{DefaultRoutes, HopColumn, HopTable, NetworkView, NextHop, Placements};
use crate::hash::{combine, mix, reduce};

/// The rule from which default routes follow, given the routes of the network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rule {
    EqualCost,
    ByCapacity,
    FirstPort,
    TreePerEdge { seed: u64, levels: Vec<u16> },
}

/// The rule of the default routes, and the version of the network's routes they follow from, by
/// destination. Link rates never change, so a destination with the same version has the same hops.
#[derive(Clone, Debug, Default)]
pub struct Derivation {
    rule: Option<Rule>,
    versions: BTreeMap<NodeIx, ClassVersion>,
}

/// Sets routes that spread flows evenly over all equal-cost next hops.
pub fn equal_cost(view: &NetworkView<'_>, placements: &mut Placements) {
    let mut shared: BTreeMap<&[LinkIx], Arc<[NextHop]>> = BTreeMap::new();
    set(view, placements, Rule::EqualCost, |_, _, hops, before| {
        let is_same =
            |before: &[NextHop]| before.iter().map(|hop| (hop.link, hop.weight)).eq(hops.iter().map(|link| (*link, 1)));
        match before {
            Some(before) if is_same(before) => before.clone(),
            _ => {
                let with_weight = || hops.iter().map(|link| NextHop { link: *link, weight: 1 }).collect();
                Arc::clone(shared.entry(hops).or_insert_with(with_weight))
            }
        }
    });
}

/// Sets routes weighted by the capacity beyond next hops (WCMP; Zhou et al., EuroSys 2014).
pub fn by_capacity(view: &NetworkView<'_>, placements: &mut Placements) {
    let mut of_class = (None, Vec::new());
    set(view, placements, Rule::ByCapacity, |node, class, hops, before| {
        if of_class.0 != Some(class) {
            of_class = (Some(class), view.routes.capacities(view.topology, class));
        }
        let capacities = view.routes.weights_from(view.topology, &of_class.1, node, class);
        let weights = weights(&capacities.iter().map(|capacity| capacity.as_bps()).collect::<Vec<_>>());
        let hops: Vec<NextHop> =
            hops.iter().zip(weights).map(|(link, weight)| NextHop { link: *link, weight }).collect();
        keep(before, &hops)
    });
}

/// Sets routes on which everything for a destination takes the lowest port at every tie.
pub fn first_port(view: &NetworkView<'_>, placements: &mut Placements) {
    set(view, placements, Rule::FirstPort, |_, _, hops, before| keep(before, &[NextHop { link: hops[0], weight: 1 }]));
}

/// Sets routes with a random tree per destination switch: one core of a fat-tree.
pub fn tree_per_edge(view: &NetworkView<'_>, placements: &mut Placements, seed: u64) {
    let levels = levels(view);
    let rule = Rule::TreePerEdge { seed, levels: levels.clone() };
    set(view, placements, rule, |node, class, hops, before| {
        let key = combine(mix(seed), u64::from(view.routes.class_node(class).0));
        let at = reduce(combine(key, u64::from(levels[node.ix()])), hops.len());
        keep(before, &[NextHop { link: hops[at], weight: 1 }])
    });
}

fn keep(before: Option<&Arc<[NextHop]>>, hops: &[NextHop]) -> Arc<[NextHop]> {
    before.filter(|before| before[..] == *hops).map_or_else(|| hops.into(), Arc::clone)
}

/// Returns small whole numbers in proportion to capacities, at least 1 each.
pub fn weights(capacities: &[u64]) -> Vec<u16> {
    let divisor = capacities.iter().copied().fold(0, greatest_common_divisor).max(1);
    let greatest = capacities.iter().copied().max().unwrap_or(0) / divisor;
    // Proportions that are too large for 16 bits are rounded.
    let limit = u64::from(u16::MAX);
    let scaled = |capacity: &u64| match capacity / divisor {
        exact if greatest <= limit => exact,
        exact => (u128::from(exact) * u128::from(limit) / u128::from(greatest)) as u64,
    };
    capacities.iter().map(|capacity| scaled(capacity).max(1) as u16).collect()
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Sets the next hops of every switch for every reachable switch with hosts. Calls `choose` with
/// the shortest next hops and those before, for destinations with another version than before.
fn set<'a>(
    view: &NetworkView<'a>,
    placements: &mut Placements,
    rule: Rule,
    mut choose: impl FnMut(NodeIx, ClassIx, &'a [LinkIx], Option<&Arc<[NextHop]>>) -> Arc<[NextHop]>,
) {
    let Derivation { rule: rule_before, mut versions } = placements.take_derivation();
    if rule_before.as_ref() != Some(&rule) {
        versions.clear();
    }
    let before = placements.default_routes().map(|DefaultRoutes::Hops(table)| Arc::clone(table)).unwrap_or_default();
    // Whether the next hops of a switch follow from its own shortest next hops alone.
    let is_by_switch = rule != Rule::ByCapacity;
    let nodes: Vec<NodeIx> =
        (0..view.topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(view, *node)).collect();
    let mut hops = |node: NodeIx, class: ClassIx, before: Option<&Arc<[NextHop]>>| {
        let hops = view.routes.next_hops(node, class);
        (!hops.is_empty()).then(|| choose(node, class, hops, before))
    };
    let column = |(edge, class): (NodeIx, ClassIx)| {
        let before = before.column(edge).cloned().unwrap_or_default();
        let version = view.routes.version(class);
        let earlier = versions.insert(edge, version.clone());
        if earlier.as_ref() == Some(version) {
            return (edge, before);
        }
        let changed = earlier.filter(|_| is_by_switch).and_then(|earlier| view.routes.changed_since(class, &earlier));
        let mut column = HopColumn::clone(&before);
        let rows = |node: &NodeIx| (*node, hops(*node, class, before.get(*node)));
        column.merge(changed.as_ref().unwrap_or(&nodes).iter().map(rows));
        (edge, if column == *before { before } else { Arc::new(column) })
    };
    let table: HopTable = edges(view).map(column).collect();
    placements.set_default_routes(DefaultRoutes::Hops(Arc::new(table)));
    placements.set_derivation(Derivation { rule: Some(rule), versions });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_the_smallest_whole_numbers() {
        assert_eq!(weights(&[10_000_000_000, 30_000_000_000]), [1, 3]);
        assert_eq!(weights(&[7, 7, 7]), [1, 1, 1]);
        assert_eq!(weights(&[1, 65_536]), [1, 65_535], "rounded where they do not fit, and never 0");
        assert!(weights(&[]).is_empty());
    }
}
