//! From a scenario to an engine, and from an engine to an outcome.

use std::rc::Rc;

use balance::{Build, Connection, HostEnv, Needs, Receiving, Scale};
use net::{LinkIx, NodeKind, Routes, Stream, Time};
use traffic::Start;

use crate::SimError;
use crate::connection::Connections;
use crate::engine::{Engine, Resequencer, Rules, Starts};
use crate::fabric::{Fabric, Numbering};
use crate::faults::Faults;
use crate::flows::{NEVER, Slots};
use crate::hosts::Hosts;
use crate::ideal::Ideals;
use crate::network::{Network, PortSpec, serialisation_ps};
use crate::outcome::{
    Books, ControlRecord, EngineRecord, FlowEnd, FlowRecord, LinkRecord, Outcome, QueueRecord, ResequencingRecord,
    Series,
};
use crate::packet::CONTROL;
use crate::probes::Sampler;
use crate::queue::EventQueue;
use crate::scenario::{
    FailureKind, Marking, QueueLimit, Rdma, RdmaRecovery, Resequencing, ResequencingBounds, Scenario, SimConfig, Spray,
    TransportKind, UdpRate,
};
use crate::sensors::Sensors;
use crate::transport_rules::Extent;

/// Refuses what cannot be simulated.
pub(crate) fn check(scenario: &Scenario<'_>) -> Result<(), SimError> {
    check_transport(scenario.config)?;
    check_queues(scenario.config)?;
    check_failures(scenario)?;
    check_connections(scenario)?;
    if scenario.topology.nodes().len() > usize::from(u16::MAX) {
        let classes = Routes::intact(scenario.topology).class_count();
        if classes >= usize::from(u16::MAX) {
            let reason = "it has more first switches (or multi-homed hosts) than packets can name: 65534 at most";
            return Err(wrong("topology", format!("{classes} destination classes"), reason));
        }
    }
    let hosts = scenario.topology.hosts().len() as u32;
    let flows = &scenario.flows.flows;
    let most = u64::from(u32::MAX - 1) * u64::from(scenario.config.transport.mss_bytes);
    for (ix, flow) in flows.iter().enumerate() {
        let fail = |reason: String| Err(SimError::Flow { flow: ix, reason });
        if flow.src.0 >= hosts || flow.dst.0 >= hosts {
            let worst = flow.src.0.max(flow.dst.0);
            return fail(format!("host {worst} does not exist; the topology has hosts 0 to {}", hosts - 1));
        }
        if flow.src == flow.dst {
            return fail(format!("host {} sends to itself", flow.src.0));
        }
        if flow.size_bytes == 0 || flow.size_bytes > most {
            return fail(format!("size {} B is not between 1 and {most} B", flow.size_bytes));
        }
        if let Start::After { flow: awaited, .. } = flow.start
            && awaited as usize >= flows.len()
        {
            return fail(format!("waits for flow {awaited}, but there are only {}", flows.len()));
        }
    }
    Ok(())
}

fn wrong(key: &'static str, value: impl ToString, reason: &str) -> SimError {
    SimError::Config { key, value: value.to_string(), reason: reason.to_owned() }
}

fn check_transport(config: &SimConfig) -> Result<(), SimError> {
    let t = &config.transport;
    if t.mss_bytes == 0 {
        return Err(wrong("transport.mss", t.mss_bytes, "a packet must carry at least one byte"));
    }
    if t.packet_bytes() > 65_535 {
        return Err(wrong("transport.mss", t.mss_bytes, "a packet with its headers must fit in 65535 bytes"));
    }
    if t.ack_bytes == 0 || t.ack_bytes > 65_535 {
        return Err(wrong("transport.ack_bytes", t.ack_bytes, "an ACK has 1 to 65535 bytes"));
    }
    if t.initial_window_packets == 0 {
        return Err(wrong("transport.initial_window", 0, "the window must let at least one packet out"));
    }
    if t.max_window_packets == Some(0) || t.max_window_packets.is_some_and(|w| w > 1 << 24) {
        return Err(wrong("transport.max_window", t.max_window_packets.unwrap_or(0), "it is 1 to 16777216 packets"));
    }
    if t.dup_ack_threshold == 0 {
        return Err(wrong("transport.dup_ack_threshold", 0, "it is at least 1"));
    }
    if t.min_rto == Time::ZERO {
        return Err(wrong("transport.min_rto", t.min_rto, "it is above 0"));
    }
    if t.sack {
        check_selective_window(config)?;
    }
    match t.kind {
        TransportKind::Rdma(rdma) => check_rdma(&rdma, config),
        TransportKind::Spray(spray) => check_spray(&spray, config),
        TransportKind::Dctcp { gain } if !(gain > 0.0 && gain <= 1.0) => {
            Err(wrong("transport.gain", gain, "it lies above 0 and is at most 1"))
        }
        TransportKind::Udp(UdpRate::Constant(rate)) if rate.as_bps() == 0 => {
            Err(wrong("transport.rate", rate, "it is above 0"))
        }
        TransportKind::Udp(UdpRate::UniformPackets { min_per_s, max_per_s })
            if !(min_per_s > 0.0 && max_per_s >= min_per_s && max_per_s < 1e12) =>
        {
            Err(wrong("transport.rate", format!("{min_per_s}..{max_per_s} packets/s"), "0 < min <= max is needed"))
        }
        _ => Ok(()),
    }
}

