//! What the API shows of virtual services and pools: what is wanted, and how it is now.

use control::vip::{Counts, Failure, MemberId, MemberNow, MemberState, ServiceNow};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

use super::problem::Problem;
use crate::metrics::{Served, Serving};
use crate::server::Handle;
use crate::services::{self, Desired, Floodlight, MonitorSpec, Name, Origin, PoolSpec, Protocol, Refusal, Rules};
use crate::services::{Established, Mac, NamedMember};

/// Connections of a service or member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Load {
    /// Now.
    pub(crate) connections: u64,
    /// In all, since the controller started.
    pub(crate) connections_total: u64,
    /// Bytes from clients, as far as switches have told.
    pub(crate) bytes_in: u64,
    /// Bytes to clients, as far as switches have told.
    pub(crate) bytes_out: u64,
}

impl From<Counts> for Load {
    fn from(counts: Counts) -> Load {
        let Counts { connections, connections_total, bytes_in, bytes_out } = counts;
        Load { connections, connections_total, bytes_in, bytes_out }
    }
}

/// Whether a member can serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It can.
    Up,
    /// Nobody has heard of its address; it is asked for.
    Unknown,
    /// Its port is down, or its switch is gone.
    Unplugged,
    /// Checks say that it does not serve.
    Failing,
    /// No service uses its pool: nobody has looked.
    Unused,
}

/// A member of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Member {
    /// Its name; null once it is not wanted any more, and only keeps the connections it has.
    pub(crate) name: Option<Name>,
    /// Its number within its pool, as events and rules have it.
    pub(crate) number: u32,
    /// Its IPv4 address.
    pub(crate) address: String,
    /// Its port, if it is not that of the service.
    pub(crate) port: Option<u16>,
    /// Its share of new connections relative to the others'.
    pub(crate) weight: u32,
    /// Whether it may get new connections as far as the administrator is concerned.
    pub(crate) is_enabled: bool,
    /// Whether it can serve.
    pub(crate) state: State,
    /// The same in words, with the reason.
    pub(crate) state_words: String,
    /// Its connections that have rules of their own.
    pub(crate) load: Load,
    /// Parts of the clients of services with wildcard rules whose connections it gets.
    pub(crate) buckets: u32,
}

/// A virtual service as it is now.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Service {
    /// Its name.
    pub(crate) name: Name,
    /// Its number, as rules have it.
    pub(crate) number: u16,
    /// Who made it, and can change it.
    pub(crate) origin: Origin,
    /// Its IPv4 address.
    pub(crate) address: String,
    /// What it speaks.
    pub(crate) protocol: Protocol,
    /// Its port; 0 for ICMP.
    pub(crate) port: u16,
    /// The pool that serves it; null: whoever asks is refused.
    pub(crate) pool: Option<Name>,
    /// The Ethernet address ARP is answered with.
    pub(crate) mac: Mac,
    /// A connection that has been silent for this long is over, s.
    pub(crate) idle_timeout_s: u16,
    /// Which rules lead to members.
    pub(crate) rules: Rules,
    /// How many parts clients are divided into, where rules are wildcards.
    pub(crate) buckets: u16,
    /// How many of these are moving from one member to another: their new connections ask the controller meanwhile.
    pub(crate) buckets_moving: u16,
    /// Its connections that have rules of their own, those of members that have gone included.
    pub(crate) load: Load,
    /// Who serves, with the connections of this service.
    pub(crate) members: Vec<Member>,
}

/// A pool as it is now.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Pool {
    /// Its name.
    pub(crate) name: Name,
    /// Its number, as events have it.
    pub(crate) number: u16,
    /// Who made it, and can change it.
    pub(crate) origin: Origin,
    /// Who picks members for new connections.
    pub(crate) balancer: String,
    /// How members are checked; null: they count as well while their ports are up.
    pub(crate) monitor: Option<MonitorSpec>,
    /// What becomes of the connections of a member that fails.
    pub(crate) established: Established,
    /// What clients are told when nobody can serve.
    pub(crate) refusal: Refusal,
    /// Services it serves.
    pub(crate) services: Vec<Name>,
    /// Its members, with the connections of all services.
    pub(crate) members: Vec<Member>,
}

/// What is wanted, with what the controller knows of it.
pub(crate) struct Overview {
    desired: Desired,
    /// By number of the service.
    now: BTreeMap<u16, ServiceNow>,
}

impl Overview {
    /// Both of one moment.
    pub(crate) async fn of(handle: &Handle) -> Result<Overview, Problem> {
        let desired = handle.services.desired().await;
        let now = handle.ask(|engine| engine.controller.services()).await?;
        let now = now.into_iter().map(|service| (service.service.id.0, service)).collect();
        Ok(Overview { desired: desired.clone(), now })
    }

    /// What Floodlight's calls told.
    pub(crate) fn floodlight(&self) -> &Floodlight {
        &self.desired.floodlight
    }

    pub(crate) fn services(&self) -> Vec<Service> {
        self.desired.services.keys().filter_map(|name| self.service(name)).collect()
    }

