//! Tasks: sequences of changes in which a step begins when everything before it is confirmed.

use std::collections::{BTreeMap, VecDeque};

use core::net::Ipv4Addr;
use net::{NodeIx, Time};

use super::compile::keys_without;
use super::{Change, Updater};

#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// Pause between the confirmation of the previous step and this one.
    pub(crate) pause: Time,
    pub(crate) changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// Waits for confirmations, or until this time.
    Waiting(Option<Time>),
    /// A switch rejected a rule; the remaining steps are not executed.
    Refused,
    /// All steps are executed and confirmed.
    Done,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    steps: VecDeque<Step>,
    waiting: Vec<(NodeIx, u64)>,
    /// Digests of the rules of the steps so far, to detect rejections: the rules themselves would fill
    /// the memory while a large network starts.
    written: BTreeMap<NodeIx, Vec<u64>>,
    resume_at: Option<Time>,
}

impl Task {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Task {
        Task {
            steps: steps.into_iter().filter(|step| !step.changes.is_empty() || step.pause > Time::ZERO).collect(),
            ..Task::default()
        }
    }

    /// Removes an address from the blocks of all changes.
    pub(crate) fn remove_address(&mut self, address: Ipv4Addr) {
        for step in &mut self.steps {
            let changes = std::mem::take(&mut step.changes).into_iter();
            let rest = changes.flat_map(|(node, key, wanted)| {
                let keys = keys_without(&key, address).unwrap_or_else(|| vec![key]);
                keys.into_iter().map(move |key| (node, key, wanted.clone()))
            });
            step.changes = rest.collect();
        }
    }

    pub(crate) fn skip_pauses(&mut self) {
        self.resume_at = None;
        self.steps.iter_mut().for_each(|step| step.pause = Time::ZERO);
    }

    /// Returns whether waiting for the current step is pointless: a switch that must confirm it has
    /// disconnected, or, for packets on a dead path (`is_dead`), is late.
    pub(crate) fn is_hopeless(&self, is_dead: bool, now: Time, updater: &Updater) -> bool {
        let switch = |(node, ticket): &(NodeIx, u64)| Some((updater.switches.get(node)?, *ticket));
        let mut waiting = self.waiting.iter().filter_map(switch);
        waiting.any(|(switch, ticket)| {
            switch.is_cut_off(ticket) || (is_dead && switch.is_late(now) && !switch.is_confirmed(ticket))
        })
    }

    pub(crate) fn advance(&mut self, now: Time, updater: &mut Updater) -> Progress {
        loop {
            self.waiting.retain(|(node, ticket)| !updater.is_confirmed(*node, *ticket));
            let is_refused = |(node, written): (&NodeIx, &Vec<u64>)| {
                let mut refused = updater.switches.get(node).into_iter().flat_map(|switch| &switch.refused);
                refused.any(|key| written.contains(&key.digest()))
            };
            if self.written.iter().any(is_refused) {
                return Progress::Refused;
            }
            if !self.waiting.is_empty() {
                return Progress::Waiting(None);
            }
            let Some(step) = self.steps.front_mut() else {
                return Progress::Done;
            };
            if step.pause > Time::ZERO {
                self.resume_at = Some(now.saturating_add(std::mem::take(&mut step.pause)));
            }
            if let Some(at) = self.resume_at.filter(|at| now < *at) {
                return Progress::Waiting(Some(at));
            }
            self.resume_at = None;
            let step = self.steps.pop_front().expect("there is a first step");
            self.apply(step, updater);
        }
    }

    fn apply(&mut self, step: Step, updater: &mut Updater) {
        let mut nodes: Vec<NodeIx> = Vec::new();
        for change in step.changes {
            nodes.push(change.0);
            if change.2.is_some() {
                self.written.entry(change.0).or_default().push(change.1.digest());
            }
            updater.set(change);
        }
        nodes.sort_unstable();
        nodes.dedup();
        self.waiting = nodes.into_iter().map(|node| (node, updater.ticket(node))).collect();
    }
}
