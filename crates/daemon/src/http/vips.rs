//! Representation of virtual services and pools in the API: definition and current state.

use control::vip::{self, Counts, Failure, MemberId, MemberStatus, ServiceStatus};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

use crate::events::dpid;
use crate::metrics::MemberLabels;
use crate::server::{Handle, Stopping};
use crate::services::{self, Desired, Floodlight, MonitorSpec, Name, OnUnavailable, Origin, PoolSpec, Protocol, Rules};
use crate::services::{Mac, NamedMember, OnMemberFailure};

/// Connections and bytes of a service or member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ConnectionStats {
    pub(crate) connections: u64,
    /// Connections since the controller started.
    pub(crate) connections_total: u64,
    /// Bytes from clients, as reported by switches.
    pub(crate) bytes_in: u64,
    /// Bytes to clients, as reported by switches.
    pub(crate) bytes_out: u64,
}

impl From<Counts> for ConnectionStats {
    fn from(counts: Counts) -> ConnectionStats {
        let Counts { connections, connections_total, bytes_in, bytes_out } = counts;
        ConnectionStats { connections, connections_total, bytes_in, bytes_out }
    }
}

/// State of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemberState {
    Up,
    /// No host with the address of the member is known; the controller probes for it.
    Unknown,
    /// The switch port of the member is down, or its switch is disconnected.
    Disconnected,
    Failing,
    /// No service uses the pool, so the member is not observed.
    Unused,
}

/// A member of a pool.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Member {
    /// Name of the member; null for a removed member that still has connections.
    pub(crate) name: Option<Name>,
    /// Id of the member within the pool, as in events and rules.
    pub(crate) id: u32,
    pub(crate) address: String,
    /// Port of the member; null if it is the port of the service.
    pub(crate) port: Option<u16>,
    /// Share of new connections relative to the weights of the other members.
    pub(crate) weight: u32,
    /// Whether the definition allows new connections.
    pub(crate) is_enabled: bool,
    /// State of the member.
    pub(crate) state: MemberState,
    /// Human-readable state with its reason.
    pub(crate) state_detail: String,
    /// Connections of the member that have their own rules.
    pub(crate) stats: ConnectionStats,
    /// Number of client slots assigned to the member in services with wildcard rules.
    pub(crate) client_slots: u32,
}

/// A virtual service and its current state.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Service {
    pub(crate) name: Name,
    /// Id of the service, as in rules.
    pub(crate) id: u16,
    /// Origin of the definition; only this origin can change it.
    pub(crate) origin: Origin,
    pub(crate) address: String,
    /// Transport protocol.
    pub(crate) protocol: Protocol,
    /// Port; 0 for ICMP.
    pub(crate) port: u16,
    /// Pool of the service; null: clients are refused.
    pub(crate) pool: Option<Name>,
    /// Ethernet address in ARP replies.
    pub(crate) mac: Mac,
    /// Idle timeout of a connection, in seconds.
    pub(crate) idle_timeout_s: u16,
    /// Kind of the rules that forward packets to members.
    pub(crate) rules: Rules,
    /// Number of client slots with wildcard rules or a mux.
    pub(crate) client_slots: u16,
    /// Expected traffic with a mux, in Mbit/s.
    pub(crate) expected_mbps: u32,
    /// Datapath id of the switch that all packets to members cross, with `rules` = `mux`; null: the
    /// controller picks members.
    pub(crate) mux: Option<String>,
    /// Number of client slots that are migrating to another member; the controller handles their
    /// new connections.
    pub(crate) client_slots_migrating: u16,
    /// Connections of the service that have their own rules, including those of removed members.
    pub(crate) stats: ConnectionStats,
    /// Members with their connections of this service.
    pub(crate) members: Vec<Member>,
}

/// A pool and its current state.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct Pool {
    pub(crate) name: Name,
    /// Id of the pool, as in events.
    pub(crate) id: u16,
    /// Origin of the definition; only this origin can change it.
    pub(crate) origin: Origin,
    /// Balancer that picks members for new connections.
    pub(crate) balancer: String,
    /// Health check of the members; with null, a member is up while its switch port is up.
    pub(crate) monitor: Option<MonitorSpec>,
    /// Treatment of the connections of a failed member.
    pub(crate) on_member_failure: OnMemberFailure,
    /// Reply to clients when no member is available.
    pub(crate) on_unavailable: OnUnavailable,
    pub(crate) services: Vec<Name>,
    /// Members with their connections of all services.
    pub(crate) members: Vec<Member>,
}

pub(crate) struct Overview {
    desired: Arc<Desired>,
    /// By service id.
    now: BTreeMap<u16, ServiceStatus>,
}

impl Overview {
    pub(crate) async fn of(handle: &Handle) -> Result<Overview, Stopping> {
        let now = handle.ask(|engine| engine.controller.inspect().services()).await?;
        let now = now.into_iter().map(|service| (service.service.id.0, service)).collect();
        Ok(Overview { desired: handle.services.desired(), now })
    }
    pub(crate) fn desired(&self) -> &Desired {
        &self.desired
    }
    pub(crate) fn floodlight(&self) -> &Floodlight {
        &self.desired.floodlight
    }
    pub(crate) fn services(&self) -> Vec<Service> {
        self.desired.services.keys().filter_map(|name| self.service(name)).collect()
    }

