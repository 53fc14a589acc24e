//! Services whose traffic crosses one switch, their mux, as in DUET: slot rules are only there.
//!
//! The other switches lead packets for the service to the mux, along one shortest-path tree. The mux
//! has the rules of all slots. Every service keeps its backstop: without a mux, its packets go to the
//! controller at the client's switch, which assigns the members of the slots, so connections keep
//! their member when they change between the two.
//!
//! A service changes its mux, its tree or the member of a slot through the backstop. First the
//! switches of clients stop leading packets to the mux, then the tree is removed, and the new tree and
//! mux get their rules. Last the switches of clients lead packets there. Each step waits until the
//! switches have confirmed the one before, so packets never follow parts of two trees, which may be a
//! loop.
//!
//! Replies do not cross the mux: the client's switch translates them, as with wildcard rules.

mod assignment;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use core::net::Ipv4Addr;
use net::{HostIx, LinkIx, NodeIx, Time};
use openflow::headers::protocol;
use openflow::{Action, DatapathId, Instructions, Masked, Match, PortNo};

use super::client_slots::{SlotState, SlotTable};
use super::spec::{MemberId, Service, ServiceId};
use super::{Parts, VipService};
use crate::updater::compile::{CLASSIFY, Compiler, Entry, FORWARD, FROM_HOST, Purpose, to};
use crate::updater::store::{DesiredRule, RuleKey};
use assignment::{Demand, Resources, assign};

/// Priority in table 0 of packets that a client's switch leads to a mux: below slot rules, above the
/// rule of the virtual address.
const TO_MUX: u16 = 455;
/// Priority in table 1 of the tree to a mux: no other rule there is about virtual addresses.
const TREE: u16 = 900;
/// Priority in table 1 of packets that a mux has translated and must not output by their input port.
const RETURN: u16 = 6_000;
/// Metadata of packets that a mux has translated.
const TRANSLATED: Masked<u64> = Masked { value: 2, mask: 3 };
/// Share of the rate of a link that services may use (DUET: 80 %).
const LINK_SHARE: f64 = 0.8;
/// Interval at which an unfinished change is looked at.
const STEP: Time = Time::from_ms(20);
/// Time for packets that are on their way to a mux.
const DRAIN: Time = Time::from_ms(100);

/// Time after which a switch that rejected rules of a mux is tried again.
const RETRY: Time = Time::from_s(60);

/// A mux and the tree to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Route {
    pub(super) switch: NodeIx,
    datapath: Option<DatapathId>,
    /// Next link of each other switch towards it.
    hops: BTreeMap<NodeIx, LinkIx>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Rules of mux and tree are being installed.
    Entering,
    Active,
    /// Switches of clients no longer lead packets there.
    Leaving,
}

#[derive(Clone, Debug)]
struct Mux {
    route: Route,
    slots: Vec<SlotState>,
    stage: Stage,
}

/// The muxes of all services.
#[derive(Debug, Default)]
pub(super) struct Muxes {
    of: BTreeMap<ServiceId, Mux>,
    /// Changes that must be confirmed before the next step of each service, and its earliest time.
    pending: BTreeMap<ServiceId, (Vec<(NodeIx, u64)>, Time)>,
    /// Switches that rejected rules of a service, until when they are not tried again.
    refused: BTreeMap<(ServiceId, NodeIx), Time>,
}

impl Muxes {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.pending.is_empty()
    }

    /// Returns the switch with the slot rules of a service, if packets go there or may do so.
    pub(super) fn switch_of(&self, service: ServiceId) -> Option<NodeIx> {
        self.of.get(&service).map(|mux| mux.route.switch)
    }

    /// Returns the switch that packets of a service go to.
    pub(super) fn active(&self, service: ServiceId) -> Option<DatapathId> {
        self.of.get(&service).filter(|mux| mux.stage == Stage::Active)?.route.datapath
    }
}

