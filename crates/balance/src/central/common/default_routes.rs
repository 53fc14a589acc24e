//! Default routes of networks: equal-cost, weighted by capacity, or one tree per destination.

use std::collections::BTreeMap;
use std::sync::Arc;

use net::routes::ClassIx;
use net::{LinkIx, NodeIx};

use crate::central::common::edges::{edges, is_switch, levels};
use crate::central::{DefaultRoutes, HopTable, NetworkView, NextHop};
use crate::hash::{combine, mix, reduce};

/// Returns routes that spread flows evenly over all equal-cost next hops.
pub fn equal_cost(view: &NetworkView<'_>) -> DefaultRoutes {
    let mut shared: BTreeMap<&[LinkIx], Arc<[NextHop]>> = BTreeMap::new();
    table(view, |_, _, hops| {
        let with_weight = || hops.iter().map(|link| NextHop { link: *link, weight: 1 }).collect();
        Arc::clone(shared.entry(hops).or_insert_with(with_weight))
    })
}

/// Returns routes weighted by the capacity beyond next hops (WCMP; Zhou et al., EuroSys 2014).
pub fn by_capacity(view: &NetworkView<'_>) -> DefaultRoutes {
    let mut of_class = (None, Vec::new());
    table(view, |node, class, _| {
        if of_class.0 != Some(class) {
            of_class = (Some(class), view.routes.capacities(view.topology, class));
        }
        let capacities = view.routes.weights_from(view.topology, &of_class.1, node, class);
        let weights = weights(&capacities.iter().map(|capacity| capacity.as_bps()).collect::<Vec<_>>());
        let hops = view.routes.next_hops(node, class).iter();
        hops.zip(weights).map(|(link, weight)| NextHop { link: *link, weight }).collect()
    })
}

/// Returns routes on which everything for a destination takes the lowest port at every tie.
pub fn first_port(view: &NetworkView<'_>) -> DefaultRoutes {
    table(view, |_, _, hops| Arc::new([NextHop { link: hops[0], weight: 1 }]))
}

/// Returns routes with a random tree per destination switch: one core of a fat-tree.
pub fn tree_per_edge(view: &NetworkView<'_>, seed: u64) -> DefaultRoutes {
    let levels = levels(view);
    table(view, |node, class, hops| {
        let key = combine(mix(seed), u64::from(view.routes.class_node(class).0));
        let at = reduce(combine(key, u64::from(levels[node.ix()])), hops.len());
        Arc::new([NextHop { link: hops[at], weight: 1 }])
    })
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

/// Returns the next hops of every switch for every reachable switch with hosts.
fn table<'a>(
    view: &NetworkView<'a>,
    mut choose: impl FnMut(NodeIx, ClassIx, &'a [LinkIx]) -> Arc<[NextHop]>,
) -> DefaultRoutes {
    let nodes = || (0..view.topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(view, *node));
    let mut rows = Vec::new();
    for (edge, class) in edges(view) {
        for node in nodes() {
            let hops = view.routes.next_hops(node, class);
            if !hops.is_empty() {
                rows.push(((node, edge), choose(node, class, hops)));
            }
        }
    }
    DefaultRoutes::Hops(Arc::new(HopTable(rows.into_iter().collect())))
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
