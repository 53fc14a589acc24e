//! Path searches agree with independent implementations, on random graphs and the GENI network.

use std::collections::{BTreeMap, BTreeSet};

use anabranch_net::families::geni::{CLIENTS, SERVERS};
use anabranch_net::families::{BCube, CamCube, FatTree, GeniWan};
use anabranch_net::paths::{self, Limits, Metric};
use anabranch_net::{Bandwidth, HostIx, NodeIx, Routes, Time, Topology, TopologyBuilder};
use proptest::prelude::*;

/// Cables as (a, b, rate a to b, rate b to a, delay); small numbers so that ties occur.
type Cables = Vec<(usize, usize, u64, u64, u64)>;

/// Builds a random tree of switches and further cables, with hosts behind the first and last.
fn network(parents: &[usize], extra: &Cables) -> Topology {
    let mut b = TopologyBuilder::new("random");
    let count = parents.len() + 1;
    let switches: Vec<NodeIx> = (0..count).map(|i| b.switch(format!("s{i}"), 1, None)).collect();
    let gbps = Bandwidth::from_gbps;
    for (i, parent) in parents.iter().enumerate() {
        let (child, parent) = (switches[i + 1], switches[parent % (i + 1)]);
        b.connect(child, parent, gbps(1 + i as u64 % 3), Time::from_us(1 + i as u64 % 2));
    }
    for (from, to, there, back, us) in extra {
        let (from, to) = (switches[from % count], switches[to % count]);
        if from != to {
            b.connect_asymmetric(from, to, gbps(*there), gbps(*back), Time::from_us(*us));
        }
    }
    for (i, switch) in [switches[0], switches[count - 1]].into_iter().enumerate() {
        let host = b.host(format!("h{i}"), i as u32, None);
        b.connect(host, switch, gbps(100), Time::ZERO);
    }
    b.build().expect("the parents connect every switch")
}

/// Draws the parents of switches 1 and up, and further cables.
fn parts(switches: usize) -> impl Strategy<Value = (Vec<usize>, Cables)> {
    let parents = proptest::collection::vec(0..switches, 1..switches);
    let cable = (0..switches, 0..switches, 1u64..5, 1u64..5, 0u64..4);
    (parents, proptest::collection::vec(cable, 0..switches))
}

fn networks(switches: usize) -> impl Strategy<Value = Topology> {
    parts(switches).prop_map(|(parents, extra)| network(&parents, &extra))
}

/// Draws networks without parallel cables, for oracles that only know nodes.
fn networks_without_parallels(switches: usize) -> impl Strategy<Value = Topology> {
    parts(switches).prop_map(|(parents, mut extra)| {
        let count = parents.len() + 1;
        let tree = parents.iter().enumerate();
        let mut linked: BTreeSet<(usize, usize)> = tree.map(|(i, parent)| (parent % (i + 1), i + 1)).collect();
        extra.retain(|(from, to, ..)| {
            let (from, to) = (from % count, to % count);
            linked.insert((from.min(to), from.max(to)))
        });
        network(&parents, &extra)
    })
}

fn ends(topology: &Topology) -> (NodeIx, NodeIx) {
    (topology.host(HostIx(0)), topology.host(HostIx(1)))
}

/// Returns the same graph for petgraph, with delays in microseconds as weights.
fn petgraph_of(topology: &Topology) -> petgraph::graph::DiGraph<(), u64> {
    let mut graph = petgraph::graph::DiGraph::new();
    for _ in topology.nodes() {
        graph.add_node(());
    }
    for link in topology.links() {
        let (from, to) = (link.from.0.into(), link.to.0.into());
        graph.add_edge(from, to, link.delay.as_us_f64() as u64);
    }
    graph
}

fn all_simple(topology: &Topology) -> Vec<paths::Path> {
    let (from, to) = ends(topology);
    let limits = Limits { max_links: usize::MAX, max_paths: usize::MAX };
    paths::simple(topology, from, to, limits, paths::every_link).paths
}

