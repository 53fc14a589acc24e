//! Paths of flows: those that the packet engine would choose for their first packets, or divisions.

use std::sync::Arc;

use balance::{Build, FlowLevel};
use net::{HostIx, LinkIx, Routes, Topology};

use super::split::Splitter;
use crate::hosts::connection::open::{hashes, source_port};
use crate::links::faults::Faults;
use crate::links::network::Network;
use crate::packet::{ACK, DATA, FRESH, Packet};
use crate::queue::{EventQueue, NIL};
use crate::scenario::Scenario;
use crate::setup;
use crate::switching::fabric::{Fabric, Hop, round_trip};

/// Switches that a packet passes at most; a longer path is a loop.
const HOPS_MAX: usize = 64;

/// The fabric of the packet engine over empty queues, through which one packet of a flow is led.
pub(super) struct PathFinder<'a> {
    scenario: &'a Scenario<'a>,
    fabric: Fabric,
    network: Network,
    port_seed: u64,
    splitter: Option<Splitter>,
    /// Whether paths include the links of acknowledgements, with weight 0: a failure there stops
    /// the flow too.
    has_acks: bool,
    /// Links of the flow found last, each with the share of its rate.
    pub(super) links: Vec<(u32, f64)>,
}

impl<'a> PathFinder<'a> {
    pub(super) fn new(scenario: &'a Scenario<'a>, routes: Arc<Routes>, base_rtt: u64) -> PathFinder<'a> {
        let entry = scenario.balancer.entry;
        let splits = matches!(entry.flow_level, FlowLevel::EvenSplit | FlowLevel::AdaptiveSplit);
        let by_path = matches!(entry.build, Build::Edge(_));
        let scale = setup::scale(scenario, base_rtt);
        PathFinder {
            scenario,
            network: Network::new(scenario, None, EventQueue::new(0, false, 1)),
            splitter: splits.then(|| Splitter::new(Arc::clone(&routes), by_path)),
            // Divisions follow from the routes alone.
            fabric: if splits { Fabric::new(scenario, routes) } else { Fabric::whole(scenario, routes, scale) },
            port_seed: setup::port_seed(scenario.seed),
            has_acks: !scenario.config.failures.is_empty(),
            links: Vec::new(),
        }
    }

    /// Prepares a flow number for a new flow of this size.
    pub(super) fn forget(&mut self, number: u32, bytes: u64) {
        self.fabric.edges.forget_paths(number, bytes);
    }

    /// Finds the links of flow `id`, active under a number, at a time. Returns whether its data and
    /// acknowledgements have paths.
    pub(super) fn find(&mut self, now: u64, number: u32, id: u32) -> bool {
        self.network.now = now;
        self.links.clear();
        let flow = &self.scenario.flows.flows[id as usize];
        let ends = (flow.src, flow.dst);
        if let Some(splitter) = &mut self.splitter {
            return splitter.split(self.scenario.topology, ends, &mut self.links);
        }
        let [data, ack] = hashes(self.port_seed, id, ends, source_port(self.port_seed, id, 0));
        let bytes = self.scenario.config.transport.packet_bytes() as u16;
        let is_found =
            self.walk(ends, Packet { flow: number, hash: data, bytes, flags: DATA | FRESH, ..Packet::BLANK }, 1.0);
        if !self.has_acks {
            return is_found;
        }
        let ack_bytes = self.scenario.config.transport.ack_bytes as u16;
        let ack = Packet { flow: number, hash: ack, bytes: ack_bytes, flags: ACK | FRESH, ..Packet::BLANK };
        self.walk((ends.1, ends.0), ack, 0.0) && is_found
    }

    /// Leads a packet to its destination and appends its links.
    fn walk(&mut self, (src, dst): (HostIx, HostIx), packet: Packet, weight: f64) -> bool {
        let class = self.fabric.host_class[dst.ix()] as u16;
        let ix = self.network.arena.add(Packet { src: src.0, dst: dst.0, class, ..packet });
        let uplink = self.fabric.uplink[src.ix()];
        let mut hop = if uplink == NIL { self.fabric.route(&mut self.network, src.0, ix) } else { Hop::Link(uplink) };
        let mut has_arrived = false;
        for _ in 0..HOPS_MAX {
            let Hop::Link(link) = hop else { break };
            self.links.push((link, weight));
            let node = self.network.ports[link as usize].to;
            if node != dst.0 {
                hop = self.fabric.route(&mut self.network, node, ix);
                continue;
            }
            let leaves = self.fabric.edges.is_used() && self.fabric.uplink[node as usize] == NIL;
            match if leaves { self.fabric.leave(&mut self.network, node, ix) } else { None } {
                Some(onward) => hop = onward,
                None => {
                    has_arrived = true;
                    break;
                }
            }
        }
        self.network.arena.remove(ix);
        has_arrived
    }

    /// Returns the round-trip time of a full packet and its acknowledgement over the links found
    /// last, without queueing; of a division over one of its paths.
    pub(super) fn round_trip(&self, id: u32) -> u64 {
        let (topology, transport) = (self.scenario.topology, &self.scenario.config.transport);
        let links: Vec<LinkIx> = if self.splitter.is_some() {
            let flow = &self.scenario.flows.flows[id as usize];
            let routes = &self.fabric.intact_routes;
            let from = routes.class_node(routes.class_of(flow.src));
            let first = routes.last_link(flow.src).map(LinkIx::reverse);
            let between = routes.path(topology, from, routes.class_of(flow.dst), 0);
            first.into_iter().chain(between).chain(routes.last_link(flow.dst)).collect()
        } else {
            self.links.iter().filter(|(_, weight)| *weight > 0.0).map(|(link, _)| LinkIx(*link)).collect()
        };
        round_trip(topology, &links, transport)
    }

    /// Applies what routing has detected by now. Returns whether paths may have changed.
    pub(super) fn reroute(&mut self, faults: &mut Faults, now: u64) -> bool {
        let topology: &Topology = self.scenario.topology;
        let actions = faults.due(topology, &self.fabric.numbering, now);
        if !actions.contains(&crate::links::faults::Action::Reroute) {
            return false;
        }
        let (known, alive) = faults.known(topology, now);
        match &mut self.splitter {
            Some(splitter) => splitter.use_routes(Routes::new(&known, &alive)),
            None => {
                let tables = self.fabric.compile_for(&known, &alive);
                self.fabric.reroute(&tables, &known, &alive);
            }
        }
        true
    }
}
