//! Paths of connections: what balancers receive about connections, and the paths they pick.
//!
//! A path is that of the translated connection, pinned like that of any flow, with the reverse
//! direction along it. When a link of it fails, when client or member move, and after a controller
//! restart, the balancer is called for a path to the current member
//! ([`balance::server::ServerBalancer::path_to`]); until then, and if it returns none, the
//! connection uses the default routes. Recovered connections wait until the network is known.

use core::net::Ipv4Addr;

use balance::server::{Ended, Request};
use net::FiveTuple;

use super::connection_table::{Connection, ConnectionState};
use super::{Parts, VipService};

impl VipService {
    /// Releases the paths with a dead link or a moved host: their connections get other ones.
    pub(super) fn drop_dead_paths(&mut self, on: &mut Parts<'_>) {
        for translated in on.planner.drop_dead_connection_paths(&on.observer.network) {
            let tuple = self.connections.find_translated(&translated);
            self.pending_paths.extend(tuple);
        }
    }

    /// Handles hosts that have moved. Connections of clients get their rules at the new switch, so
    /// that no untranslated reply reaches them; paths to members are picked again.
    pub(super) fn update_moved_hosts(&mut self, on: &mut Parts<'_>) {
        for address in std::mem::take(&mut self.moved) {
            let is_of = |tuple: &FiveTuple, known: &Connection| tuple.src == address || known.translated.dst == address;
            let living = self.connections.iter().filter(|(tuple, known)| known.has_rules() && is_of(tuple, known));
            let living: Vec<FiveTuple> = living.map(|(tuple, _)| *tuple).collect();
            living.iter().filter(|tuple| tuple.src == address).for_each(|tuple| self.move_client(on, tuple, address));
            self.pending_paths.extend(living);
        }
    }

    /// Moves the connection of a client that is behind another switch.
    fn move_client(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple, client: Ipv4Addr) {
        let host = on.observer.network.host_at(client);
        let Some((edge, known)) = host.map(|host| host.known.datapath).zip(self.connections.get(tuple).copied()) else {
            return;
        };
        let ends = self.ends_of_known(tuple, &known);
        let (Some(ends), Some(mac)) = (ends, self.interface_of(on, known.translated.dst)) else { return };
        if edge == known.edge || on.cx.channels.connection_of(edge).is_none() {
            return; // Its next packet goes to the controller, once its switch is connected.
        }
        self.delete_rules_of(on, tuple, &known);
        let connection =
            Connection::new(known.owner, known.translated, edge, mac, on.cx.now, ConnectionState::Installing);
        self.connections.begin(*tuple, connection);
        self.report_ended_connections(on);
        self.report_placed(on, tuple, &connection);
        if !self.send_rules(on, edge, &ends, mac) {
            self.connections.remove(tuple);
        }
    }

    /// Picks paths for continuing connections, and reports them to balancers, as soon as their
    /// hosts are known.
    pub(super) fn update_connection_paths(&mut self, on: &mut Parts<'_>) {
        if self.pending_paths.is_empty() || !on.observer.recovering.is_empty() {
            return;
        }
        let pending_paths: Vec<FiveTuple> = self.pending_paths.iter().copied().collect();
        pending_paths.iter().for_each(|tuple| self.try_update_path(on, tuple));
    }

    pub(super) fn try_update_path(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple) {
        let known = self.connections.get(tuple).copied().filter(Connection::has_rules);
        if known.is_none_or(|known| self.update_connection_path(on, tuple, &known)) {
            self.pending_paths.remove(tuple);
        }
    }

    /// Returns whether nothing more must be done.
    fn update_connection_path(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple, known: &Connection) -> bool {
        let ends = [tuple.src, known.translated.dst].map(|address| on.observer.network.find_host(address));
        let (Some(_), [Some(_), Some(_)]) = (on.observer.network.node_of(known.edge), ends) else { return false };
        self.report_flow(on, tuple, known);
        if on.planner.has_connection_path(&known.translated) {
            return true;
        }
        let Some((_, request)) = self.request_of(on, tuple, known) else { return true };
        on.observer.update_latencies();
        let view = super::view_of(on.cx.now, on.observer);
        let Some(service) = self.services.get(&known.owner.service) else { return true };
        let Some(pool) = self.pools.get_mut(&service.pool) else { return true };
        match pool.path_to(&request, known.owner.member, &view) {
            Some(path) => on.planner.pin_connection(&on.observer.network, known.translated, path),
            // Default routes, unless the member is unreachable: another path may exist later.
            None => return pool.is_reached(&request, known.owner.member, &view),
        }
        true
    }

    /// Reports connections that have lost their rules to balancers, and releases their paths.
    pub(crate) fn report_ended_connections(&mut self, on: &mut Parts<'_>) {
        for (tuple, connection) in self.connections.take_ended() {
            on.planner.unpin_connection(&connection.translated);
            self.end_flow_of(on, &connection.translated);
            let ended = Ended { member: connection.owner.member, bytes: connection.carried, at: on.cx.now };
            if let Some((pool, request)) = self.request_of(on, &tuple, &connection) {
                pool.ended(&request, &ended);
            }
        }
    }

    /// Reports a connection that keeps its member: its balancer did not pick it now.
    pub(super) fn report_placed(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple, connection: &Connection) {
        let member = connection.owner.member;
        if let Some((pool, request)) = self.request_of(on, tuple, connection) {
            pool.placed(&request, member);
        }
        self.pending_paths.insert(*tuple);
    }

    fn request_of(
        &mut self,
        on: &mut Parts<'_>,
        tuple: &FiveTuple,
        connection: &Connection,
    ) -> Option<(&mut super::pool_state::PoolState, Request)> {
        let edge = on.observer.network.node_of(connection.edge)?;
        let service = self.services.get(&connection.owner.service)?;
        let request = Request { tuple: *tuple, edge, size: None, at: connection.sent };
        Some((self.pools.get_mut(&service.pool)?, request))
    }
}

impl VipService {
    pub(crate) fn hosts_left(&mut self, addresses: &[Ipv4Addr]) {
        if !self.is_idle() {
            self.moved.extend(addresses);
        }
    }
}