impl VipService {
    /// Advances the muxes of all services by one step. Returns when to do so again.
    pub(super) fn step_muxes(&mut self, on: &Parts<'_>) -> Option<Time> {
        let now = on.cx.now;
        self.muxes.refused.retain(|(service, _), until| *until > now && self.services.contains_key(service));
        let mut wanted = self.plan_muxes(on);
        let known: BTreeSet<ServiceId> = self.muxes.of.keys().copied().chain(wanted.keys().copied()).collect();
        let mut is_unfinished = !self.muxes.pending.is_empty();
        let is_confirmed = |(tickets, from): &(Vec<(NodeIx, u64)>, Time)| {
            *from <= now && tickets.iter().all(|(node, ticket)| on.updater.is_confirmed(*node, *ticket))
        };
        self.muxes.pending.retain(|_, change| !is_confirmed(change));
        let mut changed = Vec::new();
        for service in known {
            if self.muxes.pending.contains_key(&service) {
                continue;
            }
            let next = wanted.remove(&service);
            let is_right =
                |mux: &Mux| Some((&mux.route, &mux.slots)) == next.as_ref().map(|(route, slots)| (route, slots));
            let stage = self.muxes.of.get(&service).map(|mux| (mux.stage, is_right(mux)));
            match (stage, next) {
                (None, None) | (Some((Stage::Active, true)), _) => continue,
                (None, Some((route, slots))) => {
                    let mux = Mux { route, slots, stage: Stage::Entering };
                    self.muxes.of.insert(service, mux);
                }
                (Some((Stage::Entering, true)), _) if self.is_mux_refused(on, service) => {
                    let switch = self.muxes.of.remove(&service).map(|mux| mux.route.switch);
                    let until = now.saturating_add(RETRY);
                    self.muxes.refused.extend(switch.map(|switch| ((service, switch), until)));
                }
                (Some((Stage::Entering, true)), _) => self.set_stage(service, Stage::Active),
                (Some((Stage::Active, false)), _) => self.set_stage(service, Stage::Leaving),
                (Some((Stage::Entering, false) | (Stage::Leaving, _)), _) => drop(self.muxes.of.remove(&service)),
            }
            changed.push(service);
        }
        is_unfinished |= !changed.is_empty();
        for service in &changed {
            // The tickets follow when the rules are set.
            let is_leaving = self.muxes.of.get(service).is_some_and(|mux| mux.stage == Stage::Leaving);
            let pause = if is_leaving { DRAIN } else { Time::ZERO };
            self.muxes.pending.insert(*service, (Vec::new(), now.saturating_add(pause)));
        }
        let retry = self.muxes.refused.values().min().copied();
        is_unfinished.then(|| now.saturating_add(STEP)).into_iter().chain(retry).min()
    }

    fn set_stage(&mut self, service: ServiceId, stage: Stage) {
        if let Some(mux) = self.muxes.of.get_mut(&service) {
            mux.stage = stage;
        }
    }

    /// Records the changes that the last step has caused.
    pub(super) fn note_mux_tickets(&mut self, tickets: &[(NodeIx, u64)]) {
        for (known, _) in self.muxes.pending.values_mut() {
            known.extend_from_slice(tickets);
        }
    }

    /// Returns whether a switch rejected a rule of a service's mux: its table may be full.
    fn is_mux_refused(&self, on: &Parts<'_>, service: ServiceId) -> bool {
        let Some(switch) = self.muxes.switch_of(service) else { return false };
        let mut rules = self.wildcards.rules_of(service).filter(|(node, _)| *node == switch);
        rules.any(|(node, key)| self.is_rejected(on, node, key))
    }

    /// Returns the route and the slots of each service that has a mux.
    fn plan_muxes(&self, on: &Parts<'_>) -> BTreeMap<ServiceId, (Route, Vec<SlotState>)> {
        let services: Vec<(&Service, &SlotTable)> = self
            .services
            .values()
            .filter(|service| service.rules.mux_traffic().is_some())
            .filter_map(|service| Some((service, self.wildcards.of.get(&service.id)?)))
            .filter(|(service, slots)| self.is_whole(service, slots))
            .collect();
        if services.is_empty() {
            return BTreeMap::new();
        }
        let switches: Vec<NodeIx> =
            on.updater.switches.iter().filter(|(_, switch)| switch.is_online).map(|(node, _)| *node).collect();
        let trees: BTreeMap<NodeIx, Route> = switches.iter().map(|node| (*node, tree(on, *node))).collect();
        let demand = |(service, slots): &(&Service, &SlotTable)| Demand {
            traffic: service.rules.mux_traffic().map_or(0.0, |traffic| traffic.as_bps() as f64),
            rules: slots.count() as u32,
            current: self.muxes.switch_of(service.id),
        };
        let demands: Vec<Demand> = services.iter().map(demand).collect();
        let load = |position: usize, switch: NodeIx| {
            let (service, slots) = services[position];
            let is_refused = self.muxes.refused.contains_key(&(service.id, switch));
            trees.get(&switch).filter(|_| !is_refused).and_then(|route| self.load(on, service, slots, route))
        };
        let rate = |link: LinkIx| on.observer.network.topology.link(link).rate.as_bps() as f64 * LINK_SHARE;
        let rules_max = on.cx.config.mux_rules;
        let assigned = assign(&demands, &Resources { switches: &switches, rules_max, rate: &rate, load: &load });
        let planned = services.iter().zip(assigned).filter_map(|((service, slots), switch)| {
            let route = trees.get(&switch?)?.clone();
            Some((service.id, (route, slots.slots().map(|(_, slot)| slot).collect())))
        });
        planned.collect()
    }

