use net::{Bandwidth, Stream};

use crate::central::testing::{Driven, World, least, max_min, mean};
use crate::central::{FlowId, LinkLoad, Why};

type Traffic = fn(&mut World, u64) -> Vec<FlowId>;

const PATTERNS: [(&str, Traffic); 4] = [
    ("stride(2)", |world, _| world.stride(2)),
    ("stride(4)", |world, _| world.stride(4)),
    ("stride(8)", |world, _| world.stride(8)),
    ("bijection", |world, seed| world.bijection(&mut Stream::new(seed, "bijection"))),
];

/// Mean fluid share by seed after one round.
fn shares(spec: &str, family: &str, traffic: Traffic, seeds: u64) -> Vec<f64> {
    let share = |seed| {
        let mut world = World::new(family);
        let mut driven = Driven::new(spec, seed, &world);
        let flows = traffic(&mut world, seed);
        driven.decide(&world, Why::Period);
        mean(&world.rates(&flows, &driven.placements, seed))
    };
    (0..seeds).map(share).collect()
}

/// The fluid table of mechanisms.md P08: k=4, 16 hosts, all links equal, one flow per host.
#[test]
fn the_published_fluid_table_comes_out() {
    let ecmp = [0.76, 0.63, 0.63, 0.59];
    let first_fit = [1.0, 1.0, 1.0, 0.88];
    for (((name, traffic), ecmp), first_fit) in PATTERNS.into_iter().zip(ecmp).zip(first_fit) {
        let hashed = mean(&shares("sdn-ecmp", "fat-tree:k=4", traffic, 100));
        assert!((hashed - ecmp).abs() < 0.025, "ECMP, {name}: {hashed}");
        let fitted = mean(&shares("hedera", "fat-tree:k=4", traffic, 100));
        assert!((fitted - first_fit).abs() < 0.02, "first fit, {name}: {fitted}");
        let annealed = shares("hedera:placer=sa", "fat-tree:k=4", traffic, 20);
        assert!(annealed.iter().all(|share| (share - 1.0).abs() < 1e-9), "annealing, {name}: {annealed:?}");
    }
}

/// Loads of links by paths and rates, as counters would show them.
fn count(world: &mut World, driven: &Driven, flows: &[FlowId]) {
    let mut rng = Stream::new(1, "hashes");
    let paths: Vec<_> = flows.iter().map(|flow| world.path(*flow, &driven.placements, &mut rng)).collect();
    let capacity: Vec<f64> = world.topology.links().iter().map(|link| link.rate.as_bps_f64()).collect();
    let mut load = vec![0.0; capacity.len()];
    for ((flow, path), rate) in flows.iter().zip(&paths).zip(max_min(&capacity, &paths)) {
        world.flows.get_mut(*flow).unwrap().rate = Some(Bandwidth::from_bps(rate as u64));
        path.iter().for_each(|link| load[link.ix()] += rate);
    }
    let sample = |bps: f64| LinkLoad { rate: Some(Bandwidth::from_bps(bps as u64)), at: world.now };
    world.load = load.into_iter().map(sample).collect();
}

/// Load of each core link upwards, as a share of its capacity.
fn core_loads(world: &World) -> Vec<f64> {
    let top = world.topology.top_tier();
    let links = world.topology.links().iter().zip(&world.load);
    let up = links.filter(|(link, _)| world.topology.node(link.to).tier == top);
    up.map(|(link, load)| load.rate.unwrap().as_bps_f64() / link.rate.as_bps_f64()).collect()
}

/// CLLBL (greatest load by mean load) and bisection value (mean load) of the core (mechanisms.md section 7).
fn core_balance(world: &World) -> (f64, f64) {
    let loads = core_loads(world);
    (loads.iter().copied().fold(0.0, f64::max) / mean(&loads), mean(&loads))
}

const F0: &str = "fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps";

/// experiments.md F0 and its derived numbers: stride(30) on 80 hosts.
#[test]
fn worst_fit_with_bookkeeping_balances_the_tree_of_f0() {
    let mut world = World::new(F0);
    assert_eq!(world.topology.hosts().len(), 80);
    let mut driven = Driven::new("hedera:placer=worst-fit,bookkeeping=within_round", 1, &world);
    let flows = world.stride(30);
    count(&mut world, &driven, &flows);
    let (cllbl, bisection) = core_balance(&world);
    assert!((cllbl - 4.0).abs() < 1e-3 && (bisection - 0.25).abs() < 1e-3, "before: {cllbl} {bisection}");
    driven.decide(&world, Why::Period);
    count(&mut world, &driven, &flows);
    let (cllbl, bisection) = core_balance(&world);
    assert!((cllbl - 1.0).abs() < 1e-3 && (bisection - 0.5).abs() < 1e-3, "after: {cllbl} {bisection}");
}

