//! Virtual services: addresses that no host has, served by the members of pools.
//!
//! **ARP** for a virtual address is answered by the controller. **The first packet** of a connection comes to it whole, by
//! one rule per virtual address (which serves all services there, and tells of packets that none is for). It picks a
//! member, and sends the two rules of the connection (`rules.rs`), a barrier, and the packet through the tables: it is
//! delivered. A client may open another connection from the same port while the rules of the one before are there: switches that can
//! tell (Open vSwitch, by control bits of TCP) send what opens one to the controller in any case; elsewhere it goes where the one
//! before went. All rewriting is done at the client's switch; elsewhere a connection is one between two hosts, which is
//! repaired, moved and divided like any other.
//!
//! **The rules of connections are soft state** of the switches, as those that count flows are (`soft.rs`): they are
//! sent at once and not kept as a wish, idle out, and are found again by surveys, also by another life of this
//! controller (`survey.rs`). The controller remembers which connection is whose (`table.rs`) for longer than rules last.
//!
//! What is not rewritten: ICMP errors about a connection, and fragments other than the first, which name no port; they are
//! dropped. While a connection has rules, what the member sends to the client from the same ports on its own account
//! seems to come from the virtual address.

mod bucket_rules;
mod buckets;
mod flows;
mod health;
mod measure;
mod members;
mod packets;
mod paths;
mod pools;
mod reports;
mod rules;
mod sending;
mod spec;
mod survey;
mod table;
mod view;
mod waiting;
mod wildcard;
mod wildcard_spec;

use std::collections::{BTreeMap, BTreeSet};

use balance::central::{LinkLoad, NetworkView, Path};
use balance::server::ServerNeeds;
use core::net::Ipv4Addr;
use net::{FiveTuple, NodeIx, Time};
use openflow::{DatapathId, FlowMod, FlowModCommand, Instructions, MacAddr, Match, Message};

pub use health::Failure;
use packets::HeldPacket;
use pools::{MemberFacts, PoolNow};
pub use reports::REPORT_PORT;
use rules::{MEMBER_MASK, Owner, SERVICE_MASK};
pub(crate) use sending::Connecting;
pub use spec::{
    Check, Established, MEMBER_MAX, Member, MemberId, Monitor, Pool, PoolId, Protocol, Refusal, Service, ServiceId,
    Services, ServicesError, mac_of,
};
pub use table::Counts;
use table::{Connections, Stage};
use waiting::Waiting;
use wildcard::Wildcards;
pub use wildcard_spec::{BUCKETS, Rules};

pub use view::{MemberNow, MemberState, ServiceNow};

use crate::Config;
use crate::compile::CLASSIFY;
use crate::controller::Controller;
use crate::flows::Flows;
use crate::network::Network;

/// The address health checks come from. No host has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checker {
    /// IPv4 address; answers to it come to the controller from wherever members are.
    pub ipv4: Ipv4Addr,
    /// Ethernet address.
    pub mac: MacAddr,
}

/// Where connections of TCP to a virtual address are opened: its Ethernet address, and a port.
type OpenedAt = (MacAddr, u16);

/// What is wanted and known of virtual services.
pub(crate) struct Vips {
    wanted: Services,
    services: BTreeMap<ServiceId, Service>,
    pools: BTreeMap<PoolId, PoolNow>,
    by_place: BTreeMap<(Ipv4Addr, u8, u16), ServiceId>,
    macs: BTreeMap<Ipv4Addr, MacAddr>,
    connections: Connections,
    /// Paths of connections whose balancer picked one, by what they are beyond the client's switch.
    pinned: BTreeMap<FiveTuple, Path>,
    /// Addresses of hosts that have left their switches.
    moved: Vec<Ipv4Addr>,
    /// Connections that go on, whose paths are to be picked again.
    unfollowed: BTreeSet<FiveTuple>,
    seed: u64,
    held: Vec<HeldPacket>,
    waiting: Waiting,
    wildcards: Wildcards,
    /// Where rules that lead to the controller are wanted: of virtual addresses, and of connections that are opened to a port.
    ruled: BTreeSet<(NodeIx, Ipv4Addr, Option<OpenedAt>)>,
    /// Switches that would not have the rules of a service, until when nothing is tried.
    unavailable: BTreeMap<(ServiceId, DatapathId), Time>,
    /// Switches refusals of a service were told of, until when they are not told again.
    told: BTreeMap<(ServiceId, DatapathId), Time>,
    answers: BTreeMap<DatapathId, packets::Allowance>,
    next_seek: Option<Time>,
    /// What the pickers of all pools need.
    pub(crate) needs: ServerNeeds,
    round: measure::Round,
    /// Number of the last check.
    next_check: u32,
    /// The checker's address.
    checker: Option<Checker>,
    is_new: bool,
}

