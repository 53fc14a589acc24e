//! Services with proactive rules: the member of each client slot, the switches with slot rules, and
//! the handling of packets that reach the controller nevertheless.

use std::collections::{BTreeMap, BTreeSet};

use balance::server::{MemberLocation, MemberRoute};
use core::net::Ipv4Addr;
use net::{FiveTuple, NodeIx, Time};
use openflow::FlowStats;

use super::client_slots::{Fate, MemberProperties, SlotState, SlotTable};
use super::first_packets::{MemberChoice, member_port, opens};
use super::mux;
use super::pool_state::{MemberEntry, PoolState};
use super::rules::{Owner, Rewrite};
use super::slot_rules::{ClientSlot, FoundRule};
use super::spec::{Established, MemberId, Protocol, Service, ServiceId};
use super::status::MemberState;
use super::{Parts, VipService};
use crate::SwitchPort;
use crate::updater::RuleSet;
use crate::updater::compile::{Compiler, Entry};
use crate::updater::store::{DesiredRule, RuleKey};

/// Additional duration of a slot migration beyond the idle timeout: switches receive it one after
/// the other.
const MARGIN: Time = Time::from_s(1);
/// Time after which a switch that rejected slot rules gets them again.
const RESEND_AFTER: Time = Time::from_s(5);

/// Client slots of all services, and their rules.
#[derive(Debug, Default)]
pub(super) struct Wildcards {
    pub(super) of: BTreeMap<ServiceId, SlotTable>,
    rules: RuleSet,
    /// Slots at switches with rules of a previous controller instance that were found late, with
    /// the end of their separate migration.
    late: BTreeMap<(NodeIx, ServiceId), BTreeMap<usize, (MemberId, Time)>>,
    /// When to update again at the latest.
    pub(super) next: Option<Time>,
}

impl Wildcards {
    /// Returns whether a member may have connections of a service without separate rules.
    pub(super) fn has(&self, owner: Owner) -> bool {
        let mut late = self.late.iter().filter(|((_, service), _)| *service == owner.service);
        self.of.get(&owner.service).is_some_and(|buckets| buckets.has(owner.member))
            || late.any(|(_, late)| late.values().any(|(member, _)| *member == owner.member))
    }
    /// Returns the slot rules of a service, with their switches.
    pub(super) fn rules_of(&self, service: ServiceId) -> impl Iterator<Item = (NodeIx, &RuleKey)> {
        let is_of = move |wanted: &DesiredRule| Owner::of(wanted.cookie).service == service;
        let slot_rules = self.rules.iter().filter(|((_, key), _)| Compiler::is_slot_rule(key));
        slot_rules.filter(move |(_, wanted)| is_of(wanted)).map(|((node, key), _)| (*node, key))
    }
    pub(super) fn forget(&mut self, service: ServiceId) {
        self.of.remove(&service);
        self.late.retain(|(_, other), _| *other != service);
    }
}

impl MemberProperties for PoolState {
    fn is_up(&self, member: MemberId) -> bool {
        self.members.get(&member).is_some_and(|facts| facts.state == MemberState::Up)
    }
    fn fate(&self, member: MemberId) -> Fate {
        let Some(facts) = self.members.get(&member) else { return Fate::Moved };
        // A member that was never seen may still be found.
        let has_failed = facts.state != MemberState::Up && facts.up_since.is_some();
        if has_failed && self.spec.established == Established::Move { Fate::Moved } else { Fate::Kept }
    }
}

impl MemberEntry {
    fn lead(&self, service: &Service) -> Rewrite {
        let (protocol, at) = (service.protocol.number(), (service.address, service.port));
        let member = (self.spec.address, member_port(self.spec.port, service));
        Rewrite { protocol, at, vip_mac: service.mac(), member, is_tunnelled: service.is_tunnelled }
    }
}

