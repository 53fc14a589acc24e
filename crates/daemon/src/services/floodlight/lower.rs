//! Conversion of Floodlight's objects to services and pools.

use std::net::Ipv4Addr;

use openflow::headers::protocol;

use super::super::monitor::{CheckKind, MonitorSpec, path, statuses};
use super::super::spec::{
    MemberSpec, Name, NamedMember, OnMemberFailure, OnUnavailable, PoolSpec, Protocol, Rules, ServiceSpec, client_slots,
};
use super::super::{ConfiguredServices, FieldError};
use super::{Floodlight, Member, Method, Monitor, Vip};

/// Idle timeout of connections in seconds (F1).
const IDLE_TIMEOUT_S: u16 = 400;
/// Default number of consecutive failed checks after which a member is down.
const ATTEMPTS: u16 = 2;

pub(crate) fn name(kind: &str, id: &str) -> Result<Name, FieldError> {
    let message = || format!("`{id}` is not a valid identifier: up to 40 letters, digits, `.`, `_` and `-`");
    let is_short = !id.is_empty() && id.len() <= 40;
    Name::try_from(format!("{kind}-{id}")).ok().filter(|_| is_short).ok_or_else(|| FieldError::new("id", message()))
}

impl Floodlight {
    /// Converts all objects to services and pools, with health checks only if a health-check
    /// address is configured.
    pub(crate) fn lower(&self, checker: Option<Ipv4Addr>) -> Result<ConfiguredServices, FieldError> {
        let mut defined = ConfiguredServices::default();
        for id in self.pools.keys() {
            defined.pools.insert(name("pool", id)?, self.pool(id, checker)?);
        }
        for (id, vip) in &self.vips {
            // No client can reach the unspecified address: such a VIP is stored only.
            if vip.address.is_unspecified() {
                name("vip", id)?;
                continue;
            }
            for (protocol, port) in self.protocol_ports(vip) {
                let pool = vip.pools.iter().find(|pool| self.pools.contains_key(*pool));
                let spec = ServiceSpec {
                    address: vip.address,
                    protocol,
                    port,
                    pool: pool.map(|pool| name("pool", pool)).transpose()?,
                    mac: None,
                    idle_timeout_s: IDLE_TIMEOUT_S,
                    rules: Rules::Connection,
                    client_slots: client_slots(),
                    expected_mbps: 1,
                };
                let one = name("vip", id)?;
                let it = match (is_whole(vip), protocol) {
                    (true, _) => one,
                    (false, Protocol::Icmp) => name("vip", &format!("{id}.icmp"))?,
                    (false, _) => name("vip", &format!("{id}.{port}"))?,
                };
                defined.services.insert(it, spec);
            }
        }
        Ok(defined)
    }

    fn protocol_ports(&self, vip: &Vip) -> Vec<(Protocol, u16)> {
        let at = |protocol| {
            let ports = if vip.port == 0 { self.table.ports() } else { [vip.port].into() };
            ports.into_iter().map(move |port| (protocol, port))
        };
        match vip.protocol {
            protocol::ICMP => vec![(Protocol::Icmp, 0)],
            protocol::TCP => at(Protocol::Tcp).collect(),
            protocol::UDP => at(Protocol::Udp).collect(),
            _ => at(Protocol::Tcp).chain([(Protocol::Icmp, 0)]).collect(),
        }
    }

    fn pool(&self, id: &str, checker: Option<Ipv4Addr>) -> Result<PoolSpec, FieldError> {
        let pool = &self.pools[id];
        let balancer = match pool.method {
            Method::Unset if self.table.is_written => self.table.balancer(),
            Method::Malob => self.table.balancer(),
            Method::Unset | Method::RoundRobin => "server-rr".to_owned(),
            Method::WeightedRoundRobin => "server-wrr".to_owned(),
            // Floodlight uses the rate at the port of a member; the nearest is the policy of F4,
            // bytes so far.
            Method::Statistics => "division-load".to_owned(),
        };
        let vip = pool.vip.as_ref().and_then(|vip| self.vips.get(vip));
        // With several ports in a VIP, every member serves each at the same port.
        let has_one_port = vip.is_none_or(|vip| vip.port != 0 && vip.protocol != protocol::ICMP);
        let member = |(id, member): (&String, &Member)| {
            let port = Some(member.port).filter(|port| *port != 0 && has_one_port);
            let Member { address, weight, is_enabled, .. } = *member;
            Ok(NamedMember::new(name("member", id)?, MemberSpec { address, port, weight, is_enabled }))
        };
        let monitor = self.monitors.values().find(|monitor| monitor.pool.as_deref() == Some(id));
        let monitor = monitor.filter(|_| self.monitoring.is_on && checker.is_some());
        Ok(PoolSpec {
            balancer,
            monitor: monitor.map(|monitor| self.monitor(monitor)),
            members: self.members_of(id).map(member).collect::<Result<_, _>>()?,
            on_member_failure: OnMemberFailure::Keep,
            on_unavailable: OnUnavailable::Reset,
        })
    }

    fn monitor(&self, monitor: &Monitor) -> MonitorSpec {
        let check = if monitor.kind == protocol::TCP { CheckKind::Tcp } else { CheckKind::Icmp };
        let interval_s = f64::from(monitor.delay_s.unwrap_or(self.monitoring.period_s).max(1));
        let timeout_s = f64::from(monitor.timeout_s.unwrap_or(1).max(1)).min(interval_s);
        let port = Some(monitor.port).filter(|port| *port != 0 && check == CheckKind::Tcp);
        let fall = u32::from(monitor.attempts.unwrap_or(ATTEMPTS).max(1));
        let (path, statuses) = (path(), statuses());
        MonitorSpec { check, port, path, statuses, interval_s, timeout_s, rise: 1, fall }
    }
}

fn is_whole(vip: &Vip) -> bool {
    vip.protocol == protocol::ICMP || (vip.protocol != 0 && vip.port != 0)
}
