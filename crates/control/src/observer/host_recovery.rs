//! Recovery of hosts from the rules of a previous controller instance: it probes the hosts those
//! rules lead to.
//!
//! A controller without persisted hosts would treat rules towards unknown hosts as leftovers and
//! delete them while traffic uses them. During the recovery hold of a switch (no message is sent to
//! it until the network is known) the controller therefore probes the addresses and ports of its
//! last-hop rules. A rule alone is not sufficient: the host may have moved or gone since. A host
//! that replies is learned like any other, and its rules stay.

use std::collections::{BTreeMap, BTreeSet};

use core::net::Ipv4Addr;
use net::Time;
use openflow::{Action, DatapathId, FlowStats};

use super::arp::arp_request_for;
use super::discovery::is_physical;
use super::{Cx, Observer};
use crate::updater::compile::{Compiler, Purpose, destination, last_hop_key};
use crate::updater::store::RuleKey;
use crate::{Config, SwitchPort};

/// Time the controller waits to learn the network before it judges the rules of a previous
/// controller instance.
pub(super) const RECOVERY_HOLD: Time = Time::from_ms(1000);
/// Time between two probes of a host, and their number: frames may be lost in full queues.
const AGAIN: Time = Time::from_ms(120);
const PROBES: u8 = 3;

#[derive(Debug, Default)]
pub(crate) struct HostRecovery {
    at: BTreeMap<SwitchPort, PendingProbes>,
    count: usize,
}

#[derive(Debug)]
struct PendingProbes {
    addresses: BTreeSet<Ipv4Addr>,
    sent: u8,
    next: Time,
}

impl HostRecovery {
    /// Returns when the next probe is due. The first one is sent when the port becomes an edge
    /// port.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.at.values().filter(|asking| asking.sent > 0).map(|asking| asking.next).min()
    }
    fn remove(&mut self, end: SwitchPort) {
        self.count -= self.at.remove(&end).map_or(0, |asking| asking.addresses.len());
    }
}

impl Observer {
    pub(super) fn record_installed_hosts(&mut self, config: &Config, datapath: DatapathId, rules: &[FlowStats]) {
        let (hosts_max, per_port) = (config.hosts_max, config.hosts_per_port);
        let compiler = Compiler { owner: config.owner };
        let of = |purpose| rules.iter().filter(move |rule| rule.cookie == compiler.cookie(purpose));
        let hosts = of(Purpose::Base).filter_map(last_hop).chain(of(Purpose::Address).filter_map(translated_host));
        for (address, port) in hosts {
            if self.host_recovery.count >= hosts_max || self.network.find_host(address).is_some() {
                continue;
            }
            let fresh = || PendingProbes { addresses: BTreeSet::new(), sent: 0, next: Time::ZERO };
            let asking = self.host_recovery.at.entry((datapath, port)).or_insert_with(fresh);
            if asking.addresses.len() < per_port && asking.addresses.insert(address) {
                self.host_recovery.count += 1;
            }
        }
    }

    /// Probes the hosts whose ports have become edge ports.
    pub(super) fn probe_installed_hosts(&mut self, cx: &mut Cx<'_>) {
        let ends: Vec<SwitchPort> = self.host_recovery.at.keys().copied().collect();
        for end in ends {
            let is_edge = self.discovery.is_edge(cx.now, end);
            // A port that went down meanwhile may lead elsewhere when it is up again.
            let is_over = |asking: &PendingProbes| {
                asking.sent > 0 && (asking.sent == PROBES && asking.next <= cx.now || !is_edge)
            };
            if self.discovery.is_link(end)
                || !self.is_port_live(end)
                || self.host_recovery.at.get(&end).is_some_and(is_over)
            {
                self.host_recovery.remove(end);
                continue;
            }
            let Some(asking) = self.host_recovery.at.get_mut(&end).filter(|asking| is_edge && asking.next <= cx.now)
            else {
                continue;
            };
            (asking.sent, asking.next) = (asking.sent + 1, cx.now.saturating_add(AGAIN));
            let is_unknown = |address: &&Ipv4Addr| self.network.find_host(**address).is_none();
            let unknown: Vec<Ipv4Addr> = asking.addresses.iter().filter(is_unknown).copied().collect();
            unknown.into_iter().for_each(|address| cx.channels.packet_out(end, arp_request_for(address)));
        }
    }
}

/// Returns the host whose packets a rule of an addressing mode translates.
fn translated_host(rule: &FlowStats) -> Option<(Ipv4Addr, openflow::PortNo)> {
    let source = rule.match_.ipv4_src.filter(|source| source.mask == Ipv4Addr::BROADCAST)?;
    Some((source.value, rule.match_.in_port.filter(|port| is_physical(*port))?))
}

fn last_hop(rule: &FlowStats) -> Option<(Ipv4Addr, openflow::PortNo)> {
    let key = RuleKey::from(rule);
    let address = destination(&key).filter(|address| last_hop_key(*address) == key)?;
    match rule.instructions.apply[..] {
        [Action::Output { port, .. }] if is_physical(port) => Some((address, port)),
        _ => None,
    }
}
