//! Virtual services and pools that are wanted, whoever wants them: one state, which is checked, written down, and then
//! handed to the controller.
//!
//! What the configuration file defines is read-only elsewhere: it follows the file at every start. Numbers are given out
//! here and stay with their names, also over restarts: rules of connections carry them.

mod check;
mod fault;
pub(crate) mod floodlight;
mod keeper;
mod monitor;
mod spec;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use control::vip::{self, MEMBER_MAX, MemberId, PoolId, ServiceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(crate) use check::Focus;
pub(crate) use fault::{Fault, read};
pub(crate) use floodlight::Floodlight;
pub(crate) use keeper::{Keeper, Refused};
pub(crate) use monitor::MonitorSpec;
pub(crate) use spec::{
    Established, Mac, MemberSpec, Name, NamedMember, PoolSpec, Protocol, Refusal, Rules, ServiceSpec,
};
pub(crate) use store::Store;
pub use store::StoreError;

/// The pool of services that have none: nobody serves, and clients are told.
const NOBODY: PoolId = PoolId(0);

/// Who wants something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    /// This API.
    Api,
    /// The configuration file; cannot be changed here.
    File,
    /// Floodlight's calls, under `/quantum/v1.0`; cannot be changed here.
    Floodlight,
}

impl Origin {
    fn words(self) -> &'static str {
        match self {
            Origin::Api => "was made by the API, under /v1: change it there",
            Origin::File => "is defined in the configuration file: change it there and start again",
            Origin::Floodlight => "was made by Floodlight's calls: change it there, under /quantum/v1.0",
        }
    }
}

/// What the configuration file defines.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Defined {
    pub(crate) services: BTreeMap<Name, ServiceSpec>,
    pub(crate) pools: BTreeMap<Name, PoolSpec>,
}

/// A service with its number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) number: u16,
    pub(crate) origin: Origin,
    pub(crate) spec: ServiceSpec,
}

/// A pool with its number and those of its members.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pool {
    pub(crate) number: u16,
    pub(crate) origin: Origin,
    pub(crate) spec: PoolSpec,
    pub(crate) members: BTreeMap<Name, u32>,
}

/// All that is wanted.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Desired {
    pub(crate) services: BTreeMap<Name, Service>,
    pub(crate) pools: BTreeMap<Name, Pool>,
    /// As Floodlight's calls told it; what it comes to is among the services and pools.
    #[serde(default)]
    pub(crate) floodlight: Floodlight,
    /// The numbers given out last: others are used before one is used again.
    last: Numbers,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Numbers {
    service: u16,
    pool: u16,
    member: u32,
}

/// The next number above 0 that is not used; `None` if all are.
fn next_free(last: u32, max: u32, is_used: impl Fn(u32) -> bool) -> Option<u32> {
    (1..=max).map(|step| (last.min(max) + step - 1) % max + 1).find(|number| !is_used(*number))
}

fn may(name: &Name, origin: Origin, found: Origin) -> Result<(), Refused> {
    if origin == found { Ok(()) } else { Err(Refused::Conflict(format!("`{name}` {}", found.words()))) }
}

impl Desired {
    /// Wants a service; whether there was none of its name.
    ///
    /// # Errors
    /// It is someone else's, or there are too many.
    pub(crate) fn put_service(&mut self, origin: Origin, name: &Name, spec: ServiceSpec) -> Result<bool, Refused> {
        if let Some(service) = self.services.get_mut(name) {
            may(name, origin, service.origin)?;
            service.spec = spec;
            return Ok(false);
        }
        let used: BTreeSet<u16> = self.services.values().map(|service| service.number).collect();
        let free = next_free(self.last.service.into(), u16::MAX.into(), |number| used.contains(&(number as u16)));
        let number = free.ok_or_else(|| Refused::Conflict("there are 65535 services already".to_owned()))? as u16;
        self.last.service = number;
        self.services.insert(name.clone(), Service { number, origin, spec });
        Ok(true)
    }

    /// Does not want a service any more; whether it was wanted.
    ///
    /// # Errors
    /// It is someone else's.
    pub(crate) fn remove_service(&mut self, origin: Origin, name: &Name) -> Result<bool, Refused> {
        let Some(service) = self.services.get(name) else { return Ok(false) };
        may(name, origin, service.origin)?;
        Ok(self.services.remove(name).is_some())
    }

    /// Wants a pool; whether there was none of its name.
    ///
    /// # Errors
    /// It is someone else's, or there are too many.
    pub(crate) fn put_pool(&mut self, origin: Origin, name: &Name, spec: PoolSpec) -> Result<bool, Refused> {
        let before = self.pools.get(name);
        if let Some(before) = before {
            may(name, origin, before.origin)?;
        }
        let is_new = before.is_none();
        let number = match before {
            Some(before) => before.number,
            None => {
                let used: BTreeSet<u16> = self.pools.values().map(|pool| pool.number).collect();
                let free = next_free(self.last.pool.into(), u16::MAX.into(), |number| used.contains(&(number as u16)));
                let number = free.ok_or_else(|| Refused::Conflict("there are 65535 pools already".to_owned()))? as u16;
                self.last.pool = number;
                number
            }
        };
        let members = self.number_members(name, &spec);
        self.pools.insert(name.clone(), Pool { number, origin, spec, members });
        Ok(is_new)
    }

