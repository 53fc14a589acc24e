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

use balance::central::{LinkLoad, NetworkView, Path};
use balance::server::ServerNeeds;
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::{DatapathId, MacAddr, Match};

pub use connection_table::Counts;
use connection_table::{ConnectionState, Connections};
use first_packets::HeldPacket;
pub use health::Failure;
use pending_first_packets::PendingFirstPackets;
use pool_state::{MemberEntry, PoolState};
pub use reports::REPORT_PORT;
pub(crate) use rule_install::PendingInstalls;
use rules::{MEMBER_MASK, Owner, SERVICE_MASK};
pub use spec::{
    Check, Established, MEMBER_MAX, Member, MemberId, Monitor, Pool, PoolId, Protocol, Refusal, Service, ServiceId,
    Services, ServicesError, mac_of,
};
use wildcard::Wildcards;
pub use wildcard_spec::{BUCKETS, Rules};

pub use status::{MemberState, MemberStatus, ServiceStatus};

use crate::Config;
use crate::controller::Controller;
use crate::flows::Flows;
use crate::limits::RateLimiter;
use crate::network::Network;
use crate::planning::compile::Entry;
use crate::rules::installers::RuleSet;

/// Source of health checks; not the address of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checker {
    /// IPv4 address; replies to it reach the controller from every switch with a member.
    pub ipv4: Ipv4Addr,
    /// Ethernet address in ARP replies for it.
    pub mac: MacAddr,
}

/// Configuration and state of virtual services.
#[derive(Default)]
pub(crate) struct Vips {
    wanted: Services,
    services: BTreeMap<ServiceId, Service>,
    pools: BTreeMap<PoolId, PoolState>,
    by_place: BTreeMap<(Ipv4Addr, u8, u16), ServiceId>,
    macs: BTreeMap<Ipv4Addr, MacAddr>,
    connections: Connections,
    /// Paths of connections whose balancer picked one, by translated tuple.
    pinned: BTreeMap<FiveTuple, Path>,
    /// Addresses of hosts that have left their switches.
    moved: Vec<Ipv4Addr>,
    /// Continuing connections whose paths must be picked again.
    pending_paths: BTreeSet<FiveTuple>,
    seed: u64,
    held: Vec<HeldPacket>,
    waiting: PendingFirstPackets,
    wildcards: Wildcards,
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
    is_new: bool,
}

impl Vips {
    pub(crate) fn new(config: &Config) -> Vips {
        let checker = config.health_check_address;
        Vips {
            macs: checker.iter().map(|checker| (checker.ipv4, checker.mac)).collect(),
            connections: Connections::new(config.connections_max, config.connection_retention),
            seed: config.seed,
            checker,
            is_new: checker.is_some(),
            ..Vips::default()
        }
    }

    pub(crate) fn mac_of(&self, address: Ipv4Addr) -> Option<MacAddr> {
        self.macs.get(&address).copied()
    }
    /// Returns whether a flow is one direction of a connection whose balancer picked its path.
    pub(crate) fn is_pinned(&self, tuple: &FiveTuple) -> bool {
        !self.pinned.is_empty() && (self.pinned.contains_key(tuple) || self.pinned.contains_key(&tuple.reverse()))
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
        self.macs = services.values().map(|service| (service.address, service.mac())).chain(checker).collect();
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

fn view_of<'a>(now: Time, network: &'a Network, flows: &'a Flows, load: &'a [LinkLoad]) -> NetworkView<'a> {
    let (topology, alive, routes) = (&network.topology, network.alive(), &network.routes);
    NetworkView { now, topology, alive, routes, load, flows: &flows.table }
}

/// Consequences of a new configuration for connections.
#[derive(Debug, Default)]
struct Changes {
    gone: Vec<ServiceId>,
    rewritten: Vec<ServiceId>,
    /// Owners whose number belongs to another server now.
    others: Vec<Owner>,
}