proptest! {
    #[test]
    fn shortest_by_delay_agrees_with_dijkstra(topology in networks(12)) {
        let (from, to) = ends(&topology);
        let graph = petgraph_of(&topology);
        let oracle = petgraph::algo::dijkstra(&graph, from.0.into(), Some(to.0.into()), |e| *e.weight());
        let path = paths::shortest(&topology, from, to, Metric::Delay, paths::every_link).unwrap();
        let delay = paths::delay(&topology, &path);
        prop_assert_eq!(delay, Time::from_us(oracle[&petgraph::graph::NodeIndex::from(to.0)]));
        let visited = paths::nodes(&topology, from, &path);
        prop_assert_eq!((visited[0], visited[visited.len() - 1]), (from, to));
    }

    #[test]
    fn yen_agrees_with_the_sorted_list_of_all_simple_paths(topology in networks(7), k in 1usize..20) {
        let (from, to) = ends(&topology);
        for metric in [Metric::Hops, Metric::Delay] {
            let cost = |path: &paths::Path| {
                let (hops, delay) = (path.len() as u64, paths::delay(&topology, path).as_ps());
                if metric == Metric::Hops { (hops, 0) } else { (delay, hops) }
            };
            let mut all: Vec<_> = all_simple(&topology).iter().map(cost).collect();
            all.sort_unstable();
            all.truncate(k);
            let found = paths::k_shortest(&topology, from, to, k, metric, paths::every_link);
            prop_assert_eq!(found.iter().map(cost).collect::<Vec<_>>(), all);
            let mut distinct = found.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), found.len());
        }
    }

    #[test]
    fn yen_agrees_with_pathfinding(topology in networks_without_parallels(8), k in 1usize..12) {
        // All path lengths are made distinct, because the oracle is wrong on ties. pathfinding 4.16
        // takes tied routes together but searches deviations from only one of them before it takes
        // the next route.
        let topology = topology.with_links_changed(|link, l| l.delay += Time::from_ps(1 << (link.0 / 2)));
        let (from, to) = ends(&topology);
        let successors = |node: &NodeIx| {
            let out = topology.out_links(*node).iter().map(|link| topology.link(*link));
            out.map(|link| (link.to, link.delay.as_ps())).collect::<Vec<_>>()
        };
        let oracle = pathfinding::prelude::yen(&from, successors, |node| *node == to, k);
        let found = paths::k_shortest(&topology, from, to, k, Metric::Delay, paths::every_link);
        let delays: Vec<u64> = found.iter().map(|path| paths::delay(&topology, path).as_ps()).collect();
        let oracle: Vec<u64> = oracle.iter().map(|(_, delay)| *delay).collect();
        prop_assert_eq!(delays, oracle);
    }

    #[test]
    fn all_simple_paths_agree_with_petgraph(topology in networks_without_parallels(7)) {
        let (from, to) = ends(&topology);
        let graph = petgraph_of(&topology);
        let oracle = petgraph::algo::all_simple_paths::<Vec<_>, _, std::hash::RandomState>(
            &graph, from.0.into(), to.0.into(), 0, None,
        );
        prop_assert_eq!(all_simple(&topology).len(), oracle.count());
    }

    #[test]
    fn widest_is_the_best_of_all_simple_paths(topology in networks(7)) {
        let (from, to) = ends(&topology);
        let key = |path: &paths::Path| {
            let bottleneck = paths::bottleneck(&topology, path);
            (std::cmp::Reverse(bottleneck), paths::delay(&topology, path), path.len())
        };
        let best = all_simple(&topology).iter().map(key).min().unwrap();
        let found = paths::widest(&topology, from, to, |link| Some(topology.link(link).rate)).unwrap();
        prop_assert_eq!(key(&found.path), best);
        prop_assert_eq!(found.bottleneck, best.0.0);
    }

    #[test]
    fn max_flow_agrees_with_edmonds_karp(topology in networks(9)) {
        let (from, to) = ends(&topology);
        let nodes: Vec<NodeIx> = (0..topology.nodes().len() as u32).map(NodeIx).collect();
        let mut sums = BTreeMap::new();
        for link in topology.links() {
            *sums.entry((link.from, link.to)).or_insert(0) += link.rate.as_bps() as i64;
        }
        use pathfinding::directed::edmonds_karp::{SparseCapacity, edmonds_karp};
        let (_, oracle, _) = edmonds_karp::<_, _, _, SparseCapacity<_>>(&nodes, &from, &to, sums);
        let found = anabranch_net::bisection::max_flow(&topology, &[from], &[to]);
        prop_assert_eq!(found.as_bps() as i64, oracle);
    }
}

