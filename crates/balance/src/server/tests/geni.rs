//! The oracles of mechanisms.md §6.9: server and path of each client of F1's network.

use net::families::geni::CLIENTS;
use net::{Bandwidth, HostIx, NodeIx, RandomStream, Time, Topology, TopologyBuilder, paths};

use crate::central::LinkLoad;
use crate::central::testing::TestNetwork;
use crate::server::testing::{Bench, add_racks, server};
use crate::server::{Choice, Pool};

/// F1's main network with its three servers as members 1 to 3.
fn geni(spec: &str, members: &[u32]) -> Bench {
    let network = TestNetwork::new("geni-wan");
    let pool = Pool::new(members.iter().map(|id| server(&network, *id, id + 3)).collect::<Vec<_>>());
    Bench::on(spec, network, pool)
}

fn named(topology: &Topology, name: &str) -> NodeIx {
    let found = topology.nodes().iter().position(|node| node.name == name);
    NodeIx(found.unwrap_or_else(|| panic!("no {name}")) as u32)
}

/// The choice for a client, with latency and bottleneck (request direction) of its path.
fn got(bench: &mut Bench, client: &str) -> (Choice, Time, Bandwidth) {
    bench.edge = named(&bench.network.topology, client);
    let request = bench.request();
    let choice = bench.pick_for(&request).expect("a server");
    let path = choice.path.clone().expect("a path");
    let topology = &bench.network.topology;
    (choice, paths::delay(topology, &path), paths::bottleneck(topology, &path))
}

pub(super) fn kbps(kilobits: u64) -> Bandwidth {
    Bandwidth::from_bps(kilobits * 1_000)
}

/// Columns 2 and 3 of the table, then the reply direction: server, ms, kbit/s to and from it.
const JOINT: [(u32, u64, u64, u64); 4] =
    [(1, 15, 57_800, 58_100), (2, 10, 89_700, 83_000), (2, 7, 90_300, 90_400), (3, 2, 91_200, 91_100)];

/// Columns 4 and 5: SPL to each server (ms), HTP bottleneck in the direction of requests (kbit/s).
const EACH: [([u64; 3], [u64; 3]); 4] = [
    ([15, 44, 36], [57_800, 51_200, 51_200]),
    ([19, 10, 21], [39_900, 89_700, 62_600]),
    ([36, 7, 16], [39_900, 90_300, 62_600]),
    ([38, 21, 2], [39_900, 57_000, 91_200]),
];

#[test]
fn sl_ps_and_ht_ps_choose_the_published_servers() {
    for (client, (id, ms, there, back)) in CLIENTS.into_iter().zip(JOINT) {
        let (choice, latency, _) = got(&mut geni("sl-ps", &[1, 2, 3]), client);
        assert_eq!((choice.member.0, latency), (id, Time::from_ms(ms)), "SL-PS for {client}");
        for spec in ["ht-ps:htp=capacity", "ht-ps"] {
            let (choice, _, width) = got(&mut geni(spec, &[1, 2, 3]), client);
            assert_eq!((choice.member.0, width), (id, kbps(there)), "{spec} for {client}");
        }
        let mut bench = geni("ht-ps:htp=capacity,direction=reply", &[1, 2, 3]);
        let choice = got(&mut bench, client).0;
        let way_back = choice.path.iter().flat_map(|path| path.iter()).map(|link| link.reverse());
        let width = paths::bottleneck(&bench.network.topology, &way_back.collect::<Vec<_>>());
        assert_eq!((choice.member.0, width), (id, kbps(back)), "downloads of {client}");
    }
}

#[test]
fn path_pickers_find_the_published_latencies_and_bottlenecks_to_every_server() {
    for (client, (latencies, bottlenecks)) in CLIENTS.into_iter().zip(EACH) {
        for (id, (ms, width)) in (1..).zip(latencies.into_iter().zip(bottlenecks)) {
            let by_latency = got(&mut geni("server-lc:path=spl", &[id]), client);
            assert_eq!(by_latency.1, Time::from_ms(ms), "SPL, {client} to server {id}");
            let by_width = got(&mut geni("server-cpu:path=htp,htp=capacity", &[id]), client);
            assert_eq!(by_width.2, kbps(width), "HTP, {client} to server {id}");
            let is_different = by_width.0.path != by_latency.0.path;
            let is_published = id == 3 && ["Client-1", "Client-2"].contains(&client);
            assert_eq!(is_different, is_published, "HTP differs from SPL for two pairs only: {client} to server {id}");
        }
    }
}

/// Averaging over link orders: the path of SPH is drawn among those with the fewest hops.
#[test]
fn drawn_ties_have_the_fewest_hops_and_stay() {
    let mut drawn = std::collections::BTreeMap::new();
    for seed in 0..32 {
        for client in CLIENTS {
            for id in 1..=3 {
                let hops = |spec: &str, seed: u64| {
                    let mut bench = geni(spec, &[id]);
                    bench.rng = RandomStream::new(seed, "server");
                    let [first, again] = [(), ()].map(|()| got(&mut bench, client).0.path);
                    assert_eq!(first, again);
                    first.expect("a path")
                };
                let (fixed, path) = (hops("server-rr:path=sph", seed), hops("server-rr:path=sph,ties=random", seed));
                assert_eq!(path.len(), fixed.len(), "{client} to server {id}");
                drawn.entry((client, id)).or_insert_with(std::collections::BTreeSet::new).insert(path.to_vec());
            }
        }
    }
    assert!(drawn.values().any(|paths| paths.len() > 1), "a pair has a tie");
}

