//! Helpers to write scenarios in tests.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod static_plane;

use anabranch_sim::{Outcome, Scenario, SimConfig, SimError, TransportConfig, TransportKind, run};
use balance::{Connection, Entry, Scale, Spec};
use net::{Bandwidth, HostIx, Time, Topology};
use traffic::{Flow, FlowList, Start};

/// Builds a topology from its specification.
pub fn topology(spec: &str) -> Topology {
    net::spec::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

pub fn flow(src: u32, dst: u32, size_bytes: u64, start: Time) -> Flow {
    Flow { src: HostIx(src), dst: HostIx(dst), size_bytes, start: Start::At(start), group: 0 }
}

pub fn list(flows: Vec<Flow>) -> FlowList {
    FlowList { flows, description: "test".into() }
}

/// Runs a scenario and returns the outcome; the simulator has checked its accounting.
pub fn simulate(topology: &Topology, flows: &FlowList, balancer: &str, seed: u64, config: &SimConfig) -> Outcome {
    try_simulate(topology, flows, balancer, seed, config).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a scenario that may be rejected.
pub fn try_simulate(
    topology: &Topology,
    flows: &FlowList,
    balancer: &str,
    seed: u64,
    config: &SimConfig,
) -> Result<Outcome, SimError> {
    let balancer = Spec::parse(balancer).unwrap();
    let scenario = Scenario { topology, flows, balancer: &balancer, seed, config };
    run(&scenario, &mut |_| true)
}

/// Returns whether a balancer cannot work with a transport. UDP has no connections to split, and
/// subflows that share data couple windows of NewReno or DCTCP without SACK.
pub fn is_refused(entry: &Entry, transport: &TransportConfig) -> bool {
    let scale = Scale {
        base_rtt: Time::from_us(100),
        hop_delay: Time::from_us(80),
        packet_bytes: 1500,
        host_rate: Bandwidth::from_gbps(10),
    };
    let spec = Spec::parse(entry.example).unwrap();
    let is_plain = matches!(transport.kind, TransportKind::NewReno | TransportKind::Dctcp { .. }) && !transport.sack;
    match (entry.needs)(&scale, &spec.params).connection {
        Connection::Single => false,
        Connection::Copies(_) => matches!(transport.kind, TransportKind::Udp(_)),
        Connection::Subflows(_) => !is_plain,
    }
}

/// Returns pseudo-random flows between distinct hosts, for scenarios in which only variety matters.
pub fn some_flows(hosts: u32, count: u32, seed: u64, span: Time, largest: u64) -> FlowList {
    let mut rng = net::RandomStream::new(seed, "test flows");
    let mut flows: Vec<Flow> = (0..count)
        .map(|_| {
            let src = rng.next_below(u64::from(hosts)) as u32;
            let dst = (src + 1 + rng.next_below(u64::from(hosts) - 1) as u32) % hosts;
            flow(src, dst, 1 + rng.next_below(largest), Time::from_ps(rng.next_below(span.as_ps())))
        })
        .collect();
    flows.sort_by_key(|f| match f.start {
        Start::At(at) => at,
        Start::After { .. } | Start::AfterGroups { .. } => Time::MAX,
    });
    list(flows)
}
