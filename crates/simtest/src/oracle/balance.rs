//! Shares of new connections per member, as the balancer of a pool promises them.
//!
//! The oracle observes the rules of new connections while the network and the services are not
//! being repaired. A client that is a member itself cannot be given to itself, and none is given to a
//! member that it cannot reach, so windows end there.
//!
//! - `server-rr`: in each window the numbers of connections differ by at most one.
//! - `server-wrr`: they differ from the weights' shares by at most two.
//! - `server-random`: a number as unlikely as [`UNLIKELY`] or more, by Chernoff's bound, is a failure.

use std::collections::{BTreeMap, BTreeSet};

use control::vip::{Pool, PoolId};
use core::net::Ipv4Addr;
use openflow::{Action, FlowMod, FlowModCommand, SetField};

use crate::generate::ipv4_of;
use crate::report::Oracle;
use crate::simulation::{CONNECTS, Simulation, is_of_kind};

/// The priority of rules that lead to the member of a connection.
const TO_MEMBER: u16 = 520;
/// Natural logarithm of 10^12: the probability of a false alarm is at most 10^-12 for each side of
/// each member's share.
const UNLIKELY: f64 = 27.6;

/// A connection: client, its port, virtual address and its port.
type Connection = (Ipv4Addr, u16, Ipv4Addr, u16);

#[derive(Debug, Default)]
pub(crate) struct Picks {
    /// Connections that had rules at any earlier check.
    seen: BTreeSet<Connection>,
    windows: BTreeMap<PoolId, BTreeMap<Ipv4Addr, u32>>,
}

fn member_of(rule: &FlowMod) -> Option<Ipv4Addr> {
    rule.instructions.apply.iter().find_map(|action| match action {
        Action::SetField(SetField::Ipv4Dst(to)) => Some(*to),
        _ => None,
    })
}

fn connection_of(rule: &FlowMod) -> Option<Connection> {
    let of = rule.match_;
    // ICMP has no ports.
    let port = |tcp: Option<u16>, udp: Option<u16>| tcp.or(udp).unwrap_or_default();
    let ports = (port(of.tcp_src, of.udp_src), port(of.tcp_dst, of.udp_dst));
    Some((of.ipv4_src?.value, ports.0, of.ipv4_dst?.value, ports.1))
}

impl Simulation {
    /// Observes a rule that the controller sends.
    pub(crate) fn observe_pick(&mut self, rule: &FlowMod) {
        let is_pick =
            rule.command == FlowModCommand::Add && rule.priority == TO_MEMBER && is_of_kind(rule.cookie, CONNECTS);
        let (Some(member), Some(connection)) = (member_of(rule), connection_of(rule)) else { return };
        let service = self.services.wanted.services.iter();
        let mut service = service.filter(|one| u64::from(one.id.0) == rule.cookie >> 24 & 0xffff);
        let Some(pool) = service.next().filter(|_| is_pick).map(|service| service.pool) else { return };
        let Some(pool) = self.services.wanted.pools.iter().find(|one| one.id == pool).cloned() else { return };
        let is_quiet = self.now > self.quiet_from() && self.services.hung.values().all(|count| *count == 0);
        let is_new = self.oracles.balance.seen.insert(connection);
        let is_client_member = pool.members.iter().any(|member| member.address == connection.0);
        let host_of = |address| (0..self.hosts.len()).find(|host| ipv4_of(*host) == address);
        let reaches = |server: Ipv4Addr| {
            host_of(connection.0).zip(host_of(server)).is_some_and(|(client, server)| self.is_obliged(client, server))
        };
        let reaches_all = pool.members.iter().all(|member| reaches(member.address));
        let windows = &mut self.oracles.balance.windows;
        if !is_quiet || !is_new || is_client_member || !reaches_all {
            windows.remove(&pool.id);
            return;
        }
        *windows.entry(pool.id).or_default().entry(member).or_default() += 1;
        self.report.balanced += 1;
        if let Some(words) = uneven(&pool, &self.oracles.balance.windows[&pool.id]) {
            self.fail(Oracle::Balance, || words);
        }
    }

    /// Ends all windows: the members that can be picked may change.
    pub(crate) fn end_windows(&mut self) {
        self.oracles.balance.windows.clear();
    }
}

/// Returns a description of counts that the pool's balancer does not allow.
fn uneven(pool: &Pool, counts: &BTreeMap<Ipv4Addr, u32>) -> Option<String> {
    let members = pool.members.iter().filter(|member| member.is_enabled && member.weight > 0);
    let members: Vec<(f64, f64)> = members
        .map(|member| (f64::from(member.weight), f64::from(counts.get(&member.address).copied().unwrap_or_default())))
        .collect();
    let total: f64 = members.iter().map(|(_, count)| count).sum();
    let weights: f64 = members.iter().map(|(weight, _)| weight).sum();
    let name = pool.balancer.split(':').next().unwrap_or_default();
    let is_wrong = |(weight, count): &(f64, f64)| match name {
        "server-rr" => members.iter().any(|(_, other)| (other - count).abs() > 1.0),
        "server-wrr" => (count - total * weight / weights).abs() > 2.0,
        "server-random" => total * divergence(count / total, weight / weights) > UNLIKELY,
        _ => false,
    };
    let is_uneven = total > 0.0 && members.iter().any(is_wrong);
    is_uneven.then(|| format!("{} picks members {counts:?} of {members:?} (weight, connections)", pool.balancer))
}

/// Returns the Kullback-Leibler divergence of two shares.
fn divergence(observed: f64, expected: f64) -> f64 {
    let part = |observed: f64, expected: f64| {
        if observed == 0.0 { 0.0 } else { observed * libm::log(observed / expected) }
    };
    if observed == expected { 0.0 } else { part(observed, expected) + part(1.0 - observed, 1.0 - expected) }
}
