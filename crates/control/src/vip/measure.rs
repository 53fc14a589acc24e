//! What pickers measure: bytes of connections that live, loads of links, latencies.
//!
//! Where a picker goes by bytes ([`ServerNeeds::bytes`]), the rules of connections are polled at the interval of the
//! configuration, on the switches that have any. The bytes of a member are those of its connections that are over and
//! what the counters say of the others: a switch that refreshes its statistics every 20 s is believed every 20 s, and
//! what it has not refreshed is told with the time it had before. A round ends when every switch has answered, at the
//! latest when the next one begins.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::LinkLoad;
use balance::server::ServerNeeds;
use net::{LinkIx, Time};
use openflow::{ConnectionId, DatapathId, FlowSelection, FlowStats, Message, MultipartReply, MultipartRequest, Xid};

use super::rules::{Owner, SERVICE_MASK, Way};
use super::spec::{MemberId, ServiceId};
use super::survey::key_of;
use crate::compile::{CLASSIFY, PURPOSE_MASK, Purpose};
use crate::controller::Controller;

/// A poll of the rules of connections.
#[derive(Debug, Default)]
pub(super) struct Round {
    is_open: bool,
    /// Requests that have not been answered.
    out: BTreeMap<DatapathId, Xid>,
    /// Of whom counters were read, and whether any of them had been refreshed.
    read: BTreeMap<Owner, bool>,
}

impl Controller {
    /// Whether loads of links are measured.
    pub(crate) fn wants_ports(&self) -> bool {
        self.needs.counters || self.vips.needs.link_load
    }
    /// Whether any counters are.
    pub(crate) fn wants_polls(&self) -> bool {
        self.wants_ports() || self.wants_connections()
    }
    /// Whether the rules of connections are.
    fn wants_connections(&self) -> bool {
        self.vips.needs.bytes || self.wants_flows_counted()
    }

    /// Balancers need other measurements than before, when loads of links were measured or not (`had_ports`).
    pub(crate) fn follow_needs(&mut self, had_ports: bool) {
        if self.wants_ports() != had_ports {
            self.load.fill(LinkLoad::default());
            self.port_samples.clear();
        }
        let is_anyone_there = !self.connections.is_empty();
        let wanted = (self.wants_polls() && is_anyone_there).then(|| self.next_poll.unwrap_or(self.now));
        self.next_poll = wanted;
    }

    /// Asks switches for the counters of connections.
    pub(crate) fn poll_connections(&mut self) {
        self.end_round();
        if !self.wants_connections() {
            return;
        }
        let services = if self.wants_flows_counted() {
            self.vips.services.keys().copied().collect()
        } else {
            self.vips.services_by_bytes()
        };
        let known = self.vips.connections.iter().map(|(_, known)| known);
        let counted = known.filter(|known| known.has_rules() && services.contains(&known.owner.service));
        let edges: BTreeSet<DatapathId> = counted.map(|known| known.edge).collect();
        let (cookie, cookie_mask) = match services.first() {
            Some(only) if services.len() == 1 => {
                (self.compiler.connection_cookie(Owner { service: *only, member: MemberId(0) }), SERVICE_MASK)
            }
            _ => (self.compiler.cookie(Purpose::Connect), PURPOSE_MASK),
        };
        self.vips.round.is_open = true;
        for datapath in edges {
            let Some(connection) = self.connections.get(&datapath).copied() else { continue };
            self.ask_for_connections(datapath, connection, cookie, cookie_mask);
        }
        self.end_if_answered();
    }

    fn ask_for_connections(&mut self, datapath: DatapathId, connection: ConnectionId, cookie: u64, cookie_mask: u64) {
        let selection = FlowSelection { table: CLASSIFY, cookie, cookie_mask, ..FlowSelection::all() };
        let request = Message::MultipartRequest(MultipartRequest::Flow(selection));
        self.tally.polls += 1;
        if let Some(xid) = self.send(connection, request) {
            self.vips.round.out.insert(datapath, xid);
        }
    }

