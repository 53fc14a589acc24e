//! The installers of all switches, and tasks: sequences of changes in which a step begins when
//! everything before it is confirmed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use net::{NodeIx, Time};

use crate::planning::compile::Compiler;
use crate::rules::store::{DesiredRule, Installer, RuleKey};

/// A change of a rule on a switch; `None` deletes it.
pub(crate) type Change = (NodeIx, RuleKey, Option<DesiredRule>);

/// Rules of several switches that are replaced as a whole.
pub(crate) type RuleSet = BTreeMap<(NodeIx, RuleKey), DesiredRule>;

#[derive(Debug)]
pub(crate) struct Installers {
    pub(crate) compiler: Compiler,
    pub(crate) switches: BTreeMap<NodeIx, Installer>,
    /// Switches that may need messages.
    touched: BTreeSet<NodeIx>,
}

impl Installers {
    pub(crate) fn new(owner: u16) -> Installers {
        Installers { compiler: Compiler { owner }, switches: BTreeMap::new(), touched: BTreeSet::new() }
    }
    /// Returns the installer of a switch. A new switch is assumed to be empty.
    pub(crate) fn switch(&mut self, node: NodeIx) -> &mut Installer {
        self.touched.insert(node);
        self.switches.entry(node).or_insert_with(|| Installer::new(self.compiler.owner))
    }
    /// Returns the switches touched since the last call.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<NodeIx> {
        std::mem::take(&mut self.touched)
    }
    pub(crate) fn set(&mut self, (node, key, wanted): Change) {
        self.switch(node).set(key, wanted);
    }
    /// Replaces rules of the desired state, as a whole, by others.
    pub(crate) fn replace(&mut self, rules: &mut RuleSet, wanted: RuleSet) {
        let before = std::mem::replace(rules, wanted);
        for (node, key) in before.keys().filter(|place| !rules.contains_key(place)) {
            self.set((*node, *key, None));
        }
        for ((node, key), rule) in rules.iter().filter(|(place, rule)| before.get(place) != Some(rule)) {
            self.set((*node, *key, Some(rule.clone())));
        }
    }
    pub(crate) fn ticket(&self, node: NodeIx) -> u64 {
        self.switches.get(&node).map_or(0, Installer::ticket)
    }
    pub(crate) fn unconfirmed(&self, now: Time) -> BTreeSet<NodeIx> {
        self.switches.iter().filter(|(_, switch)| switch.is_unconfirmed(now)).map(|(node, _)| *node).collect()
    }
    /// Returns when the next switch becomes unconfirmed because a barrier reply is late.
    pub(crate) fn next_late(&self, now: Time) -> Option<Time> {
        self.switches.values().filter_map(Installer::late_from).filter(|at| *at > now).min()
    }
    pub(crate) fn tickets(&self) -> BTreeMap<NodeIx, u64> {
        self.switches.iter().map(|(node, switch)| (*node, switch.ticket())).collect()
    }
    /// Returns the tickets of the switches whose desired state has changed.
    pub(crate) fn tickets_since(&self, before: &BTreeMap<NodeIx, u64>) -> Vec<(NodeIx, u64)> {
        self.tickets().into_iter().filter(|(node, ticket)| before.get(node) != Some(ticket)).collect()
    }
    pub(crate) fn is_confirmed(&self, node: NodeIx, ticket: u64) -> bool {
        self.switches.get(&node).is_none_or(|switch| switch.is_confirmed(ticket))
    }
}

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
    /// Rules of the steps so far, to detect rejections.
    written: Vec<(NodeIx, RuleKey)>,
    resume_at: Option<Time>,
}

impl Task {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Task {
        Task {
            steps: steps.into_iter().filter(|step| !step.changes.is_empty() || step.pause > Time::ZERO).collect(),
            ..Task::default()
        }
    }

    pub(crate) fn remove_changes(&mut self, is_meant: impl Fn(&RuleKey) -> bool) {
        self.steps.iter_mut().for_each(|step| step.changes.retain(|(_, key, _)| !is_meant(key)));
    }

    pub(crate) fn skip_pauses(&mut self) {
        self.resume_at = None;
        self.steps.iter_mut().for_each(|step| step.pause = Time::ZERO);
    }

    /// Returns whether waiting for the current step is pointless: a switch that must confirm it has
    /// disconnected, or, for packets on a dead path (`is_dead`), is late.
    pub(crate) fn is_hopeless(&self, is_dead: bool, now: Time, fabric: &Installers) -> bool {
        let switch = |(node, ticket): &(NodeIx, u64)| Some((fabric.switches.get(node)?, *ticket));
        let mut waiting = self.waiting.iter().filter_map(switch);
        waiting.any(|(switch, ticket)| {
            switch.is_cut_off(ticket) || (is_dead && switch.is_late(now) && !switch.is_confirmed(ticket))
        })
    }

    pub(crate) fn advance(&mut self, now: Time, fabric: &mut Installers) -> Progress {
        loop {
            self.waiting.retain(|(node, ticket)| !fabric.is_confirmed(*node, *ticket));
            let is_refused = |(node, key): &(NodeIx, RuleKey)| {
                fabric.switches.get(node).is_some_and(|switch| switch.refused.contains(key))
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

    fn apply(&mut self, step: Step, fabric: &mut Installers) {
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
