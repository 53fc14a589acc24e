//! The offline half of SPAIN (mechanisms.md P06): several paths for every pair of edges, packed
//! into loop-free subgraphs, the VLANs that switches forward in.

use std::cmp::Reverse;

use net::routes::ClassIx;
use net::{LinkIx, NodeIx, RandomStream, Routes, Topology};

use crate::dataplane::common::forest::{Cables, Forest};
use crate::dataplane::common::rank_of;
use crate::params::{Param, Params};

/// Limits of the computation of [`Vlans`].
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Maximum number of paths per pair of edges, at least 1.
    pub paths_max: u32,
    /// Maximum number of VLANs; 4094 with tags of 12 bits.
    pub vlans_max: u32,
    /// Number of packing orders that are tried, at least 1.
    pub trials: u32,
}

impl Plan {
    pub const K: Param =
        Param::count("k", 1..=256, "16").unit("paths").doc("Maximum number of paths per pair of edges.");
    pub const VLANS: Param =
        Param::count("vlans", 1..=4094, "4094").unit("VLANs").doc("Maximum number of VLANs; tags distinguish 4094.");
    pub const TRIALS: Param = Param::count("trials", 1..=1000, "4")
        .doc("Number of orders in which paths are packed into trees; the smallest packing is kept.");

    pub fn from_params(params: &Params) -> Plan {
        let count = |param: Param| params.count(param.name) as u32;
        Plan { paths_max: count(Plan::K), vlans_max: count(Plan::VLANS), trials: count(Plan::TRIALS) }
    }
}

/// A path and the VLAN that contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tagged {
    /// Number of the path among the shortest paths of its pair.
    pub path: u16,
    /// Number of the VLAN, from 0.
    pub vlan: u16,
}

#[derive(Clone, Debug)]
pub struct Vlans {
    class_count: usize,
    /// Start index in `tagged` of the paths of (from, to), and the end of the last.
    first: Vec<u32>,
    tagged: Vec<Tagged>,
    /// Number of VLANs that all paths would need without a limit.
    #[cfg(test)]
    needed: u32,
}

/// A path of one pair to the current destination.
struct Chosen {
    from: ClassIx,
    rank: u32,
    links: Vec<LinkIx>,
}

/// Paths to one destination that form a tree.
struct Tree {
    to: ClassIx,
    /// The pair's origin and rank of each path.
    paths: Vec<(ClassIx, u32)>,
    cables: Cables,
}

/// Marks a node without a link.
const NONE: u32 = u32::MAX;

impl Vlans {
    /// Computes paths, packs them per destination and merges trees that can share a VLAN. Paths in
    /// VLANs beyond the limit are left out.
    pub fn new(topology: &Topology, routes: &Routes, seed: u64, plan: &Plan) -> Vlans {
        let mut rng = RandomStream::new(seed, "spain vlans");
        let class_count = routes.class_count();
        let classes = || (0..class_count as u32).map(ClassIx);
        let mut finder = Finder::new(topology, routes);
        let mut trees = Vec::new();
        for to in classes() {
            let turn = rng.next_u64() as usize >> 1;
            let mut chosen = Vec::new();
            for from in classes().filter(|from| *from != to) {
                finder.choose((from, to), turn, plan.paths_max, &mut chosen);
            }
            trees.extend(pack(topology, to, &chosen, plan.trials, &mut rng).into_iter().enumerate());
        }
        // First trees of all destinations come first: the limit must not exclude destinations.
        trees.sort_by_key(|(nth, tree)| (*nth, tree.to));
        let trees: Vec<Tree> = trees.into_iter().map(|(_, tree)| tree).collect();
        let vlan_of_tree = merge(topology, &trees);
        let mut of_pair = vec![Vec::new(); class_count * class_count];
        for (tree, vlan) in trees.iter().zip(&vlan_of_tree).filter(|(_, vlan)| **vlan < plan.vlans_max) {
            // Edges number paths with 16 bits; paths beyond that have no number.
            let nameable = |(_, path): &&(ClassIx, u32)| *path < u32::from(u16::MAX) - 1;
            for (from, path) in tree.paths.iter().filter(nameable) {
                of_pair[from.0 as usize * class_count + tree.to.0 as usize]
                    .push(Tagged { path: *path as u16, vlan: *vlan as u16 });
            }
        }
        let mut vlans = Vlans {
            class_count,
            first: vec![0],
            tagged: Vec::new(),
            #[cfg(test)]
            needed: vlan_of_tree.iter().copied().max().map_or(0, |last| last + 1),
        };
        for mut tagged in of_pair {
            tagged.sort_unstable_by_key(|tagged| tagged.path);
            vlans.tagged.append(&mut tagged);
            vlans.first.push(vlans.tagged.len() as u32);
        }
        vlans
    }

