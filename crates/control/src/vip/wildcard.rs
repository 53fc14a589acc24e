//! Services whose rules stand beforehand: who gets which bucket, at which switches, and what packets mean that come all the same.

use std::collections::BTreeMap;

use balance::server::{Place, Way};
use core::net::Ipv4Addr;
use net::{FiveTuple, NodeIx, Time};
use openflow::FlowStats;

use super::bucket_rules::{Bucket, FoundRule};
use super::buckets::{Buckets, Facts, Fate, Slot};
use super::packets::{Wish, member_port, opens};
use super::pools::{MemberFacts, PoolNow};
use super::rules::{Lead, Owner};
use super::spec::{Established, MemberId, Protocol, Service, ServiceId};
use super::view::MemberState;
use crate::compile::{Compiler, Entry};
use crate::controller::Controller;
use crate::install::{RuleKey, Wanted};
use crate::network::End;

/// A move takes so much longer than connections may be silent: switches learn of it one after the other.
const MARGIN: Time = Time::from_s(1);
/// A switch that would not have rules of buckets is looked at again after so long.
const AGAIN_AFTER: Time = Time::from_s(5);

/// Buckets of all services, and the rules that follow.
#[derive(Debug, Default)]
pub(super) struct Wildcards {
    pub(super) of: BTreeMap<ServiceId, Buckets>,
    rules: BTreeMap<(NodeIx, RuleKey), Wanted>,
    /// Buckets at switches that led them elsewhere while nobody could tell these, and until when: they move on their own.
    late: BTreeMap<(NodeIx, ServiceId), BTreeMap<usize, (MemberId, Time)>>,
    /// When something is to be looked at again, if nothing happens before.
    pub(super) next: Option<Time>,
}

impl Wildcards {
    /// Whether a member may have connections of a service without rules of their own.
    pub(super) fn has(&self, owner: Owner) -> bool {
        let mut late = self.late.iter().filter(|((_, service), _)| *service == owner.service);
        self.of.get(&owner.service).is_some_and(|buckets| buckets.has(owner.member))
            || late.any(|(_, late)| late.values().any(|(member, _)| *member == owner.member))
    }
    /// A service is over.
    pub(super) fn forget(&mut self, service: ServiceId) {
        self.of.remove(&service);
        self.late.retain(|(_, other), _| *other != service);
    }
}

impl Facts for PoolNow {
    fn is_up(&self, member: MemberId) -> bool {
        self.members.get(&member).is_some_and(|facts| facts.state == MemberState::Up)
    }
    fn fate(&self, member: MemberId) -> Fate {
        let Some(facts) = self.members.get(&member) else { return Fate::Moved };
        // One that nobody has seen yet may be found by and by.
        let has_failed = facts.state != MemberState::Up && facts.up_since.is_some();
        if has_failed && self.spec.established == Established::Move { Fate::Moved } else { Fate::Minded }
    }
}

impl MemberFacts {
    /// What is rewritten between a service and this member.
    fn lead(&self, service: &Service) -> Lead {
        let (protocol, at) = (service.protocol.number(), (service.address, service.port));
        let member = (self.spec.address, member_port(self.spec.port, service));
        Lead { protocol, at, vip_mac: service.mac(), member }
    }
}

impl Controller {
    /// Members, hosts or services are others now, or time has passed: buckets move, and their rules follow.
    pub(super) fn follow_buckets(&mut self) {
        let has_any = self.vips.services.values().any(|service| service.buckets().is_some());
        if !has_any && self.vips.wildcards.of.is_empty() && self.vips.wildcards.rules.is_empty() {
            return;
        }
        self.move_buckets();
        let (wanted, has_refused) = self.bucket_rules();
        let before = std::mem::replace(&mut self.vips.wildcards.rules, wanted);
        let now = &self.vips.wildcards.rules;
        let gone = before.keys().filter(|place| !now.contains_key(place)).map(|(node, key)| (*node, *key, None));
        let new = now.iter().filter(|(place, rule)| before.get(place) != Some(rule));
        let changes = gone.chain(new.map(|((node, key), rule)| (*node, *key, Some(rule.clone()))));
        changes.for_each(|change| self.fabric.set(change));
        let again = has_refused.then(|| self.now.saturating_add(AGAIN_AFTER));
        self.vips.wildcards.next = self.next_move().into_iter().chain(again).min();
    }