    /// Statistics came; whether they are those of connections.
    pub(crate) fn connections_counted(
        &mut self,
        datapath: DatapathId,
        xid: Xid,
        reply: &MultipartReply,
        has_more: bool,
    ) -> bool {
        if self.vips.round.out.get(&datapath) != Some(&xid) {
            return false;
        }
        if let MultipartReply::Flow(entries) = reply {
            entries.iter().for_each(|entry| self.connection_counted(datapath, entry));
        }
        if !has_more {
            self.forget_round_of(datapath);
        }
        true
    }

    fn connection_counted(&mut self, datapath: DatapathId, entry: &FlowStats) {
        let Some(found) = self.compiler.connection_of(entry.cookie, &key_of(entry)) else { return };
        let connections = &mut self.vips.connections;
        let tuple = match found.way {
            Way::Forth => Some(found.tuple),
            Way::Back => connections.find_inner(&found.tuple.reverse()),
        };
        let is_it = |known: &super::table::Connection| (known.owner, known.edge) == (found.owner, datapath);
        let Some(tuple) = tuple.filter(|tuple| connections.get(tuple).is_some_and(is_it)) else { return };
        let is_fresh = connections.read(&tuple, found.way.is_back(), entry.bytes, entry.duration_ns);
        if found.way == Way::Forth
            && let Some(inner) = self.vips.connections.get(&tuple).map(|known| known.inner)
        {
            self.flow_counted(&inner, entry);
        }
        *self.vips.round.read.entry(found.owner).or_default() |= is_fresh;
    }

    /// A switch has answered, or will not any more.
    pub(crate) fn forget_round_of(&mut self, datapath: DatapathId) {
        if self.vips.round.out.remove(&datapath).is_some() {
            self.end_if_answered();
        }
    }

    fn end_if_answered(&mut self) {
        if self.vips.round.out.is_empty() {
            self.end_round();
        }
    }

    /// Tells pickers what was counted.
    fn end_round(&mut self) {
        let round = std::mem::take(&mut self.vips.round);
        if !round.is_open {
            return;
        }
        let (now, counts, services) = (self.now, self.vips.connections.counts(), &self.vips.services);
        for (id, pool) in self.vips.pools.iter_mut().filter(|(_, pool)| pool.needs().bytes) {
            let of_pool: Vec<ServiceId> =
                services.values().filter(|service| service.pool == *id).map(|service| service.id).collect();
            for member in pool.members.keys().copied().collect::<Vec<_>>() {
                let owners = of_pool.iter().map(|service| Owner { service: *service, member });
                let (mut bytes, mut is_fresh) = (0, true);
                for owner in owners {
                    let counts = counts.get(&owner).copied().unwrap_or_default();
                    bytes += counts.bytes_in + counts.bytes_out;
                    is_fresh &= counts.connections == 0 || round.read.get(&owner) == Some(&true);
                }
                pool.counted(member, bytes, is_fresh.then_some(now));
            }
        }
    }

    /// Measured latencies become those of the topology, where a picker goes by them: central balancers learn of them with the
    /// next change of the network only.
    pub(super) fn follow_latencies(&mut self) {
        if !self.vips.needs.latency || !std::mem::take(&mut self.discovery.has_measured) {
            return;
        }
        let ends = self.network.switch_links();
        let discovery = &self.discovery;
        let latency = |link: LinkIx| ends.get(&link).and_then(|(from, to)| discovery.latency(*from, *to));
        self.network.set_delays(|link| latency(link).filter(|measured| *measured > Time::ZERO));
    }
}

impl super::Vips {
    /// Services whose pickers go by bytes.
    fn services_by_bytes(&self) -> BTreeSet<ServiceId> {
        let needs = |pool| self.pools.get(pool).is_some_and(|pool| pool.needs().bytes);
        self.services.values().filter(|service| needs(&service.pool)).map(|service| service.id).collect()
    }

    /// What the pickers of all pools need.
    pub(super) fn needs_of_pools(&self) -> ServerNeeds {
        self.pools.values().map(super::pools::PoolNow::needs).fold(ServerNeeds::default(), ServerNeeds::and)
    }
}
