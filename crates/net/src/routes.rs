//! Equal-cost shortest paths to every destination, as next-hop sets.
//!
//! Destinations are grouped into classes. Hosts behind one switch share a class (the switch), so
//! the tables grow with the number of racks, not of hosts. A host with several links is its own
//! class.

mod incremental;
mod search;
mod twins;

use std::sync::Arc;

use crate::topology::{HostIx, LinkIx, NodeIx, Topology};
use crate::units::Bandwidth;
pub use incremental::IncrementalRoutes;

/// Index of a destination class; see [`Routes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassIx(pub u32);

/// The shortest-path DAG (by hops) towards each destination class over the links that are alive.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Destination node of each class: the switch of single-homed hosts, otherwise the host itself.
    class_node: Vec<NodeIx>,
    host_class: Vec<ClassIx>,
    /// Last link to each host whose class is a switch.
    host_link: Vec<Option<LinkIx>>,
    rows: Vec<Row>,
    /// Node of each own row.
    row_node: Vec<NodeIx>,
    blocks_per_class: usize,
    /// Block of `(class, row / BLOCK)`; class first, as a path is walked within one class.
    blocks: Vec<u32>,
    /// Position in `hops` of `(block, row % BLOCK)`: the number of next hops, followed by them.
    table: Vec<u32>,
    /// Summary of `(block, row % BLOCK)`.
    beyond: Vec<PathSummary>,
    hops: Vec<LinkIx>,
    versions: Vec<ClassVersion>,
    lineage: Arc<()>,
}

/// Identity of the tables of one class: equal versions mean equal paths from every switch.
#[derive(Clone, Debug)]
pub struct ClassVersion(Arc<Version>);

#[derive(Debug)]
struct Version {
    /// The same for all versions in which a block has the same number.
    lineage: Arc<()>,
    blocks: Box<[u32]>,
}

impl PartialEq for ClassVersion {
    fn eq(&self, other: &ClassVersion) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ClassVersion {}

/// Number of rows of one class that are stored once for all classes with the same content. In a
/// tree the same links lead to all racks of a pod, and up to all others. A table of millions of
/// entries therefore shrinks to a size that fits a cache.
const BLOCK: usize = 32;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PathSummary {
    /// Number of equal-cost paths, saturating; 0 if unreachable.
    count: u32,
    /// Links to the class node; `u16::MAX` if unreachable.
    distance: u16,
    /// Whether all next hops continue over equally many paths: ranks then follow by division.
    is_even: bool,
}

impl PathSummary {
    const UNREACHABLE: PathSummary = PathSummary { count: 0, distance: u16::MAX, is_even: false };
}

/// The location of a node's entries. In a large network nearly all nodes are hosts with one link.
/// They have no separate row, which makes the table several times smaller.
#[derive(Clone, Copy, Debug)]
enum Row {
    /// The node's own row.
    Own(u32),
    /// The row of the host's switch, reached over the one link in `hops` (none if it is dead).
    Behind { switch: u32, hop: u32 },
}

impl Routes {
    /// Computes the tables over links with `alive[link]`; next hops are in port order.
    ///
    /// Classes depend on the topology only, so they stay comparable across failures.
    pub fn new(topology: &Topology, alive: &[bool]) -> Routes {
        IncrementalRoutes::new(topology, alive).into()
    }

    /// Computes the tables with every link alive.
    pub fn intact(topology: &Topology) -> Routes {
        Routes::new(topology, &vec![true; topology.links().len()])
    }

