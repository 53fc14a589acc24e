//! Audits: whether connected switches still have the rules they confirmed.
//!
//! Rules may go or change behind the controller's back: an operator deletes them, another program
//! writes with the same owner, a switch restarts its tables. Nothing would tell the controller, and
//! packets would be lost unnoticed.
//!
//! - A switch with *flow monitors* (Open vSwitch) reports such changes at once.
//! - Every [`Config::audit_interval`] the controller asks each switch for the number of its rules
//!   ([aggregate statistics](MultipartRequest::Aggregate), one short reply), and compares.
//! - If the number differs, and in turn, it reads all its rules and groups and compares each. Turns
//!   are so far apart that all switches together report at most one rule per [`RULE_BUDGET`], which
//!   keeps the cost below one per cent of a processor.
//!
//! What differs counts as installed state, so the updater repairs it like any other difference. Rules
//! that the switch owns ([`Purpose::is_switch_owned`]) are left out: their parts track them. An
//! audit in which rules were sent meanwhile proves nothing, and is repeated.

use std::collections::BTreeMap;

use net::{NodeIx, Time};
use openflow::flow_monitor::{FlowChange, FlowEvent, FlowMonitorRequest, FlowUpdate};
use openflow::{
    ConnectionId, DatapathId, FlowSelection, FlowStats, GroupDescription, Message, MultipartReply, MultipartRequest,
    Xid,
};

use super::Updater;
use super::compile::{SWITCH_OWNED, is_switch_owned};
use super::store::{Installer, Rule, RuleKey, RuleSet};
use crate::channels::Channels;
use crate::{Config, Event};

/// Time per rule that full comparisons of all switches take at least.
const RULE_BUDGET: Time = Time::from_us(50);
/// Time until an audit is tried again that changes in progress prevented.
const RETRY: Time = Time::from_ms(500);
/// Audit intervals between audits of a switch whose flow monitor reports changes immediately.
const MONITORED_INTERVALS: u64 = 10;
/// Number of batches an audit interval is divided into. The switches of a batch are audited
/// together: one timer and one wake-up serve all of them.
const BATCHES: u64 = 16;
/// Time without any part of a reply until an audit is repeated.
const REPLY_MAX: Time = Time::from_s(30);
/// Number of the flow monitor of a connection.
const MONITOR: u32 = 1;

/// Audits of all connected switches.
#[derive(Debug, Default)]
pub(super) struct Audits {
    of: BTreeMap<NodeIx, Audit>,
    /// No audit is due before this time. `None`: no switch is audited.
    due: Option<Time>,
    /// Time that full comparisons of all switches take at least, and when to compute it again.
    turn: Time,
    turn_until: Time,
}

#[derive(Debug)]
struct Audit {
    next: Time,
    next_full: Time,
    step: Step,
    /// When the audit is repeated, unless a part of the reply arrives.
    waits_until: Time,
    /// Whether the switch rejects the request for aggregate statistics.
    lacks_aggregate: bool,
    /// Whether a flow monitor reports changes of rules.
    is_monitored: bool,
    /// Whether the next full comparison records each difference, because the previous one found
    /// some.
    must_record: bool,
    /// Number of audits that found differences, without two in between that found none. Two
    /// controllers that audit at the same time find each other's rules in turn.
    streak: u32,
    /// Whether the last audit found no difference.
    is_clean: bool,
}

#[derive(Debug)]
enum Step {
    Idle,
    Counting { xid: Xid, version: u64 },
    Reading { rules: Xid, groups: Option<Xid>, version: u64, found: Found },
}

/// Results so far of a full comparison.
#[derive(Debug, Default)]
struct Found {
    /// Number of rules that are as installed. Nearly always these are all, so the first comparison
    /// only counts, without memory for each rule.
    same: usize,
    is_different: bool,
    record: Option<Record>,
    groups: Vec<GroupDescription>,
    is_partial: bool,
}

/// The rules of a switch, and those of them that are not as installed.
#[derive(Debug, Default)]
struct Record {
    seen: RuleSet,
    differing: Vec<(RuleKey, Rule)>,
}

/// Numbers of rules that were found to differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Differences {
    pub(crate) removed: usize,
    pub(crate) changed: usize,
    pub(crate) added: usize,
}

impl Differences {
    fn is_none(self) -> bool {
        self == Differences::default()
    }
}