/// Connections that race need a transport that acknowledges; those that share data need one of the two whose windows and
/// recovery they know.
fn check_connections(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let transport = &scenario.config.transport;
    let is_udp = matches!(transport.kind, TransportKind::Udp(_));
    let is_plain = matches!(transport.kind, TransportKind::NewReno | TransportKind::Dctcp { .. }) && !transport.sack;
    if is_plain {
        return Ok(());
    }
    // Whether a flow becomes several connections does not depend on times.
    let scale = scale(scenario, 0);
    let name = scenario.balancer.entry.name;
    match (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params).connection {
        Connection::Subflows(_) if !is_udp => {
            let reason = format!(
                "balancer `{name}` couples the windows of subflows without SACK; take newreno or dctcp with sack = false, or \
                 a balancer with one connection per flow"
            );
            let with = if transport.sack { " with sack" } else { "" };
            Err(wrong("transport", format!("{}{with}", transport.kind.name()), &reason))
        }
        Connection::Subflows(_) | Connection::Copies(_) if is_udp => {
            let reason = format!(
                "balancer `{name}` makes several connections of a flow, and UDP has none; take newreno or dctcp, or a balancer \
                 with one connection per flow"
            );
            Err(wrong("transport", "udp", &reason))
        }
        _ => Ok(()),
    }
}

/// Windows of transports that acknowledge selectively: acknowledgements name segments up to this far ahead.
const MOST_SELECTIVE: u32 = 65_000;

fn check_spray(spray: &Spray, config: &SimConfig) -> Result<(), SimError> {
    if spray.target_delay == Some(Time::ZERO) {
        return Err(wrong("transport.target_delay", Time::ZERO, "it is above 0"));
    }
    if spray.packet_timeout == Some(Time::ZERO) {
        return Err(wrong("transport.packet_timeout", Time::ZERO, "it is above 0"));
    }
    if spray.reorder_packets == Some(0) {
        return Err(wrong("transport.reorder_packets", 0, "it is at least 1"));
    }
    check_selective_window(config)
}

fn check_selective_window(config: &SimConfig) -> Result<(), SimError> {
    match config.transport.max_window_packets {
        Some(window) if window > MOST_SELECTIVE => {
            let reason = "selective acknowledgements reach 65000 packets";
            Err(wrong("transport.max_window", window, reason))
        }
        _ => Ok(()),
    }
}

fn check_rdma(rdma: &Rdma, config: &SimConfig) -> Result<(), SimError> {
    let d = &rdma.dcqcn;
    if !(d.gain > 0.0 && d.gain <= 1.0) {
        return Err(wrong("transport.gain", d.gain, "it lies above 0 and is at most 1"));
    }
    let times = [
        ("transport.notify_interval", Some(d.notify_interval)),
        ("transport.alpha_timer", Some(d.alpha_timer)),
        ("transport.rate_timer", Some(d.rate_timer)),
        ("transport.packet_timeout", rdma.packet_timeout),
    ];
    for (key, time) in times {
        if time == Some(Time::ZERO) {
            return Err(wrong(key, Time::ZERO, "it is above 0"));
        }
    }
    if d.byte_counter == 0 {
        return Err(wrong("transport.byte_counter", 0, "it is above 0"));
    }
    match rdma.recovery {
        RdmaRecovery::Selective => check_selective_window(config),
        RdmaRecovery::GoBackN => Ok(()),
    }
}

