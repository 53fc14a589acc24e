//! The desired virtual services and pools of all origins: one state that is checked, stored and
//! then passed to the controller.
//!
//! Services and pools of the configuration file are read-only in the API and follow the file at
//! every start. Ids are assigned here and stay with their names, also over restarts: rules of
//! connections carry them.

mod check;
mod field_error;
pub(crate) mod floodlight;
mod manager;
mod monitor;
mod spec;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use control::vip::{self, MEMBER_MAX, MemberId, PoolId, ServiceId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::audit::{self, Actor, Change};
pub(crate) use check::ErrorScope;
pub(crate) use field_error::{FieldError, read, require};
pub(crate) use floodlight::Floodlight;
pub(crate) use manager::{ChangeError, ServiceManager};
pub(crate) use monitor::MonitorSpec;
pub(crate) use spec::{
    Mac, MemberSpec, Name, NamedMember, OnMemberFailure, OnUnavailable, PoolSpec, Protocol, Rules, ServiceSpec,
};
pub use store::StoreError;
pub(crate) use store::{Store, WriteError};

/// The pool of services without a pool: it has no members, and clients are refused.
const EMPTY_POOL: PoolId = PoolId(0);

/// Origin of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// This API.
    Api,
    /// The configuration file; read-only in the API.
    File,
    /// Calls of the Floodlight API, under `/quantum/v1.0`; read-only in this API.
    Floodlight,
}

