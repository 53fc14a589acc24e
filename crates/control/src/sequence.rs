//! Changes of next hops, stage after stage.
//!
//! *Repairs* wait for confirmations of the stage before, but not for ever: a loop that may come about is less bad than a
//! network that cannot be repaired because one switch stalls. *Improvements*, where every next hop in effect works, have
//! time: they wait as long as it takes, and besides until packets sent on in the old way have arrived, so that none
//! comes to a switch that would have to send it back.

use std::collections::{BTreeSet, VecDeque};

use net::{NodeIx, Time};

use crate::fabric::Fabric;

/// How long a stage waits for a switch that does not confirm. Then the others go on without it.
pub(crate) const PATIENCE: Time = Time::from_ms(1000);

/// A switch and a destination switch.
pub(crate) type Slot = (NodeIx, NodeIx);

/// Stages left, and what the next one waits for.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    stages: VecDeque<Vec<Slot>>,
    /// Confirmations the next stage waits for. Before the first stage of repairs, which waits for nothing, those of the
    /// second one.
    waiting: Vec<(NodeIx, u64)>,
    has_begun: bool,
    /// Only repairs have one.
    deadline: Option<Time>,
    /// How long packets sent on in the old way may be under way. Only improvements wait for them.
    drain: Time,
    /// Whether there are any.
    has_to_drain: bool,
    resume_at: Option<Time>,
}

impl Sequence {
    pub(crate) fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
    /// Whether the last stage was made and confirmed.
    pub(crate) fn is_over(&self, fabric: &Fabric) -> bool {
        self.is_empty() && self.waiting.iter().all(|(node, ticket)| fabric.is_confirmed(*node, *ticket))
    }
    /// What is still to be changed.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.stages.iter().flatten().copied()
    }
    /// Adds slots to a stage.
    pub(crate) fn put(&mut self, stage: usize, slots: impl IntoIterator<Item = Slot>) {
        if self.stages.len() <= stage {
            self.stages.resize(stage + 1, Vec::new());
        }
        self.stages[stage].extend(slots);
    }
    /// Changes made before that are not done; whether there are any.
    pub(crate) fn wait_for(&mut self, changes: impl IntoIterator<Item = (NodeIx, u64)>) -> bool {
        let before = self.waiting.len();
        self.waiting.extend(changes);
        self.waiting.len() > before
    }
    /// Packets sent on in the old way may be under way for this long, if there are any now.
    pub(crate) fn drain(&mut self, drain: Time, are_there_any: bool) {
        self.drain = self.drain.max(drain);
        self.has_to_drain |= are_there_any;
    }
    /// When to look again, besides after confirmations.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.deadline.into_iter().chain(self.resume_at).min().filter(|_| !self.is_empty())
    }

    /// The next stage of repairs, if it may be made now.
    pub(crate) fn next_repair(&mut self, now: Time, fabric: &Fabric) -> Option<Vec<Slot>> {
        self.waiting.retain(|(node, ticket)| !fabric.is_confirmed(*node, *ticket));
        let is_waiting = !self.waiting.is_empty() && self.deadline.is_some_and(|deadline| now < deadline);
        if self.has_begun && is_waiting {
            return None;
        }
        let stage = self.stages.pop_front()?;
        if std::mem::replace(&mut self.has_begun, true) {
            self.waiting.clear();
        }
        self.deadline = Some(now.saturating_add(PATIENCE));
        Some(stage)
    }
    /// The next stage of improvements, if it may be made now.
    pub(crate) fn next_improvement(&mut self, now: Time, fabric: &Fabric) -> Option<Vec<Slot>> {
        self.waiting.retain(|(node, ticket)| !fabric.is_confirmed(*node, *ticket));
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
    /// A stage was made: the next one waits for its switches.
    pub(crate) fn made(&mut self, stage: &[Slot], fabric: &Fabric) {
        let nodes: BTreeSet<NodeIx> = stage.iter().map(|(node, _)| *node).collect();
        self.waiting.extend(nodes.into_iter().map(|node| (node, fabric.ticket(node))));
    }
}
