//! Paths found link by link, for networks and failures that no colouring fits.

use std::sync::Arc;

use net::routes::ClassIx;
use net::{HostIx, LinkIx, NodeIx, Routes, Topology};

use super::paths::SlotPaths;
use super::uplink;
use crate::timers::NEVER;

/// Time at which every link is free again. A packet may join a link that can begin to send it
/// within the slot: fast links take several packets a slot, slow ones one every few slots.
pub(crate) struct LinkSlots {
    routes: Arc<Routes>,
    far_end: Vec<NodeIx>,
    /// Time of a full packet; [`NEVER`] for a link that is down.
    packet_ps: Vec<u64>,
    free_at: Vec<u64>,
    slot: u64,
    now: u64,
    /// The port tried first moves on with every packet, which spreads them.
    turn: usize,
    /// Nodes from which the present search has found no path, by the number of the search.
    dead_end: Vec<u64>,
    search: u64,
    pub(super) paths: SlotPaths,
}

impl LinkSlots {
    pub(crate) fn new(topology: &Topology, routes: &Arc<Routes>, packet_ps: Vec<u64>, slot: u64) -> LinkSlots {
        LinkSlots {
            routes: Arc::clone(routes),
            far_end: topology.links().iter().map(|link| link.to).collect(),
            free_at: vec![0; packet_ps.len()],
            packet_ps,
            slot,
            now: 0,
            turn: 0,
            dead_end: vec![0; topology.nodes().len()],
            search: 0,
            paths: SlotPaths::default(),
        }
    }

    pub(crate) fn is_reachable(&self, src: HostIx, dst: HostIx) -> bool {
        let from = self.routes.class_node(self.routes.class_of(src));
        let ends = uplink(&self.routes, src).into_iter().chain(self.routes.last_link(dst));
        self.routes.path_count(from, self.routes.class_of(dst)) > 0
            && ends.into_iter().all(|link| self.packet_ps[link.ix()] != NEVER)
    }

    pub(crate) fn begin_slot(&mut self, now: u64) {
        self.now = now;
        self.paths.clear();
    }

    /// Finds a path whose links can all begin a packet in this slot, and takes it.
    pub(crate) fn admit(&mut self, src: HostIx, dst: HostIx) -> bool {
        let (up, down) = (uplink(&self.routes, src), self.routes.last_link(dst));
        if up.into_iter().chain(down).any(|link| !self.can_begin(link)) {
            return false;
        }
        let begin = self.paths.links.len();
        self.paths.links.extend(up.map(|link| link.0));
        self.search += 1;
        let (from, to) = (self.routes.class_node(self.routes.class_of(src)), self.routes.class_of(dst));
        if !self.extend(from, to) {
            self.paths.links.truncate(begin);
            return false;
        }
        self.paths.links.extend(down.map(|link| link.0));
        self.paths.end_path();
        self.turn = self.turn.wrapping_add(1);
        for link in &self.paths.links[begin..] {
            let free_at = &mut self.free_at[*link as usize];
            *free_at = (*free_at).max(self.now).saturating_add(self.packet_ps[*link as usize]);
        }
        true
    }

    fn can_begin(&self, link: LinkIx) -> bool {
        self.packet_ps[link.ix()] != NEVER && self.free_at[link.ix()] < self.now.saturating_add(self.slot)
    }

    /// Searches the shortest paths depth first; no node is entered twice in vain.
    fn extend(&mut self, node: NodeIx, to: ClassIx) -> bool {
        if node == self.routes.class_node(to) {
            return true;
        }
        let count = self.routes.next_hops(node, to).len();
        for step in 0..count {
            let hop = self.routes.next_hops(node, to)[(self.turn + step) % count];
            let next = self.far_end[hop.ix()];
            if self.dead_end[next.ix()] == self.search || !self.can_begin(hop) {
                continue;
            }
            self.paths.links.push(hop.0);
            if self.extend(next, to) {
                return true;
            }
            self.paths.links.pop();
        }
        self.dead_end[node.ix()] = self.search;
        false
    }

    /// Returns the first slot after this one in which a busy link can begin a packet.
    pub(crate) fn next_chance(&self) -> u64 {
        let after = self.now.saturating_add(self.slot);
        let earliest = self.free_at.iter().copied().filter(|at| *at >= after && *at != NEVER).min();
        let slots = earliest.map_or(1, |at| (at - self.now) / self.slot);
        self.now.saturating_add(self.slot.saturating_mul(slots))
    }
}