    fn move_buckets(&mut self) {
        let (now, vips) = (self.now, &mut self.vips);
        let wildcards = &mut vips.wildcards.of;
        for service in vips.services.values() {
            let Some(pool) = vips.pools.get(&service.pool) else { continue };
            let lasts = move_time(service);
            if let Some(count) = service.buckets() {
                let buckets = wildcards.entry(service.id).or_default();
                buckets.follow(now, count, pool.divide(now, count), lasts, pool);
            } else if let Some(buckets) = wildcards.get_mut(&service.id) {
                // From now on each connection has its rules; those that stand get theirs.
                buckets.follow(now, 0, Vec::new(), lasts, pool);
            }
        }
        vips.wildcards.late.retain(|_, late| {
            late.retain(|_, (_, until)| *until > now);
            !late.is_empty()
        });
        let (wildcards, services) = (&mut vips.wildcards.of, &vips.services);
        let is_wanted = |id: &ServiceId| services.get(id).is_some_and(|service| service.buckets().is_some());
        wildcards.retain(|id, buckets| is_wanted(id) || (services.contains_key(id) && !buckets.is_empty()));
    }

    /// When a bucket will have moved, or a member will not be waited for any more.
    fn next_move(&self) -> Option<Time> {
        let of = &self.vips.wildcards.of;
        let pools = of.keys().filter_map(|id| self.vips.pools.get(&self.vips.services.get(id)?.pool));
        let awaited = pools.flat_map(|pool| pool.members.values()).filter_map(MemberFacts::awaited_until);
        let late = self.vips.wildcards.late.values().flat_map(|late| late.values().map(|(_, until)| *until));
        of.values().filter_map(Buckets::next_due).chain(awaited).chain(late).filter(|at| *at > self.now).min()
    }

    /// All rules of buckets that are wanted, at the switches that have clients; whether any switch would not have one.
    fn bucket_rules(&self) -> (BTreeMap<(NodeIx, RuleKey), Wanted>, bool) {
        let mut clients: BTreeMap<NodeIx, Vec<Ipv4Addr>> = BTreeMap::new();
        for (_, host) in self.network.current_hosts().filter(|(_, host)| !self.vips.is_virtual(host.known.ipv4)) {
            clients.entry(host.edge).or_default().push(host.known.ipv4);
        }
        let (mut rules, mut has_refused) = (BTreeMap::new(), false);
        for node in self.ports.edges().filter_map(|datapath| self.network.node_of(datapath)) {
            for (id, buckets) in &self.vips.wildcards.of {
                let Some(service) = self.vips.services.get(id) else { continue };
                let here = clients.get(&node).map_or(&[][..], Vec::as_slice);
                let (entries, are_all) = self.rules_at(&self.at(node, service, buckets), here);
                rules.extend(entries.into_iter().map(|(key, rule)| ((node, key), rule)));
                has_refused |= !are_all;
            }
        }
        (rules, has_refused)
    }

    /// Rules of a service at a switch with these clients; whether the switch has all of those of clients.
    fn rules_at(&self, at: &At<'_>, clients: &[Ipv4Addr]) -> (Vec<Entry>, bool) {
        let mut entries: Vec<Entry> = Vec::new();
        let mut lacking: Vec<Bucket> = Vec::new();
        for client in clients {
            let Some((owner, facts)) = self.holder(at, at.slot_of(*client)) else { continue };
            let lead = facts.lead(at.service);
            // Servers of one pool speak with each other, too, and none is led to itself.
            let entry = if self.is_member(at.service, *client) {
                self.compiler.client_asks(&lead, owner, *client)
            } else {
                self.compiler.bucket_back(&lead, owner, *client)
            };
            if self.would_not_have(at.node, &entry.0) {
                lacking.push(Bucket::of(*client, at.buckets.count()));
            }
            entries.push(entry);
        }
        let mut reached: BTreeMap<MemberId, bool> = BTreeMap::new();
        for (bucket, slot) in at.buckets.slots() {
            let slot = at.slot(bucket.index, slot);
            let Some((owner, facts)) = self.holder(at, slot) else { continue };
            let lead = facts.lead(at.service);
            let is_moving = matches!(slot, Slot::Moving { .. });
            let is_reached = *reached.entry(owner.member).or_insert_with(|| self.is_reached(at, facts));
            let mac = facts.mac.filter(|_| is_reached && !lacking.contains(&bucket));
            match mac {
                _ if is_moving => entries.push(self.compiler.bucket_asks(&lead, owner, bucket)),
                Some(mac) => entries.push(self.compiler.bucket_leads(&lead, owner, bucket, mac)),
                // Connections ask, and get whom they can reach.
                None => {}
            }
        }
        (entries, lacking.is_empty())
    }

