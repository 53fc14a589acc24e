//! Measures how fast central balancers decide: `cargo run --release -p anabranch-balance --example
//! scheduling [k ...]`.
//!
//! Fat-trees of k = 8, 16, 32 and 48 ports, the minimum of several runs each:
//! - Hedera with about nine flows per host (250,000 at k = 48): a whole decision in which all flows
//!   are placed for the first time, and its parts alone: the demand estimate, the first-fit search,
//!   and storing the result.
//! - Its annealing: a whole decision, and its thousand steps (the difference to a decision with one
//!   step).
//! - OFPT with 10,000 flows: installing a path for every pair, placing all, all again without a
//!   change, and one more.

use std::time::Instant;

use anabranch_balance::central::common::demand;
use anabranch_balance::central::common::first_fit::FirstFit;
use anabranch_balance::central::common::hosts::Hosts;
use anabranch_balance::central::{
    CentralBalancer, CentralCx, CentralEnv, DecisionTrigger, FlowId, FlowInfo, FlowTable, NetworkView, Path, Pin,
    Placements,
};
use anabranch_balance::{Build, Spec};
use net::{Bandwidth, FiveTuple, HostIx, RandomStream, Routes, Time, Topology, address};

/// Runs, of which the fastest counts: other processes share the machine.
const RUNS: usize = 11;

fn main() {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![8, 16, 32, 48] } else { given };
    println!("times in ms, minimum of {RUNS} runs; flows are between random hosts at a tenth of their links or more");
    println!("hedera: nine flows per host; gff is estimate + search + write, sa places with 1000 steps of annealing");
    println!(
        "{:>3} {:>6} {:>7} {:>8} | {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} | {:>8} {:>8}",
        "k", "hosts", "flows", "routes", "estimate", "search", "write", "gff", "gff next", "placed", "sa steps", "sa"
    );
    let networks: Vec<(u32, Network)> = sizes.into_iter().map(|k| (k, hedera_row(k))).collect();
    println!("ofpt, 64 paths: 10,000 flows");
    println!("{:>3} {:>6} | {:>9} {:>9} {:>9} {:>9} {:>9}", "k", "hosts", "install", "all", "again", "one", "placed");
    networks.iter().for_each(|(k, network)| ofpt_row(*k, network));
}

struct Network {
    topology: Topology,
    alive: Vec<bool>,
    routes: Routes,
}

impl Network {
    fn view<'a>(&'a self, flows: &'a FlowTable) -> NetworkView<'a> {
        let Network { topology, alive, routes } = self;
        NetworkView { now: Time::ZERO, topology, alive, routes, load: &[], flows, legacy: &[] }
    }
}

fn hedera_row(k: u32) -> Network {
    let topology = net::spec::parse(&format!("fat-tree:k={k}")).expect("a fat-tree");
    let (routes, routing) = timed(|| Routes::intact(&topology));
    let network = Network { alive: vec![true; topology.links().len()], topology, routes };
    let hosts = network.topology.hosts().len();
    let flows = flows(&network.topology, (hosts * 250_000).div_ceil(27_648));
    let (estimate, search, write, placed) = first_fit_parts(&network, &flows);
    let (fit, next) = decision("hedera", &network, &flows);
    let (anneal, _) = decision("hedera:placer=sa", &network, &flows);
    let (anneal_once, _) = decision("hedera:placer=sa,iterations=1", &network, &flows);
    let steps = (anneal - anneal_once).max(0.0);
    print!("{k:>3} {hosts:>6} {:>7} {routing:>8.1} | ", flows.len());
    print!("{estimate:>8.2} {search:>8.2} {write:>8.2} {fit:>8.2} {next:>8.2} {placed:>7} | ");
    println!("{steps:>8.2} {anneal:>8.2}");
    network
}

/// Measures the parts of a first-fit decision; also returns the number of flows with a path.
fn first_fit_parts(network: &Network, flows: &FlowTable) -> (f64, f64, f64, usize) {
    let view = network.view(flows);
    let hosts = Hosts::new(&view);
    let pairs: Vec<(HostIx, HostIx)> = flows.iter().map(|(_, info)| (info.src, info.dst)).collect();
    let (estimate, (demands, _)) = least(|| timed(|| demand::estimate(hosts.rates(), &pairs)));
    let mut first_fit = FirstFit::default();
    let (search, paths) = least(|| {
        // Results are kept in one array: separate lists are part of storing the result.
        let mut found: Vec<net::LinkIx> = Vec::with_capacity(8 * flows.len());
        let mut ends: Vec<(FlowId, usize)> = Vec::with_capacity(flows.len());
        timed(|| {
            first_fit.begin(&view);
            for ((flow, info), demand) in flows.iter().zip(&demands) {
                let between = hosts.ends(info.src, info.dst);
                if let Some(path) = between.and_then(|ends| first_fit.place(view.routes, ends, demand.rate)) {
                    found.extend_from_slice(path);
                    ends.push((flow, found.len()));
                }
            }
            (found, ends)
        })
    });
    let (write, placements) = least(|| {
        let mut placements = Placements::default();
        let ((), time) = timed(|| {
            placements.reserve_pins(flows.capacity());
            let mut start = 0;
            for (flow, end) in &paths.1 {
                placements.pin(*flow, Pin { path: Path::from(&paths.0[start..*end]), rate: None });
                start = *end;
            }
        });
        (placements, time)
    });
    (estimate, search, write, placements.pins().len())
}