/// Returns the audit interval, rounded so that all batches are equally far apart.
fn interval(config: &Config) -> Option<Time> {
    let step = (config.audit_interval?.as_ps() / BATCHES).max(1);
    Some(Time::from_ps(step * BATCHES))
}

/// Returns the time after `now` at which the batch of a switch is audited.
fn next_turn(now: Time, interval: Time, node: NodeIx) -> Time {
    let offset = interval / BATCHES * (u64::from(node.0) % BATCHES);
    let before = now.saturating_sub(offset).as_ps() / interval.as_ps();
    let turn = offset.saturating_add(interval * before);
    if turn > now { turn } else { turn.saturating_add(interval) }
}

impl Audit {
    fn due(&self) -> Time {
        if matches!(self.step, Step::Idle) { self.next } else { self.waits_until }
    }

    /// Compares what was read with what is installed. Returns the differences, unless the audit has
    /// to be repeated.
    fn end_reading(&mut self, now: Time, switch: &mut Installer) -> Option<Differences> {
        let Step::Reading { version, found, .. } = std::mem::replace(&mut self.step, Step::Idle) else { return None };
        if version != switch.ticket() || !switch.is_settled() || found.is_partial {
            (self.next, self.next_full) = (now.saturating_add(RETRY), now);
            return None;
        }
        let mut differences = Differences::default();
        match &found.record {
            Some(record) => differences = switch.correct_rules(record),
            None if found.is_different || found.same != switch.installed.len() => {
                (self.must_record, self.next, self.next_full) = (true, now, now);
                return None;
            }
            None => {}
        }
        self.must_record = false;
        differences.changed += switch.correct_groups(&found.groups);
        let was_clean = std::mem::replace(&mut self.is_clean, differences.is_none());
        self.streak = match self.is_clean {
            false => self.streak.saturating_add(1),
            true if was_clean => 0,
            true => self.streak,
        };
        Some(differences)
    }
}

fn own_rules(owner: u16) -> FlowSelection {
    // The bit of switch-owned rules is part of the mask, and not of the value.
    let (cookie, cookie_mask) = (u64::from(owner) << 48, 0xffff << 48 | SWITCH_OWNED);
    FlowSelection { cookie, cookie_mask, ..FlowSelection::all() }
}

impl Audits {
    pub(super) fn next_due(&self) -> Option<Time> {
        self.due
    }
    pub(super) fn forget(&mut self, node: NodeIx) {
        self.of.remove(&node);
    }
    fn schedule(&mut self, at: Time) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}

impl Updater {
    /// Begins to audit a switch that is ready.
    pub(crate) fn begin_audits(
        &mut self,
        now: Time,
        config: &Config,
        channels: &mut Channels,
        (node, connection): (NodeIx, ConnectionId),
    ) {
        let Some(interval) = interval(config) else { return };
        let next = next_turn(now, interval, node);
        let audit = Audit {
            next,
            next_full: next,
            step: Step::Idle,
            waits_until: Time::ZERO,
            lacks_aggregate: false,
            is_monitored: false,
            must_record: false,
            streak: 0,
            is_clean: true,
        };
        self.audits.of.insert(node, audit);
        self.audits.schedule(next);
        // Other switches would answer with an error, and the error is all they would do with it.
        if self.switches.get(&node).is_some_and(|switch| switch.takes_tcp_flags) {
            let monitors = vec![FlowMonitorRequest::all(MONITOR)];
            channels.send(connection, Message::MultipartRequest(MultipartRequest::FlowMonitor(monitors)));
        }
    }

