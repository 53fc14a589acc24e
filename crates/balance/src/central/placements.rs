//! The desired state: default routes, traffic splits between edge switches, and pinned flows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::{Bandwidth, LinkIx, NodeIx};

use super::common::default_routes::Derivation;
use super::{FlowId, HopTable, Pins};

/// Links from the source's switch to the destination's; empty if they are the same.
pub type Path = Arc<[LinkIx]>;

/// Routes of all traffic without a split or a pin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DefaultRoutes {
    /// By switch and destination switch. Every sequence of them must end at the destination.
    Hops(Arc<HopTable>),
}

/// A path with its share of the flows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WeightedPath {
    /// Links of the path, in order.
    pub path: Path,
    /// Share of the flows, relative to the other paths of the pair; above 0.
    pub weight: u16,
}

/// The path and the rate limit of a pinned flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Links of the path, in order.
    pub path: Path,
    /// Rate limit for the host of the flow, if an agent runs there; `None` for no limit.
    pub rate: Option<Bandwidth>,
}

/// The whole desired forwarding state, in order of precedence: pins, splits, default routes.
///
/// [`Changes`] collects the edits: moving one of many flows needs no iteration over all.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    default_routes: Option<DefaultRoutes>,
    derivation: Derivation,
    pairs: BTreeMap<(NodeIx, NodeIx), Arc<[WeightedPath]>>,
    pins: Pins,
    report_threshold_bytes: u64,
    acks_follow_path: bool,
    changes: Changes,
}

/// The edits since the last [`Placements::take_changes`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Whether the default routes changed.
    pub default_routes: bool,
    /// Pairs of switches whose split changed.
    pub pairs: BTreeSet<(NodeIx, NodeIx)>,
    /// Flows that were pinned, moved or released.
    pub pins: BTreeSet<FlowId>,
    /// Flows whose rules are sent one flow after the other, in this order.
    pub order: Vec<FlowId>,
}

impl Placements {
    /// Returns the default routes; `None` before the balancer has set them.
    pub fn default_routes(&self) -> Option<&DefaultRoutes> {
        self.default_routes.as_ref()
    }
    /// Sets the default routes.
    pub fn set_default_routes(&mut self, routes: DefaultRoutes) {
        self.derivation = Derivation::default();
        if self.default_routes.as_ref() != Some(&routes) {
            self.default_routes = Some(routes);
            self.changes.default_routes = true;
        }
    }
    /// Returns and clears the origin of the default routes.
    pub(crate) fn take_derivation(&mut self) -> Derivation {
        std::mem::take(&mut self.derivation)
    }
    /// Sets the origin of the default routes.
    pub(crate) fn set_derivation(&mut self, derivation: Derivation) {
        self.derivation = derivation;
    }
    /// Returns the paths over which the flows between two switches are split by hash.
    pub fn splits(&self) -> &BTreeMap<(NodeIx, NodeIx), Arc<[WeightedPath]>> {
        &self.pairs
    }
    /// Splits the flows between two switches over paths; an empty list removes the split.
    pub fn split(&mut self, from: NodeIx, to: NodeIx, paths: Arc<[WeightedPath]>) {
        let is_same = match self.pairs.get(&(from, to)) {
            Some(before) => *before == paths,
            None => paths.is_empty(),
        };
        if is_same {
            return;
        }
        self.changes.pairs.insert((from, to));
        if paths.is_empty() {
            self.pairs.remove(&(from, to));
        } else {
            self.pairs.insert((from, to), paths);
        }
    }
    /// Removes the splits of all pairs.
    pub fn clear_splits(&mut self) {
        self.changes.pairs.extend(std::mem::take(&mut self.pairs).into_keys());
    }
    /// Returns all pinned flows.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }
    /// Returns the pin of a flow.
    pub fn pin_of(&self, flow: FlowId) -> Option<&Pin> {
        self.pins.get(&flow)
    }
    /// Pins a flow to a path or changes its pin. Memory grows with the largest flow number.
    pub fn pin(&mut self, flow: FlowId, pin: Pin) {
        self.pins.set(flow, Some(pin));
    }
    /// Removes the pin of a flow, which then uses its split or the default routes.
    pub fn release(&mut self, flow: FlowId) {
        self.pins.set(flow, None);
    }
    /// Pins a flow, or changes its pin, after those that were pinned by this method before: a switch
    /// gets the rules of one flow when it has confirmed those of the flow before it.
    pub fn pin_in_order(&mut self, flow: FlowId, pin: Pin) {
        self.pin(flow, pin);
        self.changes.order.push(flow);
    }
    /// Reserves capacity for pins of flows with numbers below this; call it before many pins.
    pub fn reserve_pins(&mut self, numbers: usize) {
        self.pins.reserve(numbers);
    }
    /// Returns the report threshold: agents report flows that have sent more bytes.
    pub fn report_threshold_bytes(&self) -> u64 {
        self.report_threshold_bytes
    }
    /// Sets the report threshold, in bytes.
    pub fn set_report_threshold(&mut self, bytes: u64) {
        self.report_threshold_bytes = bytes;
    }
    /// Returns whether the reverse direction of a TCP connection, mostly acknowledgements, uses the
    /// reverse of the pinned path. Otherwise it is forwarded like any flow; so is the reverse
    /// direction of a connection that is a known flow itself.
    pub fn acks_follow_path(&self) -> bool {
        self.acks_follow_path
    }
    /// Sets [`Placements::acks_follow_path`] for flows pinned from now on.
    pub fn set_acks_follow_path(&mut self, are_along: bool) {
        self.acks_follow_path = are_along;
    }
    /// Returns the edits since the last call, and clears them.
    pub fn take_changes(&mut self) -> Changes {
        let pins = self.pins.take_edited().into_iter().collect();
        Changes { pins, ..std::mem::take(&mut self.changes) }
    }
}
