//! Compiled routing tables: next hops of all nodes to all classes, small enough for a cache.
//!
//! In a tree the same links lead to all racks of a pod, and up to all others. So the entries of some
//! rows for a class are stored once for all classes for which they are equal.

use std::collections::BTreeMap;

use balance::NextHops;
use net::routes::ClassIx;
use net::{Bandwidth, LinkIx, NodeIx, Routes, Topology};
use prefetch_index::prefetch_index;

/// Number of rows of one class that are stored together: the entries of a cache line.
const BLOCK: usize = 16;

/// Entries of some rows for one class: one cache line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(C, align(64))]
struct Block([Entry; BLOCK]);

/// Next hop of a node towards a class: a link, or the position of a group; the top two bits hold the
/// kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Entry(u32);

const KIND: u32 = 3 << 30;
const LINK: u32 = 0;
const GROUP: u32 = 1 << 30;
const LOCAL: u32 = 2 << 30;
const NOTHING: u32 = 3 << 30;

/// Entry of a table for a node and a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Link(u32),
    Group(Group),
    /// The node is that of the class.
    Local,
    Nothing,
}

impl Entry {
    #[inline]
    fn target(self) -> Target {
        match self.0 & KIND {
            LINK => Target::Link(self.0),
            GROUP => Target::Group(Group(self.0 & !KIND)),
            LOCAL => Target::Local,
            _ => Target::Nothing,
        }
    }
}

/// Equal-cost next hops: their position in `hops` of [`Tables`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Group(u32);

/// Number of values before the links of a group.
const HEADER: usize = 2;

/// Next hops of all nodes to all classes, as routing knows them. All partitions share them.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    blocks_per_class: usize,
    /// Block of `(class, row / BLOCK)`.
    index: Vec<u32>,
    blocks: Vec<Block>,
    /// Groups: the number of links, the paths beyond each if equal for all (else 0), and the links.
    hops: Vec<LinkIx>,
    /// Weights at the positions of links in `hops`; empty if no balancer needs them.
    weights: Vec<u32>,
}

impl Tables {
    /// Compiles the tables of nodes, one row for each.
    pub(super) fn compile(topology: &Topology, routes: &Routes, nodes: &[NodeIx], has_weights: bool) -> Tables {
        let mut compiler =
            Compiler { topology, routes, groups: BTreeMap::new(), last: vec![(&[], 0, Entry(NOTHING)); nodes.len()] };
        let mut tables = Tables { blocks_per_class: nodes.len().div_ceil(BLOCK), ..Tables::default() };
        let mut known: BTreeMap<Block, u32> = BTreeMap::new();
        for class in (0..routes.class_count() as u32).map(ClassIx) {
            let capacity = if has_weights { routes.capacities(topology, class) } else { Vec::new() };
            for first in (0..nodes.len()).step_by(BLOCK) {
                let mut block = Block([Entry(NOTHING); BLOCK]);
                for ((row, node), entry) in (first..).zip(&nodes[first..]).zip(&mut block.0) {
                    *entry = compiler.entry(&mut tables, (row, *node), class, &capacity);
                }
                tables.index.push(*known.entry(block).or_insert_with(|| {
                    tables.blocks.push(block);
                    tables.blocks.len() as u32 - 1
                }));
            }
        }
        tables
    }

    #[inline]
    fn position(&self, row: u32, class: usize) -> usize {
        class.wrapping_mul(self.blocks_per_class).wrapping_add(row as usize / BLOCK)
    }

    #[inline]
    pub(super) fn get(&self, row: u32, class: usize) -> Target {
        let block = self.index[self.position(row, class)];
        self.blocks[block as usize].0[row as usize % BLOCK].target()
    }

    /// Returns [`Tables::get`], or `None` for a node without a row.
    #[inline]
    pub(super) fn find(&self, row: u32, class: usize) -> Option<Target> {
        let block = self.index.get(self.position(row, class))?;
        Some(self.blocks[*block as usize].0[row as usize % BLOCK].target())
    }

    #[inline]
    pub(super) fn has_route(&self, row: u32, class: usize) -> bool {
        self.get(row, class) != Target::Nothing
    }

    #[inline]
    pub(super) fn links(&self, group: Group) -> &[LinkIx] {
        let first = group.0 as usize + HEADER;
        &self.hops[first..first + self.hops[group.0 as usize].0 as usize]
    }

    /// Returns the number of paths beyond each next hop if it is equal for all, else 0.
    #[inline]
    pub(super) fn paths_beyond_each(&self, group: Group) -> u32 {
        self.hops[group.0 as usize + 1].0
    }

    #[inline]
    pub(super) fn next_hops(&self, group: Group) -> NextHops<'_> {
        let (links, first) = (self.links(group), group.0 as usize + HEADER);
        NextHops { links, weights: self.weights.get(first..first + links.len()).unwrap_or_default() }
    }

    /// Loads into the caches where a block is.
    #[inline]
    pub(super) fn prefetch_index(&self, row: u32, class: usize) {
        prefetch_index(&self.index, self.position(row, class));
    }

    /// Loads a block into the caches.
    #[inline]
    pub(super) fn prefetch_block(&self, row: u32, class: usize) {
        if let Some(block) = self.index.get(self.position(row, class)) {
            prefetch_index(&self.blocks, *block as usize);
        }
    }
}

