//! Default routes: next hops of all traffic without a split or a pin, from the hop table to rules,
//! without transient loops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use balance::central::{HopColumn, HopTable, NextHop};
use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Time};
use openflow::PortNo;

use crate::observer::Observer;
use crate::observer::network::{HostRecord, Network};
use crate::planner::hop_graph::Effective;
use crate::planner::host_moves::HostMoves;
use crate::planner::staged_update::{Slot, StagedUpdate};
use crate::planner::update_order::Graph;
use crate::updater::Updater;
use crate::updater::block::blocks_of;
use crate::updater::compile::{default_route_key, last_hop_key};
use crate::updater::store::{DesiredRule, Installer};

#[derive(Debug, Default)]
pub(crate) struct DefaultRoutes {
    pub(super) hops: HopTable,
    /// Replaced next hops that may still be in effect, until the switch confirms the ticket.
    pub(super) replaced: BTreeMap<(NodeIx, u64), Replaced>,
    pub(super) target: Arc<HopTable>,
    /// Next hops of the balancer; the target differs if switches are unconfirmed.
    pub(super) wanted: Arc<HopTable>,
    pub(super) unconfirmed: BTreeSet<NodeIx>,
    /// Additional next hops of unconfirmed switches, by destination.
    pub(super) old: BTreeMap<NodeIx, Graph>,
    is_stale: bool,
    /// Changes of next hops that are dead or lead nowhere, or that cannot loop.
    pub(super) repairs: StagedUpdate,
    pub(super) improvements: StagedUpdate,
    /// Whether other changes follow the repairs.
    pub(super) has_more: bool,
    /// Next hops no longer in effect, with the time until which packets on them may be in flight.
    pub(super) draining: Vec<(Time, Replaced)>,
    /// Destinations whose next hops in effect are known to have no cycle, those of unconfirmed
    /// switches aside.
    pub(super) acyclic: BTreeSet<NodeIx>,
    /// Number of switches on the longest path of a packet before the latest change.
    pub(super) longest_path: u32,
    hosts: BTreeMap<HostIx, HostAttachment>,
    pub(super) by_edge: BTreeMap<NodeIx, BTreeSet<Ipv4Addr>>,
    pub(crate) moves: HostMoves,
}

