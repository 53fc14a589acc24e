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
        found.clear();
        let (mut count, mut first, mut is_even) = (0u32, None, true);
        for link in self.topology.out_links(node) {
            let to = self.topology.link(*link).to;
            let beyond = summary_of(to);
            let is_closer = beyond.distance != u16::MAX && beyond.distance + 1 == distance;
            if !is_closer || !self.alive[link.ix()] || !self.leads_on(to, target) {
                continue;
            }
            found.push(*link);
            count = count.saturating_add(beyond.count);
            is_even &= beyond.count > 0 && *first.get_or_insert(beyond.count) == beyond.count;
        }
        // A saturated count is not a product.
        PathSummary { count, distance, is_even: is_even && count < u32::MAX }
    }

    /// Sets the hop distance of every row to `target`. Returns the reachable nodes with their rows,
    /// nearest first.
    pub(super) fn distances_to(
        self,
        target: NodeIx,
        row_of: impl Fn(NodeIx) -> Option<usize>,
        column: &mut [Entry],
    ) -> Vec<(NodeIx, usize)> {
        let Some(row) = row_of(target) else { return Vec::new() };
        column[row].1.distance = 0;
        let mut order = vec![(target, row)];
        let mut next = 0;
        while let Some((node, row)) = order.get(next).copied() {
            next += 1;
            if !self.leads_on(node, target) {
                continue;
            }
            for out in self.topology.out_links(node) {
                // Cables are walked backwards: traffic uses the reverse direction of the link.
                let (toward, from) = (out.reverse(), self.topology.link(*out).to);
                let Some(behind) = row_of(from).filter(|_| self.alive[toward.ix()]) else { continue };
                if column[behind].1.distance == u16::MAX {
                    column[behind].1.distance = column[row].1.distance + 1;
                    order.push((from, behind));
                }
            }
        }
        order
    }
}
