//! Properties of every data-plane balancer, in the registry or foreign, such as one in Python.

use balance::{Connection, Granularity, Scale, Spec};
use net::{Bandwidth, HostIx, LinkIx, RandomStream, Time, Topology};
use traffic::{Flow, FlowList, Start};

use crate::{
    About, Failure, FailureKind, HostConfig, Outcome, RdmaRecovery, Resequencing, Scenario, SimConfig, SimError,
    SingleThread, TransportConfig, TransportKind, Workers, run_on,
};

/// Networks with two and three tiers, with parallel links, and with paths of several lengths.
pub const TOPOLOGIES: [&str; 5] = [
    "fat-tree:k=4",
    "leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2",
    "vl2:d0=2,d1=4,d2=4,hosts_per_tor=3",
    "bcube:n=4,k=1",
    "flattened-butterfly:k=3,n=3",
];

/// A balancer, and what its test may use: threads, and time until it is interrupted.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub balancer: &'a Spec,
    /// Threads of the runs that must equal those on one thread.
    pub workers: &'a dyn Workers,
    /// Called now and then; `false` ends the test with [`SimError::Interrupted`].
    pub may_go_on: &'a (dyn Fn() -> bool + Sync),
}

#[derive(Debug, thiserror::Error)]
pub enum Violation {
    #[error("{0}")]
    Run(#[from] SimError),
    #[error("{0}")]
    Property(String),
}

pub type Check = fn(&Subject<'_>) -> Result<(), Violation>;

/// All checks, the short ones first.
pub const CHECKS: [Check; 5] =
    [repeats_on_any_threads, keeps_order_by_flow, reorders_by_packet, survives_failures, delivers_everything];

macro_rules! require {
    ($holds:expr, $($reason:tt)+) => {
        if !$holds {
            return Err(Violation::Property(format!($($reason)+)));
        }
    };
}

/// With every transport that retransmits in every network, all flows complete, none beats the bound, every
/// packet is accounted for, and nothing multiplies the events.
pub fn delivers_everything(subject: &Subject<'_>) -> Result<(), Violation> {
    for spec in TOPOLOGIES {
        for (name, transport) in all_transports() {
            if is_refused(subject.balancer, &transport) {
                continue;
            }
            let kind = transport.kind;
            let o = subject.short_run(spec, &SimConfig { transport, ..SimConfig::default() })?;
            // The watchdog's drops end pauses that deadlock in a cycle (on server-centric
            // networks). Senders without any window fill it again immediately, and some fail.
            let is_go_back_n = matches!(kind, TransportKind::Rdma(rdma) if rdma.recovery == RdmaRecovery::GoBackN);
            if o.accounting.dropped.watchdog > 0 && is_go_back_n {
                continue;
            }
            let completed = o.accounting.flows_completed;
            require!(completed == 120, "{spec} with {name}: {completed} of 120 flows completed");
            // Only probes and notifications may be in flight when the last flow ends.
            let (left, probes) = (o.accounting.packets_in_flight, o.control.in_flight);
            require!(left == probes, "{spec} with {name}: {left} packets in flight, {probes} of them probes");
            // An event per hop, two with lossless ports, and timers.
            let (events, hops) = (o.engine.events, o.engine.packet_hops);
            require!(events < 4 * hops + 10_000, "{spec} with {name}: {events} events for {hops} hops");
            let is_bounded = o.flows.iter().all(|flow| flow.fct >= flow.ideal);
            require!(is_bounded, "{spec} with {name}: a flow took less time than is possible");
        }
    }
    Ok(())
}

/// Packets of a flow never overtake each other if decisions are per flow.
pub fn keeps_order_by_flow(subject: &Subject<'_>) -> Result<(), Violation> {
    if subject.balancer.entry.granularity != Granularity::Flow {
        return Ok(());
    }
    for spec in TOPOLOGIES {
        let reordered: u32 = subject.short_run(spec, &new_reno())?.flows.iter().map(|flow| flow.reordered).sum();
        require!(reordered == 0, "{spec}: {reordered} packets of a flow overtook others");
    }
    Ok(())
}

/// If decisions are per packet, packets overtake each other, and resequencing saves retransmissions.
pub fn reorders_by_packet(subject: &Subject<'_>) -> Result<(), Violation> {
    if subject.balancer.entry.granularity != Granularity::Packet {
        return Ok(());
    }
    let spec = TOPOLOGIES[0];
    let with = subject.short_run(spec, &new_reno())?;
    let host = HostConfig { resequencing: Resequencing::Off, ..HostConfig::default() };
    let without = subject.short_run(spec, &SimConfig { host, ..new_reno() })?;
    let reorders = without.flows.iter().any(|flow| flow.reordered > 0);
    require!(reorders, "{spec}: no packet overtook another, as if decisions were per flow");
    require!(with.resequencing.active && with.resequencing.held > 0, "{spec}: hosts held no packet back");
    let spurious = |o: &Outcome| -> u32 { o.flows.iter().map(|flow| flow.spurious).sum() };
    let (with, without) = (spurious(&with), spurious(&without));
    require!(with < without, "{spec}: {with} needless retransmissions with resequencing, {without} without");
    Ok(())
}

/// The same seed gives the same outcome, on one thread and on those of the subject.
pub fn repeats_on_any_threads(subject: &Subject<'_>) -> Result<(), Violation> {
    let network = topology(TOPOLOGIES[0]);
    let flows = some_flows(16, 150, 2, Time::from_us(200), 300_000);
    let first = subject.run(&SingleThread, &network, &flows, &SimConfig::default())?;
    let again = subject.run(&SingleThread, &network, &flows, &SimConfig::default())?;
    require!(first == again, "{}: the same seed gives other results", TOPOLOGIES[0]);
    let count = subject.workers.count();
    let together = subject.run(subject.workers, &network, &flows, &SimConfig::default())?;
    require!(first == together, "{}: {count} threads give other results than one", TOPOLOGIES[0]);
    Ok(())
}

/// All flows complete while the busiest link fails and is repaired, and later its switch.
pub fn survives_failures(subject: &Subject<'_>) -> Result<(), Violation> {
    let network = topology("leaf-spine:leaves=3,spines=3,hosts_per_leaf=4");
    let flows = some_flows(12, 300, 4, Time::from_ms(70), 500_000);
    let healthy = subject.run(&SingleThread, &network, &flows, &new_reno())?;
    let is_up = |link: &LinkIx| network.is_upward(*link) && !network.is_host_link(*link);
    let links = (0..network.links().len() as u32).map(LinkIx).filter(is_up);
    let busiest = links.max_by_key(|link| healthy.links[link.0 as usize].bytes).expect("there are links");
    let failures = vec![
        fault(FailureKind::LinkDown(busiest), 50, Some(20_000), 500),
        fault(FailureKind::SwitchDown(network.link(busiest).to), 30_000, Some(60_000), 1_000),
    ];
    let o = subject.run(&SingleThread, &network, &flows, &SimConfig { failures, ..new_reno() })?;
    let completed = o.accounting.flows_completed;
    require!(completed == 300, "a link and a switch fail: {completed} of 300 flows completed");
    // A mechanism that sees carriers may leave the link before it loses a packet.
    let [before, after] = [&healthy, &o].map(|o| o.links[busiest.0 as usize].bytes);
    let had_effect = o.accounting.dropped.link_down > 0 || after < before;
    require!(
        had_effect,
        "a link and a switch fail: they lost no packet, and the link carried {after} of {before} bytes"
    );
    Ok(())
}

impl Subject<'_> {
    fn short_run(&self, spec: &str, config: &SimConfig) -> Result<Outcome, SimError> {
        let network = topology(spec);
        let flows = some_flows(network.hosts().len() as u32, 120, 11, Time::from_us(300), 200_000);
        self.run(&SingleThread, &network, &flows, config)
    }

    fn run(
        &self,
        workers: &dyn Workers,
        topology: &Topology,
        flows: &FlowList,
        config: &SimConfig,
    ) -> Result<Outcome, SimError> {
        let scenario = Scenario { topology, flows, balancer: self.balancer, seed: 7, config };
        let outcome = run_on(workers, &scenario, &mut |_| (self.may_go_on)())?;
        if (self.may_go_on)() { Ok(outcome) } else { Err(SimError::Interrupted) }
    }
}

fn topology(spec: &str) -> Topology {
    net::spec::parse(spec).expect("these topologies are valid")
}

fn new_reno() -> SimConfig {
    SimConfig { transport: TransportConfig::new_reno(), ..SimConfig::default() }
}

/// Returns every transport that retransmits, with its defaults and in its variants.
pub fn all_transports() -> Vec<(String, TransportConfig)> {
    let variants = [
        ("DCTCP with SACK", TransportConfig { sack: true, ..TransportConfig::default() }),
        ("CUBIC with SACK", TransportConfig::cubic()),
        ("RDMA selective", TransportConfig::rdma(RdmaRecovery::Selective)),
    ];
    let default = |about: &About| {
        let kind = TransportKind::named(about.name).expect("it is listed");
        (about.name.to_owned(), TransportConfig { kind, ..TransportConfig::default() })
    };
    // UDP has no default rate, and does not retransmit.
    let defaults = TransportKind::ALL.iter().filter(|about| about.name != "udp").map(default);
    variants.into_iter().map(|(name, config)| (name.to_owned(), config)).chain(defaults).collect()
}

/// Returns whether a balancer cannot work with a transport. UDP has no connections to split, and
/// subflows that share data couple windows of NewReno or DCTCP without SACK.
pub fn is_refused(balancer: &Spec, transport: &TransportConfig) -> bool {
    let scale = Scale {
        base_rtt: Time::from_us(100),
        hop_delay: Time::from_us(80),
        packet_bytes: 1500,
        host_rate: Bandwidth::from_gbps(10),
    };
    match (balancer.entry.needs)(&scale, &balancer.params).connection {
        Connection::Single => false,
        Connection::Copies(_) => matches!(transport.kind, TransportKind::Udp(_)),
        Connection::Subflows(_) => !transport.properties().couples_subflows,
    }
}

/// Returns pseudo-random flows between distinct hosts, for scenarios in which only variety matters.
pub fn some_flows(hosts: u32, count: u32, seed: u64, span: Time, largest: u64) -> FlowList {
    let mut rng = RandomStream::new(seed, "test flows");
    let mut flows: Vec<Flow> = (0..count)
        .map(|_| {
            let src = rng.next_below(u64::from(hosts)) as u32;
            let dst = (src + 1 + rng.next_below(u64::from(hosts) - 1) as u32) % hosts;
            let size_bytes = 1 + rng.next_below(largest);
            let start = Start::At(Time::from_ps(rng.next_below(span.as_ps())));
            Flow { src: HostIx(src), dst: HostIx(dst), size_bytes, start, group: 0 }
        })
        .collect();
    flows.sort_by_key(|flow| if let Start::At(at) = flow.start { at } else { Time::MAX });
    FlowList { flows, description: "test".into(), ..FlowList::default() }
}

/// Returns a fault from a time to another, if it ends, which routing detects after a while.
pub fn fault(kind: FailureKind, at_us: u64, until_us: Option<u64>, detection_us: u64) -> Failure {
    let until = until_us.map(Time::from_us);
    Failure { at: Time::from_us(at_us), until, detection: Time::from_us(detection_us), kind }
}