fn check_queues(config: &SimConfig) -> Result<(), SimError> {
    let packet = u64::from(config.transport.packet_bytes());
    match config.switch.limit {
        QueueLimit::Packets(0) => return Err(wrong("switch.queue", "0 packets", "a queue holds at least one packet")),
        QueueLimit::Bytes(bytes) if bytes < packet => {
            let reason = format!("a queue must hold at least one full packet of {packet} bytes");
            return Err(wrong("switch.queue", format!("{bytes} bytes"), &reason));
        }
        _ => {}
    }
    if let Marking::Ramp { min_bytes, max_bytes, max_probability } = config.switch.marking
        && !(min_bytes < max_bytes && (0.0..=1.0).contains(&max_probability))
    {
        let value = format!("{min_bytes}..{max_bytes} B up to {max_probability}");
        return Err(wrong("switch.ecn", value, "min < max and a probability from 0 to 1 are needed"));
    }
    if let Some(rules) = config.switch.lossless
        && !((1..=8).contains(&rules.priorities) && rules.resume_below_bytes <= rules.pause_above_bytes)
    {
        let value =
            format!("{} classes, {} to {} B", rules.priorities, rules.resume_below_bytes, rules.pause_above_bytes);
        return Err(wrong("switch.pfc", value, "1 to 8 classes, and resume no higher than pause"));
    }
    if config.host.priority_sizes.len() > 7 {
        return Err(wrong(
            "host.priority_sizes",
            config.host.priority_sizes.len(),
            "there are 8 classes: 7 bounds at most",
        ));
    }
    if config.switch.trimming && !matches!(config.transport.kind, TransportKind::Spray(_)) {
        let reason = "only the spray transport understands trimmed packets: set transport.kind = \"spray\"";
        return Err(wrong("switch.trimming", true, reason));
    }
    if config.switch.trimming && config.switch.lossless.is_some() {
        return Err(wrong("switch.trimming", true, "with switch.pfc no queue is ever full: choose one of them"));
    }
    if config.host.queue_packets == 0 {
        return Err(wrong("host.queue_packets", 0, "an interface holds at least one packet"));
    }
    Ok(())
}

fn check_failures(scenario: &Scenario<'_>) -> Result<(), SimError> {
    let (links, nodes) = (scenario.topology.links().len(), scenario.topology.nodes().len());
    for failure in &scenario.config.failures {
        let is_link = |link: LinkIx| link.ix() < links;
        let ok = match failure.kind {
            FailureKind::LinkDown(link) => is_link(link),
            FailureKind::LinkRate { link, fraction } => is_link(link) && fraction > 0.0 && fraction <= 1.0,
            FailureKind::RandomDrop { link, probability } => is_link(link) && (0.0..=1.0).contains(&probability),
            FailureKind::SwitchDrop { node, probability } => node.ix() < nodes && (0.0..=1.0).contains(&probability),
            FailureKind::Blackhole { node, fraction, .. } => node.ix() < nodes && (0.0..=1.0).contains(&fraction),
            FailureKind::SwitchDown(node) => node.ix() < nodes && scenario.topology.node(node).kind == NodeKind::Switch,
        };
        if !ok {
            let reason = "it names a link or switch that does not exist, or a fraction outside 0..1";
            return Err(wrong("failure", format!("{:?}", failure.kind), reason));
        }
        if failure.until.is_some_and(|until| until <= failure.at) {
            return Err(wrong("failure.until", failure.until.unwrap_or_default(), "it ends before it begins"));
        }
    }
    Ok(())
}