    /// Returns whether every slot has a member with a known interface.
    fn is_whole(&self, service: &Service, slots: &SlotTable) -> bool {
        let Some(pool) = self.pools.get(&service.pool) else { return false };
        let has_member = |slot: SlotState| match slot {
            SlotState::Assigned(member) => pool.members.get(&member).is_some_and(|entry| entry.mac.is_some()),
            _ => false,
        };
        slots.count() > 0 && slots.slots().all(|(_, slot)| has_member(slot))
    }

    /// Returns the load of a service on links between switches if its mux is at the end of this
    /// tree: from the switches of clients along the tree, from there to the members over all shortest
    /// paths alike. `None` if a member is not reached.
    fn load(
        &self,
        on: &Parts<'_>,
        service: &Service,
        slots: &SlotTable,
        route: &Route,
    ) -> Option<BTreeMap<LinkIx, f64>> {
        let network = &on.observer.network;
        let traffic = service.rules.mux_traffic()?.as_bps() as f64;
        let clients: Vec<NodeIx> = network.current_hosts().map(|(_, host)| host.edge).collect();
        let mut load: BTreeMap<LinkIx, f64> = BTreeMap::new();
        for edge in &clients {
            let mut node = *edge;
            while node != route.switch {
                // A switch that is cut off, or not connected, sends nothing to a new mux.
                let Some(link) = route.hops.get(&node).copied() else { break };
                *load.entry(link).or_insert(0.0) += traffic / clients.len() as f64;
                node = network.topology.link(link).to;
            }
        }
        let pool = self.pools.get(&service.pool)?;
        for (_, slot) in slots.slots() {
            let member = pool.members.get(&slot.current_member()?)?;
            let host = network.find_host(member.spec.address)?;
            spread(on, (route.switch, host), traffic / slots.count() as f64, &mut load)?;
        }
        Some(load)
    }

    /// Returns the rules of a service's mux at one switch, beyond its slot rules there.
    pub(super) fn mux_rules_at(&self, on: &Parts<'_>, service: &Service, node: NodeIx, is_edge: bool) -> Vec<Entry> {
        let Some(mux) = self.muxes.of.get(&service.id) else { return Vec::new() };
        let mut entries = Vec::new();
        if mux.route.switch == node {
            entries.extend(self.returns(on, service, mux));
        }
        if let Some(port) = mux.route.hops.get(&node).and_then(|link| on.observer.network.port_of(*link)) {
            entries.push(on.updater.compiler.mux_tree(service, port));
            if is_edge && mux.stage == Stage::Active {
                entries.push(on.updater.compiler.to_mux(service));
            }
        }
        entries
    }

    /// Returns the rules of a mux for packets whose member is behind the link that they came by. A
    /// switch does not send a packet back where it came from unless a rule says so.
    fn returns(&self, on: &Parts<'_>, service: &Service, mux: &Mux) -> Vec<Entry> {
        let network = &on.observer.network;
        let pool = self.pools.get(&service.pool);
        let members: BTreeSet<MemberId> = mux.slots.iter().filter_map(|slot| slot.current_member()).collect();
        let members = members.iter().filter_map(|member| Some(pool?.members.get(member)?.spec.address));
        let members: Vec<Ipv4Addr> = members.collect();
        let from_tree = |link: &&LinkIx| mux.route.hops.get(&network.topology.link(**link).to) == Some(&link.reverse());
        let mut entries = Vec::new();
        for link in network.topology.out_links(mux.route.switch).iter().filter(from_tree) {
            for member in &members {
                let Some(class) = network.find_host(*member).map(|host| network.routes.class_of(host)) else {
                    continue;
                };
                let hops = network.routes.next_hops(mux.route.switch, class);
                let Some(port) = network.port_of(*link).filter(|_| hops.contains(link)) else { continue };
                let others: Vec<PortNo> =
                    hops.iter().filter(|hop| *hop != link).filter_map(|hop| network.port_of(*hop)).collect();
                let place = member.to_bits() as usize % others.len().max(1);
                let out = others.get(place).copied().unwrap_or(PortNo::IN_PORT);
                entries.push(on.updater.compiler.mux_return(*member, port, out));
            }
        }
        entries
    }

