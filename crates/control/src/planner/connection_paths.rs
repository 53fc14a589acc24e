//! Paths of connections to virtual services whose server balancer picked one.

use balance::central::Path;
use net::FiveTuple;

use super::Planner;
use crate::observer::network::Network;

impl Planner {
    /// Pins both directions of a translated connection to a path, if all of it is alive.
    pub(crate) fn pin_connection(&mut self, network: &Network, translated: FiveTuple, path: Path) {
        if path.is_empty() || network.host_at(translated.dst).is_none() {
            return;
        }
        let back: Path = path.iter().rev().map(|link| link.reverse()).collect();
        if !network.is_path_alive(&path) || !network.is_path_alive(&back) {
            return;
        }
        self.pins.want(translated, Some(path.clone()), false);
        self.pins.want(translated.reverse(), Some(back), false);
        self.connection_paths.insert(translated, path);
    }

    pub(crate) fn unpin_connection(&mut self, translated: &FiveTuple) {
        if self.connection_paths.remove(translated).is_some() {
            self.pins.want(*translated, None, false);
            self.pins.want(translated.reverse(), None, false);
        }
    }

    /// Returns whether a flow is one direction of a connection whose balancer picked its path.
    pub(super) fn is_connection_pinned(&self, tuple: &FiveTuple) -> bool {
        !self.connection_paths.is_empty()
            && (self.connection_paths.contains_key(tuple) || self.connection_paths.contains_key(&tuple.reverse()))
    }
    pub(crate) fn has_connection_path(&self, translated: &FiveTuple) -> bool {
        self.connection_paths.contains_key(translated)
    }

    /// Releases the paths with a dead link or a moved host, in either direction. Their connections
    /// use the default routes until they get other paths. Returns their translated five-tuples.
    pub(crate) fn drop_dead_connection_paths(&mut self, network: &Network) -> Vec<FiveTuple> {
        let edge_of = |address| Some(network.host_at(address)?.edge);
        let is_elsewhere = |translated: &FiveTuple, path: &Path| {
            let ends = path.first().and_then(|link| network.near_end(*link));
            let ends = [ends, path.last().and_then(|link| network.far_end(*link))];
            ends != [edge_of(translated.src), edge_of(translated.dst)]
        };
        let is_dead =
            |path: &Path| path.iter().any(|link| !network.is_alive(*link) || !network.is_alive(link.reverse()));
        let pinned = self.connection_paths.iter();
        let dead: Vec<FiveTuple> = pinned
            .filter(|(translated, path)| is_dead(path) || is_elsewhere(translated, path))
            .map(|(translated, _)| *translated)
            .collect();
        dead.iter().for_each(|translated| self.unpin_connection(translated));
        dead
    }
}
