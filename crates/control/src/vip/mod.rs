//! Virtual services: virtual addresses, served by the members of pools.
//!
//! **ARP** requests for a virtual address are answered by the controller. **The first packet** of a
//! connection is sent to it whole, by one rule per virtual address (which covers all its services,
//! and packets without a service). The controller picks a member, and sends the two rules of the
//! connection (`rules.rs`), a barrier, and the packet through the tables, so it is delivered. A
//! client may open another connection from the same port while the rules of the former one are
//! installed. Switches that match TCP control bits (Open vSwitch) send opening segments to the
//! controller in any case; on others the connection gets the former member. All translation is done
//! at the client's switch; elsewhere a connection is one between two hosts, which is repaired,
//! migrated and split like any other.
//!
//! **The rules of connections are switch-owned**, as counting rules are (`counters.rs`): the
//! controller sends them immediately, does not add them to the desired state, and they expire when
//! idle. They are found again by table read-backs, also after a controller restart
//! (`connection_recovery.rs`). The controller remembers the member of a connection
//! (`connection_table.rs`) for longer than the rules last.
//!
//! Not translated: ICMP errors about a connection, and fragments other than the first, which have
//! no ports; they are dropped. While a connection has rules, packets that the member itself sends
//! to the client from the same ports appear to come from the virtual address.

mod client_slots;
mod connection_recovery;
mod connection_table;
mod counter_polls;
mod first_packets;
mod flows;
mod health;
mod members;
mod mux;
mod paths;
mod pending_first_packets;
mod pool_state;
mod reports;
mod rule_install;
mod rules;
mod slot_rules;
mod spec;
mod status;
mod wildcard;
mod wildcard_spec;

use std::collections::{BTreeMap, BTreeSet};

use balance::central::{LinkLoad, NetworkView};
use balance::server::ServerNeeds;
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::{DatapathId, MacAddr, Match};

pub use connection_table::Counts;
use connection_table::{ConnectionState, Connections};
use first_packets::HeldPacket;
pub use health::Failure;
use mux::Muxes;
use pending_first_packets::PendingFirstPackets;
use pool_state::{MemberEntry, PoolState};
pub use reports::REPORT_PORT;
use rules::{MEMBER_MASK, Owner, SERVICE_MASK};
pub use spec::{
    Check, Established, MEMBER_MAX, Member, MemberId, Monitor, Pool, PoolId, Protocol, Refusal, Service, ServiceId,
    Services, ServicesError, mac_of,
};
use wildcard::Wildcards;
pub use wildcard_spec::{BUCKETS, Rules};

pub use status::{MemberState, MemberStatus, ServiceStatus};

use crate::Config;
use crate::SwitchPort;
use crate::limits::RateLimiter;
use crate::observer::{Cx, Observer};
use crate::planner::Planner;
use crate::planner::arp_replies::send_arp_reply;
use crate::updater::RuleSet;
use crate::updater::Updater;
use crate::updater::compile::Entry;
use crate::updater::store::Installer;
use net::Addressing;

/// Source of health checks; not the address of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Checker {
    /// IPv4 address; replies to it reach the controller from every switch with a member.
    pub ipv4: Ipv4Addr,
    /// Ethernet address in ARP replies for it.
    pub mac: MacAddr,
}

/// The parts below, which virtual services are a client of.
pub(crate) struct Parts<'a> {
    pub(crate) cx: Cx<'a>,
    pub(crate) observer: &'a mut Observer,
    pub(crate) planner: &'a mut Planner,
    pub(crate) updater: &'a mut Updater,
}

impl Parts<'_> {
    fn installer_of(&self, datapath: DatapathId) -> Option<&Installer> {
        self.updater.switches.get(&self.observer.network.node_of(datapath)?)
    }
    /// Returns whether foreign rules occupy the match and priority of any of these rules.
    fn is_any_occupied(&self, datapath: DatapathId, entries: &[Entry]) -> bool {
        self.updater.is_any_occupied(self.observer.network.node_of(datapath), entries)
    }
}

