//! What balancers are told of connections, and the paths they picked.
//!
//! A path is the connection's beyond the client's switch, pinned like that of any flow, with the other way along it. When a
//! link of it dies, when client or member move, and in another life of the controller, the balancer is asked for a path
//! to the member the connection has ([`balance::server::ServerBalancer::path_to`]); until then, and where there is none, it
//! goes by the base. Connections that another life finds wait until the network is known.

use core::net::Ipv4Addr;

use balance::central::Path;
use balance::server::{Ended, Request};
use net::{FiveTuple, NodeIx};

use super::Vips;
use super::table::{Connection, Stage};
use crate::controller::Controller;

impl Controller {
    /// Leads a connection along a path, and its answers back.
    pub(super) fn pin_connection(&mut self, inner: FiveTuple, path: Path, edge: NodeIx) {
        let host = self.network.find_host(inner.dst).and_then(|host| self.network.host(host));
        let (Some(host), false) = (host, path.is_empty()) else { return };
        let ends = (edge, host.edge);
        let back: Path = path.iter().rev().map(|link| link.reverse()).collect();
        if !self.network.is_path_alive(&path) || !self.network.is_path_alive(&back) {
            return;
        }
        self.pins.want(inner, Some(path.clone()), Some(ends), false);
        self.pins.want(inner.reverse(), Some(back), Some((ends.1, ends.0)), false);
        self.vips.pinned.insert(inner, path);
    }

    pub(super) fn unpin_connection(&mut self, inner: &FiveTuple) {
        if self.vips.pinned.remove(inner).is_some() {
            self.pins.want(*inner, None, None, false);
            self.pins.want(inner.reverse(), None, None, false);
        }
    }

    /// Links died, or hosts moved: connections whose paths had them, one way or the other, go by the base, until they get others.
    pub(super) fn drop_dead_paths(&mut self) {
        let edge_of = |address| Some(self.network.host(self.network.find_host(address)?)?.edge);
        let is_elsewhere = |inner: &FiveTuple, path: &Path| {
            let ends = path.first().and_then(|link| self.network.near_end(*link));
            let ends = [ends, path.last().and_then(|link| self.network.far_end(*link))];
            ends != [edge_of(inner.src), edge_of(inner.dst)]
        };
        let is_dead = |path: &Path| {
            path.iter().any(|link| !self.network.is_alive(*link) || !self.network.is_alive(link.reverse()))
        };
        let pinned = self.vips.pinned.iter();
        let dead: Vec<FiveTuple> = pinned
            .filter(|(inner, path)| is_dead(path) || is_elsewhere(inner, path))
            .map(|(inner, _)| *inner)
            .collect();
        for inner in dead {
            self.unpin_connection(&inner);
            let tuple = self.vips.connections.find_inner(&inner);
            self.vips.unfollowed.extend(tuple);
        }
    }

    /// Hosts are elsewhere than they were: connections of those that are clients get their rules at the switch these are behind
    /// now, so that nothing comes to them as it left the member; paths to those that are members are picked anew.
    pub(super) fn follow_moved(&mut self) {
        for address in std::mem::take(&mut self.vips.moved) {
            let is_of = |tuple: &FiveTuple, known: &Connection| tuple.src == address || known.inner.dst == address;
            let living = self.vips.connections.iter().filter(|(tuple, known)| known.has_rules() && is_of(tuple, known));
            let living: Vec<FiveTuple> = living.map(|(tuple, _)| *tuple).collect();
            living.iter().filter(|tuple| tuple.src == address).for_each(|tuple| self.follow_client(tuple, address));
            self.vips.unfollowed.extend(living);
        }
    }

