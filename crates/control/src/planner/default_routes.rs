//! Default routes: next hops of all traffic without a split or a pin, from the hop table to rules,
//! without transient loops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use balance::central::{HopTable, NextHop};
use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Time};
use openflow::PortNo;

use crate::observer::Observer;
use crate::observer::network::{HostRecord, Network, PortPeer};
use crate::planner::host_moves::HostMoves;
use crate::planner::staged_update::{Slot, StagedUpdate};
use crate::planner::unconfirmed::{self, Hops};
use crate::planner::update_order::{self, Graph};
use crate::updater::Updater;
use crate::updater::compile::{default_route_key, last_hop_key};

/// Longest pause between stages of improvements. Queues of slow networks may take longer to drain,
/// but bad default routes for minutes are worse than a retransmitted packet.
const PAUSE_MAX: Time = Time::from_ms(500);

/// Node that represents unknown switches in graphs of next hops.
const SOMEWHERE: NodeIx = NodeIx(u32::MAX);

#[derive(Debug, Default)]
pub(crate) struct DefaultRoutes {
    hops: BTreeMap<Slot, Arc<[NextHop]>>,
    /// Replaced next hops that may still be in effect, until the switch confirms the ticket.
    replaced: BTreeMap<(NodeIx, u64), Replaced>,
    target: Arc<HopTable>,
    /// Next hops of the balancer; the target differs if switches are unconfirmed.
    wanted: Arc<HopTable>,
    unconfirmed: BTreeSet<NodeIx>,
    /// Additional next hops of unconfirmed switches, by destination.
    old: BTreeMap<NodeIx, Graph>,
    is_stale: bool,
    /// Changes of next hops that are dead or lead nowhere, or that cannot loop.
    repairs: StagedUpdate,
    improvements: StagedUpdate,
    /// Whether other changes follow the repairs.
    has_more: bool,
    /// Next hops no longer in effect, with the time until which packets on them may be in flight.
    draining: Vec<(Time, Replaced)>,
    /// Number of switches on the longest path of a packet before the latest change.
    longest_path: u32,
    hosts: BTreeMap<HostIx, HostAttachment>,
    by_edge: BTreeMap<NodeIx, BTreeSet<Ipv4Addr>>,
    pub(crate) moves: HostMoves,
}

type Replaced = Vec<(Slot, Arc<[NextHop]>)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HostAttachment {
    edge: NodeIx,
    address: Ipv4Addr,
    port: PortNo,
}

