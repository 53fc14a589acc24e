//! Helpers to write scenarios in tests.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod static_plane;

pub use anabranch_sim::conformance::{all_transports, fault, some_flows};
use anabranch_sim::{
    Failure, FailureKind, FlowRecord, Outcome, Scenario, SimConfig, SimError, TransportConfig, Workers, run, run_on,
};
use balance::Spec;
use net::{HostIx, LinkIx, NodeIx, Time, Topology};
use traffic::{Flow, FlowList, Start};

pub fn topology(spec: &str) -> Topology {
    net::spec::parse(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

pub fn flow(src: u32, dst: u32, size_bytes: u64, start: Time) -> Flow {
    Flow { src: HostIx(src), dst: HostIx(dst), size_bytes, start: Start::At(start), group: 0 }
}

pub fn list(flows: Vec<Flow>) -> FlowList {
    FlowList { flows, description: "test".into(), ..FlowList::default() }
}

pub fn simulate(topology: &Topology, flows: &FlowList, balancer: &str, seed: u64, config: &SimConfig) -> Outcome {
    try_simulate(topology, flows, balancer, seed, config).unwrap_or_else(|error| panic!("{error}"))
}

/// Threads that share the cores of the machine.
pub struct Threads(pub usize);

impl Workers for Threads {
    fn count(&self) -> usize {
        self.0
    }

    fn run(&self, threads: usize, work: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            (1..threads).for_each(|thread| drop(scope.spawn(move || work(thread))));
            work(0);
        });
    }

    fn have_own_cores(&self, _: usize) -> bool {
        false
    }

    fn share_steps(&self, _: u64) -> bool {
        true
    }
}

/// Simulates on several threads, more than the machine may have cores.
pub fn simulate_on(
    threads: usize,
    topology: &Topology,
    flows: &FlowList,
    balancer: &str,
    seed: u64,
    config: &SimConfig,
) -> Outcome {
    let balancer = Spec::parse(balancer).unwrap();
    let scenario = Scenario { topology, flows, balancer: &balancer, seed, config };
    run_on(&Threads(threads), &scenario, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

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

pub fn with(transport: TransportConfig) -> SimConfig {
    SimConfig { transport, ..SimConfig::default() }
}

pub fn permanent(kind: FailureKind) -> Failure {
    fault(kind, 0, None, 0)
}

pub fn node(t: &Topology, name: &str) -> NodeIx {
    NodeIx(t.nodes().iter().position(|node| node.name == name).expect("a node of this name") as u32)
}

pub fn link(t: &Topology, from: &str, to: &str) -> LinkIx {
    *t.out_links(node(t, from)).iter().find(|link| t.link(**link).to == node(t, to)).expect("a link")
}

pub fn fabric_link(t: &Topology) -> LinkIx {
    (0..t.links().len() as u32).map(LinkIx).find(|link| !t.is_host_link(*link)).unwrap()
}

/// Returns the completion time of the last flow, microseconds.
pub fn last_us(o: &Outcome) -> f64 {
    o.flows.iter().map(|f| f.fct.as_us_f64()).fold(0.0, f64::max)
}

pub fn total<T: std::iter::Sum>(o: &Outcome, of: impl Fn(&FlowRecord) -> T) -> T {
    o.flows.iter().map(of).sum()
}