impl Controller {
    /// Replaces the virtual services. Unchanged ones are left alone, and removed members keep their
    /// connections. Connections of removed services, and of members whose number belongs to another
    /// server now, are closed. After a restart it must be called before switches connect, so that
    /// connections continue.
    ///
    /// # Errors
    ///
    /// [`ServicesError`] names the first invalid setting; nothing has changed then.
    pub fn set_services(&mut self, now: Time, wanted: Services) -> Result<(), ServicesError> {
        wanted.check(self.config.health_check_address.map(|checker| checker.ipv4))?;
        if wanted == self.vips.wanted {
            return Ok(());
        }
        self.wake(now);
        let had_ports = self.wants_ports();
        let changes = self.vips.set(wanted);
        self.update_needs(had_ports);
        for service in changes.gone {
            self.delete_connections(Owner { service, member: MemberId(0) }, SERVICE_MASK);
            self.vips.connections.forget(|owner| owner.service == service);
            self.vips.wildcards.forget(service);
            self.vips.unavailable.retain(|(other, _), _| *other != service);
            self.vips.reported.retain(|(other, _), _| *other != service);
        }
        for owner in changes.others {
            self.delete_connections(owner, MEMBER_MASK);
            self.vips.connections.forget(|other| *other == owner);
        }
        changes.rewritten.into_iter().for_each(|service| self.rewrite_connections(service));
        Ok(())
    }

    /// Rewrites the rules of a service's connections. The next packets of its clients go to the
    /// controller, unless slot rules are below: then the rules of connections are replaced at once.
    fn rewrite_connections(&mut self, service: ServiceId) {
        let living = self.vips.connections.select(|other| other.owner.service == service && other.has_rules());
        if self.vips.wildcards.of.contains_key(&service) {
            for tuple in living {
                let known = self.vips.connections.get(&tuple).copied();
                let ends = known.and_then(|known| Some((known, self.ends_of_known(&tuple, &known)?)));
                if let Some((known, ends)) = ends {
                    self.send_rules(known.edge, &ends, known.mac);
                }
            }
            return;
        }
        self.delete_connections(Owner { service, member: MemberId(0) }, SERVICE_MASK);
        let (now, connections) = (self.now, &mut self.vips.connections);
        living.iter().for_each(|tuple| connections.set_stage(tuple, ConnectionState::Closed(now)));
    }

    /// Deletes the rules of all connections of a service or member, on every switch.
    fn delete_connections(&mut self, owner: Owner, mask: u64) {
        self.delete_rules(|_| true, Match::default(), self.compiler.connection_cookie(owner) & mask, mask);
    }

    /// Updates rules of virtual addresses and states of members after changes of ports, hosts,
    /// links or services.
    pub(crate) fn update_services(&mut self, has_changed: bool) {
        let is_new = std::mem::take(&mut self.vips.is_new);
        if self.vips.is_idle() {
            // As in `update_client_slots`: a time left over from removed services would be due on
            // every call.
            self.vips.wildcards.next = None;
            return;
        }
        if !(is_new || has_changed) {
            return;
        }
        self.write_addresses();
        self.update_members();
        self.update_client_slots();
        self.drop_dead_paths();
        self.update_moved_hosts();
        self.update_connection_paths();
        self.vips.forget_removed_members();
        self.retry_pending();
        let is_anyone_unknown = self.unknown_members().next().is_some();
        self.vips.next_seek = is_anyone_unknown.then(|| self.vips.next_seek.unwrap_or(self.now));
    }

    fn write_addresses(&mut self) {
        let nodes = self.ports.edges().filter_map(|datapath| self.network.node_of(datapath));
        let mut wanted = RuleSet::new();
        for node in nodes {
            let mut add = |(key, rule): Entry| drop(wanted.insert((node, key), rule));
            self.vips.macs.keys().for_each(|address| add(self.compiler.virtual_address(*address)));
            if self.fabric.switches.get(&node).is_some_and(|switch| switch.takes_tcp_flags) {
                let services = self.vips.services.values().filter(|service| {
                    // With proactive rules, connections must not involve the controller.
                    service.protocol == Protocol::Tcp && service.buckets().is_none()
                });
                services.for_each(|to| add(self.compiler.opening(to.mac(), to.address, to.port)));
            }
        }
        self.fabric.replace(&mut self.vips.address_rules, wanted);
    }

    pub(crate) fn next_of_services(&self) -> Option<Time> {
        let held = self.vips.held.iter().map(|held| held.until);
        let timers = [self.vips.next_seek, self.vips.waiting.next_due(), self.vips.wildcards.next, self.next_check()];
        held.chain(timers.into_iter().flatten()).min()
    }
}
