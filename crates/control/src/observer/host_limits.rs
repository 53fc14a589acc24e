//! Limits on learned hosts, and eviction when a limit is reached.
//!
//! Every host needs rules at every switch, so one port with forged addresses could fill all tables.
//! Learned hosts are limited per port and in total ([`Config::hosts_per_port`],
//! [`Config::hosts_max`]); configured hosts are always accepted. At a limit, a host whose port is
//! dead is evicted at once. Otherwise the host that has been idle longest is probed, and evicted if
//! it does not reply within a second. So live hosts stay, and at most one forged address per second
//! is replaced by another.
//!
//! At the limit of the network only ports with more than half of the mean number of hosts lose
//! some: floods from other ports do not evict a host that is alone at its port, even a silent one.

use std::collections::{BTreeMap, BTreeSet};

use net::{HostIx, Time};

use super::arp::arp_probe;
use super::{Cx, Observer};
use crate::{Config, Departure, Event, HostLimit, KnownHost, SwitchPort};

/// Time within which a probed host must reply.
const ANSWER_WITHIN: Time = Time::from_ms(1000);
/// Host numbers per host that may exist at once, numbers of former hosts included: a host that
/// moves between ports leaves a number behind at each.
const NUMBERS_PER_HOST: usize = 4;

/// Scope of a full limit: a port, or (`None`) the network.
type Place = Option<SwitchPort>;

/// Hosts being probed, by scope, and scopes reported as full.
#[derive(Debug, Default)]
pub(crate) struct HostLimits {
    liveness_probes: BTreeMap<Place, (HostIx, Time)>,
    reported_full: BTreeSet<Place>,
}

impl HostLimits {
    pub(crate) fn forget_port(&mut self, end: SwitchPort) {
        self.liveness_probes.remove(&Some(end));
        self.reported_full.remove(&Some(end));
    }
}

impl Observer {
    /// Returns whether there is capacity for a host, evicting another one if possible.
    pub(super) fn has_room(&mut self, cx: &mut Cx<'_>, known: &KnownHost) -> bool {
        let end = known.end();
        match self.full_place(cx.config, known) {
            None => {
                self.host_limits.reported_full.remove(&None);
                self.host_limits.reported_full.remove(&Some(end));
                true
            }
            Some(place) if self.evict_host(cx, place) && self.full_place(cx.config, known).is_none() => true,
            Some(place) => {
                cx.channels.tally.hosts_refused += 1;
                if self.host_limits.reported_full.insert(place) {
                    let limit = if place.is_some() { HostLimit::Port } else { HostLimit::Network };
                    cx.channels.event(Event::HostRefused { host: *known, limit });
                }
                false
            }
        }
    }

    fn full_place(&self, config: &Config, known: &KnownHost) -> Option<Place> {
        if self.network.is_configured(known.ipv4) {
            return None;
        }
        let end = known.end();
        let (there, numbers) = self.network.host_counts();
        let Config { hosts_max, hosts_per_port, hosts, .. } = config;
        let learnt = there.saturating_sub(hosts.len());
        let is_there = self.network.find_host(known.ipv4).is_some();
        let is_out_of_numbers = numbers >= hosts_max.saturating_mul(NUMBERS_PER_HOST).saturating_add(hosts.len());
        if (learnt >= *hosts_max && !is_there) || (is_out_of_numbers && !self.network.has_vacancy(end)) {
            return Some(None);
        }
        let is_learnt = |host: &HostIx| self.is_learnt(*host);
        let is_full = self.network.hosts_at(end).filter(is_learnt).nth(hosts_per_port.saturating_sub(1)).is_some();
        // A host with a new Ethernet address replaces itself.
        let is_same_port = |host: &HostIx| self.network.find_host(known.ipv4) == Some(*host);
        (is_full && !self.network.hosts_at(end).any(|host| is_same_port(&host))).then_some(Some(end))
    }

    fn is_learnt(&self, host: HostIx) -> bool {
        self.network.host(host).is_some_and(|facts| !self.network.is_configured(facts.known.ipv4))
    }

    /// Evicts a host that is gone, or probes the one that has been idle longest. Returns whether
    /// one was evicted.
    fn evict_host(&mut self, cx: &mut Cx<'_>, place: Place) -> bool {
        if let Some((host, asked)) = self.host_limits.liveness_probes.get(&place).copied() {
            if cx.now < asked.saturating_add(ANSWER_WITHIN) {
                return false;
            }
            self.host_limits.liveness_probes.remove(&place);
            let is_silent = self.network.host(host).is_some_and(|facts| facts.last_seen < asked);
            if is_silent && self.network.is_current(host) {
                self.forget_host(cx, host, Departure::Evicted);
                return true;
            }
        }
        let Some((is_alive, _, host)) = self.longest_silent(place) else { return false };
        if !is_alive {
            self.forget_host(cx, host, Departure::Evicted);
            return true;
        }
        if let Some(known) = self.network.host(host).map(|facts| facts.known) {
            self.host_limits.liveness_probes.insert(place, (host, cx.now));
            cx.channels.packet_out(known.end(), arp_probe(&known));
        }
        false
    }

    /// Returns the learned host to check first: one whose port is dead before others, then the one
    /// seen longest ago.
    fn longest_silent(&self, place: Place) -> Option<(bool, Time, HostIx)> {
        let rank = |host: HostIx| {
            let facts = self.network.host(host)?;
            Some((self.network.is_alive(facts.uplink), facts.last_seen, host))
        };
        let is_learnt = |host: &HostIx| self.is_learnt(*host);
        match place {
            Some(end) => self.network.hosts_at(end).filter(is_learnt).filter_map(rank).min(),
            None => self.hosts_over_share().into_iter().filter_map(rank).min(),
        }
    }

    /// Returns the learned hosts at ports with more than half of the mean number of them, and those
    /// at dead ports.
    fn hosts_over_share(&self) -> Vec<HostIx> {
        let learned = |(end, hosts): (SwitchPort, &BTreeSet<HostIx>)| {
            let hosts: Vec<HostIx> = hosts.iter().copied().filter(|host| self.is_learnt(*host)).collect();
            (!hosts.is_empty()).then_some((end, hosts))
        };
        let ports: Vec<(SwitchPort, Vec<HostIx>)> = self.network.hosts_by_port().filter_map(learned).collect();
        let count: usize = ports.iter().map(|(_, hosts)| hosts.len()).sum();
        let is_over = |(end, hosts): &(SwitchPort, Vec<HostIx>)| {
            hosts.len() * ports.len() * 2 > count || !self.is_port_live(*end)
        };
        ports.iter().filter(|port| is_over(port)).flat_map(|(_, hosts)| hosts.iter().copied()).collect()
    }
}
