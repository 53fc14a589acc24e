//! The desired state of one switch, its installed state, and the difference.
//!
//! Desired rules are set one by one ([`Installer::set`]). The installer records which changed, so
//! that a migration does not walk the table. A sent message counts as installed immediately; an error
//! names the transaction number and thereby the rule, and reverts it. [`crate::updater::order`] turns
//! the difference into messages.

mod groups;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use core::net::Ipv4Addr;
use net::Time;

use openflow::{
    Action, Bucket, FlowMod, FlowModFlags, FlowRemoved, FlowStats, GroupDescription, GroupId, Instructions, Match,
    PortNo, TableId, Xid,
};

use self::groups::groups_of;
use crate::updater::CONFIRM_TIMEOUT;
use crate::updater::compile::{CLASSIFY, destination};
use crate::updater::ecmp_hashing::{GroupForm, HashingMethod};

/// Identity of a rule on a switch. Ordered as switches list rules: by table, priority (highest
/// first), match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RuleKey {
    pub(crate) table: TableId,
    pub(crate) priority: Reverse<u16>,
    pub(crate) match_: Match,
}

impl RuleKey {
    pub(crate) fn new(table: TableId, priority: u16, match_: Match) -> RuleKey {
        RuleKey { table, priority: Reverse(priority), match_ }
    }
}

impl From<&FlowStats> for RuleKey {
    fn from(rule: &FlowStats) -> RuleKey {
        RuleKey::new(rule.table, rule.priority, rule.match_)
    }
}

impl From<&FlowRemoved> for RuleKey {
    fn from(rule: &FlowRemoved) -> RuleKey {
        RuleKey::new(rule.table, rule.priority, rule.match_)
    }
}

/// A desired rule; its group, if any, by content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DesiredRule {
    pub(crate) cookie: u64,
    pub(crate) idle_timeout_s: u16,
    pub(crate) instructions: Instructions,
    /// Buckets of the select group that follows the apply actions.
    pub(crate) group: Option<Arc<[Bucket]>>,
}

/// Returns the flag that makes a switch report the removal of a rule.
fn send_flow_removed() -> FlowModFlags {
    FlowModFlags { send_flow_removed: true, ..FlowModFlags::default() }
}

impl DesiredRule {
    /// Returns the message that installs the rule as a switch-owned one: the switch reports its
    /// removal.
    pub(crate) fn into_switch_owned(self, key: RuleKey) -> FlowMod {
        let (cookie, idle_timeout_s, flags) = (self.cookie, self.idle_timeout_s, send_flow_removed());
        let add = FlowMod::add(key.table, key.priority.0, key.match_, self.instructions);
        FlowMod { cookie, idle_timeout_s, flags, ..add }
    }

    /// Returns whether a rule on a switch is exactly this one, switch-owned.
    pub(crate) fn is_switch_owned(&self, key: &RuleKey, rule: &FlowStats) -> bool {
        RuleKey::from(rule) == *key
            && (rule.cookie, rule.idle_timeout_s) == (self.cookie, self.idle_timeout_s)
            && (rule.hard_timeout_s, rule.flags, &rule.instructions) == (0, send_flow_removed(), &self.instructions)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) cookie: u64,
    pub(crate) idle_timeout_s: u16,
    pub(crate) flags: FlowModFlags,
    pub(crate) instructions: Instructions,
    group: Option<GroupId>,
}

impl Rule {
    /// Returns whether its group is not confirmed yet. The number may turn out to be taken, and a
    /// foreign group would then forward the packets.
    pub(crate) fn is_waiting_for_group(&self, switch: &Installer) -> bool {
        self.group.is_some_and(|group| switch.dirty_groups.contains(&group) || switch.new_groups.contains(&group))
    }
}

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all values are of the large variant; a box would add an allocation to each"
)]
pub(crate) enum Sent {
    Rule(RuleKey, Option<Rule>),
    Group(GroupId, Option<Arc<[Bucket]>>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) key: Option<RuleKey>,
    pub(crate) group: Option<GroupId>,
    pub(crate) message: String,
}

