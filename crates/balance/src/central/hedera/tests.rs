use net::{Bandwidth, RandomStream};

use crate::central::testing::{DrivenBalancer, TestNetwork, least, max_min, mean};
use crate::central::{DecisionTrigger, FlowId, LinkLoad};

type Traffic = fn(&mut TestNetwork, u64) -> Vec<FlowId>;

const PATTERNS: [(&str, Traffic); 4] = [
    ("stride(2)", |network, _| network.stride(2)),
    ("stride(4)", |network, _| network.stride(4)),
    ("stride(8)", |network, _| network.stride(8)),
    ("bijection", |network, seed| network.bijection(&mut RandomStream::new(seed, "bijection"))),
];

/// Returns the mean fluid share by seed after one round.
fn shares(spec: &str, family: &str, traffic: Traffic, seeds: u64) -> Vec<f64> {
    let share = |seed| {
        let mut network = TestNetwork::new(family);
        let mut driven = DrivenBalancer::new(spec, seed, &network);
        let flows = traffic(&mut network, seed);
        driven.decide(&network, DecisionTrigger::PeriodElapsed);
        mean(&network.rates(&flows, &driven.placements, seed))
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

/// Sets the loads of links from paths and rates, as counters would show them.
fn count(network: &mut TestNetwork, driven: &DrivenBalancer, flows: &[FlowId]) {
    let mut rng = RandomStream::new(1, "hashes");
    let paths: Vec<_> = flows.iter().map(|flow| network.path(*flow, &driven.placements, &mut rng)).collect();
    let capacity: Vec<f64> = network.topology.links().iter().map(|link| link.rate.as_bps_f64()).collect();
    let mut load = vec![0.0; capacity.len()];
    for ((flow, path), rate) in flows.iter().zip(&paths).zip(max_min(&capacity, &paths)) {
        network.flows.get_mut(*flow).unwrap().rate = Some(Bandwidth::from_bps(rate as u64));
        path.iter().for_each(|link| load[link.ix()] += rate);
    }
    let sample = |bps: f64| LinkLoad { rate: Some(Bandwidth::from_bps(bps as u64)), at: network.now };
    network.load = load.into_iter().map(sample).collect();
}

/// Returns the load of each upward core link, as a share of its capacity.
fn core_loads(network: &TestNetwork) -> Vec<f64> {
    let top = network.topology.top_tier();
    let links = network.topology.links().iter().zip(&network.load);
    let up = links.filter(|(link, _)| network.topology.node(link.to).tier == top);
    up.map(|(link, load)| load.rate.unwrap().as_bps_f64() / link.rate.as_bps_f64()).collect()
}

/// Returns CLLBL and bisection value (mean load) of the core (mechanisms.md section 7).
fn core_balance(network: &TestNetwork) -> (f64, f64) {
    let loads = core_loads(network);
    (loads.iter().copied().fold(0.0, f64::max) / mean(&loads), mean(&loads))
}

const F0: &str = "fat-tree:k=4,hosts_per_edge=10,host_rate=1Mbps,fabric_rate=10Mbps";

/// experiments.md F0 and its derived numbers: stride(30) on 80 hosts.
#[test]
fn worst_fit_with_reservation_balances_the_tree_of_f0() {
    let mut network = TestNetwork::new(F0);
    assert_eq!(network.topology.hosts().len(), 80);
    let mut driven = DrivenBalancer::new("hedera:placer=worst-fit,reservation=within_round", 1, &network);
    let flows = network.stride(30);
    count(&mut network, &driven, &flows);
    let (cllbl, bisection) = core_balance(&network);
    assert!((cllbl - 4.0).abs() < 1e-3 && (bisection - 0.25).abs() < 1e-3, "before: {cllbl} {bisection}");
    driven.decide(&network, DecisionTrigger::PeriodElapsed);
    count(&mut network, &driven, &flows);
    let (cllbl, bisection) = core_balance(&network);
    assert!((cllbl - 1.0).abs() < 1e-3 && (bisection - 0.5).abs() < 1e-3, "after: {cllbl} {bisection}");
}

#[test]
fn worst_fit_without_reservation_converges_on_one_path() {
    let mut network = TestNetwork::new(F0);
    let mut driven = DrivenBalancer::new("hedera:placer=worst-fit", 1, &network);
    let flows = network.stride(30);
    count(&mut network, &driven, &flows);
    driven.decide(&network, DecisionTrigger::PeriodElapsed);
    count(&mut network, &driven, &flows);
    let (cllbl, bisection) = core_balance(&network);
    assert!(cllbl > 3.0 && bisection < 0.3, "{cllbl} {bisection}");
    let pins = driven.placements.pins().clone();
    driven.decide(&network, DecisionTrigger::PeriodElapsed);
    assert_eq!(driven.placements.pins(), &pins, "each flow moves once");
}

#[test]
fn random_ties_spread_flows_without_reservation() {
    let mut network = TestNetwork::new(F0);
    let mut driven = DrivenBalancer::new("hedera:placer=worst-fit,ties=random", 1, &network);
    let flows = network.stride(30);
    count(&mut network, &driven, &flows);
    driven.decide(&network, DecisionTrigger::PeriodElapsed);
    count(&mut network, &driven, &flows);
    // The core link that was full is idle now; the flows of a pod are drawn onto the other three.
    let (cllbl, bisection) = core_balance(&network);
    assert!((1.33..2.8).contains(&cllbl) && bisection > 0.4, "{cllbl} {bisection}");
}

#[test]
fn worst_fit_that_draws_among_equals_spreads_flows_over_idle_paths() {
    // Two leaves with eight paths: all but the first are idle, as everything takes the lowest port.
    let mut network =
        TestNetwork::new("leaf-spine:leaves=2,spines=8,hosts_per_leaf=64,host_rate=1Gbps,fabric_rate=10Gbps");
    let rate = Some(Bandwidth::from_gbps(1));
    let flows: Vec<FlowId> = (0..64).map(|host| network.flow(host, 64 + host, rate)).collect();
    let used = |ties: &str, network: &mut TestNetwork| {
        let mut driven = DrivenBalancer::new(&format!("hedera:placer=worst-fit{ties}"), 1, network);
        count(network, &driven, &flows);
        driven.decide(network, DecisionTrigger::PeriodElapsed);
        let mut flows_of: std::collections::BTreeMap<net::LinkIx, u32> = Default::default();
        driven.placements.pins().values().for_each(|pin| *flows_of.entry(pin.path[0]).or_default() += 1);
        flows_of.into_values().collect::<Vec<u32>>()
    };
    assert_eq!(used("", &mut network), [64], "the first of the idle ones");
    let drawn = used(",ties=random", &mut network);
    assert_eq!((drawn.len(), drawn.iter().sum::<u32>()), (7, 64), "all but the busy one");
    // 64 flows over seven: about nine each, with a spread of three.
    assert!(drawn.iter().all(|flows| (1..=20).contains(flows)), "{drawn:?}");
}

#[test]
fn small_flows_keep_default_routes() {
    let mut network = TestNetwork::new("fat-tree:k=4");
    for spec in ["hedera", "hedera:placer=sa", "hedera:placer=worst-fit"] {
        let mut driven = DrivenBalancer::new(spec, 1, &network);
        let rate = |mbps| Some(Bandwidth::from_mbps(mbps));
        let (small, large, new) =
            (network.flow(0, 8, rate(1_000)), network.flow(1, 9, rate(1_001)), network.flow(2, 9, None));
        driven.decide(&network, DecisionTrigger::PeriodElapsed);
        let pins: Vec<FlowId> = driven.placements.pins().keys().copied().collect();
        assert_eq!(pins, [large], "{spec}");
        [small, large, new].into_iter().for_each(|flow| assert!(network.flows.remove(flow).is_some()));
    }
}

#[test]
fn flow_without_room_keeps_default_routes_until_some_is_free() {
    // Two hosts of one edge switch with one uplink.
    let mut network = TestNetwork::new("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2");
    let mut driven = DrivenBalancer::new("hedera", 1, &network);
    let flows = network.stride(2);
    driven.decide(&network, DecisionTrigger::PeriodElapsed);
    assert_eq!(driven.placements.pins().len(), 2, "one each way");
    let first = *driven.placements.pins().keys().next().unwrap();
    driven.decide(&network, DecisionTrigger::FlowEnded(first));
    network.flows.remove(first);
    driven.decide(&network, DecisionTrigger::PeriodElapsed);
    assert_eq!(driven.placements.pins().len(), 2, "{flows:?}");
}

#[test]
fn flows_on_dead_links_are_placed_again() {
    for spec in ["hedera", "hedera:placer=sa"] {
        let mut network = TestNetwork::new("fat-tree:k=4");
        let mut driven = DrivenBalancer::new(spec, 1, &network);
        let flow = network.flow(0, 15, Some(Bandwidth::from_gbps(10)));
        driven.decide(&network, DecisionTrigger::PeriodElapsed);
        let dead = driven.placements.pin_of(flow).unwrap().path[1];
        network.set_cable(dead, false);
        driven.decide(&network, DecisionTrigger::NetworkChanged);
        let path = &driven.placements.pin_of(flow).unwrap().path;
        assert!(path.iter().all(|link| network.alive[link.ix()]) && path.len() == 4, "{spec}");
    }
}

#[test]
fn annealing_reaches_no_excess_in_a_large_network() {
    let shares = shares("hedera:placer=sa", "fat-tree:k=8", |network, _| network.stride(64), 3);
    assert!(shares.iter().all(|share| least(&[*share, 1.0]) > 0.97), "{shares:?}");
}