/// Builds the engine of a checked scenario.
pub(crate) fn engine<'a>(scenario: &Scenario<'a>) -> Engine<'a> {
    let (topology, config) = (scenario.topology, scenario.config);
    let transport = &config.transport;
    // The bounds and the tables both start from the intact shortest paths; they are large, so computed once.
    let routes = Rc::new(Routes::intact(topology));
    let mut ideals = Ideals::new(Rc::clone(&routes), transport);
    let base_rtt = ideals.base_rtt(topology, transport);
    let extent = extent(scenario, base_rtt);
    let window = extent.window;
    let scale = scale(scenario, base_rtt);
    let needs = (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params);
    let resequencer = resequencer(scenario, &needs, base_rtt, window);
    let jitter = config.host.jitter.as_ps();
    let lossless = config.switch.lossless.or(needs.lossless);
    let mut network = Network::new(&ports(scenario), &config.switch, lossless, events(scenario), jitter, scenario.seed);
    if config.switch.trimming && lossless.is_none() {
        network.set_trimming(queue_bytes(scenario));
    }
    network.sensors = needs.sensing.map(|sensing| Sensors::new(sensing, &sensed_rates(topology, &routes)));
    let mut fabric = Fabric::new(topology, routes, scenario.balancer, scenario.seed, transport, scale);
    fabric.edges.are_links_sensed = network.sensors.is_some();
    let hosts = match scenario.balancer.entry.build {
        Build::Host(build) => {
            let window = fastest_host_bps(scenario) as u128 * u128::from(base_rtt) / 8_000_000_000_000;
            let window_packets = (window / u128::from(transport.packet_bytes())).max(1) as u32;
            let env = HostEnv { seed: scenario.seed, scale, window_packets };
            Some(Hosts::new(build(&env, &scenario.balancer.params), scenario.seed))
        }
        _ => None,
    };
    let mut rules = Rules::new(config, &extent, resequencer);
    if needs.receiving == Receiving::Patient && config.host.resequencing == Resequencing::Auto {
        rules.tcp.dup_ack_threshold = u32::MAX;
    }
    Engine {
        topology,
        list: scenario.flows,
        rules,
        fabric,
        network,
        hosts,
        slots: Slots::default(),
        connections: Connections::new(needs.connection, shared_window(scenario, &needs, window)),
        records: vec![unstarted(); scenario.flows.flows.len()],
        ideals,
        faults: Faults::new(&config.failures),
        sampler: config.probes.series.then(|| Sampler::new(topology, &config.probes)),
        starts: Starts::new(scenario.flows),
        is_interface_awaited: vec![false; topology.hosts().len()],
        waiting: vec![std::collections::VecDeque::new(); topology.hosts().len()],
        resequencing: ResequencingRecord { active: resequencer.is_some(), ..ResequencingRecord::default() },
        held_now: 0,
        control: ControlRecord::default(),
        sent: 0,
        delivered: 0,
        events: 0,
        hops: 0,
        flows_done: 0,
        is_over: false,
        udp_rng: Stream::new(scenario.seed, "udp"),
        port_seed: Stream::new(scenario.seed, "ports").bits(),
    }
}

/// What times of mechanisms scale with.
fn scale(scenario: &Scenario<'_>, base_rtt: u64) -> Scale {
    let topology = scenario.topology;
    let packet_bytes = scenario.config.transport.packet_bytes();
    let in_bytes = |limit: QueueLimit| match limit {
        QueueLimit::Packets(packets) => u64::from(packets) * u64::from(packet_bytes),
        QueueLimit::Bytes(bytes) => bytes,
    };
    let threshold = match scenario.config.switch.marking {
        Marking::Step(limit) => in_bytes(limit),
        Marking::Ramp { min_bytes, .. } => min_bytes,
        // Where nothing is marked: the fifth of the queue at which the default marks.
        Marking::Off => in_bytes(scenario.config.switch.limit) / 5,
    };
    let links = || (0..topology.links().len() as u32).map(LinkIx);
    let rate = |link: LinkIx| topology.link(link).rate.as_bps();
    let slowest = links().filter(|link| !topology.is_host_link(*link)).map(rate).min();
    let slowest = slowest.or_else(|| links().map(rate).min()).unwrap_or(1);
    Scale {
        base_rtt: Time::from_ps(base_rtt),
        hop_delay: Time::from_ps(serialisation_ps(threshold, slowest)),
        packet_bytes,
        host_rate: net::Bandwidth::from_bps(fastest_host_bps(scenario)),
    }
}

/// Rates of the links between edges; 0 for links between a host and its only switch.
fn sensed_rates(topology: &net::Topology, routes: &Routes) -> Vec<u64> {
    let mut rates: Vec<u64> = topology.links().iter().map(|link| link.rate.as_bps()).collect();
    for link in (0..topology.hosts().len() as u32).filter_map(|host| routes.last_link(net::HostIx(host))) {
        rates[link.ix()] = 0;
        rates[link.reverse().ix()] = 0;
    }
    rates
}

pub(crate) fn unstarted() -> FlowRecord {
    FlowRecord {
        end: FlowEnd::NotStarted,
        started: Time::ZERO,
        fct: Time::ZERO,
        sender_fct: Time::ZERO,
        ideal: Time::ZERO,
        delivered_bytes: 0,
        duplicate_bytes: 0,
        packets_sent: 0,
        retransmitted: 0,
        spurious: 0,
        timeouts: 0,
        fast_retransmits: 0,
        reordered: 0,
        reorder_extent: 0,
        path_changes: 0,
    }
}

