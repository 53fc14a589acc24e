//! Room for hosts: how many are taken in, and who makes room for others.
//!
//! Every host costs rules at every switch, so one port at which somebody makes up addresses could fill all tables. Hosts
//! that are learnt are limited per port and in all ([`Config::hosts_per_port`], [`Config::hosts_max`]); configured ones
//! always fit. Where there is no room, a host is forgotten that is not there any more: one whose port is dead, at once;
//! otherwise the one that has been silent for longest is asked, and forgotten if it has not answered within a second. So
//! hosts that live keep their place, and one made-up address a second at most is replaced by another.

use std::collections::{BTreeMap, BTreeSet};

use net::{HostIx, Time};

use crate::controller::Controller;
use crate::hosts::question_for;
use crate::network::End;
use crate::{Config, Event, HostLimit, KnownHost};

/// Time to answer for a host that may have to go.
const ANSWER_WITHIN: Time = Time::from_ms(1000);
/// Numbers given to hosts, gone ones included, per host that may be there at once: those that move from port to port leave
/// a number behind at each.
const NUMBERS_PER_HOST: usize = 4;

/// Where there is no room: at a port, or (`None`) anywhere.
type Place = Option<End>;

/// Who was asked whether it is still there, by place, and places that are known to be full.
#[derive(Debug, Default)]
pub(crate) struct Room {
    doubts: BTreeMap<Place, (HostIx, Time)>,
    told: BTreeSet<Place>,
}

impl Room {
    /// A port is not there any more.
    pub(crate) fn forget_port(&mut self, end: End) {
        self.doubts.remove(&Some(end));
        self.told.remove(&Some(end));
    }
}

impl Controller {
    /// A host that speaks at a port is taken in, if there is room for it; whether there is.
    pub(crate) fn host_found(&mut self, known: KnownHost) -> bool {
        let has_room = self.has_room(&known);
        if has_room && self.network.add_host(&self.config, known, self.now) {
            self.are_hosts_new = true;
            self.event(Event::Host(known));
        }
        has_room
    }

    /// Whether there is room for a host, or can be made.
    pub(crate) fn has_room(&mut self, known: &KnownHost) -> bool {
        let end = (known.datapath, known.port);
        match self.full_place(known) {
            None => {
                self.room.told.remove(&None);
                self.room.told.remove(&Some(end));
                true
            }
            Some(place) if self.make_room(place) && self.full_place(known).is_none() => true,
            Some(place) => {
                self.tally.hosts_refused += 1;
                if self.room.told.insert(place) {
                    let limit = if place.is_some() { HostLimit::Port } else { HostLimit::Network };
                    self.event(Event::HostRefused { host: *known, limit });
                }
                false
            }
        }
    }

    /// The place where a host does not fit, if it does not.
    fn full_place(&self, known: &KnownHost) -> Option<Place> {
        if self.network.is_configured(known.ipv4) {
            return None;
        }
        let end = (known.datapath, known.port);
        let (there, numbers) = self.network.host_counts();
        let Config { hosts_max, hosts_per_port, hosts, .. } = &self.config;
        let learnt = there.saturating_sub(hosts.len());
        let is_there = self.network.find_host(known.ipv4).is_some();
        let is_out_of_numbers = numbers >= hosts_max.saturating_mul(NUMBERS_PER_HOST).saturating_add(hosts.len());
        if (learnt >= *hosts_max && !is_there) || (is_out_of_numbers && !self.network.has_vacancy(end)) {
            return Some(None);
        }
        let is_learnt = |host: &HostIx| self.is_learnt(*host);
        let is_full = self.network.hosts_at(end).filter(is_learnt).nth(hosts_per_port.saturating_sub(1)).is_some();
        // One that has another Ethernet address now takes its own place.
        let is_same_port = |host: &HostIx| self.network.find_host(known.ipv4) == Some(*host);
        (is_full && !self.network.hosts_at(end).any(|host| is_same_port(&host))).then_some(Some(end))
    }

    fn is_learnt(&self, host: HostIx) -> bool {
        self.network.host(host).is_some_and(|facts| !self.network.is_configured(facts.known.ipv4))
    }

    /// Forgets a host that seems not to be there any more, or asks one whether it is.
    fn make_room(&mut self, place: Place) -> bool {
        if let Some((host, asked)) = self.room.doubts.get(&place).copied() {
            if self.now < asked.saturating_add(ANSWER_WITHIN) {
                return false;
            }
            self.room.doubts.remove(&place);
            let is_silent = self.network.host(host).is_some_and(|facts| facts.heard() < asked);
            if is_silent && self.network.is_current(host) {
                return self.forget_host(host);
            }
        }
        let Some((is_alive, _, host)) = self.longest_silent(place) else { return false };
        if !is_alive {
            return self.forget_host(host);
        }
        if let Some(known) = self.network.host(host).map(|facts| facts.known) {
            self.room.doubts.insert(place, (host, self.now));
            self.packet_out((known.datapath, known.port), question_for(known.ipv4));
        }
        false
    }

    /// The learnt host to doubt first: one whose port is dead before others, then the one that spoke longest ago.
    fn longest_silent(&self, place: Place) -> Option<(bool, Time, HostIx)> {
        let rank = |host: HostIx| {
            let facts = self.network.host(host)?;
            Some((self.network.is_alive(facts.uplink()), facts.heard(), host))
        };
        let is_learnt = |host: &HostIx| self.is_learnt(*host);
        match place {
            Some(end) => self.network.hosts_at(end).filter(is_learnt).filter_map(rank).min(),
            None => self.network.current_hosts().map(|(host, _)| host).filter(is_learnt).filter_map(rank).min(),
        }
    }

    fn forget_host(&mut self, host: HostIx) -> bool {
        self.network.retire(host);
        self.are_hosts_new = true;
        true
    }
}
