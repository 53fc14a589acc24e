//! Computation of routes, and their update after changes of links.
//!
//! A change of a link concerns the classes for which it is on a shortest path, before or after. If
//! no distance to a class changes, only the rows that use the link and those that count paths
//! through them are computed again; otherwise all rows of the class.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use super::search::{Entry, RowGraph, State, UNREACHABLE};
use super::twins::{Twins, differences};
use super::{BLOCK, ClassIx, ClassVersion, NO_HOPS, PathSummary, Routes, Row, Version};
use crate::topology::{LinkIx, NodeIx, NodeKind, Topology};

/// Routes of a network whose links change, and to which nodes and links are added at the end.
#[derive(Clone, Debug, Default)]
pub struct IncrementalRoutes {
    routes: Routes,
    tables: InternTables,
    /// The links that are alive in the tables.
    alive: Vec<bool>,
    /// Number of blocks in use, when they were last counted.
    blocks_used: usize,
    scratch: Vec<LinkIx>,
    /// The links between rows, if they have been needed since nodes or links were added, and the
    /// classes computed in full since then.
    graph: Option<(RowGraph, Twins)>,
    /// Next hops of each row towards the class computed last: usually also those towards the next one.
    last_hops: Vec<u32>,
}

/// The repeated parts of tables, with their positions.
#[derive(Clone, Debug, Default)]
struct InternTables {
    hops: BTreeMap<Vec<LinkIx>, u32>,
    blocks: BTreeMap<Vec<Entry>, u32>,
}

impl From<IncrementalRoutes> for Routes {
    fn from(incremental: IncrementalRoutes) -> Routes {
        incremental.routes
    }
}

impl Deref for IncrementalRoutes {
    type Target = Routes;
    fn deref(&self) -> &Routes {
        &self.routes
    }
}

impl IncrementalRoutes {
    /// Computes the tables over links with `alive[link]`.
    pub fn new(topology: &Topology, alive: &[bool]) -> IncrementalRoutes {
        let mut incremental = IncrementalRoutes::default();
        incremental.routes.hops.push(LinkIx(0)); // NO_HOPS
        incremental.tables.hops.insert(Vec::new(), NO_HOPS);
        incremental.extend(topology, alive);
        incremental.blocks_used = incremental.tables.blocks.len();
        incremental
    }

    /// Updates the tables. Since the last call, nodes and links may have been added to the topology
    /// at the end. The result equals [`Routes::new`], but unchanged classes keep their version.
    pub fn update(&mut self, topology: &Topology, alive: &[bool]) {
        if !self.is_continued_by(topology) || self.is_sparse() {
            *self = IncrementalRoutes::new(topology, alive);
            return;
        }
        self.extend(topology, alive);
    }

    /// Returns whether most blocks are not used any more.
    fn is_sparse(&mut self) -> bool {
        let blocks = self.tables.blocks.len();
        if blocks > 2 * self.blocks_used + 1024 {
            let used: BTreeSet<u32> = self.routes.blocks.iter().copied().collect();
            self.blocks_used = used.len();
        }
        blocks > 2 * self.blocks_used + 1024
    }

    /// Returns whether the nodes and hosts of the tables are as they were.
    fn is_continued_by(&self, topology: &Topology) -> bool {
        let (nodes, hosts) = (self.routes.rows.len(), self.routes.host_link.len());
        if (topology.nodes().len(), topology.links().len()) == (nodes, self.alive.len()) {
            return true;
        }
        let is_kept = |(host, link): (&NodeIx, &Option<LinkIx>)| single_link(topology, *host) == *link;
        topology.nodes().len() >= nodes
            && topology.hosts().len() >= hosts
            && topology.hosts().get(hosts).is_none_or(|host| host.ix() >= nodes)
            && topology.hosts().iter().zip(&self.routes.host_link).all(is_kept)
    }

    /// Adds the nodes that are new, and updates all tables for the links that have changed.
    fn extend(&mut self, topology: &Topology, alive: &[bool]) {
        let state = State { topology, alive };
        let before = |link: usize| self.alive.get(link).copied().unwrap_or(false);
        let changed: Vec<LinkIx> =
            (0..alive.len()).filter(|link| alive[*link] != before(*link)).map(|link| LinkIx(link as u32)).collect();
        self.alive.resize(alive.len(), false);
        self.alive.copy_from_slice(alive);
        self.graph = None;
        let known_classes = self.routes.class_node.len();
        self.add_classes(topology);
        self.add_rows(state, &changed);
        for class in 0..known_classes {
            self.update_class(state, class, &changed);
        }
        for class in known_classes..self.routes.class_node.len() {
            self.compute_class(state, class);
        }
    }