#[test]
fn the_two_detours_are_the_published_ones() {
    let detour = |client: &str| {
        let mut bench = geni("server-rr:path=htp,htp=capacity", &[3]);
        let (choice, latency, width) = got(&mut bench, client);
        let topology = &bench.network.topology;
        let visited = paths::nodes(topology, bench.edge, &choice.path.unwrap());
        let names: Vec<&str> = visited.iter().map(|node| topology.node(*node).name.as_str()).collect();
        (names.join(" "), latency, width)
    };
    let expected = "Client-1 Server-1 Client-2 Kentucky Client-4 Server-3".to_owned();
    assert_eq!(detour("Client-1"), (expected, Time::from_ms(55), kbps(51_200)));
    let expected = "Client-2 Server-2 Client-3 Client-4 Server-3".to_owned();
    assert_eq!(detour("Client-2"), (expected, Time::from_ms(33), kbps(62_600)));
}

#[test]
fn spl_takes_the_shorter_and_narrower_paths_there() {
    for (client, ms, width) in [("Client-1", 36, 12_100), ("Client-2", 21, 52_200)] {
        let (_, latency, bottleneck) = got(&mut geni("server-rr:path=spl", &[3]), client);
        assert_eq!((latency, bottleneck), (Time::from_ms(ms), kbps(width)), "{client}");
    }
}

/// Makes sites, each a switch with a host, and cables: kbit/s both ways, latency (ms).
fn sites(names: &[&str], cables: &[(usize, usize, u64, u64, u64)]) -> TestNetwork {
    let mut builder = TopologyBuilder::new("sites");
    let switches = add_racks(&mut builder, names.iter().copied());
    for (a, b, there, back, ms) in cables {
        builder.connect_asymmetric(switches[*a], switches[*b], kbps(*there), kbps(*back), Time::from_ms(*ms));
    }
    TestNetwork::of(builder.build().expect("a network"))
}

fn two_servers(spec: &str, cables: &[(usize, usize, u64, u64, u64)]) -> Bench {
    let network = sites(&["Client", "Server-1", "Server-2"], cables);
    let pool = Pool::new([server(&network, 1, 1), server(&network, 2, 2)]);
    Bench::on(spec, network, pool)
}

#[test]
fn with_two_servers_latency_and_throughput_disagree() {
    // §6.9, two-server topology.
    let cables = [(0, 1, 10_700, 9_800, 7), (0, 2, 62_600, 57_000, 14)];
    let choice = |spec| got(&mut two_servers(spec, &cables), "Client").0.member.0;
    assert_eq!([choice("sl-ps"), choice("ht-ps"), choice("ht-ps:direction=reply")], [1, 2, 2]);
}

#[test]
fn direction_parameter_selects_throughput() {
    // Wide forward and narrow back, or even: F1's table does not distinguish the two.
    let cables = [(0, 1, 40_000, 5_000, 1), (0, 2, 20_000, 20_000, 1)];
    let choice = |spec| got(&mut two_servers(spec, &cables), "Client").0.member.0;
    assert_eq!([choice("ht-ps"), choice("ht-ps:direction=reply")], [1, 2]);
}

#[test]
fn capacity_is_idle_throughput_and_available_is_remaining_throughput() {
    for (spec, expected) in [("ht-ps:htp=capacity", 1), ("ht-ps", 2)] {
        let mut bench = two_servers(spec, &[(0, 1, 40_000, 40_000, 1), (0, 2, 20_000, 20_000, 1)]);
        let busy = bench.network.topology.out_links(bench.edge)[1];
        bench.network.load[busy.ix()] = LinkLoad { rate: Some(kbps(25_000)), at: Time::ZERO };
        assert_eq!(got(&mut bench, "Client").0.member.0, expected, "{spec}");
    }
}

#[test]
fn the_diamond_s_even_path_beats_the_one_with_the_wide_link() {
    // S01: 80 + 10 against 20 + 20 Mb/s: the second.
    let cables =
        [(0, 1, 80_000, 80_000, 1), (1, 3, 10_000, 10_000, 1), (0, 2, 20_000, 20_000, 1), (2, 3, 20_000, 20_000, 1)];
    for spec in ["ht-ps", "server-rr:path=htp", "server-lc:path=htp,htp=capacity"] {
        let network = sites(&["Client", "Wide", "Even", "Server"], &cables);
        let pool = Pool::new([server(&network, 1, 3)]);
        let mut bench = Bench::on(spec, network, pool);
        let (choice, _, width) = got(&mut bench, "Client");
        let via = bench.network.topology.link(choice.path.unwrap()[0]).to;
        assert_eq!((bench.network.topology.node(via).name.as_str(), width), ("Even", kbps(20_000)), "{spec}");
    }
}

#[test]
fn the_hosts_of_f1_are_numbered_clients_first() {
    let network = TestNetwork::new("geni-wan");
    assert_eq!(network.topology.node(network.topology.host(HostIx(4))).name, "Server-1/host");
}
