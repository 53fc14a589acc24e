//! Legacy switches of a partial SDN: data follows the first shortest path by port, regardless of rules.
//!
//! A legacy switch keeps its agent for what the controller of a partial SDN gets from the routing
//! protocol and from management: discovery of links, and counters. Its routes are those over the
//! links whose state is detected, as of an interior gateway protocol with equal costs.

use net::{HostIx, LinkIx, NodeIx, Routes, Topology};

use super::Controlled;

/// The routes of the legacy switches.
#[derive(Debug)]
pub(super) struct Legacy<'a> {
    topology: &'a Topology,
    routes: Routes,
    /// By switch: its node, if it is a legacy switch.
    nodes: Vec<Option<NodeIx>>,
}

impl<'a> Legacy<'a> {
    pub(super) fn new(topology: &'a Topology, switches: &[NodeIx], legacy: &[NodeIx]) -> Legacy<'a> {
        let nodes = switches.iter().map(|node| Some(*node).filter(|node| legacy.contains(node))).collect();
        Legacy { topology, routes: Routes::intact(topology), nodes }
    }

    /// Returns the link to a host if a switch is a legacy one: `Some(None)` if it has no route.
    pub(super) fn route(&self, switch: u32, to: HostIx) -> Option<Option<LinkIx>> {
        let node = self.nodes.get(switch as usize).copied().flatten()?;
        let class = self.routes.class_of(to);
        let last = || self.routes.last_link(to).filter(|link| self.topology.link(*link).from == node);
        Some(self.routes.next_hops(node, class).first().copied().or_else(last))
    }
}

impl Controlled<'_> {
    /// Computes the routes of legacy switches over the links that are detected as alive.
    pub(super) fn update_legacy(&mut self, alive: &[bool]) {
        if self.legacy.nodes.iter().any(Option::is_some) {
            self.legacy.routes = Routes::new(self.legacy.topology, alive);
            self.forget_decisions();
        }
    }
}