    pub(crate) fn service(&self, name: &Name) -> Option<Service> {
        let service = self.desired.services.get(name)?;
        let now = self.now.get(&service.number);
        let spec = &service.spec;
        let pool = spec.pool.as_ref().and_then(|pool| self.desired.pools.get(pool));
        let members = now.into_iter().flat_map(|now| &now.members);
        let members = members.filter_map(|now| Member::of(pool.and_then(|pool| named(pool, now)), now));
        Some(Service {
            name: name.clone(),
            number: service.number,
            origin: service.origin,
            address: spec.address.to_string(),
            protocol: spec.protocol,
            port: spec.port,
            pool: spec.pool.clone(),
            mac: spec.mac.unwrap_or_else(|| Mac(control::vip::mac_of(spec.address))),
            idle_timeout_s: spec.idle_timeout_s,
            rules: spec.rules,
            buckets: spec.buckets,
            buckets_moving: now.map_or(0, |now| now.moving as u16),
            load: now.map(|now| now.counts.into()).unwrap_or_default(),
            members: members.collect(),
        })
    }

    pub(crate) fn pools(&self) -> Vec<Pool> {
        self.desired.pools.keys().filter_map(|name| self.pool(name)).collect()
    }

    pub(crate) fn pool(&self, name: &Name) -> Option<Pool> {
        let pool = self.desired.pools.get(name)?;
        let PoolSpec { balancer, monitor, established, refusal, members } = pool.spec.clone();
        let services: Vec<Name> = self.desired.users_of(name).cloned().collect();
        // The same members at every service, each with its own connections.
        let mut all: BTreeMap<MemberId, MemberNow> = BTreeMap::new();
        let numbers = services.iter().filter_map(|service| Some(self.desired.services.get(service)?.number));
        for now in numbers.filter_map(|number| self.now.get(&number)).flat_map(|service| &service.members) {
            let known = all.entry(now.id).and_modify(|known| {
                known.counts.add(&now.counts);
                known.buckets += now.buckets;
            });
            known.or_insert_with(|| now.clone());
        }
        let found = all.values().filter_map(|now| Some((now.id.0, Member::of(named(pool, now), now)?)));
        let mut found: BTreeMap<u32, Member> = found.collect();
        let wanted = |member: &NamedMember| {
            let number = pool.members.get(&member.name).copied().unwrap_or_default();
            found.remove(&number).unwrap_or_else(|| Member::unused(member, number))
        };
        let mut all: Vec<Member> = members.iter().map(wanted).collect();
        all.extend(found.into_values());
        Some(Pool {
            name: name.clone(),
            number: pool.number,
            origin: pool.origin,
            balancer,
            monitor,
            established,
            refusal,
            services,
            members: all,
        })
    }

    pub(crate) fn member(&self, pool: &Name, member: &Name) -> Option<Member> {
        self.pool(pool)?.members.into_iter().find(|found| found.name.as_ref() == Some(member))
    }
}

impl Service {
    /// Of each member, for Prometheus.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (Serving, Served)> {
        self.members.iter().map(|member| {
            let name = member.name.as_ref().map_or_else(|| format!("#{}", member.number), ToString::to_string);
            let Load { connections, connections_total, bytes_in, bytes_out } = member.load;
            let is_up = member.state == State::Up;
            let served = Served { is_up, connections, connections_total, bytes_in, bytes_out };
            (Serving { service: self.name.to_string(), member: name }, served)
        })
    }
}

/// What is wanted of a member, if it still is.
fn named<'a>(pool: &'a services::Pool, now: &MemberNow) -> Option<&'a NamedMember> {
    let (name, _) = pool.members.iter().find(|(_, number)| **number == now.id.0)?;
    pool.spec.member(name)
}

impl Member {
    /// `None` of one that is not wanted any more and has no connections: it is only not yet forgotten.
    fn of(named: Option<&NamedMember>, now: &MemberNow) -> Option<Member> {
        if named.is_none() && now.counts.connections == 0 {
            return None;
        }
        let state_words = match now.state {
            MemberState::Failing(Failure::Status(status)) => format!("failing: it answers with status {status}"),
            other => other.words().to_owned(),
        };
        Some(Member {
            name: named.map(|member| member.name.clone()),
            number: now.id.0,
            address: now.address.to_string(),
            port: now.port,
            weight: named.map_or(0, |member| member.spec().weight),
            is_enabled: now.is_enabled && !now.is_leaving,
            state: State::from(now.state),
            state_words,
            load: now.counts.into(),
            buckets: now.buckets as u32,
        })
    }

    fn unused(member: &NamedMember, number: u32) -> Member {
        let spec = member.spec();
        Member {
            name: Some(member.name.clone()),
            number,
            address: spec.address.to_string(),
            port: spec.port,
            weight: spec.weight,
            is_enabled: spec.is_enabled,
            state: State::Unused,
            state_words: "no service uses its pool".to_owned(),
            load: Load::default(),
            buckets: 0,
        }
    }
}

impl From<MemberState> for State {
    fn from(state: MemberState) -> State {
        match state {
            MemberState::Up => State::Up,
            MemberState::Unknown => State::Unknown,
            MemberState::Unplugged => State::Unplugged,
            MemberState::Failing(_) => State::Failing,
        }
    }
}
