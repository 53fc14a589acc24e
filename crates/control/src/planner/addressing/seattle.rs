//! SEATTLE (Kim, Caesar, Rexford, SIGCOMM 2008; F0 section 2.4.2): hosts keep flat addresses, and the
//! switches share the directory of their locations.
//!
//! Consistent hashing assigns each host to a resolver switch, at which its location is published. A
//! switch learns a location with the ARP request of a host, or with the first packet to a host that is
//! not in its cache: that packet goes over the resolver switch. Entries of the cache that are not used
//! expire. A packet to a host that has moved is passed on by its former switch, which tells the ingress
//! switch the new location.
//!
//! Switches of OpenFlow 1.3 cannot hash addresses to switches, so the controller keeps the directory of
//! each resolver and does what the software of a SEATTLE switch would. What that software would send
//! counts as a message: publications as updates of the directory, and replies as lookups. The packets
//! themselves go the same way as in SEATTLE from the resolver switch on.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::Placements;
use balance::hash;
use core::net::Ipv4Addr;
use openflow::headers::ether;
use openflow::{Action, BufferId, DatapathId, FlowRemoved, FlowStats, Headers, MacAddr, PacketIn, PacketOut, PortNo};
use openflow::{SetField, frame};

use super::wanted::Wanted;
use super::{AddressingPlan, observed, seattle_rules as rules};
use crate::addressing::hash_ring::HashRing;
use crate::addressing::shortest::ShortestPaths;
use crate::observer::arp::PendingArpReply;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::compile::Entry;
use crate::updater::store::RuleKey;
use crate::updater::{RuleSet, Updater};
use crate::{Event, KnownHost, SwitchPort};

/// Largest number of a switch: a VLAN id.
const NUMBER_MAX: u16 = 4094;

#[derive(Debug, Default)]
pub(super) struct Seattle {
    /// Number of each switch, its VLAN label.
    numbers: BTreeMap<DatapathId, u16>,
    ring: HashRing,
    paths: ShortestPaths,
    /// Published hosts, and the resolver switch of each.
    directory: BTreeMap<MacAddr, (KnownHost, Option<DatapathId>)>,
    /// Locations that switches have in their caches, by switch and host.
    caches: BTreeMap<(DatapathId, MacAddr), DatapathId>,
    rules: RuleSet,
    /// Whether it was reported that there are more switches than numbers.
    has_reported: bool,
}

