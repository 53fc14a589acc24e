//! Staged updates of next hops.
//!
//! *Repairs* wait for confirmations of the previous stage, but not indefinitely: a possible loop is
//! less bad than a network that cannot be repaired because one switch stalls. *Improvements*, made
//! while every next hop in effect works, wait as long as it takes. They also wait until packets
//! forwarded by old next hops have arrived, so that none reaches a switch that would have to send
//! it back.

use std::collections::{BTreeSet, VecDeque};

use net::{NodeIx, Time};

use crate::updater::{CONFIRM_TIMEOUT, Updater};

/// A switch and a destination switch.
pub(crate) type Slot = (NodeIx, NodeIx);

#[derive(Debug, Default)]
pub(crate) struct StagedUpdate {
    stages: VecDeque<Vec<Slot>>,
    /// Confirmations the next stage waits for. Before the first stage of repairs, which has no
    /// condition, those of the second one.
    waiting: Vec<(NodeIx, u64)>,
    has_begun: bool,
    /// Deadline of a repair; `None` for improvements.
    deadline: Option<Time>,
    /// Time packets forwarded by old next hops may be in flight. Only improvements wait for it.
    drain: Time,
    has_to_drain: bool,
    resume_at: Option<Time>,
}

impl StagedUpdate {
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
    pub(crate) fn is_over(&self, updater: &Updater) -> bool {
        self.is_empty() && self.waiting.iter().all(|(node, ticket)| updater.is_confirmed(*node, *ticket))
    }
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.stages.iter().flatten().copied()
    }
    pub(crate) fn put(&mut self, stage: usize, slots: impl IntoIterator<Item = Slot>) {
        if self.stages.len() <= stage {
            self.stages.resize(stage + 1, Vec::new());
        }
        self.stages[stage].extend(slots);
    }
    /// Waits for earlier changes that are not confirmed. Returns whether there are any.
    pub(crate) fn wait_for(&mut self, changes: impl IntoIterator<Item = (NodeIx, u64)>) -> bool {
        let before = self.waiting.len();
        self.waiting.extend(changes);
        self.waiting.len() > before
    }
    /// Sets the time packets forwarded by old next hops may be in flight, and whether there are any
    /// now.
    pub(crate) fn drain(&mut self, drain: Time, are_there_any: bool) {
        self.drain = self.drain.max(drain);
        self.has_to_drain |= are_there_any;
    }
    /// Returns when to check again, apart from confirmations.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.deadline.into_iter().chain(self.resume_at).min().filter(|_| !self.is_empty())
    }

    pub(crate) fn next_repair(&mut self, now: Time, updater: &Updater) -> Option<Vec<Slot>> {
        self.waiting.retain(|(node, ticket)| !updater.is_confirmed(*node, *ticket));
        let is_waiting = !self.waiting.is_empty() && self.deadline.is_some_and(|deadline| now < deadline);
        if self.has_begun && is_waiting {
            return None;
        }
        let stage = self.stages.pop_front()?;
        if std::mem::replace(&mut self.has_begun, true) {
            self.waiting.clear();
        }
        self.deadline = Some(now.saturating_add(CONFIRM_TIMEOUT));
        Some(stage)
    }
    pub(crate) fn next_improvement(&mut self, now: Time, updater: &Updater) -> Option<Vec<Slot>> {
        self.waiting.retain(|(node, ticket)| !updater.is_confirmed(*node, *ticket));
        if !self.waiting.is_empty() || self.stages.is_empty() {
            return None;
        }
        let pause = if self.has_to_drain { self.drain } else { Time::ZERO };
        if now < *self.resume_at.get_or_insert(now.saturating_add(pause)) {
            return None;
        }
        (self.resume_at, self.has_to_drain) = (None, true);
        self.stages.pop_front()
    }
    /// Records that a stage was sent: the next one waits for its switches.
    pub(crate) fn stage_sent(&mut self, stage: &[Slot], updater: &Updater) {
        let nodes: BTreeSet<NodeIx> = stage.iter().map(|(node, _)| *node).collect();
        self.waiting.extend(nodes.into_iter().map(|node| (node, updater.ticket(node))));
    }
}