    #[inline]
    pub fn paths(&self, from: ClassIx, to: ClassIx) -> &[Tagged] {
        let pair = from.0 as usize * self.class_count + to.0 as usize;
        &self.tagged[self.first[pair] as usize..self.first[pair + 1] as usize]
    }

    /// Returns the start of a pair's paths among those of `from`; their number at the last `to`.
    pub fn offset(&self, from: ClassIx, to: ClassIx) -> usize {
        let row = from.0 as usize * self.class_count;
        (self.first[row + to.0 as usize] - self.first[row]) as usize
    }
}

/// Selection of the paths of pairs.
struct Finder<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
    /// Number of paths of the current pair on each link.
    used: Vec<u32>,
    /// By node: number of shared links from here on, and the link to take.
    best: Vec<(u32, LinkIx)>,
    is_listed: Vec<bool>,
    /// The nodes between origin and target, farthest from the target first.
    nodes: Vec<NodeIx>,
}

impl<'a> Finder<'a> {
    fn new(topology: &'a Topology, routes: &'a Routes) -> Finder<'a> {
        let nodes = topology.nodes().len();
        Finder {
            topology,
            routes,
            used: vec![0; topology.links().len()],
            best: vec![(0, LinkIx(NONE)); nodes],
            is_listed: vec![false; nodes],
            nodes: Vec::new(),
        }
    }

    /// Adds the paths of a pair: repeatedly the shortest path that shares the fewest links with the
    /// previous ones, until one repeats. Ties rotate through the ports from `turn`. It is the same
    /// for all pairs with one destination, so that their paths meet early and pack well, and
    /// different per destination, so that the network is used evenly.
    fn choose(&mut self, (from, to): (ClassIx, ClassIx), turn: usize, paths_max: u32, chosen: &mut Vec<Chosen>) {
        let (origin, target) = (self.routes.class_node(from), self.routes.class_node(to));
        if self.routes.path_count(origin, to) == 0 {
            return;
        }
        self.list_nodes(origin, to);
        let begin = chosen.len();
        for _ in 0..paths_max {
            let links = self.least_shared(origin, target, to, turn);
            if chosen[begin..].iter().any(|earlier| earlier.links == links) {
                break;
            }
            links.iter().for_each(|link| self.used[link.ix()] += 1);
            let rank = rank_of(self.topology, self.routes, origin, to, &links).expect("a shortest path");
            chosen.push(Chosen { from, rank, links });
        }
        for path in &chosen[begin..] {
            path.links.iter().for_each(|link| self.used[link.ix()] = 0);
        }
    }

    /// Shortest paths only: a listed node is at the same distance from the target on all of them.
    fn list_nodes(&mut self, origin: NodeIx, to: ClassIx) {
        self.nodes.clear();
        self.nodes.push(origin);
        let mut next = 0;
        while next < self.nodes.len() {
            for link in self.routes.next_hops(self.nodes[next], to) {
                let far = self.topology.link(*link).to;
                if !std::mem::replace(&mut self.is_listed[far.ix()], true) {
                    self.nodes.push(far);
                }
            }
            next += 1;
        }
        self.nodes.iter().for_each(|node| self.is_listed[node.ix()] = false);
    }

    fn least_shared(&mut self, origin: NodeIx, target: NodeIx, to: ClassIx, turn: usize) -> Vec<LinkIx> {
        self.best[target.ix()] = (0, LinkIx(NONE));
        for node in self.nodes.iter().rev().filter(|node| **node != target) {
            let hops = self.routes.next_hops(*node, to);
            let in_turn = (0..hops.len()).map(|i| hops[(turn + i) % hops.len()]);
            let shared =
                in_turn.map(|link| (self.used[link.ix()] + self.best[self.topology.link(link).to.ix()].0, link));
            self.best[node.ix()] = shared.min_by_key(|(shared, _)| *shared).expect("nodes on a path have next hops");
        }
        let mut links = Vec::new();
        let mut node = origin;
        while node != target {
            let (_, link) = self.best[node.ix()];
            links.push(link);
            node = self.topology.link(link).to;
        }
        links
    }
}

