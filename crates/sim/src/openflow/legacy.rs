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
    /// `None` without legacy switches: routes of large networks take long.
    routes: Option<Routes>,
    /// By switch: its node, if it is a legacy switch. Empty without legacy switches.
    nodes: Vec<Option<NodeIx>>,
}

impl<'a> Legacy<'a> {
    pub(super) fn new(topology: &'a Topology, switches: &[NodeIx], legacy: &[NodeIx]) -> Legacy<'a> {
        if legacy.is_empty() {
            return Legacy { topology, routes: None, nodes: Vec::new() };
        }
        let nodes = switches.iter().map(|node| Some(*node).filter(|node| legacy.contains(node))).collect();
        Legacy { topology, routes: Some(Routes::intact(topology)), nodes }
    }

    /// Returns the link to a host if a switch is a legacy one: `Some(None)` if it has no route.
    pub(super) fn route(&self, switch: u32, to: HostIx) -> Option<Option<LinkIx>> {
        let (node, routes) = (self.nodes.get(switch as usize).copied().flatten()?, self.routes.as_ref()?);
        let class = routes.class_of(to);
        let last = || routes.last_link(to).filter(|link| self.topology.link(*link).from == node);
        Some(routes.next_hops(node, class).first().copied().or_else(last))
    }
}

impl Controlled<'_> {
    /// Computes the routes of legacy switches over the links that are detected as alive.
    pub(super) fn update_legacy(&mut self, alive: &[bool]) {
        if self.legacy.routes.is_some() {
            self.legacy.routes = Some(Routes::new(self.legacy.topology, alive));
            self.forget_decisions();
        }
    }
}
