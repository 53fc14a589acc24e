//! Equal-cost shortest paths to every destination, as next-hop sets.
//!
//! Destinations are grouped into classes. Hosts behind one switch share a class (the switch), so
//! the tables grow with the number of racks, not of hosts. A host with several links is its own
//! class.

use std::collections::BTreeMap;

use crate::topology::{HostIx, LinkIx, NodeIx, NodeKind, Topology};
use crate::units::Bandwidth;

/// Index of a destination class; see [`Routes`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassIx(pub u32);

/// The shortest-path DAG (by hops) towards each destination class over the links that are alive.
#[derive(Clone, Debug)]
pub struct Routes {
    /// Destination node of each class: the switch of single-homed hosts, otherwise the host itself.
    class_node: Vec<NodeIx>,
    host_class: Vec<ClassIx>,
    /// Last link to each host whose class is a switch.
    host_link: Vec<Option<LinkIx>>,
    rows: Vec<Row>,
    blocks_per_class: usize,
    /// Block of `(class, row / BLOCK)`; class first, as a path is walked within one class.
    blocks: Vec<u32>,
    /// Position in `hops` of `(block, row % BLOCK)`: the number of next hops, followed by them.
    table: Vec<u32>,
    /// Summary of `(block, row % BLOCK)`.
    beyond: Vec<PathSummary>,
    hops: Vec<LinkIx>,
}

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

/// The repeated parts of tables under construction, with their positions.
#[derive(Default)]
struct InternTables {
    hops: BTreeMap<Vec<LinkIx>, u32>,
    blocks: BTreeMap<Vec<(u32, PathSummary)>, u32>,
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
        let (class_node, host_class, host_link) = classes(topology);
        let class_count = class_node.len();
        let (rows, row_count, hops) = rows(topology, alive, &host_link);
        let mut routes = Routes {
            class_node,
            host_class,
            host_link,
            rows,
            blocks_per_class: row_count.div_ceil(BLOCK),
            blocks: Vec::with_capacity(row_count.div_ceil(BLOCK) * class_count),
            table: Vec::new(),
            beyond: Vec::new(),
            hops,
        };
        // Tables repeat few distinct sets of next hops and few distinct blocks; both are shared.
        let mut shared = InternTables::default();
        for class in 0..class_count {
            let column = routes.column(topology, alive, class, row_count, &mut shared.hops);
            routes.store(&column, &mut shared.blocks);
        }
        routes
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
        if let Row::Own(row) = self.rows[node.ix()]
            && let PathSummary { count, is_even: true, .. } = self.beyond[self.slot(row, class)]
        {
            let hops = self.hops_at(self.table[self.slot(row, class)]);
            let beyond = count / hops.len() as u32;
            return hops.get((rank / beyond) as usize).map(|link| (*link, rank % beyond));
        }
        self.step_unevenly(topology, node, class, rank)
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

    /// Computes the entries of all rows for one class.
    fn column(
        &mut self,
        topology: &Topology,
        alive: &[bool],
        class: usize,
        row_count: usize,
        shared: &mut BTreeMap<Vec<LinkIx>, u32>,
    ) -> Vec<(u32, PathSummary)> {
        let target = self.class_node[class];
        let row_of = |node: NodeIx| match self.rows[node.ix()] {
            Row::Own(row) => Some(row as usize),
            Row::Behind { .. } => None,
        };
        let (distance, order) = distances_to(topology, alive, target, |node| row_of(node).is_some());
        let mut column = vec![(NO_HOPS, PathSummary::UNREACHABLE); row_count];
        for node in order {
            let Some(row) = row_of(node) else { continue };
            let distance_here = distance[node.ix()];
            if node == target {
                column[row].1 = PathSummary { count: 1, distance: distance_here, is_even: false };
                continue;
            }
            let closer = |link: &LinkIx| {
                let to = topology.link(*link).to;
                alive[link.ix()]
                    && (to == target || topology.node(to).forwards)
                    && distance[to.ix()] != u16::MAX
                    && distance[to.ix()] + 1 == distance_here
            };
            let hops: Vec<LinkIx> = topology.out_links(node).iter().copied().filter(closer).collect();
            let beyond =
                || hops.iter().map(|link| row_of(topology.link(*link).to).map_or(0, |row| column[row].1.count));
            let count = beyond().fold(0u32, u32::saturating_add);
            // A saturated count is not a product.
            let is_even = count < u32::MAX && beyond().all(|paths| paths > 0 && Some(paths) == beyond().next());
            let at = *shared.entry(hops).or_insert_with_key(|hops| append(&mut self.hops, hops));
            column[row] = (at, PathSummary { count, distance: distance_here, is_even });
        }
        column
    }