    /// Sends the requests of audits that are due.
    pub(crate) fn run_audits(
        &mut self,
        now: Time,
        config: &Config,
        channels: &mut Channels,
        datapath_of: impl Fn(NodeIx) -> Option<DatapathId>,
    ) {
        let Some(interval) = interval(config).filter(|_| self.audits.due.is_some_and(|due| due <= now)) else { return };
        let due: Vec<NodeIx> =
            self.audits.of.iter().filter(|(_, audit)| audit.due() <= now).map(|(node, _)| *node).collect();
        if self.audits.turn_until <= now {
            let rules: u64 = self.switches.values().map(|switch| switch.installed.len() as u64).sum();
            self.audits.turn = interval.max(RULE_BUDGET * rules);
            self.audits.turn_until = now.saturating_add(interval);
        }
        let turn = self.audits.turn;
        for node in due {
            let connection = datapath_of(node).and_then(|datapath| channels.connection_of(datapath));
            let (Some(connection), Some(switch), Some(audit)) =
                (connection, self.switches.get(&node), self.audits.of.get_mut(&node))
            else {
                continue;
            };
            if let Step::Reading { .. } = std::mem::replace(&mut audit.step, Step::Idle) {
                audit.next_full = now; // It had no answer.
            }
            if !switch.is_settled() {
                audit.next = now.saturating_add(RETRY.min(interval));
                continue;
            }
            // A flow monitor does not report changes of groups.
            let is_urgent = !audit.is_monitored || switch.has_groups_installed();
            let skipped = if is_urgent { 0 } else { MONITORED_INTERVALS - 1 };
            let turned =
                std::mem::replace(&mut audit.next, next_turn(now.saturating_add(interval * skipped), interval, node));
            let version = switch.ticket();
            audit.waits_until = now.saturating_add(REPLY_MAX);
            if audit.next_full <= now || audit.lacks_aggregate {
                audit.next_full = turned.saturating_add(turn);
                let found = Found { record: audit.must_record.then(Record::default), ..Found::default() };
                audit.step = read_all(channels, connection, self.compiler.owner, version, switch, found);
            } else if let Some(xid) =
                request(channels, connection, MultipartRequest::Aggregate(own_rules(self.compiler.owner)))
            {
                audit.step = Step::Counting { xid, version };
            }
        }
        self.audits.due = self.audits.of.values().map(Audit::due).min();
    }

    /// Handles a reply that may belong to an audit, or a report of a flow monitor. Returns whether
    /// it does.
    pub(crate) fn audit_reply(
        &mut self,
        now: Time,
        channels: &mut Channels,
        (node, datapath, xid): (NodeIx, DatapathId, Xid),
        reply: &MultipartReply,
        has_more: bool,
    ) -> bool {
        if let MultipartReply::FlowMonitor(updates) = reply {
            if let Some(audit) = self.audits.of.get_mut(&node) {
                audit.is_monitored = true;
            }
            self.monitored(channels, node, datapath, updates);
            return true;
        }
        let owner = self.compiler.owner;
        let (Some(audit), Some(switch)) = (self.audits.of.get_mut(&node), self.switches.get_mut(&node)) else {
            return false;
        };
        match &mut audit.step {
            Step::Counting { xid: sent, version } if *sent == xid => {
                let is_same = *version == switch.ticket() && switch.is_settled();
                let is_other = |flows: u32| flows as usize != switch.installed.len();
                let must_read = matches!(reply, MultipartReply::Aggregate { flows, .. } if is_same && is_other(*flows));
                audit.step = Step::Idle;
                if must_read {
                    (audit.must_record, audit.next, audit.next_full) = (true, now, now);
                }
                let next = audit.next;
                self.audits.schedule(next);
                true
            }
            Step::Reading { rules, groups, found, .. } if *rules == xid || *groups == Some(xid) => {
                found.read(owner, switch, reply);
                audit.waits_until = now.saturating_add(REPLY_MAX);
                // Groups are read after the rules, if at all.
                let is_last = *rules != xid || groups.is_none();
                if is_last && !has_more {
                    self.end_reading(now, channels, node, datapath);
                }
                true
            }
            _ => false,
        }
    }

    /// Handles an error. Returns whether it is the reply to a request of an audit.
    pub(crate) fn audit_refused(&mut self, node: NodeIx, xid: Xid) -> bool {
        let Some(audit) = self.audits.of.get_mut(&node) else { return false };
        let is_own = match &audit.step {
            Step::Idle => false,
            Step::Counting { xid: sent, .. } => *sent == xid,
            Step::Reading { rules, groups, .. } => *rules == xid || *groups == Some(xid),
        };
        if is_own {
            audit.lacks_aggregate = true;
            audit.step = Step::Idle;
            let next = audit.next;
            self.audits.schedule(next);
        }
        is_own
    }

    fn end_reading(&mut self, now: Time, channels: &mut Channels, node: NodeIx, datapath: DatapathId) {
        let Some(audit) = self.audits.of.get_mut(&node) else { return };
        let result = self.switches.get_mut(&node).and_then(|switch| audit.end_reading(now, switch));
        let (next, streak) = (audit.next, audit.streak);
        self.audits.schedule(next);
        if let Some(differences) = result {
            self.report(channels, node, datapath, differences, streak);
        }
    }

