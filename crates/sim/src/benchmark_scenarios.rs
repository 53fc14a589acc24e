//! The benchmark scenarios that `benches/peers/` also runs in other simulators: the same topology,
//! flows, transport and paths, so that packet-hops per CPU second can be compared.
//!
//! All links have 10 Gb/s and 1 µs. Packets have 1500 B, ACKs travel, no delayed ACK, no SACK,
//! initial window 10 packets, window at most 200, minimum RTO 250 ms, drop-tail queues of 100
//! packets. The path of a flow is the shared hash of `ecmp-path:key=hosts`.

use balance::Spec;
use net::{HostIx, Time, Topology, TopologyError};
use traffic::{Arrivals, Flow, FlowList, Load, Pattern, Start, TrafficSpec};

use crate::scenario::{
    Dctcp, HostConfig, HostScheduler, Marking, NewReno, ProbeConfig, QueueConfig, QueueLimit, Resequencing, SimConfig,
    TransportConfig, TransportKind,
};

#[derive(Clone, Debug)]
pub struct BenchmarkScenario {
    pub id: &'static str,
    pub title: String,
    pub topology: Topology,
    pub flows: FlowList,
    pub balancer: Spec,
    pub config: SimConfig,
}

/// Ids of all scenarios; those ending in `L` are ten to twenty times longer.
pub const IDS: &[&str] = &["S1", "S2", "S3", "S4", "S1L", "S3L", "S4L", "S5", "S6"];

/// Builds the scenario called `id`, or `None` if it does not exist.
pub fn scenario(id: &str) -> Result<Option<BenchmarkScenario>, TopologyError> {
    Ok(Some(match id {
        "S1" => stride("S1", 8, 5_000)?,
        "S1L" => stride("S1L", 8, 100_000)?,
        "S2" => sprayed(stride("S2", 8, 5_000)?),
        "S3" => stride("S3", 16, 1_000)?,
        "S3L" => stride("S3L", 16, 10_000)?,
        "S4" => mixed("S4", 20_000)?,
        "S4L" => mixed("S4L", 200_000)?,
        "S5" => web_search("S5", 32)?,
        "S6" => web_search("S6", 48)?,
        _ => return Ok(None),
    }))
}

const MSS: u64 = 1460;

fn stride(id: &'static str, k: u32, packets: u64) -> Result<BenchmarkScenario, TopologyError> {
    let topology = net::families::FatTree { k, ..Default::default() }.build()?;
    let hosts = topology.hosts().len() as u32;
    let flow = |i: u32| Flow {
        src: HostIx(i),
        dst: HostIx((i + hosts / 2) % hosts),
        size_bytes: packets * MSS,
        start: Start::At(Time::from_us(u64::from(i))),
        group: 0,
    };
    let title = format!("fat-tree k={k}, {hosts} flows of {packets} packets to the other half, NewReno, per-flow hash");
    let flows = (0..hosts).map(flow).collect();
    Ok(benchmark(id, title, topology, flows, config(TransportKind::NewReno(NewReno), Marking::Off)))
}

fn benchmark(
    id: &'static str,
    title: String,
    topology: Topology,
    flows: Vec<Flow>,
    config: SimConfig,
) -> BenchmarkScenario {
    let flows = FlowList { flows, description: title.clone(), ..FlowList::default() };
    let balancer = Spec::parse("ecmp-path:key=hosts").expect("registered");
    BenchmarkScenario { id, title, topology, flows, balancer, config }
}

fn sprayed(mut scenario: BenchmarkScenario) -> BenchmarkScenario {
    scenario.balancer = Spec::parse("spray").expect("registered");
    scenario.config.transport.dup_ack_threshold = 19;
    scenario.title = scenario.title.replace("per-flow hash", "per-packet spraying, dup-ACK threshold 19");
    scenario
}

fn mixed(id: &'static str, count: usize) -> Result<BenchmarkScenario, TopologyError> {
    let topology =
        net::families::LeafSpine { leaves: 16, spines: 8, hosts_per_leaf: 8, ..Default::default() }.build()?;
    let title =
        format!("leaf-spine 16 x 8, {count} flows at half of host capacity between leaves, DCTCP, per-flow hash");
    let config = config(TransportKind::Dctcp(Dctcp::default()), Marking::Step(QueueLimit::Packets(15)));
    Ok(benchmark(id, title, topology, mixed_flows(count), config))
}

/// Draws flows from SplitMix64 with seed 42: gap, source, destination on another leaf, size.
fn mixed_flows(count: usize) -> Vec<Flow> {
    let mut state = 42u64;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        balance::hash::mix(state)
    };
    let unit = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64;
    let mean_packets = 0.70 * 10.0 + 0.25 * 100.0 + 0.05 * 1000.0;
    let mean_gap_s = mean_packets * 1500.0 * 8.0 / (0.5 * 128.0 * 10e9);
    let mut at_s = 0.0;
    (0..count)
        .map(|_| {
            at_s -= (1.0 - unit(draw())).ln() * mean_gap_s;
            let src = (draw() % 128) as u32;
            let dst = loop {
                let dst = (draw() % 128) as u32;
                if dst / 8 != src / 8 {
                    break dst;
                }
            };
            let packets = match unit(draw()) {
                u if u < 0.70 => 10,
                u if u < 0.95 => 100,
                _ => 1000,
            };
            let start = Start::At(Time::from_s_f64(at_s));
            Flow { src: HostIx(src), dst: HostIx(dst), size_bytes: packets * MSS, start, group: 0 }
        })
        .collect()
}

/// Flows of the web-search workload (Alizadeh et al., SIGCOMM 2010) on a large fat-tree, with the
/// program's defaults.
fn web_search(id: &'static str, k: u32) -> Result<BenchmarkScenario, TopologyError> {
    let topology = net::families::FatTree { k, ..Default::default() }.build()?;
    let workload = traffic::Workload::named("web-search").expect("a workload of the program");
    let spec = TrafficSpec {
        sizes: workload.distribution(),
        pattern: Pattern::RandomPairs,
        arrivals: Arrivals::Poisson,
        load: Some(Load::of_host_links(0.6, &topology)),
        flows: Some(20_000),
        until: None,
    };
    let (flows, _) = traffic::generate(&topology, &spec, 1).expect("a load and a number of flows are given");
    let title = format!("fat-tree k={k}, 20000 web-search flows at 60 % of host capacity, DCTCP, ECMP");
    let config = SimConfig { probes: ProbeConfig { series: false, ..ProbeConfig::default() }, ..SimConfig::default() };
    let balancer = Spec::parse("ecmp").expect("registered");
    Ok(BenchmarkScenario { id, title, topology, flows, balancer, config })
}

fn config(kind: TransportKind, marking: Marking) -> SimConfig {
    SimConfig {
        transport: TransportConfig {
            kind,
            max_window_packets: Some(200),
            min_rto: Time::from_ms(250),
            ..TransportConfig::default()
        },
        host: HostConfig { scheduler: HostScheduler::Fifo, resequencing: Resequencing::Off, ..HostConfig::default() },
        switch: QueueConfig { limit: QueueLimit::Packets(100), marking, ..QueueConfig::default() },
        probes: ProbeConfig { series: false, ..ProbeConfig::default() },
        ..SimConfig::default()
    }
}