    /// Returns the number of destination classes.
    pub fn class_count(&self) -> usize {
        self.class_node.len()
    }
    /// Returns the class of a host.
    pub fn class_of(&self, host: HostIx) -> ClassIx {
        self.host_class[host.ix()]
    }
    /// Returns the node that leads to all hosts of a class: their switch, or the host itself.
    pub fn class_node(&self, class: ClassIx) -> NodeIx {
        self.class_node[class.0 as usize]
    }
    /// Returns the version of the tables of a class. [`IncrementalRoutes`] keeps the version of a
    /// class that does not change, so results derived from its tables stay valid.
    pub fn version(&self, class: ClassIx) -> &ClassVersion {
        &self.versions[class.0 as usize]
    }
    /// Returns the switches, and hosts with several links, whose next hops towards a class differ
    /// from those of an earlier version, in the order of their numbers; `None` if all may differ.
    pub fn changed_since(&self, class: ClassIx, earlier: &ClassVersion) -> Option<Vec<NodeIx>> {
        let (before, now) = (&earlier.0, &self.version(class).0);
        if !Arc::ptr_eq(&before.lineage, &now.lineage) {
            return None;
        }
        let mut changed = Vec::new();
        let rows = self.row_node.chunks(BLOCK);
        for ((block, nodes), old) in
            now.blocks.iter().zip(rows).zip(before.blocks.iter().map(Some).chain(std::iter::repeat(None)))
        {
            let entry = |block: &u32, at: usize| self.table[*block as usize * BLOCK + at];
            let is_same = |at: usize| entry(block, at) == old.map_or(NO_HOPS, |old| entry(old, at));
            changed.extend(
                nodes.iter().enumerate().filter(|(at, _)| old != Some(block) && !is_same(*at)).map(|(_, node)| *node),
            );
        }
        Some(changed)
    }
    /// Returns the class of `node`, if it has one.
    pub fn class_at(&self, node: NodeIx) -> Option<ClassIx> {
        self.class_node.iter().position(|n| *n == node).map(|class| ClassIx(class as u32))
    }
    /// Returns the link from the class node to the host; `None` if the class is the host.
    pub fn last_link(&self, host: HostIx) -> Option<LinkIx> {
        self.host_link[host.ix()]
    }
    /// Returns the equal-cost next hops of `node` towards `class`, in port order. They are empty at
    /// the class node and where no path exists.
    #[inline]
    pub fn next_hops(&self, node: NodeIx, class: ClassIx) -> &[LinkIx] {
        let at = match self.rows[node.ix()] {
            Row::Own(row) => self.table[self.slot(row, class)],
            Row::Behind { switch, hop } if self.beyond[self.slot(switch, class)].count > 0 => hop,
            Row::Behind { .. } => NO_HOPS,
        };
        self.hops_at(at)
    }
    /// Returns the number of equal-cost paths, saturating; 1 at the class node, 0 without a path.
    #[inline]
    pub fn path_count(&self, node: NodeIx, class: ClassIx) -> u32 {
        match self.rows[node.ix()] {
            Row::Own(row) => self.beyond[self.slot(row, class)].count,
            Row::Behind { hop: NO_HOPS, .. } => 0,
            Row::Behind { switch, .. } => self.beyond[self.slot(switch, class)].count,
        }
    }
    /// Returns the number of equal-cost paths beyond each next hop of `node`, or 0 if it differs
    /// between them or is unknown.
    #[inline]
    pub fn paths_beyond_each(&self, node: NodeIx, class: ClassIx) -> u32 {
        match self.rows[node.ix()] {
            Row::Own(row) => {
                let slot = self.slot(row, class);
                let PathSummary { count, is_even, .. } = self.beyond[slot];
                if is_even { count / self.hops_at(self.table[slot]).len().max(1) as u32 } else { 0 }
            }
            Row::Behind { .. } => self.path_count(node, class),
        }
    }
    /// Returns the number of links from `node` to the class node; `None` without a path.
    pub fn distance(&self, node: NodeIx, class: ClassIx) -> Option<u16> {
        let (row, farther) = match self.rows[node.ix()] {
            Row::Own(row) => (row, 0),
            Row::Behind { hop: NO_HOPS, .. } => return None,
            Row::Behind { switch, .. } => (switch, 1),
        };
        let distance = self.beyond[self.slot(row, class)].distance;
        (distance != u16::MAX).then_some(distance.saturating_add(farther))
    }

