//! Splits around legacy switches against the bound of all splits, on networks of two providers.

use anabranch_sim::bounds::mcf::{Demand, max_concurrent};
use balance::central::partial_te::{Commodity, Links, split};
use net::{Bandwidth, HostIx, LinkIx, NodeIx, NodeKind, RandomStream, Routes, Time, Topology};

/// Returns a provider's network with links of 10 Gb/s and a host at each switch.
fn provider(name: &str) -> Topology {
    let path = format!("{}/../../data/topologies/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect(&path);
    let options = net::import::ImportOptions {
        default_rate: Bandwidth::from_gbps(10),
        default_delay: Time::from_ms(1),
        hosts_per_node: 1,
        host_rate: Bandwidth::from_gbps(1000),
        ..net::import::ImportOptions::default()
    };
    net::import::read(std::path::Path::new(name), &text, &options).expect("a topology").topology
}

/// Draws demands between `count` pairs of hosts.
fn demands(topology: &Topology, count: usize, seed: u64) -> Vec<Demand> {
    let mut rng = RandomStream::new(seed, "demands");
    let hosts = topology.hosts().len() as u64;
    let mut draw = || HostIx(rng.next_below(hosts) as u32);
    let pairs = std::iter::from_fn(|| Some((draw(), draw()))).filter(|(src, dst)| src != dst).take(count);
    let pairs: Vec<(HostIx, HostIx)> = pairs.collect();
    pairs.into_iter().map(|(src, dst)| Demand { src, dst, bps: 1e8 * (1 + rng.next_below(30)) as f64 }).collect()
}

/// Returns the largest utilisation with these legacy switches, and that of shortest paths alone.
fn utilisation(topology: &Topology, demands: &[Demand], legacy: &[NodeIx], eps: f64) -> (f64, f64) {
    let routes = Routes::intact(topology);
    let is_switch = |node: NodeIx| topology.node(node).kind == NodeKind::Switch;
    let links = Links {
        ends: topology.links().iter().map(|link| (link.from, link.to)).collect(),
        capacity: topology
            .links()
            .iter()
            .map(|link| if is_switch(link.from) && is_switch(link.to) { link.rate.as_bps_f64() } else { 0.0 })
            .collect(),
    };
    let mut shortest = vec![0.0; links.capacity.len()];
    let mut commodities: Vec<Commodity> = Vec::new();
    for demand in demands {
        let (from, class) = (routes.class_node(routes.class_of(demand.src)), routes.class_of(demand.dst));
        let to = routes.class_node(class);
        let (mut at, first) = (from, |node: NodeIx| routes.next_hops(node, class).first().copied());
        while at != to {
            let link: LinkIx = first(at).expect("a route");
            shortest[link.ix()] += demand.bps / links.capacity[link.ix()];
            at = topology.link(link).to;
        }
        if let Some(known) = commodities.iter_mut().find(|known| known.to == to) {
            known.demands.push((from, demand.bps));
            continue;
        }
        let nodes = (0..topology.nodes().len() as u32).map(NodeIx);
        let only = nodes.map(|node| if legacy.contains(&node) { first(node) } else { None }).collect();
        commodities.push(Commodity { to, demands: vec![(from, demand.bps)], only });
    }
    let found = split(&links, &commodities, eps);
    assert!(found.at_least <= found.utilisation * (1.0 + 1e-9), "{found:?}");
    (found.utilisation, shortest.into_iter().fold(0.0, f64::max))
}

fn switches(topology: &Topology) -> Vec<NodeIx> {
    (0..topology.nodes().len() as u32)
        .map(NodeIx)
        .filter(|node| topology.node(*node).kind == NodeKind::Switch)
        .collect()
}

const NETWORKS: [&str; 2] = ["b4.json", "zoo/Abilene.graphml"];

#[test]
fn without_legacy_switches_it_is_the_optimum_within_eps() {
    for name in NETWORKS {
        let topology = provider(name);
        for seed in 1..=3 {
            let demands = demands(&topology, 25, seed);
            let (found, _) = utilisation(&topology, &demands, &[], 0.02);
            let bound = max_concurrent(&topology, &demands, 0.01);
            // The share of the demands that fits is the inverse of the utilisation.
            let (least, most) = (1.0 / bound.at_most, 1.0 / bound.share);
            println!("{name} {seed}: {found:.4}, optimum {least:.4} to {most:.4}");
            assert!(
                found >= least * (1.0 - 1e-9) && found <= most * 1.021,
                "{name} {seed}: {found}, {least} to {most}"
            );
        }
    }
}

#[test]
fn with_legacy_switches_alone_it_is_the_shortest_path() {
    for name in NETWORKS {
        let topology = provider(name);
        let demands = demands(&topology, 25, 1);
        let (found, shortest) = utilisation(&topology, &demands, &switches(&topology), 0.02);
        assert!((found / shortest - 1.0).abs() < 1e-9, "{name}: {found}, shortest paths {shortest}");
    }
}

#[test]
fn each_controlled_switch_helps_or_does_no_harm() {
    for name in NETWORKS {
        let topology = provider(name);
        let demands = demands(&topology, 25, 2);
        let mut legacy = switches(&topology);
        let mut before = f64::INFINITY;
        let mut all = Vec::new();
        while !legacy.is_empty() {
            let (found, _) = utilisation(&topology, &demands, &legacy, 0.01);
            assert!(found <= before * 1.011, "{name} with {} legacy switches: {found} after {before}", legacy.len());
            before = before.min(found);
            all.push(format!("{found:.3}"));
            legacy.pop();
        }
        println!("{name}, utilisation with 0, 1, … controlled switches: {}", all.join(" "));
    }
}
