//! How traffic goes that nothing else is said about: from table of next hops to rules, without transient loops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use balance::central::{HopTable, NextHop};
use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Time};
use openflow::PortNo;

use crate::compile::{Compiler, base_key, last_hop_key};
use crate::fabric::Fabric;
use crate::moves::Moves;
use crate::network::{Beyond, Network};
use crate::ports::Ports;
use crate::sequence::{Sequence, Slot};
use crate::stage::{self, Graph};
use crate::unsure::{self, Hops};

/// How long improvements wait between stages at most. Queues of slow networks may take longer to drain, but a base that
/// spreads traffic badly for minutes is worse than a packet that has to be sent again.
const PAUSE_MAX: Time = Time::from_ms(500);

/// Stands for switches that are not known, in graphs of next hops.
const SOMEWHERE: NodeIx = NodeIx(u32::MAX);

/// The base as it is being installed.
#[derive(Debug, Default)]
pub(crate) struct Base {
    /// Next hops as they are wanted now.
    hops: BTreeMap<Slot, Arc<[NextHop]>>,
    /// Next hops replaced by those, but perhaps still in effect: until the switch confirms the ticket.
    fading: BTreeMap<(NodeIx, u64), Replaced>,
    target: Arc<HopTable>,
    /// What the balancer wants; the target differs where switches are unsure.
    wanted: Arc<HopTable>,
    unsure: BTreeSet<NodeIx>,
    /// Where these may send packets besides, by destination.
    old: BTreeMap<NodeIx, Graph>,
    is_stale: bool,
    /// Where a next hop in effect is dead or leads nowhere, or nothing could loop.
    repairs: Sequence,
    improvements: Sequence,
    /// Whether others are to change when the repairs are done.
    has_more: bool,
    /// Next hops that are in effect no longer, but by which packets may be under way until then.
    draining: Vec<(Time, Replaced)>,
    /// Switches on the longest way a packet may have had before the latest change.
    longest_way: u32,
    /// Hosts there are rules for.
    hosts: BTreeMap<HostIx, Place>,
    by_edge: BTreeMap<NodeIx, BTreeSet<Ipv4Addr>>,
    pub(crate) moves: Moves,
}

/// Next hops that were.
type Replaced = Vec<(Slot, Arc<[NextHop]>)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    edge: NodeIx,
    address: Ipv4Addr,
    port: PortNo,
}