/// Configuration and state of virtual services.
#[derive(Default)]
pub(crate) struct VipService {
    wanted: Services,
    services: BTreeMap<ServiceId, Service>,
    pools: BTreeMap<PoolId, PoolState>,
    by_place: BTreeMap<(Ipv4Addr, u8, u16), ServiceId>,
    macs: BTreeMap<Ipv4Addr, MacAddr>,
    connections: Connections,
    /// Addresses of hosts that have left their switches.
    moved: Vec<Ipv4Addr>,
    /// Continuing connections whose paths must be picked again.
    pending_paths: BTreeSet<FiveTuple>,
    seed: u64,
    held: Vec<HeldPacket>,
    waiting: PendingFirstPackets,
    wildcards: Wildcards,
    muxes: Muxes,
    /// Desired rules that lead to the controller: for virtual addresses, and for opening segments
    /// to a port.
    address_rules: RuleSet,
    /// Switches that rejected the rules of a service, with the time of the next attempt.
    unavailable: BTreeMap<(ServiceId, DatapathId), Time>,
    /// Switches with a reported rejection of a service, with the time until which it is not
    /// reported again.
    reported: BTreeMap<(ServiceId, DatapathId), Time>,
    answers: BTreeMap<DatapathId, RateLimiter>,
    next_seek: Option<Time>,
    pub(crate) needs: ServerNeeds,
    round: counter_polls::PollRound,
    next_check: u32,
    checker: Option<Checker>,
    /// Address of the default route of hosts ([`crate::edge`]): virtual, without services.
    gateway: Option<(Ipv4Addr, MacAddr)>,
    is_new: bool,
}

impl VipService {
    pub(crate) fn new(config: &Config) -> VipService {
        let checker = config.health_check_address;
        let gateway = config.edge.as_ref().map(|edge| (edge.gateway, mac_of(edge.gateway)));
        VipService {
            macs: checker.iter().map(|checker| (checker.ipv4, checker.mac)).chain(gateway).collect(),
            gateway,
            connections: Connections::new(config.connections_max, config.connection_retention),
            seed: config.seed,
            checker,
            is_new: checker.is_some() || gateway.is_some(),
            ..VipService::default()
        }
    }

    pub(crate) fn is_virtual(&self, address: Ipv4Addr) -> bool {
        self.macs.contains_key(&address)
    }

    fn is_idle(&self) -> bool {
        self.macs.is_empty() && self.address_rules.is_empty()
    }
    fn member(&self, owner: Owner) -> Option<&MemberEntry> {
        let pool = self.services.get(&owner.service)?.pool;
        self.pools.get(&pool)?.members.get(&owner.member)
    }
    fn services_of(&self, pool: PoolId) -> impl Iterator<Item = ServiceId> {
        self.services.values().filter(move |service| service.pool == pool).map(|service| service.id)
    }

    /// Replaces the configuration. Returns the connections to close, and those whose rules must be
    /// rewritten.
    fn set(&mut self, wanted: Services) -> Changes {
        let mut changes = Changes::default();
        let services: BTreeMap<ServiceId, Service> =
            wanted.services.iter().map(|service| (service.id, service.clone())).collect();
        for (id, before) in &self.services {
            let place = |service: &Service| (service.address, service.protocol, service.port, service.pool);
            match services.get(id) {
                // Connections keep the rules they have, of either kind.
                Some(after) if Service { rules: before.rules, ..after.clone() } == *before => {}
                Some(after) if place(after) == place(before) => changes.rewritten.push(*id),
                _ => changes.gone.push(*id),
            }
        }
        let mut pools = BTreeMap::new();
        for spec in &wanted.pools {
            let before = self.pools.remove(&spec.id);
            let (pool, others) = PoolState::follow(spec, before, self.seed);
            let services = services.values().filter(|service| service.pool == spec.id);
            let owners =
                services.flat_map(|service| others.iter().map(|member| Owner { service: service.id, member: *member }));
            changes.others.extend(owners);
            pools.insert(spec.id, pool);
        }
        let place = |service: &Service| ((service.address, service.protocol.number(), service.port), service.id);
        self.by_place = services.values().map(place).collect();
        let checker = self.checker.iter().map(|checker| (checker.ipv4, checker.mac));
        self.macs = services
            .values()
            .map(|service| (service.address, service.mac()))
            .chain(checker)
            .chain(self.gateway)
            .collect();
        (self.services, self.pools, self.wanted, self.is_new) = (services, pools, wanted, true);
        self.needs = self.needs_of_pools();
        changes
    }

