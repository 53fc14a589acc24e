//! Path pickers agree with enumeration of all simple paths on random, partly dead networks.

use net::paths::{self, Limits};
use net::{Bandwidth, LinkIx, Routes, Time, TopologyBuilder};
use proptest::prelude::*;

use crate::central::LinkLoad;
use crate::central::testing::TestNetwork;
use crate::server::testing::{Bench, add_racks, edge_of, server};
use crate::server::{MemberId, Pool, available};

/// A cable: its ends, rates in both directions, latency, load towards the member, is it up.
type Cable = (usize, usize, (u64, u64), u64, Option<u64>, bool);

const SWITCHES: usize = 6;

/// Makes switches with a host each, possibly unconnected; few rates, so ties are frequent.
pub(super) fn network(cables: &[Cable]) -> TestNetwork {
    let mut builder = TopologyBuilder::new("random");
    let switches = add_racks(&mut builder, (0..SWITCHES).map(|number| format!("s{number}")));
    let mbps = Bandwidth::from_mbps;
    let mut kept = Vec::new();
    for (a, b, (there, back), ms, load, is_alive) in cables.iter().filter(|cable| cable.0 != cable.1) {
        let latency = Time::from_ms(*ms);
        let link = builder.connect_asymmetric(switches[*a], switches[*b], mbps(*there), mbps(*back), latency);
        kept.push((link, *load, *is_alive));
    }
    let mut network = TestNetwork::of(builder.build_partial().expect("the network is valid"));
    for (link, load, is_alive) in kept {
        network.load[link.ix()] = LinkLoad { rate: load.map(mbps), at: Time::ZERO };
        network.alive[link.ix()] = is_alive;
        network.alive[link.reverse().ix()] = is_alive;
    }
    network.routes = Routes::new(&network.topology, &network.alive);
    network
}

pub(super) fn cables() -> impl Strategy<Value = Vec<Cable>> {
    let end = 0..SWITCHES;
    let rate = 1u64..5;
    let load = proptest::option::of(0u64..6);
    prop::collection::vec((end.clone(), end, (rate.clone(), rate), 1u64..4, load, prop::bool::weighted(0.9)), 0..14)
}

/// Returns the path of the single server, which is at the last switch.
fn path(spec: &str, cables: &[Cable]) -> (TestNetwork, Option<Vec<LinkIx>>) {
    let network = network(cables);
    let pool = Pool::new([server(&network, 1, SWITCHES as u32 - 1)]);
    let mut bench = Bench::on(spec, network, pool);
    let request = bench.request();
    let choice = bench.pick_for(&request);
    assert!(choice.as_ref().is_none_or(|choice| choice.member == MemberId(1)));
    let again = bench.balancer.path_to(&request, &bench.pool.members()[0], &bench.network.view());
    assert_eq!(again, choice.as_ref().and_then(|choice| choice.path.clone()), "one that goes on gets the same");
    (bench.network, choice.map(|choice| choice.path.expect("the parameters request a path").to_vec()))
}

/// Returns all live simple paths from the first switch to that of a host.
fn all_to(network: &TestNetwork, host: u32) -> Vec<Vec<LinkIx>> {
    let limits = Limits { max_links: SWITCHES, max_paths: 1_000_000 };
    let (from, to) = (edge_of(network, 0), edge_of(network, host));
    let found = paths::simple(&network.topology, from, to, limits, |link| network.alive[link.ix()]);
    assert!(!found.truncated);
    found.paths
}

fn all(network: &TestNetwork) -> Vec<Vec<LinkIx>> {
    all_to(network, SWITCHES as u32 - 1)
}

fn width(network: &TestNetwork, path: &[LinkIx]) -> Bandwidth {
    path.iter().map(|link| available(&network.view(), *link)).min().unwrap_or(Bandwidth::from_bps(u64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn sph_is_the_path_of_fewest_hops(cables in cables()) {
        let (network, path) = path("server-rr:path=sph", &cables);
        let cost = |path: &Vec<LinkIx>| path.len();
        prop_assert_eq!(path.as_ref().map(cost), all(&network).iter().map(cost).min());
    }

    #[test]
    fn spl_is_the_path_of_least_latency_then_fewest_hops(cables in cables()) {
        for spec in ["server-rr:path=spl", "sl-ps"] {
            let (network, path) = path(spec, &cables);
            let cost = |path: &Vec<LinkIx>| (paths::delay(&network.topology, path), path.len());
            prop_assert_eq!(path.as_ref().map(cost), all(&network).iter().map(cost).min());
        }
    }

    #[test]
    fn htp_is_the_widest_path_then_the_one_of_fewest_hops(cables in cables()) {
        for spec in ["server-rr:path=htp", "ht-ps"] {
            let (network, path) = path(spec, &cables);
            let cost = |path: &Vec<LinkIx>| {
                (std::cmp::Reverse(width(&network, path)), path.len())
            };
            prop_assert_eq!(path.as_ref().map(cost), all(&network).iter().map(cost).min());
        }
    }

    #[test]
    fn joint_balancers_find_the_best_over_all_servers_and_paths(cables in cables()) {
        for spec in ["sl-ps", "ht-ps"] {
            let network = network(&cables);
            let pool = Pool::new((1..SWITCHES as u32).map(|host| server(&network, host, host)).collect::<Vec<_>>());
            let mut bench = Bench::on(spec, network, pool);
            let request = bench.request();
            let choice = bench.pick_for(&request);
            if let Some(choice) = &choice {
                let member = bench.pool.get(choice.member).expect("a member");
                let again = bench.balancer.path_to(&request, member, &bench.network.view());
                prop_assert_eq!(&again, &choice.path);
            }
            let network = &bench.network;
            let score = |path: &[LinkIx], member: u32| match spec {
                "sl-ps" => (paths::delay(&network.topology, path).as_ps(), path.len(), member),
                _ => (u64::MAX - width(network, path).as_bps(), path.len(), member),
            };
            let to = |host| all_to(network, host).into_iter().map(move |path| (host, path));
            let best = (1..SWITCHES as u32).flat_map(to).map(|(host, path)| score(&path, host)).min();
            prop_assert_eq!(choice.map(|choice| score(&choice.path.unwrap(), choice.member.0)), best);
        }
    }
}