    /// Adds the classes and last links of new hosts.
    fn add_classes(&mut self, topology: &Topology) {
        let routes = &mut self.routes;
        let mut class_of_node = vec![u32::MAX; topology.nodes().len()];
        for (class, node) in routes.class_node.iter().enumerate() {
            class_of_node[node.ix()] = class as u32;
        }
        for host in &topology.hosts()[routes.host_link.len()..] {
            let down = single_link(topology, *host);
            let node = down.map_or(*host, |down| topology.link(down).from);
            if class_of_node[node.ix()] == u32::MAX {
                class_of_node[node.ix()] = routes.class_node.len() as u32;
                routes.class_node.push(node);
            }
            routes.host_class.push(ClassIx(class_of_node[node.ix()]));
            routes.host_link.push(down);
        }
    }

    /// Adds the rows of new nodes, and updates the rows of hosts whose link has changed.
    fn add_rows(&mut self, state: State<'_>, changed: &[LinkIx]) {
        let (topology, known) = (state.topology, self.routes.rows.len());
        let mut is_behind = vec![false; topology.nodes().len()];
        for (host, link) in topology.hosts().iter().zip(&self.routes.host_link) {
            is_behind[host.ix()] = link.is_some();
        }
        for is_behind in &is_behind[known..] {
            let node = NodeIx(self.routes.rows.len() as u32);
            self.routes.rows.push(Row::Own(self.routes.row_node.len() as u32));
            self.routes.row_node.extend((!is_behind).then_some(node));
        }
        let added = topology.hosts().iter().filter(|host| host.ix() >= known);
        let ends = changed.iter().map(|link| &topology.link(*link).from);
        for host in added.chain(ends).filter(|host| is_behind[host.ix()]) {
            let up = topology.out_links(*host)[0];
            let hops: &[LinkIx] = if state.alive[up.ix()] { &[up] } else { &[] };
            let hop = self.tables.intern(hops, &mut self.routes.hops);
            if let Row::Own(switch) = self.routes.rows[topology.link(up).to.ix()] {
                self.routes.rows[host.ix()] = Row::Behind { switch, hop };
            }
        }
        let blocks = self.routes.row_node.len().div_ceil(BLOCK);
        let before = std::mem::replace(&mut self.routes.blocks_per_class, blocks);
        if blocks != before && !self.routes.versions.is_empty() {
            let empty = self.routes.intern(&[UNREACHABLE; BLOCK], &mut self.tables);
            let old = std::mem::take(&mut self.routes.blocks);
            for of_class in old.chunks(before.max(1)) {
                self.routes.blocks.extend_from_slice(of_class);
                self.routes.blocks.extend(std::iter::repeat_n(empty, blocks - of_class.len()));
            }
        }
    }

    /// Updates the tables of a class after changes of links.
    fn update_class(&mut self, state: State<'_>, class: usize, changed: &[LinkIx]) {
        let target = self.routes.class_node[class];
        let mut open: BTreeSet<(u16, NodeIx)> = BTreeSet::new();
        for link in changed {
            let ends = state.topology.link(*link);
            let Row::Own(_) = self.routes.rows[ends.from.ix()] else { continue };
            let through = self.routes.summary(ends.to, class).distance.saturating_add(1);
            if through == u16::MAX || !state.leads_on(ends.to, target) {
                continue;
            }
            let here = self.routes.summary(ends.from, class).distance;
            if state.alive[link.ix()] && through < here {
                return self.compute_class(state, class);
            }
            if through == here {
                open.insert((here, ends.from));
            }
        }
        let Some(edits) = self.edits(state, class, open) else { return self.compute_class(state, class) };
        if edits.is_empty() {
            return;
        }
        let blocks = self.edited(class, &edits);
        self.routes.replace_blocks(class, &blocks);
        self.routes.versions[class] = self.routes.new_version(class);
    }

