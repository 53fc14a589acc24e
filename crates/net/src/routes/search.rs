//! The search for shortest paths to one destination.

use super::{NO_HOPS, PathSummary};
use crate::topology::{LinkIx, NodeIx, Topology};

/// Position in `hops`, and summary, of a row of one class.
pub(super) type Entry = (u32, PathSummary);

pub(super) const UNREACHABLE: Entry = (NO_HOPS, PathSummary::UNREACHABLE);

/// A network in the state for which routes are computed.
#[derive(Clone, Copy)]
pub(super) struct State<'a> {
    pub(super) topology: &'a Topology,
    pub(super) alive: &'a [bool],
}

impl State<'_> {
    /// Returns whether a node may be before the end of a path.
    pub(super) fn leads_on(self, node: NodeIx, target: NodeIx) -> bool {
        node == target || self.topology.node(node).forwards
    }

    /// Finds the next hops of a node, in port order. Returns the summary of its paths.
    pub(super) fn hops(
        self,
        (node, target, distance): (NodeIx, NodeIx, u16),
        found: &mut Vec<LinkIx>,
        summary_of: impl Fn(NodeIx) -> PathSummary,
    ) -> PathSummary {
        let out = self.topology.out_links(node).iter().map(|link| (*link, self.topology.link(*link).to));
        let usable = out.filter(|(link, to)| self.alive[link.ix()] && self.leads_on(*to, target));
        summarise(distance, usable.map(|(link, to)| (link, summary_of(to))), found)
    }
}

/// Finds the next hops at a distance from the target, among links with the paths beyond them. Returns
/// the summary of the paths over these.
#[inline]
fn summarise(
    distance: u16,
    links: impl Iterator<Item = (LinkIx, PathSummary)>,
    found: &mut Vec<LinkIx>,
) -> PathSummary {
    found.clear();
    let (mut count, mut first, mut is_even) = (0u32, None, true);
    for (link, beyond) in links.filter(|(_, beyond)| beyond.distance != u16::MAX && beyond.distance + 1 == distance) {
        found.push(link);
        count = count.saturating_add(beyond.count);
        is_even &= beyond.count > 0 && *first.get_or_insert(beyond.count) == beyond.count;
    }
    // A saturated count is not a product.
    PathSummary { count, distance, is_even: is_even && count < u32::MAX }
}

/// The links between rows. Nearly all nodes of a large network are hosts without a row, which a search
/// would visit for each class.
#[derive(Clone, Debug, Default)]
pub(super) struct RowGraph {
    /// Position of the first link of each row, and the end of the last one.
    first: Vec<u32>,
    /// Links in port order, with the rows that they lead to.
    links: Vec<(LinkIx, u32)>,
    forwards: Vec<bool>,
}

impl RowGraph {
    pub(super) fn new(topology: &Topology, row_node: &[NodeIx], row_of: impl Fn(NodeIx) -> Option<u32>) -> RowGraph {
        let mut graph = RowGraph { first: vec![0], ..RowGraph::default() };
        for node in row_node {
            let out = topology.out_links(*node).iter();
            graph.links.extend(out.filter_map(|link| Some((*link, row_of(topology.link(*link).to)?))));
            graph.first.push(graph.links.len() as u32);
            graph.forwards.push(topology.node(*node).forwards);
        }
        graph
    }

    pub(super) fn links_of(&self, row: u32) -> &[(LinkIx, u32)] {
        &self.links[self.first[row as usize] as usize..self.first[row as usize + 1] as usize]
    }

    pub(super) fn leads_on(&self, row: u32, target: u32) -> bool {
        row == target || self.forwards[row as usize]
    }

    /// Finds the next hops of a row, in port order. Returns the summary of its paths.
    pub(super) fn hops(
        &self,
        (row, target): (u32, u32),
        alive: &[bool],
        found: &mut Vec<LinkIx>,
        column: &[Entry],
    ) -> PathSummary {
        let summary_of = |row: u32| column[row as usize].1;
        let out = self.links_of(row).iter();
        let usable = out.filter(|(link, to)| alive[link.ix()] && self.leads_on(*to, target));
        summarise(summary_of(row).distance, usable.map(|(link, to)| (*link, summary_of(*to))), found)
    }

    /// Sets the hop distance of every row to `target`. Returns the reachable rows, nearest first.
    pub(super) fn distances_to(&self, target: u32, alive: &[bool], column: &mut [Entry]) -> Vec<u32> {
        column[target as usize].1.distance = 0;
        let mut order = vec![target];
        let mut next = 0;
        while let Some(row) = order.get(next).copied() {
            next += 1;
            if !self.leads_on(row, target) {
                continue;
            }
            let distance = column[row as usize].1.distance + 1;
            for (out, from) in self.links_of(row) {
                // Cables are walked backwards: traffic uses the reverse direction of the link.
                let behind = &mut column[*from as usize].1.distance;
                if *behind == u16::MAX && alive[out.reverse().ix()] {
                    *behind = distance;
                    order.push(*from);
                }
            }
        }
        order
    }
}
