//! Paths of connections: what balancers receive about connections, and the paths they pick.
//!
//! A path is that of the translated connection, pinned like that of any flow, with the reverse
//! direction along it. When a link of it fails, when client or member move, and after a controller
//! restart, the balancer is called for a path to the current member
//! ([`balance::server::ServerBalancer::path_to`]); until then, and if it returns none, the
//! connection uses the default routes. Recovered connections wait until the network is known.

use core::net::Ipv4Addr;

use balance::central::Path;
use balance::server::{Ended, Request};
use net::{FiveTuple, NodeIx};

use super::Vips;
use super::connection_table::{Connection, ConnectionState};
use crate::controller::Controller;

impl Controller {
    pub(super) fn pin_connection(&mut self, translated: FiveTuple, path: Path, edge: NodeIx) {
        let host = self.network.host_at(translated.dst);
        let (Some(host), false) = (host, path.is_empty()) else { return };
        let ends = (edge, host.edge);
        let back: Path = path.iter().rev().map(|link| link.reverse()).collect();
        if !self.network.is_path_alive(&path) || !self.network.is_path_alive(&back) {
            return;
        }
        self.pins.want(translated, Some(path.clone()), Some(ends), false);
        self.pins.want(translated.reverse(), Some(back), Some((ends.1, ends.0)), false);
        self.vips.pinned.insert(translated, path);
    }

    pub(super) fn unpin_connection(&mut self, translated: &FiveTuple) {
        if self.vips.pinned.remove(translated).is_some() {
            self.pins.want(*translated, None, None, false);
            self.pins.want(translated.reverse(), None, None, false);
        }
    }

    /// Releases the paths with a dead link or a moved host, in either direction. Their connections
    /// use the default routes until they get other paths.
    pub(super) fn drop_dead_paths(&mut self) {
        let edge_of = |address| Some(self.network.host_at(address)?.edge);
        let is_elsewhere = |translated: &FiveTuple, path: &Path| {
            let ends = path.first().and_then(|link| self.network.near_end(*link));
            let ends = [ends, path.last().and_then(|link| self.network.far_end(*link))];
            ends != [edge_of(translated.src), edge_of(translated.dst)]
        };
        let is_dead = |path: &Path| {
            path.iter().any(|link| !self.network.is_alive(*link) || !self.network.is_alive(link.reverse()))
        };
        let pinned = self.vips.pinned.iter();
        let dead: Vec<FiveTuple> = pinned
            .filter(|(translated, path)| is_dead(path) || is_elsewhere(translated, path))
            .map(|(translated, _)| *translated)
            .collect();
        for translated in dead {
            self.unpin_connection(&translated);
            let tuple = self.vips.connections.find_translated(&translated);
            self.vips.pending_paths.extend(tuple);
        }
    }

    /// Handles hosts that have moved. Connections of clients get their rules at the new switch, so
    /// that no untranslated reply reaches them; paths to members are picked again.
    pub(super) fn update_moved_hosts(&mut self) {
        for address in std::mem::take(&mut self.vips.moved) {
            let is_of = |tuple: &FiveTuple, known: &Connection| tuple.src == address || known.translated.dst == address;
            let living = self.vips.connections.iter().filter(|(tuple, known)| known.has_rules() && is_of(tuple, known));
            let living: Vec<FiveTuple> = living.map(|(tuple, _)| *tuple).collect();
            living.iter().filter(|tuple| tuple.src == address).for_each(|tuple| self.move_client(tuple, address));
            self.vips.pending_paths.extend(living);
        }
    }