    pub(crate) fn service(&self, name: &Name) -> Option<Service> {
        let service = self.desired.services.get(name)?;
        let now = self.now.get(&service.id);
        let spec = &service.spec;
        let pool = spec.pool.as_ref().and_then(|pool| self.desired.pools.get(pool));
        let members = now.into_iter().flat_map(|now| &now.members);
        let members = members.filter_map(|now| Member::of(pool.and_then(|pool| named(pool, now)), now));
        Some(Service {
            name: name.clone(),
            id: service.id,
            origin: service.origin,
            address: spec.address.to_string(),
            protocol: spec.protocol,
            port: spec.port,
            pool: spec.pool.clone(),
            mac: spec.mac.unwrap_or_else(|| Mac(vip::mac_of(spec.address))),
            idle_timeout_s: spec.idle_timeout_s,
            rules: spec.rules,
            client_slots: spec.client_slots,
            expected_mbps: spec.expected_mbps,
            mux: now.and_then(|now| now.mux).map(dpid),
            client_slots_migrating: now.map_or(0, |now| now.moving as u16),
            stats: now.map(|now| now.counts.into()).unwrap_or_default(),
            members: members.collect(),
        })
    }

    pub(crate) fn pools(&self) -> Vec<Pool> {
        self.desired.pools.keys().filter_map(|name| self.pool(name)).collect()
    }

    pub(crate) fn pool(&self, name: &Name) -> Option<Pool> {
        let pool = self.desired.pools.get(name)?;
        let PoolSpec { balancer, monitor, on_member_failure, on_unavailable, members } = pool.spec.clone();
        let services: Vec<Name> = self.desired.users_of(name).cloned().collect();
        // Every service lists the same members, each with the connections of that service.
        let mut all: BTreeMap<MemberId, MemberStatus> = BTreeMap::new();
        let ids = services.iter().filter_map(|service| Some(self.desired.services.get(service)?.id));
        for now in ids.filter_map(|id| self.now.get(&id)).flat_map(|service| &service.members) {
            let known = all.entry(now.id).and_modify(|known| {
                known.counts.add(&now.counts);
                known.buckets += now.buckets;
            });
            known.or_insert_with(|| now.clone());
        }
        let found = all.values().filter_map(|now| Some((now.id.0, Member::of(named(pool, now), now)?)));
        let mut found: BTreeMap<u32, Member> = found.collect();
        let defined = |member: &NamedMember| {
            let id = pool.members.get(&member.name).copied().unwrap_or_default();
            found.remove(&id).unwrap_or_else(|| Member::unused(member, id))
        };
        let mut all: Vec<Member> = members.iter().map(defined).collect();
        all.extend(found.into_values());
        Some(Pool {
            name: name.clone(),
            id: pool.id,
            origin: pool.origin,
            balancer,
            monitor,
            on_member_failure,
            on_unavailable,
            services,
            members: all,
        })
    }
}

impl Service {
    pub(crate) fn figures(&self) -> impl Iterator<Item = (MemberLabels, bool, ConnectionStats)> {
        self.members.iter().map(|member| {
            let name = member.name.as_ref().map_or_else(|| format!("#{}", member.id), ToString::to_string);
            let labels = [("service", self.name.to_string()), ("member", name)];
            (labels, member.state == MemberState::Up, member.stats)
        })
    }
}

fn named<'a>(pool: &'a services::Pool, now: &MemberStatus) -> Option<&'a NamedMember> {
    let (name, _) = pool.members.iter().find(|(_, id)| **id == now.id.0)?;
    pool.spec.member(name)
}

impl Member {
    /// Returns `None` for a removed member without connections, which the controller is about to
    /// forget.
    fn of(named: Option<&NamedMember>, now: &MemberStatus) -> Option<Member> {
        if named.is_none() && now.counts.connections == 0 {
            return None;
        }
        let state_detail = match now.state {
            vip::MemberState::Failing(Failure::Status(status)) => format!("failing: HTTP status {status}"),
            other => other.words().to_owned(),
        };
        Some(Member {
            name: named.map(|member| member.name.clone()),
            id: now.id.0,
            address: now.address.to_string(),
            port: now.port,
            weight: named.map_or(0, |member| member.spec().weight),
            is_enabled: now.is_enabled && !now.is_leaving,
            state: MemberState::from(now.state),
            state_detail,
            stats: now.counts.into(),
            client_slots: now.buckets as u32,
        })
    }

    fn unused(member: &NamedMember, id: u32) -> Member {
        let spec = member.spec();
        Member {
            name: Some(member.name.clone()),
            id,
            address: spec.address.to_string(),
            port: spec.port,
            weight: spec.weight,
            is_enabled: spec.is_enabled,
            state: MemberState::Unused,
            state_detail: "unused: no service uses the pool".to_owned(),
            stats: ConnectionStats::default(),
            client_slots: 0,
        }
    }
}

impl From<vip::MemberState> for MemberState {
    fn from(state: vip::MemberState) -> MemberState {
        match state {
            vip::MemberState::Up => MemberState::Up,
            vip::MemberState::Unknown => MemberState::Unknown,
            vip::MemberState::Unplugged => MemberState::Disconnected,
            vip::MemberState::Failing(_) => MemberState::Failing,
        }
    }
}