#[test]
fn worst_fit_without_bookkeeping_herds() {
    let mut world = World::new(F0);
    let mut driven = Driven::new("hedera:placer=worst-fit", 1, &world);
    let flows = world.stride(30);
    count(&mut world, &driven, &flows);
    driven.decide(&world, Why::Period);
    count(&mut world, &driven, &flows);
    let (cllbl, bisection) = core_balance(&world);
    assert!(cllbl > 3.0 && bisection < 0.3, "{cllbl} {bisection}");
    let pins = driven.placements.pins().clone();
    driven.decide(&world, Why::Period);
    assert_eq!(driven.placements.pins(), &pins, "each flow moves once");
}

#[test]
fn random_ties_spread_what_believes_the_counters() {
    let mut world = World::new(F0);
    let mut driven = Driven::new("hedera:placer=worst-fit,ties=random", 1, &world);
    let flows = world.stride(30);
    count(&mut world, &driven, &flows);
    driven.decide(&world, Why::Period);
    count(&mut world, &driven, &flows);
    // The core link that was full is idle now; the twenty flows of a pod are drawn onto the other three.
    let (cllbl, bisection) = core_balance(&world);
    assert!((1.33..2.8).contains(&cllbl) && bisection > 0.4, "{cllbl} {bisection}");
}

#[test]
fn worst_fit_that_draws_among_equals_spreads_flows_over_idle_paths() {
    // Two leaves, eight ways between them: all but the first are idle, as everything takes the lowest port.
    let mut world = World::new("leaf-spine:leaves=2,spines=8,hosts_per_leaf=64,host_rate=1Gbps,fabric_rate=10Gbps");
    let rate = Some(Bandwidth::from_gbps(1));
    let flows: Vec<FlowId> = (0..64).map(|host| world.flow(host, 64 + host, rate)).collect();
    let used = |ties: &str, world: &mut World| {
        let mut driven = Driven::new(&format!("hedera:placer=worst-fit{ties}"), 1, world);
        count(world, &driven, &flows);
        driven.decide(world, Why::Period);
        let mut flows_of: std::collections::BTreeMap<net::LinkIx, u32> = Default::default();
        driven.placements.pins().values().for_each(|pin| *flows_of.entry(pin.path[0]).or_default() += 1);
        flows_of.into_values().collect::<Vec<u32>>()
    };
    assert_eq!(used("", &mut world), [64], "the first of the idle ones");
    let drawn = used(",ties=random", &mut world);
    assert_eq!((drawn.len(), drawn.iter().sum::<u32>()), (7, 64), "all but the busy one");
    // 64 flows over seven: about nine each, with a spread of three.
    assert!(drawn.iter().all(|flows| (1..=20).contains(flows)), "{drawn:?}");
}

#[test]
fn small_flows_stay_on_the_base() {
    let mut world = World::new("fat-tree:k=4");
    for spec in ["hedera", "hedera:placer=sa", "hedera:placer=worst-fit"] {
        let mut driven = Driven::new(spec, 1, &world);
        let rate = |mbps| Some(Bandwidth::from_mbps(mbps));
        let (small, large, new) =
            (world.flow(0, 8, rate(1_000)), world.flow(1, 9, rate(1_001)), world.flow(2, 9, None));
        driven.decide(&world, Why::Period);
        let pins: Vec<FlowId> = driven.placements.pins().keys().copied().collect();
        assert_eq!(pins, [large], "{spec}");
        [small, large, new].into_iter().for_each(|flow| assert!(world.flows.remove(flow).is_some()));
    }
}

#[test]
fn first_fit_leaves_a_flow_without_room_on_the_base_until_there_is_some() {
    // Two hosts of one edge switch, one way up.
    let mut world = World::new("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2");
    let mut driven = Driven::new("hedera", 1, &world);
    let flows = world.stride(2);
    driven.decide(&world, Why::Period);
    assert_eq!(driven.placements.pins().len(), 2, "one each way");
    let first = *driven.placements.pins().keys().next().unwrap();
    driven.decide(&world, Why::FlowEnded(first));
    world.flows.remove(first);
    driven.decide(&world, Why::Period);
    assert_eq!(driven.placements.pins().len(), 2, "{flows:?}");
}

#[test]
fn flows_are_placed_anew_where_links_die() {
    for spec in ["hedera", "hedera:placer=sa"] {
        let mut world = World::new("fat-tree:k=4");
        let mut driven = Driven::new(spec, 1, &world);
        let flow = world.flow(0, 15, Some(Bandwidth::from_gbps(10)));
        driven.decide(&world, Why::Period);
        let dead = driven.placements.pin_of(flow).unwrap().path[1];
        world.set_cable(dead, false);
        driven.decide(&world, Why::Network);
        let path = &driven.placements.pin_of(flow).unwrap().path;
        assert!(path.iter().all(|link| world.alive[link.ix()]) && path.len() == 4, "{spec}");
    }
}

#[test]
fn annealing_reaches_no_excess_in_a_large_network() {
    let shares = shares("hedera:placer=sa", "fat-tree:k=8", |world, _| world.stride(64), 3);
    assert!(shares.iter().all(|share| least(&[*share, 1.0]) > 0.97), "{shares:?}");
}