impl Vips {
    pub(crate) fn new(config: &Config) -> Vips {
        Vips {
            wanted: Services::default(),
            services: BTreeMap::new(),
            pools: BTreeMap::new(),
            by_place: BTreeMap::new(),
            macs: config.checker.iter().map(|checker| (checker.ipv4, checker.mac)).collect(),
            connections: Connections::new(config.connections_max, config.connection_memory),
            pinned: BTreeMap::new(),
            moved: Vec::new(),
            unfollowed: BTreeSet::new(),
            seed: config.seed,
            held: Vec::new(),
            waiting: Waiting::default(),
            wildcards: Wildcards::default(),
            ruled: BTreeSet::new(),
            unavailable: BTreeMap::new(),
            told: BTreeMap::new(),
            answers: BTreeMap::new(),
            next_seek: None,
            needs: ServerNeeds::default(),
            round: measure::Round::default(),
            next_check: 0,
            checker: config.checker,
            is_new: config.checker.is_some(),
        }
    }

    /// The Ethernet address of a virtual address.
    pub(crate) fn mac_of(&self, address: Ipv4Addr) -> Option<MacAddr> {
        self.macs.get(&address).copied()
    }
    /// Whether a flow is one way of a connection whose balancer picked its path.
    pub(crate) fn is_pinned(&self, tuple: &FiveTuple) -> bool {
        !self.pinned.is_empty() && (self.pinned.contains_key(tuple) || self.pinned.contains_key(&tuple.reverse()))
    }
    /// Whether an address is a virtual one.
    pub(crate) fn is_virtual(&self, address: Ipv4Addr) -> bool {
        self.macs.contains_key(&address)
    }

    fn is_idle(&self) -> bool {
        self.macs.is_empty() && self.ruled.is_empty()
    }
    fn member(&self, owner: Owner) -> Option<&MemberFacts> {
        let pool = self.services.get(&owner.service)?.pool;
        self.pools.get(&pool)?.members.get(&owner.member)
    }
    fn services_of(&self, pool: PoolId) -> impl Iterator<Item = ServiceId> {
        self.services.values().filter(move |service| service.pool == pool).map(|service| service.id)
    }

    /// Takes over what is wanted; whose connections are over, and whose rules are to be written anew.
    fn set(&mut self, wanted: Services) -> Changes {
        let mut changes = Changes::default();
        let services: BTreeMap<ServiceId, Service> =
            wanted.services.iter().map(|service| (service.id, service.clone())).collect();
        for (id, before) in &self.services {
            let place = |service: &Service| (service.address, service.protocol, service.port, service.pool);
            match services.get(id) {
                // Connections keep the rules they have, of whichever kind.
                Some(after) if Service { rules: before.rules, ..after.clone() } == *before => {}
                Some(after) if place(after) == place(before) => changes.rewritten.push(*id),
                _ => changes.gone.push(*id),
            }
        }
        let mut pools = BTreeMap::new();
        for spec in &wanted.pools {
            let before = self.pools.remove(&spec.id);
            let (pool, others) = PoolNow::follow(spec, before, self.seed);
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

    /// Members that were only waiting for their last connection are forgotten.
    fn forget_those_who_left(&mut self) {
        let counts = self.connections.counts();
        let (services, wildcards) = (&self.services, &self.wildcards);
        for (id, pool) in &mut self.pools {
            let is_busy = |member: MemberId| {
                let owners = services.values().filter(|service| service.pool == *id);
                let mut owners = owners.map(|service| Owner { service: service.id, member });
                owners.any(|owner| {
                    wildcards.has(owner) || counts.get(&owner).is_some_and(|counts| counts.connections > 0)
                })
            };
            pool.members.retain(|member, facts| !facts.is_leaving || is_busy(*member));
        }
    }
}

/// The network as balancers see it.
fn view_of<'a>(now: Time, network: &'a Network, flows: &'a Flows, load: &'a [LinkLoad]) -> NetworkView<'a> {
    let (topology, alive, routes) = (network.topology(), network.alive(), network.routes());
    NetworkView { now, topology, alive, routes, load, flows: &flows.table }
}

/// What follows for connections.
#[derive(Debug, Default)]
struct Changes {
    gone: Vec<ServiceId>,
    rewritten: Vec<ServiceId>,
    /// Their numbers are those of other servers now.
    others: Vec<Owner>,
}

