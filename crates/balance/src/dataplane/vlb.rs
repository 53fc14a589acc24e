//! Valiant load balancing: every flow takes a path over a random intermediate, regardless of its
//! destination (mechanisms.md P05; VL2, Greenberg et al., SIGCOMM 2009).
//!
//! If the switches of the top tier have no hosts (Clos networks), they are the intermediates: a
//! flow is hashed to one, then to one of its paths through it. A path's intermediate is its highest
//! switch, so traffic that need not reach the top turns below it, and hosts under one switch never
//! leave it. Elsewhere (flattened butterflies, tori, networks whose servers forward) every edge is
//! an intermediate: the packet takes a shortest path to a random edge and another one from there,
//! unless that edge is the source's or the destination's.
//!
//! VL2 draws the intermediate when a flow starts. Here it is a hash of the flow, which is the same
//! draw without a table and survives failures: a flow whose intermediate died draws again (or, if
//! it was an edge, takes a direct path), and all others stay. Within an intermediate, ECMP chooses
//! (the anycast address of VL2). With `per=packet` both draws are made for every packet, and
//! receivers resequence.
//!
//! In direct networks paths are twice as long, so no pattern gets more than half of the throughput
//! of uniform traffic, but every pattern gets that. Per flow, elephants still collide.
//!
//! - Helps: with patterns that are bad for shortest paths, especially in direct networks such as
//!   flattened butterflies and tori.
//! - Hurts: with uniform traffic in direct networks, where longer paths have no benefit; per flow,
//!   large flows still collide.

use net::routes::ClassIx;
use net::{NodeIx, NodeKind, Routes, Topology};

use crate::dataplane::common::distinct;
use crate::dataplane::{Cx, EdgeBalancer, EdgeEnv, EdgeHooks, Needs, PacketView, Paths, Receiving};
use crate::entry::{Entry, FlowLevel};
use crate::hash::{combine, mix, reduce};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("vlb", "Valiant load balancing")
    .summary("Sends each flow over a random intermediate switch, independent of its destination.")
    .flow_level(FlowLevel::Path)
    .source("P05; VL2, SIGCOMM 2009; F0, F2")
    .senses("nothing; dead paths, after failures are detected")
    .params(&[
        Param::choice("per", &["flow", "packet"], "flow").doc("Unit of traffic that draws an intermediate."),
        Param::choice("intermediates", &["auto", "top", "any"], "auto").doc(
            "Intermediates: the highest switches of paths, any edge as a detour, or the choice that suits the \
             network.",
        ),
    ])
    .needs(|_, params| Needs {
        receiving: if params.text("per") == "packet" { Receiving::Resequenced } else { Receiving::Usual },
        ..Needs::default()
    })
    .edge(|env, params| Box::new(Vlb::new(env, params)));

/// Number of draws for a live intermediate before any live path is taken.
const ATTEMPTS: u64 = 8;

struct Vlb {
    is_per_packet: bool,
    seed: u64,
    own: ClassIx,
    /// Classes that can be intermediates; empty if intermediates are the tops of paths.
    detours: Vec<ClassIx>,
    group_of_class: Vec<u32>,
    groups: Vec<Intermediates>,
}

/// The paths to a class, grouped by their intermediate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Intermediates {
    /// Start index of the paths of each intermediate in `paths`, and the end of the last.
    starts: Vec<u32>,
    paths: Vec<u16>,
}

impl Vlb {
    fn new(env: &EdgeEnv<'_>, params: &Params) -> Vlb {
        let visits_edges = match params.text("intermediates") {
            "auto" => is_direct(env.topology),
            choice => choice == "any",
        };
        let mut vlb = Vlb {
            is_per_packet: params.text("per") == "packet",
            // One seed for all edges: the intermediate is a property of the flow.
            seed: mix(env.seed),
            own: env.class,
            detours: Vec::new(),
            group_of_class: Vec::new(),
            groups: Vec::new(),
        };
        let classes = env.path_counts.iter().zip((0..).map(ClassIx));
        if visits_edges {
            vlb.detours = classes.filter(|(count, _)| **count > 0).map(|(_, class)| class).collect();
            return vlb;
        }
        let groups = classes.map(|(count, class)| Intermediates::new(env, class, usize::from(*count)));
        (vlb.group_of_class, vlb.groups) = distinct(groups);
        vlb
    }

    /// Returns the hash or random number that decides for a packet.
    fn draw(&self, cx: &mut Cx<'_>, packet: &PacketView) -> u64 {
        if self.is_per_packet { cx.rng.next_u64() } else { mix(packet.hash ^ self.seed) }
    }
}

/// Returns whether no tier is left for intermediates: hosts forward or are at the top.
fn is_direct(topology: &Topology) -> bool {
    let top = topology.top_tier();
    let is_top = |link: &net::LinkIx| topology.node(topology.link(*link).to).tier == top;
    let hosts = || topology.hosts().iter();
    hosts().any(|host| topology.node(*host).forwards || topology.out_links(*host).iter().any(is_top))
}

