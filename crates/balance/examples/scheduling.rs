//! How fast central balancers decide: `cargo run --release -p anabranch-balance --example scheduling [k ...]`.
//!
//! For fat-trees of k = 8, 16, 32 and 48 ports: Hedera's demand estimation and first fit for about nine flows per host (250,000
//! at k = 48), a thousand steps of its annealing, and OFPT's recomputation of 10,000 flows and placement of one more.

use std::time::Instant;

use anabranch_balance::central::parts::demand;
use anabranch_balance::central::{
    CentralBalancer, CentralCx, CentralEnv, FlowFacts, FlowTable, NetworkView, Placements, Why,
};
use anabranch_balance::{Build, Spec};
use net::{Bandwidth, FiveTuple, HostIx, Routes, Stream, Time, Topology, address};

fn main() {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![8, 16, 32, 48] } else { given };
    println!("times in ms; flows are between random hosts at a tenth of their links or more");
    println!(
        "{:>3} {:>6} {:>7} {:>8} | {:>8} {:>9} {:>7} | {:>9} {:>9} {:>9}",
        "k", "hosts", "flows", "routes", "estimate", "first fit", "anneal", "ofpt all", "ofpt again", "ofpt one"
    );
    for k in sizes {
        row(k);
    }
}

fn row(k: u32) {
    let topology = net::spec::parse(&format!("fat-tree:k={k}")).expect("a fat-tree");
    let (routes, routing) = timed(|| Routes::intact(&topology));
    let hosts = topology.hosts().len();
    let flows = flows(&topology, (hosts * 250_000).div_ceil(27_648));
    let pairs: Vec<(HostIx, HostIx)> = flows.iter().map(|(_, facts)| (facts.src, facts.dst)).collect();
    let (_, estimate) = timed(|| demand::estimate(&vec![10e9; hosts], &pairs));
    let fit = decision("hedera", &topology, &routes, &flows);
    let anneal = decision("hedera:placer=sa", &topology, &routes, &flows);
    let (all, again, one) = ofpt(&topology, &routes);
    println!(
        "{k:>3} {hosts:>6} {:>7} {routing:>8.1} | {estimate:>8.2} {fit:>9.2} {anneal:>7.2} | {all:>9.2} {again:>10.2} {one:>9.4}",
        flows.len()
    );
}

/// Milliseconds of one period in which all flows are placed for the first time.
fn decision(spec: &str, topology: &Topology, routes: &Routes, flows: &FlowTable) -> f64 {
    let mut driven = Driven::new(spec);
    driven.decide(topology, routes, &FlowTable::default(), Why::Network);
    let (_, first) = timed(|| driven.decide(topology, routes, flows, Why::Period));
    first
}

/// Milliseconds of OFPT: all of 10,000 flows, all again when nothing changed, and one more.
fn ofpt(topology: &Topology, routes: &Routes) -> (f64, f64, f64) {
    let mut driven = Driven::new("ofpt:max_paths=64");
    if topology.hosts().len() > 10_000 {
        // One path for every pair of a million would be installed for short flows: not what is measured here.
        return (f64::NAN, f64::NAN, f64::NAN);
    }
    driven.decide(topology, routes, &FlowTable::default(), Why::Network);
    let mut flows = flows(topology, 10_000);
    let (_, all) = timed(|| driven.decide(topology, routes, &flows, Why::Period));
    let (_, again) = timed(|| driven.decide(topology, routes, &flows, Why::Period));
    let mut rng = Stream::new(2, "one more");
    let count = 1000;
    let mut one = 0.0;
    for _ in 0..count {
        let flow = add(topology, &mut rng, &mut flows);
        one += timed(|| driven.decide(topology, routes, &flows, Why::FlowStarted(flow))).1;
    }
    (all, again, one / f64::from(count))
}

struct Driven {
    balancer: Box<dyn CentralBalancer>,
    placements: Placements,
    rng: Stream,
}

impl Driven {
    fn new(spec: &str) -> Driven {
        let spec = Spec::parse(spec).expect("a balancer");
        let Build::Central(build) = spec.entry.build else { panic!("{} is not central", spec.entry.name) };
        Driven {
            balancer: build(&CentralEnv { seed: 1 }, &spec.params),
            placements: Placements::default(),
            rng: Stream::new(1, "scheduling"),
        }
    }
    fn decide(&mut self, topology: &Topology, routes: &Routes, flows: &FlowTable, why: Why) {
        let alive = vec![true; topology.links().len()];
        let view = NetworkView { now: Time::ZERO, topology, alive: &alive, routes, load: &[], flows };
        self.balancer.decide(&mut CentralCx { rng: &mut self.rng }, &view, why, &mut self.placements);
    }
}

fn flows(topology: &Topology, count: usize) -> FlowTable {
    let mut rng = Stream::new(1, "flows");
    let mut flows = FlowTable::default();
    while flows.len() < count {
        add(topology, &mut rng, &mut flows);
    }
    flows
}

fn add(topology: &Topology, rng: &mut Stream, flows: &mut FlowTable) -> anabranch_balance::central::FlowId {
    let hosts = topology.hosts().len() as u64;
    let src = rng.below(hosts);
    let dst = (src + 1 + rng.below(hosts - 1)) % hosts;
    let (src, dst) = (HostIx(src as u32), HostIx(dst as u32));
    let tuple = FiveTuple {
        src: address::host_ipv4(src),
        dst: address::host_ipv4(dst),
        protocol: 6,
        src_port: rng.below(1 << 16) as u16,
        dst_port: rng.below(1 << 16) as u16,
    };
    let rate = Some(Bandwidth::from_bps(1_000_000_001 + rng.below(5_000_000_000)));
    let size = Some(100_000 + rng.below(10_000_000));
    flows.insert(FlowFacts { tuple, src, dst, started: Time::ZERO, bytes: 0, rate, size })
}

/// An answer and how many milliseconds it took.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let answer = work();
    (answer, begin.elapsed().as_secs_f64() * 1e3)
}
