//! Rates of flows against the packet engine and against closed forms.

use crate::common::{
    fabric_link, fault, flow, last_us, link, list, node, simulate, some_flows, topology, total, try_simulate, with,
};
use anabranch_sim::{
    Failure, FailureKind, Fidelity, FlowEnd, HostConfig, Marking, Outcome, QueueConfig, QueueLimit, RdmaRecovery,
    Scenario, SimConfig, SimError, StopRule, TransportConfig, TransportKind, UdpRate, run,
};
use balance::{Entry, FlowLevel, Spec};
use net::{Bandwidth, Time, Topology};
use traffic::{FlowList, Start};

fn by_rates(config: SimConfig) -> SimConfig {
    SimConfig { fidelity: Fidelity::Flow, ..config }
}

fn supported() -> impl Iterator<Item = &'static &'static Entry> {
    balance::registry::DATAPLANE.iter().filter(|entry| entry.flow_level != FlowLevel::None)
}

/// Runs the same flows by packets and by rates.
fn both(t: &Topology, flows: &FlowList, balancer: &str, config: &SimConfig) -> [Outcome; 2] {
    [config.clone(), by_rates(config.clone())].map(|config| simulate(t, flows, balancer, 5, &config))
}

#[test]
fn a_flow_alone_takes_its_ideal_time() {
    let line_rate = with(TransportConfig::rdma(RdmaRecovery::Selective));
    for entry in supported() {
        for spec in ["fat-tree:k=4", "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3", "single-switch:hosts=3"] {
            let t = topology(spec);
            let last = t.hosts().len() as u32 - 1;
            // Ten packets fit the initial window; without a window, any size is sent at line rate.
            for (size, config) in [(1, &SimConfig::default()), (14_600, &SimConfig::default()), (3_000_001, &line_rate)]
            {
                let flows = list(vec![flow(0, last, size, Time::from_us(3))]);
                let o = simulate(&t, &flows, entry.name, 5, &by_rates(config.clone()));
                let (fct, ideal) = (o.flows[0].fct.as_ps(), o.flows[0].ideal.as_ps());
                assert_eq!((o.flows[0].end, fct), (FlowEnd::Completed, ideal), "{} on {spec}, {size} B", entry.name);
            }
        }
    }
}

#[test]
fn a_flow_alone_is_limited_by_slow_start_as_in_the_packet_engine() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2,host_delay=10us,fabric_delay=10us");
    for transport in [TransportConfig::default(), TransportConfig::new_reno(), TransportConfig::cubic()] {
        for (size, handshake) in [(20_000, false), (60_000, true), (200_000, false), (2_000_000, true)] {
            let transport = TransportConfig { handshake, ..transport.clone() };
            let flows = list(vec![flow(0, 3, size, Time::ZERO)]);
            let [packets, rates] = both(&t, &flows, "ecmp", &with(transport.clone()));
            let (expected, fct) = (packets.flows[0].fct.as_us_f64(), rates.flows[0].fct.as_us_f64());
            assert!((fct / expected - 1.0).abs() < 0.01, "{} {size} B: {fct}, not {expected}", transport.kind.name());
            let sender = rates.flows[0].sender_fct.as_us_f64() / packets.flows[0].sender_fct.as_us_f64();
            assert!((sender - 1.0).abs() < 0.02, "{size} B at the sender: {sender}");
        }
    }
}

/// The first windows of a newcomer raise the queue; then both flows reduce their windows.
#[test]
fn a_newcomer_at_a_full_link_is_slowed_as_in_the_packet_engine() {
    let t = topology("leaf-spine:leaves=3,spines=1,hosts_per_leaf=2,host_delay=10us,fabric_delay=10us");
    let (limit, marking) = (QueueLimit::Packets(600), Marking::Step(QueueLimit::Packets(65)));
    let config = SimConfig { switch: QueueConfig { limit, marking, ..QueueConfig::default() }, ..SimConfig::default() };
    for (size, allowed) in [(10_000, 0.02), (30_000, 0.02), (100_000, 0.02), (1_000_000, 0.2), (10_000_000, 0.3)] {
        let flows = list(vec![flow(0, 4, 50_000_000, Time::ZERO), flow(2, 4, size, Time::from_us(1_130))]);
        let [packets, rates] = both(&t, &flows, "ecmp", &config);
        let error = rates.flows[1].fct.as_us_f64() / packets.flows[1].fct.as_us_f64() - 1.0;
        assert!(error.abs() < allowed, "{size} B: {error}");
        let error = rates.flows[0].fct.as_us_f64() / packets.flows[0].fct.as_us_f64() - 1.0;
        assert!(error.abs() < 0.02, "incumbent next to {size} B: {error}");
    }
}

#[test]
fn flows_share_a_link_evenly() {
    let t = topology("single-switch:hosts=4");
    let flows = list((0..3).map(|src| flow(src, 3, 3_000_000, Time::ZERO)).collect());
    let o = simulate(&t, &flows, "ecmp", 1, &by_rates(with(TransportConfig::rdma(RdmaRecovery::Selective))));
    for record in &o.flows {
        let ratio = record.fct.as_us_f64() / (3.0 * record.ideal.as_us_f64());
        assert!((0.99..1.03).contains(&ratio), "{ratio}");
    }
}

