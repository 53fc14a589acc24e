//! Builds an engine from a scenario, and an outcome from an engine.

use std::rc::Rc;

use balance::{Build, Connection, HostEnv, Needs, Receiving, Scale};
use net::{LinkIx, RandomStream, Routes, Time};

use crate::SimError;
use crate::capture::Tap;
use crate::checks::MAX_SELECTIVE_WINDOW;
use crate::engine::{Engine, RunParams, Starts};
use crate::flows::{NEVER, Slots};
use crate::hosts::Hosts;
use crate::hosts::connection::ConnectionTable;
use crate::hosts::receiving::Resequencer;
use crate::ideal::Ideals;
use crate::link_probe::LinkProbe;
use crate::links::faults::Faults;
use crate::links::network::Network;
use crate::links::port::serialisation_ps;
use crate::links::sensors::Sensors;
use crate::openflow::Controlled;
use crate::outcome::{
    Accounting, ControlRecord, EngineRecord, FlowRecord, LinkRecord, Outcome, QueueRecord, ResequencingRecord, Series,
};
use crate::packet::CONTROL;
use crate::probes::Sampler;
use crate::queue::EventQueue;
use crate::queue::NIL;
use crate::scenario::{
    Marking, QueueLimit, Rdma, RdmaRecovery, Resequencing, ResequencingBounds, Scenario, TransportKind,
};
use crate::services::requests::Requests;
use crate::switching::fabric::Fabric;
use crate::switching::plane::ControlPlane;
use crate::switching::switch_cpu::SwitchCpuQueue;
use crate::transport::transport_params::NetworkScale;

/// Number of links from which on a network counts as large: 1 MiB of ports, about the size of the
/// cache of a core.
const LINKS_OF_LARGE: usize = 16_384;

pub(crate) fn engine<'a>(scenario: &Scenario<'a>) -> Engine<'a> {
    let (topology, config) = (scenario.topology, scenario.config);
    let transport = &config.transport;
    // Both bounds and tables start from the shortest paths, which are large: computed once.
    let routes = Rc::new(Routes::intact(topology));
    let ideals = Ideals::new(topology, transport, Rc::clone(&routes));
    let base_rtt = ideals.base_rtt();
    let extent = extent(scenario, base_rtt);
    let window = extent.window;
    let scale = scale(scenario, base_rtt);
    let needs = (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params);
    let resequencer = resequencer(scenario, &needs, base_rtt, window);
    let lossless = config.switch.lossless.or(needs.lossless);
    let mut network = Network::new(scenario, lossless, events(scenario));
    if config.switch.trimming && lossless.is_none() {
        network.set_trimming(queue_bytes(scenario));
    }
    network.admission.sensors = needs.sensing.map(|sensing| Sensors::new(sensing, &sensed_rates(topology, &routes)));
    let mut fabric = Fabric::new(scenario, routes, scale);
    fabric.edges.are_links_sensed = network.admission.sensors.is_some();
    let hosts = match scenario.balancer.entry.build {
        Build::Host(build) => {
            let window_packets = product_packets(scenario, base_rtt).max(1) as u32;
            let env = HostEnv { seed: scenario.seed, scale, window_packets };
            Some(Hosts::new(build(&env, &scenario.balancer.params), scenario.seed))
        }
        _ => None,
    };
    let mut params = RunParams::new(config, &extent, resequencer);
    if needs.receiving == Receiving::Patient && config.host.resequencing == Resequencing::Auto {
        params.tcp.dup_ack_threshold = u32::MAX;
    }
    Engine {
        topology,
        list: scenario.flows,
        params,
        fabric,
        network,
        hosts,
        controlled: None,
        requests: None,
        switch_cpu: None,
        slots: Slots::default(),
        connections: ConnectionTable::new(needs.connection, shared_window(scenario, &needs, window)),
        records: vec![FlowRecord::default(); scenario.flows.flows.len()],
        ideals,
        faults: Faults::new(topology, &config.failures),
        sampler: config.probes.series.then(|| Sampler::new(topology, &config.probes)),
        tap: Tap::new(&config.probes.capture, topology.links().len()),
        link_probe: LinkProbe::new(&config.probes),
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
        udp_rng: RandomStream::new(scenario.seed, "udp"),
        port_seed: RandomStream::new(scenario.seed, "ports").next_u64(),
        is_large: scenario.topology.links().len() >= LINKS_OF_LARGE,
    }
}