impl DefaultRoutes {
    pub(crate) fn is_settled(&self) -> bool {
        self.repairs.is_empty() && self.improvements.is_empty() && !self.has_more && self.moves.is_empty()
    }
    /// Returns when [`DefaultRoutes::advance`] must be called, apart from confirmations.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let stages = self.repairs.poll_timeout().into_iter().chain(self.improvements.poll_timeout());
        stages.chain(self.moves.poll_timeout()).min()
    }
    /// Returns the addresses at a switch that packets may be sent to.
    pub(crate) fn addresses_at(&self, edge: NodeIx) -> impl Iterator<Item = Ipv4Addr> {
        self.by_edge.get(&edge).into_iter().flatten().copied()
    }
    /// Returns the next hops towards a switch that may be in effect now, or that packets in flight
    /// may use, as a graph.
    pub(crate) fn graph(&self, network: &Network, to: NodeIx) -> Graph {
        let draining = self.draining.iter().flat_map(|(_, replaced)| replaced).map(|(slot, hops)| (slot, hops));
        let hops = self.effective().chain(draining);
        let mut graph = graphs(network, hops.filter(|((_, dst), _)| *dst == to)).remove(&to).unwrap_or_default();
        self.add_old(to, &mut graph);
        graph
    }

    fn effective(&self) -> impl Iterator<Item = (&Slot, &Arc<[NextHop]>)> {
        self.hops.iter().chain(self.replaced.values().flatten().map(|(slot, hops)| (slot, hops)))
    }

    /// Adds the next hops of unconfirmed switches to a graph.
    fn add_old(&self, to: NodeIx, graph: &mut Graph) {
        for (node, next) in self.old.get(&to).into_iter().flatten() {
            graph.entry(*node).or_default().extend(next);
        }
    }

    /// Updates the hosts and their ports: a switch rejects rules for ports it does not have.
    /// Returns the addresses that have left a switch; the caller begins [`HostMoves`] for them.
    pub(crate) fn set_hosts(&mut self, observer: &Observer, updater: &mut Updater) -> Vec<Ipv4Addr> {
        let network = &observer.network;
        let place = |(host, facts): (HostIx, &HostRecord)| {
            (host, HostAttachment { edge: facts.edge, address: facts.known.ipv4, port: facts.known.port })
        };
        let has_port = |(_, facts): &(HostIx, &HostRecord)| observer.may_port_exist(facts.known.end());
        let wanted: BTreeMap<HostIx, HostAttachment> = network.current_hosts().filter(has_port).map(place).collect();
        let is_gone = |(host, place): &(&HostIx, &HostAttachment)| wanted.get(host) != Some(*place);
        let gone: Vec<HostIx> = self.hosts.iter().filter(is_gone).map(|(host, _)| *host).collect();
        let gone: Vec<Ipv4Addr> = gone.into_iter().filter_map(|host| self.remove_host(host, updater)).collect();
        for address in &gone {
            self.moves.begin(*address);
        }
        let is_here = |address: &Ipv4Addr| wanted.values().any(|place| place.address == *address);
        self.moves.clear_new_attachments(is_here);
        for (host, place) in wanted {
            if !self.hosts.contains_key(&host) && !self.moves.set_new_attachment(place.address, Some((host, place))) {
                self.add_host(host, place, network, updater);
            }
        }
        gone
    }

    fn remove_host(&mut self, host: HostIx, updater: &mut Updater) -> Option<Ipv4Addr> {
        let place = self.hosts.remove(&host)?;
        if let Some(addresses) = self.by_edge.get_mut(&place.edge) {
            addresses.remove(&place.address);
        }
        for (key, _) in updater.compiler.last_hop(place.address, place.port) {
            updater.set((place.edge, key, None));
        }
        for (node, _) in self.hops.keys().filter(|(_, to)| *to == place.edge) {
            updater.set((*node, default_route_key(place.address), None));
        }
        Some(place.address)
    }

    fn add_host(&mut self, host: HostIx, place: HostAttachment, network: &Network, updater: &mut Updater) {
        self.hosts.insert(host, place);
        self.is_stale = true;
        self.by_edge.entry(place.edge).or_default().insert(place.address);
        for (key, wanted) in updater.compiler.last_hop(place.address, place.port) {
            updater.set((place.edge, key, Some(wanted)));
        }
        for ((node, _), hops) in self.hops.iter().filter(|((_, to), _)| *to == place.edge) {
            let entry = updater.compiler.default_route(place.address, &ports(network, hops));
            updater.set((*node, default_route_key(place.address), entry.map(|(_, wanted)| wanted)));
        }
    }

    pub(crate) fn network_changed(&mut self) {
        self.is_stale = true;
    }
    pub(crate) fn set_wanted(&mut self, wanted: &Arc<HopTable>) {
        self.wanted = wanted.clone();
        self.is_stale = true;
    }

    /// Returns whether rules other than the desired ones may be in effect at a switch.
    pub(crate) fn is_unconfirmed(&self, node: NodeIx) -> bool {
        self.unconfirmed.contains(&node)
    }

    /// Returns whether rules from one switch to a host at `edge` are known to be installed on every
    /// path.
    pub(crate) fn leads(
        &self,
        from: NodeIx,
        address: Ipv4Addr,
        edge: NodeIx,
        network: &Network,
        updater: &Updater,
    ) -> bool {
        // Waiting does not help with a rejected rule.
        let is_there = |node: NodeIx, key| {
            let switch = updater.switches.get(&node);
            switch.is_some_and(|switch| !switch.may_lack(&key) || switch.refused.contains(&key))
        };
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = open.pop() {
            if node == edge {
                if !is_there(node, last_hop_key(address)) {
                    return false;
                }
                continue;
            }
            let Some(hops) = self.hops.get(&(node, edge)).filter(|_| is_there(node, default_route_key(address))) else {
                return false;
            };
            open.extend(hops.iter().filter_map(|hop| network.far_end(hop.link)).filter(|next| seen.insert(*next)));
        }
        true
    }

    /// Computes next hops that avoid unconfirmed switches. Returns whether they have changed.
    pub(crate) fn update_unconfirmed(
        &mut self,
        now: Time,
        network: &Network,
        updater: &Updater,
        with_unknown_ports: impl Fn() -> BTreeSet<NodeIx>,
    ) -> bool {
        let unconfirmed = updater.unconfirmed(now);
        let are_others = unconfirmed != self.unconfirmed;
        if std::mem::take(&mut self.is_stale) || are_others {
            self.unconfirmed = unconfirmed;
            self.route_around_unconfirmed(now, network, updater, with_unknown_ports);
        }
        are_others
    }

    fn route_around_unconfirmed(
        &mut self,
        now: Time,
        network: &Network,
        updater: &Updater,
        with_unknown_ports: impl Fn() -> BTreeSet<NodeIx>,
    ) {
        self.old = if self.unconfirmed.is_empty() {
            BTreeMap::new()
        } else {
            self.old_hops(network, updater, &with_unknown_ports())
        };
        let mut target = self.wanted.clone();
        let mut wanted: BTreeMap<NodeIx, Hops> = BTreeMap::new();
        for ((node, to), hops) in self.wanted.0.iter().filter(|_| !self.unconfirmed.is_empty()) {
            wanted.entry(*to).or_default().insert(*node, hops.clone());
        }
        let destinations =
            self.by_edge.iter().filter(|(_, addresses)| !addresses.is_empty() && !self.unconfirmed.is_empty());
        for (to, addresses) in destinations {
            let (none, no_hops, blocked) = (Graph::new(), Hops::new(), self.blocked(*to, addresses, updater));
            let old = self.old.get(to).unwrap_or(&none);
            if old.is_empty() && blocked.is_empty() {
                continue;
            }
            let hops = wanted.get(to).unwrap_or(&no_hops);
            if let Some(hops) = unconfirmed::avoid(hops, old, &blocked, *to, network) {
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
            self.set_target(now, &target, network, updater);
        }
    }

    /// Returns the unconfirmed switches that may have no rule for one of these addresses.
    fn blocked(&self, to: NodeIx, addresses: &BTreeSet<Ipv4Addr>, updater: &Updater) -> BTreeSet<NodeIx> {
        let may_lack = |node: &&NodeIx| {
            let switch = updater.switches.get(*node).filter(|_| **node != to);
            switch.is_some_and(|switch| addresses.iter().any(|address| switch.may_lack(&default_route_key(*address))))
        };
        self.unconfirmed.iter().filter(may_lack).copied().collect()
    }

    /// Returns the next hops of unconfirmed switches, by destination. A port with an unknown peer
    /// may lead to disconnected switches, and packets may return from them through any other such
    /// port: at `strangers`.
    fn old_hops(
        &self,
        network: &Network,
        updater: &Updater,
        with_unknown_ports: &BTreeSet<NodeIx>,
    ) -> BTreeMap<NodeIx, Graph> {
        let mut edges: BTreeMap<Ipv4Addr, NodeIx> = BTreeMap::new();
        for (edge, addresses) in &self.by_edge {
            edges.extend(addresses.iter().map(|address| (*address, *edge)));
        }
        let mut old: BTreeMap<NodeIx, Graph> = BTreeMap::new();
        let mut is_anywhere = BTreeSet::new();
        for node in &self.unconfirmed {
            let Some(switch) = updater.switches.get(node) else { continue };
            let mut ports: BTreeMap<PortNo, PortPeer> = BTreeMap::new();
            for (address, port) in switch.egress_ports() {
                let Some(to) = edges.get(&address) else { continue };
                let next = old.entry(*to).or_default().entry(*node).or_default();
                match ports.entry(port).or_insert_with(|| network.beyond(*node, port)) {
                    PortPeer::Host => {}
                    PortPeer::Switches(nodes) => next.extend(&*nodes),
                    PortPeer::Unknown => {
                        next.insert(SOMEWHERE);
                        is_anywhere.insert(*to);
                    }
                }
            }
        }
        for to in is_anywhere {
            old.entry(to).or_default().insert(SOMEWHERE, with_unknown_ports.clone());
        }
        old.retain(|_, graph| graph.values().any(|next| !next.is_empty()));
        old
    }

    /// Sets the target next hops. A change in progress stops where it is, and the new one starts
    /// from there.
    fn set_target(&mut self, now: Time, target: &Arc<HopTable>, network: &Network, updater: &Updater) {
        self.target = target.clone();
        (self.repairs, self.improvements) = (StagedUpdate::default(), StagedUpdate::default());
        self.has_more = false;
        self.retire_replaced(now, network, updater);
        self.longest_path = 0;
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
            // Unconfirmed switches do not change: their possible next hops are part of both graphs.
            let (old, new) = (old.entry(*to).or_default(), new.entry(*to).or_default());
            self.add_old(*to, old);
            self.add_old(*to, new);
            if update_order::is_at_once(nodes, old, new, *to) {
                self.repairs.put(0, nodes.iter().map(|node| (*node, *to)));
                continue;
            }
            let longest_path = update_order::depths(old).map(longest);
            // Switches that need a repair may change while the others stay; the others follow
            // later.
            let (urgent, others): (BTreeSet<NodeIx>, BTreeSet<NodeIx>) =
                nodes.iter().copied().partition(|node| !self.is_working((*node, *to), network));
            if longest_path.is_some() && !urgent.is_empty() && !others.is_empty() {
                let mut joined = old.clone();
                joined.extend(urgent.iter().map(|node| (*node, new.get(node).cloned().unwrap_or_default())));
                if update_order::is_at_once(&urgent, old, &joined, *to) {
                    self.repairs.put(0, urgent.into_iter().map(|node| (node, *to)));
                    self.has_more = true;
                    continue;
                }
            }
            let is_improvement = longest_path.is_some() && urgent.is_empty() && !broken.contains(to);
            // A switch that only stops using some next hops makes no new cycle, and may end one.
            let (narrower, wider): (BTreeSet<NodeIx>, BTreeSet<NodeIx>) =
                nodes.iter().copied().partition(|node| !is_improvement && self.is_narrower((*node, *to)));
            let sequence = if is_improvement { &mut self.improvements } else { &mut self.repairs };
            // Changes in progress are not done, and this one must not mix with them.
            let is_of = |replaced: &Replaced| replaced.iter().any(|((_, dst), _)| dst == to);
            let under_way = self.replaced.iter().filter(|(_, replaced)| is_of(replaced));
            let is_waiting = sequence.wait_for(under_way.map(|(at, _)| *at));
            let first = usize::from(!is_improvement && (is_waiting || !narrower.is_empty()));
            sequence.put(0, narrower.into_iter().map(|node| (node, *to)));
            self.longest_path = self.longest_path.max(longest_path.unwrap_or(old.len() as u32));
            sequence
                .drain(network.drain_time_of(self.longest_path).min(PAUSE_MAX), is_waiting || draining.contains(to));
            for (stage, group) in update_order::by_depth(&wider, new).into_iter().enumerate() {
                sequence.put(stage + first, group.into_iter().map(|node| (node, *to)));
            }
        }
    }

    /// Returns whether a next hop died that an improvement should replace: the improvement is now a
    /// repair.
    fn is_improvement_broken(&self, network: &Network) -> bool {
        if self.improvements.is_empty() {
            return false;
        }
        let broken = self.broken(network);
        self.improvements.slots().any(|(_, to)| broken.contains(&to))
    }

    /// Returns whether the target of a switch is a subset of its next hops.
    fn is_narrower(&self, slot: Slot) -> bool {
        let before = self.hops.get(&slot).map(|hops| &hops[..]).unwrap_or_default();
        let after = self.target.0.get(&slot).map(|hops| &hops[..]).unwrap_or_default();
        after.iter().all(|hop| before.iter().any(|other| other.link == hop.link))
    }

    /// Returns the destinations towards which some next hop in effect is dead, or leads to a switch
    /// without next hops.
    fn broken(&self, network: &Network) -> BTreeSet<NodeIx> {
        self.hops.keys().filter(|slot| !self.is_working(**slot, network)).map(|(_, to)| *to).collect()
    }
    /// Returns whether a switch has next hops, all alive and to switches that have some.
    fn is_working(&self, slot: Slot, network: &Network) -> bool {
        let leads_on = |hop: &NextHop| {
            let next = network.far_end(hop.link).filter(|_| network.is_alive(hop.link));
            next.is_some_and(|next| next == slot.1 || self.hops.contains_key(&(next, slot.1)))
        };
        self.hops.get(&slot).is_some_and(|hops| hops.iter().all(leads_on))
    }

    /// Installs rules for hosts whose old rules are gone everywhere. Returns the switches of these
    /// hosts.
    pub(crate) fn arrive(&mut self, now: Time, network: &Network, updater: &mut Updater) -> BTreeSet<NodeIx> {
        let mut edges = BTreeSet::new();
        for (host, place) in self.moves.take_done(now, updater).into_iter().flatten() {
            self.add_host(host, place, network, updater);
            edges.insert(place.edge);
        }
        edges
    }

    /// Retires replaced next hops. They are in effect until that is confirmed, and count for as
    /// long again as packets on them may be in flight. Later decisions need not consider them.
    fn retire_replaced(&mut self, now: Time, network: &Network, updater: &Updater) {
        self.draining.retain(|(until, _)| now < *until);
        let confirmed = self.replaced.extract_if(.., |(node, ticket), _| updater.is_confirmed(*node, *ticket));
        let confirmed: Replaced = confirmed.flat_map(|(_, replaced)| replaced).collect();
        if !confirmed.is_empty() {
            let drain = network.drain_time_of(self.longest_path).min(PAUSE_MAX);
            self.draining.push((now.saturating_add(drain), confirmed));
        }
    }

    /// Continues the change as far as confirmations allow.
    pub(crate) fn advance(&mut self, now: Time, network: &Network, updater: &mut Updater) {
        self.retire_replaced(now, network, updater);
        while let Some(stage) = self.repairs.next_repair(now, updater) {
            self.apply(&stage, network, updater);
            self.repairs.stage_sent(&stage, updater);
        }
        if self.has_more && self.repairs.is_over(updater) {
            let target = self.target.clone();
            self.set_target(now, &target, network, updater);
            return self.advance(now, network, updater);
        }
        while let Some(stage) = self.improvements.next_improvement(now, updater) {
            self.apply(&stage, network, updater);
            self.improvements.stage_sent(&stage, updater);
        }
    }

    fn apply(&mut self, stage: &[Slot], network: &Network, updater: &mut Updater) {
        for (node, to) in stage {
            let slot = (*node, *to);
            let hops = self.target.0.get(&slot).filter(|hops| !hops.is_empty()).cloned();
            let ports = ports(network, hops.as_deref().unwrap_or_default());
            for address in self.by_edge.get(to).into_iter().flatten() {
                let wanted = updater.compiler.default_route(*address, &ports).map(|(_, wanted)| wanted);
                updater.set((*node, default_route_key(*address), wanted));
            }
            let before = match hops {
                Some(hops) => self.hops.insert(slot, hops),
                None => self.hops.remove(&slot),
            };
            let ticket = updater.ticket(*node);
            if let Some(before) = before {
                self.replaced.entry((*node, ticket)).or_default().push((slot, before));
            }
        }
    }
}

fn longest(depths: BTreeMap<NodeIx, u32>) -> u32 {
    depths.into_values().max().unwrap_or(0)
}

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

/// Returns the ports of next hops with their weights, ordered by port: equal sets share one group.
fn ports(network: &Network, hops: &[NextHop]) -> Vec<(PortNo, u16)> {
    let port = |hop: &NextHop| Some((network.port_of(hop.link)?, hop.weight));
    let mut ports: Vec<(PortNo, u16)> = hops.iter().filter_map(port).collect();
    ports.sort_unstable();
    ports
}
