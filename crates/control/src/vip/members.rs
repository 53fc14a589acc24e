//! Members: who can serve, where they are, and what follows for their connections.

use std::collections::BTreeSet;

use core::net::Ipv4Addr;
use net::{FiveTuple, Time};

use super::pools::MemberFacts;
use super::rules::{MEMBER_MASK, Owner};
use super::spec::{Established, MemberId, PoolId};
use super::table::{self, Stage};
use super::view::MemberState;
use crate::Event;
use crate::controller::Controller;

/// Members nothing is known of are asked for this often.
const SEEK_EVERY: Time = Time::from_s(1);

impl Controller {
    /// Who of the members can serve; what follows for the connections of those who cannot any more.
    pub(super) fn look_at_members(&mut self) {
        let mut changed = Vec::new();
        let now = self.now;
        for facts in self.vips.pools.values_mut().flat_map(|pool| pool.members.values_mut()) {
            facts.since = facts.since.or(Some(now));
        }
        for (pool, members) in &self.vips.pools {
            for (id, facts) in &members.members {
                let state = self.state_of(facts);
                if state != facts.state {
                    changed.push((*pool, *id, facts.state, state));
                }
            }
        }
        self.follow_interfaces();
        for (pool, member, before, state) in changed {
            let pool_now = self.vips.pools.get_mut(&pool).expect("a pool that was looked at");
            let facts = pool_now.members.get_mut(&member).expect("a member that was looked at");
            facts.state = state;
            if state == MemberState::Up {
                facts.up_since = facts.up_since.or(Some(now));
            }
            let (address, established) = (facts.spec.address, pool_now.spec.established);
            self.event(Event::Member { pool, member, address, state });
            if before == MemberState::Up {
                self.member_failed(pool, member, established);
            }
        }
        let network = &self.network;
        for pool in self.vips.pools.values_mut() {
            pool.tell(|member| {
                let host = network.find_host(member.address)?;
                Some((host, network.host(host)?.edge))
            });
        }
    }

    /// A member that has another interface than before gets its packets there.
    fn follow_interfaces(&mut self) {
        let mut moved: BTreeSet<(PoolId, MemberId)> = BTreeSet::new();
        for (pool, members) in &mut self.vips.pools {
            for (id, facts) in &mut members.members {
                let host = self.network.find_host(facts.spec.address).and_then(|host| self.network.host(host));
                let Some(mac) = host.map(|host| host.known.mac).filter(|mac| Some(*mac) != facts.mac) else { continue };
                facts.mac = Some(mac);
                moved.insert((*pool, *id));
            }
        }
        if moved.is_empty() {
            return;
        }
        let services = &self.vips.services;
        let has_moved = |owner: &Owner| {
            let pool = services.get(&owner.service).map(|service| service.pool);
            pool.is_some_and(|pool| moved.contains(&(pool, owner.member)))
        };
        let connections = &self.vips.connections;
        for tuple in connections.select(|connection| connection.has_rules() && has_moved(&connection.owner)) {
            self.follow_interface(&tuple);
        }
    }

    /// A connection's rules are sent again if they lead to another interface than the member's.
    pub(super) fn follow_interface(&mut self, tuple: &FiveTuple) {
        let Some(known) = self.vips.connections.get(tuple).copied() else { return };
        let mac = self.interface_of(known.inner.dst).filter(|mac| *mac != known.mac);
        if let (Some(mac), Some(ends)) = (mac, self.ends_of_known(tuple, &known))
            && self.send_rules(known.edge, &ends, mac)
        {
            self.vips.connections.edit(tuple, |connection| connection.mac = mac);
        }
    }

    fn state_of(&self, facts: &MemberFacts) -> MemberState {
        let host = self.network.find_host(facts.spec.address).and_then(|host| self.network.host(host));
        match host {
            None => MemberState::Unknown,
            Some(host) if !self.network.is_alive(host.uplink()) => MemberState::Unplugged,
            Some(_) => MemberState::of(facts.watch.failure),
        }
    }

    /// Whether a host is at a port that works.
    pub(super) fn is_plugged(&self, address: Ipv4Addr) -> bool {
        let host = self.network.find_host(address).and_then(|host| self.network.host(host));
        host.is_some_and(|host| self.network.is_alive(host.uplink()))
    }

    fn member_failed(&mut self, pool: PoolId, member: MemberId, established: Established) {
        if established == Established::Keep {
            return;
        }
        let owners: Vec<Owner> = self.vips.services_of(pool).map(|service| Owner { service, member }).collect();
        for owner in owners {
            self.delete_connections(owner, MEMBER_MASK);
            let now = self.now;
            let connections = &mut self.vips.connections;
            for tuple in connections.select(|connection| connection.owner == owner) {
                let has_rules = connections.get(&tuple).is_some_and(table::Connection::has_rules);
                match established {
                    Established::Reset if has_rules => connections.set_stage(&tuple, Stage::Broken(now)),
                    _ => drop(connections.remove(&tuple)),
                }
            }
        }
    }

    pub(super) fn unknown_members(&self) -> impl Iterator<Item = Ipv4Addr> {
        let members = self.vips.pools.values().flat_map(|pool| pool.members.values());
        let addresses = members.filter(|facts| !facts.is_leaving).map(|facts| facts.spec.address);
        addresses.filter(|address| self.network.find_host(*address).is_none())
    }

    /// Asks for members nobody has heard of.
    pub(crate) fn seek_members(&mut self) {
        self.refuse_late();
        self.vips.is_new |= self.vips.wildcards.next.is_some_and(|due| due <= self.now);
        if self.vips.next_seek.is_none_or(|due| due > self.now) {
            return;
        }
        let unknown: BTreeSet<Ipv4Addr> = self.unknown_members().collect();
        self.vips.next_seek = (!unknown.is_empty()).then(|| self.now.saturating_add(SEEK_EVERY));
        for address in unknown {
            if let Some(question) = self.arp.seek(self.now, address) {
                self.ask_everywhere(&question);
            }
        }
    }
}