pub(crate) fn controlled_engine<'a>(scenario: &Scenario<'a>, plane: &'a mut (dyn ControlPlane + 'a)) -> Engine<'a> {
    let mut engine = engine(scenario);
    let numbering = &engine.fabric.numbering;
    let switches = &numbering.to_topology[numbering.host_count as usize..];
    let controlled = Controlled::new(scenario, numbering.host_count, switches, plane);
    engine.controlled = Some(Box::new(controlled));
    engine.requests = (scenario.config.services.as_ref())
        .map(|config| Box::new(Requests::new(config, scenario.topology, scenario.flows.flows.len())));
    let control = &scenario.config.control;
    engine.switch_cpu =
        control.packets_per_s.map(|rate| Box::new(SwitchCpuQueue::new(switches.len(), rate, control.backlog_packets)));
    engine.network.admission.reserves_control_queue = scenario.config.control.reserves_control_queue;
    engine
}

pub(crate) fn scale(scenario: &Scenario<'_>, base_rtt: u64) -> Scale {
    let topology = scenario.topology;
    let threshold = match scenario.config.switch.marking {
        Marking::Step(limit) => in_bytes(scenario, limit),
        Marking::Ramp { min_bytes, .. } => min_bytes,
        // Without marking: the fifth of the queue at which the default configuration marks.
        Marking::Off => queue_bytes(scenario) / 5,
    };
    let links = || (0..topology.links().len() as u32).map(LinkIx);
    let rate = |link: LinkIx| topology.link(link).rate.as_bps();
    let slowest = links().filter(|link| !topology.is_host_link(*link)).map(rate).min();
    let slowest = slowest.or_else(|| links().map(rate).min()).unwrap_or(1);
    Scale {
        base_rtt: Time::from_ps(base_rtt),
        hop_delay: Time::from_ps(serialisation_ps(threshold, slowest)),
        packet_bytes: scenario.config.transport.packet_bytes(),
        host_rate: net::Bandwidth::from_bps(fastest_host_bps(scenario)),
    }
}

/// Returns the rates of links between edges, bits per second; 0 for the only link of a host.
fn sensed_rates(topology: &net::Topology, routes: &Routes) -> Vec<u64> {
    let mut rates: Vec<u64> = topology.links().iter().map(|link| link.rate.as_bps()).collect();
    for link in (0..topology.hosts().len() as u32).filter_map(|host| routes.last_link(net::HostIx(host))) {
        rates[link.ix()] = 0;
        rates[link.reverse().ix()] = 0;
    }
    rates
}

/// Returns the largest bandwidth-delay product, packets.
fn product_packets(scenario: &Scenario<'_>, base_rtt: u64) -> u64 {
    let bytes = u128::from(fastest_host_bps(scenario)) * u128::from(base_rtt) / 8_000_000_000_000;
    (bytes / u128::from(scenario.config.transport.packet_bytes())) as u64
}

/// Returns twice the largest bandwidth-delay product plus one switch queue, at least 64 packets.
fn scaled_window(scenario: &Scenario<'_>, base_rtt: u64) -> u32 {
    let queue = queue_bytes(scenario) / u64::from(scenario.config.transport.packet_bytes());
    (2 * product_packets(scenario, base_rtt) + queue).clamp(64, 1 << 20) as u32
}

/// Returns the receive window shared by the subflows of a connection, packets: that of one flow
/// plus what the host can receive during one minimum time-out. With less, a subflow that waits for
/// its timer soon stops all others at the end of the window (Raiciu et al., NSDI 2012 §3.1).
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

fn extent(scenario: &Scenario<'_>, base_rtt: u64) -> NetworkScale {
    let transport = &scenario.config.transport;
    let packet = u64::from(transport.packet_bytes());
    let bits = u128::from(fastest_host_bps(scenario)) * u128::from(base_rtt) / 1_000_000_000_000;
    let product = (bits as f64 / 8.0 / packet as f64).max(1.0);
    let bytes = queue_bytes(scenario);
    let scaled = || scaled_window(scenario, base_rtt);
    let window = transport.max_window_packets.unwrap_or_else(|| match transport.kind {
        TransportKind::Rdma(Rdma { recovery: RdmaRecovery::GoBackN, .. }) => 1 << 24,
        TransportKind::Rdma(_) => (product.ceil() as u32).min(MAX_SELECTIVE_WINDOW),
        TransportKind::Spray(_) => scaled().min(MAX_SELECTIVE_WINDOW),
        _ if transport.sack => scaled().min(MAX_SELECTIVE_WINDOW),
        _ => scaled(),
    });
    NetworkScale {
        base_rtt,
        window,
        product: product.ceil(),
        queue_packets: u32::try_from(bytes / packet).unwrap_or(u32::MAX),
        drain: serialisation_ps(bytes, slowest_link_bps(scenario)),
        is_marking: scenario.config.switch.marking != Marking::Off,
    }
}