    /// Returns the links of path number `rank` (0 .. `path_count`) from `node` to `class`. Ranks
    /// count the paths of the DAG depth first in port order, so a rank identifies a list of ports.
    ///
    /// Returns an empty path if `rank` is out of range.
    pub fn path(&self, topology: &Topology, node: NodeIx, class: ClassIx, rank: u32) -> Vec<LinkIx> {
        let (mut at, mut rank, mut path) = (node, rank, Vec::new());
        while at != self.class_node(class) {
            let Some((link, rest)) = self.step(topology, at, class, rank) else { return Vec::new() };
            path.push(link);
            at = topology.link(link).to;
            rank = rest;
        }
        path
    }

    /// Returns the next link of path number `rank` at `node`, and the rank at its far end.
    pub fn step(&self, topology: &Topology, node: NodeIx, class: ClassIx, rank: u32) -> Option<(LinkIx, u32)> {
        match self.paths_beyond_each(node, class) {
            0 => self.step_unevenly(topology, node, class, rank),
            each => self.next_hops(node, class).get((rank / each) as usize).map(|link| (*link, rank % each)),
        }
    }

    fn step_unevenly(&self, topology: &Topology, node: NodeIx, class: ClassIx, rank: u32) -> Option<(LinkIx, u32)> {
        let mut rest = rank;
        for link in self.next_hops(node, class) {
            let beyond = self.path_count(topology.link(*link).to, class);
            if rest < beyond {
                return Some((*link, rest));
            }
            rest -= beyond;
        }
        None
    }

    /// Returns, by [`NodeIx`], the capacity of the shortest-path DAG from every node to `class`:
    /// `cap(node) = sum over next hops of min(rate, cap(far end))`. It is unlimited (`u64::MAX`
    /// bit/s) at the class node and zero without a path. WCMP derives its weights from it (Zhou et
    /// al.: WCMP: Weighted Cost Multipathing for Improved Fairness in Data Centers, EuroSys 2014).
    ///
    /// Computed on each call; keep the result for several nodes.
    pub fn capacities(&self, topology: &Topology, class: ClassIx) -> Vec<Bandwidth> {
        let mut capacities = vec![Bandwidth::from_bps(0); topology.nodes().len()];
        let mut order: Vec<(u16, NodeIx)> = (0..topology.nodes().len() as u32)
            .filter_map(|node| Some((self.distance(NodeIx(node), class)?, NodeIx(node))))
            .collect();
        order.sort_unstable();
        for (_, node) in order {
            let through = self.weights_from(topology, &capacities, node, class);
            let sum = through.iter().fold(0u64, |sum, weight| sum.saturating_add(weight.as_bps()));
            let unlimited = node == self.class_node(class);
            capacities[node.ix()] = Bandwidth::from_bps(if unlimited { u64::MAX } else { sum });
        }
        capacities
    }
    /// Returns the WCMP weight of each next hop of `node` towards `class`, in the order of
    /// [`Routes::next_hops`]: the capacity reachable through it, `min(rate, cap(far end))`.
    pub fn capacity_weights(&self, topology: &Topology, node: NodeIx, class: ClassIx) -> Vec<Bandwidth> {
        self.weights_from(topology, &self.capacities(topology, class), node, class)
    }
    /// Returns [`Routes::capacity_weights`] from the result of [`Routes::capacities`].
    pub fn weights_from(
        &self,
        topology: &Topology,
        capacities: &[Bandwidth],
        node: NodeIx,
        class: ClassIx,
    ) -> Vec<Bandwidth> {
        let hops = self.next_hops(node, class).iter();
        hops.map(|hop| {
            let link = topology.link(*hop);
            link.rate.min(capacities[link.to.ix()])
        })
        .collect()
    }

    #[inline]
    fn slot(&self, row: u32, class: ClassIx) -> usize {
        let (block, at) = (row as usize / BLOCK, row as usize % BLOCK);
        self.blocks[class.0 as usize * self.blocks_per_class + block] as usize * BLOCK + at
    }
    #[inline]
    fn hops_at(&self, at: u32) -> &[LinkIx] {
        let at = at as usize;
        &self.hops[at + 1..at + 1 + self.hops[at].0 as usize]
    }
}

/// Position in `hops` of the empty set of next hops.
const NO_HOPS: u32 = 0;

#[cfg(test)]
mod tests;