    /// Forgets removed members whose last connection has closed.
    fn forget_removed_members(&mut self) {
        let counts = &self.connections.counts;
        let (services, wildcards) = (&self.services, &self.wildcards);
        for (id, pool) in &mut self.pools {
            let is_busy = |member: MemberId| {
                let owners = services.values().filter(|service| service.pool == *id);
                let mut owners = owners.map(|service| Owner { service: service.id, member });
                owners.any(|owner| {
                    wildcards.has(owner) || counts.get(&owner).is_some_and(|counts| counts.connections > 0)
                })
            };
            pool.members.retain(|member, facts| !facts.is_removed || is_busy(*member));
        }
    }
}

/// Returns the network as server balancers receive it, with loads if any balancer needs them.
fn view_of(now: Time, observer: &Observer) -> NetworkView<'_> {
    let load: &[LinkLoad] = if observer.wants_ports() { &observer.load } else { &[] };
    NetworkView { load, ..view_without_load(now, observer) }
}

fn view_without_load(now: Time, observer: &Observer) -> NetworkView<'_> {
    let network = &observer.network;
    let (topology, alive, routes) = (&network.topology, network.alive(), &network.routes);
    NetworkView { now, topology, alive, routes, load: &[], flows: &observer.flows.table, legacy: network.legacy() }
}

/// Consequences of a new configuration for connections.
#[derive(Debug, Default)]
struct Changes {
    gone: Vec<ServiceId>,
    rewritten: Vec<ServiceId>,
    /// Owners whose number belongs to another server now.
    others: Vec<Owner>,
}

impl VipService {
    /// Returns whether a configuration differs from the current one.
    ///
    /// # Errors
    ///
    /// [`ServicesError`] names the first invalid setting.
    pub(crate) fn check(&self, config: &Config, wanted: &Services) -> Result<bool, ServicesError> {
        if config.addressing != Addressing::Flat && !(wanted.services.is_empty() && wanted.pools.is_empty()) {
            return Err(ServicesError::of_addressing(config.addressing));
        }
        wanted.check(config.health_check_address.map(|checker| checker.ipv4))?;
        Ok(*wanted != self.wanted)
    }

    /// Makes virtual addresses and required measurements known to the observer.
    pub(crate) fn publish(&self, observer: &mut Observer) {
        observer.virtual_macs.clone_from(&self.macs);
        (observer.server_needs, observer.has_services) = (self.needs, !self.services.is_empty());
    }

    /// Replaces the virtual services by a configuration that was checked.
    pub(crate) fn set_services(&mut self, on: &mut Parts<'_>, wanted: Services) {
        let had_ports = on.observer.wants_ports();
        let changes = self.set(wanted);
        self.publish(on.observer);
        on.observer.update_needs(&on.cx, had_ports);
        for service in changes.gone {
            self.delete_connections(on, Owner { service, member: MemberId(0) }, SERVICE_MASK);
            self.connections.forget(|owner| owner.service == service);
            self.wildcards.forget(service);
            self.unavailable.retain(|(other, _), _| *other != service);
            self.reported.retain(|(other, _), _| *other != service);
        }
        for owner in changes.others {
            self.delete_connections(on, owner, MEMBER_MASK);
            self.connections.forget(|other| *other == owner);
        }
        changes.rewritten.into_iter().for_each(|service| self.rewrite_connections(on, service));
    }

    /// Rewrites the rules of a service's connections. The next packets of its clients go to the
    /// controller, unless slot rules are below: then the rules of connections are replaced at once.
    fn rewrite_connections(&mut self, on: &mut Parts<'_>, service: ServiceId) {
        let living = self.connections.select(|other| other.owner.service == service && other.has_rules());
        if self.wildcards.of.contains_key(&service) {
            for tuple in living {
                let known = self.connections.get(&tuple).copied();
                let ends = known.and_then(|known| Some((known, self.ends_of_known(&tuple, &known)?)));
                if let Some((known, ends)) = ends {
                    self.send_rules(on, known.edge, &ends, known.mac);
                }
            }
            return;
        }
        self.delete_connections(on, Owner { service, member: MemberId(0) }, SERVICE_MASK);
        let (now, connections) = (on.cx.now, &mut self.connections);
        living.iter().for_each(|tuple| connections.set_stage(tuple, ConnectionState::Closed(now)));
    }

    /// Deletes the rules of all connections of a service or member, on every switch.
    fn delete_connections(&mut self, on: &mut Parts<'_>, owner: Owner, mask: u64) {
        on.cx.channels.delete_rules(
            |_| true,
            Match::default(),
            on.updater.compiler.connection_cookie(owner) & mask,
            mask,
        );
    }

