//! Forwarding by the switch of the receiver, which SEATTLE and TRILL have in common: each switch has a
//! number, its VLAN label; packets take shortest paths to the switch of their label; ingress switches
//! have locations of hosts in a cache. The modes differ in how a location gets into the cache.

use std::collections::{BTreeMap, BTreeSet};

use balance::hash;
use core::net::Ipv4Addr;
use openflow::headers::ether;
use openflow::{
    Action, BufferId, DatapathId, FlowRemoved, FlowStats, Headers, MacAddr, PacketIn, PacketOut, PortNo, SetField,
};

use super::label_rules::{self as rules, HostLeft};
use super::observed;
use super::wanted::Wanted;
use crate::addressing::cabling::Cabling;
use crate::addressing::shortest::ShortestPaths;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::compile::Entry;
use crate::updater::store::RuleKey;
use crate::updater::{RuleSet, Updater};
use crate::{Event, KnownHost, SwitchPort};

/// Largest number of a switch: a VLAN id.
const NUMBER_MAX: u16 = 4094;

#[derive(Debug, Default)]
pub(super) struct SwitchLabels {
    /// Number of each switch, its VLAN label.
    numbers: BTreeMap<DatapathId, u16>,
    paths: ShortestPaths,
    /// Switches that have hosts, as of the last update; their caches hold locations.
    edges: BTreeSet<DatapathId>,
    /// Locations that switches have in their caches, by switch and host.
    caches: BTreeMap<(DatapathId, MacAddr), DatapathId>,
    rules: RuleSet,
    /// Whether it was reported that there are more switches than numbers.
    has_reported: bool,
}

impl SwitchLabels {
    /// Updates the rules after a change of switches, links, hosts or ports.
    pub(super) fn update(
        &mut self,
        cx: &mut Cx<'_>,
        (observer, updater): (&Observer, &mut Updater),
        cabling: &Cabling,
        hosts: &[KnownHost],
        left: HostLeft,
    ) {
        self.number(cx, cabling.switches.keys());
        self.paths = ShortestPaths::to(cabling, cabling.switches.keys().copied());
        let mut wanted = Wanted::new(&observer.network);
        for (datapath, number) in &self.numbers {
            wanted.add(*datapath, [rules::host_left(updater.compiler, *number, left)]);
            for (from, ports) in self.paths.towards(*datapath) {
                wanted.add(from, rules::to_switch(updater.compiler, *number, ports));
            }
        }
        self.edges = hosts.iter().map(|host| host.datapath).collect();
        self.edges.iter().for_each(|datapath| wanted.add(*datapath, [rules::unknown(updater.compiler)]));
        for host in hosts {
            let Some(number) = self.numbers.get(&host.datapath) else { continue };
            wanted.add(host.datapath, rules::to_host(updater.compiler, host, *number));
        }
        for ((at, host), location) in &self.caches {
            wanted.add(*at, self.cache_rule(updater, *at, *host, *location));
        }
        let mut wanted = wanted.rules;
        observed::add_unknown_ports(cx.now, observer, updater, &mut wanted);
        updater.replace(&mut self.rules, wanted);
    }

