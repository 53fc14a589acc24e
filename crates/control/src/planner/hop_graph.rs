//! Next hops towards one destination as a graph of switches, without a copy of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use balance::central::{HopColumn, NextHop};
use net::NodeIx;

use crate::observer::network::Network;
use crate::planner::update_order::{Graph, NextHops};

/// Next hops that may be in effect now.
pub(crate) struct Effective<'a> {
    network: &'a Network,
    column: Option<&'a HopColumn>,
    /// Replaced next hops that may still be in effect, by switch.
    replaced: BTreeMap<NodeIx, Vec<&'a Arc<[NextHop]>>>,
    /// Next hops of unconfirmed switches.
    unconfirmed: Option<&'a Graph>,
}

/// Next hops that will be in effect.
pub(super) struct Desired<'a> {
    pub(super) network: &'a Network,
    pub(super) to: NodeIx,
    pub(super) column: Option<&'a HopColumn>,
    /// Unconfirmed switches do not change: their possible next hops stay.
    pub(super) unconfirmed: Option<&'a Graph>,
}

/// The desired next hops of some switches, in the order of their numbers.
pub(super) struct Partly<'a> {
    pub(super) switches: &'a [NodeIx],
    pub(super) of: &'a Desired<'a>,
}

/// Next hops of a flow with a pinned path.
pub(super) struct OnPath<'a> {
    /// Next switch of each switch on the path, if it is known.
    pub(super) path: &'a BTreeMap<NodeIx, Option<NodeIx>>,
    pub(super) others: &'a Effective<'a>,
}

impl<'a> Effective<'a> {
    pub(super) fn new(
        network: &'a Network,
        column: Option<&'a HopColumn>,
        replaced: &'a [(NodeIx, Arc<[NextHop]>)],
        unconfirmed: Option<&'a Graph>,
    ) -> Effective<'a> {
        let mut by_switch: BTreeMap<NodeIx, Vec<&Arc<[NextHop]>>> = BTreeMap::new();
        for (node, hops) in replaced {
            by_switch.entry(*node).or_default().push(hops);
        }
        Effective { network, column, replaced: by_switch, unconfirmed }
    }
    pub(super) fn has_unconfirmed(&self) -> bool {
        self.unconfirmed.is_some()
    }
    /// Returns the number of switches that may have next hops.
    pub(super) fn switch_count(&self) -> usize {
        let mut switches = Vec::new();
        self.add_switches(&mut switches);
        switches.sort_unstable();
        switches.dedup();
        switches.len()
    }
}

impl NextHops for Effective<'_> {
    fn add_switches(&self, found: &mut Vec<NodeIx>) {
        add_rows(self.column, found);
        found.extend(self.replaced.keys());
        found.extend(self.unconfirmed.into_iter().flat_map(BTreeMap::keys));
    }
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>) {
        let replaced = self.replaced.get(&from).into_iter().flatten().copied();
        for hops in self.column.and_then(|column| column.get(from)).into_iter().chain(replaced) {
            add_far_ends(self.network, hops, found);
        }
        if let Some(graph) = self.unconfirmed {
            graph.add_next(from, found);
        }
    }
}

impl NextHops for OnPath<'_> {
    fn add_switches(&self, found: &mut Vec<NodeIx>) {
        found.extend(self.path.keys());
        self.others.add_switches(found);
    }
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>) {
        match self.path.get(&from) {
            Some(next) => found.extend(*next),
            None => self.others.add_next(from, found),
        }
    }
}

impl NextHops for Desired<'_> {
    fn add_switches(&self, found: &mut Vec<NodeIx>) {
        add_rows(self.column, found);
        found.extend(self.unconfirmed.into_iter().flat_map(BTreeMap::keys));
    }
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>) {
        if let Some(hops) = self.column.and_then(|column| column.get(from)).filter(|_| from != self.to) {
            add_far_ends(self.network, hops, found);
        }
        if let Some(graph) = self.unconfirmed {
            graph.add_next(from, found);
        }
    }
}

impl NextHops for Partly<'_> {
    fn add_switches(&self, found: &mut Vec<NodeIx>) {
        found.extend(self.switches);
    }
    fn add_next(&self, from: NodeIx, found: &mut Vec<NodeIx>) {
        if self.switches.binary_search(&from).is_ok() {
            self.of.add_next(from, found);
        }
    }
}

fn add_rows(column: Option<&HopColumn>, found: &mut Vec<NodeIx>) {
    found.extend(column.into_iter().flat_map(HopColumn::rows).map(|(node, _)| *node));
}

fn add_far_ends(network: &Network, hops: &[NextHop], found: &mut Vec<NodeIx>) {
    found.extend(hops.iter().filter_map(|hop| network.far_end(hop.link)));
}