    fn report(
        &mut self,
        channels: &mut Channels,
        node: NodeIx,
        datapath: DatapathId,
        Differences { removed, changed, added }: Differences,
        audits: u32,
    ) {
        if removed + changed + added > 0 {
            self.touched.insert(node);
            channels.tally.rules_restored += (removed + changed + added) as u64;
            channels.event(Event::RulesRestored { datapath, removed, changed, added, audits });
        }
    }

    /// Handles changes by others that the flow monitor of a switch reports.
    fn monitored(&mut self, channels: &mut Channels, node: NodeIx, datapath: DatapathId, updates: &[FlowUpdate]) {
        let owner = self.compiler.owner;
        let Some(switch) = self.switches.get_mut(&node).filter(|switch| !switch.is_silenced()) else { return };
        let mut differences = Differences::default();
        for update in updates {
            let FlowUpdate::Full(change) = update else { continue };
            if change.cookie >> 48 == u64::from(owner) && !is_switch_owned(change.cookie) {
                switch.changed_by_other(change, &mut differences);
            }
        }
        self.report(channels, node, datapath, differences, 0);
    }
}

fn request(channels: &mut Channels, connection: ConnectionId, request: MultipartRequest) -> Option<Xid> {
    channels.tally.polls += 1;
    channels.send(connection, Message::MultipartRequest(request))
}

/// Requests all own rules, and the groups if the switch has any.
fn read_all(
    channels: &mut Channels,
    connection: ConnectionId,
    owner: u16,
    version: u64,
    switch: &Installer,
    found: Found,
) -> Step {
    let rules = request(channels, connection, MultipartRequest::Flow(own_rules(owner)));
    let groups =
        if switch.has_groups_installed() { request(channels, connection, MultipartRequest::GroupDesc) } else { None };
    match rules {
        Some(rules) => Step::Reading { rules, groups, version, found },
        None => Step::Idle,
    }
}

impl Found {
    fn read(&mut self, owner: u16, switch: &Installer, reply: &MultipartReply) {
        match reply {
            MultipartReply::Flow(rules) => {
                for rule in rules.iter().filter(|rule| rule.cookie >> 48 == u64::from(owner)) {
                    self.read_rule(switch, rule);
                }
            }
            MultipartReply::GroupDesc(groups) => {
                self.groups.extend(groups.iter().filter(|group| group.group.0 >> 16 == u32::from(owner)).cloned());
            }
            MultipartReply::Partial { known, .. } => self.read(owner, switch, known),
            _ => self.is_partial = true,
        }
    }

    fn read_rule(&mut self, switch: &Installer, stats: &FlowStats) {
        let key = RuleKey::from(stats);
        let is_same = switch.installed.get(&key).is_some_and(|installed| installed.is_same(stats));
        self.same += usize::from(is_same);
        self.is_different |= !is_same;
        if let Some(record) = &mut self.record {
            if !is_same {
                record.differing.push((key, Rule::from(stats)));
            }
            record.seen.add(key);
        }
    }
}

impl Installer {
    fn has_groups_installed(&self) -> bool {
        !self.groups_installed.is_empty()
    }

    /// Corrects the installed state by what the switch really has, so that the difference is
    /// repaired.
    fn correct_rules(&mut self, Record { seen, differing }: &Record) -> Differences {
        let mut differences = Differences::default();
        let gone: Vec<RuleKey> = self.installed.keys().filter(|key| !seen.contains(key)).collect();
        for key in gone {
            differences.removed += 1;
            self.correct_rule(key, None);
        }
        for (key, rule) in differing {
            match self.installed.contains_key(key) {
                true => differences.changed += 1,
                false => differences.added += 1,
            }
            self.correct_rule(*key, Some(rule.clone()));
        }
        differences
    }

    /// Handles a change that another program made.
    fn changed_by_other(&mut self, change: &FlowChange, differences: &mut Differences) {
        let key = RuleKey::new(change.table, change.priority, change.match_);
        match change.event {
            FlowEvent::Deleted(_) if self.installed.contains_key(&key) => {
                differences.removed += 1;
                self.correct_rule(key, None);
            }
            FlowEvent::Deleted(_) => {}
            FlowEvent::Added | FlowEvent::Modified => {
                let rule = Rule::from(change);
                match self.installed.get(&key) {
                    Some(installed) if **installed == rule => return,
                    Some(_) => differences.changed += 1,
                    None => differences.added += 1,
                }
                self.correct_rule(key, Some(rule));
            }
        }
    }
}