    fn store(&mut self, column: &[(u32, PathSummary)], shared: &mut BTreeMap<Vec<(u32, PathSummary)>, u32>) {
        for rows in column.chunks(BLOCK) {
            let block = *shared.entry(rows.to_vec()).or_insert_with(|| {
                let block = self.table.len() / BLOCK;
                self.table.extend(rows.iter().map(|(hops, _)| *hops));
                self.beyond.extend(rows.iter().map(|(_, beyond)| *beyond));
                // The last block of a class may be shorter, but all are stored at full length.
                self.table.resize((block + 1) * BLOCK, NO_HOPS);
                self.beyond.resize((block + 1) * BLOCK, PathSummary::UNREACHABLE);
                block as u32
            });
            self.blocks.push(block);
        }
    }
}

/// Position in `hops` of the empty set of next hops.
const NO_HOPS: u32 = 0;

fn append(all: &mut Vec<LinkIx>, hops: &[LinkIx]) -> u32 {
    let at = all.len() as u32;
    all.push(LinkIx(hops.len() as u32));
    all.extend_from_slice(hops);
    at
}

/// Returns the node of every class, and the class and last link of every single-homed host.
fn classes(topology: &Topology) -> (Vec<NodeIx>, Vec<ClassIx>, Vec<Option<LinkIx>>) {
    let mut class_node: Vec<NodeIx> = Vec::new();
    let mut class_of_node = vec![u32::MAX; topology.nodes().len()];
    let mut host_class = Vec::with_capacity(topology.hosts().len());
    let mut host_link = Vec::with_capacity(topology.hosts().len());
    for host in topology.hosts() {
        let single = match topology.out_links(*host) {
            [up] if topology.node(topology.link(*up).to).kind == NodeKind::Switch => Some(*up),
            _ => None,
        };
        let node = single.map_or(*host, |up| topology.link(up).to);
        if class_of_node[node.ix()] == u32::MAX {
            class_of_node[node.ix()] = class_node.len() as u32;
            class_node.push(node);
        }
        host_class.push(ClassIx(class_of_node[node.ix()]));
        host_link.push(single.map(LinkIx::reverse));
    }
    (class_node, host_class, host_link)
}

fn rows(topology: &Topology, alive: &[bool], host_link: &[Option<LinkIx>]) -> (Vec<Row>, usize, Vec<LinkIx>) {
    let mut is_behind = vec![false; topology.nodes().len()];
    for (host, link) in topology.hosts().iter().zip(host_link) {
        is_behind[host.ix()] = link.is_some();
    }
    let mut row_count = 0;
    let mut rows: Vec<Row> = Vec::with_capacity(is_behind.len());
    for is_behind in is_behind {
        rows.push(Row::Own(row_count));
        row_count += u32::from(!is_behind);
    }
    let mut hops = vec![LinkIx(0)]; // NO_HOPS
    for (host, down) in topology.hosts().iter().zip(host_link) {
        let Some(up) = down.map(LinkIx::reverse) else { continue };
        let hop = if alive[up.ix()] { append(&mut hops, &[up]) } else { NO_HOPS };
        if let Row::Own(switch) = rows[topology.link(up).to.ix()] {
            rows[host.ix()] = Row::Behind { switch, hop };
        }
    }
    (rows, row_count as usize, hops)
}

