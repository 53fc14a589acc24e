//! What can be read of virtual services.

use core::net::Ipv4Addr;
use openflow::FlowStats;

use super::buckets::Buckets;
use super::health::Failure;
use super::rules::Owner;
use super::spec::{MemberId, PoolId, Service, ServiceId};
use super::table::Counts;
use crate::controller::Controller;

/// Whether a member can serve, and why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// It can.
    Up,
    /// Nobody has heard of its address; it is asked for.
    Unknown,
    /// Its port is down, or its switch is gone.
    Unplugged,
    /// Checks say that it does not serve.
    Failing(Failure),
}

impl MemberState {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            MemberState::Up => "up",
            MemberState::Unknown => "not seen: no answer to ARP",
            MemberState::Unplugged => "its port is down, or its switch is gone",
            MemberState::Failing(Failure::NoAnswer) => "failing: no answer to checks",
            MemberState::Failing(Failure::Refused) => "failing: it refuses connections",
            MemberState::Failing(Failure::NotHttp) => "failing: its answer is not HTTP",
            MemberState::Failing(Failure::Status(_)) => "failing: it answers with another status than expected",
        }
    }
}

/// A member as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberNow {
    /// Its number.
    pub id: MemberId,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its port, if it is not that of the service.
    pub port: Option<u16>,
    /// Whether it is not wanted any more and only keeps the connections it has.
    pub is_leaving: bool,
    /// Whether it may get new connections as far as the administrator is concerned.
    pub is_enabled: bool,
    /// Whether it can serve.
    pub state: MemberState,
    /// Its connections of this service that have rules of their own.
    pub counts: Counts,
    /// How many buckets of the service it serves ([`super::Rules::Wildcard`]).
    pub buckets: usize,
}

/// A service as it is now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceNow {
    /// What is wanted.
    pub service: Service,
    /// Its connections that have rules of their own, those of members that have gone included.
    pub counts: Counts,
    /// How many buckets ([`super::Rules::Wildcard`]) are moving from one member to another.
    pub moving: usize,
    /// Its members by number.
    pub members: Vec<MemberNow>,
}

impl Controller {
    /// Virtual services as they are now, by number. Bytes are those told of by polls and by rules that went.
    pub fn services(&self) -> Vec<ServiceNow> {
        let now = |(id, service): (&ServiceId, &Service)| ServiceNow {
            service: service.clone(),
            counts: self.counts_of(*id),
            moving: self.vips.wildcards.of.get(id).map_or(0, Buckets::moving),
            members: self.members_of(*id, service.pool),
        };
        self.vips.services.iter().map(now).collect()
    }

    fn counts_of(&self, service: ServiceId) -> Counts {
        let mut sum = Counts::default();
        let of_service = self.vips.connections.counts().iter().filter(|(owner, _)| owner.service == service);
        of_service.for_each(|(_, counts)| sum.add(counts));
        sum
    }

    fn members_of(&self, service: ServiceId, pool: PoolId) -> Vec<MemberNow> {
        let Some(pool) = self.vips.pools.get(&pool) else { return Vec::new() };
        let now = |(id, facts): (&MemberId, &super::pools::MemberFacts)| MemberNow {
            id: *id,
            address: facts.spec.address,
            port: facts.spec.port,
            is_leaving: facts.is_leaving,
            is_enabled: facts.spec.is_enabled,
            state: facts.state,
            counts: self.vips.connections.counts().get(&Owner { service, member: *id }).copied().unwrap_or_default(),
            buckets: self.vips.wildcards.of.get(&service).map_or(0, |buckets| buckets.count_of(*id)),
        };
        pool.members.iter().map(now).collect()
    }

    /// Whether a rule is one of a connection to a virtual service, exactly as this controller writes it. Such rules are the
    /// switch's: they are not among [`Controller::desired_entries`].
    pub fn is_connection_rule(&self, rule: &FlowStats) -> bool {
        self.read_rule(rule).is_some_and(|(found, ends)| self.compiler.is_rule_of(rule, &ends, found.way))
    }

    /// Connections with rules, with the switch that has them and the member that serves.
    pub fn virtual_connections(
        &self,
    ) -> impl Iterator<Item = (net::FiveTuple, openflow::DatapathId, ServiceId, MemberId)> {
        let connections = self.vips.connections.iter().filter(|(_, connection)| connection.has_rules());
        connections
            .map(|(tuple, connection)| (*tuple, connection.edge, connection.owner.service, connection.owner.member))
    }
}