    /// Returns the new entries of rows, from those of some nodes on, nearest first. Returns `None`
    /// if a distance changes.
    fn edits(
        &mut self,
        state: State<'_>,
        class: usize,
        mut open: BTreeSet<(u16, NodeIx)>,
    ) -> Option<BTreeMap<u32, Entry>> {
        let target = self.routes.class_node[class];
        let mut edits: BTreeMap<u32, Entry> = BTreeMap::new();
        while let Some((distance, node)) = open.pop_first() {
            let Row::Own(row) = self.routes.rows[node.ix()] else { continue };
            let (routes, tables) = (&mut self.routes, &mut self.tables);
            let mut summary =
                state.hops((node, target, distance), &mut self.scratch, |next| match routes.rows[next.ix()] {
                    Row::Own(row) => edits.get(&row).map_or_else(|| routes.summary(next, class), |entry| entry.1),
                    Row::Behind { .. } => PathSummary::UNREACHABLE,
                });
            if self.scratch.is_empty() {
                return None;
            }
            summary.distance = distance;
            let entry = (tables.intern(&self.scratch, &mut routes.hops), summary);
            let before = routes.entry(row, class);
            if entry == before {
                continue;
            }
            if entry.1.count != before.1.count && state.leads_on(node, target) {
                for out in state.topology.out_links(node).iter().filter(|out| state.alive[out.reverse().ix()]) {
                    let from = state.topology.link(*out).to;
                    let is_own = matches!(routes.rows[from.ix()], Row::Own(_));
                    if is_own && routes.summary(from, class).distance == distance + 1 {
                        open.insert((distance + 1, from));
                    }
                }
            }
            edits.insert(row, entry);
        }
        Some(edits)
    }

    /// Returns the blocks of a class, with new entries of some rows.
    fn edited(&mut self, class: usize, edits: &BTreeMap<u32, Entry>) -> Vec<u32> {
        let first = class * self.routes.blocks_per_class;
        let mut blocks = self.routes.blocks[first..first + self.routes.blocks_per_class].to_vec();
        let mut rest = edits.iter().peekable();
        while let Some((row, _)) = rest.peek() {
            let position = **row as usize / BLOCK;
            let mut rows = self.routes.block(class, position);
            while let Some((row, entry)) = rest.next_if(|(row, _)| **row as usize / BLOCK == position) {
                rows[*row as usize % BLOCK] = *entry;
            }
            blocks[position] = self.routes.intern(&rows, &mut self.tables);
        }
        blocks
    }

    /// Computes all rows of a class.
    fn compute_class(&mut self, state: State<'_>, class: usize) {
        let blocks = match self.twin_of(state, class) {
            Some((row, twin, twin_class)) => {
                let edits = self.twin_edits(state, (row, twin), twin_class);
                self.edited(twin_class, &edits)
            }
            None => {
                let column = self.column(state, class);
                column.chunks(BLOCK).map(|rows| self.routes.intern(rows, &mut self.tables)).collect()
            }
        };
        if class == self.routes.versions.len() {
            self.routes.blocks.extend_from_slice(&blocks);
            self.routes.versions.push(self.routes.new_version(class));
        } else if self.routes.replace_blocks(class, &blocks) {
            self.routes.versions[class] = self.routes.new_version(class);
        }
    }

    fn graph(&mut self, topology: &Topology) -> &mut (RowGraph, Twins) {
        let routes = &self.routes;
        self.graph.get_or_insert_with(|| {
            let row_of = |node| routes.own_row(node);
            (RowGraph::new(topology, &routes.row_node, row_of), Twins::default())
        })
    }

    /// Returns the row of a class, and the row and number of a class with the same neighbours.
    fn twin_of(&mut self, state: State<'_>, class: usize) -> Option<(u32, u32, usize)> {
        let row = self.routes.own_row(self.routes.class_node[class])?;
        let (graph, twins) = self.graph(state.topology);
        twins.find(graph, state.alive, row, class).map(|(twin, twin_class)| (row, twin, twin_class))
    }

    /// Number of classes whose tables followed from those of others.
    #[cfg(test)]
    pub(super) fn twin_count(&self) -> usize {
        self.graph.as_ref().map_or(0, |(_, twins)| self.routes.class_count() - twins.searched())
    }

