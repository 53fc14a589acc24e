//! Properties of every registered balancer in the simulator.

use crate::common::{
    Threads, fabric_link, fault, flow, list, node, permanent, simulate, simulate_on, some_flows, topology, total, with,
};
use anabranch_sim::conformance::{self, Check, Subject};
use anabranch_sim::{FailureKind, Outcome, SimConfig, TransportConfig};
use balance::{Entry, Granularity, Reorders, Spec};
use net::{LinkIx, Time};

/// Bounds send no packets; `bounds.rs` tests them.
fn balancers() -> impl Iterator<Item = &'static &'static Entry> {
    balance::registry::DATAPLANE.iter().filter(|entry| !entry.is_bound())
}

/// Checks a property of every balancer, on three threads where several are needed.
fn check_all(check: Check) {
    for entry in balancers() {
        let balancer = &Spec::parse(entry.example).unwrap();
        let subject = Subject { balancer, workers: &Threads(3), may_go_on: &|| true };
        check(&subject).unwrap_or_else(|violation| panic!("{}: {violation}", entry.name));
    }
}

#[test]
fn everything_is_delivered() {
    check_all(conformance::delivers_everything);
}

#[test]
fn per_flow_schemes_never_reorder() {
    for entry in balancers().filter(|e| e.granularity == Granularity::Flow) {
        assert_eq!(entry.reorders(), Reorders::Never, "{}", entry.name);
    }
    check_all(conformance::keeps_order_by_flow);
}

#[test]
fn per_packet_schemes_reorder_and_buffer_hides_it() {
    check_all(conformance::reorders_by_packet);
}

#[test]
fn outcome_same_for_same_seed() {
    check_all(conformance::repeats_on_any_threads);
}

#[test]
fn members_may_vanish_and_return() {
    check_all(conformance::survives_failures);
}

fn new_reno() -> SimConfig {
    with(TransportConfig::new_reno())
}

#[test]
fn parameters_may_ask_for_resequencing() {
    let held = |balancer| {
        let flows = some_flows(16, 120, 11, Time::from_us(300), 200_000);
        let o = simulate(&topology("fat-tree:k=4"), &flows, balancer, 7, &new_reno());
        (o.resequencing.active, o.resequencing.held > 0)
    };
    assert_eq!(held("vlb"), (false, false));
    assert_eq!(held("vlb:per=packet"), (true, true));
}

#[test]
fn outcome_differs_by_seed() {
    let fixed = ["spt:tie=first", "ecmp-path:key=hosts"];
    for entry in balancers().filter(|entry| !fixed.contains(&entry.example)) {
        let t = topology("fat-tree:k=4");
        let flows = some_flows(16, 150, 2, Time::from_us(200), 300_000);
        let links = |seed| simulate(&t, &flows, entry.example, seed, &SimConfig::default()).links;
        assert!(links(1) != links(2), "{}: the seed changes nothing", entry.name);
    }
}

#[test]
fn detours_avoid_edges_that_are_down() {
    // Eight switches, each linked to every other; the last is down, its hosts send nothing.
    let t = topology("flattened-butterfly:k=8,n=2");
    let dead = t.link(t.out_links(t.host(net::HostIx(63)))[0]).to;
    let down = permanent(FailureKind::SwitchDown(dead));
    let flows = some_flows(56, 400, 3, Time::from_us(500), 100_000);
    for failures in [vec![], vec![down]] {
        let has_failed = !failures.is_empty();
        let config = SimConfig { failures, ..new_reno() };
        let o = simulate(&t, &flows, "vlb", 7, &config);
        assert_eq!(o.accounting.flows_completed, 400, "down: {has_failed}");
        assert_eq!(total(&o, |f| f.reordered), 0, "down: {has_failed}");
        // Two hops where ECMP takes one, unless the first switch is drawn: 6 of 8, 5 with one down.
        let between = |o: &Outcome| -> u64 {
            let is_fabric = |link: &usize| !t.is_host_link(LinkIx(*link as u32));
            (0..t.links().len()).filter(is_fabric).map(|link| o.links[link].bytes).sum()
        };
        let direct = simulate(&t, &flows, "ecmp", 7, &config);
        let stretch = between(&o) as f64 / between(&direct) as f64;
        let expected = if has_failed { 1.0 + 5.0 / 8.0 } else { 1.0 + 6.0 / 8.0 };
        assert!((stretch - expected).abs() < 0.06, "down: {has_failed}, {stretch} times the hops, {expected} expected");
    }
}