/// Groups that are known while tables are compiled.
struct Compiler<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
    /// Groups by their links, paths beyond each, and weights.
    groups: BTreeMap<(&'a [LinkIx], u32, Vec<u32>), u32>,
    /// The last entry of each row with a group, its next hops, and the paths beyond each.
    last: Vec<(&'a [LinkIx], u32, Entry)>,
}

impl Compiler<'_> {
    fn entry(
        &mut self,
        tables: &mut Tables,
        (row, node): (usize, NodeIx),
        class: ClassIx,
        capacity: &[Bandwidth],
    ) -> Entry {
        let hops = self.routes.next_hops(node, class);
        match hops {
            _ if node == self.routes.class_node(class) => return Entry(LOCAL),
            [] => return Entry(NOTHING),
            [only] => return Entry(LINK | only.0),
            _ => {}
        }
        let each = self.routes.paths_beyond_each(node, class);
        let (last_hops, last_each, last_entry) = self.last[row];
        if capacity.is_empty() && each == last_each && hops == last_hops {
            return last_entry;
        }
        let weights = hop_weights(self.topology, capacity, hops);
        let entry = Entry(
            GROUP
                | *self.groups.entry((hops, each, weights)).or_insert_with_key(|(hops, each, weights)| {
                    let position = tables.hops.len() as u32;
                    tables.hops.extend([LinkIx(hops.len() as u32), LinkIx(*each)]);
                    tables.hops.extend_from_slice(hops);
                    if !weights.is_empty() {
                        tables.weights.extend([0; HEADER]);
                        tables.weights.extend_from_slice(weights);
                    }
                    position
                }),
        );
        self.last[row] = (hops, each, entry);
        entry
    }
}

/// Returns weights of next hops by capacity, at most 2^16 in total; empty without capacities.
fn hop_weights(topology: &Topology, capacity: &[Bandwidth], hops: &[LinkIx]) -> Vec<u32> {
    if capacity.is_empty() {
        return Vec::new();
    }
    let through = |link: &LinkIx| {
        let link = topology.link(*link);
        link.rate.min(capacity[link.to.ix()]).as_bps()
    };
    scaled_weights(hops.iter().map(through).collect()).into_vec()
}

/// Returns weights in proportion to rates, scaled to at most 2^16 in total and at least 1 each.
pub(crate) fn scaled_weights(rates: Vec<u64>) -> Box<[u32]> {
    let total = rates.iter().fold(0, |sum: u64, rate| sum.saturating_add(*rate)).max(1);
    rates.iter().map(|rate| (u128::from(*rate) * 65_536 / u128::from(total)).max(1) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares all entries with the routes from which they were compiled.
    fn check(topology: &Topology, routes: &Routes, has_weights: bool) -> Tables {
        let nodes: Vec<NodeIx> = (0..topology.nodes().len() as u32).map(NodeIx).collect();
        let tables = Tables::compile(topology, routes, &nodes, has_weights);
        for class in (0..routes.class_count() as u32).map(ClassIx) {
            let capacity = if has_weights { routes.capacities(topology, class) } else { Vec::new() };
            for node in &nodes {
                let hops = routes.next_hops(*node, class);
                match tables.get(node.0, class.0 as usize) {
                    Target::Local => assert_eq!(*node, routes.class_node(class)),
                    Target::Nothing => assert!(hops.is_empty()),
                    Target::Link(link) => assert_eq!(hops, [LinkIx(link)]),
                    Target::Group(group) => {
                        let weights = hop_weights(topology, &capacity, hops);
                        assert_eq!(tables.next_hops(group).links, hops);
                        assert_eq!(tables.next_hops(group).weights, weights);
                        let each = tables.paths_beyond_each(group);
                        let beyond = |link: &LinkIx| routes.path_count(topology.link(*link).to, class);
                        assert_eq!(each > 0, hops.iter().all(|link| beyond(link) == beyond(&hops[0])));
                        assert!(each == 0 || each == beyond(&hops[0]));
                    }
                }
            }
        }
        tables
    }

    #[test]
    fn tables_equal_the_routes_with_and_without_failures() {
        let topology = net::families::FatTree { k: 6, ..Default::default() }.build().expect("valid");
        let mut alive = vec![true; topology.links().len()];
        for failed in [0, 40, 3] {
            (0..failed).for_each(|at| alive[at * 7 % topology.links().len()] = false);
            let routes = Routes::new(&topology, &alive);
            check(&topology, &routes, false);
            check(&topology, &routes, true);
        }
    }

    #[test]
    fn tables_of_a_fat_tree_are_several_times_smaller_than_its_rows_times_classes() {
        let topology = net::families::FatTree { k: 16, ..Default::default() }.build().expect("valid");
        let tables = check(&topology, &Routes::intact(&topology), false);
        let dense = topology.nodes().len() * 128 * size_of::<Entry>();
        let compact = size_of_val(&*tables.index) + size_of_val(&*tables.blocks) + size_of_val(&*tables.hops);
        assert!(compact * 4 < dense, "{compact} of {dense} bytes");
    }
}