impl VipService {
    /// Updates client slots and their rules after changes of members, hosts or services, or when
    /// time has passed.
    pub(super) fn update_client_slots(&mut self, on: &mut Parts<'_>) {
        let has_any = self.services.values().any(|service| service.buckets().is_some());
        if !has_any && self.wildcards.of.is_empty() && self.wildcards.rules.is_empty() && self.muxes.is_empty() {
            // A time in the past would be due on every call: the driver would loop.
            self.wildcards.next = None;
            return;
        }
        self.migrate_slots(on);
        let mux_step = self.step_muxes(on);
        let (wanted, has_refused) = self.all_slot_rules(on);
        let before = on.updater.tickets();
        on.updater.replace(&mut self.wildcards.rules, wanted);
        self.note_mux_tickets(&on.updater.tickets_since(&before));
        let again = has_refused.then(|| on.cx.now.saturating_add(RESEND_AFTER));
        self.wildcards.next = self.next_move(on).into_iter().chain(again).chain(mux_step).min();
    }

    fn migrate_slots(&mut self, on: &mut Parts<'_>) {
        let now = on.cx.now;
        let wildcards = &mut self.wildcards.of;
        for service in self.services.values() {
            let Some(pool) = self.pools.get(&service.pool) else { continue };
            let lasts = move_time(service);
            if let Some(count) = service.buckets() {
                let buckets = wildcards.entry(service.id).or_default();
                buckets.follow(now, count, pool.divide(now, count), lasts, pool);
            } else if let Some(buckets) = wildcards.get_mut(&service.id) {
                // From now on each connection gets its own rules, established ones included.
                buckets.follow(now, 0, Vec::new(), lasts, pool);
            }
        }
        self.wildcards.late.retain(|_, late| {
            late.retain(|_, (_, until)| *until > now);
            !late.is_empty()
        });
        let (wildcards, services) = (&mut self.wildcards.of, &self.services);
        let is_wanted = |id: &ServiceId| services.get(id).is_some_and(|service| service.buckets().is_some());
        wildcards.retain(|id, buckets| is_wanted(id) || (services.contains_key(id) && !buckets.is_empty()));
    }

    /// Returns when a slot migration ends, or the wait for a member does.
    fn next_move(&self, on: &Parts<'_>) -> Option<Time> {
        let of = &self.wildcards.of;
        let pools = of.keys().filter_map(|id| self.pools.get(&self.services.get(id)?.pool));
        let awaited = pools.flat_map(|pool| pool.members.values()).filter_map(MemberEntry::awaited_until);
        let late = self.wildcards.late.values().flat_map(|late| late.values().map(|(_, until)| *until));
        of.values().filter_map(SlotTable::next_due).chain(awaited).chain(late).filter(|at| *at > on.cx.now).min()
    }

    /// Returns all desired slot rules at the switches that have clients, and whether any switch
    /// rejected one.
    fn all_slot_rules(&self, on: &Parts<'_>) -> (RuleSet, bool) {
        let mut clients: BTreeMap<NodeIx, Vec<Ipv4Addr>> = BTreeMap::new();
        for (_, host) in on.observer.network.current_hosts().filter(|(_, host)| !self.is_virtual(host.known.ipv4)) {
            clients.entry(host.edge).or_default().push(host.known.ipv4);
        }
        let (mut rules, mut has_refused) = (RuleSet::new(), false);
        for node in on.planner.port_rules.edges().filter_map(|datapath| on.observer.network.node_of(datapath)) {
            for (id, buckets) in &self.wildcards.of {
                let Some(service) = self.services.get(id) else { continue };
                let here = clients.get(&node).map_or(&[][..], Vec::as_slice);
                let at = self.at(node, service, buckets);
                let (entries, lacking) = self.return_rules(on, &at, here);
                has_refused |= !lacking.is_empty();
                rules.extend(entries.into_iter().map(|(key, rule)| ((node, key), rule)));
                if service.rules.mux_traffic().is_none() {
                    let entries = self.member_rules(on, &at, &lacking);
                    rules.extend(entries.into_iter().map(|(key, rule)| ((node, key), rule)));
                }
            }
        }
        rules.extend(self.all_mux_rules(on));
        (rules, has_refused)
    }

