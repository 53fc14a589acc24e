//! What addressing modes take from the observer: cabling and hosts.

use std::collections::BTreeMap;

use net::Time;
use openflow::DatapathId;

use crate::addressing::cabling::{Cabling, SwitchSeen};
use crate::observer::Observer;
use crate::updater::{RuleSet, Updater};
use crate::{KnownHost, SwitchPort};

/// Returns the switches and cables as location discovery sees them. Switches whose discovery is not
/// finished are left out, except those that `is_kept`.
pub(super) fn cabling(now: Time, observer: &Observer, is_kept: impl Fn(&DatapathId) -> bool) -> Cabling {
    let (network, discovery) = (&observer.network, &observer.discovery);
    let mut switches: BTreeMap<DatapathId, SwitchSeen> =
        observer.status.keys().map(|datapath| (*datapath, SwitchSeen::default())).collect();
    for end in observer.live_ports().filter(|end| !discovery.is_link(*end) && !network.has_host_at(*end)) {
        let Some(seen) = switches.get_mut(&end.0) else { continue };
        match discovery.is_edge(now, end) {
            true => seen.has_silent_ports = true,
            false => seen.is_in_discovery = true,
        }
    }
    for (end, _) in network.hosts_by_port().filter(|(end, _)| !discovery.is_link(*end)) {
        if let Some(seen) = switches.get_mut(&end.0) {
            seen.has_hosts = true;
        }
    }
    switches.retain(|switch, seen| !seen.is_in_discovery || is_kept(switch));
    let mut cables: BTreeMap<SwitchPort, (SwitchPort, bool)> = BTreeMap::new();
    for (link, (from, to)) in network.switch_links() {
        let is_alive = network.is_alive(link) && network.is_alive(link.reverse());
        let has_hosts = network.has_host_at(from) || network.has_host_at(to);
        let is_replaced = cables.get(&from).is_some_and(|(_, is_alive)| *is_alive);
        if is_alive || !(has_hosts || is_replaced) {
            cables.insert(from, (to, is_alive));
        }
    }
    Cabling::new(switches, &cables)
}

/// Returns the hosts that rules may lead to.
pub(super) fn hosts(observer: &Observer) -> impl Iterator<Item = KnownHost> {
    let is_here = |host: &KnownHost| observer.may_port_exist(host.end()) && !observer.discovery.is_link(host.end());
    observer.network.current_hosts().map(|(_, host)| host.known).filter(is_here)
}

/// Adds the rules of ports with unknown peers: hosts there are not known yet.
pub(super) fn add_unknown_ports(now: Time, observer: &Observer, updater: &Updater, wanted: &mut RuleSet) {
    let network = &observer.network;
    let is_unknown = |end: &SwitchPort| observer.discovery.is_edge(now, *end) && !network.has_host_at(*end);
    for end in observer.live_ports().filter(is_unknown) {
        let Some(node) = network.node_of(end.0) else { continue };
        let (key, rule) = updater.compiler.unknown_port(end.1);
        wanted.insert((node, key), rule);
    }
}