/// Returns the size of a switch queue in bytes; packets count as full ones.
fn queue_bytes(scenario: &Scenario<'_>) -> u64 {
    in_bytes(scenario, scenario.config.switch.limit)
}

fn in_bytes(scenario: &Scenario<'_>, limit: QueueLimit) -> u64 {
    match limit {
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
        Resequencing::Auto if scenario.config.transport.tolerates_reordering() => return None,
        Resequencing::Auto
            if scenario.balancer.entry.reorders() != balance::Reorders::Always
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

/// Creates an event queue whose wheel covers the packets of busy links; the heap has the rest.
fn events(scenario: &Scenario<'_>) -> EventQueue {
    let links = scenario.topology.links();
    let packet = u64::from(scenario.config.transport.packet_bytes());
    let fastest = links.iter().map(|link| link.rate.as_bps()).max().unwrap_or(1);
    let step = serialisation_ps(packet, fastest);
    let delay = links.iter().map(|link| link.delay.as_ps()).min().unwrap_or(0);
    EventQueue::new(links.len(), 4 * step + delay.min(16 * step))
}

pub(crate) fn outcome(mut engine: Engine<'_>) -> Result<Outcome, SimError> {
    for slot in 0..engine.slots.slots.len() as u32 {
        if engine.slots.get_mut(slot).id == NIL {
            continue;
        }
        if engine.requests.is_some() { engine.add_direction_to_record(slot) } else { engine.write_record(slot) }
    }
    let now = engine.network.now;
    let services = engine.close_requests();
    let accounting = accounting(&engine);
    accounting.check().map_err(SimError::Accounting)?;
    let capture = engine.tap.take().map(|tap| tap.finish()).unwrap_or_default();
    let probe = engine.link_probe.take();
    let link_series = probe.map_or_else(Vec::new, |probe| probe.finish(|link| engine.network.sample(link), now));
    let network = &engine.network;
    let links = network.ports.iter().zip(&network.admission.tallies).map(|(port, tally)| LinkRecord {
        bytes: port.carried_bytes,
        packets: u64::from(port.carried_packets),
        ..*tally
    });
    let queues = network.admission.seen.iter().filter(|seen| seen.count() > 0).map(|seen| QueueRecord {
        tier: seen.tier,
        up: seen.up,
        count: seen.count(),
        p50_bytes: seen.quantile(0.5),
        p99_bytes: seen.quantile(0.99),
        max_bytes: seen.max,
        marked: seen.above_mark,
    });
    let carried = |link: u32| network.ports[link as usize].carried_bytes;
    Ok(Outcome {
        end: Time::from_ps(now),
        accounting,
        links: links.collect(),
        queues: queues.collect(),
        series: engine.sampler.map_or_else(Series::default, |sampler| sampler.finish(carried, now)),
        link_series,
        capture,
        resequencing: engine.resequencing,
        control: ControlRecord { in_flight: network.arena.count(|packet| packet.is(CONTROL)), ..engine.control },
        plane: engine.controlled.as_ref().map(|controlled| controlled.record(now)),
        services,
        max_window_packets: engine.params.tcp.max_window,
        engine: EngineRecord {
            events: engine.events,
            packet_hops: engine.hops,
            peak_packets: engine.network.arena.peak,
            peak_flows: engine.slots.peak,
        },
        flows: engine.records,
    })
}

fn accounting(engine: &Engine<'_>) -> Accounting {
    Accounting {
        packets_sent: engine.sent,
        packets_delivered: engine.delivered,
        packets_to_controller: engine.controlled.as_ref().map_or(0, |controlled| controlled.packets_taken),
        packets_trimmed: engine.network.admission.tallies.iter().map(|tally| tally.trims).sum(),
        dropped: engine.network.dropped,
        // Packets in resequencing buffers count as delivered but are still in the arena.
        packets_in_flight: engine.network.arena.alive - engine.held_now,
        ..Accounting::of_flows(&engine.records)
    }
}