    fn at<'a>(&'a self, node: NodeIx, service: &'a Service, buckets: &'a Buckets) -> At<'a> {
        At { node, service, buckets, late: self.vips.wildcards.late.get(&(node, service.id)) }
    }
    fn holder(&self, at: &At<'_>, slot: Slot) -> Option<(Owner, &MemberFacts)> {
        let owner = Owner { service: at.service.id, member: slot.holder()? };
        Some((owner, self.vips.member(owner)?))
    }

    /// Whether a client is a member of a service's pool: then its connections have rules of their own.
    fn is_member(&self, service: &Service, client: Ipv4Addr) -> bool {
        let pool = self.vips.pools.get(&service.pool);
        pool.is_some_and(|pool| pool.members.values().any(|facts| facts.spec.address == client))
    }

    fn would_not_have(&self, node: NodeIx, key: &RuleKey) -> bool {
        let switch = self.fabric.switches.get(&node);
        switch.is_some_and(|switch| switch.has_refused(key) || switch.is_foreign(key))
    }

    /// Whether links lead to a member, or, where rules of an earlier life do, may yet be found.
    fn is_reached(&self, at: &At<'_>, facts: &MemberFacts) -> bool {
        let host = self.network.find_host(facts.spec.address);
        let place = host.and_then(|host| Some(Place::Host { host, edge: self.network.host(host)?.edge }));
        let view = super::view_of(self.now, &self.network, &self.flows, &[]);
        let way = place.and_then(|place| Way::to(&view, at.node, place));
        let is_awaited = || facts.awaited_until().is_some_and(|until| until > self.now);
        way.is_some_and(|way| way.is_open()) || (at.buckets.are_found && is_awaited())
    }

    /// Who is to have a connection that is not known, of a service whose rules stand: its packet came to the controller
    /// because its bucket moves, or because there is no rule for it here (yet). `is_new`: it is one, whatever it seems.
    pub(super) fn wish_of(&self, at: End, service: &Service, tuple: &FiveTuple, data: &[u8], is_new: bool) -> Wish {
        let (buckets, node) = (self.vips.wildcards.of.get(&service.id), self.network.node_of(at.0));
        let pool = self.vips.pools.get(&service.pool);
        let (Some(buckets), Some(node), Some(pool)) = (buckets, node, pool) else { return Wish::Anyone };
        let at = self.at(node, service, buckets);
        let (slot, target) = (at.slot_of(tuple.src), buckets.of(tuple.src).1);
        let holder = slot.holder().and_then(|member| Some((member, pool.members.get(&member)?)));
        let is_opening = opens(data);
        // A member that asks goes by no bucket.
        let is_minded = |(member, facts): &(MemberId, &MemberFacts)| {
            pool.fate(*member) == Fate::Minded && facts.spec.address != tuple.src
        };
        if let Some((member, facts)) = holder.filter(is_minded).filter(|_| is_opening != Some(true) && !is_new) {
            let has_failed = facts.state != MemberState::Up && facts.up_since.is_some();
            match (has_failed, service.protocol, pool.spec.established) {
                (true, Protocol::Tcp, Established::Reset) => return Wish::Nobody,
                (_, Protocol::Tcp, _) => return Wish::Member(member),
                // A datagram may be the first: it is not given to one who cannot serve, or to whom nothing leads.
                (false, ..) if self.is_reached(&at, facts) => return Wish::Member(member),
                _ => {}
            }
        }
        let is_fit = |member: &MemberId| {
            let is_other = |facts: &MemberFacts| facts.state == MemberState::Up && facts.spec.address != tuple.src;
            pool.members.get(member).is_some_and(|facts| is_other(facts) && self.is_reached(&at, facts))
        };
        target.filter(is_fit).map_or(Wish::Anyone, Wish::Member)
    }

    /// Whether what a client is answered by services at an address is led back to it, as far as rules of buckets are to do that.
    pub(crate) fn are_answers_led(&self, client: Ipv4Addr, address: Ipv4Addr, node: NodeIx) -> bool {
        let Some(switch) = self.fabric.switches.get(&node) else { return false };
        let at_address = self.vips.services.values().filter(|service| service.address == address);
        let mut wild = at_address.filter_map(|service| Some((service, self.vips.wildcards.of.get(&service.id)?)));
        wild.all(|(service, buckets)| {
            let at = self.at(node, service, buckets);
            let Some((owner, facts)) = self.holder(&at, at.slot_of(client)) else { return true };
            let (key, _) = self.compiler.bucket_back(&facts.lead(service), owner, client);
            self.is_member(service, client) || switch.has_refused(&key) || !switch.may_lack(&key)
        })
    }

    /// Takes up buckets from the rules that were found on a switch.
    pub(crate) fn find_buckets(&mut self, node: NodeIx, rules: &[FlowStats]) {
        for rule in rules {
            let Some((owner, found)) = self.compiler.bucket_found(rule) else { continue };
            let Some(service) = self.vips.services.get(&owner.service).cloned() else { continue };
            let is_to = rule.match_.ipv4_dst.is_some_and(|to| to.value == service.address);
            let is_at = rule.match_.tcp_dst.or(rule.match_.udp_dst) == Some(service.port) && is_to;
            if rule.match_.ip_proto != Some(service.protocol.number()) {
                continue;
            }
            let until = self.now.saturating_add(move_time(&service));
            match found {
                FoundRule::Leads(bucket, (address, port), mac)
                    if is_at && self.remember_at(owner, address, port.unwrap_or(service.port), &service) =>
                {
                    let facts = self.vips.pools.get_mut(&service.pool);
                    if let Some(facts) = facts.and_then(|pool| pool.members.get_mut(&owner.member)) {
                        facts.mac.get_or_insert(mac);
                    }
                    self.find_bucket(node, owner, bucket, (Slot::Serving(owner.member), until));
                }
                FoundRule::Asks(bucket) if is_at => {
                    let slot = Slot::Moving { from: owner.member, until, is_found: true };
                    self.find_bucket(node, owner, bucket, (slot, until));
                }
                FoundRule::Back(address, port) => {
                    self.remember_at(owner, address, port, &service);
                }
                _ => {}
            }
        }
    }

    /// A switch has a bucket like this; if that is known otherwise, it moves there on its own, until then.
    fn find_bucket(&mut self, node: NodeIx, owner: Owner, bucket: Bucket, (slot, until): (Slot, Time)) {
        let wildcards = &mut self.vips.wildcards;
        let buckets = wildcards.of.entry(owner.service).or_default();
        buckets.find(bucket, slot);
        for (known, slot) in buckets.slots().filter(|(known, _)| known.is_within(bucket)) {
            if slot.holder().is_some_and(|holder| holder != owner.member) {
                let late = wildcards.late.entry((node, owner.service)).or_default();
                late.insert(known.index, (owner.member, until));
            }
        }
    }

    /// A member has served at this address and port; whether it is not another server now.
    fn remember_at(&mut self, owner: Owner, address: Ipv4Addr, port: u16, service: &Service) -> bool {
        self.remember_member(owner, address, port);
        let facts = self.vips.member(owner);
        facts.is_some_and(|facts| facts.lead(service).member == (address, port))
    }

    /// A switch would not have a rule.
    pub(crate) fn note_refused(&mut self, key: &RuleKey) {
        self.vips.is_new |= Compiler::is_of_bucket(key);
    }
}

/// How long a bucket of a service takes to move: a connection that says nothing for so long is over.
fn move_time(service: &Service) -> Time {
    Time::from_s(u64::from(service.idle_timeout_s)).saturating_add(MARGIN)
}

/// A service at a switch.
struct At<'a> {
    node: NodeIx,
    service: &'a Service,
    buckets: &'a Buckets,
    late: Option<&'a BTreeMap<usize, (MemberId, Time)>>,
}

impl At<'_> {
    /// Who serves a bucket here; elsewhere it is `slot`.
    fn slot(&self, index: usize, slot: Slot) -> Slot {
        let late = self.late.and_then(|late| late.get(&index));
        late.map_or(slot, |(from, until)| Slot::Moving { from: *from, until: *until, is_found: true })
    }
    fn slot_of(&self, client: Ipv4Addr) -> Slot {
        self.slot(Bucket::of(client, self.buckets.count()).index, self.buckets.of(client).0)
    }
}