    /// Numbers of the members of a pool. Who has another address or port than before is another server, and gets another
    /// number: connections stay with the one they have.
    fn number_members(&mut self, pool: &Name, spec: &PoolSpec) -> BTreeMap<Name, u32> {
        let before = self.pools.get(pool);
        let mut used: BTreeSet<u32> = before.into_iter().flat_map(|pool| pool.members.values().copied()).collect();
        let mut last = self.last.member;
        let number = |member: &NamedMember| {
            let place = |member: &NamedMember| (member.spec().address, member.spec().port);
            let kept = before.and_then(|pool| {
                let same = pool.spec.member(&member.name).is_some_and(|other| place(other) == place(member));
                pool.members.get(&member.name).copied().filter(|_| same)
            });
            let number = kept.or_else(|| next_free(last, MEMBER_MAX.0, |number| used.contains(&number)));
            // A request is far too short to name as many members as there are numbers.
            let number = number.unwrap_or(MEMBER_MAX.0);
            if kept.is_none() {
                last = number;
                used.insert(number);
            }
            (member.name.clone(), number)
        };
        let numbers = spec.members.iter().map(number).collect();
        self.last.member = last;
        numbers
    }

    /// Does not want a pool any more; whether it was wanted.
    ///
    /// # Errors
    /// It is someone else's, or services use it.
    pub(crate) fn remove_pool(&mut self, origin: Origin, name: &Name) -> Result<bool, Refused> {
        let Some(pool) = self.pools.get(name) else { return Ok(false) };
        may(name, origin, pool.origin)?;
        if let Some(user) = self.users_of(name).next() {
            return Err(Refused::Conflict(format!(
                "pool `{name}` serves `{user}`: give that service another pool first"
            )));
        }
        Ok(self.pools.remove(name).is_some())
    }

    /// Services a pool serves.
    pub(crate) fn users_of(&self, pool: &Name) -> impl Iterator<Item = &Name> {
        self.services.iter().filter(move |(_, service)| service.spec.pool.as_ref() == Some(pool)).map(|(name, _)| name)
    }

    /// What an origin wants is this, and no more.
    ///
    /// # Errors
    /// Something of it is someone else's, or there are too many.
    pub(crate) fn follow(&mut self, origin: Origin, defined: &Defined) -> Result<(), Refused> {
        let Defined { services, pools } = defined;
        self.services.retain(|name, service| service.origin != origin || services.contains_key(name));
        self.pools.retain(|name, pool| pool.origin != origin || pools.contains_key(name));
        pools.iter().try_for_each(|(name, spec)| self.put_pool(origin, name, spec.clone()).map(drop))?;
        services.iter().try_for_each(|(name, spec)| self.put_service(origin, name, spec.clone()).map(drop))
    }

    /// What Floodlight's calls told has changed: services and pools follow.
    ///
    /// # Errors
    /// It does not go with what others want.
    pub(crate) fn follow_floodlight(&mut self, checker: Option<Ipv4Addr>) -> Result<(), Refused> {
        let defined = self.floodlight.lower(checker)?;
        self.follow(Origin::Floodlight, &defined)?;
        Ok(self.check(checker, Focus::All)?)
    }

    /// As the controller takes it.
    pub(crate) fn compile(&self) -> vip::Services {
        let pool_of = |spec: &ServiceSpec| {
            let pool = spec.pool.as_ref().and_then(|name| self.pools.get(name));
            pool.map_or(NOBODY, |pool| PoolId(pool.number))
        };
        let service = |service: &Service| {
            let ServiceSpec { address, protocol, port, mac, idle_timeout_s, .. } = service.spec;
            let rules = service.spec.rules();
            vip::Service {
                id: ServiceId(service.number),
                address,
                mac: mac.map(|mac| mac.0),
                protocol: protocol.into(),
                port,
                pool: pool_of(&service.spec),
                idle_timeout_s,
                rules,
            }
        };
        let mut pools: Vec<vip::Pool> = self.pools.values().map(Pool::compile).collect();
        if self.services.values().any(|service| service.spec.pool.is_none()) {
            let (established, refusal) = (vip::Established::Keep, vip::Refusal::Reset);
            // One that goes with whichever rules a service wants.
            let (monitor, members, balancer) = (None, Vec::new(), "maglev".to_owned());
            pools.push(vip::Pool { id: NOBODY, balancer, monitor, members, established, refusal });
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
            id: PoolId(self.number),
            balancer: self.spec.balancer.clone(),
            monitor: self.spec.monitor.as_ref().map(MonitorSpec::compile),
            members: self.spec.members.iter().map(member).collect(),
            established: self.spec.established.into(),
            refusal: self.spec.refusal.into(),
        }
    }
}

#[cfg(test)]
mod tests;