/// Twice the largest bandwidth-delay product plus one switch queue, at least 64 packets.
fn scaled_window(scenario: &Scenario<'_>, base_rtt: u64) -> u32 {
    let fastest = fastest_host_bps(scenario);
    let packet = u64::from(scenario.config.transport.packet_bytes());
    let product = u128::from(fastest) * u128::from(base_rtt) / 8_000_000_000_000 / u128::from(packet);
    let queue = match scenario.config.switch.limit {
        QueueLimit::Packets(packets) => u64::from(packets),
        QueueLimit::Bytes(bytes) => bytes / packet,
    };
    (2 * product as u64 + queue).clamp(64, 1 << 20) as u32
}

/// Receive window shared by the subflows of a connection, packets: what the experiment says, else that of one flow and what
/// the host can receive during one least time-out. With less, a subflow that waits for its timer soon stops all others,
/// which must not send beyond the window (Raiciu et al., NSDI 2012, section 3.1).
fn shared_window(scenario: &Scenario<'_>, needs: &Needs, window: u32) -> u32 {
    let transport = &scenario.config.transport;
    if !matches!(needs.connection, Connection::Subflows(_)) || transport.max_window_packets.is_some() {
        return window;
    }
    let packet_bits = u128::from(transport.packet_bytes()) * 8;
    let packets = u128::from(fastest_host_bps(scenario)) * u128::from(transport.min_rto.as_ps())
        / 1_000_000_000_000
        / packet_bits;
    window.saturating_add(packets.min(1 << 20) as u32).min(1 << 20)
}

/// What the parameters of transports scale with.
fn extent(scenario: &Scenario<'_>, base_rtt: u64) -> Extent {
    let transport = &scenario.config.transport;
    let packet = u64::from(transport.packet_bytes());
    let bits = u128::from(fastest_host_bps(scenario)) * u128::from(base_rtt) / 1_000_000_000_000;
    let product = (bits as f64 / 8.0 / packet as f64).max(1.0);
    let bytes = queue_bytes(scenario);
    let given = transport.max_window_packets;
    let window = match transport.kind {
        TransportKind::Rdma(Rdma { recovery: RdmaRecovery::GoBackN, .. }) => given.unwrap_or(1 << 24),
        TransportKind::Rdma(_) => given.unwrap_or((product.ceil() as u32).min(MOST_SELECTIVE)),
        TransportKind::Spray(_) => given.unwrap_or(scaled_window(scenario, base_rtt).min(MOST_SELECTIVE)),
        _ if transport.sack => given.unwrap_or(scaled_window(scenario, base_rtt).min(MOST_SELECTIVE)),
        _ => given.unwrap_or_else(|| scaled_window(scenario, base_rtt)),
    };
    Extent {
        base_rtt,
        window,
        product: product.ceil(),
        queue_packets: u32::try_from(bytes / packet).unwrap_or(u32::MAX),
        drain: serialisation_ps(bytes, slowest_link_bps(scenario)),
        is_marking: scenario.config.switch.marking != Marking::Off,
    }
}

/// A switch queue in bytes; packets count as full ones.
fn queue_bytes(scenario: &Scenario<'_>) -> u64 {
    match scenario.config.switch.limit {
        QueueLimit::Packets(packets) => u64::from(packets) * u64::from(scenario.config.transport.packet_bytes()),
        QueueLimit::Bytes(bytes) => bytes,
    }
}

fn slowest_link_bps(scenario: &Scenario<'_>) -> u64 {
    scenario.topology.links().iter().map(|link| link.rate).min().map_or(1, net::Bandwidth::as_bps)
}

fn fastest_host_bps(scenario: &Scenario<'_>) -> u64 {
    let topology = scenario.topology;
    let rates = topology.hosts().iter().flat_map(|host| topology.out_links(*host)).map(|l| topology.link(*l).rate);
    rates.max().map_or(1, net::Bandwidth::as_bps)
}

fn resequencer(scenario: &Scenario<'_>, needs: &Needs, base_rtt: u64, window: u32) -> Option<Resequencer> {
    let is_auto = scenario.config.host.resequencing == Resequencing::Auto;
    let bounds = match scenario.config.host.resequencing {
        Resequencing::Off => return None,
        Resequencing::Auto if scenario.config.transport.is_seeing_disorder() => return None,
        Resequencing::Auto
            if scenario.balancer.entry.reorders != balance::Reorders::Always
                && needs.receiving != Receiving::Resequenced =>
        {
            return None;
        }
        Resequencing::Auto => ResequencingBounds { timeout: None, packets: None },
        Resequencing::On(bounds) => bounds,
    };
    let drain = serialisation_ps(queue_bytes(scenario), slowest_link_bps(scenario));
    let scaled = base_rtt.saturating_add(drain);
    let usual = Resequencer {
        timeout: bounds.timeout.map_or(scaled, Time::as_ps),
        packets: bounds.packets.unwrap_or(window).max(1),
        patience: None,
    };
    Some(match needs.receiving {
        Receiving::Patient if is_auto => Resequencer { timeout: NEVER, ..usual },
        Receiving::Flowcells { patience, .. } if is_auto => Resequencer { patience: Some(patience), ..usual },
        _ => usual,
    })
}

