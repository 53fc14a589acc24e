//! The source edge: it decides when a flow is rerouted, and to which path.

use net::routes::ClassIx;
use net::{RandomStream, Time};

use super::tag::{Epoch, FlowEpoch, Kind, Tag, Ticks, identity};
use crate::dataplane::common::{FlowTable, PathIndex};
use crate::dataplane::{PacketView, Paths};

pub(super) struct Source {
    pub(super) ticks: Ticks,
    /// Time after a request within which its reply is timely, per class.
    pub(super) patience: Vec<Time>,
    /// Idle time after which a flow starts a new epoch on any path.
    pub(super) expiry: Time,
    /// Time for which a path is not picked after a NOTIFY.
    pub(super) pause: Time,
    pub(super) pauses: Pauses,
    pub(super) flows: FlowTable<Flow>,
}

#[derive(Clone, Default)]
pub(super) struct Flow {
    hash: u64,
    last_sent: Time,
    /// Deadline of a timely reply to the epoch's request; [`Time::MAX`] once it is irrelevant.
    deadline: Time,
    tail_time: u32,
    path: u16,
    epoch: Epoch,
    /// Whether the flow is in phase 1.
    is_rerouted: bool,
    /// Whether the path is good or the reroute is complete: the next packet begins an epoch.
    is_stable: bool,
}

/// Paths that are not picked for a while.
pub(super) struct Pauses {
    index: PathIndex,
    until: Vec<Time>,
}

impl Pauses {
    pub(super) fn new(index: PathIndex) -> Pauses {
        Pauses { until: vec![Time::ZERO; index.total()], index }
    }

    /// Pauses a path; invalid path numbers are ignored.
    fn pause(&mut self, class: ClassIx, path: u16, until: Time) {
        if let Some(at) = self.index.get(class, path) {
            self.until[at] = until;
        }
    }

    fn is_paused(&self, class: ClassIx, path: u16, now: Time) -> bool {
        self.index.get(class, path).is_some_and(|at| now < self.until[at])
    }

    /// Draws two random paths; returns the first not paused, else `current`, else the first.
    fn pick(&self, class: ClassIx, live: &[u16], current: Option<u16>, now: Time, rng: &mut RandomStream) -> u16 {
        let mut draw = || live[rng.next_below(live.len() as u64) as usize];
        let drawn = [draw(), draw()];
        let good = drawn.into_iter().find(|path| !self.is_paused(class, *path, now));
        good.or(current).unwrap_or(drawn[0])
    }
}

impl Source {
    /// Returns path and header of a data packet that enters the fabric.
    pub(super) fn send(
        &mut self,
        now: Time,
        rng: &mut RandomStream,
        packet: &PacketView,
        paths: Paths<'_>,
    ) -> (u16, Tag) {
        let class = packet.to;
        let flow = self.flows.slot(packet.flow);
        // A flow whose path died has no order left to keep, so it starts again like an idle one.
        let is_expired =
            paths.current.is_none() || flow.hash != packet.hash || now.saturating_sub(flow.last_sent) > self.expiry;
        flow.last_sent = now;
        flow.hash = packet.hash;
        let mut kind = Kind::Data;
        let mut path = flow.path;
        if is_expired || flow.is_stable {
            flow.is_stable = false;
            flow.is_rerouted = false;
            flow.epoch = flow.epoch.next();
            flow.deadline = now.saturating_add(self.patience[class.0 as usize]);
            kind = Kind::Request;
            if is_expired {
                path = self.pauses.pick(class, paths.live, paths.current, now, rng);
                flow.path = path;
            }
        } else if !flow.is_rerouted && now > flow.deadline {
            kind = Kind::Tail;
            flow.deadline = Time::MAX;
            flow.path = self.pauses.pick(class, paths.live, paths.current, now, rng);
        }
        // The path of a new reroute may have died before its first packet.
        if paths.current != Some(path) && paths.live.binary_search(&path).is_err() {
            path = self.pauses.pick(class, paths.live, paths.current, now, rng);
            flow.path = path;
        }
        let stamp = self.ticks.stamp(now);
        let time = if flow.is_rerouted { flow.tail_time } else { stamp };
        let tag = Tag { kind, is_rerouted: flow.is_rerouted, epoch: flow.epoch, time };
        if kind == Kind::Tail {
            flow.tail_time = stamp;
            flow.is_rerouted = true;
        }
        (path, tag)
    }

    pub(super) fn on_reply(&mut self, now: Time, of: FlowEpoch) {
        let flow = self.flows.slot(of.flow);
        if flow.is(of) && !flow.is_rerouted && now < flow.deadline && flow.deadline != Time::MAX {
            flow.is_stable = true;
            flow.deadline = Time::MAX;
        }
    }

    pub(super) fn on_notify(&mut self, now: Time, class: ClassIx, path: u16) {
        self.pauses.pause(class, path, now.saturating_add(self.pause));
    }

    /// Handles the arrival of everything sent on the old path.
    pub(super) fn on_clear(&mut self, of: FlowEpoch) {
        let flow = self.flows.slot(of.flow);
        if flow.is(of) && flow.is_rerouted {
            flow.is_stable = true;
        }
    }
}

impl Flow {
    fn is(&self, of: FlowEpoch) -> bool {
        self.epoch == of.epoch && identity(self.hash) == of.identity
    }
}