/// Desired and installed state of one switch.
#[derive(Debug, Default)]
pub(crate) struct Installer {
    owner: u16,
    pub(crate) is_online: bool,
    /// Whether the switch is in recovery hold: nothing is sent, because the controller cannot judge
    /// its rules yet.
    pub(crate) is_held: bool,
    pub(crate) desired: BTreeMap<RuleKey, Rule>,
    pub(crate) installed: BTreeMap<RuleKey, Rule>,
    pub(crate) dirty: BTreeSet<RuleKey>,
    /// Rejected desired rules; retried after a deletion.
    pub(crate) refused: BTreeSet<RuleKey>,
    /// Matches and priorities that foreign rules occupy. The foreign rules stay and the desired
    /// ones are not installed.
    pub(crate) foreign: BTreeSet<RuleKey>,
    pub(crate) groups: BTreeMap<GroupId, Arc<[Bucket]>>,
    by_buckets: BTreeMap<Arc<[Bucket]>, GroupId>,
    uses: BTreeMap<GroupId, u32>,
    pub(crate) groups_installed: BTreeMap<GroupId, Arc<[Bucket]>>,
    uses_installed: BTreeMap<GroupId, u32>,
    pub(crate) dirty_groups: BTreeSet<GroupId>,
    /// Groups sent that did not exist before and are not confirmed.
    pub(crate) new_groups: BTreeSet<GroupId>,
    pub(crate) refused_groups: BTreeSet<GroupId>,
    foreign_groups: BTreeSet<GroupId>,
    pub(crate) sent: BTreeMap<Xid, Sent>,
    /// Unanswered barriers, with the version they confirm and the time they were sent.
    pub(crate) barriers: VecDeque<(Xid, u64, Time)>,
    /// Number of the latest change of the desired state.
    version: u64,
    confirmed: u64,
    /// Version whose confirmation ends reconciliation.
    reconciled_at: u64,
    /// Rules that may be installed instead of those sent on a lost connection; `None`: perhaps no
    /// rule.
    uncertain: Vec<(RuleKey, Option<Rule>)>,
    /// Whether the table read-back lacked desired rules and nothing has been confirmed since.
    was_empty: bool,
    /// How the switch distributes flows over next hops.
    pub(crate) hashing_method: HashingMethod,
    /// Whether the switch can match TCP control bits.
    pub(crate) takes_tcp_flags: bool,
    /// Desired buckets of rules with a group, in case the hashing method changes.
    divided: BTreeMap<RuleKey, Arc<[Bucket]>>,
}

impl Installer {
    pub(crate) fn new(owner: u16) -> Installer {
        Installer { owner, ..Installer::default() }
    }

    /// Adds a rule to the desired state, or removes it (`None`).
    pub(crate) fn set(&mut self, key: RuleKey, wanted: Option<DesiredRule>) {
        match wanted.as_ref().and_then(|wanted| wanted.group.clone()) {
            Some(buckets) => self.divided.insert(key, buckets),
            None => self.divided.remove(&key),
        };
        let rule = wanted.map(|wanted| self.resolve(wanted));
        let before = match &rule {
            Some(rule) => self.desired.insert(key, rule.clone()),
            None => self.desired.remove(&key),
        };
        // Release after resolving: a group used by both stays.
        if let Some(group) = before.as_ref().and_then(|before| before.group) {
            self.release(group);
        }
        if before != rule {
            self.version += 1;
            self.refused.remove(&key);
            self.mark(key);
        }
    }

    pub(crate) fn set_hashing_method(&mut self, method: HashingMethod) {
        if std::mem::replace(&mut self.hashing_method, method) == method {
            return;
        }
        for (key, buckets) in self.divided.clone() {
            let rule = self.desired.get(&key).expect("a rule with buckets is desired");
            let mut instructions = rule.instructions.clone();
            instructions.apply.retain(|action| !matches!(action, Action::Group(_) | Action::Bundle(_)));
            let (cookie, idle_timeout_s) = (rule.cookie, rule.idle_timeout_s);
            self.set(key, Some(DesiredRule { cookie, idle_timeout_s, instructions, group: Some(buckets) }));
        }
    }

