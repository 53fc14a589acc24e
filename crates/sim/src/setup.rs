//! Builds the engines of a run from a scenario.

use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use balance::{Build, Connection, HostEnv, Lossless, Needs, Receiving, Scale, Shared};
use net::{LinkIx, RandomStream, Routes, Time};

use crate::capture::Tap;
use crate::checks::MAX_SELECTIVE_WINDOW;
use crate::engine::{Engine, RunParams};
use crate::hosts::Hosts;
use crate::hosts::connection::ConnectionTable;
use crate::hosts::receiving::Resequencer;
use crate::hosts::slots::{Numbers, Slots};
use crate::hosts::starts::Starts;
use crate::ideal::Ideals;
use crate::links::lanes::{ALL_BUT_DATA, ONLY_CONTROL};
use crate::links::network::Network;
use crate::links::port::serialisation_ps;
use crate::links::sensors::Sensors;
use crate::openflow::Controlled;
use crate::openflow::switch_cpu::SwitchCpuQueue;
use crate::outcome::{ControlRecord, FlowRecord, ResequencingRecord};
use crate::prefetch::Foreseen;
use crate::queue::{EventQueue, NIL};
use crate::run::Run;
use crate::run::partitions::Partitions;
use crate::scenario::{Acks, Marking, QueueLimit, Resequencing, ResequencingBounds, Scenario};
use crate::services::requests::Requests;
use crate::switching::direct_feedback::DirectFeedback;
use crate::switching::fabric::Fabric;
use crate::switching::plane::ControlPlane;
use crate::timers::NEVER;
use crate::transport::params::NetworkScale;

/// Number of links from which on a network counts as large: 1 MiB of ports, about the size of the
/// cache of a core.
const LINKS_OF_LARGE: usize = 16_384;

fn is_large(topology: &net::Topology) -> bool {
    topology.links().len() >= LINKS_OF_LARGE
}

/// Builds the run of a scenario, with its controller if it has one, in up to `threads` partitions.
pub(crate) fn run<'a>(
    scenario: &Scenario<'a>,
    plane: Option<&'a mut (dyn ControlPlane + 'a)>,
    threads: usize,
) -> Run<'a> {
    let topology = scenario.topology;
    // Both bounds and tables start from the shortest paths, which are large: computed once.
    let routes = Arc::new(Routes::intact(topology));
    let ideals = Ideals::new(topology, &scenario.config.transport, Arc::clone(&routes));
    let parts = Parts::new(scenario, &ideals, &routes);
    let fabric = Fabric::new(scenario, routes);
    let partitions = Partitions::new(scenario, &fabric.numbering, threads);
    let shared = Shared::default();
    let engine = |partition| parts.engine(scenario, fabric.share(), &shared, &partitions, partition);
    let mut engines: Vec<Engine<'a>> = (0..partitions.count).map(engine).collect();
    // The first fabric compiles the tables of all.
    engines[0].fabric.wants_weights = engines.iter().any(|engine| engine.fabric.wants_weights);
    let tables = engines[0].fabric.compile_intact(topology);
    engines.iter_mut().for_each(|engine| engine.fabric.use_tables(&tables));
    if let Some(plane) = plane {
        add_controller(&mut engines[0], scenario, plane);
    }
    Run::new(scenario, engines, ideals, &partitions)
}

/// Values from which the engines of all partitions are made.
struct Parts {
    params: RunParams,
    needs: Needs,
    scale: Scale,
    base_rtt: u64,
    lossless: Option<Lossless>,
    connection_window: u32,
    sensed_rates: Vec<u64>,
}