/// Acknowledgements of one byte: the bytes of a link show which data it carried.
#[test]
fn hashed_flows_take_the_paths_of_the_packet_engine() {
    let config = with(TransportConfig { ack_bytes: 1, ..TransportConfig::default() });
    for balancer in
        ["ecmp", "ecmp:hash=threshold", "ecmp:hash=rendezvous,seeds=none", "wcmp", "spt", "ecmp-path", "vlb"]
    {
        for spec in [
            "fat-tree:k=4",
            "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2",
            "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
            "flattened-butterfly:k=3,n=3",
        ] {
            let t = topology(spec);
            let flows = some_flows(t.hosts().len() as u32, 60, 3, Time::from_ms(60), 60_000);
            let [packets, rates] = both(&t, &flows, balancer, &config);
            let acks = packets.accounting.packets_delivered / 2;
            for (ix, (seen, expected)) in rates.links.iter().zip(&packets.links).enumerate() {
                let more = expected.bytes.wrapping_sub(seen.bytes);
                assert!(more <= acks, "{balancer} on {spec}, link {ix}: {} B, not {} B", seen.bytes, expected.bytes);
            }
        }
    }
}

#[test]
fn flows_whose_link_is_cut_continue_on_another_path_as_in_the_packet_engine() {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
    let flows = list(vec![flow(0, 2, 40_000_000, Time::ZERO), flow(1, 3, 40_000_000, Time::ZERO)]);
    for kind in [
        FailureKind::LinkDown(link(&t, "leaf0", "spine0")),
        FailureKind::SwitchDown(node(&t, "spine1")),
        FailureKind::OneWayDown(link(&t, "leaf0", "spine1")),
        FailureKind::LinkRate { link: link(&t, "leaf0", "spine1"), fraction: 0.2 },
    ] {
        let failures = vec![fault(kind.clone(), 5_000, Some(60_000), 2_000)];
        for balancer in ["ecmp", "vlb", "spray"] {
            let config = SimConfig { failures: failures.clone(), ..SimConfig::default() };
            let [packets, rates] = both(&t, &flows, balancer, &config);
            assert_eq!([&packets, &rates].map(|o| o.accounting.flows_completed), [2, 2]);
            // Which flow is ahead after the failure depends on packets; when both are done does not.
            let ratio = last_us(&rates) / last_us(&packets);
            assert!((0.9..1.1).contains(&ratio), "{balancer} with {kind:?}: {ratio}");
        }
    }
}

#[test]
fn a_flow_without_a_path_fails_after_its_timeouts() {
    let t = topology("single-switch:hosts=2");
    let failures = vec![fault(FailureKind::LinkDown(net::LinkIx(0)), 10, None, 10)];
    let transport = TransportConfig { max_timeouts: 3, ..TransportConfig::default() };
    let config = SimConfig { failures, ..by_rates(with(transport)) };
    let o = simulate(&t, &list(vec![flow(0, 1, 10_000_000, Time::ZERO)]), "ecmp", 1, &config);
    assert_eq!((o.flows[0].end, o.flows[0].timeouts), (FlowEnd::Failed, 4));
    assert!(o.accounting.dropped.link_down > 0);
    // The timer of 5 ms doubles: 5, 15, 35 and 75 ms after the cut.
    assert!((o.flows[0].fct.as_us_f64() - 75_010.0).abs() < 200.0, "{}", o.flows[0].fct);
}

#[test]
fn accounting_adds_up_in_random_scenarios_that_are_cut_short() {
    for seed in 0..60 {
        let t = topology(["fat-tree:k=4", "leaf-spine:leaves=4,spines=2,hosts_per_leaf=4"][seed as usize % 2]);
        let hosts = t.hosts().len() as u32;
        let mut flows = some_flows(hosts, 200, seed, Time::from_us(500), 400_000);
        for place in (50..200).step_by(5) {
            flows.flows[place].start = Start::After { flow: place as u32 - 50, delay: Time::from_us(2) };
        }
        let kind = FailureKind::LinkDown(fabric_link(&t));
        let failures: Vec<Failure> = if seed % 3 == 0 { vec![fault(kind, 100, Some(700), 50)] } else { Vec::new() };
        let until = (seed % 4 != 0).then(|| Time::from_us(150 * (1 + seed % 5)));
        let config = by_rates(SimConfig { failures, stop: StopRule { until }, ..SimConfig::default() });
        let balancer = ["ecmp", "spray", "vlb", "drb"][seed as usize / 2 % 4];
        let o = simulate(&t, &flows, balancer, seed, &config);
        assert_eq!(o.accounting.check(), Ok(()));
        assert!(o == simulate(&t, &flows, balancer, seed, &config), "seed {seed}: two runs differ");
        let done = o.flows.iter().filter(|record| record.end == FlowEnd::Completed);
        assert!(done.clone().all(|record| record.fct >= record.ideal));
        assert!(until.is_some() || done.count() == 200, "seed {seed}");
        assert!(until.is_none_or(|until| o.end <= until));
        let size = |ix: usize| flows.flows[ix].size_bytes;
        assert!((0..200).all(|ix| o.flows[ix].delivered_bytes <= size(ix)));
        // The first link of every flow carried what the flow sent.
        let sent: u64 = t.hosts().iter().map(|host| o.links[t.out_links(*host)[0].ix()].bytes).sum();
        let delivered = total(&o, |record| record.delivered_bytes);
        assert!(sent >= delivered, "seed {seed}: {sent} B sent, {delivered} B delivered");
        let series: u64 = o.series.bytes.iter().sum();
        let fabric: u64 = o.series.links.iter().map(|link| o.links[*link as usize].bytes).sum();
        assert!(series.abs_diff(fabric) <= o.series.links.len() as u64, "seed {seed}: {series} B, not {fabric} B");
    }
}