    fn twin_edits(&mut self, state: State<'_>, rows: (u32, u32), twin_class: usize) -> BTreeMap<u32, Entry> {
        self.graph(state.topology);
        let IncrementalRoutes { routes, tables, graph, .. } = self;
        let Some((graph, _)) = graph else { return BTreeMap::new() };
        let Routes { hops, .. } = routes;
        let mut all = std::mem::take(hops);
        let intern = |links: &[LinkIx]| tables.intern(links, &mut all);
        let edits = differences(graph, state.alive, rows, intern, |row| routes.entry(row, twin_class));
        routes.hops = all;
        edits
    }

    /// Returns the entries of all rows for one class from a search; blocks are full.
    pub(super) fn column(&mut self, state: State<'_>, class: usize) -> Vec<Entry> {
        self.graph(state.topology);
        let (routes, tables) = (&mut self.routes, &mut self.tables);
        let mut column = vec![UNREACHABLE; routes.blocks_per_class * BLOCK];
        let Some((graph, _)) = &self.graph else { return column };
        self.last_hops.resize(routes.row_node.len(), NO_HOPS);
        let Some(target) = routes.own_row(routes.class_node[class]) else { return column };
        for row in graph.distances_to(target, state.alive, &mut column) {
            if row == target {
                column[row as usize].1.count = 1;
                continue;
            }
            let summary = graph.hops((row, target), state.alive, &mut self.scratch, &column);
            let last = &mut self.last_hops[row as usize];
            if routes.hops_at(*last) != self.scratch {
                *last = tables.intern(&self.scratch, &mut routes.hops);
            }
            column[row as usize] = (*last, summary);
        }
        column
    }
}

impl InternTables {
    /// Returns the position of a set of next hops.
    fn intern(&mut self, hops: &[LinkIx], all: &mut Vec<LinkIx>) -> u32 {
        if let Some(at) = self.hops.get(hops) {
            return *at;
        }
        let at = all.len() as u32;
        all.push(LinkIx(hops.len() as u32));
        all.extend_from_slice(hops);
        self.hops.insert(hops.to_vec(), at);
        at
    }
}

impl Routes {
    fn new_version(&self, class: usize) -> ClassVersion {
        let first = class * self.blocks_per_class;
        let blocks = self.blocks[first..first + self.blocks_per_class].into();
        ClassVersion(Arc::new(Version { lineage: self.lineage.clone(), blocks }))
    }
    /// Returns whether one of the blocks of a class is different now.
    fn replace_blocks(&mut self, class: usize, blocks: &[u32]) -> bool {
        let first = class * self.blocks_per_class;
        let before = &mut self.blocks[first..first + self.blocks_per_class];
        let has_changed = before != blocks;
        before.copy_from_slice(blocks);
        has_changed
    }
    fn own_row(&self, node: NodeIx) -> Option<u32> {
        if let Row::Own(row) = self.rows[node.ix()] { Some(row) } else { None }
    }
    pub(super) fn entry(&self, row: u32, class: usize) -> Entry {
        let slot = self.slot(row, ClassIx(class as u32));
        (self.table[slot], self.beyond[slot])
    }
    /// Returns the summary of a node; hosts without an own row are no part of paths.
    fn summary(&self, node: NodeIx, class: usize) -> PathSummary {
        match self.rows[node.ix()] {
            Row::Own(row) => self.entry(row, class).1,
            Row::Behind { .. } => PathSummary::UNREACHABLE,
        }
    }
    fn block(&self, class: usize, block: usize) -> Vec<Entry> {
        let first = self.blocks[class * self.blocks_per_class + block] as usize * BLOCK;
        let rows = first..first + BLOCK;
        self.table[rows.clone()].iter().copied().zip(self.beyond[rows].iter().copied()).collect()
    }
    /// Returns the number of the block with these entries.
    fn intern(&mut self, rows: &[Entry], tables: &mut InternTables) -> u32 {
        if let Some(block) = tables.blocks.get(rows) {
            return *block;
        }
        let block = (self.table.len() / BLOCK) as u32;
        self.table.extend(rows.iter().map(|(hops, _)| *hops));
        self.beyond.extend(rows.iter().map(|(_, beyond)| *beyond));
        tables.blocks.insert(rows.to_vec(), block);
        block
    }
}

/// Returns the link from its switch to a host with one link, to a switch.
fn single_link(topology: &Topology, host: NodeIx) -> Option<LinkIx> {
    match topology.out_links(host) {
        [up] if topology.node(topology.link(*up).to).kind == NodeKind::Switch => Some(up.reverse()),
        _ => None,
    }
}
