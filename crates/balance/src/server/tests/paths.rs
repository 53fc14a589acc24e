//! Path pickers agree with enumeration of all simple paths, on random networks with dead and loaded links.

use net::paths::{self, Limits};
use net::{Bandwidth, LinkIx, NodeIx, Routes, Time, TopologyBuilder};
use proptest::prelude::*;

use crate::central::LinkLoad;
use crate::central::testing::World;
use crate::server::testing::{Bench, server};
use crate::server::{MemberId, Pool, available};

/// A cable of a random network: its ends, rates there and back, latency, load there, and whether it works.
type Cable = (usize, usize, (u64, u64), u64, Option<u64>, bool);

const SWITCHES: usize = 6;

/// Switches with a host each, in as many pieces as it happens. Few different rates and latencies, so that ties abound.
pub(super) fn world(cables: &[Cable]) -> World {
    let mut builder = TopologyBuilder::new("random");
    let switches: Vec<NodeIx> = (0..SWITCHES as u32)
        .map(|number| {
            let switch = builder.switch(format!("s{number}"), 1, None);
            let host = builder.host(format!("h{number}"), number, None);
            builder.connect(host, switch, Bandwidth::from_gbps(100), Time::ZERO);
            switch
        })
        .collect();
    let mbps = Bandwidth::from_mbps;
    let mut kept = Vec::new();
    for (a, b, (there, back), ms, load, is_alive) in cables.iter().filter(|cable| cable.0 != cable.1) {
        let latency = Time::from_ms(*ms);
        let link = builder.connect_asymmetric(switches[*a], switches[*b], mbps(*there), mbps(*back), latency);
        kept.push((link, *load, *is_alive));
    }
    let mut world = World::of(builder.build_partial().expect("nothing is wrong with it"));
    for (link, load, is_alive) in kept {
        world.load[link.ix()] = LinkLoad { rate: load.map(mbps), at: Time::ZERO };
        world.alive[link.ix()] = is_alive;
        world.alive[link.reverse().ix()] = is_alive;
    }
    world.routes = Routes::new(&world.topology, &world.alive);
    world
}

pub(super) fn cables() -> impl Strategy<Value = Vec<Cable>> {
    let end = 0..SWITCHES;
    let rate = 1u64..5;
    let load = proptest::option::of(0u64..6);
    prop::collection::vec((end.clone(), end, (rate.clone(), rate), 1u64..4, load, prop::bool::weighted(0.9)), 0..14)
}

/// The path of the one server, which is at the last switch.
fn path(spec: &str, cables: &[Cable]) -> (World, Option<Vec<LinkIx>>) {
    let world = world(cables);
    let pool = Pool::new([server(&world, 1, SWITCHES as u32 - 1)]);
    let mut bench = Bench::on(spec, world, pool);
    let request = bench.request();
    let choice = bench.pick_for(&request);
    assert!(choice.as_ref().is_none_or(|choice| choice.member == MemberId(1)));
    let again = bench.balancer.path_to(&request, &bench.pool.members()[0], &bench.world.view());
    assert_eq!(again, choice.as_ref().and_then(|choice| choice.path.clone()), "one that goes on gets the same");
    (bench.world, choice.map(|choice| choice.path.expect("it was asked for").to_vec()))
}

/// Every simple path there is.
fn all(world: &World) -> Vec<Vec<LinkIx>> {
    let switch = |host: usize| world.topology.link(world.topology.out_links(world.topology.hosts()[host])[0]).to;
    let limits = Limits { max_links: SWITCHES, max_paths: 1_000_000 };
    let found = paths::simple(&world.topology, switch(0), switch(SWITCHES - 1), limits, |link| world.alive[link.ix()]);
    assert!(!found.truncated);
    found.paths
}

fn width(world: &World, path: &[LinkIx]) -> Bandwidth {
    path.iter().map(|link| available(&world.view(), *link)).min().unwrap_or(Bandwidth::from_bps(u64::MAX))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn sph_is_the_path_of_fewest_hops(cables in cables()) {
        let (world, path) = path("server-rr:path=sph", &cables);
        let cost = |path: &Vec<LinkIx>| path.len();
        prop_assert_eq!(path.as_ref().map(cost), all(&world).iter().map(cost).min());
    }

    #[test]
    fn spl_is_the_path_of_least_latency_then_fewest_hops(cables in cables()) {
        for spec in ["server-rr:path=spl", "sl-ps"] {
            let (world, path) = path(spec, &cables);
            let cost = |path: &Vec<LinkIx>| (paths::delay(&world.topology, path), path.len());
            prop_assert_eq!(path.as_ref().map(cost), all(&world).iter().map(cost).min());
        }
    }

    #[test]
    fn htp_is_the_widest_path_then_the_one_of_fewest_hops(cables in cables()) {
        for spec in ["server-rr:path=htp", "ht-ps"] {
            let (world, path) = path(spec, &cables);
            let cost = |path: &Vec<LinkIx>| {
                (std::cmp::Reverse(width(&world, path)), path.len())
            };
            prop_assert_eq!(path.as_ref().map(cost), all(&world).iter().map(cost).min());
        }
    }

    #[test]
    fn joint_balancers_find_the_best_over_all_servers_and_paths(cables in cables()) {
        for spec in ["sl-ps", "ht-ps"] {
            let world = world(&cables);
            let pool = Pool::new((1..SWITCHES as u32).map(|host| server(&world, host, host)).collect::<Vec<_>>());
            let mut bench = Bench::on(spec, world, pool);
            let request = bench.request();
            let choice = bench.pick_for(&request);
            if let Some(choice) = &choice {
                let member = bench.pool.get(choice.member).expect("a member");
                let again = bench.balancer.path_to(&request, member, &bench.world.view());
                prop_assert_eq!(&again, &choice.path);
            }
            let world = &bench.world;
            let score = |path: &[LinkIx], member: u32| match spec {
                "sl-ps" => (paths::delay(&world.topology, path).as_ps(), path.len(), member),
                _ => (u64::MAX - width(world, path).as_bps(), path.len(), member),
            };
            let switch = |host: u32| world.topology.link(world.topology.out_links(world.topology.hosts()[host as usize])[0]).to;
            let limits = Limits { max_links: SWITCHES, max_paths: 1_000_000 };
            let to = |host| paths::simple(&world.topology, switch(0), switch(host), limits, |link| world.alive[link.ix()]).paths;
            let best = (1..SWITCHES as u32).flat_map(|host| to(host).into_iter().map(move |path| (host, path)));
            let best = best.map(|(host, path)| score(&path, host)).min();
            prop_assert_eq!(choice.map(|choice| score(&choice.path.unwrap(), choice.member.0)), best);
        }
    }
}