    /// Returns the rules of services with a mux at all switches, but for the return direction.
    fn all_mux_rules(&self, on: &Parts<'_>) -> RuleSet {
        let mut rules = RuleSet::new();
        let edges: BTreeSet<NodeIx> =
            on.planner.port_rules.edges().filter_map(|datapath| on.observer.network.node_of(datapath)).collect();
        for (service, buckets) in
            self.wildcards.of.iter().filter_map(|(id, slots)| Some((self.services.get(id)?, slots)))
        {
            for node in on.updater.switches.keys() {
                let is_mux = self.muxes.switch_of(service.id) == Some(*node);
                let members =
                    if is_mux { self.member_rules(on, &self.at(*node, service, buckets), &[]) } else { Vec::new() };
                let entries = self.mux_rules_at(on, service, *node, edges.contains(node));
                let members = members.into_iter().map(mux::marked);
                rules.extend(members.chain(entries).map(|(key, rule)| ((*node, key), rule)));
            }
        }
        rules
    }

    /// Returns the rules of the return direction of a service at a switch with these clients, and the
    /// slots whose clients lack one.
    fn return_rules(&self, on: &Parts<'_>, at: &At<'_>, clients: &[Ipv4Addr]) -> (Vec<Entry>, Vec<ClientSlot>) {
        let mut entries: Vec<Entry> = Vec::new();
        let mut lacking: Vec<ClientSlot> = Vec::new();
        for client in clients {
            let Some((owner, facts)) = self.assigned_member(at, at.slot_of(*client)) else { continue };
            let lead = facts.lead(at.service);
            // Members of one pool may be clients of each other, and none is led to itself.
            let entry = if self.is_member(at.service, *client) {
                Some(on.updater.compiler.client_to_controller(&lead, owner, *client))
            } else {
                on.updater.compiler.slot_return(&lead, owner, *client)
            };
            let Some(entry) = entry else { continue };
            if self.is_rejected(on, at.node, &entry.0) {
                lacking.push(ClientSlot::of(*client, at.buckets.count()));
            }
            entries.push(entry);
        }
        (entries, lacking)
    }