/// Packs the paths to one destination into few trees; the best of several orders is kept. The first
/// order is by the node in the middle of the path, longest paths first, which is optimal for Clos
/// networks; the others are random.
fn pack(topology: &Topology, to: ClassIx, chosen: &[Chosen], trials: u32, rng: &mut RandomStream) -> Vec<Tree> {
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by_key(|i| {
        let links = &chosen[*i].links;
        (Reverse(links.len()), links.get(links.len() / 2).map(|link| topology.link(*link).from))
    });
    let steps = |path: &Chosen| path.links.iter().map(|link| (topology.link(*link).from.0, link.0)).collect();
    let steps: Vec<Vec<(u32, u32)>> = chosen.iter().map(steps).collect();
    let nodes = topology.nodes().len();
    let mut best = greedy_fit(nodes, &steps, &order, usize::MAX).unwrap_or_default();
    // Two paths of one origin never share a tree.
    let fewest = chosen.chunk_by(|a, b| a.from == b.from).map(<[Chosen]>::len).max().unwrap_or(0);
    for _ in 1..trials {
        if best.len() == fewest {
            break;
        }
        rng.shuffle(&mut order);
        if let Some(better) = greedy_fit(nodes, &steps, &order, best.len()) {
            best = better;
        }
    }
    let tree = |paths: Vec<usize>| {
        let mut cables = Cables::none(topology);
        paths.iter().flat_map(|i| &chosen[*i].links).for_each(|link| cables.insert(link.0 / 2));
        Tree { to, paths: paths.into_iter().map(|i| (chosen[i].from, chosen[i].rank)).collect(), cables }
    };
    best.into_iter().map(tree).collect()
}

/// Returns the paths per tree if there are fewer than `limit` trees; paths are (node, link to take)
/// lists. A path is added to the tree where it adds the fewest links, since small trees merge well;
/// among equals, to the first.
fn greedy_fit(nodes: usize, paths: &[Vec<(u32, u32)>], order: &[usize], limit: usize) -> Option<Vec<Vec<usize>>> {
    // Shortest paths to one destination have no loop if every node has a single next hop.
    let mut ways: Vec<Vec<u32>> = Vec::new();
    let mut trees: Vec<Vec<usize>> = Vec::new();
    for path in order {
        let added = |ways: &[u32]| {
            paths[*path].iter().try_fold(0u32, |added, (node, link)| match ways[*node as usize] {
                NONE => Some(added + 1),
                way if way == *link => Some(added),
                _ => None,
            })
        };
        let fitting = (0..ways.len()).filter_map(|tree| Some((added(&ways[tree])?, tree)));
        let tree = fitting.min().map_or(trees.len(), |(_, tree)| tree);
        if tree == trees.len() {
            if tree + 1 >= limit {
                return None;
            }
            ways.push(vec![NONE; nodes]);
            trees.push(Vec::new());
        }
        paths[*path].iter().for_each(|(node, link)| ways[tree][*node as usize] = *link);
        trees[tree].push(*path);
    }
    Some(trees)
}