impl AddressingPlan for Seattle {
    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater, _: &Placements) {
        let cabling = observed::cabling(cx.now, observer, |_| true);
        self.number(cx, cabling.switches.keys());
        let online = observer.status.iter().filter(|(_, status)| status.is_online).map(|(switch, _)| *switch);
        self.ring = HashRing::new(online);
        self.paths = ShortestPaths::to(&cabling, cabling.switches.keys().copied());
        self.publish(cx, observer);
        let mut wanted = Wanted::new(&observer.network);
        let with_hosts: BTreeSet<DatapathId> = self.directory.values().map(|(host, _)| host.datapath).collect();
        for (datapath, number) in &self.numbers {
            wanted.add(*datapath, [rules::host_left(updater.compiler, *number)]);
            for (from, ports) in self.paths.towards(*datapath) {
                wanted.add(from, rules::to_switch(updater.compiler, *number, ports));
            }
        }
        with_hosts.iter().for_each(|datapath| wanted.add(*datapath, [rules::unknown(updater.compiler)]));
        for (host, _) in self.directory.values() {
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

    fn packet(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        at: DatapathId,
        packet: &PacketIn,
    ) {
        let Ok(headers) = frame::parse(&packet.data) else { return };
        let host = self.directory.get(&headers.eth_dst).map(|(host, _)| *host);
        match headers.vlan {
            None => self.unknown_location(cx, observer, updater, (at, host), (&headers, packet)),
            Some(_) => self.left_host(cx, observer, updater, (at, host), (&headers, packet)),
        }
    }

    fn lookup(&mut self, cx: &mut Cx<'_>, observer: &Observer, updater: &mut Updater, reply: &PendingArpReply) -> bool {
        let target = observer.network.host_at(reply.target).map(|host| host.known);
        if let Some(host) = target.filter(|host| self.directory.contains_key(&host.mac)) {
            cx.channels.tally.lookups += 1;
            self.cache(observer, updater, reply.to.0, &host);
        }
        true
    }

    fn are_connected(
        &self,
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        asker: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool {
        let known = |address| network.host_at(address).map(|host| host.known);
        let (Some(near), Some(far)) = (known(asker).filter(|host| host.end() == at), known(target)) else {
            return false;
        };
        let has = |at: DatapathId, key: RuleKey| {
            let switch = network.node_of(at).and_then(|node| updater.switches.get(&node));
            switch.is_some_and(|switch| switch.has_decided(&key))
        };
        let is_near = near.datapath == far.datapath;
        [near, far].iter().all(|host| has(host.datapath, rules::to_host_key(host)))
            && (is_near || has(at.0, rules::cached_key(far.mac)))
    }

    fn recover(&mut self, datapath: DatapathId, installed: &[&FlowStats]) {
        if let Some(number) = installed.iter().find_map(|rule| rules::number_of(rule))
            && !self.numbers.values().any(|other| *other == number)
        {
            self.numbers.entry(datapath).or_insert(number);
        }
    }

    fn removed(&mut self, observer: &Observer, updater: &mut Updater, datapath: DatapathId, removed: &FlowRemoved) {
        let key = RuleKey::from(removed);
        if let Some(host) = rules::host_of_cache(&key) {
            self.forget(observer, updater, datapath, host);
        }
    }
}

impl Seattle {
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

    /// Publishes hosts that are new, have moved, or have another resolver switch, and withdraws those that
    /// have left.
    fn publish(&mut self, cx: &mut Cx<'_>, observer: &Observer) {
        let hosts = observed::hosts(observer).map(|host| (host.mac, (host, self.ring.resolver_of(host.mac))));
        let hosts: BTreeMap<_, _> = hosts.collect();
        let changed = hosts.iter().filter(|(mac, entry)| self.directory.get(mac) != Some(entry)).count();
        let gone = self.directory.keys().filter(|mac| !hosts.contains_key(mac)).count();
        cx.channels.tally.directory_updates += (changed + gone) as u64;
        self.directory = hosts;
    }

    fn cache_rule(&self, updater: &Updater, at: DatapathId, host: MacAddr, location: DatapathId) -> Option<Entry> {
        let number = *self.numbers.get(&location)?;
        rules::cached(updater.compiler, host, number, self.paths.ports(at, location))
    }

    /// Puts the location of a host into the cache of a switch.
    fn cache(&mut self, observer: &Observer, updater: &mut Updater, at: DatapathId, host: &KnownHost) {
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

    /// Handles a packet of a host to a location that its switch does not know.
    fn unknown_location(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        (at, host): (DatapathId, Option<KnownHost>),
        (headers, packet): (&Headers, &PacketIn),
    ) {
        cx.channels.tally.cache_misses += 1;
        let Some(host) = host else { return }; // No host has published this address.
        cx.channels.tally.lookups += 1;
        self.cache(observer, updater, at, &host);
        let resolver = self.directory.get(&host.mac).and_then(|(_, resolver)| *resolver).unwrap_or(at);
        self.forward(cx, resolver, &host, (headers, packet));
    }

    /// Handles a packet that has arrived at the former switch of a host.
    fn left_host(
        &mut self,
        cx: &mut Cx<'_>,
        observer: &Observer,
        updater: &mut Updater,
        (at, host): (DatapathId, Option<KnownHost>),
        (headers, packet): (&Headers, &PacketIn),
    ) {
        let ingress = self.directory.get(&headers.eth_src).map(|(sender, _)| sender.datapath);
        let is_stale = |ingress: &DatapathId| {
            let cached = self.caches.get(&(*ingress, headers.eth_dst));
            cached.is_some_and(|location| Some(*location) != host.map(|host| host.datapath))
        };
        if let Some(ingress) = ingress.filter(is_stale) {
            cx.channels.tally.directory_updates += 1;
            match &host {
                Some(host) => self.cache(observer, updater, ingress, host),
                None => self.forget(observer, updater, ingress, headers.eth_dst),
            }
        }
        if let Some(host) = host {
            self.forward(cx, at, &host, (headers, packet));
        }
    }

    fn forget(&mut self, observer: &Observer, updater: &mut Updater, at: DatapathId, host: MacAddr) {
        let key = rules::cached_key(host);
        if self.caches.remove(&(at, host)).is_some()
            && let Some(node) = observer.network.node_of(at)
        {
            self.rules.remove(&(node, key));
            updater.set((node, key, None));
        }
    }

    /// Sends a packet from a switch towards the switch of a host, or to the host if it is there.
    fn forward(&self, cx: &mut Cx<'_>, from: DatapathId, host: &KnownHost, (headers, packet): (&Headers, &PacketIn)) {
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
}

/// Returns the port of a flow among several.
fn port_of_flow(headers: &Headers, ports: &[PortNo]) -> PortNo {
    let addresses = u64::from(headers.ipv4_src.to_bits()) << 32 | u64::from(headers.ipv4_dst.to_bits());
    let rest = u64::from(headers.l4_src) << 16 | u64::from(headers.l4_dst);
    ports[hash::reduce(hash::combine(hash::mix(addresses), rest), ports.len())]
}