#[test]
fn equal_cost_paths_agree_with_the_routing_tables() {
    for topology in
        [FatTree::default().build(), BCube::default().build(), CamCube { k: 3, ..CamCube::default() }.build()]
    {
        let topology = topology.unwrap();
        let routes = Routes::intact(&topology);
        let from = topology.host(HostIx(0));
        for host in 1..topology.hosts().len() as u32 {
            let class = routes.class_of(HostIx(host));
            let to = routes.class_node(class);
            let ranks = 0..routes.path_count(from, class);
            let tables: Vec<_> = ranks.map(|rank| routes.path(&topology, from, class, rank)).collect();
            let found = paths::equal_cost(&topology, from, to, usize::MAX, paths::every_link);
            assert_eq!((tables, false), (found.paths, found.truncated));
        }
    }
}

#[test]
fn limits_truncate_and_report_it() {
    let topology = FatTree::default().build().unwrap();
    let (from, to) = (topology.host(HostIx(0)), topology.host(HostIx(15)));
    let found = paths::equal_cost(&topology, from, to, 3, paths::every_link);
    assert_eq!((found.paths.len(), found.truncated), (3, true));
    let limits = Limits { max_links: 5, max_paths: 10 };
    let found = paths::simple(&topology, from, to, limits, paths::every_link);
    assert_eq!((found.paths.len(), found.truncated), (0, false));
    assert!(paths::k_shortest(&topology, from, to, 0, Metric::Hops, paths::every_link).is_empty());
    assert!(paths::shortest(&topology, from, to, Metric::Hops, |_| false).is_none());
    assert_eq!(paths::shortest(&topology, from, from, Metric::Hops, |_| false), Some(vec![]));
}

fn named(topology: &Topology, name: &str) -> NodeIx {
    let found = topology.nodes().iter().position(|node| node.name == name);
    NodeIx(found.unwrap() as u32)
}

/// Latencies (ms) and bottlenecks (kbit/s) of the shortest and widest paths, client by client. They
/// were computed independently from table 4.3 of founding document 001.
const GENI: [([u64; 3], [u64; 3]); 4] = [
    ([15, 44, 36], [57_800, 51_200, 51_200]),
    ([19, 10, 21], [39_900, 89_700, 62_600]),
    ([36, 7, 16], [39_900, 90_300, 62_600]),
    ([38, 21, 2], [39_900, 57_000, 91_200]),
];

#[test]
fn geni_paths_match_published_table() {
    let topology = GeniWan::default().build().unwrap();
    for (client, (latencies, bottlenecks)) in CLIENTS.iter().zip(GENI) {
        let from = named(&topology, client);
        for (i, server) in SERVERS.iter().enumerate() {
            let to = named(&topology, server);
            let short = paths::shortest(&topology, from, to, Metric::Delay, paths::every_link);
            let latency = paths::delay(&topology, &short.unwrap());
            assert_eq!(latency, Time::from_ms(latencies[i]), "{client} {server}");
            let wide = paths::widest(&topology, from, to, |l| Some(topology.link(l).rate)).unwrap();
            let expected = Bandwidth::from_bps(bottlenecks[i] * 1_000);
            assert_eq!(wide.bottleneck, expected, "{client} {server}");
            let simple =
                paths::simple(&topology, from, to, Limits { max_links: 16, max_paths: 1_000 }, paths::every_link);
            assert!((20..=33).contains(&simple.paths.len()), "{client} {server}");
        }
    }
}

#[test]
fn geni_detours_match_published_ones() {
    let topology = GeniWan::default().build().unwrap();
    let widest = |from: &str| {
        let (from, to) = (named(&topology, from), named(&topology, "Server-3"));
        let wide = paths::widest(&topology, from, to, |l| Some(topology.link(l).rate)).unwrap();
        let visited = paths::nodes(&topology, from, &wide.path);
        let names: Vec<String> = visited.iter().map(|n| topology.node(*n).name.clone()).collect();
        (names.join(" "), paths::delay(&topology, &wide.path))
    };
    assert_eq!(
        widest("Client-1"),
        ("Client-1 Server-1 Client-2 Kentucky Client-4 Server-3".to_owned(), Time::from_ms(55))
    );
    assert_eq!(widest("Client-2"), ("Client-2 Server-2 Client-3 Client-4 Server-3".to_owned(), Time::from_ms(33)));
}