pub(super) type Replaced = Vec<(Slot, Arc<[NextHop]>)>;

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
    /// Returns the rule of a switch towards another one, as it is in effect now.
    pub(crate) fn rule_to(
        &self,
        node: NodeIx,
        to: NodeIx,
        network: &Network,
        updater: &Updater,
    ) -> Option<DesiredRule> {
        updater.compiler.default_route(&ports(network, self.hops.get(node, to)?))
    }
    /// Returns the addresses at a switch that packets may be sent to.
    pub(crate) fn addresses_at(&self, edge: NodeIx) -> impl Iterator<Item = Ipv4Addr> {
        self.by_edge.get(&edge).into_iter().flatten().copied()
    }
    /// Returns the replaced next hops towards a switch that may be in effect now, or that packets in
    /// flight may use.
    pub(crate) fn replaced_towards(&self, to: NodeIx) -> Vec<(NodeIx, Arc<[NextHop]>)> {
        let draining = self.draining.iter().flat_map(|(_, replaced)| replaced);
        let replaced = self.replaced.values().flatten().chain(draining).filter(|((_, of), _)| *of == to);
        replaced.map(|((node, _), hops)| (*node, hops.clone())).collect()
    }
    /// Returns all next hops towards a switch that may be in effect now, with those `replaced`.
    pub(crate) fn effective<'a>(
        &'a self,
        network: &'a Network,
        to: NodeIx,
        replaced: &'a [(NodeIx, Arc<[NextHop]>)],
    ) -> Effective<'a> {
        Effective::new(network, self.hops.column(to).map(|column| &**column), replaced, self.old.get(&to))
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
        let gone: Vec<Ipv4Addr> =
            gone.into_iter().filter_map(|host| self.remove_host(host, network, updater)).collect();
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

    fn remove_host(&mut self, host: HostIx, network: &Network, updater: &mut Updater) -> Option<Ipv4Addr> {
        let place = self.hosts.remove(&host)?;
        for (key, _) in updater.compiler.last_hop(place.address, place.port) {
            updater.set((place.edge, key, None));
        }
        self.change_addresses(place.edge, network, updater, |addresses| addresses.remove(&place.address));
        Some(place.address)
    }

    fn add_host(&mut self, host: HostIx, place: HostAttachment, network: &Network, updater: &mut Updater) {
        self.hosts.insert(host, place);
        self.is_stale = true;
        for (key, wanted) in updater.compiler.last_hop(place.address, place.port) {
            updater.set((place.edge, key, Some(wanted)));
        }
        self.change_addresses(place.edge, network, updater, |addresses| addresses.insert(place.address));
    }

    /// Changes the addresses at a switch, and with them the blocks that default routes lead to.
    fn change_addresses(
        &mut self,
        edge: NodeIx,
        network: &Network,
        updater: &mut Updater,
        change: impl FnOnce(&mut BTreeSet<Ipv4Addr>) -> bool,
    ) {
        let addresses = self.by_edge.entry(edge).or_default();
        let before = blocks_of(addresses);
        change(addresses);
        let after = blocks_of(addresses);
        let mut rules = CompiledHops::new(network);
        for (node, hops) in self.hops.column(edge).into_iter().flat_map(|column| column.rows()) {
            for block in before.iter().filter(|block| !after.contains(block)) {
                updater.set((*node, default_route_key(*block), None));
            }
            for block in after.iter().filter(|block| !before.contains(block)) {
                let rule = rules.rule(Some(hops), updater);
                updater.set((*node, default_route_key(*block), rule));
            }
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
        let last_hop = last_hop_key(address);
        let has_last_hop = |switch: &Installer| switch.has_decided(&last_hop);
        // Waiting does not help with a rejected rule.
        let has_route = |switch: &Installer| !switch.may_lack_route(address) || switch.is_route_refused(address);
        let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = open.pop() {
            let switch = updater.switches.get(&node);
            if node == edge {
                if !switch.is_some_and(has_last_hop) {
                    return false;
                }
                continue;
            }
            let Some(hops) = self.hops.get(node, edge).filter(|_| switch.is_some_and(has_route)) else {
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
        let mut rules = CompiledHops::new(network);
        for slots in stage.chunk_by(|(_, to), (_, next)| to == next) {
            self.apply_column(slots[0].1, slots, &mut rules, updater);
        }
    }

    /// Changes the next hops of some switches towards one destination.
    fn apply_column(&mut self, to: NodeIx, slots: &[Slot], rules: &mut CompiledHops<'_>, updater: &mut Updater) {
        let target = self.target.column(to).cloned().unwrap_or_default();
        let before = self.hops.column(to).cloned().unwrap_or_default();
        let mut differences = before.differences(&target).peekable();
        let blocks = self.by_edge.get(&to).map(blocks_of).unwrap_or_default();
        let mut is_whole = true;
        for (node, _) in slots {
            let rule = rules.rule(target.get(*node), updater);
            for block in &blocks {
                updater.set((*node, default_route_key(*block), rule.clone()));
            }
            is_whole &= differences.next().is_some_and(|(other, ..)| other == *node);
            if let Some(before) = before.get(*node) {
                let ticket = updater.ticket(*node);
                self.replaced.entry((*node, ticket)).or_default().push(((*node, to), before.clone()));
            }
        }
        // A whole column is shared with the target, so that a comparison takes no time.
        let after = if is_whole && differences.next().is_none() {
            target.clone()
        } else {
            let mut merged = HopColumn::clone(&before);
            merged.merge(slots.iter().map(|(node, _)| (*node, target.get(*node).cloned())));
            Arc::new(merged)
        };
        self.hops.set_column(to, after);
    }
}

/// Rules to next hops, compiled once for all addresses and destinations.
struct CompiledHops<'a> {
    network: &'a Network,
    rules: BTreeMap<Arc<[NextHop]>, Option<DesiredRule>>,
}

impl<'a> CompiledHops<'a> {
    fn new(network: &'a Network) -> CompiledHops<'a> {
        CompiledHops { network, rules: BTreeMap::new() }
    }
    /// Returns the rule of a switch with these next hops.
    fn rule(&mut self, hops: Option<&Arc<[NextHop]>>, updater: &Updater) -> Option<DesiredRule> {
        let hops = hops?;
        if let Some(rule) = self.rules.get(hops) {
            return rule.clone();
        }
        let rule = updater.compiler.default_route(&ports(self.network, hops));
        self.rules.insert(hops.clone(), rule.clone());
        rule
    }
}

/// Returns the ports of next hops with their weights, ordered by port: equal sets share one group.
fn ports(network: &Network, hops: &[NextHop]) -> Vec<(PortNo, u16)> {
    let port = |hop: &NextHop| Some((network.port_of(hop.link)?, hop.weight));
    let mut ports: Vec<(PortNo, u16)> = hops.iter().filter_map(port).collect();
    ports.sort_unstable();
    ports
}
