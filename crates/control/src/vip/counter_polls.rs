//! Measurements for server balancers: bytes of connections, loads of links, latencies.
//!
//! If a balancer uses bytes ([`ServerNeeds::bytes`]), the rules of connections are polled at the
//! configured interval on the switches that have any; for [`ServerNeeds::bytes_at_requests`] at
//! each new connection of its services, unless a poll is on its way.
//!
//! The bytes of a member are those of its closed connections and the counters of the others. A
//! switch may refresh its statistics every 20 s only; counters it has not refreshed are reported
//! with their former time. A round ends when every switch has replied, at the latest when the next
//! one begins.

use std::collections::{BTreeMap, BTreeSet};

use balance::server::ServerNeeds;
use net::Time;
use openflow::{ConnectionId, DatapathId, FlowSelection, FlowStats, Message, MultipartReply, MultipartRequest, Xid};

use super::rules::{Owner, SERVICE_MASK};
use super::spec::{MemberId, PoolId, ServiceId};
use super::{Parts, VipService};
use crate::updater::compile::{CLASSIFY, PURPOSE_MASK, Purpose};

#[derive(Debug, Default)]
pub(super) struct PollRound {
    /// Time of the requests; `None` if no round is open.
    sent: Option<Time>,
    out: BTreeMap<DatapathId, Xid>,
    /// Owners with counters in this round, and whether any of these was refreshed.
    read: BTreeMap<Owner, bool>,
}

impl VipService {
    pub(crate) fn poll_connections(&mut self, on: &mut Parts<'_>) {
        self.end_round(on);
        if !on.observer.wants_connections() {
            return;
        }
        let services = if on.observer.wants_flows_counted() {
            self.services.keys().copied().collect()
        } else {
            self.services_that(|needs| needs.bytes)
        };
        self.request_counters_of(on, &services);
    }

    /// Requests the counters of a pool whose balancer wants them at each new connection.
    pub(super) fn poll_at_request(&mut self, on: &mut Parts<'_>, pool: PoolId) {
        let wants = self.pools.get(&pool).is_some_and(|pool| pool.needs().bytes_at_requests);
        // A lost reply must not end the polls of a pool without an interval.
        let is_pending =
            self.round.sent.is_some_and(|sent| on.cx.now < sent.saturating_add(on.cx.config.poll_interval));
        if wants && !is_pending {
            self.end_round(on);
            let services = self.services.values().filter(|service| service.pool == pool).map(|service| service.id);
            let services = services.collect();
            self.request_counters_of(on, &services);
        }
    }

    fn request_counters_of(&mut self, on: &mut Parts<'_>, services: &BTreeSet<ServiceId>) {
        let known = self.connections.iter().map(|(_, known)| known);
        let counted = known.filter(|known| known.has_rules() && services.contains(&known.owner.service));
        let edges: BTreeSet<DatapathId> = counted.map(|known| known.edge).collect();
        let (cookie, cookie_mask) = match services.first() {
            Some(only) if services.len() == 1 => {
                (on.updater.compiler.connection_cookie(Owner { service: *only, member: MemberId(0) }), SERVICE_MASK)
            }
            _ => (on.updater.compiler.cookie(Purpose::Connect), PURPOSE_MASK),
        };
        self.round.sent = Some(on.cx.now);
        for datapath in edges {
            let Some(connection) = on.cx.channels.connection_of(datapath) else { continue };
            self.request_connection_counters(on, datapath, connection, cookie, cookie_mask);
        }
        self.end_if_complete(on);
    }

    fn request_connection_counters(
        &mut self,
        on: &mut Parts<'_>,
        datapath: DatapathId,
        connection: ConnectionId,
        cookie: u64,
        cookie_mask: u64,
    ) {
        let selection = FlowSelection { table: CLASSIFY, cookie, cookie_mask, ..FlowSelection::all() };
        let request = Message::MultipartRequest(MultipartRequest::Flow(selection));
        on.cx.channels.tally.polls += 1;
        if let Some(xid) = on.cx.channels.send(connection, request) {
            self.round.out.insert(datapath, xid);
        }
    }

    /// Handles a statistics reply. Returns whether it has counters of connections.
    pub(crate) fn connections_counted(
        &mut self,
        on: &mut Parts<'_>,
        datapath: DatapathId,
        xid: Xid,
        reply: &MultipartReply,
        has_more: bool,
    ) -> bool {
        if self.round.out.get(&datapath) != Some(&xid) {
            return false;
        }
        if let MultipartReply::Flow(entries) = reply {
            entries.iter().for_each(|entry| self.connection_counted(on, datapath, entry));
        }
        if !has_more {
            self.forget_round_of(on, datapath);
        }
        true
    }

    fn connection_counted(&mut self, on: &mut Parts<'_>, datapath: DatapathId, entry: &FlowStats) {
        let Some(found) = on.updater.compiler.connection_of(entry.cookie, &entry.into()) else { return };
        let connections = &mut self.connections;
        let Some((tuple, known)) = connections.of_rule(datapath, &found) else { return };
        let is_fresh = connections.read(&tuple, found.is_to_client, entry.bytes, entry.duration_ns);
        if !found.is_to_client {
            self.flow_counted(on, &known.translated, entry);
        }
        *self.round.read.entry(found.owner).or_default() |= is_fresh;
    }

    /// Handles the end of a switch's part of the round: a complete reply, or a disconnect.
    pub(crate) fn forget_round_of(&mut self, on: &mut Parts<'_>, datapath: DatapathId) {
        if self.round.out.remove(&datapath).is_some() {
            self.end_if_complete(on);
        }
    }

    fn end_if_complete(&mut self, on: &mut Parts<'_>) {
        if self.round.out.is_empty() {
            self.end_round(on);
        }
    }

    fn end_round(&mut self, on: &mut Parts<'_>) {
        let round = std::mem::take(&mut self.round);
        if round.sent.is_none() {
            return;
        }
        let (now, counts, services) = (on.cx.now, &self.connections.counts, &self.services);
        for (id, pool) in self.pools.iter_mut().filter(|(_, pool)| pool.needs().any_bytes()) {
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
}

impl VipService {
    fn services_that(&self, need: impl Fn(ServerNeeds) -> bool) -> BTreeSet<ServiceId> {
        let needs = |pool| self.pools.get(pool).is_some_and(|pool| need(pool.needs()));
        self.services.values().filter(|service| needs(&service.pool)).map(|service| service.id).collect()
    }

    pub(super) fn needs_of_pools(&self) -> ServerNeeds {
        self.pools.values().map(super::pool_state::PoolState::needs).fold(ServerNeeds::default(), ServerNeeds::and)
    }
}