    /// Updates rules of virtual addresses and states of members after changes of ports, hosts,
    /// links or services.
    /// Records that a timer was due: some changes of services depend on time.
    pub(crate) fn time_has_passed(&mut self) {
        self.is_new = true;
    }

    pub(crate) fn update(&mut self, on: &mut Parts<'_>, has_changed: bool) {
        let is_new = std::mem::take(&mut self.is_new);
        if self.is_idle() {
            // As in `update_client_slots`: a time left over from removed services would be due on
            // every call.
            self.wildcards.next = None;
            return;
        }
        if !(is_new || has_changed) {
            return;
        }
        self.write_addresses(on);
        self.update_members(on);
        self.update_client_slots(on);
        self.drop_dead_paths(on);
        self.update_moved_hosts(on);
        self.update_connection_paths(on);
        self.forget_removed_members();
        self.retry_pending(on);
        let is_anyone_unknown = self.unknown_members(on).next().is_some();
        self.next_seek = is_anyone_unknown.then(|| self.next_seek.unwrap_or(on.cx.now));
    }

    fn write_addresses(&mut self, on: &mut Parts<'_>) {
        let nodes = on.planner.port_rules.edges().filter_map(|datapath| on.observer.network.node_of(datapath));
        let mut wanted = RuleSet::new();
        for node in nodes {
            let mut add = |(key, rule): Entry| drop(wanted.insert((node, key), rule));
            self.macs.keys().for_each(|address| add(on.updater.compiler.virtual_address(*address)));
            if on.updater.switches.get(&node).is_some_and(|switch| switch.takes_tcp_flags) {
                let services = self.services.values().filter(|service| {
                    // With proactive rules, connections must not involve the controller.
                    service.protocol == Protocol::Tcp && service.buckets().is_none()
                });
                services.for_each(|to| add(on.updater.compiler.opening(to.mac(), to.address, to.port)));
            }
        }
        on.updater.replace(&mut self.address_rules, wanted);
    }

    /// Returns when [`VipService::run_timers`] must be called.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let held = self.held.iter().map(|held| held.until);
        let timers = [self.next_seek, self.waiting.next_due(), self.wildcards.next, self.next_check(now)];
        held.chain(timers.into_iter().flatten()).min()
    }
    pub(crate) fn run_timers(&mut self, on: &mut Parts<'_>) {
        self.probe_unknown_members(on);
        self.run_checks(on);
    }

    /// Returns whether rules lead from a host at `at` to another one and back. A virtual address
    /// needs no rules if first packets are kept until rules lead to the member; otherwise it needs
    /// the return rules.
    pub(crate) fn are_connected(&self, on: &mut Parts<'_>, at: SwitchPort, asker: Ipv4Addr, target: Ipv4Addr) -> bool {
        let is_ready = self.is_virtual_ready(on, at, asker, target);
        is_ready.unwrap_or_else(|| on.planner.are_connected(&on.observer.network, on.updater, at, asker, target))
    }

    /// Returns whether a host may use a virtual address; `None` if the address is not virtual.
    fn is_virtual_ready(&self, on: &Parts<'_>, at: SwitchPort, asker: Ipv4Addr, target: Ipv4Addr) -> Option<bool> {
        self.is_virtual(target).then(|| {
            let edge = on.observer.network.host_at(asker).map(|host| host.edge);
            let near = on.observer.network.node_of(at.0).filter(|near| edge == Some(*near));
            near.is_some_and(|near| self.are_replies_translated(on, asker, target, near))
        })
    }

    /// Sends the ARP replies whose rules are installed now. `has_changed` means that hosts, ports or
    /// switches have changed.
    pub(crate) fn release_arp_replies(&self, on: &mut Parts<'_>, has_changed: bool) {
        for held in on.planner.take_arp_replies(on.cx.now, on.updater, has_changed) {
            let is_due = held.until <= on.cx.now;
            if is_due || self.are_connected(on, held.reply.to, held.reply.requester, held.reply.target) {
                send_arp_reply(&mut on.cx, on.observer.announced.as_ref(), held.reply);
            } else {
                on.planner.keep_arp_reply(held, &on.observer.network);
            }
        }
    }
}

#[cfg(test)]
mod tests;
