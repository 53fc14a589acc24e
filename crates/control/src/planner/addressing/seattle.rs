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

use std::collections::BTreeMap;

use balance::central::Placements;
use core::net::Ipv4Addr;
use openflow::{DatapathId, FlowRemoved, FlowStats, Headers, MacAddr, PacketIn, frame};

use super::label_rules::HostLeft;
use super::labels::SwitchLabels;
use super::{AddressingPlan, observed};
use crate::addressing::hash_ring::HashRing;
use crate::observer::arp::PendingArpReply;
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::Updater;
use crate::{KnownHost, SwitchPort};

#[derive(Debug, Default)]
pub(super) struct Seattle {
    labels: SwitchLabels,
    ring: HashRing,
    /// Published hosts, and the resolver switch of each.
    directory: BTreeMap<MacAddr, (KnownHost, Option<DatapathId>)>,
}

impl AddressingPlan for Seattle {
    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater, _: &Placements) {
        let cabling = observed::cabling(cx.now, observer, |_| true);
        let online = observer.status.iter().filter(|(_, status)| status.is_online).map(|(switch, _)| *switch);
        self.ring = HashRing::new(online);
        self.publish(cx, observer);
        let hosts: Vec<KnownHost> = self.directory.values().map(|(host, _)| *host).collect();
        self.labels.update(cx, (observer, updater), &cabling, &hosts, HostLeft::ToController);
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
            self.labels.cache(observer, updater, reply.to.0, &host);
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
        SwitchLabels::are_connected(network, updater, at, [asker, target])
    }

    fn recover(&mut self, datapath: DatapathId, installed: &[&FlowStats]) {
        self.labels.recover(datapath, installed);
    }

    fn removed(&mut self, observer: &Observer, updater: &mut Updater, datapath: DatapathId, removed: &FlowRemoved) {
        self.labels.removed(observer, updater, datapath, removed);
    }
}

impl Seattle {
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
        self.labels.cache(observer, updater, at, &host);
        let resolver = self.directory.get(&host.mac).and_then(|(_, resolver)| *resolver).unwrap_or(at);
        self.labels.forward(cx, resolver, &host, (headers, packet));
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
            let cached = self.labels.cached(*ingress, headers.eth_dst);
            cached.is_some_and(|location| Some(location) != host.map(|host| host.datapath))
        };
        if let Some(ingress) = ingress.filter(is_stale) {
            cx.channels.tally.directory_updates += 1;
            match &host {
                Some(host) => self.labels.cache(observer, updater, ingress, host),
                None => self.labels.forget(observer, updater, ingress, headers.eth_dst),
            }
        }
        if let Some(host) = host {
            self.labels.forward(cx, at, &host, (headers, packet));
        }
    }
}
