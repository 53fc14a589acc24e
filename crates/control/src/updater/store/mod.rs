//! The desired state of one switch, its installed state, and the difference.
//!
//! Desired rules are set one by one ([`Installer::set`]). The installer records which changed, so
//! that a migration does not walk the table. A sent message counts as installed immediately; an error
//! names the transaction number and thereby the rule, and reverts it. [`crate::updater::order`] turns
//! the difference into messages.

mod bundles;
mod groups;
mod rules;
mod table;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use core::net::Ipv4Addr;
use net::{RecentValues, Time};

use openflow::{
    Action, Bucket, DatapathId, ErrorKind, FlowModFailed, FlowModFlags, FlowRemoved, FlowStats, GroupDescription,
    GroupId, GroupModFailed, PortNo, Xid,
};

use self::groups::groups_of;
pub(crate) use self::rules::{DesiredRule, Rule, RuleKey};
pub(crate) use self::table::{RuleSet, RuleTable};
use crate::updater::CONFIRM_TIMEOUT;
use crate::updater::block::Block;
use crate::updater::compile::{CLASSIFY, destination, destinations, last_hop_key};
use crate::updater::ecmp_hashing::{GroupForm, HashingMethod};

impl Rule {
    /// Returns whether its group is not confirmed yet. The number may turn out to be taken, and a
    /// foreign group would then forward the packets.
    pub(crate) fn is_waiting_for_group(&self, switch: &Installer) -> bool {
        self.group.is_some_and(|group| switch.dirty_groups.contains(&group) || switch.new_groups.contains(&group))
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Sent {
    Rule(RuleKey, Option<Arc<Rule>>),
    Group(GroupId, Option<Arc<[Bucket]>>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) key: Option<RuleKey>,
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
    /// Whether the switch has another master: nothing is sent, because it would refuse it.
    pub(crate) is_slave: bool,
    /// Equal rules are one value, which desired and installed state share.
    pub(crate) desired: RuleTable<Arc<Rule>>,
    pub(crate) installed: RuleTable<Arc<Rule>>,
    pub(crate) dirty: RuleSet,
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
    /// Rules that use a single next hop because the switch rejected their group; retried after a
    /// deletion.
    single: BTreeSet<RuleKey>,
    /// Desired rules whose place a more important rule needs; they come back after the deletion.
    pub(crate) evicted: BTreeSet<RuleKey>,
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
    uncertain: Vec<(RuleKey, Option<Arc<Rule>>)>,
    /// Whether the table read-back lacked desired rules and nothing has been confirmed since.
    was_empty: bool,
    /// How the switch distributes flows over next hops.
    pub(crate) hashing_method: HashingMethod,
    /// Whether the switch can match TCP control bits.
    pub(crate) takes_tcp_flags: bool,
    /// Desired rules with buckets, in case their form changes.
    divided: RuleTable<Arc<DesiredRule>>,
    /// Rules made last: the next ones are usually equal to one of them.
    recent: RecentValues<Rule>,
    recent_divided: Option<Arc<DesiredRule>>,
    /// Identity of the switch for draws of single next hops.
    pub(crate) datapath: Option<DatapathId>,
}

impl Installer {
    pub(crate) fn new(owner: u16) -> Installer {
        Installer { owner, ..Installer::default() }
    }

    /// Adds a rule to the desired state, or removes it (`None`).
    pub(crate) fn set(&mut self, key: RuleKey, wanted: Option<DesiredRule>) {
        let wanted = wanted.map(|wanted| self.stay_divided(&key, wanted));
        match wanted.as_ref().filter(|wanted| wanted.group.is_some()) {
            Some(wanted) => {
                let wanted = self.share_divided(wanted);
                self.divided.insert(key, wanted);
            }
            None => {
                self.divided.remove(&key);
                self.single.remove(&key);
            }
        }
        let rule = wanted.map(|wanted| {
            let rule = self.resolve(&key, wanted);
            self.recent.share(rule)
        });
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
            self.reconsider(key);
        }
    }

    /// Returns a desired rule with buckets.
    pub(crate) fn divided(&self, key: &RuleKey) -> Option<DesiredRule> {
        self.divided.get(key).map(|wanted| DesiredRule::clone(wanted))
    }

    fn share_divided(&mut self, wanted: &DesiredRule) -> Arc<DesiredRule> {
        let known = self.recent_divided.take().filter(|known| **known == *wanted);
        let wanted = known.unwrap_or_else(|| Arc::new(wanted.clone()));
        self.recent_divided = Some(wanted.clone());
        wanted
    }

    pub(crate) fn set_hashing_method(&mut self, method: HashingMethod) {
        if std::mem::replace(&mut self.hashing_method, method) == method {
            return;
        }
        let divided: Vec<_> = self.divided.iter().map(|(key, wanted)| (key, wanted.clone())).collect();
        for (key, wanted) in divided {
            self.set(key, Some(DesiredRule::clone(&wanted)));
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
        !self.is_online || self.is_silenced() || self.confirmed >= ticket || self.is_up_to_date()
    }
    /// Returns whether the whole desired state is installed and confirmed.
    fn is_up_to_date(&self) -> bool {
        self.is_idle() && self.dirty.is_empty() && self.dirty_groups.is_empty()
    }
    /// Records that the whole desired state is confirmed, if it is. No barrier tells this if the rules
    /// of a former instance turn out to be the desired ones: nothing is sent then.
    pub(crate) fn confirm_unsent(&mut self) {
        if self.is_online && !self.is_silenced() && self.is_up_to_date() {
            self.confirmed = self.version;
        }
    }
    /// Returns whether the desired state of a ticket is unconfirmed, and stays so until the next
    /// table read-back.
    pub(crate) fn is_cut_off(&self, ticket: u64) -> bool {
        (!self.is_online || self.is_silenced()) && self.confirmed < ticket
    }
    /// Returns whether nothing may be sent although the switch is connected.
    pub(crate) fn is_silenced(&self) -> bool {
        self.is_held || self.is_slave
    }
    /// Returns whether nothing is left to send or to confirm.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_online || (!self.is_silenced() && self.is_up_to_date())
    }
    pub(crate) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.barriers.is_empty()
    }
    /// Returns the number of rules that use a single next hop because their group was rejected.
    pub(crate) fn single_count(&self) -> usize {
        self.single.len()
    }