impl Base {
    /// Whether every stage is done.
    pub(crate) fn is_settled(&self) -> bool {
        self.repairs.is_empty() && self.improvements.is_empty() && !self.has_more && self.moves.is_empty()
    }
    /// When [`Base::advance`] should be called, besides after confirmations.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let stages = self.repairs.poll_timeout().into_iter().chain(self.improvements.poll_timeout());
        stages.chain(self.moves.poll_timeout()).min()
    }
    /// Addresses at a switch that packets may be sent to.
    pub(crate) fn addresses_at(&self, edge: NodeIx) -> impl Iterator<Item = Ipv4Addr> {
        self.by_edge.get(&edge).into_iter().flatten().copied()
    }
    /// Next hops towards a switch that may be in effect now, or by which packets may be under way, as a graph.
    pub(crate) fn graph(&self, network: &Network, to: NodeIx) -> Graph {
        let draining = self.draining.iter().flat_map(|(_, replaced)| replaced).map(|(slot, hops)| (slot, hops));
        let hops = self.effective().chain(draining);
        let mut graph = graphs(network, hops.filter(|((_, dst), _)| *dst == to)).remove(&to).unwrap_or_default();
        self.add_old(to, &mut graph);
        graph
    }

    /// Next hops that may be in effect.
    fn effective(&self) -> impl Iterator<Item = (&Slot, &Arc<[NextHop]>)> {
        self.hops.iter().chain(self.fading.values().flatten().map(|(slot, hops)| (slot, hops)))
    }

    /// Adds where unsure switches may send packets.
    fn add_old(&self, to: NodeIx, graph: &mut Graph) {
        for (node, next) in self.old.get(&to).into_iter().flatten() {
            graph.entry(*node).or_default().extend(next);
        }
    }

    /// Hosts or their ports came or went: a switch would refuse rules for ports it does not have. Answers the addresses
    /// that have left a switch: [`Moves`] are to be begun for them.
    pub(crate) fn set_hosts(
        &mut self,
        compiler: Compiler,
        network: &Network,
        ports: &Ports,
        fabric: &mut Fabric,
    ) -> Vec<Ipv4Addr> {
        let place = |(host, facts): (HostIx, &crate::network::HostFacts)| {
            (host, Place { edge: facts.edge, address: facts.known.ipv4, port: facts.known.port })
        };
        let has_port = |(_, facts): &(HostIx, &crate::network::HostFacts)| {
            ports.may_exist((facts.known.datapath, facts.known.port))
        };
        let wanted: BTreeMap<HostIx, Place> = network.current_hosts().filter(has_port).map(place).collect();
        let is_gone = |(host, place): &(&HostIx, &Place)| wanted.get(host) != Some(*place);
        let gone: Vec<HostIx> = self.hosts.iter().filter(is_gone).map(|(host, _)| *host).collect();
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

    /// Links came or went.
    pub(crate) fn network_changed(&mut self) {
        self.is_stale = true;
    }
    /// The balancer wants this now.
    pub(crate) fn set_wanted(&mut self, wanted: &Arc<HopTable>) {
        self.wanted = wanted.clone();
        self.is_stale = true;
    }

    /// Whether rules may decide at a switch that are not those wanted.
    pub(crate) fn is_unsure(&self, node: NodeIx) -> bool {
        self.unsure.contains(&node)
    }

    /// Whether rules that lead from one switch to a host at `edge` are known to be there, on every way.
    pub(crate) fn leads(
        &self,
        from: NodeIx,
        address: Ipv4Addr,
        edge: NodeIx,
        network: &Network,
        fabric: &Fabric,
    ) -> bool {
        // What a switch refuses it will not have for waiting.
        let is_there = |node: NodeIx, key| {
            let switch = fabric.switches.get(&node);
            switch.is_some_and(|switch| !switch.may_lack(&key) || switch.has_refused(&key))
        };
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = open.pop() {
            if node == edge {
                if !is_there(node, last_hop_key(address)) {
                    return false;
                }
                continue;
            }
            let Some(hops) = self.hops.get(&(node, edge)).filter(|_| is_there(node, base_key(address))) else {
                return false;
            };
            open.extend(hops.iter().filter_map(|hop| network.far_end(hop.link)).filter(|next| seen.insert(*next)));
        }
        true
    }

    /// Leads round switches that are not known to have the rules wanted; whether they are others than before.
    pub(crate) fn follow_unsure(
        &mut self,
        now: Time,
        network: &Network,
        fabric: &Fabric,
        strangers: impl Fn() -> BTreeSet<NodeIx>,
    ) -> bool {
        let unsure = fabric.unsure(now);
        let are_others = unsure != self.unsure;
        if std::mem::take(&mut self.is_stale) || are_others {
            self.unsure = unsure;
            self.lead_round(now, network, fabric, strangers);
        }
        are_others
    }

    fn lead_round(&mut self, now: Time, network: &Network, fabric: &Fabric, strangers: impl Fn() -> BTreeSet<NodeIx>) {
        self.old = if self.unsure.is_empty() { BTreeMap::new() } else { self.old_hops(network, fabric, &strangers()) };
        let mut target = self.wanted.clone();
        let mut wanted: BTreeMap<NodeIx, Hops> = BTreeMap::new();
        for ((node, to), hops) in self.wanted.0.iter().filter(|_| !self.unsure.is_empty()) {
            wanted.entry(*to).or_default().insert(*node, hops.clone());
        }
        let destinations =
            self.by_edge.iter().filter(|(_, addresses)| !addresses.is_empty() && !self.unsure.is_empty());
        for (to, addresses) in destinations {
            let (none, no_hops, blocked) = (Graph::new(), Hops::new(), self.blocked(*to, addresses, fabric));
            let old = self.old.get(to).unwrap_or(&none);
            if old.is_empty() && blocked.is_empty() {
                continue;
            }
            let hops = wanted.get(to).unwrap_or(&no_hops);
            if let Some(hops) = unsure::avoid(hops, old, &blocked, *to, network) {
                let table = Arc::make_mut(&mut target);
                wanted
                    .get(to)
                    .into_iter()
                    .flat_map(|hops| hops.keys())
                    .for_each(|node| drop(table.0.remove(&(*node, *to))));
                table.0.extend(hops.into_iter().map(|(node, hops)| ((node, *to), hops)));
            }
        }
        if target.0 != self.target.0 || self.is_improvement_broken(network) {
            self.set_target(now, &target, network, fabric);
        }
    }

    /// Unsure switches that may have no rule for one of these addresses.
    fn blocked(&self, to: NodeIx, addresses: &BTreeSet<Ipv4Addr>, fabric: &Fabric) -> BTreeSet<NodeIx> {
        let may_lack = |node: &&NodeIx| {
            let switch = fabric.switches.get(*node).filter(|_| **node != to);
            switch.is_some_and(|switch| addresses.iter().any(|address| switch.may_lack(&base_key(*address))))
        };
        self.unsure.iter().filter(may_lack).copied().collect()
    }

    /// Where unsure switches may send packets, by destination. Behind a port with nothing known there may be switches that
    /// are not connected, and packets come out of them by any other such port: at `strangers`.
    fn old_hops(&self, network: &Network, fabric: &Fabric, strangers: &BTreeSet<NodeIx>) -> BTreeMap<NodeIx, Graph> {
        let mut edges: BTreeMap<Ipv4Addr, NodeIx> = BTreeMap::new();
        for (edge, addresses) in &self.by_edge {
            edges.extend(addresses.iter().map(|address| (*address, *edge)));
        }
        let mut old: BTreeMap<NodeIx, Graph> = BTreeMap::new();
        let mut is_anywhere = BTreeSet::new();
        for node in &self.unsure {
            let Some(switch) = fabric.switches.get(node) else { continue };
            let mut ports: BTreeMap<PortNo, Beyond> = BTreeMap::new();
            for (address, port) in switch.ways_out() {
                let Some(to) = edges.get(&address) else { continue };
                let next = old.entry(*to).or_default().entry(*node).or_default();
                match ports.entry(port).or_insert_with(|| network.beyond(*node, port)) {
                    Beyond::Host => {}
                    Beyond::Switches(nodes) => next.extend(&*nodes),
                    Beyond::Unknown => {
                        next.insert(SOMEWHERE);
                        is_anywhere.insert(*to);
                    }
                }
            }
        }
        for to in is_anywhere {
            old.entry(to).or_default().insert(SOMEWHERE, strangers.clone());
        }
        old.retain(|_, graph| graph.values().any(|next| !next.is_empty()));
        old
    }

    /// Next hops are to be these now. A change under way is left where it is: the new one starts from there.
    fn set_target(&mut self, now: Time, target: &Arc<HopTable>, network: &Network, fabric: &Fabric) {
        self.target = target.clone();
        (self.repairs, self.improvements) = (Sequence::default(), Sequence::default());
        self.has_more = false;
        self.let_fade(now, network, fabric);
        self.longest_way = 0;
        let mut changed: BTreeMap<NodeIx, BTreeSet<NodeIx>> = BTreeMap::new();
        for (node, to) in self.hops.keys().chain(target.0.keys()) {
            if node != to && self.hops.get(&(*node, *to)) != target.0.get(&(*node, *to)) {
                changed.entry(*to).or_default().insert(*node);
            }
        }
        // One walk over all next hops, not one per destination.
        let is_changed = |slot: &Slot| changed.contains_key(&slot.1);
        let mut old = graphs(network, self.effective().filter(|(slot, _)| is_changed(slot)));
        let mut new = graphs(network, target.0.iter().filter(|(slot, _)| is_changed(slot) && slot.0 != slot.1));
        let broken = self.broken(network);
        let draining: BTreeSet<NodeIx> =
            self.draining.iter().flat_map(|(_, replaced)| replaced).map(|((_, to), _)| *to).collect();
        for (to, nodes) in &changed {
            // Unsure switches do not change: where they may send packets is part of both.
            let (old, new) = (old.entry(*to).or_default(), new.entry(*to).or_default());
            self.add_old(*to, old);
            self.add_old(*to, new);
            if stage::is_at_once(nodes, old, new, *to) {
                self.repairs.put(0, nodes.iter().map(|node| (*node, *to)));
                continue;
            }
            let longest_way = stage::depths(old).map(longest);
            // Those that cannot stay as they are may join the others as these are now, and the others follow later.
            let (urgent, others): (BTreeSet<NodeIx>, BTreeSet<NodeIx>) =
                nodes.iter().copied().partition(|node| !self.is_working((*node, *to), network));
            if longest_way.is_some() && !urgent.is_empty() && !others.is_empty() {
                let mut joined = old.clone();
                joined.extend(urgent.iter().map(|node| (*node, new.get(node).cloned().unwrap_or_default())));
                if stage::is_at_once(&urgent, old, &joined, *to) {
                    self.repairs.put(0, urgent.into_iter().map(|node| (node, *to)));
                    self.has_more = true;
                    continue;
                }
            }
            let is_improvement = longest_way.is_some() && urgent.is_empty() && !broken.contains(to);
            // Whoever only stops using some next hops makes no new cycle, and may end one.
            let (narrower, wider): (BTreeSet<NodeIx>, BTreeSet<NodeIx>) =
                nodes.iter().copied().partition(|node| !is_improvement && self.is_narrower((*node, *to)));
            let sequence = if is_improvement { &mut self.improvements } else { &mut self.repairs };
            // Changes under way are not done, and this must not mix with them.
            let is_of = |replaced: &Replaced| replaced.iter().any(|((_, dst), _)| dst == to);
            let under_way = self.fading.iter().filter(|(_, replaced)| is_of(replaced));
            let is_waiting = sequence.wait_for(under_way.map(|(at, _)| *at));
            let first = usize::from(!is_improvement && (is_waiting || !narrower.is_empty()));
            sequence.put(0, narrower.into_iter().map(|node| (node, *to)));
            self.longest_way = self.longest_way.max(longest_way.unwrap_or(old.len() as u32));
            sequence.drain(network.drain_time_of(self.longest_way).min(PAUSE_MAX), is_waiting || draining.contains(to));
            for (stage, group) in stage::by_depth(&wider, new).into_iter().enumerate() {
                sequence.put(stage + first, group.into_iter().map(|node| (node, *to)));
            }
        }
    }

    /// Whether a next hop died that an improvement was to replace: it is a repair now.
    fn is_improvement_broken(&self, network: &Network) -> bool {
        if self.improvements.is_empty() {
            return false;
        }
        let broken = self.broken(network);
        self.improvements.slots().any(|(_, to)| broken.contains(&to))
    }

    /// Whether next hops are to be fewer, or none, and no others.
    fn is_narrower(&self, slot: Slot) -> bool {
        let before = self.hops.get(&slot).map(|hops| &hops[..]).unwrap_or_default();
        let after = self.target.0.get(&slot).map(|hops| &hops[..]).unwrap_or_default();
        after.iter().all(|hop| before.iter().any(|other| other.link == hop.link))
    }

    /// Destinations towards which some next hop in effect is dead, or leads to a switch without any.
    fn broken(&self, network: &Network) -> BTreeSet<NodeIx> {
        self.hops.keys().filter(|slot| !self.is_working(**slot, network)).map(|(_, to)| *to).collect()
    }
    /// Whether a switch has next hops, all alive and to switches that have some.
    fn is_working(&self, slot: Slot, network: &Network) -> bool {
        let leads_on = |hop: &NextHop| {
            let next = network.far_end(hop.link).filter(|_| network.is_alive(hop.link));
            next.is_some_and(|next| next == slot.1 || self.hops.contains_key(&(next, slot.1)))
        };
        self.hops.get(&slot).is_some_and(|hops| hops.iter().all(leads_on))
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

    /// What was replaced is in effect until that is confirmed, and matters for as long again as packets may be under way by it. Nothing
    /// that is decided later needs to mind it.
    fn let_fade(&mut self, now: Time, network: &Network, fabric: &Fabric) {
        self.draining.retain(|(until, _)| now < *until);
        let confirmed = self.fading.extract_if(.., |(node, ticket), _| fabric.is_confirmed(*node, *ticket));
        let confirmed: Replaced = confirmed.flat_map(|(_, replaced)| replaced).collect();
        if !confirmed.is_empty() {
            let drain = network.drain_time_of(self.longest_way).min(PAUSE_MAX);
            self.draining.push((now.saturating_add(drain), confirmed));
        }
    }

    /// Goes on with the change as far as confirmations allow; whether anything was changed.
    pub(crate) fn advance(&mut self, now: Time, compiler: Compiler, network: &Network, fabric: &mut Fabric) -> bool {
        let mut has_changed = false;
        self.let_fade(now, network, fabric);
        while let Some(stage) = self.repairs.next_repair(now, fabric) {
            self.apply(&stage, compiler, network, fabric);
            self.repairs.made(&stage, fabric);
            has_changed = true;
        }
        if self.has_more && self.repairs.is_over(fabric) {
            let target = self.target.clone();
            self.set_target(now, &target, network, fabric);
            return self.advance(now, compiler, network, fabric) || has_changed;
        }
        while let Some(stage) = self.improvements.next_improvement(now, fabric) {
            self.apply(&stage, compiler, network, fabric);
            self.improvements.made(&stage, fabric);
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
            if let Some(before) = before {
                self.fading.entry((*node, ticket)).or_default().push((slot, before));
            }
        }
    }
}

fn longest(depths: BTreeMap<NodeIx, u32>) -> u32 {
    depths.into_values().max().unwrap_or(0)
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