    /// Returns the rules to the members of a service at a switch, but for slots that lack return
    /// rules.
    fn member_rules(&self, on: &Parts<'_>, at: &At<'_>, lacking: &[ClientSlot]) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut reached: BTreeMap<MemberId, bool> = BTreeMap::new();
        for (bucket, slot) in at.buckets.slots() {
            let slot = at.slot(bucket.index, slot);
            let Some((owner, facts)) = self.assigned_member(at, slot) else { continue };
            let lead = facts.lead(at.service);
            let is_moving = matches!(slot, SlotState::Migrating { .. });
            let is_reached = *reached.entry(owner.member).or_insert_with(|| self.is_reached(on, at, facts));
            let mac = facts.mac.filter(|_| is_reached && !lacking.contains(&bucket));
            match mac {
                _ if is_moving => entries.push(on.updater.compiler.slot_to_controller(&lead, owner, bucket)),
                Some(mac) => entries.push(on.updater.compiler.slot_to_member(&lead, owner, bucket, mac)),
                // Connections go to the controller, and get a reachable member.
                None => {}
            }
        }
        entries
    }

    fn at<'a>(&'a self, node: NodeIx, service: &'a Service, buckets: &'a SlotTable) -> At<'a> {
        At { node, service, buckets, late: self.wildcards.late.get(&(node, service.id)) }
    }
    fn assigned_member(&self, at: &At<'_>, slot: SlotState) -> Option<(Owner, &MemberEntry)> {
        let owner = Owner { service: at.service.id, member: slot.current_member()? };
        Some((owner, self.member(owner)?))
    }

    /// Returns whether a client is a member of a service's pool: then its connections have their
    /// own rules.
    fn is_member(&self, service: &Service, client: Ipv4Addr) -> bool {
        let pool = self.pools.get(&service.pool);
        pool.is_some_and(|pool| pool.members.values().any(|facts| facts.spec.address == client))
    }

    pub(super) fn is_rejected(&self, on: &Parts<'_>, node: NodeIx, key: &RuleKey) -> bool {
        let switch = on.updater.switches.get(&node);
        switch.is_some_and(|switch| switch.refused.contains(key) || switch.foreign.contains(key))
    }

    /// Returns whether there is a path to a member, or one may still be found for rules of a
    /// previous controller instance.
    fn is_reached(&self, on: &Parts<'_>, at: &At<'_>, facts: &MemberEntry) -> bool {
        let host = on.observer.network.find_host(facts.spec.address);
        let place =
            host.and_then(|host| Some(MemberLocation::Host { host, edge: on.observer.network.host(host)?.edge }));
        let view = super::view_without_load(on.cx.now, on.observer);
        let way = place.and_then(|place| MemberRoute::to(&view, at.node, place));
        let is_awaited = || facts.awaited_until().is_some_and(|until| until > on.cx.now);
        way.is_some_and(|way| way.is_reachable()) || (at.buckets.are_found && is_awaited())
    }

    /// Returns the choice of the member for an unknown connection of a service with proactive
    /// rules. Its packet reached the controller because its slot migrates, or because there is no
    /// rule for it here (yet). `is_new`: it is new, even if the packet looks established.
    pub(super) fn member_choice_for(
        &self,
        on: &Parts<'_>,
        at: SwitchPort,
        service: &Service,
        tuple: &FiveTuple,
        data: &[u8],
        is_new: bool,
    ) -> MemberChoice {
        let (buckets, node) = (self.wildcards.of.get(&service.id), on.observer.network.node_of(at.0));
        let pool = self.pools.get(&service.pool);
        let (Some(buckets), Some(node), Some(pool)) = (buckets, node, pool) else { return MemberChoice::Anyone };
        let at = self.at(node, service, buckets);
        let (slot, target) = (at.slot_of(tuple.src), buckets.of(tuple.src).1);
        let assigned_member = slot.current_member().and_then(|member| Some((member, pool.members.get(&member)?)));
        let is_opening = opens(data);
        // Slots do not apply to a client that is a member.
        let is_kept = |(member, facts): &(MemberId, &MemberEntry)| {
            pool.fate(*member) == Fate::Kept && facts.spec.address != tuple.src
        };
        if let Some((member, facts)) = assigned_member.filter(is_kept).filter(|_| is_opening != Some(true) && !is_new) {
            let has_failed = facts.state != MemberState::Up && facts.up_since.is_some();
            match (has_failed, service.protocol, pool.spec.established) {
                (true, Protocol::Tcp, Established::Reset) => return MemberChoice::Nobody,
                (_, Protocol::Tcp, _) => return MemberChoice::Member(member),
                // A datagram may be the first one: it does not go to a member that is down or
                // unreachable.
                (false, ..) if self.is_reached(on, &at, facts) => return MemberChoice::Member(member),
                _ => {}
            }
        }
        let is_fit = |member: &MemberId| {
            let is_other = |facts: &MemberEntry| facts.state == MemberState::Up && facts.spec.address != tuple.src;
            pool.members.get(member).is_some_and(|facts| is_other(facts) && self.is_reached(on, &at, facts))
        };
        target.filter(is_fit).map_or(MemberChoice::Anyone, MemberChoice::Member)
    }

    /// Returns whether replies of services at an address are translated back for a client, as far
    /// as slot rules must do that.
    pub(crate) fn are_replies_translated(
        &self,
        on: &Parts<'_>,
        client: Ipv4Addr,
        address: Ipv4Addr,
        node: NodeIx,
    ) -> bool {
        let Some(switch) = on.updater.switches.get(&node) else { return false };
        let at_address = self.services.values().filter(|service| service.address == address);
        let mut wild = at_address.filter_map(|service| Some((service, self.wildcards.of.get(&service.id)?)));
        wild.all(|(service, buckets)| {
            let at = self.at(node, service, buckets);
            let Some((owner, facts)) = self.assigned_member(&at, at.slot_of(client)) else { return true };
            let entry = on.updater.compiler.slot_return(&facts.lead(service), owner, client);
            self.is_member(service, client) || entry.is_none_or(|(key, _)| switch.has_decided(&key))
        })
    }

    pub(crate) fn recover_slots(&mut self, on: &mut Parts<'_>, node: NodeIx, rules: &[FlowStats]) {
        for rule in rules {
            let Some((owner, found)) = on.updater.compiler.parse_slot_rule(rule) else { continue };
            let Some(service) = self.services.get(&owner.service).cloned() else { continue };
            let is_to = rule.match_.ipv4_dst.is_some_and(|to| to.value == service.address);
            let is_at = rule.match_.tcp_dst.or(rule.match_.udp_dst) == Some(service.port) && is_to;
            if rule.match_.ip_proto != Some(service.protocol.number()) {
                continue;
            }
            let until = on.cx.now.saturating_add(move_time(&service));
            match found {
                FoundRule::ToMember(bucket, (address, port), mac)
                    if is_at && self.add_former_member(owner, address, port.unwrap_or(service.port), &service) =>
                {
                    let facts = self.pools.get_mut(&service.pool);
                    if let Some(facts) = facts.and_then(|pool| pool.members.get_mut(&owner.member)) {
                        facts.mac.get_or_insert(mac);
                    }
                    self.recover_slot(node, owner, bucket, (SlotState::Assigned(owner.member), until));
                }
                FoundRule::ToController(bucket) if is_at => {
                    let slot = SlotState::Migrating { from: owner.member, until, is_found: true };
                    self.recover_slot(node, owner, bucket, (slot, until));
                }
                FoundRule::Return(address, port) => {
                    self.add_former_member(owner, address, port, &service);
                }
                _ => {}
            }
        }
    }

    /// Records a slot of a switch. If the controller knows a different state, the slot migrates
    /// separately at this switch until then.
    fn recover_slot(&mut self, node: NodeIx, owner: Owner, bucket: ClientSlot, (slot, until): (SlotState, Time)) {
        let wildcards = &mut self.wildcards;
        let buckets = wildcards.of.entry(owner.service).or_default();
        buckets.find(bucket, slot);
        for (known, slot) in buckets.slots().filter(|(known, _)| known.is_within(bucket)) {
            if slot.current_member().is_some_and(|assigned_member| assigned_member != owner.member) {
                let late = wildcards.late.entry((node, owner.service)).or_default();
                late.insert(known.index, (owner.member, until));
            }
        }
    }

    /// Adds a former member with this address and port. Returns whether the number does not belong
    /// to another server now.
    fn add_former_member(&mut self, owner: Owner, address: Ipv4Addr, port: u16, service: &Service) -> bool {
        self.add_removed_member(owner, address, port);
        let facts = self.member(owner);
        facts.is_some_and(|facts| facts.lead(service).member == (address, port))
    }

    pub(crate) fn record_rejected(&mut self, key: &RuleKey) {
        self.is_new |= Compiler::is_slot_rule(key);
    }
}

/// Returns the duration of a slot migration: a connection without packets for that long has closed.
fn move_time(service: &Service) -> Time {
    Time::from_s(u64::from(service.idle_timeout_s)).saturating_add(MARGIN)
}

struct At<'a> {
    node: NodeIx,
    service: &'a Service,
    buckets: &'a SlotTable,
    late: Option<&'a BTreeMap<usize, (MemberId, Time)>>,
}

impl At<'_> {
    /// Returns the state of a slot at this switch; elsewhere it is `slot`.
    fn slot(&self, index: usize, slot: SlotState) -> SlotState {
        let late = self.late.and_then(|late| late.get(&index));
        late.map_or(slot, |(from, until)| SlotState::Migrating { from: *from, until: *until, is_found: true })
    }
    fn slot_of(&self, client: Ipv4Addr) -> SlotState {
        self.slot(ClientSlot::of(client, self.buckets.count()).index, self.buckets.of(client).0)
    }
}