impl Origin {
    fn conflict(self) -> &'static str {
        match self {
            Origin::Api => "was defined by the API, under /v1: change it there",
            Origin::File => "is defined in the configuration file: change it there and restart the daemon",
            Origin::Floodlight => "was defined by Floodlight calls: change it there, under /quantum/v1.0",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConfiguredServices {
    pub(crate) services: BTreeMap<Name, ServiceSpec>,
    pub(crate) pools: BTreeMap<Name, PoolSpec>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) id: u16,
    pub(crate) origin: Origin,
    /// [`Desired::revision`] of the latest change of this service.
    #[serde(default)]
    pub(crate) revision: u64,
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pool {
    pub(crate) id: u16,
    pub(crate) origin: Origin,
    /// [`Desired::revision`] of the latest change of this pool or its members.
    #[serde(default)]
    pub(crate) revision: u64,
    pub(crate) spec: PoolSpec,
    pub(crate) members: BTreeMap<Name, u32>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Desired {
    /// Number of changes so far. It never returns to a smaller number, so that an object that was
    /// removed and created again has another revision.
    #[serde(default)]
    pub(crate) revision: u64,
    pub(crate) services: BTreeMap<Name, Service>,
    pub(crate) pools: BTreeMap<Name, Pool>,
    /// Definitions by Floodlight calls; the services and pools derived from them are in the other
    /// fields.
    #[serde(default)]
    pub(crate) floodlight: Floodlight,
    /// The ids assigned last: an id is not reused before all others have been used.
    last: LastIds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastIds {
    service: u16,
    pool: u16,
    member: u32,
}

/// Returns the next id above 0 that is not used; `None` if all are used.
fn next_free(last: u32, max: u32, is_used: impl Fn(u32) -> bool) -> Option<u32> {
    (1..=max).map(|step| (last.min(max) + step - 1) % max + 1).find(|id| !is_used(*id))
}

/// Assigns an id that no other service or pool uses.
fn new_id(last: &mut u16, used: impl Iterator<Item = u16>, what: &str) -> Result<u16, ChangeError> {
    let used: BTreeSet<u16> = used.collect();
    let free = next_free((*last).into(), u16::MAX.into(), |id| used.contains(&(id as u16)));
    *last = free.ok_or_else(|| ChangeError::Conflict(format!("there are 65535 {what} already")))? as u16;
    Ok(*last)
}

/// Returns the id of a definition if there is one.
///
/// # Errors
/// It has another origin.
fn known_id(name: &Name, origin: Origin, found: Option<(u16, Origin)>) -> Result<Option<u16>, ChangeError> {
    match found {
        Some((_, other)) if other != origin => Err(ChangeError::Conflict(format!("`{name}` {}", other.conflict()))),
        _ => Ok(found.map(|(id, _)| id)),
    }
}

impl Desired {
    /// Gives the next revision to the state, and to every definition that differs from `before`.
    pub(crate) fn number(&mut self, before: &Desired) {
        self.revision = before.revision + 1;
        for (name, service) in &mut self.services {
            if before.services.get(name) != Some(service) {
                service.revision = self.revision;
            }
        }
        for (name, pool) in &mut self.pools {
            if before.pools.get(name) != Some(pool) {
                pool.revision = self.revision;
            }
        }
    }

    /// Returns the line of the audit log for a change from this state.
    pub(crate) fn change_to(&self, after: &Desired, by: Actor) -> Change {
        /// Depth of one definition: kind and name, below `floodlight` one level more.
        const DEPTH: u32 = 2;
        let definitions = |desired: &Desired| json!({ "services": desired.services, "pools": desired.pools });
        let (mut old, mut new) = audit::difference(&definitions(self), &definitions(after), DEPTH);
        if self.floodlight != after.floodlight {
            let floodlight = |desired: &Desired| json!(desired.floodlight);
            let (before, after) = audit::difference(&floodlight(self), &floodlight(after), DEPTH);
            (old["floodlight"], new["floodlight"]) = (before, after);
        }
        Change { by, revision: Some(after.revision), before: old, after: new }
    }

    /// Adds or replaces a service. Returns whether it is new.
    ///
    /// # Errors
    /// The service has another origin, or all ids are used.
    pub(crate) fn put_service(&mut self, origin: Origin, name: &Name, spec: ServiceSpec) -> Result<bool, ChangeError> {
        let known = known_id(name, origin, self.services.get(name).map(|service| (service.id, service.origin)))?;
        let used = self.services.values().map(|service| service.id);
        let id = known.map_or_else(|| new_id(&mut self.last.service, used, "services"), Ok)?;
        let revision = self.services.get(name).map_or(0, |service| service.revision);
        self.services.insert(name.clone(), Service { id, origin, revision, spec });
        Ok(known.is_none())
    }

    /// Removes a service. Returns whether it existed.
    ///
    /// # Errors
    /// The service has another origin.
    pub(crate) fn remove_service(&mut self, origin: Origin, name: &Name) -> Result<bool, ChangeError> {
        known_id(name, origin, self.services.get(name).map(|service| (service.id, service.origin)))?;
        Ok(self.services.remove(name).is_some())
    }

    /// Adds or replaces a pool. Returns whether it is new.
    ///
    /// # Errors
    /// The pool has another origin, or all ids are used.
    pub(crate) fn put_pool(&mut self, origin: Origin, name: &Name, spec: PoolSpec) -> Result<bool, ChangeError> {
        let known = known_id(name, origin, self.pools.get(name).map(|pool| (pool.id, pool.origin)))?;
        let used = self.pools.values().map(|pool| pool.id);
        let id = known.map_or_else(|| new_id(&mut self.last.pool, used, "pools"), Ok)?;
        let members = self.member_ids(name, &spec);
        let revision = self.pools.get(name).map_or(0, |pool| pool.revision);
        self.pools.insert(name.clone(), Pool { id, origin, revision, spec, members });
        Ok(known.is_none())
    }

    /// Returns the ids of the members of a pool. A changed address or port makes another member
    /// with a new id: connections stay with the old one.
    fn member_ids(&mut self, pool: &Name, spec: &PoolSpec) -> BTreeMap<Name, u32> {
        let before = self.pools.get(pool);
        let mut used: BTreeSet<u32> = before.into_iter().flat_map(|pool| pool.members.values().copied()).collect();
        let mut last = self.last.member;
        let id_of = |member: &NamedMember| {
            let endpoint = |member: &NamedMember| (member.spec().address, member.spec().port);
            let kept = before.and_then(|pool| {
                let same = pool.spec.member(&member.name).is_some_and(|other| endpoint(other) == endpoint(member));
                pool.members.get(&member.name).copied().filter(|_| same)
            });
            let id = kept.or_else(|| next_free(last, MEMBER_MAX.0, |id| used.contains(&id)));
            // A request is far too short for as many members as there are ids.
            let id = id.unwrap_or(MEMBER_MAX.0);
            if kept.is_none() {
                last = id;
                used.insert(id);
            }
            (member.name.clone(), id)
        };
        let ids = spec.members.iter().map(id_of).collect();
        self.last.member = last;
        ids
    }

    /// Removes a pool. Returns whether it existed.
    ///
    /// # Errors
    /// The pool has another origin, or services use it.
    pub(crate) fn remove_pool(&mut self, origin: Origin, name: &Name) -> Result<bool, ChangeError> {
        if known_id(name, origin, self.pools.get(name).map(|pool| (pool.id, pool.origin)))?.is_none() {
            return Ok(false);
        }
        if let Some(user) = self.users_of(name).next() {
            return Err(ChangeError::Conflict(format!(
                "pool `{name}` is used by service `{user}`: assign another pool to the service first"
            )));
        }
        Ok(self.pools.remove(name).is_some())
    }

    pub(crate) fn users_of(&self, pool: &Name) -> impl Iterator<Item = &Name> {
        self.services.iter().filter(move |(_, service)| service.spec.pool.as_ref() == Some(pool)).map(|(name, _)| name)
    }
    /// Replaces all definitions of an origin.
    ///
    /// # Errors
    /// A definition has another origin, or all ids are used.
    pub(crate) fn follow(&mut self, origin: Origin, defined: &ConfiguredServices) -> Result<(), ChangeError> {
        let ConfiguredServices { services, pools } = defined;
        self.services.retain(|name, service| service.origin != origin || services.contains_key(name));
        self.pools.retain(|name, pool| pool.origin != origin || pools.contains_key(name));
        pools.iter().try_for_each(|(name, spec)| self.put_pool(origin, name, spec.clone()).map(drop))?;
        services.iter().try_for_each(|(name, spec)| self.put_service(origin, name, spec.clone()).map(drop))
    }
    /// Derives services and pools from the Floodlight definitions again.
    ///
    /// # Errors
    /// The definitions conflict with those of other origins.
    pub(crate) fn follow_floodlight(&mut self, checker: Option<Ipv4Addr>) -> Result<(), ChangeError> {
        let defined = self.floodlight.lower(checker)?;
        self.follow(Origin::Floodlight, &defined)?;
        Ok(self.check(checker, ErrorScope::All)?)
    }

    pub(crate) fn compile(&self) -> vip::Services {
        let pool_of = |spec: &ServiceSpec| {
            let pool = spec.pool.as_ref().and_then(|name| self.pools.get(name));
            pool.map_or(EMPTY_POOL, |pool| PoolId(pool.id))
        };
        let service = |service: &Service| {
            let ServiceSpec { address, protocol, port, mac, idle_timeout_s, rules, client_slots, .. } = service.spec;
            let traffic = net::Bandwidth::from_mbps(service.spec.expected_mbps.into());
            let rules = match rules {
                Rules::Connection => vip::Rules::Connection,
                Rules::Wildcard => vip::Rules::Wildcard { buckets: client_slots },
                Rules::Mux => vip::Rules::Mux { buckets: client_slots, traffic },
            };
            vip::Service {
                id: ServiceId(service.id),
                address,
                mac: mac.map(|mac| mac.0),
                protocol: protocol.into(),
                port,
                pool: pool_of(&service.spec),
                idle_timeout_s,
                rules,
                is_tunnelled: false,
            }
        };
        let mut pools: Vec<vip::Pool> = self.pools.values().map(Pool::compile).collect();
        if self.services.values().any(|service| service.spec.pool.is_none()) {
            let (established, refusal) = (vip::Established::Keep, vip::Refusal::Reset);
            // `maglev` supports both kinds of rules.
            let (monitor, members, balancer) = (None, Vec::new(), "maglev".to_owned());
            pools.push(vip::Pool { id: EMPTY_POOL, balancer, monitor, members, established, refusal });
        }
        vip::Services { services: self.services.values().map(service).collect(), pools }
    }
}

impl Pool {
    fn compile(&self) -> vip::Pool {
        let member = |member: &NamedMember| {
            let MemberSpec { address, port, weight, is_enabled } = member.spec();
            let id = MemberId(self.members.get(&member.name).copied().unwrap_or_default());
            vip::Member { id, address, port, weight, is_enabled }
        };
        vip::Pool {
            id: PoolId(self.id),
            balancer: self.spec.balancer.clone(),
            monitor: self.spec.monitor.as_ref().map(MonitorSpec::compile),
            members: self.spec.members.iter().map(member).collect(),
            established: self.spec.on_member_failure.into(),
            refusal: self.spec.on_unavailable.into(),
        }
    }
}

#[cfg(test)]
mod tests;
