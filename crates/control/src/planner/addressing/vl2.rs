//! VL2 (Greenberg et al., SIGCOMM 2009; F0 section 2.4.3): names and locations are separate.
//!
//! An application address (the IPv4 address of a host) does not depend on its place. A directory knows
//! the location address of the switch of each host. The controller is the directory: it answers ARP
//! requests with the location address, or not at all if the pair of hosts is refused. The ARP cache of
//! a host takes the place of the cache of VL2's agent.
//!
//! With `sdn-vlb` packets visit an intermediate switch, which the balancer chooses for each flow; with
//! `sdn-ecmp` they take shortest paths. A packet for a host that has moved is passed on, and the sender
//! learns the new location.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::{Placements, WeightedPath};
use core::net::Ipv4Addr;
use net::NodeIx;
use openflow::{DatapathId, FlowStats, PacketIn, PortNo, frame};

use super::stale_senders::StaleSenders;
use super::wanted::Wanted;
use super::{AddressingPlan, observed, vl2_rules as rules};
use crate::addressing::shortest::ShortestPaths;
use crate::observer::arp::PendingArpReply;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::compile::Compiler;
use crate::updater::store::RuleKey;
use crate::updater::{RuleSet, Updater};
use crate::{Event, KnownHost, SwitchPort};

/// Largest label of an intermediate switch.
const LABEL_MAX: usize = 4094;

#[derive(Debug, Default)]
pub(super) struct Vl2 {
    directory: BTreeMap<Ipv4Addr, KnownHost>,
    rules: RuleSet,
    stale_senders: StaleSenders,
    /// VLAN labels of intermediate switches, from 1.
    labels: BTreeMap<DatapathId, u16>,
    /// Pairs of switches with the same location address that were reported.
    reported: BTreeSet<(DatapathId, DatapathId)>,
}

impl AddressingPlan for Vl2 {
    fn uses_balancer(&self) -> bool {
        true
    }

    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater, placements: &Placements) {
        self.publish(cx, observer);
        let cabling = observed::cabling(cx.now, observer, |_| true);
        let racks: Vec<DatapathId> = self.directory.values().map(|host| host.datapath).collect();
        let paths = ShortestPaths::to(&cabling, racks.into_iter());
        let (network, compiler) = (&observer.network, updater.compiler);
        let mut wanted = Wanted::new(network);
        for datapath in cabling.switches.keys() {
            wanted.add(*datapath, [rules::others(compiler)]);
        }
        for host in self.directory.values() {
            wanted.add(host.datapath, [rules::to_host(compiler, host), rules::host_left(compiler, host.datapath)]);
            wanted.add(host.datapath, compiler.host_port(host.port, false));
            for (from, ports) in paths.towards(host.datapath) {
                wanted.add(from, rules::to_switch(compiler, host.datapath, ports));
            }
        }
        for ((from, to), split) in placements.splits() {
            self.spread(compiler, (*from, *to), split, &mut wanted);
        }
        let mut wanted = wanted.rules;
        observed::add_unknown_ports(cx.now, observer, updater, &mut wanted);
        updater.replace(&mut self.rules, wanted);
    }

    fn packet(&mut self, cx: &mut Cx<'_>, observer: &Observer, _: &mut Updater, at: DatapathId, packet: &PacketIn) {
        let Ok(headers) = frame::parse(&packet.data) else { return };
        let Some(host) = self.directory.get(&headers.ipv4_dst).filter(|host| host.datapath != at) else { return };
        let to = (host, rules::location_mac(host.datapath));
        self.stale_senders.redirect(cx, observer, to, (headers.ipv4_src, packet));
    }

    fn lookup(&mut self, cx: &mut Cx<'_>, _: &Observer, _: &mut Updater, reply: &PendingArpReply) -> bool {
        let is_refused = cx.config.refused.contains(&(reply.requester, reply.target));
        match is_refused {
            true => cx.channels.tally.lookups_refused += 1,
            false => cx.channels.tally.lookups += 1,
        }
        !is_refused
    }

    fn are_connected(
        &self,
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        asker: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool {
        let Some(near) = self.directory.get(&asker).filter(|host| host.end() == at) else { return false };
        let Some(far) = self.directory.get(&target) else { return false };
        let has = |at: &KnownHost, key: RuleKey| {
            let switch = network.node_of(at.datapath).and_then(|node| updater.switches.get(&node));
            switch.is_some_and(|switch| switch.has_decided(&key))
        };
        let has_route = |from: &KnownHost, to: &KnownHost| {
            from.datapath == to.datapath || has(from, rules::to_switch_key(to.datapath))
        };
        [near, far].into_iter().all(|host| has(host, rules::to_host_key(host)))
            && has_route(near, far)
            && has_route(far, near)
    }

    fn recover(&mut self, _: DatapathId, _: &[&FlowStats]) {}
}