    /// Gives every switch a number, which stays.
    fn number<'a>(&mut self, cx: &mut Cx<'_>, switches: impl Iterator<Item = &'a DatapathId>) {
        let mut taken: BTreeSet<u16> = self.numbers.values().copied().collect();
        for switch in switches.filter(|switch| !self.numbers.contains_key(*switch)).collect::<Vec<_>>() {
            let Some(number) = (1..=NUMBER_MAX).find(|number| !taken.contains(number)) else {
                if !std::mem::replace(&mut self.has_reported, true) {
                    let reason = format!("there are more than {NUMBER_MAX} switches, the number of VLAN labels");
                    cx.channels.event(Event::AddressingRefused { reason });
                }
                return;
            };
            taken.insert(number);
            self.numbers.insert(*switch, number);
        }
    }

    fn cache_rule(&self, updater: &Updater, at: DatapathId, host: MacAddr, location: DatapathId) -> Option<Entry> {
        let number = *self.numbers.get(&location)?;
        rules::cached(updater.compiler, host, number, self.paths.ports(at, location))
    }

    /// Puts the location of a host into the cache of a switch.
    pub(super) fn cache(&mut self, observer: &Observer, updater: &mut Updater, at: DatapathId, host: &KnownHost) {
        let Some(node) = observer.network.node_of(at) else { return };
        if host.datapath == at {
            return;
        }
        if let Some((key, rule)) = self.cache_rule(updater, at, host.mac, host.datapath) {
            self.caches.insert((at, host.mac), host.datapath);
            self.rules.insert((node, key), rule.clone());
            updater.set((node, key, Some(rule)));
        }
    }

    /// Puts the location of a host into the caches of all switches that have hosts.
    pub(super) fn cache_everywhere(&mut self, observer: &Observer, updater: &mut Updater, host: &KnownHost) {
        let edges = std::mem::take(&mut self.edges);
        for at in &edges {
            if self.cached(*at, host.mac) != Some(host.datapath) {
                self.cache(observer, updater, *at, host);
            }
        }
        self.edges = edges;
    }

    /// Returns whether the location of a host is installed at all switches that have hosts, except where a
    /// switch has rejected it.
    pub(super) fn is_installed_everywhere(&self, network: &Network, updater: &Updater, host: &KnownHost) -> bool {
        self.edges.iter().all(|at| *at == host.datapath || has_installed(network, updater, *at, host.mac))
    }

    /// Returns the location of a host in the cache of a switch.
    pub(super) fn cached(&self, at: DatapathId, host: MacAddr) -> Option<DatapathId> {
        self.caches.get(&(at, host)).copied()
    }

    /// Removes the location of a host from the cache of a switch.
    pub(super) fn forget(&mut self, observer: &Observer, updater: &mut Updater, at: DatapathId, host: MacAddr) {
        let key = rules::cached_key(host);
        if self.caches.remove(&(at, host)).is_some()
            && let Some(node) = observer.network.node_of(at)
        {
            self.rules.remove(&(node, key));
            updater.set((node, key, None));
        }
    }

    /// Handles the removal of a rule by its switch: the location of a host has left the cache.
    pub(super) fn removed(
        &mut self,
        observer: &Observer,
        updater: &mut Updater,
        at: DatapathId,
        removed: &FlowRemoved,
    ) {
        if let Some(host) = rules::host_of_cache(&RuleKey::from(removed)) {
            self.forget(observer, updater, at, host);
        }
    }

    /// Changes the locations in all caches to those where hosts are now, before an update.
    pub(super) fn relocate(&mut self, hosts: &BTreeMap<MacAddr, KnownHost>) {
        self.caches.retain(|(at, host), location| {
            *location = hosts.get(host).map_or(*location, |host| host.datapath);
            *location != *at
        });
    }

    /// Sends a packet from a switch towards the switch of a host, or to the host if it is there.
    pub(super) fn forward(
        &self,
        cx: &mut Cx<'_>,
        from: DatapathId,
        host: &KnownHost,
        (headers, packet): (&Headers, &PacketIn),
    ) {
        let is_tagged = headers.vlan.is_some();
        let mut actions: Vec<Action> = Vec::new();
        if host.datapath == from {
            actions.extend(is_tagged.then_some(Action::PopVlan));
            actions.push(Action::output(host.port));
        } else {
            let ports = self.paths.ports(from, host.datapath);
            let (Some(number), false) = (self.numbers.get(&host.datapath), ports.is_empty()) else { return };
            actions.extend((!is_tagged).then_some(Action::PushVlan(ether::VLAN)));
            actions.push(Action::SetField(SetField::VlanVid(*number)));
            actions.push(Action::output(port_of_flow(headers, ports)));
        }
        let (buffer, in_port, data) = (BufferId::NO_BUFFER, PortNo::CONTROLLER, packet.data.clone());
        cx.channels.send_packet(from, PacketOut { buffer, in_port, actions, data });
    }

    /// Returns whether the rules are installed that lead from a host at `at` to another one.
    pub(super) fn are_connected(
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        [asker, target]: [Ipv4Addr; 2],
    ) -> bool {
        let known = |address| network.host_at(address).map(|host| host.known);
        let (Some(near), Some(far)) = (known(asker).filter(|host| host.end() == at), known(target)) else {
            return false;
        };
        let is_near = near.datapath == far.datapath;
        [near, far].iter().all(|host| has_decided(network, updater, host.datapath, rules::to_host_key(host)))
            && (is_near || has_installed(network, updater, at.0, far.mac))
    }

    /// Recovers the number of a switch from its rules.
    pub(super) fn recover(&mut self, datapath: DatapathId, installed: &[&FlowStats]) {
        if let Some(number) = installed.iter().find_map(|rule| rules::number_of(rule))
            && !self.numbers.values().any(|other| *other == number)
        {
            self.numbers.entry(datapath).or_insert(number);
        }
    }
}

/// Returns whether the location of a host is installed at a switch, or the switch has rejected it.
fn has_installed(network: &Network, updater: &Updater, at: DatapathId, host: MacAddr) -> bool {
    has_decided(network, updater, at, rules::cached_key(host))
}

fn has_decided(network: &Network, updater: &Updater, at: DatapathId, key: RuleKey) -> bool {
    let switch = network.node_of(at).and_then(|node| updater.switches.get(&node));
    switch.is_some_and(|switch| switch.has_decided(&key))
}

/// Returns the port of a flow among several.
fn port_of_flow(headers: &Headers, ports: &[PortNo]) -> PortNo {
    let addresses = u64::from(headers.ipv4_src.to_bits()) << 32 | u64::from(headers.ipv4_dst.to_bits());
    let rest = u64::from(headers.l4_src) << 16 | u64::from(headers.l4_dst);
    ports[hash::reduce(hash::combine(hash::mix(addresses), rest), ports.len())]
}