    /// A client is behind another switch.
    fn follow_client(&mut self, tuple: &FiveTuple, client: Ipv4Addr) {
        let host = self.network.find_host(client).and_then(|host| self.network.host(host));
        let Some((edge, known)) = host.map(|host| host.known.datapath).zip(self.vips.connections.get(tuple).copied())
        else {
            return;
        };
        let ends = self.ends_of_known(tuple, &known);
        let (Some(ends), Some(mac)) = (ends, self.interface_of(known.inner.dst)) else { return };
        if edge == known.edge || !self.connections.contains_key(&edge) {
            return; // Its next packet comes to the controller, once its switch is there.
        }
        self.delete_rules_of(tuple, &known);
        let connection = Connection::new(known.owner, known.inner, edge, mac, self.now, Stage::Sent);
        self.vips.connections.begin(*tuple, connection);
        self.follow_ended();
        self.tell_placed(tuple, &connection);
        if !self.send_rules(edge, &ends, mac) {
            self.vips.connections.remove(tuple);
        }
    }

    /// Connections that go on get paths again, and balancers hear of them, as soon as their ends are known.
    pub(super) fn follow_connections(&mut self) {
        if self.vips.unfollowed.is_empty() || !self.held.is_empty() {
            return;
        }
        let unfollowed: Vec<FiveTuple> = self.vips.unfollowed.iter().copied().collect();
        unfollowed.iter().for_each(|tuple| self.follow_now(tuple));
    }

    /// Does what is to be done for one, if that can be done.
    pub(super) fn follow_now(&mut self, tuple: &FiveTuple) {
        let known = self.vips.connections.get(tuple).copied().filter(Connection::has_rules);
        if known.is_none_or(|known| self.follow_connection(tuple, &known)) {
            self.vips.unfollowed.remove(tuple);
        }
    }

    /// Whether nothing more is to be done.
    fn follow_connection(&mut self, tuple: &FiveTuple, known: &Connection) -> bool {
        let ends = [tuple.src, known.inner.dst].map(|address| self.network.find_host(address));
        let (Some(edge), [Some(_), Some(_)]) = (self.network.node_of(known.edge), ends) else { return false };
        self.tell_flow(tuple, known);
        if self.vips.pinned.contains_key(&known.inner) {
            return true;
        }
        let Some((_, request)) = self.request_of(tuple, known) else { return true };
        self.follow_latencies();
        let has_load = self.wants_ports();
        let Controller { vips, network, flows, load, now, .. } = self;
        let view = super::view_of(*now, network, flows, if has_load { load } else { &[] });
        let Some(service) = vips.services.get(&known.owner.service) else { return true };
        let Some(pool) = vips.pools.get_mut(&service.pool) else { return true };
        match pool.path_to(&request, known.owner.member, &view) {
            Some(path) => self.pin_connection(known.inner, path, edge),
            // By the base, unless nothing leads there at all: another path may, later.
            None => return pool.is_reached(&request, known.owner.member, &view),
        }
        true
    }

    /// Connections have lost their rules: balancers are told, and their paths are free.
    pub(crate) fn follow_ended(&mut self) {
        for (tuple, connection) in self.vips.connections.take_ended() {
            self.unpin_connection(&connection.inner);
            self.end_flow_of(&connection.inner);
            let ended = Ended { member: connection.owner.member, bytes: connection.carried, at: self.now };
            if let Some((pool, request)) = self.request_of(&tuple, &connection) {
                pool.ended(&request, &ended);
            }
        }
    }

    /// A connection goes on with a member it had before: its balancer did not pick it now.
    pub(super) fn tell_placed(&mut self, tuple: &FiveTuple, connection: &Connection) {
        let member = connection.owner.member;
        if let Some((pool, request)) = self.request_of(tuple, connection) {
            pool.placed(&request, member);
        }
        self.vips.unfollowed.insert(*tuple);
    }

    fn request_of(
        &mut self,
        tuple: &FiveTuple,
        connection: &Connection,
    ) -> Option<(&mut super::pools::PoolNow, Request)> {
        let edge = self.network.node_of(connection.edge)?;
        let service = self.vips.services.get(&connection.owner.service)?;
        let request = Request { tuple: *tuple, edge, size: None, at: connection.sent };
        Some((self.vips.pools.get_mut(&service.pool)?, request))
    }
}

impl Vips {
    /// Hosts of these addresses have left the switch they were behind.
    pub(crate) fn hosts_left(&mut self, addresses: &[Ipv4Addr]) {
        if !self.is_idle() {
            self.moved.extend(addresses);
        }
    }
}
