//! Properties of every registered balancer in the simulator.

use crate::common::{
    all_transports, fabric_link, fault, flow, is_refused, list, node, permanent, simulate, simulate_on, some_flows,
    topology, total, with,
};
use anabranch_sim::{
    FailureKind, FlowEnd, Outcome, RdmaRecovery, Resequencing, SimConfig, TransportConfig, TransportKind,
};
use balance::{Entry, Granularity, Reorders};
use net::{LinkIx, Time};

/// Bounds send no packets; `bounds.rs` tests them.
fn balancers() -> impl Iterator<Item = &'static &'static Entry> {
    balance::registry::DATAPLANE.iter().filter(|entry| !entry.is_bound())
}

const TOPOLOGIES: [&str; 5] = [
    "fat-tree:k=4",
    "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2",
    "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
    "bcube:n=4,k=1",
    "flattened-butterfly:k=3,n=3",
];

fn short_run(spec: &str, balancer: &str, config: &SimConfig) -> Outcome {
    let t = topology(spec);
    let flows = some_flows(t.hosts().len() as u32, 120, 11, Time::from_us(300), 200_000);
    simulate(&t, &flows, balancer, 7, config)
}

#[test]
fn everything_is_delivered() {
    for entry in balancers() {
        for spec in TOPOLOGIES {
            for (name, transport) in all_transports().into_iter().filter(|(_, transport)| !is_refused(entry, transport))
            {
                let kind = transport.kind;
                let o = short_run(spec, entry.example, &with(transport));
                // The watchdog's drops end pauses that deadlock in a cycle (on server-centric
                // networks). Senders without any window fill it again immediately, and some fail.
                let is_go_back_n = matches!(kind, TransportKind::Rdma(rdma) if rdma.recovery == RdmaRecovery::GoBackN);
                if o.accounting.dropped.watchdog > 0 && is_go_back_n {
                    continue;
                }
                assert_eq!(o.accounting.flows_completed, 120, "{} on {spec} with {name}", entry.name);
                // Only probes and notifications may be in flight when the last flow ends.
                assert_eq!(o.accounting.packets_in_flight, o.control.in_flight, "{} on {spec}", entry.name);
                // An event per hop, two with lossless ports, and timers: nothing multiplies them.
                let (events, hops) = (o.engine.events, o.engine.packet_hops);
                assert!(events < 4 * hops + 10_000, "{} on {spec}: {events} events for {hops} hops", entry.name);
                for f in &o.flows {
                    assert!(f.fct >= f.ideal, "{} on {spec}: a flow beat the bound", entry.name);
                }
            }
        }
    }
}

fn new_reno() -> SimConfig {
    with(TransportConfig::new_reno())
}

#[test]
fn per_flow_schemes_never_reorder() {
    for entry in balancers().filter(|e| e.granularity == Granularity::Flow) {
        assert_eq!(entry.reorders(), Reorders::Never, "{}", entry.name);
        for spec in TOPOLOGIES {
            let o = short_run(spec, entry.example, &new_reno());
            assert_eq!(total(&o, |f| f.reordered), 0, "{} on {spec}", entry.name);
        }
    }
}

#[test]
fn per_packet_schemes_reorder_and_buffer_hides_it() {
    let off = SimConfig {
        host: anabranch_sim::HostConfig { resequencing: Resequencing::Off, ..Default::default() },
        ..new_reno()
    };
    for entry in balancers().filter(|e| e.granularity == Granularity::Packet) {
        let with = short_run("fat-tree:k=4", entry.example, &new_reno());
        let without = short_run("fat-tree:k=4", entry.example, &off);
        let spurious = |o: &Outcome| total(o, |f| f.spurious);
        assert!(without.flows.iter().any(|f| f.reordered > 0), "{}", entry.name);
        assert!(with.resequencing.active && with.resequencing.held > 0, "{}", entry.name);
        assert!(spurious(&with) < spurious(&without), "{}: {} {}", entry.name, spurious(&with), spurious(&without));
    }
}

#[test]
fn parameters_may_ask_for_resequencing() {
    let held = |balancer| {
        let o = short_run("fat-tree:k=4", balancer, &new_reno());
        (o.resequencing.active, o.resequencing.held > 0)
    };
    assert_eq!(held("vlb"), (false, false));
    assert_eq!(held("vlb:per=packet"), (true, true));
}

#[test]
fn outcome_same_for_same_seed_only() {
    for entry in balancers() {
        let t = topology("fat-tree:k=4");
        let flows = some_flows(16, 150, 2, Time::from_us(200), 300_000);
        let run = |seed| simulate(&t, &flows, entry.example, seed, &SimConfig::default());
        let first = run(1);
        assert!(first == run(1), "{}: two runs differ", entry.name);
        if !["spt:tie=first", "ecmp-path:key=hosts"].contains(&entry.example) {
            assert!(first.links != run(2).links, "{}: the seed changes nothing", entry.name);
        }
    }
}

#[test]
fn members_may_vanish_and_return() {
    for entry in balancers() {
        let t = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=4");
        let victim = fabric_link(&t);
        let spine = t.link(victim).to;
        let config = SimConfig {
            failures: vec![
                fault(FailureKind::LinkDown(victim), 50, Some(20_000), 500),
                fault(FailureKind::SwitchDown(spine), 30_000, Some(60_000), 1_000),
            ],
            ..new_reno()
        };
        let flows = some_flows(12, 300, 4, Time::from_ms(70), 500_000);
        let o = simulate(&t, &flows, entry.example, 7, &config);
        assert_eq!(o.accounting.flows_completed, 300, "{}", entry.name);
        assert!(o.accounting.dropped.link_down > 0, "{}: the failure hit nothing", entry.name);
        assert!(o.flows.iter().all(|f| f.end == FlowEnd::Completed), "{}", entry.name);
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