impl Intermediates {
    fn new(env: &EdgeEnv<'_>, to: ClassIx, count: usize) -> Intermediates {
        let mut tops = Vec::with_capacity(count);
        if count > 0 {
            collect_tops(env.topology, env.routes, to, (env.edge, env.edge), count, &mut tops);
        }
        let mut by_top: Vec<(NodeIx, u16)> = tops.into_iter().zip(0..).collect();
        by_top.sort_unstable();
        let mut starts = vec![0];
        starts.extend(by_top.chunk_by(|a, b| a.0 == b.0).scan(0, |end, group| {
            *end += group.len() as u32;
            Some(*end)
        }));
        Intermediates { starts, paths: by_top.into_iter().map(|(_, path)| path).collect() }
    }

    fn choose(&self, draw: u64, live: &[u16]) -> u16 {
        let count = self.starts.len() - 1;
        let is_intact = live.len() == self.paths.len();
        let is_live = |path: &&u16| is_intact || live.binary_search(path).is_ok();
        for attempt in 0..ATTEMPTS {
            let hash = combine(draw, attempt);
            let i = reduce(hash, count);
            let paths = &self.paths[self.starts[i] as usize..self.starts[i + 1] as usize];
            let alive = if is_intact { paths.len() } else { paths.iter().filter(is_live).count() };
            if alive > 0 {
                let chosen = paths.iter().filter(is_live).nth(reduce(mix(hash), alive));
                return *chosen.expect("fewer than `alive` were skipped");
            }
        }
        live[reduce(draw, live.len())]
    }
}

/// Returns the highest switch of every path, by path number; the first of equally high ones.
fn collect_tops(
    topology: &Topology,
    routes: &Routes,
    to: ClassIx,
    (at, top): (NodeIx, NodeIx),
    count: usize,
    tops: &mut Vec<NodeIx>,
) {
    if at == routes.class_node(to) {
        return tops.push(top);
    }
    for link in routes.next_hops(at, to) {
        let next = topology.link(*link).to;
        let is_higher = |node: NodeIx| {
            topology.node(node).kind == NodeKind::Switch && topology.node(node).tier > topology.node(top).tier
        };
        if tops.len() < count {
            collect_tops(topology, routes, to, (next, if is_higher(next) { next } else { top }), count, tops);
        }
    }
}

impl EdgeBalancer for Vlb {
    fn choose_path(&mut self, cx: &mut Cx<'_>, packet: &PacketView, paths: Paths<'_>) -> u16 {
        let draw = self.draw(cx, packet);
        match self.group_of_class.get(packet.to.0 as usize) {
            Some(group) => self.groups[*group as usize].choose(draw, paths.live),
            // Both halves of a detour and direct paths: each edge hashes independently.
            None => paths.live[reduce(combine(draw, u64::from(self.own.0)), paths.live.len())],
        }
    }

    fn hooks(&self) -> EdgeHooks {
        EdgeHooks { detours: !self.detours.is_empty(), ..EdgeHooks::default() }
    }