/// Measures the milliseconds of a first period, in which all flows are placed, and of the next.
fn decision(spec: &str, network: &Network, flows: &FlowTable) -> (f64, f64) {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        let mut driven = Driven::new(spec);
        driven.decide(network, &FlowTable::default(), DecisionTrigger::NetworkChanged);
        best.0 = best.0.min(driven.decide(network, flows, DecisionTrigger::PeriodElapsed));
        best.1 = best.1.min(driven.decide(network, flows, DecisionTrigger::PeriodElapsed));
    }
    best
}

/// Measures the milliseconds of OFPT: discovery, 10,000 flows, all again unchanged, one more.
fn ofpt_row(k: u32, network: &Network) {
    let mut driven = Driven::new("ofpt:max_paths=64");
    let install = driven.decide(network, &FlowTable::default(), DecisionTrigger::NetworkChanged);
    let mut flows = flows(&network.topology, 10_000);
    let (mut all, mut again) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        flows.iter().for_each(|(flow, _)| driven.placements.release(flow));
        all = all.min(driven.decide(network, &flows, DecisionTrigger::PeriodElapsed));
        again = again.min(driven.decide(network, &flows, DecisionTrigger::PeriodElapsed));
    }
    let pins = driven.placements.pins().len();
    let mut rng = RandomStream::new(2, "one more");
    let count = 1000;
    let mut one = 0.0;
    for _ in 0..count {
        let flow = add(&network.topology, &mut rng, &mut flows);
        one += driven.decide(network, &flows, DecisionTrigger::FlowStarted(flow));
    }
    let hosts = network.topology.hosts().len();
    println!("{k:>3} {hosts:>6} | {install:>9.1} {all:>9.2} {again:>9.2} {:>9.4} {pins:>9}", one / f64::from(count));
}

struct Driven {
    balancer: Box<dyn CentralBalancer>,
    placements: Placements,
    rng: RandomStream,
}

impl Driven {
    fn new(spec: &str) -> Driven {
        let spec = Spec::parse(spec).expect("a balancer");
        let Build::Central(build) = spec.entry.build else { panic!("{} is not central", spec.entry.name) };
        Driven {
            balancer: build(&CentralEnv { seed: 1 }, &spec.params),
            placements: Placements::default(),
            rng: RandomStream::new(1, "scheduling"),
        }
    }
    /// Measures the milliseconds of a decision.
    fn decide(&mut self, network: &Network, flows: &FlowTable, why: DecisionTrigger) -> f64 {
        let Driven { balancer, placements, rng } = self;
        let view = &network.view(flows);
        timed(|| balancer.decide(&mut CentralCx { rng, view }, why, placements)).1
    }
}

fn flows(topology: &Topology, count: usize) -> FlowTable {
    let mut rng = RandomStream::new(1, "flows");
    let mut flows = FlowTable::default();
    while flows.len() < count {
        add(topology, &mut rng, &mut flows);
    }
    flows
}

fn add(topology: &Topology, rng: &mut RandomStream, flows: &mut FlowTable) -> FlowId {
    let hosts = topology.hosts().len() as u64;
    let src = rng.next_below(hosts);
    let dst = (src + 1 + rng.next_below(hosts - 1)) % hosts;
    let (src, dst) = (HostIx(src as u32), HostIx(dst as u32));
    let tuple = FiveTuple {
        src: address::host_ipv4(src),
        dst: address::host_ipv4(dst),
        protocol: 6,
        src_port: rng.next_below(1 << 16) as u16,
        dst_port: rng.next_below(1 << 16) as u16,
    };
    let rate = Some(Bandwidth::from_bps(1_000_000_001 + rng.next_below(5_000_000_000)));
    let size = Some(100_000 + rng.next_below(10_000_000));
    flows.insert(FlowInfo { tuple, src, dst, started: Time::ZERO, bytes: 0, rate, size })
}

/// Returns the result of `work` and its duration in milliseconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let answer = work();
    (answer, begin.elapsed().as_secs_f64() * 1e3)
}

/// Returns the minimum time of several runs, and the result of the last.
fn least<T>(mut run: impl FnMut() -> (T, f64)) -> (f64, T) {
    let (mut answer, mut time) = run();
    for _ in 1..RUNS {
        let (next, took) = run();
        (answer, time) = (next, time.min(took));
    }
    (time, answer)
}