    /// Returns the desired rules, as the switch would list them. For a rejected rule the one it
    /// should replace is listed, if there is one.
    pub(crate) fn entries(&self) -> Vec<FlowStats> {
        let standing = |(key, rule)| match self.refused.contains(&key) {
            true => self.installed.get(&key).map(|rule| (key, rule)),
            false => Some((key, rule)),
        };
        let wanted = self.desired.iter().filter_map(standing);
        let entry = |(key, rule): (RuleKey, &Arc<Rule>)| FlowStats {
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
        (self.is_online, self.is_slave) = (true, false);
        self.uncertain.clear();
        self.installed.clear();
        self.groups_installed.clear();
        self.uses_installed.clear();
        self.foreign.clear();
        self.foreign_groups.clear();
        self.refused.clear();
        self.evicted.clear();
        self.retry_groups();
        // Release the numbers of groups of a previous controller instance that are not desired.
        let Installer { by_buckets, groups: wanted, .. } = self;
        by_buckets.retain(|_, group| wanted.contains_key(group));
        // Groups have no cookies: those used by foreign rules are foreign, regardless of their number.
        let is_foreign = |rule: &&FlowStats| rule.cookie >> 48 != u64::from(self.owner);
        self.foreign_groups = rules.iter().filter(is_foreign).flat_map(|rule| groups_of(&rule.instructions)).collect();
        if is_partial {
            let used: BTreeSet<GroupId> = rules.iter().flat_map(|rule| groups_of(&rule.instructions)).collect();
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
            let rule = Rule::from(stats);
            // Usually equal to the desired one.
            let desired = self.desired.get(&key).filter(|desired| ***desired == rule).cloned();
            let rule = desired.unwrap_or_else(|| self.recent.share(rule));
            self.put_installed(key, Some(rule));
        }
        self.keep_bundles();
        let all = self.desired.keys().chain(self.installed.keys());
        self.dirty = all.filter(|key| self.desired.get(key) != self.installed.get(key)).map(|key| (key, ())).collect();
        self.dirty_groups = self.groups.keys().chain(self.groups_installed.keys()).copied().collect();
        self.dirty_groups.retain(|group| self.groups.get(group) != self.groups_installed.get(group));
        self.version += 1;
        self.was_empty = self.desired.keys().any(|key| key.table == CLASSIFY && !self.installed.contains_key(&key));
        let has_leftovers = self.installed.keys().any(|key| self.dirty.contains(&key));
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
            true => self.is_silenced() || is_reconciling() || self.is_late(now),
            false => !self.installed.is_empty(),
        }
    }
    /// Returns whether no message is unanswered and no rule unconfirmed, so that neither changes
    /// with time.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.barriers.is_empty() && !self.is_unconfirmed(Time::MAX)
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
    /// Returns whether it is known that the switch has a rule, or that it has rejected it: waiting for
    /// the rule does not help.
    pub(crate) fn has_decided(&self, key: &RuleKey) -> bool {
        !self.may_lack(key) || self.refused.contains(key)
    }
    /// Returns whether the switch may have no default route for an address.
    pub(crate) fn may_lack_route(&self, address: Ipv4Addr) -> bool {
        self.installed.default_routes_to(address).all(|key| self.may_lack(&key))
    }
    /// Returns whether the switch has rejected the desired default route for an address.
    pub(crate) fn is_route_refused(&self, address: Ipv4Addr) -> bool {
        !self.refused.is_empty() && self.desired.default_routes_to(address).any(|key| self.refused.contains(&key))
    }
    /// Returns the ports by which packets to addresses may leave now, by any rule.
    pub(crate) fn egress_ports(&self) -> impl Iterator<Item = (Block, PortNo)> {
        let before = self.sent.values().filter_map(|sent| match sent {
            Sent::Rule(key, before) => before.as_ref().map(|before| (*key, before)),
            Sent::Group(..) => None,
        });
        let doubtful = self.uncertain.iter().filter_map(|(key, before)| Some((*key, before.as_ref()?)));
        let rules = self.installed.iter().chain(before).chain(doubtful);
        let to = rules.filter_map(|(key, rule)| Some((destinations(&key)?, rule)));
        to.flat_map(|(to, rule)| self.ports_of_rule(rule).into_iter().map(move |port| (to, port)))
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
    pub(super) fn retry(&mut self) {
        self.retry_groups();
        if self.refused.is_empty() {
            return;
        }
        self.version += 1;
        self.evicted.clear();
        for key in std::mem::take(&mut self.refused) {
            self.mark(key);
        }
    }

    /// Uses groups again where the switch has rejected them: there may be room now.
    fn retry_groups(&mut self) {
        for key in std::mem::take(&mut self.single) {
            if let Some(wanted) = self.divided.get(&key).cloned() {
                self.set(key, Some(DesiredRule::clone(&wanted)));
            }
        }
    }

    /// Handles the rejection of a message. Returns what it was, if it was a rule or a group.
    pub(crate) fn refused(&mut self, xid: Xid, error: ErrorKind) -> Option<Refusal> {
        match self.sent.remove(&xid)? {
            Sent::Rule(key, before) => {
                let later = self.sent.values_mut().find_map(|sent| match sent {
                    Sent::Rule(other, was) if *other == key => Some(was),
                    _ => None,
                });
                match later {
                    Some(was) => *was = before,
                    None => self.rule_refused(key, before),
                }
                let has_evicted = error == ErrorKind::FlowModFailed(FlowModFailed::TableFull) && self.evict_for(key);
                let what = format!("a rule of table {} with priority {} is not installed", key.table.0, key.priority.0);
                let message = match has_evicted {
                    true => format!("{what}: the table is full; it takes the place of a rule for a distant host"),
                    false => format!("{what}; it is tried again when rules are deleted"),
                };
                Some(Refusal { key: Some(key), message })
            }
            Sent::Group(group, before) => {
                self.new_groups.remove(&group);
                match before {
                    Some(before) => drop(self.groups_installed.insert(group, before)),
                    None => drop(self.groups_installed.remove(&group)),
                }
                self.dirty_groups.remove(&group);
                let message = if error == ErrorKind::GroupModFailed(GroupModFailed::GroupExists) {
                    self.taken(group);
                    format!("group {:#x} belongs to another controller; its rules use another number", group.0)
                } else {
                    let count = self.use_single_next_hops(group);
                    format!(
                        "group {:#x} is not installed: {count} rules use a single next hop instead, until groups are \
                         deleted",
                        group.0
                    )
                };
                Some(Refusal { key: None, message })
            }
        }
    }

    fn rule_refused(&mut self, key: RuleKey, before: Option<Arc<Rule>>) {
        self.put_installed(key, before);
        self.dirty.remove(&key);
        if self.desired.contains_key(&key) && self.desired.get(&key) != self.installed.get(&key) {
            self.refused.insert(key);
        }
    }

    /// Makes room in a full table for the rule to a host of the switch itself: without it, packets
    /// that have come all the way are lost. A rule to a distant host goes; its packets may take
    /// another way. Returns whether one was found.
    fn evict_for(&mut self, key: RuleKey) -> bool {
        let is_last_hop = destination(&key).is_some_and(|address| last_hop_key(address) == key);
        if !is_last_hop || !self.refused.contains(&key) {
            return false;
        }
        let is_here = |other: &RuleKey| !self.evicted.contains(other);
        let Some(victim) = self.installed.least_default_route(is_here) else { return false };
        self.refused.remove(&key);
        self.mark(key);
        self.refused.insert(victim);
        self.evicted.insert(victim);
        self.dirty.add(victim);
        true
    }

    /// Gives every rule of a rejected group one next hop. Returns their number.
    fn use_single_next_hops(&mut self, group: GroupId) -> usize {
        let uses = |(key, rule): (RuleKey, &Arc<Rule>)| (rule.group == Some(group)).then_some(key);
        let users: Vec<RuleKey> = self.desired.iter().filter_map(uses).collect();
        self.single.extend(&users);
        for key in &users {
            let wanted = self.divided.get(key).expect("a rule with a group is divided");
            let wanted = DesiredRule::clone(wanted);
            self.set(*key, Some(wanted));
        }
        users.len()
    }

    pub(crate) fn put_installed(&mut self, key: RuleKey, rule: Option<Arc<Rule>>) {
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

    /// Corrects the installed state by what a switch has: the difference from the desired state will
    /// be sent.
    pub(super) fn correct_rule(&mut self, key: RuleKey, rule: Option<Rule>) {
        self.put_installed(key, rule.map(Arc::new));
        self.reconsider(key);
    }

    /// Marks a rule whose desired or installed state has changed. A rejected one is sent again; an
    /// evicted one stays away until rules of the switch are deleted.
    fn reconsider(&mut self, key: RuleKey) {
        if !self.desired.contains_key(&key) {
            self.evicted.remove(&key);
        }
        if !self.evicted.contains(&key) {
            self.refused.remove(&key);
            self.mark(key);
        } else if self.installed.contains_key(&key) {
            self.dirty.add(key);
        }
    }

    fn mark(&mut self, key: RuleKey) {
        if self.desired.get(&key) == self.installed.get(&key) {
            self.dirty.remove(&key);
        } else {
            self.dirty.add(key);
        }
    }

    fn resolve(&mut self, key: &RuleKey, wanted: DesiredRule) -> Rule {
        let DesiredRule { cookie, idle_timeout_s, mut instructions, group } = wanted;
        let flags = FlowModFlags { send_flow_removed: idle_timeout_s > 0, ..FlowModFlags::default() };
        let is_single = self.single.contains(key);
        let method =
            if is_single { HashingMethod::Single(self.datapath.unwrap_or(DatapathId(0))) } else { self.hashing_method };
        let address = destinations(key).map_or(0, |to| to.first().to_bits());
        let group = match group.map(|buckets| method.realise(&buckets, address)) {
            Some(GroupForm::Group(buckets)) => Some(self.acquire(buckets)),
            Some(GroupForm::Actions(actions)) => {
                instructions.apply.extend(actions);
                None
            }
            None => None,
        };
        instructions.apply.extend(group.map(Action::Group));
        Rule { cookie, idle_timeout_s, flags, instructions, group }
    }
}