#[test]
fn faults_that_are_silent_are_counted_by_cause() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=4");
    let up = fabric_link(&t);
    let spine = t.link(up).to;
    let flows = some_flows(8, 200, 9, Time::from_ms(2), 100_000);
    let random =
        SimConfig { failures: vec![permanent(FailureKind::RandomDrop { link: up, probability: 0.02 })], ..new_reno() };
    let o = simulate(&t, &flows, "ecmp", 1, &random);
    assert!(o.accounting.dropped.random > 0 && o.accounting.flows_completed == 200);
    let hole = |fraction, racks| SimConfig {
        failures: vec![permanent(FailureKind::Blackhole { node: spine, fraction, racks })],
        transport: TransportConfig { max_timeouts: 3, ..TransportConfig::new_reno() },
        ..SimConfig::default()
    };
    let o = simulate(&t, &flows, "ecmp", 1, &hole(0.5, None));
    assert!(o.accounting.dropped.blackhole > 0);
    assert!(o.accounting.flows_failed > 0 && o.accounting.flows_failed + o.accounting.flows_completed == 200);
    // Between racks only.
    let holes = |racks| simulate(&t, &flows, "spt:tie=first", 1, &hole(1.0, racks)).accounting.dropped.blackhole;
    assert!(holes(Some((0, 1))) > 0 && holes(Some((1, 0))) > 0);
    assert_eq!(holes(Some((1, 1))), 0, "nothing within a rack passes a spine");
}

#[test]
fn a_lossy_switch_loses_in_every_direction_each_packet_once() {
    let t = topology("leaf-spine:leaves=2,spines=1,hosts_per_leaf=4");
    let (spine, leaf) = (node(&t, "spine0"), node(&t, "leaf0"));
    let drop = |node, until_us| fault(FailureKind::SwitchDrop { node, probability: 0.02 }, 0, until_us, 0);
    let config = |failures| SimConfig { failures, ..SimConfig::default() };
    // Both directions between the leaves, over the one spine.
    let pairs = (0..4).flat_map(|host| [(host, host + 4), (host + 4, host)]);
    let flows = list(pairs.map(|(a, b)| flow(a, b, 3_000_000, Time::ZERO)).collect());
    let o = simulate(&t, &flows, "ecmp", 1, &config(vec![drop(spine, None)]));
    assert_eq!(o.accounting.flows_completed, 8);
    // Packets lost of those that reached the spine, either direction alike: 2 % once each.
    let (lost, seen) = (o.accounting.dropped.random as f64, o.accounting.packets_sent as f64);
    let deviations = (lost - 0.02 * seen) / (0.02 * 0.98 * seen).sqrt();
    assert!(deviations.abs() < 4.0, "{lost} of {seen}: {deviations} standard deviations");
    assert!(o.flows.iter().all(|record| record.retransmitted > 0), "some direction lost nothing");
    // Two of them overlap on no link, and the end of one leaves the other as it is.
    let both = config(vec![drop(spine, None), drop(spine, Some(1)), drop(leaf, None)]);
    let o = simulate(&t, &flows, "ecmp", 1, &both);
    let share = o.accounting.dropped.random as f64 / o.accounting.packets_sent as f64;
    assert!((0.03..0.05).contains(&share), "{share}");
}

#[test]
fn a_slower_link_carries_less() {
    let t = topology("leaf-spine:leaves=2,spines=1,hosts_per_leaf=2");
    let up = fabric_link(&t);
    let flows = list(vec![flow(0, 2, 10_000_000, Time::ZERO)]);
    let slow = SimConfig {
        failures: vec![fault(FailureKind::LinkRate { link: up, fraction: 0.2 }, 500, None, 1_000)],
        ..SimConfig::default()
    };
    let fast = simulate(&t, &flows, "wcmp", 1, &SimConfig::default()).flows[0].fct.as_us_f64();
    let slowed = simulate(&t, &flows, "wcmp", 1, &slow).flows[0].fct.as_us_f64();
    // Half a millisecond at full rate, the rest at a fifth.
    let expected = 500.0 + (fast - 500.0) * 5.0;
    assert!((slowed / expected - 1.0).abs() < 0.05, "{slowed} us, expected {expected}");
}

/// ConWeave holds packets that overtake others on an old path, sometimes before the partition of the
/// receiver has delivered one of the flow.
#[test]
fn flows_held_before_their_first_delivery_are_the_same_on_three_threads() {
    let t = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=3");
    for seed in 0..60 {
        let flows = some_flows(9, 40, seed, Time::from_us(80), 60_000);
        let failures = vec![fault(FailureKind::LinkDown(fabric_link(&t)), 0, None, 5_000)];
        let config = SimConfig { failures, ..SimConfig::default() };
        let alone = simulate(&t, &flows, "conweave", seed, &config);
        let together = simulate_on(3, &t, &flows, "conweave", seed, &config);
        assert!(alone.flows == together.flows, "seed {seed}");
    }
}

/// A detour's intermediate edge is often in another part than the flow's hosts, whose slots it lacks.
#[test]
fn detours_are_the_same_on_three_threads() {
    let t = topology("bcube:n=4,k=1");
    for seed in 0..20 {
        let flows = some_flows(16, 60, seed, Time::from_us(80), 60_000);
        for balancer in ["bsr:interval=1ms", "vlb"] {
            let config = SimConfig::default();
            let alone = simulate(&t, &flows, balancer, seed, &config);
            let together = simulate_on(3, &t, &flows, balancer, seed, &config);
            assert!(alone.flows == together.flows, "{balancer}, seed {seed}");
        }
    }
}