impl Parts {
    fn new(scenario: &Scenario<'_>, ideals: &Ideals<'_>, routes: &Routes) -> Parts {
        let config = scenario.config;
        let base_rtt = ideals.base_rtt();
        let extent = extent(scenario, base_rtt);
        let scale = scale(scenario, base_rtt);
        let needs = (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params);
        let resequencer = resequencer(scenario, &needs, base_rtt, extent.window);
        let mut params = RunParams::new(scenario, &extent, resequencer);
        if needs.receiving == Receiving::Patient && config.host.resequencing == Resequencing::Auto {
            params.transport.dup_ack_threshold = u32::MAX;
        }
        Parts {
            params,
            scale,
            base_rtt,
            lossless: config.switch.lossless.or(needs.lossless),
            connection_window: shared_window(scenario, &needs, extent.window),
            sensed_rates: sensed_rates(scenario.topology, routes),
            needs,
        }
    }

    fn engine<'a>(
        &self,
        scenario: &Scenario<'a>,
        mut fabric: Fabric,
        shared: &Shared,
        partitions: &Partitions,
        partition: usize,
    ) -> Engine<'a> {
        let (topology, config, flows) = (scenario.topology, scenario.config, scenario.flows);
        let is_local = |node: u32| partitions.of(node) == partition;
        let mut network = Network::new(scenario, self.lossless, events(scenario));
        if self.lossless.is_none() {
            if config.has_control_class() {
                network.set_control_class(ALL_BUT_DATA, queue_bytes(scenario), config.switch.trimming);
            } else if self.needs.messages {
                network.set_control_class(ONLY_CONTROL, queue_bytes(scenario), false);
            }
        }
        network.admission.sensors = self.needs.sensing.map(|sensing| Sensors::new(sensing, &self.sensed_rates));
        partitions.mark_links(&mut network, partition);
        fabric.install(scenario, self.scale, shared, is_local);
        fabric.has_messages = self.needs.messages;
        fabric.edges.are_early_packets_kept = self.params.resequencer.is_some_and(|bounds| bounds.reports_gaps);
        fabric.edges.are_links_sensed = network.admission.sensors.is_some();
        let hosts = match scenario.balancer.entry.build {
            Build::Host(build) => {
                let window_packets = product_packets(scenario, self.base_rtt).max(1) as u32;
                let env = HostEnv { seed: scenario.seed, scale: self.scale, window_packets };
                Some(Hosts::new(build(&env, &scenario.balancer.params), scenario.seed))
            }
            _ => None,
        };
        let is_by_flow = has_own_numbers(scenario, &self.needs);
        let counts_losses = is_by_flow && self.params.properties.acks == Acks::None;
        let numbers = if is_by_flow { Numbers::OfFlows(vec![NIL; flows.flows.len()]) } else { Numbers::OfSlots };
        Engine {
            topology,
            list: flows,
            params: self.params.clone(),
            fabric,
            network,
            hosts,
            feedback: (config.transport.kind.feedback()).map(|rule| Box::new(DirectFeedback::new(topology, rule))),
            controlled: None,
            requests: None,
            switch_cpu: None,
            slots: Slots::new(numbers),
            connections: ConnectionTable::new(self.needs.connection, self.connection_window),
            records: vec![FlowRecord::default(); flows.flows.len()],
            lost: if counts_losses { vec![0; flows.flows.len()] } else { Vec::new() },
            tap: Tap::new(&config.probes.capture, topology.links().len()),
            starts: Starts::new(flows, self.needs.largest_first, is_local),
            pauses: BinaryHeap::new(),
            is_interface_awaited: vec![false; topology.hosts().len()],
            waiting: vec![VecDeque::new(); topology.hosts().len()],
            resequencing: ResequencingRecord {
                active: self.params.resequencer.is_some(),
                ..ResequencingRecord::default()
            },
            held_now: 0,
            control: ControlRecord::default(),
            sent: 0,
            delivered: 0,
            events: 0,
            hops: 0,
            flows_done: 0,
            is_report_due: false,
            is_broken: false,
            senders: 0,
            in_network: 0,
            owners: partitions.owners.clone(),
            partition: partition as u8,
            port_seed: port_seed(scenario.seed),
            is_large: is_large(topology),
            foreseen: Foreseen::default(),
        }
    }
}

