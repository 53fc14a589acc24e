//! PortLand (Niranjan Mysore et al., SIGCOMM 2009; F0 section 2.4.1): a host sends to a pseudo-MAC
//! address that says where the receiver is, so that switches forward by prefix.
//!
//! The controller is the fabric manager. It answers ARP requests with pseudo-MAC addresses, relays
//! those for unknown hosts to all edge ports, and knows all failures. A packet for a host that has
//! moved reaches its former edge switch, which passes it to the controller. The controller sends the
//! packet to the new port, and the new address to the sender, as an ARP request of the host for its
//! own address.

use balance::central::Placements;
use core::net::Ipv4Addr;
use net::Time;
use openflow::{DatapathId, FlowStats, PacketIn, frame};

use super::portland_rules::{from_host, host_left, host_of, location_of, route, route_key, to_host, to_host_key};
use super::stale_senders::StaleSenders;
use super::{AddressingPlan, observed};
use crate::addressing::cabling::Cabling;
use crate::addressing::fabric_manager::FabricManager;
use crate::addressing::location::{Location, Locator};
use crate::addressing::pmac::Pmac;
use crate::addressing::routes::{Destinations, routes};
use crate::observer::network::Network;
use crate::observer::{Cx, Observer};
use crate::updater::store::RuleKey;
use crate::updater::{RuleSet, Updater};
use crate::{Event, KnownHost, SwitchPort};

/// Time for which a network must not be a multi-rooted tree before that is reported: while it is
/// discovered, cables are missing.
const REPORT_AFTER: Time = Time::from_s(2);

#[derive(Debug, Default)]
pub(super) struct PortLand {
    locator: Locator,
    manager: FabricManager,
    rules: RuleSet,
    stale_senders: StaleSenders,
    refusal: Option<Refusal>,
    /// Hosts without an address that were reported.
    without_address: Vec<KnownHost>,
}

/// Why locations are not updated.
#[derive(Debug)]
struct Refusal {
    reason: String,
    /// When it is reported; `None`: it was.
    report_at: Option<Time>,
}

impl AddressingPlan for PortLand {
    fn update(&mut self, cx: &mut Cx<'_>, observer: &mut Observer, updater: &mut Updater, _: &Placements) {
        let is_located = |switch: &DatapathId| self.locator.locations.contains_key(switch);
        let cabling = observed::cabling(cx.now, observer, is_located);
        // Until a host has a pseudo-MAC address, requests for it get no reply.
        observer.announced.get_or_insert_default();
        match self.locator.locate(&cabling) {
            Ok(()) => self.refusal = None,
            Err(error) => return self.refuse(cx.now, error.to_string()),
        }
        let without = self.manager.set_hosts(observed::hosts(observer), &self.locator.locations);
        for host in without.iter().filter(|host| !self.without_address.contains(host)) {
            let port = host.port.0;
            let reason = format!(
                "host {} at port {port} of switch {:016x} gets no pseudo-MAC address: these are for ports 1 to 255 \
                 and 65535 hosts at each",
                host.ipv4, host.datapath.0
            );
            cx.channels.event(Event::AddressingRefused { reason });
        }
        self.without_address = without;
        let macs = self.manager.hosts.iter().map(|(address, (_, pmac))| (*address, pmac.encode()));
        observer.announced = Some(macs.collect());
        let wanted = self.wanted_rules(cx.now, &cabling, observer, updater);
        updater.replace(&mut self.rules, wanted);
    }

    fn packet(&mut self, cx: &mut Cx<'_>, observer: &Observer, _: &mut Updater, at: DatapathId, packet: &PacketIn) {
        let Ok(headers) = frame::parse(&packet.data) else { return };
        let Some((host, pmac)) = self.manager.hosts.get(&headers.ipv4_dst).copied() else { return };
        if pmac.encode() == headers.eth_dst && host.datapath == at {
            return; // Its rule has been sent, and the sender sends again.
        }
        self.stale_senders.redirect(cx, observer, (&host, pmac.encode()), (headers.ipv4_src, packet));
    }

    fn are_connected(
        &self,
        network: &Network,
        updater: &Updater,
        at: SwitchPort,
        asker: Ipv4Addr,
        target: Ipv4Addr,
    ) -> bool {
        let is_reached = |(host, pmac): &(KnownHost, Pmac)| {
            let node = network.node_of(host.datapath);
            let switch = node.and_then(|node| updater.switches.get(&node));
            let keys = [to_host_key(*pmac), from_host(updater.compiler, host, *pmac).0, route_key(Destinations::All)];
            let has = |key: &RuleKey| self.rules.contains_key(&(node.expect("a switch with rules is known"), *key));
            switch.is_some_and(|switch| keys.iter().filter(|key| has(key)).all(|key| switch.has_decided(key)))
        };
        let Some(near) = self.manager.hosts.get(&asker).filter(|(host, _)| host.end() == at) else { return false };
        self.manager.hosts.get(&target).is_some_and(|far| is_reached(near) && is_reached(far))
    }

    fn recover(&mut self, datapath: DatapathId, rules: &[&FlowStats]) {
        if let Some(location) = rules.iter().find_map(|rule| location_of(rule)) {
            self.locator.recover(datapath, location);
        }
        for (port, mac, pmac) in rules.iter().filter_map(|rule| host_of(rule)) {
            self.manager.recover((datapath, port), mac, pmac.vmid);
        }
    }

    fn advance(&mut self, cx: &mut Cx<'_>, _: &Observer, _: &Updater) {
        if let Some(refusal) = &mut self.refusal
            && refusal.report_at.is_some_and(|at| at <= cx.now)
        {
            refusal.report_at = None;
            let reason = format!("{}; use addressing = \"flat\", or change the cables", refusal.reason);
            cx.channels.event(Event::AddressingRefused { reason });
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.refusal.as_ref().and_then(|refusal| refusal.report_at)
    }

    fn location_of(&self, datapath: DatapathId) -> Option<Location> {
        self.locator.locations.get(&datapath).copied()
    }
}

impl PortLand {
    fn refuse(&mut self, now: Time, reason: String) {
        if self.refusal.as_ref().is_none_or(|refusal| refusal.reason != reason) {
            let report_at = Some(now.saturating_add(REPORT_AFTER));
            self.refusal = Some(Refusal { reason, report_at });
        }
    }

    fn wanted_rules(&self, now: Time, cabling: &Cabling, observer: &Observer, updater: &Updater) -> RuleSet {
        let (compiler, network) = (updater.compiler, &observer.network);
        let mut wanted = RuleSet::new();
        for (switch, routes) in routes(cabling, &self.locator.locations) {
            let Some(node) = network.node_of(switch) else { continue };
            for (destinations, ports) in routes {
                let (key, rule) = route(compiler, destinations, &ports);
                wanted.insert((node, key), rule);
            }
            if let Some(Location::Edge { pod, position }) = self.locator.locations.get(&switch) {
                let (key, rule) = host_left(compiler, *pod, *position);
                wanted.insert((node, key), rule);
            }
        }
        for (host, pmac) in self.manager.hosts.values() {
            let Some(node) = network.node_of(host.datapath) else { continue };
            let entries = [from_host(compiler, host, *pmac), to_host(compiler, host, *pmac)];
            wanted.extend(entries.map(|(key, rule)| ((node, key), rule)));
        }
        observed::add_unknown_ports(now, observer, updater, &mut wanted);
        wanted
    }
}
