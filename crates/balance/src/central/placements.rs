//! The desired state: how traffic goes by default, how traffic between two places is divided among paths, and which
//! flows have a path of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use net::{Bandwidth, LinkIx, NodeIx};

use super::{FlowId, Pins};

/// Links from switch to switch, from the switch of the source to that of the destination; empty where they are the same.
pub type Path = Arc<[LinkIx]>;

/// A next hop with its share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NextHop {
    /// Link to take.
    pub link: LinkIx,
    /// Share of the traffic, relative to the other next hops; above 0.
    pub weight: u16,
}

/// Next hops by switch and switch of the destination. One next hop is a plain rule, several are a select group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HopTable(pub BTreeMap<(NodeIx, NodeIx), Arc<[NextHop]>>);

/// How traffic goes that nothing else is said about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Base {
    /// By switch and destination switch. Following any of the next hops must end at the destination.
    Hops(Arc<HopTable>),
}

/// A path with its share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WeightedPath {
    /// Path.
    pub path: Path,
    /// Share of the flows, relative to the other paths of the pair; above 0.
    pub weight: u16,
}

/// A flow with a path of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Path.
    pub path: Path,
    /// Greatest rate its host should send at, where it can be told.
    pub rate: Option<Bandwidth>,
}

/// The whole desired forwarding state, in order of precedence: pins of flows, divisions of pairs, the base.
///
/// A balancer edits it; what it edited is collected in [`Changes`], so that moving one flow of many costs no walk over
/// all of them.
#[derive(Clone, Debug, Default)]
pub struct Placements {
    base: Option<Base>,
    pairs: BTreeMap<(NodeIx, NodeIx), Arc<[WeightedPath]>>,
    pins: Pins,
    report_above: u64,
    are_acks_along: bool,
    changes: Changes,
}

/// What was edited since the last [`Placements::take_changes`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// The base.
    pub base: bool,
    /// Pairs of switches.
    pub pairs: BTreeSet<(NodeIx, NodeIx)>,
    /// Flows pinned, moved or released.
    pub pins: BTreeSet<FlowId>,
}

impl Placements {
    /// How traffic goes by default; `None` before the balancer has said.
    pub fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }
    /// Says how traffic goes by default.
    pub fn set_base(&mut self, base: Base) {
        if self.base.as_ref() != Some(&base) {
            self.base = Some(base);
            self.changes.base = true;
        }
    }
    /// Paths among which the flows between two switches are divided, by hash.
    pub fn pairs(&self) -> &BTreeMap<(NodeIx, NodeIx), Arc<[WeightedPath]>> {
        &self.pairs
    }
    /// Divides the flows from the hosts of one switch to those of another among paths; an empty list leaves them to the
    /// base.
    pub fn divide(&mut self, from: NodeIx, to: NodeIx, paths: Arc<[WeightedPath]>) {
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
    /// Flows with a path of their own.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }
    /// The path of its own a flow has.
    pub fn pin_of(&self, flow: FlowId) -> Option<&Pin> {
        self.pins.get(&flow)
    }
    /// Gives a flow a path of its own, or another one. Numbers of flows are dense: memory grows with the greatest.
    pub fn pin(&mut self, flow: FlowId, pin: Pin) {
        self.pins.set(flow, Some(pin));
    }
    /// Takes it away again: the flow goes with its pair, or by the base.
    pub fn release(&mut self, flow: FlowId) {
        self.pins.set(flow, None);
    }
    /// Makes place for pins of flows with numbers below this, for those who are about to pin many.
    pub fn reserve_pins(&mut self, numbers: usize) {
        self.pins.reserve(numbers);
    }
    /// Agents report flows that have sent more than this, bytes.
    pub fn report_above(&self) -> u64 {
        self.report_above
    }
    /// Changes that.
    pub fn set_report_above(&mut self, bytes: u64) {
        self.report_above = bytes;
    }
    /// Whether what a TCP connection sends the other way, acknowledgements above all, goes back along the pinned path. Otherwise it
    /// goes like any flow; so does the other way of a connection that is a known flow itself.
    pub fn are_acks_along(&self) -> bool {
        self.are_acks_along
    }
    /// Changes that, for flows pinned from now on.
    pub fn set_acks_along(&mut self, are_along: bool) {
        self.are_acks_along = are_along;
    }
    /// What was edited since the last call.
    pub fn take_changes(&mut self) -> Changes {
        let pins = self.pins.take_edited().into_iter().collect();
        Changes { pins, ..std::mem::take(&mut self.changes) }
    }
}
