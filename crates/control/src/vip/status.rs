//! The status of virtual services.

use core::net::Ipv4Addr;
use openflow::{DatapathId, FlowStats};

use super::VipService;
use super::client_slots::SlotTable;
use super::connection_table::Counts;
use super::health::Failure;
use super::rules::Owner;
use super::spec::{MemberId, PoolId, Service, ServiceId};
use crate::updater::compile::Compiler;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    Up,
    /// Its host is unknown; the controller probes for it.
    Unknown,
    /// Its port is down, or its switch is disconnected.
    Unplugged,
    Failing(Failure),
}

impl MemberState {
    pub const fn words(self) -> &'static str {
        match self {
            MemberState::Up => "up",
            MemberState::Unknown => "not seen: no ARP reply",
            MemberState::Unplugged => "its port is down, or its switch is disconnected",
            MemberState::Failing(Failure::NoAnswer) => "failing: no reply to checks",
            MemberState::Failing(Failure::Refused) => "failing: it refuses connections",
            MemberState::Failing(Failure::NotHttp) => "failing: its reply is not HTTP",
            MemberState::Failing(Failure::Status(_)) => "failing: its HTTP status is not an expected one",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberStatus {
    pub id: MemberId,
    /// IPv4 address of the server.
    pub address: Ipv4Addr,
    /// Port; `None`: that of the service.
    pub port: Option<u16>,
    /// Whether it was removed from the pool and only keeps its connections.
    pub is_leaving: bool,
    /// Whether its configuration allows new connections.
    pub is_enabled: bool,
    pub state: MemberState,
    /// Counts of its connections of this service that have their own rules.
    pub counts: Counts,
    /// Number of client slots of the service it serves ([`super::Rules::Wildcard`]).
    pub buckets: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceStatus {
    pub service: Service,
    /// Counts of its connections that have their own rules, those of former members included.
    pub counts: Counts,
    /// Switch that its packets go to ([`super::Rules::Mux`]); `None`: the controller picks members.
    pub mux: Option<DatapathId>,
    /// Number of migrating client slots ([`super::Rules::Wildcard`]).
    pub moving: usize,
    pub members: Vec<MemberStatus>,
}

impl VipService {
    pub(crate) fn services(&self) -> Vec<ServiceStatus> {
        let now = |(id, service): (&ServiceId, &Service)| ServiceStatus {
            service: service.clone(),
            counts: self.counts_of(*id),
            mux: self.muxes.active(*id),
            moving: self.wildcards.of.get(id).map_or(0, SlotTable::moving),
            members: self.members_of(*id, service.pool),
        };
        self.services.iter().map(now).collect()
    }

    fn counts_of(&self, service: ServiceId) -> Counts {
        let mut sum = Counts::default();
        let of_service = self.connections.counts.iter().filter(|(owner, _)| owner.service == service);
        of_service.for_each(|(_, counts)| sum.add(counts));
        sum
    }

    fn members_of(&self, service: ServiceId, pool: PoolId) -> Vec<MemberStatus> {
        let Some(pool) = self.pools.get(&pool) else { return Vec::new() };
        let now = |(id, facts): (&MemberId, &super::pool_state::MemberEntry)| MemberStatus {
            id: *id,
            address: facts.spec.address,
            port: facts.spec.port,
            is_leaving: facts.is_removed,
            is_enabled: facts.spec.is_enabled,
            state: facts.state,
            counts: self.connections.counts.get(&Owner { service, member: *id }).copied().unwrap_or_default(),
            buckets: self.wildcards.of.get(&service).map_or(0, |buckets| buckets.count_of(*id)),
        };
        pool.members.iter().map(now).collect()
    }

    pub(crate) fn is_connection_rule(&self, compiler: Compiler, rule: &FlowStats) -> bool {
        self.read_rule(compiler, rule).is_some_and(|(found, ends)| compiler.is_rule_of(rule, &ends, found.is_to_client))
    }

    pub(crate) fn virtual_connections(
        &self,
    ) -> impl Iterator<Item = (net::FiveTuple, openflow::DatapathId, ServiceId, MemberId)> {
        let connections = self.connections.iter().filter(|(_, connection)| connection.has_rules());
        connections
            .map(|(tuple, connection)| (*tuple, connection.edge, connection.owner.service, connection.owner.member))
    }
}
