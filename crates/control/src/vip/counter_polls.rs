//! Measurements for server balancers: bytes of connections, loads of links, latencies.
//!
//! If a balancer uses bytes ([`ServerNeeds::bytes`]), the rules of connections are polled at the
//! configured interval on the switches that have any. The bytes of a member are those of its closed
//! connections and the counters of the others. A switch may refresh its statistics every 20 s only;
//! counters it has not refreshed are reported with their former time. A round ends when every
//! switch has replied, at the latest when the next one begins.

use std::collections::{BTreeMap, BTreeSet};

use balance::central::LinkLoad;
use balance::server::ServerNeeds;
use net::{LinkIx, Time};
use openflow::{ConnectionId, DatapathId, FlowSelection, FlowStats, Message, MultipartReply, MultipartRequest, Xid};

use super::rules::{Owner, SERVICE_MASK};
use super::spec::{MemberId, ServiceId};
use crate::controller::Controller;
use crate::planning::compile::{CLASSIFY, PURPOSE_MASK, Purpose};

#[derive(Debug, Default)]
pub(super) struct PollRound {
    is_open: bool,
    out: BTreeMap<DatapathId, Xid>,
    /// Owners with counters in this round, and whether any of these was refreshed.
    read: BTreeMap<Owner, bool>,
}

impl Controller {
    pub(crate) fn wants_ports(&self) -> bool {
        self.needs.counters || self.vips.needs.link_load
    }
    pub(crate) fn wants_polls(&self) -> bool {
        self.wants_ports() || self.wants_connections()
    }
    fn wants_connections(&self) -> bool {
        self.vips.needs.bytes || self.wants_flows_counted()
    }

    /// Handles a change of the measurements that balancers need. `had_ports`: loads of links were
    /// measured before.
    pub(crate) fn update_needs(&mut self, had_ports: bool) {
        if self.wants_ports() != had_ports {
            self.load.fill(LinkLoad::default());
            self.port_samples.clear();
        }
        let is_anyone_there = !self.connections.is_empty();
        let wanted = (self.wants_polls() && is_anyone_there).then(|| self.next_poll.unwrap_or(self.now));
        self.next_poll = wanted;
    }

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
            self.request_connection_counters(datapath, connection, cookie, cookie_mask);
        }
        self.end_if_complete();
    }

    fn request_connection_counters(
        &mut self,
        datapath: DatapathId,
        connection: ConnectionId,
        cookie: u64,
        cookie_mask: u64,
    ) {
        let selection = FlowSelection { table: CLASSIFY, cookie, cookie_mask, ..FlowSelection::all() };
        let request = Message::MultipartRequest(MultipartRequest::Flow(selection));
        self.tally.polls += 1;
        if let Some(xid) = self.send(connection, request) {
            self.vips.round.out.insert(datapath, xid);
        }
    }

    /// Handles a statistics reply. Returns whether it has counters of connections.
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
        let Some(found) = self.compiler.connection_of(entry.cookie, &entry.into()) else { return };
        let connections = &mut self.vips.connections;
        let Some((tuple, known)) = connections.of_rule(datapath, &found) else { return };
        let is_fresh = connections.read(&tuple, found.is_to_client, entry.bytes, entry.duration_ns);
        if !found.is_to_client {
            self.flow_counted(&known.translated, entry);
        }
        *self.vips.round.read.entry(found.owner).or_default() |= is_fresh;
    }

    /// Handles the end of a switch's part of the round: a complete reply, or a disconnect.
    pub(crate) fn forget_round_of(&mut self, datapath: DatapathId) {
        if self.vips.round.out.remove(&datapath).is_some() {
            self.end_if_complete();
        }
    }

    fn end_if_complete(&mut self) {
        if self.vips.round.out.is_empty() {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let round = std::mem::take(&mut self.vips.round);
        if !round.is_open {
            return;
        }
        let (now, counts, services) = (self.now, &self.vips.connections.counts, &self.vips.services);
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

    /// Applies measured latencies to the topology, if a balancer uses them. Central balancers
    /// receive them with the next change of the network only.
    pub(super) fn update_latencies(&mut self) {
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
    fn services_by_bytes(&self) -> BTreeSet<ServiceId> {
        let needs = |pool| self.pools.get(pool).is_some_and(|pool| pool.needs().bytes);
        self.services.values().filter(|service| needs(&service.pool)).map(|service| service.id).collect()
    }

    pub(super) fn needs_of_pools(&self) -> ServerNeeds {
        self.pools.values().map(super::pool_state::PoolState::needs).fold(ServerNeeds::default(), ServerNeeds::and)
    }
}