    /// Returns the number whose confirmation covers the whole desired state.
    pub(crate) fn ticket(&self) -> u64 {
        self.version
    }
    /// Returns whether the desired state of a ticket is confirmed, or cannot be for now. In that
    /// case the table read-back after a reconnect or the end of the recovery hold settles it, and
    /// the switch counts as unconfirmed until then.
    pub(crate) fn is_confirmed(&self, ticket: u64) -> bool {
        !self.is_online || self.is_held || self.confirmed >= ticket || self.is_up_to_date()
    }
    /// Returns whether the whole desired state is installed and confirmed.
    fn is_up_to_date(&self) -> bool {
        self.is_idle() && self.dirty.is_empty() && self.dirty_groups.is_empty()
    }
    /// Returns whether the desired state of a ticket is unconfirmed, and stays so until the next
    /// table read-back.
    pub(crate) fn is_cut_off(&self, ticket: u64) -> bool {
        (!self.is_online || self.is_held) && self.confirmed < ticket
    }
    /// Returns whether nothing is left to send or to confirm.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_online || (!self.is_held && self.is_up_to_date())
    }
    pub(crate) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.barriers.is_empty()
    }
    pub(crate) fn is_blocked(&self, rule: &Rule) -> bool {
        rule.group.is_some_and(|group| self.refused_groups.contains(&group))
    }

    /// Returns the desired rules, as the switch would list them. For a rejected rule the one it
    /// should replace is listed, if there is one.
    pub(crate) fn entries(&self) -> Vec<FlowStats> {
        let standing = |(key, rule)| match self.refused.contains(key) {
            true => self.installed.get(key).map(|rule| (key, rule)),
            false => Some((key, rule)),
        };
        let wanted = self.desired.iter().filter_map(standing);
        let entry = |(key, rule): (&RuleKey, &Rule)| FlowStats {
            table: key.table,
            priority: key.priority.0,
            idle_timeout_s: rule.idle_timeout_s,
            flags: rule.flags,
            cookie: rule.cookie,
            match_: key.match_,
            instructions: rule.instructions.clone(),
            ..FlowStats::default()
        };
        wanted.map(entry).collect()
    }

    /// Handles the loss of the connection: unconfirmed changes may or may not be in effect.
    pub(crate) fn offline(&mut self) {
        if self.is_up_to_date() {
            self.confirmed = self.version;
        }
        self.is_online = false;
        let doubtful = std::mem::take(&mut self.sent).into_values().filter_map(|sent| match sent {
            Sent::Rule(key, before) => Some((key, before)),
            Sent::Group(..) => None,
        });
        self.uncertain.extend(doubtful);
        self.new_groups.clear();
        self.barriers.clear();
    }

    /// Compares the desired state with the table read-back after a reconnect. Correct rules are
    /// left alone. Returns whether the switch has own rules that are not desired. If foreign rules
    /// are missing from the read-back (`is_partial`), groups that no own rule uses count as
    /// foreign.
    pub(crate) fn reconcile(&mut self, rules: &[FlowStats], groups: &[GroupDescription], is_partial: bool) -> bool {
        // A switch may reconnect before its old connection times out: messages sent there get no
        // reply.
        self.offline();
        self.is_online = true;
        self.uncertain.clear();
        self.installed.clear();
        self.groups_installed.clear();
        self.uses_installed.clear();
        self.foreign.clear();
        self.foreign_groups.clear();
        self.refused.clear();
        self.refused_groups.clear();
        // Release the numbers of groups of a previous controller instance that are not desired.
        let Installer { by_buckets, groups: wanted, .. } = self;
        by_buckets.retain(|_, group| wanted.contains_key(group));
        // Groups have no cookies: those used by foreign rules are foreign, regardless of their number.
        let is_foreign = |rule: &&FlowStats| rule.cookie >> 48 != u64::from(self.owner);
        self.foreign_groups = rules.iter().filter(is_foreign).flat_map(groups_of).collect();
        if is_partial {
            let used: BTreeSet<GroupId> = rules.iter().flat_map(groups_of).collect();
            self.foreign_groups.extend(groups.iter().map(|group| group.group).filter(|group| !used.contains(group)));
        }
        for group in groups {
            self.read_back_group(group);
        }
        for group in self.foreign_groups.clone() {
            self.renumber(group);
        }
        for stats in rules {
            let key = RuleKey::from(stats);
            if stats.cookie >> 48 != u64::from(self.owner) {
                self.foreign.insert(key);
                continue;
            }
            let group = groups_of(stats).next();
            let rule = Rule {
                cookie: stats.cookie,
                idle_timeout_s: stats.idle_timeout_s,
                flags: stats.flags,
                instructions: stats.instructions.clone(),
                group,
            };
            self.put_installed(key, Some(rule));
        }
        self.dirty = self.desired.keys().chain(self.installed.keys()).copied().collect();
        self.dirty.retain(|key| self.desired.get(key) != self.installed.get(key));
        self.dirty_groups = self.groups.keys().chain(self.groups_installed.keys()).copied().collect();
        self.dirty_groups.retain(|group| self.groups.get(group) != self.groups_installed.get(group));
        self.version += 1;
        self.was_empty = self.desired.keys().any(|key| key.table == CLASSIFY && !self.installed.contains_key(key));
        let has_leftovers = self.installed.keys().any(|key| self.dirty.contains(key));
        if has_leftovers {
            self.reconciled_at = self.version;
        }
        has_leftovers
    }

    /// Returns whether rules other than the desired ones may be in effect for longer than a change
    /// takes.
    pub(crate) fn is_unconfirmed(&self, now: Time) -> bool {
        let is_reconciling = || self.reconciled_at > 0 && !self.is_confirmed(self.reconciled_at);
        match self.is_online {
            true => self.is_held || is_reconciling() || self.is_late(now),
            false => !self.installed.is_empty(),
        }
    }
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.late_from().is_some_and(|late| late <= now)
    }
    /// Returns when a switch with a late barrier reply becomes unconfirmed.
    pub(crate) fn late_from(&self) -> Option<Time> {
        self.barriers.front().map(|(.., sent)| sent.saturating_add(CONFIRM_TIMEOUT))
    }
    pub(crate) fn may_lack(&self, key: &RuleKey) -> bool {
        let is_new = |sent: &Sent| matches!(sent, Sent::Rule(other, None) if other == key);
        !self.installed.contains_key(key)
            || self.sent.values().any(is_new)
            || self.uncertain.iter().any(|(other, before)| other == key && before.is_none())
    }
    /// Returns the ports by which packets to addresses may leave now, by any rule.
    pub(crate) fn egress_ports(&self) -> impl Iterator<Item = (Ipv4Addr, PortNo)> {
        let before = self.sent.values().filter_map(|sent| match sent {
            Sent::Rule(key, before) => before.as_ref().map(|before| (key, before)),
            Sent::Group(..) => None,
        });
        let doubtful = self.uncertain.iter().filter_map(|(key, before)| Some((key, before.as_ref()?)));
        let rules = self.installed.iter().chain(before).chain(doubtful);
        let to = rules.filter_map(|(key, rule)| Some((destination(key)?, rule)));
        to.flat_map(|(address, rule)| self.ports_of_rule(rule).into_iter().map(move |port| (address, port)))
    }
    fn ports_of_rule(&self, rule: &Rule) -> Vec<PortNo> {
        let output = |action: &Action| match action {
            Action::Output { port, .. } => vec![*port],
            Action::Bundle(bundle) => bundle.ports().collect(),
            _ => Vec::new(),
        };
        let buckets = rule.group.and_then(|group| self.groups_installed.get(&group));
        let behind = buckets.into_iter().flat_map(|buckets| buckets.iter()).flat_map(|bucket| &bucket.actions);
        rule.instructions.apply.iter().chain(behind).flat_map(output).collect()
    }

    pub(crate) fn removed(&mut self, removed: &FlowRemoved) {
        let key = RuleKey::from(removed);
        if removed.cookie >> 48 == u64::from(self.owner) && self.installed.contains_key(&key) {
            self.put_installed(key, None);
            self.mark(key);
        }
    }

    /// Records a barrier after everything sent so far; `is_last` marks the last one of its batch.
    pub(crate) fn barrier_sent(&mut self, now: Time, xid: Xid, is_last: bool) {
        let is_all =
            is_last && self.dirty.is_empty() && self.dirty_groups.iter().all(|group| !self.groups.contains_key(group));
        let confirms = if is_all { self.version } else { 0 };
        self.barriers.push_back((xid, confirms, now));
    }

    /// Handles a barrier reply: everything before it is done or was rejected. Returns whether it is
    /// the first one since a table read-back that lacked desired rules.
    pub(crate) fn barrier(&mut self, xid: Xid) -> bool {
        let Some(position) = self.barriers.iter().position(|(barrier, ..)| *barrier == xid) else {
            return false; // From before the reconnect, or never sent.
        };
        let mut has_deleted = false;
        for (barrier, confirms, _) in self.barriers.drain(..=position) {
            self.confirmed = self.confirmed.max(confirms);
            let later = self.sent.split_off(&barrier);
            for sent in self.sent.values() {
                if let Sent::Group(group, None) = sent {
                    self.new_groups.remove(group);
                }
            }
            has_deleted |= self.sent.values().any(|sent| match sent {
                Sent::Rule(key, before) => before.is_some() && !self.installed.contains_key(key),
                Sent::Group(group, before) => before.is_some() && !self.groups_installed.contains_key(group),
            });
            self.sent = later;
        }
        if has_deleted {
            self.retry();
        }
        std::mem::take(&mut self.was_empty)
    }

    /// Retries rejected rules and groups after a deletion.
    fn retry(&mut self) {
        if self.refused.is_empty() && self.refused_groups.is_empty() {
            return;
        }
        self.version += 1;
        for group in std::mem::take(&mut self.refused_groups) {
            self.mark_group(group);
        }
        for key in std::mem::take(&mut self.refused) {
            self.mark(key);
        }
    }

    pub(crate) fn refused(&mut self, xid: Xid) -> Option<Refusal> {
        match self.sent.remove(&xid)? {
            Sent::Rule(key, before) => {
                let later = self.sent.values_mut().find_map(|sent| match sent {
                    Sent::Rule(other, was) if *other == key => Some(was),
                    _ => None,
                });
                match later {
                    Some(was) => *was = before,
                    None => {
                        self.put_installed(key, before);
                        self.dirty.remove(&key);
                        if self.desired.contains_key(&key) && self.desired.get(&key) != self.installed.get(&key) {
                            self.refused.insert(key);
                        }
                    }
                }
                Some(Refusal {
                    key: Some(key),
                    group: None,
                    message: format!(
                        "a rule of table {} with priority {} is not installed; it is tried again when rules are deleted",
                        key.table.0, key.priority.0
                    ),
                })
            }
            Sent::Group(group, before) => {
                self.new_groups.remove(&group);
                match before {
                    Some(before) => drop(self.groups_installed.insert(group, before)),
                    None => drop(self.groups_installed.remove(&group)),
                }
                self.dirty_groups.remove(&group);
                self.refused_groups.insert(group);
                self.block_users(group);
                let message = format!("group {:#x} is not installed, nor are rules that use it", group.0);
                Some(Refusal { key: None, group: Some(group), message })
            }
        }
    }

    pub(crate) fn put_installed(&mut self, key: RuleKey, rule: Option<Rule>) {
        if let Some(group) = rule.as_ref().and_then(|rule| rule.group) {
            *self.uses_installed.entry(group).or_insert(0) += 1;
        }
        let before = match rule {
            Some(rule) => self.installed.insert(key, rule),
            None => self.installed.remove(&key),
        };
        if let Some(group) = before.and_then(|before| before.group) {
            let uses = self.uses_installed.get_mut(&group).expect("an installed rule's group is counted");
            *uses -= 1;
            if *uses == 0 {
                self.uses_installed.remove(&group);
            }
        }
    }

    fn mark(&mut self, key: RuleKey) {
        if self.desired.get(&key) == self.installed.get(&key) {
            self.dirty.remove(&key);
        } else {
            self.dirty.insert(key);
        }
    }

    fn resolve(&mut self, wanted: DesiredRule) -> Rule {
        let DesiredRule { cookie, idle_timeout_s, mut instructions, group } = wanted;
        let flags = FlowModFlags { send_flow_removed: idle_timeout_s > 0, ..FlowModFlags::default() };
        let group = match group.map(|buckets| self.hashing_method.realise(&buckets)) {
            Some(GroupForm::Group(buckets)) => Some(self.acquire(buckets)),
            Some(GroupForm::Action(action)) => {
                instructions.apply.push(action);
                None
            }
            None => None,
        };
        instructions.apply.extend(group.map(Action::Group));
        Rule { cookie, idle_timeout_s, flags, instructions, group }
    }
}