impl Controller {
    /// Wants these virtual services, and no others. What stays as it was is left alone; members that are not wanted any more
    /// keep the connections they have; connections of services that are not, and of members that are other servers now,
    /// are over. To be called before switches connect where connections of an earlier life shall go on.
    ///
    /// # Errors
    /// [`ServicesError`] says what cannot be; nothing has changed then.
    pub fn set_services(&mut self, now: Time, wanted: Services) -> Result<(), ServicesError> {
        wanted.check(self.config.checker.map(|checker| checker.ipv4))?;
        if wanted == self.vips.wanted {
            return Ok(());
        }
        self.wake(now);
        let had_ports = self.wants_ports();
        let changes = self.vips.set(wanted);
        self.follow_needs(had_ports);
        for service in changes.gone {
            self.delete_connections(Owner { service, member: MemberId(0) }, SERVICE_MASK);
            self.vips.connections.forget(|owner| owner.service == service);
            self.vips.wildcards.forget(service);
            self.vips.unavailable.retain(|(other, _), _| *other != service);
            self.vips.told.retain(|(other, _), _| *other != service);
        }
        for owner in changes.others {
            self.delete_connections(owner, MEMBER_MASK);
            self.vips.connections.forget(|other| *other == owner);
        }
        changes.rewritten.into_iter().for_each(|service| self.rewrite_connections(service));
        Ok(())
    }

    /// The rules of a service's connections are others now. Its clients' next packets come to the controller; but where they would
    /// not, since rules of buckets are below, those of connections are replaced at once.
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
        living.iter().for_each(|tuple| connections.set_stage(tuple, Stage::Over(now)));
    }

    /// Deletes the rules of all connections of a service or member, on every switch.
    fn delete_connections(&mut self, owner: Owner, mask: u64) {
        let delete = FlowMod {
            command: FlowModCommand::Delete,
            cookie: self.compiler.connection_cookie(owner) & mask,
            cookie_mask: mask,
            ..FlowMod::add(CLASSIFY, 0, Match::default(), Instructions::default())
        };
        let connections: Vec<_> = self.connections.values().copied().collect();
        for connection in connections {
            self.tally.flow_mods += 1;
            self.send(connection, Message::FlowMod(delete.clone()));
            // Others may follow in their places.
            self.send(connection, Message::BarrierRequest);
        }
    }

    /// Ports, hosts, links or services are others now: rules of virtual addresses and states of members follow.
    pub(crate) fn follow_services(&mut self, has_changed: bool) {
        let is_new = std::mem::take(&mut self.vips.is_new);
        if self.vips.is_idle() || !(is_new || has_changed) {
            return;
        }
        self.write_addresses();
        self.look_at_members();
        self.follow_buckets();
        self.drop_dead_paths();
        self.follow_moved();
        self.follow_connections();
        self.vips.forget_those_who_left();
        self.look_at_waiting();
        let is_anyone_unknown = self.unknown_members().next().is_some();
        self.vips.next_seek = is_anyone_unknown.then(|| self.vips.next_seek.unwrap_or(self.now));
    }

    fn write_addresses(&mut self) {
        let nodes = self.ports.edges().filter_map(|datapath| self.network.node_of(datapath));
        let mut wanted = BTreeSet::new();
        for node in nodes {
            wanted.extend(self.vips.macs.keys().map(|address| (node, *address, None)));
            if self.fabric.switches.get(&node).is_some_and(|switch| switch.takes_tcp_flags) {
                let services = self.vips.services.values().filter(|service| {
                    // Where rules stand beforehand, connections are not to ask.
                    service.protocol == Protocol::Tcp && service.buckets().is_none()
                });
                wanted.extend(services.map(|service| (node, service.address, Some((service.mac(), service.port)))));
            }
        }
        let entry = |address: Ipv4Addr, place: Option<OpenedAt>| match place {
            Some((mac, port)) => self.compiler.opening(mac, address, port),
            None => self.compiler.virtual_address(address),
        };
        for (node, address, place) in self.vips.ruled.difference(&wanted) {
            self.fabric.set((*node, entry(*address, *place).0, None));
        }
        for (node, address, place) in wanted.difference(&self.vips.ruled) {
            let (key, wanted) = entry(*address, *place);
            self.fabric.set((*node, key, Some(wanted)));
        }
        self.vips.ruled = wanted;
    }

    /// When something about services is due.
    pub(crate) fn next_of_services(&self) -> Option<Time> {
        let held = self.vips.held.iter().map(|held| held.until);
        let timers = [self.vips.next_seek, self.vips.waiting.next_due(), self.vips.wildcards.next, self.next_check()];
        held.chain(timers.into_iter().flatten()).min()
    }
}