    fn detour(&mut self, cx: &mut Cx<'_>, packet: &PacketView) -> Option<ClassIx> {
        if packet.to == self.own || self.detours.is_empty() {
            return None;
        }
        let via = self.detours[reduce(self.draw(cx, packet), self.detours.len())];
        (via != self.own && via != packet.to).then_some(via)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dataplane::testing::{Bench, packet};

    fn to(class: u32, flow: u32) -> PacketView {
        PacketView { to: ClassIx(class), ..packet(flow) }
    }

    /// Makes an edge bench with all paths from class 0 to `class` live.
    fn towards(spec: &str, family: &str, class: u32) -> Bench {
        let mut bench = Bench::edge_on(spec, family, 0);
        let routes = Routes::intact(bench.topology());
        bench.live = (0..routes.path_count(routes.class_node(ClassIx(0)), ClassIx(class)) as u16).collect();
        bench
    }

    fn top(bench: &Bench, class: u32, path: u16) -> NodeIx {
        let nodes = bench.path(class, u32::from(path)).into_iter().map(|link| bench.topology().link(link).to);
        nodes.max_by_key(|node| (bench.topology().node(*node).tier, std::cmp::Reverse(*node))).unwrap()
    }

    #[test]
    fn flows_spread_evenly_over_intermediates_and_paths_through_them() {
        // VL2 reaches each intermediate by two aggregation switches on either side: four paths.
        let mut bench = towards("vlb", "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3", 3);
        let mut by_top = std::collections::BTreeMap::<NodeIx, u32>::new();
        let mut by_path = vec![0u32; bench.live.len()];
        for flow in 0..40_000 {
            let path = bench.choose_path(&to(3, flow), None);
            assert_eq!(bench.choose_path(&to(3, flow), Some(path)), path, "a flow stays");
            *by_top.entry(top(&bench, 3, path)).or_default() += 1;
            by_path[usize::from(path)] += 1;
        }
        let even = 40_000 / by_top.len() as u32;
        assert!(by_top.len() >= 2 && by_top.values().all(|n| n.abs_diff(even) < even / 20), "{by_top:?}");
        let even = 40_000 / by_path.len() as u32;
        assert!(by_path.iter().all(|n| n.abs_diff(even) < even / 10), "{by_path:?}");
    }

    #[test]
    fn the_intermediate_does_not_depend_on_the_destination() {
        let mut bench = towards("vlb", "fat-tree:k=8", 31);
        for flow in 0..200 {
            let (near, far) = (bench.choose_path(&to(4, flow), None), bench.choose_path(&to(31, flow), None));
            assert_eq!(top(&bench, 4, near), top(&bench, 31, far));
        }
        // Inside a pod, paths turn at the aggregation switches.
        let mut inside = towards("vlb", "fat-tree:k=8", 1);
        let paths: Vec<u16> = (0..200).map(|flow| inside.choose_path(&to(1, flow), None)).collect();
        let tops: BTreeSet<NodeIx> = paths.into_iter().map(|path| top(&inside, 1, path)).collect();
        assert_eq!(tops.len(), 4);
    }

    #[test]
    fn packets_may_draw_intermediates_separately() {
        let mut bench = towards("vlb:per=packet", "fat-tree:k=4", 7);
        let hits: [u32; 4] = bench.hits((0..40_000).map(|_| to(7, 1)));
        assert!(hits.iter().all(|n| (9_500..10_500).contains(n)), "{hits:?}");
    }

    #[test]
    fn only_flows_through_dead_intermediate_move_and_later_return() {
        let mut bench = towards("vlb", "fat-tree:k=8", 31);
        let choose =
            |bench: &mut Bench| (0..500).map(|flow| bench.choose_path(&to(31, flow), None)).collect::<Vec<_>>();
        let before = choose(&mut bench);
        bench.live.retain(|path| *path != 5 && *path != 6);
        let during = choose(&mut bench);
        for (old, new) in before.iter().zip(&during) {
            assert_eq!(old == new, *old != 5 && *old != 6);
        }
        bench.live = vec![9];
        assert!(choose(&mut bench).iter().all(|path| *path == 9));
        bench.live = (0..16).collect();
        assert_eq!(choose(&mut bench), before);
    }

    #[test]
    fn direct_networks_detour_over_any_edge() {
        for family in ["flattened-butterfly:k=4,n=3", "camcube:k=3", "bcube:n=4,k=1"] {
            let mut bench = towards("vlb", family, 5);
            let classes = Routes::intact(bench.topology()).class_count() as u32;
            let mut visited = vec![0u32; classes as usize];
            let mut direct = 0;
            for flow in 0..classes * 500 {
                let via = bench.detour(&to(5, flow));
                assert_eq!(via, bench.detour(&to(5, flow)), "a flow keeps its intermediate");
                match via {
                    Some(via) => visited[via.0 as usize] += 1,
                    None => direct += 1,
                }
            }
            // The source's own edge and the destination's edge mean a direct path.
            assert!((850..1_150).contains(&direct), "{family}: {direct}");
            for (class, hits) in visited.iter().enumerate() {
                let expected = if [0, 5].contains(&class) { 0..1 } else { 380..620 };
                assert!(expected.contains(hits), "{family}: {class} visited {hits} times");
            }
            assert_eq!(bench.detour(&to(0, 1)), None, "not for neighbours under one switch");
        }
    }

    #[test]
    fn each_half_of_a_detour_takes_one_of_its_paths_per_flow() {
        let mut bench = towards("vlb", "flattened-butterfly:k=3,n=4", 26);
        assert_eq!(bench.live.len(), 6);
        let paths: Vec<u16> = (0..200).map(|flow| bench.choose_path(&to(26, flow), None)).collect();
        assert_eq!(paths.iter().collect::<BTreeSet<_>>().len(), 6);
        assert_eq!(paths, (0..200).map(|flow| bench.choose_path(&to(26, flow), Some(1))).collect::<Vec<_>>());
        bench.live = vec![1, 4];
        assert!((0..50).all(|flow| [1, 4].contains(&bench.choose_path(&to(26, flow), None))));
    }

    #[test]
    fn the_choice_of_intermediates_can_be_forced() {
        let mut clos = towards("vlb:intermediates=any", "fat-tree:k=4", 7);
        assert!((0..100).any(|flow| clos.detour(&to(7, flow)).is_some()));
        let mut auto = towards("vlb", "fat-tree:k=4", 7);
        assert!((0..100).all(|flow| auto.detour(&to(7, flow)).is_none()));
        let mut direct = towards("vlb:intermediates=top", "flattened-butterfly:k=3,n=4", 26);
        assert!((0..100).all(|flow| direct.detour(&to(26, flow)).is_none()));
        let paths: BTreeSet<u16> = (0..200).map(|flow| direct.choose_path(&to(26, flow), None)).collect();
        assert_eq!(paths.len(), 6, "without tiers all paths turn at the same height");
    }
}
