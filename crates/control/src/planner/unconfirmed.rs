//! Next hops that avoid unconfirmed switches.
//!
//! A disconnected switch keeps its rules, one that has just connected has those of a previous
//! controller instance until it confirms new ones, and one that does not confirm has the old or the
//! new ones. The controller knows these rules. The next hops of the balancer have no cycle;
//! combined with such rules they may have one.
//!
//! *Rule.* No switch sends packets to an unconfirmed one from which they may return. *Claim.* Then
//! every cycle consists of old rules alone. *Proof.* Desired next hops have no cycle, so a cycle
//! contains an old one, of an unconfirmed switch. Follow the cycle backwards from it: the first
//! desired next hop on it leads to an unconfirmed switch from which the cycle returns. ∎
//!
//! Old rules may send packets out of ports with unknown peers. If there are disconnected switches,
//! such packets may return through any other port with an unknown peer.
//!
//! No packet is sent to an unconfirmed switch that may have no rule for it either.
//!
//! Next hops removed by this rule are replaced by shortest paths that avoid those switches. If
//! there is no such path, packets are dropped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use balance::central::{HopColumn, HopTable, NextHop};
use core::net::Ipv4Addr;
use net::{LinkIx, NodeIx, Time};
use openflow::PortNo;

use crate::observer::network::{Network, PortPeer};
use crate::planner::default_routes::DefaultRoutes;
use crate::planner::update_order::Graph;
use crate::updater::Updater;

/// Node that represents unknown switches in graphs of next hops.
const SOMEWHERE: NodeIx = NodeIx(u32::MAX);

impl DefaultRoutes {
    /// Computes next hops that avoid unconfirmed switches, and sets them as the target.
    pub(super) fn route_around_unconfirmed(
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
        let destinations =
            self.by_edge.iter().filter(|(_, addresses)| !addresses.is_empty() && !self.unconfirmed.is_empty());
        for (to, addresses) in destinations {
            let (none, blocked) = (Graph::new(), self.blocked(*to, addresses, updater));
            let old = self.old.get(to).unwrap_or(&none);
            if old.is_empty() && blocked.is_empty() {
                continue;
            }
            let wanted = self.wanted.column(*to).cloned().unwrap_or_default();
            if let Some(hops) = avoid(&wanted, old, &blocked, *to, network) {
                let before = self.target.column(*to).filter(|before| ***before == hops);
                let column = before.map_or_else(|| Arc::new(hops), Arc::clone);
                HopTable::set_column(Arc::make_mut(&mut target), *to, column);
            }
        }
        if target != self.target || self.is_improvement_broken(network) {
            self.set_target(now, &target, network, updater);
        }
    }

    /// Returns the unconfirmed switches that may have no rule for one of these addresses.
    fn blocked(&self, to: NodeIx, addresses: &BTreeSet<Ipv4Addr>, updater: &Updater) -> BTreeSet<NodeIx> {
        let may_lack = |node: &&NodeIx| {
            let switch = updater.switches.get(*node).filter(|_| **node != to);
            switch.is_some_and(|switch| addresses.iter().any(|address| switch.may_lack_route(*address)))
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
            for (block, port) in switch.egress_ports() {
                let to: BTreeSet<NodeIx> = edges.range(block.first()..=block.last()).map(|(_, edge)| *edge).collect();
                let peer = &*ports.entry(port).or_insert_with(|| network.beyond(*node, port));
                for to in to {
                    let next = old.entry(to).or_default().entry(*node).or_default();
                    match peer {
                        PortPeer::Host => {}
                        PortPeer::Switches(nodes) => next.extend(nodes),
                        PortPeer::Unknown => {
                            next.insert(SOMEWHERE);
                            is_anywhere.insert(to);
                        }
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
}

/// Returns next hops towards `to` that cannot loop with those of unconfirmed switches (`old`), or
/// `None` if the desired ones cannot.
///
/// `blocked` are unconfirmed switches that may have no rule for some address at `to`.
fn avoid(
    wanted: &HopColumn,
    old: &Graph,
    blocked: &BTreeSet<NodeIx>,
    to: NodeIx,
    network: &Network,
) -> Option<HopColumn> {
    let mut avoided = BTreeSet::new();
    let mut hops = None;
    loop {
        let now = hops.as_ref().unwrap_or(wanted);
        let bad = bad_links(now, old, blocked, network);
        if bad.is_empty() {
            return hops;
        }
        let before = avoided.len();
        avoided.extend(bad.iter().filter_map(|link| network.far_end(*link)));
        if avoided.len() == before {
            return Some(without_links(now, &bad));
        }
        let around = shortest(to, &avoided, network);
        let mut joined = wanted.clone();
        joined.merge(around.into_iter().map(|(node, hops)| (node, Some(hops))));
        hops = Some(joined);
    }
}

/// Returns the links to switches of `old` from which packets may return, and to blocked switches.
fn bad_links(hops: &HopColumn, old: &Graph, blocked: &BTreeSet<NodeIx>, network: &Network) -> BTreeSet<LinkIx> {
    let mut bad = BTreeSet::new();
    if !blocked.is_empty() {
        let is_blocked = |link: &LinkIx| network.far_end(*link).is_some_and(|node| blocked.contains(&node));
        bad.extend(hops.rows().iter().flat_map(|(_, next)| next.iter().map(|hop| hop.link)).filter(is_blocked));
    }
    for unconfirmed in old.keys() {
        for node in reached(hops, old, *unconfirmed, network) {
            let next = hops.get(node).into_iter().flat_map(|next| next.iter().map(|hop| hop.link));
            bad.extend(next.filter(|link| network.far_end(*link) == Some(*unconfirmed)));
        }
    }
    bad
}

/// Returns the switches packets from `from` may reach; contains `from` only if there is a cycle.
fn reached(hops: &HopColumn, old: &Graph, from: NodeIx, network: &Network) -> BTreeSet<NodeIx> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        let next = hops.get(node).into_iter().flat_map(|next| next.iter());
        let next = next.filter_map(|hop| network.far_end(hop.link));
        for next in next.chain(old.get(&node).into_iter().flatten().copied()) {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

fn without_links(hops: &HopColumn, bad: &BTreeSet<LinkIx>) -> HopColumn {
    let kept = |next: &Arc<[NextHop]>| match next.iter().any(|hop| bad.contains(&hop.link)) {
        true => next.iter().copied().filter(|hop| !bad.contains(&hop.link)).collect(),
        false => Arc::clone(next),
    };
    hops.rows().iter().map(|(node, next)| (*node, kept(next))).collect()
}

/// Returns shortest paths over live links that avoid some switches.
fn shortest(to: NodeIx, avoided: &BTreeSet<NodeIx>, network: &Network) -> BTreeMap<NodeIx, Arc<[NextHop]>> {
    let topology = &network.topology;
    let mut distance = BTreeMap::from([(to, 0u32)]);
    let mut queue = VecDeque::from([to]);
    let mut found: BTreeMap<NodeIx, Vec<NextHop>> = BTreeMap::new();
    while let Some(node) = queue.pop_front() {
        let here = distance[&node];
        for link in topology.out_links(node).iter().map(|link| link.reverse()) {
            let from = topology.link(link).from;
            if !network.is_alive(link) || network.is_host_link(link) || avoided.contains(&from) {
                continue;
            }
            let there = *distance.entry(from).or_insert_with(|| {
                queue.push_back(from);
                here + 1
            });
            if there == here + 1 {
                found.entry(from).or_default().push(NextHop { link, weight: 1 });
            }
        }
    }
    found.into_iter().map(|(node, next)| (node, next.into())).collect()
}