    /// Returns whether a packet of a service with a mux reached the controller elsewhere than at the
    /// switch of its client: it was on its way to a mux that has changed.
    pub(super) fn is_on_the_way(&self, on: &Parts<'_>, service: &Service, at: NodeIx, client: Ipv4Addr) -> bool {
        let edge = on.observer.network.host_at(client).map(|host| host.edge);
        service.rules.mux_traffic().is_some() && edge.is_some_and(|edge| edge != at)
    }
}

/// Marks a slot rule of a mux: its packets are not as from a host, whose traffic may be split.
pub(super) fn marked((key, rule): Entry) -> Entry {
    let instructions = Instructions { metadata: Some(TRANSLATED), ..rule.instructions };
    (key, DesiredRule { instructions, ..rule })
}

/// Returns the shortest-path tree to a switch over live links and connected switches; of links alike,
/// it has the lower number.
fn tree(on: &Parts<'_>, switch: NodeIx) -> Route {
    let network = &on.observer.network;
    let topology = &network.topology;
    let (mut hops, mut queue) = (BTreeMap::new(), VecDeque::from([switch]));
    while let Some(node) = queue.pop_front() {
        for out in topology.out_links(node) {
            let (neighbour, back) = (topology.link(*out).to, out.reverse());
            let is_usable = network.is_alive(*out) && network.is_alive(back);
            let is_switch = on.updater.switches.get(&neighbour).is_some_and(|switch| switch.is_online);
            if is_usable && is_switch && neighbour != switch && !hops.contains_key(&neighbour) {
                hops.insert(neighbour, back);
                queue.push_back(neighbour);
            }
        }
    }
    Route { switch, datapath: network.datapath_of(switch), hops }
}

/// Adds traffic from a switch to a host, split evenly over next hops.
fn spread(on: &Parts<'_>, (from, host): (NodeIx, HostIx), bps: f64, load: &mut BTreeMap<LinkIx, f64>) -> Option<()> {
    let network = &on.observer.network;
    let class = network.routes.class_of(host);
    if network.routes.class_node(class) == from {
        return Some(());
    }
    let hops = network.routes.next_hops(from, class);
    if hops.is_empty() {
        return None;
    }
    for link in hops {
        *load.entry(*link).or_insert(0.0) += bps / hops.len() as f64;
        spread(on, (network.topology.link(*link).to, host), bps / hops.len() as f64, load)?;
    }
    Some(())
}

impl Compiler {
    /// Returns the rule of a client's switch that leads packets of a service to its mux.
    fn to_mux(self, service: &Service) -> Entry {
        let instructions = Instructions { metadata: Some(FROM_HOST), goto: Some(FORWARD), ..Instructions::default() };
        self.mux_rule(RuleKey::new(CLASSIFY, TO_MUX, at(service)), instructions)
    }

    /// Returns the rule of a switch on the tree to a mux.
    fn mux_tree(self, service: &Service, port: PortNo) -> Entry {
        let key = RuleKey::new(FORWARD, TREE, at(service));
        self.mux_rule(key, Instructions::apply(vec![Action::output(port)]))
    }

    /// Returns the rule of a mux for packets to a member that came by a port behind which the member
    /// is.
    fn mux_return(self, member: Ipv4Addr, from: PortNo, out: PortNo) -> Entry {
        let match_ = Match { in_port: Some(from), metadata: Some(TRANSLATED), ..to(member) };
        self.mux_rule(RuleKey::new(FORWARD, RETURN, match_), Instructions::apply(vec![Action::output(out)]))
    }

    fn mux_rule(self, key: RuleKey, instructions: Instructions) -> Entry {
        let cookie = self.cookie(Purpose::Classify);
        (key, DesiredRule { cookie, idle_timeout_s: 0, instructions, group: None })
    }
}

fn at(service: &Service) -> Match {
    let match_ = Match { ip_proto: Some(service.protocol.number()), ..to(service.address) };
    match service.protocol.number() {
        protocol::TCP => Match { tcp_dst: Some(service.port), ..match_ },
        _ => Match { udp_dst: Some(service.port), ..match_ },
    }
}
