//! E2.6 of F2: flows migrate between paths while they send, at rates up to that of the line, and no
//! packet is lost.
//!
//! A balancer moves flows at random times (`random-moves`), through the controller and OpenFlow
//! switches of the simulator. `crates/cli/tests/testbed.rs` does the same on real switches.

use anabranch_experiment::run::controller;
use balance::Spec;
use net::{Bandwidth, HostIx, RandomStream, Time, Topology};
use sim::{
    FlowEnd, Outcome, QueueConfig, QueueLimit, Scenario, SimConfig, StopRule, TransportConfig, TransportKind, UdpRate,
};
use traffic::{Flow, FlowList, Start};

fn config(rate: Bandwidth, until_s: u64) -> SimConfig {
    SimConfig {
        transport: TransportConfig {
            kind: TransportKind::Udp(UdpRate::Constant(rate)),
            mss_bytes: 1472,
            header_bytes: 28,
            ..TransportConfig::default()
        },
        switch: QueueConfig { limit: QueueLimit::Packets(100), ..QueueConfig::default() },
        stop: StopRule { until: Some(Time::from_s(until_s)) },
        ..SimConfig::default()
    }
}

fn run(topology: &Topology, flows: &FlowList, config: &SimConfig, seed: u64) -> Outcome {
    let spec = Spec::parse("random-moves").expect("it is registered");
    let scenario = Scenario { topology, flows, balancer: &spec, seed, config };
    let (outcome, _) = controller::run(&scenario, 1, &mut |_| true).unwrap_or_else(|error| panic!("{error}"));
    outcome.accounting.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    outcome
}

fn flow(src: u32, dst: u32, bytes: u64) -> Flow {
    Flow { src: HostIx(src), dst: HostIx(dst), size_bytes: bytes, start: Start::At(Time::ZERO), group: 0 }
}

fn list(flows: Vec<Flow>) -> FlowList {
    FlowList { flows, ..FlowList::default() }
}

fn dropped(outcome: &Outcome) -> u64 {
    let drops = &outcome.accounting.dropped;
    drops.queue + drops.host_queue + drops.link_down + drops.random + drops.blackhole + drops.no_route
}

#[test]
fn hundred_migrations_on_the_diamond_lose_nothing_at_any_rate() {
    // A migration ends when the contents of 256 KB queues at 1 Mb/s have drained, about four
    // seconds later.
    const SECONDS: u64 = 80;
    let topology = net::spec::parse("diamond:form=migration").unwrap();
    let mut moves = 0;
    for seed in 0..10u64 {
        // The published rates, the line rate itself, and others between.
        let kbps = match seed {
            0 => 1000,
            1 => 800,
            _ => 300 + RandomStream::new(seed, "rate").next_below(701),
        };
        let outcome = run(
            &topology,
            &list(vec![flow(0, 1, 20_000_000)]),
            &config(Bandwidth::from_bps(kbps * 1000), SECONDS),
            seed,
        );
        let record = &outcome.flows[0];
        assert_eq!(dropped(&outcome), 0, "seed {seed}, {kbps} kb/s: {:?}", outcome.accounting.dropped);
        assert_eq!(record.end, FlowEnd::Running, "20 MB take longer than a minute");
        // At the line rate or below, a queue holds at most the packet being sent and the next.
        assert!(record.reorder_extent <= 2, "seed {seed}: {} packets", record.reorder_extent);
        // Goodput: the payload's share of the offered load, without packets still in flight.
        let offered = kbps as f64 * 1000.0 / 8.0 * SECONDS as f64 * 1472.0 / 1500.0;
        let goodput = record.delivered_bytes as f64 / offered;
        assert!((0.98..=1.001).contains(&goodput), "seed {seed}: {goodput}");
        moves += outcome.plane.as_ref().expect("there was a controller").tally.moves;
    }
    assert!(moves >= 100, "{moves} moves");
}

#[test]
fn migrations_with_other_traffic_lose_nothing_and_reorder_at_most_a_queue() {
    let topology = net::spec::parse(
        "leaf-spine:leaves=3,spines=3,hosts_per_leaf=3,host_rate=10Mbps,fabric_rate=10Mbps,host_delay=50us,fabric_delay=200us",
    )
    .unwrap();
    let mut moves = 0;
    for seed in 100..110u64 {
        // Nine flows of at most a third of a link each: no link is full regardless of their paths,
        // but queues form.
        let flows = (0..9).map(|host| flow(host, (host + 3) % 9, 50_000_000)).collect();
        let mut config = config(Bandwidth::from_bps(3_300_000), 10);
        config.host.jitter = Time::from_us(300);
        let outcome = run(&topology, &list(flows), &config, seed);
        assert_eq!(dropped(&outcome), 0, "seed {seed}: {:?}", outcome.accounting.dropped);
        let longest = outcome.queues.iter().map(|queue| queue.max_bytes.div_ceil(1500)).max().unwrap_or(0);
        for (number, record) in outcome.flows.iter().enumerate() {
            let extent = u64::from(record.reorder_extent);
            assert!(extent <= longest + 1, "seed {seed}, flow {number}: {extent} packets, longest queue {longest}");
        }
        moves += outcome.plane.as_ref().expect("there was a controller").tally.moves;
    }
    assert!(moves >= 500, "{moves} moves");
}
