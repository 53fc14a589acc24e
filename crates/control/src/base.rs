//! How traffic goes that nothing else is said about: from table of next hops to rules, without transient loops.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use balance::central::{HopTable, NextHop};
use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Time};
use openflow::PortNo;

use crate::compile::{Compiler, base_key};
use crate::fabric::Fabric;
use crate::moves::Moves;
use crate::network::Network;
use crate::stage::{self, Graph};
use crate::unsure::{self, Hops};

/// How long a stage waits for a switch that does not confirm. Then the others go on without it: a loop that may come
/// about is less bad than a network that cannot be repaired because one switch stalls.
pub(crate) const PATIENCE: Time = Time::from_ms(1000);

/// A switch and a destination switch.
type Slot = (NodeIx, NodeIx);

/// The base as it is being installed.
#[derive(Debug, Default)]
pub(crate) struct Base {
    /// Next hops as they are wanted now.
    hops: BTreeMap<Slot, Arc<[NextHop]>>,
    /// Next hops replaced by those, but perhaps still in effect.
    fading: Vec<(Slot, u64, Arc<[NextHop]>)>,
    target: Arc<HopTable>,
    /// What the balancer wants; the target differs where switches are unsure.
    wanted: Arc<HopTable>,
    unsure: BTreeSet<NodeIx>,
    is_stale: bool,
    stages: VecDeque<Vec<Slot>>,
    /// Confirmations the next stage waits for; before the first stage, those the second one will.
    waiting: Vec<(NodeIx, u64)>,
    deadline: Option<Time>,
    /// Hosts there are rules for.
    hosts: BTreeMap<HostIx, Place>,
    by_edge: BTreeMap<NodeIx, BTreeSet<Ipv4Addr>>,
    pub(crate) moves: Moves,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    edge: NodeIx,
    address: Ipv4Addr,
    port: PortNo,
}