fn ports(scenario: &Scenario<'_>) -> Vec<PortSpec> {
    let topology = scenario.topology;
    let numbering = Numbering::new(topology);
    let port = |(ix, link): (usize, &net::Link)| {
        let up = topology.is_upward(LinkIx(ix as u32));
        PortSpec {
            bps: link.rate.as_bps(),
            delay: link.delay.as_ps(),
            to: numbering.of(link.to),
            from_host: topology.node(link.from).kind == NodeKind::Host && !topology.node(link.from).forwards,
            tier: topology.link_tier(LinkIx(ix as u32)).0,
            up,
        }
    };
    topology.links().iter().enumerate().map(port).collect()
}

/// A wheel wide enough for the packets of busy links; what lies further ahead goes to the heap.
fn events(scenario: &Scenario<'_>) -> EventQueue {
    let links = scenario.topology.links();
    let packet = u64::from(scenario.config.transport.packet_bytes());
    let fastest = links.iter().map(|link| link.rate.as_bps()).max().unwrap_or(1);
    let step = serialisation_ps(packet, fastest);
    let delay = links.iter().map(|link| link.delay.as_ps()).min().unwrap_or(0);
    EventQueue::new(links.len(), 4 * step + delay.min(16 * step))
}

/// Closes the books.
pub(crate) fn outcome(mut engine: Engine<'_>) -> Result<Outcome, SimError> {
    let open: Vec<u32> = engine.slots.open_slots().collect();
    for slot in open {
        engine.write_record(slot);
    }
    let now = engine.network.now;
    let books = books(&engine);
    books.check().map_err(SimError::Books)?;
    let network = &engine.network;
    let links = network.ports.iter().zip(&network.tallies).map(|(port, tally)| LinkRecord {
        bytes: port.carried_bytes,
        packets: u64::from(port.carried_packets),
        drops: tally.drops,
        marks: tally.marks,
        trims: tally.trims,
    });
    let links = links.collect();
    let queues = network.seen.iter().filter(|seen| seen.count() > 0).map(|seen| QueueRecord {
        tier: seen.tier,
        up: seen.up,
        count: seen.count(),
        p50_bytes: seen.quantile(0.5),
        p99_bytes: seen.quantile(0.99),
        max_bytes: seen.max(),
        marked: seen.above_mark,
    });
    let carried = |link: u32| network.ports[link as usize].carried_bytes;
    Ok(Outcome {
        end: Time::from_ps(now),
        books,
        links,
        queues: queues.collect(),
        series: engine.sampler.map_or_else(Series::default, |sampler| sampler.finish(carried, now)),
        resequencing: engine.resequencing,
        control: ControlRecord { in_flight: network.arena.count(|packet| packet.is(CONTROL)), ..engine.control },
        max_window_packets: engine.rules.tcp.max_window,
        engine: EngineRecord {
            events: engine.events,
            packet_hops: engine.hops,
            peak_packets: engine.network.arena.peak(),
            peak_flows: engine.slots.peak(),
        },
        flows: engine.records,
    })
}

fn books(engine: &Engine<'_>) -> Books {
    let count = |end: FlowEnd| engine.records.iter().filter(|record| record.end == end).count() as u64;
    let listed = engine.records.len() as u64;
    Books {
        flows_listed: listed,
        flows_started: listed - count(FlowEnd::NotStarted),
        flows_completed: count(FlowEnd::Completed),
        flows_failed: count(FlowEnd::Failed),
        flows_running: count(FlowEnd::Running),
        packets_sent: engine.sent,
        packets_delivered: engine.delivered,
        packets_trimmed: engine.network.tallies.iter().map(|tally| tally.trims).sum(),
        dropped: engine.network.dropped,
        // Packets in resequencing buffers were delivered and still exist.
        packets_in_flight: engine.network.arena.alive() - engine.held_now,
    }
}