impl Vl2 {
    /// Brings the directory up to date.
    fn publish(&mut self, cx: &mut Cx<'_>, observer: &mut Observer) {
        let hosts: BTreeMap<Ipv4Addr, KnownHost> = observed::hosts(observer).map(|host| (host.ipv4, host)).collect();
        let is_new = |host: &&KnownHost| self.directory.get(&host.ipv4) != Some(*host);
        let gone = self.directory.keys().filter(|address| !hosts.contains_key(address)).count();
        cx.channels.tally.directory_updates += (hosts.values().filter(is_new).count() + gone) as u64;
        self.directory = hosts;
        let macs = self.directory.iter().map(|(address, host)| (*address, rules::location_mac(host.datapath)));
        observer.announced = Some(macs.collect());
        let mut owners: BTreeMap<_, DatapathId> = BTreeMap::new();
        for datapath in observer.status.keys() {
            if let Some(other) = owners.insert(rules::location_mac(*datapath), *datapath)
                && self.reported.insert((other, *datapath))
            {
                let (a, b) = (other.0, datapath.0);
                let reason = format!(
                    "switches {a:016x} and {b:016x} have the same location address; give one another datapath id"
                );
                cx.channels.event(Event::AddressingRefused { reason });
            }
        }
    }

    fn label_of(&mut self, switch: DatapathId) -> Option<u16> {
        let next = self.labels.len() + 1;
        match self.labels.get(&switch) {
            Some(label) => Some(*label),
            None if next > LABEL_MAX => None,
            None => {
                self.labels.insert(switch, next as u16);
                Some(next as u16)
            }
        }
    }

    /// Adds the rules of a split of the balancer: its paths lead over intermediate switches.
    fn spread(&mut self, compiler: Compiler, ends: (NodeIx, NodeIx), split: &[WeightedPath], wanted: &mut Wanted<'_>) {
        let network = wanted.network;
        let (Some(from), Some(to)) = (network.datapath_of(ends.0), network.datapath_of(ends.1)) else { return };
        let mut buckets: BTreeMap<(PortNo, Option<u16>), u16> = BTreeMap::new();
        for weighted in split {
            let nodes = net::paths::nodes(&network.topology, ends.0, &weighted.path);
            let height = |node: &NodeIx| network.topology.node(*node).tier;
            let highest = nodes.iter().map(height).max();
            let mut tops = (0..nodes.len()).filter(|at| Some(height(&nodes[*at])) == highest);
            // A path that goes up again has another intermediate switch. From the first one the location
            // address could lead back to where the packet came from.
            let (Some(turn), None) = (tops.next(), tops.next()) else { continue };
            let Some(label) = network.datapath_of(nodes[turn]).and_then(|switch| self.label_of(switch)) else {
                continue;
            };
            let ports: Vec<Option<PortNo>> = weighted.path.iter().map(|link| network.port_of(*link)).collect();
            let Some(first) = ports.first().copied().flatten() else { continue };
            for (node, port) in nodes.iter().zip(&ports).take(turn).skip(1) {
                let Some(port) = port else { continue };
                wanted.add_at(*node, rules::via(compiler, label, *port));
            }
            wanted.add_at(nodes[turn], rules::at_intermediate(compiler, label));
            let weight = buckets.entry((first, Some(label))).or_default();
            *weight = weight.saturating_add(weighted.weight.max(1));
        }
        if !buckets.is_empty() {
            let buckets: Vec<_> = buckets.into_iter().map(|((port, label), weight)| (port, weight, label)).collect();
            wanted.add(from, [rules::spread(compiler, to, &buckets)]);
        }
    }
}