/// Returns whether packets carry the numbers of flows, and not of slots: a flow has one connection,
/// of which only its hosts and switches keep state.
fn has_own_numbers(scenario: &Scenario<'_>, needs: &Needs) -> bool {
    let is_controlled = matches!(scenario.balancer.entry.build, Build::Central(_) | Build::Server(_));
    !is_controlled && needs.connection == Connection::Single
}

/// Returns why a scenario runs in one partition, if it must.
pub(crate) fn reason_for_one_partition(scenario: &Scenario<'_>) -> Option<&'static str> {
    let scale = scale(scenario, 0);
    let needs = (scenario.balancer.entry.needs)(&scale, &scenario.balancer.params);
    match scenario.balancer.entry.build {
        Build::Central(_) | Build::Server(_) => return Some("a controller acts on all switches at once"),
        Build::Bound(_) => return Some("a bound is computed for the whole network"),
        _ => {}
    }
    if needs.connection != Connection::Single {
        Some("the connections of a flow share their state")
    } else if !scenario.config.probes.capture.links.is_empty() {
        Some("captured packets are in one order")
    } else if needs.reads_all_links {
        Some("the balancer reads links anywhere in the network")
    } else {
        None
    }
}

fn add_controller<'a>(engine: &mut Engine<'a>, scenario: &Scenario<'a>, plane: &'a mut (dyn ControlPlane + 'a)) {
    let numbering = Arc::clone(&engine.fabric.numbering);
    let switches = &numbering.to_topology[numbering.host_count as usize..];
    let controlled = Controlled::new(scenario, numbering.host_count, switches, plane);
    engine.controlled = Some(Box::new(controlled));
    engine.requests = (scenario.config.services.as_ref()).map(|config| Box::new(Requests::new(config, scenario)));
    let control = &scenario.config.control;
    engine.switch_cpu =
        control.packets_per_s.map(|rate| Box::new(SwitchCpuQueue::new(switches.len(), rate, control.backlog_packets)));
    engine.network.admission.reserves_control_queue = scenario.config.control.reserves_control_queue;
}

/// Returns the seed from which the ports of flows are derived.
pub(crate) fn port_seed(seed: u64) -> u64 {
    RandomStream::new(seed, "ports").next_u64()
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

pub(crate) fn extent(scenario: &Scenario<'_>, base_rtt: u64) -> NetworkScale {
    let transport = &scenario.config.transport;
    let packet = u64::from(transport.packet_bytes());
    let bits = u128::from(fastest_host_bps(scenario)) * u128::from(base_rtt) / 1_000_000_000_000;
    let product = (bits as f64 / 8.0 / packet as f64).max(1.0);
    let bytes = queue_bytes(scenario);
    let window = transport.max_window_packets.unwrap_or_else(|| {
        let reach = if transport.sack { MAX_SELECTIVE_WINDOW } else { u32::MAX };
        transport.kind.window(scaled_window(scenario, base_rtt).min(reach), product.ceil() as u32)
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
pub(crate) fn queue_bytes(scenario: &Scenario<'_>) -> u64 {
    in_bytes(scenario, scenario.config.switch.limit)
}

pub(crate) fn in_bytes(scenario: &Scenario<'_>, limit: QueueLimit) -> u64 {
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
        Resequencing::Auto if scenario.config.transport.properties().tolerates_reordering => {
            let is_kept =
                needs.receiving == Receiving::Reported && scenario.config.transport.properties().acks == Acks::InOrder;
            return is_kept.then_some(Resequencer {
                timeout: NEVER,
                packets: u32::MAX,
                patience: None,
                reports_gaps: true,
            });
        }
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
        reports_gaps: false,
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
    EventQueue::new(links.len(), is_large(scenario.topology), 4 * step + delay.min(16 * step))
}