impl Base {
    /// Whether every stage is done.
    pub(crate) fn is_settled(&self) -> bool {
        self.stages.is_empty() && self.moves.is_empty()
    }
    /// When [`Base::advance`] should be called, besides after confirmations.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let stage = self.deadline.filter(|_| !self.stages.is_empty());
        stage.into_iter().chain(self.moves.poll_timeout()).min()
    }
    /// Addresses at a switch that packets may be sent to.
    pub(crate) fn addresses_at(&self, edge: NodeIx) -> impl Iterator<Item = Ipv4Addr> {
        self.by_edge.get(&edge).into_iter().flatten().copied()
    }
    /// Next hops towards a switch that may be in effect now, as a graph.
    pub(crate) fn graph(&self, network: &Network, to: NodeIx) -> Graph {
        let effective = self.hops.iter().chain(self.fading.iter().map(|(slot, _, hops)| (slot, hops)));
        graphs(network, effective.filter(|((_, dst), _)| *dst == to)).remove(&to).unwrap_or_default()
    }

    /// Hosts came or went. Answers the addresses that have left a switch: [`Moves`] are to be begun for them.
    pub(crate) fn set_hosts(&mut self, compiler: Compiler, network: &Network, fabric: &mut Fabric) -> Vec<Ipv4Addr> {
        let place = |(host, facts): (HostIx, &crate::network::HostFacts)| {
            (host, Place { edge: facts.edge, address: facts.known.ipv4, port: facts.known.port })
        };
        let wanted: BTreeMap<HostIx, Place> = network.current_hosts().map(place).collect();
        let gone: Vec<HostIx> = self.hosts.keys().filter(|host| !wanted.contains_key(host)).copied().collect();
        let gone: Vec<Ipv4Addr> =
            gone.into_iter().filter_map(|host| self.remove_host(compiler, host, fabric)).collect();
        for address in &gone {
            self.moves.begin(*address);
        }
        let is_here = |address: &Ipv4Addr| wanted.values().any(|place| place.address == *address);
        self.moves.forget_places(is_here);
        for (host, place) in wanted {
            if !self.hosts.contains_key(&host) && !self.moves.set_then(place.address, Some((host, place))) {
                self.add_host(compiler, host, place, network, fabric);
            }
        }
        gone
    }

    fn remove_host(&mut self, compiler: Compiler, host: HostIx, fabric: &mut Fabric) -> Option<Ipv4Addr> {
        let place = self.hosts.remove(&host)?;
        if let Some(addresses) = self.by_edge.get_mut(&place.edge) {
            addresses.remove(&place.address);
        }
        for (key, _) in compiler.last_hop(place.address, place.port) {
            fabric.set((place.edge, key, None));
        }
        for (node, _) in self.hops.keys().filter(|(_, to)| *to == place.edge) {
            fabric.set((*node, base_key(place.address), None));
        }
        Some(place.address)
    }

    fn add_host(&mut self, compiler: Compiler, host: HostIx, place: Place, network: &Network, fabric: &mut Fabric) {
        self.hosts.insert(host, place);
        self.is_stale = true;
        self.by_edge.entry(place.edge).or_default().insert(place.address);
        for (key, wanted) in compiler.last_hop(place.address, place.port) {
            fabric.set((place.edge, key, Some(wanted)));
        }
        for ((node, _), hops) in self.hops.iter().filter(|((_, to), _)| *to == place.edge) {
            let entry = compiler.base(place.address, &ports(network, hops));
            fabric.set((*node, base_key(place.address), entry.map(|(_, wanted)| wanted)));
        }
    }

    /// The balancer wants this now.
    pub(crate) fn set_wanted(&mut self, wanted: &Arc<HopTable>) {
        self.wanted = wanted.clone();
        self.is_stale = true;
    }

    /// Leads round switches that are not known to have the rules wanted, once they are others than before.
    pub(crate) fn follow_unsure(&mut self, network: &Network, fabric: &Fabric) {
        let unsure = fabric.unsure();
        if !std::mem::take(&mut self.is_stale) && unsure == self.unsure {
            return;
        }
        self.unsure = unsure;
        let mut target = self.wanted.clone();
        for (to, addresses) in self.by_edge.iter().filter(|(_, addresses)| !addresses.is_empty()) {
            let old = self.old_hops(addresses, network, fabric);
            if old.is_empty() {
                continue;
            }
            let towards = |((node, dst), hops): (&Slot, &Arc<[NextHop]>)| (dst == to).then(|| (*node, hops.clone()));
            let hops: Hops = self.wanted.0.iter().filter_map(towards).collect();
            if let Some(hops) = unsure::avoid(&hops, &old, *to, network) {
                let table = Arc::make_mut(&mut target);
                table.0.retain(|(_, dst), _| dst != to);
                table.0.extend(hops.into_iter().map(|(node, hops)| ((node, *to), hops)));
            }
        }
        if target.0 != self.target.0 {
            self.set_target(&target, network, fabric);
        }
    }

    /// Where unsure switches may send packets to these addresses.
    fn old_hops(&self, addresses: &BTreeSet<Ipv4Addr>, network: &Network, fabric: &Fabric) -> Graph {
        let mut old = Graph::new();
        for node in &self.unsure {
            let Some(switch) = fabric.switches.get(node) else { continue };
            let keys = addresses.iter().map(|address| base_key(*address));
            let beyond = keys.flat_map(|key| switch.ports_of(&key).collect::<Vec<_>>());
            let beyond: BTreeSet<NodeIx> = beyond.flat_map(|port| network.beyond(*node, port)).collect();
            if !beyond.is_empty() {
                old.insert(*node, beyond);
            }
        }
        old
    }

    /// Next hops are to be these now. A change under way is left where it is: the new one starts from there.
    fn set_target(&mut self, target: &Arc<HopTable>, network: &Network, fabric: &Fabric) {
        self.target = target.clone();
        self.stages.clear();
        self.waiting.clear();
        self.deadline = None;
        self.fading.retain(|((node, _), ticket, _)| !fabric.is_confirmed(*node, *ticket));
        let mut changed: BTreeMap<NodeIx, BTreeSet<NodeIx>> = BTreeMap::new();
        for (node, to) in self.hops.keys().chain(target.0.keys()) {
            if node != to && self.hops.get(&(*node, *to)) != target.0.get(&(*node, *to)) {
                changed.entry(*to).or_default().insert(*node);
            }
        }
        // One walk over all next hops, not one per destination.
        let is_changed = |slot: &Slot| changed.contains_key(&slot.1);
        let effective = self.hops.iter().chain(self.fading.iter().map(|(slot, _, hops)| (slot, hops)));
        let old = graphs(network, effective.filter(|(slot, _)| is_changed(slot)));
        let new = graphs(network, target.0.iter().filter(|(slot, _)| is_changed(slot) && slot.0 != slot.1));
        let none = Graph::new();
        for (to, nodes) in &changed {
            let (old, new) = (old.get(to).unwrap_or(&none), new.get(to).unwrap_or(&none));
            // Changes under way are not done: what must not mix with them waits for a stage of its own.
            let is_at_once = stage::is_at_once(nodes, old, new, *to);
            let under_way = self.fading.iter().filter(|((_, dst), _, _)| dst == to && !is_at_once);
            let before = self.waiting.len();
            self.waiting.extend(under_way.map(|((node, _), ticket, _)| (*node, *ticket)));
            let first = usize::from(self.waiting.len() > before);
            let groups = if is_at_once { vec![nodes.clone()] } else { stage::by_depth(nodes, new) };
            for (stage, group) in groups.into_iter().enumerate() {
                if self.stages.len() <= stage + first {
                    self.stages.resize(stage + first + 1, Vec::new());
                }
                self.stages[stage + first].extend(group.into_iter().map(|node| (node, *to)));
            }
        }
    }

    /// Hosts whose old rules are gone everywhere get new ones; the switches they are at.
    pub(crate) fn arrive(
        &mut self,
        now: Time,
        compiler: Compiler,
        network: &Network,
        fabric: &mut Fabric,
    ) -> BTreeSet<NodeIx> {
        let mut edges = BTreeSet::new();
        for (host, place) in self.moves.take_done(now, fabric).into_iter().flatten() {
            self.add_host(compiler, host, place, network, fabric);
            edges.insert(place.edge);
        }
        edges
    }

    /// Goes on with the change as far as confirmations allow; whether anything was changed.
    pub(crate) fn advance(&mut self, now: Time, compiler: Compiler, network: &Network, fabric: &mut Fabric) -> bool {
        let mut has_changed = false;
        while !self.stages.is_empty() {
            self.waiting.retain(|(node, ticket)| !fabric.is_confirmed(*node, *ticket));
            // The first stage has no deadline: it waits for nobody.
            let is_first = self.deadline.is_none();
            if !is_first && !self.waiting.is_empty() && self.deadline.is_some_and(|deadline| now < deadline) {
                break;
            }
            let stage = self.stages.pop_front().expect("there is a first stage");
            self.apply(&stage, compiler, network, fabric);
            if !is_first {
                self.waiting.clear();
            }
            let nodes: BTreeSet<NodeIx> = stage.iter().map(|(node, _)| *node).collect();
            self.waiting.extend(nodes.into_iter().map(|node| (node, fabric.ticket(node))));
            self.deadline = Some(now.saturating_add(PATIENCE));
            has_changed = true;
        }
        has_changed
    }

    fn apply(&mut self, stage: &[Slot], compiler: Compiler, network: &Network, fabric: &mut Fabric) {
        for (node, to) in stage {
            let slot = (*node, *to);
            let hops = self.target.0.get(&slot).filter(|hops| !hops.is_empty()).cloned();
            let ports = ports(network, hops.as_deref().unwrap_or_default());
            for address in self.by_edge.get(to).into_iter().flatten() {
                let wanted = compiler.base(*address, &ports).map(|(_, wanted)| wanted);
                fabric.set((*node, base_key(*address), wanted));
            }
            let before = match hops {
                Some(hops) => self.hops.insert(slot, hops),
                None => self.hops.remove(&slot),
            };
            let ticket = fabric.ticket(*node);
            self.fading.extend(before.map(|before| (slot, ticket, before)));
        }
    }
}

/// Next hops by destination, as graphs.
fn graphs<'a>(
    network: &Network,
    hops: impl Iterator<Item = (&'a Slot, &'a Arc<[NextHop]>)>,
) -> BTreeMap<NodeIx, Graph> {
    let mut graphs: BTreeMap<NodeIx, Graph> = BTreeMap::new();
    for ((node, to), hops) in hops {
        let next = graphs.entry(*to).or_default().entry(*node).or_default();
        next.extend(hops.iter().filter_map(|hop| network.far_end(hop.link)));
    }
    graphs
}

/// Ports of next hops with their weights, in the order of ports: equal sets are one group whoever asked for them.
fn ports(network: &Network, hops: &[NextHop]) -> Vec<(PortNo, u16)> {
    let port = |hop: &NextHop| Some((network.port_of(hop.link)?, hop.weight));
    let mut ports: Vec<(PortNo, u16)> = hops.iter().filter_map(port).collect();
    ports.sort_unstable();
    ports
}
