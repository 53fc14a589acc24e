//! All switches, and sequences of changes to them: a step begins when everything before it is confirmed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use net::{NodeIx, Time};

use crate::install::{Installer, RuleKey, Wanted};

/// A rule wanted on a switch, or not wanted any more.
pub(crate) type Change = (NodeIx, RuleKey, Option<Wanted>);

/// What is wanted of every switch.
#[derive(Debug)]
pub(crate) struct Fabric {
    owner: u16,
    pub(crate) switches: BTreeMap<NodeIx, Installer>,
    /// Those something may have to be sent to.
    touched: BTreeSet<NodeIx>,
}

impl Fabric {
    pub(crate) fn new(owner: u16) -> Fabric {
        Fabric { owner, switches: BTreeMap::new(), touched: BTreeSet::new() }
    }
    /// A switch; one not seen before has nothing on it.
    pub(crate) fn switch(&mut self, node: NodeIx) -> &mut Installer {
        self.touched.insert(node);
        self.switches.entry(node).or_insert_with(|| Installer::new(self.owner))
    }
    /// The switches that were touched since the last call.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<NodeIx> {
        std::mem::take(&mut self.touched)
    }
    pub(crate) fn set(&mut self, (node, key, wanted): Change) {
        self.switch(node).set(key, wanted);
    }
    pub(crate) fn ticket(&self, node: NodeIx) -> u64 {
        self.switches.get(&node).map_or(0, Installer::ticket)
    }
    /// Switches where rules may decide that are not those wanted.
    pub(crate) fn unsure(&self, now: Time) -> BTreeSet<NodeIx> {
        self.switches.iter().filter(|(_, switch)| switch.is_unsure(now)).map(|(node, _)| *node).collect()
    }
    /// When the next switch will be unsure because it does not confirm.
    pub(crate) fn next_late(&self, now: Time) -> Option<Time> {
        self.switches.values().filter_map(Installer::late_from).filter(|at| *at > now).min()
    }
    /// Tickets of all switches.
    pub(crate) fn tickets(&self) -> BTreeMap<NodeIx, u64> {
        self.switches.iter().map(|(node, switch)| (*node, switch.ticket())).collect()
    }
    /// Tickets of the switches that something else is wanted of than before.
    pub(crate) fn tickets_since(&self, before: &BTreeMap<NodeIx, u64>) -> Vec<(NodeIx, u64)> {
        self.tickets().into_iter().filter(|(node, ticket)| before.get(node) != Some(ticket)).collect()
    }
    pub(crate) fn is_confirmed(&self, node: NodeIx, ticket: u64) -> bool {
        self.switches.get(&node).is_none_or(|switch| switch.is_confirmed(ticket))
    }
}

/// One step of a task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    /// Time to let pass between the confirmation of the step before and this one.
    pub(crate) pause: Time,
    pub(crate) changes: Vec<Change>,
}

/// How a task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// It waits, for confirmations or until then.
    Waiting(Option<Time>),
    /// A switch refused something; the steps left are not done.
    Refused,
    /// All steps are done and confirmed.
    Done,
}

/// Steps to be done one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    steps: VecDeque<Step>,
    waiting: Vec<(NodeIx, u64)>,
    /// Rules of the steps so far, to notice refusals.
    written: Vec<(NodeIx, RuleKey)>,
    resume_at: Option<Time>,
}

impl Task {
    /// These steps.
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Task {
        Task {
            steps: steps.into_iter().filter(|step| !step.changes.is_empty() || step.pause > Time::ZERO).collect(),
            ..Task::default()
        }
    }

    /// Leaves out changes still to come.
    pub(crate) fn leave_out(&mut self, is_meant: impl Fn(&RuleKey) -> bool) {
        self.steps.iter_mut().for_each(|step| step.changes.retain(|(_, key, _)| !is_meant(key)));
    }

    /// Leaves out pauses: there is nothing to wait for any more.
    pub(crate) fn hurry(&mut self) {
        self.resume_at = None;
        self.steps.iter_mut().for_each(|step| step.pause = Time::ZERO);
    }

    /// Whether the step under way need not be waited for: a switch that was to confirm it has gone, or, where packets are
    /// on a dead path (`is_dead`), does not for longer than it should take.
    pub(crate) fn is_hopeless(&self, is_dead: bool, now: Time, fabric: &Fabric) -> bool {
        let switch = |(node, ticket): &(NodeIx, u64)| Some((fabric.switches.get(node)?, *ticket));
        let mut waiting = self.waiting.iter().filter_map(switch);
        waiting.any(|(switch, ticket)| {
            switch.is_cut_off(ticket) || (is_dead && switch.is_late(now) && !switch.is_confirmed(ticket))
        })
    }

    /// Goes on as far as it can.
    pub(crate) fn advance(&mut self, now: Time, fabric: &mut Fabric) -> Progress {
        loop {
            self.waiting.retain(|(node, ticket)| !fabric.is_confirmed(*node, *ticket));
            let is_refused = |(node, key): &(NodeIx, RuleKey)| {
                fabric.switches.get(node).is_some_and(|switch| switch.has_refused(key))
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
            self.apply(step, fabric);
        }
    }

    fn apply(&mut self, step: Step, fabric: &mut Fabric) {
        let mut nodes: Vec<NodeIx> = Vec::new();
        for change in step.changes {
            nodes.push(change.0);
            if change.2.is_some() {
                self.written.push((change.0, change.1));
            }
            fabric.set(change);
        }
        nodes.sort_unstable();
        nodes.dedup();
        self.waiting = nodes.into_iter().map(|node| (node, fabric.ticket(node))).collect();
    }
}
