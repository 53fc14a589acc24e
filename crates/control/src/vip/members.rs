//! Members: which are up, where they are attached, and the consequences for their connections.

use std::collections::BTreeSet;

use core::net::Ipv4Addr;
use net::{FiveTuple, Time};

use super::connection_table::{self, ConnectionState};
use super::pool_state::MemberEntry;
use super::rules::{MEMBER_MASK, Owner};
use super::spec::{Established, MemberId, PoolId};
use super::status::MemberState;
use super::{Parts, VipService};
use crate::Event;

const SEEK_EVERY: Time = Time::from_s(1);

impl VipService {
    /// Updates the state of all members, and handles the connections of members that went down.
    pub(super) fn update_members(&mut self, on: &mut Parts<'_>) {
        let mut changed = Vec::new();
        let now = on.cx.now;
        for facts in self.pools.values_mut().flat_map(|pool| pool.members.values_mut()) {
            facts.since = facts.since.or(Some(now));
        }
        for (pool, members) in &self.pools {
            for (id, facts) in &members.members {
                let state = self.state_of(on, facts);
                if state != facts.state {
                    changed.push((*pool, *id, facts.state, state));
                }
            }
        }
        self.update_interfaces(on);
        for (pool, member, before, state) in changed {
            let pool_now = self.pools.get_mut(&pool).expect("a pool that was just updated");
            let facts = pool_now.members.get_mut(&member).expect("a member that was just updated");
            facts.state = state;
            if state == MemberState::Up {
                facts.up_since = facts.up_since.or(Some(now));
            }
            let (address, established) = (facts.spec.address, pool_now.spec.established);
            on.cx.channels.event(Event::Member { pool, member, address, state });
            if before == MemberState::Up {
                self.member_failed(on, pool, member, established);
            }
        }
        let network = &on.observer.network;
        for pool in self.pools.values_mut() {
            pool.tell(|member| {
                let host = network.find_host(member.address)?;
                Some((host, network.host(host)?.edge))
            });
        }
    }

    /// Redirects connections of members whose Ethernet address has changed.
    fn update_interfaces(&mut self, on: &mut Parts<'_>) {
        let mut moved: BTreeSet<(PoolId, MemberId)> = BTreeSet::new();
        for (pool, members) in &mut self.pools {
            for (id, facts) in &mut members.members {
                let host = on.observer.network.host_at(facts.spec.address);
                let Some(mac) = host.map(|host| host.known.mac).filter(|mac| Some(*mac) != facts.mac) else { continue };
                facts.mac = Some(mac);
                moved.insert((*pool, *id));
            }
        }
        if moved.is_empty() {
            return;
        }
        let services = &self.services;
        let has_moved = |owner: &Owner| {
            let pool = services.get(&owner.service).map(|service| service.pool);
            pool.is_some_and(|pool| moved.contains(&(pool, owner.member)))
        };
        let connections = &self.connections;
        for tuple in connections.select(|connection| connection.has_rules() && has_moved(&connection.owner)) {
            self.update_interface(on, &tuple);
        }
    }

    /// Sends a connection's rules again if the Ethernet address of its member has changed.
    pub(super) fn update_interface(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple) {
        let Some(known) = self.connections.get(tuple).copied() else { return };
        let mac = self.interface_of(on, known.translated.dst).filter(|mac| *mac != known.mac);
        if let (Some(mac), Some(ends)) = (mac, self.ends_of_known(tuple, &known))
            && self.send_rules(on, known.edge, &ends, mac)
        {
            self.connections.edit(tuple, |connection| connection.mac = mac);
        }
    }

    fn state_of(&self, on: &Parts<'_>, facts: &MemberEntry) -> MemberState {
        let host = on.observer.network.host_at(facts.spec.address);
        match host {
            None => MemberState::Unknown,
            Some(host) if !on.observer.network.is_alive(host.uplink) => MemberState::Unplugged,
            Some(_) => MemberState::of(facts.watch.failure),
        }
    }

    pub(super) fn has_live_port(&self, on: &Parts<'_>, address: Ipv4Addr) -> bool {
        let host = on.observer.network.host_at(address);
        host.is_some_and(|host| on.observer.network.is_alive(host.uplink))
    }

    fn member_failed(&mut self, on: &mut Parts<'_>, pool: PoolId, member: MemberId, established: Established) {
        if established == Established::Keep {
            return;
        }
        let owners: Vec<Owner> = self.services_of(pool).map(|service| Owner { service, member }).collect();
        for owner in owners {
            self.delete_connections(on, owner, MEMBER_MASK);
            let now = on.cx.now;
            let connections = &mut self.connections;
            for tuple in connections.select(|connection| connection.owner == owner) {
                let has_rules = connections.get(&tuple).is_some_and(connection_table::Connection::has_rules);
                match established {
                    Established::Reset if has_rules => {
                        connections.set_stage(&tuple, ConnectionState::MemberFailed(now))
                    }
                    _ => drop(connections.remove(&tuple)),
                }
            }
        }
    }

    pub(super) fn unknown_members(&self, on: &Parts<'_>) -> impl Iterator<Item = Ipv4Addr> {
        let members = self.pools.values().flat_map(|pool| pool.members.values());
        let addresses = members.filter(|facts| !facts.is_removed).map(|facts| facts.spec.address);
        addresses.filter(|address| on.observer.network.find_host(*address).is_none())
    }

    pub(crate) fn probe_unknown_members(&mut self, on: &mut Parts<'_>) {
        self.reject_expired(on);
        self.is_new |= self.wildcards.next.is_some_and(|due| due <= on.cx.now);
        if self.next_seek.is_none_or(|due| due > on.cx.now) {
            return;
        }
        let unknown: BTreeSet<Ipv4Addr> = self.unknown_members(on).collect();
        self.next_seek = (!unknown.is_empty()).then(|| on.cx.now.saturating_add(SEEK_EVERY));
        for address in unknown {
            if let Some(request) = on.observer.arp.probe(on.cx.now, address) {
                on.observer.send_arp_to_edge_ports(&mut on.cx, None, &request);
            }
        }
    }
}