/// Returns the hop distance of every node to `target` (`u16::MAX` if unreachable), and the
/// reachable nodes nearest first. Only nodes accepted by `is_included` are visited.
fn distances_to(
    topology: &Topology,
    alive: &[bool],
    target: NodeIx,
    is_included: impl Fn(NodeIx) -> bool,
) -> (Vec<u16>, Vec<NodeIx>) {
    let mut distance = vec![u16::MAX; topology.nodes().len()];
    let mut order = vec![target];
    distance[target.ix()] = 0;
    let mut next = 0;
    while next < order.len() {
        let node = order[next];
        next += 1;
        if node != target && !topology.node(node).forwards {
            continue;
        }
        for out in topology.out_links(node) {
            // Cables are walked backwards: traffic uses the reverse direction of the link.
            let (toward, from) = (out.reverse(), topology.link(*out).to);
            if alive[toward.ix()] && distance[from.ix()] == u16::MAX && is_included(from) {
                distance[from.ix()] = distance[node.ix()] + 1;
                order.push(from);
            }
        }
    }
    (distance, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TopologyBuilder;
    use crate::units::Time;

    /// 2 leaves, 2 spines, one host per leaf.
    fn leaf_spine() -> Topology {
        let mut b = TopologyBuilder::new("2x2");
        let (rate, delay) = (Bandwidth::from_gbps(10), Time::from_us(1));
        let leaves = [b.switch("l0", 1, None), b.switch("l1", 1, None)];
        let spines = [b.switch("s0", 2, None), b.switch("s1", 2, None)];
        for (i, leaf) in leaves.iter().enumerate() {
            let host = b.host(format!("h{i}"), i as u32, None);
            b.connect(host, *leaf, rate, delay);
            for spine in spines {
                b.connect(*leaf, spine, rate, delay);
            }
        }
        b.build().unwrap()
    }

    #[test]
    fn ranks_enumerate_distinct_paths() {
        let t = leaf_spine();
        let r = Routes::intact(&t);
        let (from, class) = (NodeIx(0), r.class_of(HostIx(1)));
        assert_eq!(r.path_count(from, class), 2);
        assert_eq!(r.distance(from, class), Some(2));
        let paths: Vec<_> = (0..2).map(|rank| r.path(&t, from, class, rank)).collect();
        assert_ne!(paths[0], paths[1]);
        assert!(paths.iter().all(|path| path.len() == 2));
        assert!(r.path(&t, from, class, 2).is_empty());
        assert_eq!(t.link(r.last_link(HostIx(1)).unwrap()).to, t.host(HostIx(1)));
    }

    #[test]
    fn a_dead_link_leaves_the_other_path() {
        let t = leaf_spine();
        let mut alive = vec![true; t.links().len()];
        let first_uplink = t.out_links(NodeIx(0)).iter().copied().find(|l| t.is_upward(*l)).unwrap();
        alive[first_uplink.ix()] = false;
        let r = Routes::new(&t, &alive);
        assert_eq!(r.path_count(NodeIx(0), r.class_of(HostIx(1))), 1);
        // The other direction of the cable still carries traffic towards leaf 0.
        assert_eq!(r.path_count(NodeIx(1), r.class_of(HostIx(0))), 2);
    }

    #[test]
    fn host_routes_follow_its_switch_and_its_own_link() {
        let t = leaf_spine();
        let (host, class) = (t.host(HostIx(0)), Routes::intact(&t).class_of(HostIx(1)));
        let up = t.out_links(host)[0];
        let r = Routes::intact(&t);
        let seen =
            |r: &Routes, class| (r.next_hops(host, class).to_vec(), r.path_count(host, class), r.distance(host, class));
        assert_eq!(seen(&r, class), (vec![up], 2, Some(3)));
        assert_eq!(seen(&r, r.class_of(HostIx(0))), (vec![up], 1, Some(1)));
        let mut alive = vec![true; t.links().len()];
        alive[up.ix()] = false;
        assert_eq!(seen(&Routes::new(&t, &alive), class), (vec![], 0, None));
        // The host's own link is alive, but its switch is cut off.
        let mut alive = vec![true; t.links().len()];
        t.out_links(t.link(up).to).iter().filter(|link| t.is_upward(**link)).for_each(|link| alive[link.ix()] = false);
        assert_eq!(seen(&Routes::new(&t, &alive), class), (vec![], 0, None));
    }

    #[test]
    fn weights_are_the_capacity_beyond() {
        let gbps = Bandwidth::from_gbps;
        let t = leaf_spine();
        // Spine 0 keeps only 3 of 10 Gb/s towards leaf 1.
        let narrow = t.with_links_changed(|_, link| {
            if t.node(link.from).name == "s0" && t.node(link.to).name == "l1" {
                link.rate = gbps(3);
            }
        });
        let r = Routes::intact(&narrow);
        let class = r.class_of(HostIx(1));
        assert_eq!(r.capacity_weights(&narrow, NodeIx(0), class), [gbps(3), gbps(10)]);
        let capacities = r.capacities(&narrow, class);
        assert_eq!(capacities[0], gbps(13));
        assert_eq!(capacities[r.class_node(class).ix()].as_bps(), u64::MAX);
        // A host can send no more than its own link.
        assert_eq!(capacities[t.host(HostIx(0)).ix()], gbps(10));
        let back = r.class_of(HostIx(0));
        assert_eq!(r.capacity_weights(&narrow, NodeIx(1), back), [gbps(10); 2]);
    }
}