    /// Moves the connection of a client that is behind another switch.
    fn move_client(&mut self, tuple: &FiveTuple, client: Ipv4Addr) {
        let host = self.network.host_at(client);
        let Some((edge, known)) = host.map(|host| host.known.datapath).zip(self.vips.connections.get(tuple).copied())
        else {
            return;
        };
        let ends = self.ends_of_known(tuple, &known);
        let (Some(ends), Some(mac)) = (ends, self.interface_of(known.translated.dst)) else { return };
        if edge == known.edge || !self.connections.contains_key(&edge) {
            return; // Its next packet goes to the controller, once its switch is connected.
        }
        self.delete_rules_of(tuple, &known);
        let connection =
            Connection::new(known.owner, known.translated, edge, mac, self.now, ConnectionState::Installing);
        self.vips.connections.begin(*tuple, connection);
        self.report_ended_connections();
        self.report_placed(tuple, &connection);
        if !self.send_rules(edge, &ends, mac) {
            self.vips.connections.remove(tuple);
        }
    }

    /// Picks paths for continuing connections, and reports them to balancers, as soon as their
    /// hosts are known.
    pub(super) fn update_connection_paths(&mut self) {
        if self.vips.pending_paths.is_empty() || !self.recovering.is_empty() {
            return;
        }
        let pending_paths: Vec<FiveTuple> = self.vips.pending_paths.iter().copied().collect();
        pending_paths.iter().for_each(|tuple| self.try_update_path(tuple));
    }

    pub(super) fn try_update_path(&mut self, tuple: &FiveTuple) {
        let known = self.vips.connections.get(tuple).copied().filter(Connection::has_rules);
        if known.is_none_or(|known| self.update_connection_path(tuple, &known)) {
            self.vips.pending_paths.remove(tuple);
        }
    }

    /// Returns whether nothing more must be done.
    fn update_connection_path(&mut self, tuple: &FiveTuple, known: &Connection) -> bool {
        let ends = [tuple.src, known.translated.dst].map(|address| self.network.find_host(address));
        let (Some(edge), [Some(_), Some(_)]) = (self.network.node_of(known.edge), ends) else { return false };
        self.report_flow(tuple, known);
        if self.vips.pinned.contains_key(&known.translated) {
            return true;
        }
        let Some((_, request)) = self.request_of(tuple, known) else { return true };
        self.update_latencies();
        let has_load = self.wants_ports();
        let Controller { vips, network, flows, load, now, .. } = self;
        let view = super::view_of(*now, network, flows, if has_load { load } else { &[] });
        let Some(service) = vips.services.get(&known.owner.service) else { return true };
        let Some(pool) = vips.pools.get_mut(&service.pool) else { return true };
        match pool.path_to(&request, known.owner.member, &view) {
            Some(path) => self.pin_connection(known.translated, path, edge),
            // Default routes, unless the member is unreachable: another path may exist later.
            None => return pool.is_reached(&request, known.owner.member, &view),
        }
        true
    }

    /// Reports connections that have lost their rules to balancers, and releases their paths.
    pub(crate) fn report_ended_connections(&mut self) {
        for (tuple, connection) in self.vips.connections.take_ended() {
            self.unpin_connection(&connection.translated);
            self.end_flow_of(&connection.translated);
            let ended = Ended { member: connection.owner.member, bytes: connection.carried, at: self.now };
            if let Some((pool, request)) = self.request_of(&tuple, &connection) {
                pool.ended(&request, &ended);
            }
        }
    }

    /// Reports a connection that keeps its member: its balancer did not pick it now.
    pub(super) fn report_placed(&mut self, tuple: &FiveTuple, connection: &Connection) {
        let member = connection.owner.member;
        if let Some((pool, request)) = self.request_of(tuple, connection) {
            pool.placed(&request, member);
        }
        self.vips.pending_paths.insert(*tuple);
    }

    fn request_of(
        &mut self,
        tuple: &FiveTuple,
        connection: &Connection,
    ) -> Option<(&mut super::pool_state::PoolState, Request)> {
        let edge = self.network.node_of(connection.edge)?;
        let service = self.vips.services.get(&connection.owner.service)?;
        let request = Request { tuple: *tuple, edge, size: None, at: connection.sent };
        Some((self.vips.pools.get_mut(&service.pool)?, request))
    }
}

impl Vips {
    pub(crate) fn hosts_left(&mut self, addresses: &[Ipv4Addr]) {
        if !self.is_idle() {
            self.moved.extend(addresses);
        }
    }
}