#[test]
fn every_supported_balancer_completes_all_flows() {
    for entry in supported() {
        for spec in
            ["fat-tree:k=4", "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3", "bcube:n=4,k=1", "flattened-butterfly:k=3,n=3"]
        {
            let t = topology(spec);
            let flows = some_flows(t.hosts().len() as u32, 120, 11, Time::from_us(300), 200_000);
            for transport in [TransportConfig::default(), TransportConfig::cubic(), TransportConfig::spray()] {
                let o = simulate(&t, &flows, entry.name, 7, &by_rates(with(transport)));
                assert_eq!(o.accounting.flows_completed, 120, "{} on {spec}", entry.name);
                assert!(o.flows.iter().all(|f| f.fct >= f.ideal), "{} on {spec}: a flow beat the bound", entry.name);
            }
        }
    }
}

fn refusal(balancer: &str, config: SimConfig) -> String {
    let t = topology("leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
    let flows = list(vec![flow(0, 3, 1000, Time::ZERO)]);
    match try_simulate(&t, &flows, balancer, 1, &by_rates(config)) {
        Err(SimError::Config { key: "fidelity", value, reason }) => format!("{value}: {reason}"),
        other => panic!("{balancer}: {other:?}"),
    }
}

#[test]
fn balancers_that_depend_on_packets_are_refused_by_name() {
    let refused: Vec<&str> = balance::registry::DATAPLANE
        .iter()
        .filter(|entry| entry.flow_level == FlowLevel::None && !entry.is_bound())
        .map(|entry| entry.name)
        .collect();
    assert!(refused.contains(&"letflow") && refused.contains(&"conga") && refused.contains(&"hermes"));
    for name in refused {
        let message = refusal(name, SimConfig::default());
        assert!(
            message.contains(&format!("balancer `{name}`")) && message.contains("fidelity = \"packet\""),
            "{message}"
        );
    }
    assert_eq!(
        refusal("conga", SimConfig::default()),
        "flow: balancer `conga` depends on single packets: it decides for each flowlet (a burst of a flow, after a gap), \
         by utilisation of links, by feedback between edges; set fidelity = \"packet\", or use a balancer such as ecmp, \
         wcmp or spray"
    );
    assert!(refusal("vlb:per=packet", SimConfig::default()).contains("use its defaults"));
}

#[test]
fn features_of_single_packets_are_refused() {
    let failing = |kind| SimConfig { failures: vec![fault(kind, 1, None, 1)], ..SimConfig::default() };
    let any = net::LinkIx(0);
    let udp = TransportConfig {
        kind: TransportKind::Udp(UdpRate::Constant(Bandwidth::from_gbps(1))),
        ..TransportConfig::default()
    };
    let host = HostConfig { priority_sizes: vec![1000], ..HostConfig::default() };
    for (balancer, config, expected) in [
        ("ecmp", with(udp), "another transport"),
        ("ecmp", SimConfig { host, ..SimConfig::default() }, "host.priority_sizes"),
        ("ecmp", failing(FailureKind::RandomDrop { link: any, probability: 0.1 }), "failure `random-drop`"),
        (
            "ecmp",
            failing(FailureKind::Blackhole { node: net::NodeIx(0), fraction: 0.5, racks: None }),
            "failure `blackhole`",
        ),
        ("drill", failing(FailureKind::LinkDown(any)), "balancer `drill` reacts"),
        ("drb", failing(FailureKind::LinkRate { link: any, fraction: 0.5 }), "use spray"),
    ] {
        let message = refusal(balancer, config);
        assert!(message.contains(expected) && message.contains("set fidelity = \"packet\""), "{message}");
    }
}

#[test]
fn a_run_stops_if_progress_returns_false() {
    let t = topology("fat-tree:k=4");
    let flows = some_flows(16, 5_000, 1, Time::from_ms(10), 100_000);
    let balancer = Spec::parse("ecmp").unwrap();
    let config = by_rates(SimConfig::default());
    let scenario = Scenario { topology: &t, flows: &flows, balancer: &balancer, seed: 1, config: &config };
    let mut calls = 0;
    let ended = run(&scenario, &mut |_| {
        calls += 1;
        calls < 3
    });
    assert_eq!((ended, calls), (Err(SimError::Interrupted), 3));
}
