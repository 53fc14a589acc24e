//! Measures how fast server balancers pick: `cargo run --release -p anabranch-balance --example
//! picks`.
//!
//! Prints thousands of picks per second on one core, the best of several runs: clients behind
//! random edge switches, a tenth of the connections running at any time. The networks are F1's with
//! its three servers, a fat-tree of k = 4 with all 16 hosts as members, and one of k = 8 with 100.

use core::net::Ipv4Addr;
use std::time::Instant;

use anabranch_balance::Entry;
use anabranch_balance::central::{FlowTable, LinkLoad, NetworkView};
use anabranch_balance::registry::SERVER;
use anabranch_balance::server::{
    Choice, Ended, Member, MemberId, MemberLocation, Pool, Request, ServerBalancer, ServerCx, ServerStats,
};
use anabranch_balance::{Build, ServerEnv, Spec};
use net::{FiveTuple, HostIx, LinkIx, NodeIx, RandomStream, Routes, Time, Topology};

/// Runs, of which the fastest counts: other processes share the machine.
const RUNS: usize = 3;
const PICKS: u32 = 20_000;

struct Network {
    topology: Topology,
    routes: Routes,
    alive: Vec<bool>,
    load: Vec<LinkLoad>,
    flows: FlowTable,
    pool: Pool,
}

impl Network {
    fn new(family: &str, hosts: std::ops::Range<u32>) -> Network {
        let topology = net::spec::parse(family).expect("a network");
        let links = topology.links().len();
        let member = |id: u32| Member {
            id: MemberId(id),
            place: MemberLocation::Host { host: HostIx(id), edge: edge(&topology, id) },
            weight: 1 + id % 3,
            is_accepting: true,
            stats: ServerStats::default(),
        };
        let pool = Pool::new(hosts.map(member).collect::<Vec<_>>());
        let (routes, load) = (Routes::intact(&topology), vec![LinkLoad::default(); links]);
        Network { routes, load, alive: vec![true; links], flows: FlowTable::default(), pool, topology }
    }

    fn view(&self) -> NetworkView<'_> {
        let Network { topology, routes, alive, load, flows, .. } = self;
        NetworkView { now: Time::ZERO, topology, alive, routes, load, flows }
    }
}

fn edge(topology: &Topology, host: u32) -> NodeIx {
    let up: LinkIx = topology.out_links(topology.host(HostIx(host)))[0];
    topology.link(up).to
}

fn main() {
    let networks = [
        ("geni, 3", Network::new("geni-wan", 4..7)),
        ("k=4, 16", Network::new("fat-tree:k=4", 0..16)),
        ("k=8, 100", Network::new("fat-tree:k=8", 0..100)),
    ];
    println!("thousand picks per second, best of {RUNS} runs of {PICKS}; networks with number of members");
    println!("{:<28} {:>9} {:>9} {:>9}", "", networks[0].0, networks[1].0, networks[2].0);
    for entry in SERVER {
        row(entry.example, &networks);
        for path in paths_of(entry) {
            row(&format!("{}:path={path}", entry.name), &networks);
        }
    }
}

/// Returns the path pickers to measure; searches are the same in all entries and measured once.
fn paths_of(entry: &Entry) -> &'static [&'static str] {
    if entry.name == "server-rr" { &["sph", "spl", "htp"] } else { &[] }
}

fn row(spec: &str, networks: &[(&str, Network)]) {
    let rates = networks.iter().map(|(_, network)| {
        let best = (0..RUNS).map(|_| run(spec, network)).fold(0.0, f64::max);
        format!(" {best:>9.0}")
    });
    println!("{spec:<28}{}", rates.collect::<String>());
}

/// Measures thousands of picks per second.
fn run(spec: &str, network: &Network) -> f64 {
    let parsed = Spec::parse(spec).expect("a balancer");
    let Build::Server(build) = parsed.entry.build else { panic!("{spec} picks no servers") };
    let mut balancer = build(&ServerEnv { seed: 1 }, &parsed.params);
    balancer.on_pool_changed(&network.pool);
    let requests = requests(network);
    let (view, mut rng) = (network.view(), RandomStream::new(1, "picks"));
    let mut choices: Vec<Choice> = Vec::new();
    let begin = Instant::now();
    for (number, request) in requests.iter().enumerate() {
        let mut cx = ServerCx { rng: &mut rng };
        choices.push(balancer.pick(&mut cx, request, &network.pool, &view).expect("a member accepts connections"));
        if let Some(earlier) = number.checked_sub(requests.len() / 10) {
            end(balancer.as_mut(), &requests[earlier], choices[earlier].member);
        }
    }
    f64::from(PICKS) / begin.elapsed().as_secs_f64() / 1e3
}

fn end(balancer: &mut dyn ServerBalancer, request: &Request, member: MemberId) {
    balancer.on_ended(request, &Ended { member, bytes: 10_000, at: request.at });
}

fn requests(network: &Network) -> Vec<Request> {
    let mut rng = RandomStream::new(2, "requests");
    let hosts = network.topology.hosts().len() as u64;
    let request = |number: u32| {
        let host = rng.next_below(hosts) as u32;
        let src = Ipv4Addr::from(0x0a00_0001 + host);
        let (src_port, dst) = ((1024 + number % 60_000) as u16, Ipv4Addr::new(10, 255, 0, 1));
        let tuple = FiveTuple { src, dst, protocol: 6, src_port, dst_port: 80 };
        Request { tuple, edge: edge(&network.topology, host), size: None, at: Time::from_us(u64::from(number)) }
    };
    (0..PICKS).map(request).collect()
}