/// Returns the VLAN of each tree: the first whose union with its trees is free of loops.
fn merge(topology: &Topology, trees: &[Tree]) -> Vec<u32> {
    let mut vlans: Vec<Forest> = Vec::new();
    let vlan_of = |tree: &Tree| {
        let found = vlans.iter_mut().position(|vlan| vlan.add(topology, &tree.cables));
        found.unwrap_or_else(|| {
            vlans.push(Forest::new(topology));
            let last = vlans.len() - 1;
            vlans[last].add(topology, &tree.cables);
            last
        }) as u32
    };
    trees.iter().map(vlan_of).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    const PLAN: Plan = Plan { paths_max: 16, vlans_max: 4094, trials: 10 };

    fn vlans(family: &str, plan: &Plan) -> (Topology, Routes, Vlans) {
        let topology = net::spec::parse(family).unwrap();
        let routes = Routes::intact(&topology);
        let vlans = Vlans::new(&topology, &routes, 7, plan);
        (topology, routes, vlans)
    }

    fn pairs(routes: &Routes) -> impl Iterator<Item = (ClassIx, ClassIx)> {
        let classes = routes.class_count() as u32;
        (0..classes * classes).map(move |i| (ClassIx(i / classes), ClassIx(i % classes))).filter(|(a, b)| a != b)
    }

    /// Returns whether the cables contain a loop: removes leaves until none is left.
    fn has_loop(topology: &Topology, mut cables: BTreeSet<u32>) -> bool {
        loop {
            let mut degree = BTreeMap::<NodeIx, u32>::new();
            let ends = |cable: &u32| {
                let link = topology.link(LinkIx(cable * 2));
                [link.from, link.to]
            };
            cables.iter().flat_map(ends).for_each(|node| *degree.entry(node).or_default() += 1);
            let before = cables.len();
            cables.retain(|cable| ends(cable).iter().all(|node| degree[node] > 1));
            if cables.len() == before {
                return !cables.is_empty();
            }
        }
    }

    #[test]
    fn no_vlan_has_a_loop_and_every_pair_its_paths() {
        for family in [
            "fat-tree:k=4",
            "leaf-spine:leaves=4,spines=4,hosts_per_leaf=2,parallel=2",
            "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
            "bcube:n=4,k=1",
            "camcube:k=3",
            "flattened-butterfly:k=3,n=3",
            "geni-wan",
        ] {
            let (topology, routes, vlans) = vlans(family, &PLAN);
            let mut cables = BTreeMap::<u16, BTreeSet<u32>>::new();
            for (from, to) in pairs(&routes) {
                let node = routes.class_node(from);
                let paths = vlans.paths(from, to);
                let count = routes.path_count(node, to);
                assert!(!paths.is_empty() && paths.len() <= count.min(16) as usize, "{family} {from:?} {to:?}");
                assert!(paths.windows(2).all(|pair| pair[0].path < pair[1].path), "{family}: a path twice");
                for tagged in paths {
                    let links = routes.path(&topology, node, to, u32::from(tagged.path));
                    assert!(!links.is_empty(), "{family}: no such path");
                    cables.entry(tagged.vlan).or_default().extend(links.iter().map(|link| link.0 / 2));
                }
            }
            assert_eq!(cables.len() as u32, vlans.needed, "{family}");
            for (vlan, cables) in cables {
                assert!(!has_loop(&topology, cables), "{family}: VLAN {vlan} has a loop");
            }
        }
    }

    #[test]
    fn loops_are_found_by_the_checker() {
        let topology = net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=1").unwrap();
        let cables: BTreeSet<u32> = (0..topology.links().len() as u32 / 2).collect();
        assert!(has_loop(&topology, cables.clone()));
        let one_less = cables.iter().copied().filter(|c| *c != cables.len() as u32 - 1).collect();
        assert!(!has_loop(&topology, one_less));
    }

    #[test]
    fn clos_networks_need_one_vlan_per_core() {
        for (family, cores) in [("fat-tree:k=4", 4), ("fat-tree:k=8", 16), ("leaf-spine:leaves=4,spines=6", 6)] {
            assert_eq!(vlans(family, &PLAN).2.needed, cores, "{family}");
        }
    }

    #[test]
    fn all_paths_are_found_if_few_exist() {
        let (_, routes, vlans) = vlans("fat-tree:k=8", &PLAN);
        for (from, to) in pairs(&routes) {
            assert_eq!(vlans.paths(from, to).len() as u32, routes.path_count(routes.class_node(from), to));
        }
    }

    #[test]
    fn first_paths_share_no_link_and_destinations_use_different_cores() {
        // Between pods of a k = 8 fat-tree, four paths can be disjoint.
        let (topology, routes, vlans) = vlans("fat-tree:k=8", &Plan { paths_max: 4, ..PLAN });
        let mut cores = BTreeSet::new();
        for (from, to) in pairs(&routes).filter(|(from, to)| from.0 / 4 != to.0 / 4) {
            let mut links = BTreeSet::new();
            for tagged in vlans.paths(from, to) {
                let path = routes.path(&topology, routes.class_node(from), to, u32::from(tagged.path));
                cores.insert(topology.link(path[1]).to);
                assert!(path.into_iter().all(|link| links.insert(link)), "{from:?} {to:?}");
            }
            assert_eq!(links.len(), 16, "{from:?} {to:?}");
        }
        assert_eq!(cores.len(), 16, "all cores carry something");
    }

    #[test]
    fn paths_beyond_the_limit_are_left_out() {
        let (_, routes, vlans) = vlans("fat-tree:k=4", &Plan { vlans_max: 3, ..PLAN });
        assert_eq!(vlans.needed, 4);
        let across = vlans.paths(ClassIx(0), ClassIx(7));
        assert_eq!(across.len(), 3);
        assert!(across.iter().all(|tagged| tagged.vlan < 3));
        let total: usize = pairs(&routes).map(|(from, to)| vlans.paths(from, to).len()).sum();
        assert_eq!((0..8).map(|from| vlans.offset(ClassIx(from), ClassIx(8))).sum::<usize>(), total);
    }
}
