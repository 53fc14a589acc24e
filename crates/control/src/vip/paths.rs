//! What balancers are told of connections, and the paths they picked.
//!
//! A path is the connection's beyond the client's switch, pinned like that of any flow, with the other way along it. It is
//! given up when a link of it dies, when the connection is over, and by another life of the controller; the connection goes
//! by the base then.

use balance::central::Path;
use balance::server::{Ended, Request};
use net::{FiveTuple, NodeIx};

use super::table::Connection;
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

    fn unpin_connection(&mut self, inner: &FiveTuple) {
        if self.vips.pinned.remove(inner).is_some() {
            self.pins.want(*inner, None, None, false);
            self.pins.want(inner.reverse(), None, None, false);
        }
    }

    /// Links died: connections whose paths had them, one way or the other, go by the base.
    pub(super) fn drop_dead_paths(&mut self) {
        let is_dead = |path: &Path| {
            path.iter().any(|link| !self.network.is_alive(*link) || !self.network.is_alive(link.reverse()))
        };
        let dead: Vec<FiveTuple> =
            self.vips.pinned.iter().filter(|(_, path)| is_dead(path)).map(|(inner, _)| *inner).collect();
        dead.iter().for_each(|inner| self.unpin_connection(inner));
    }

    /// Connections have lost their rules: balancers are told, and their paths are free.
    pub(crate) fn follow_ended(&mut self) {
        for (tuple, connection) in self.vips.connections.take_ended() {
            self.unpin_connection(&connection.inner);
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
