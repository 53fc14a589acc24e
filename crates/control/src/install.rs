//! One switch: what should be on it, what has been sent to it, and the difference.
//!
//! Rules and groups wanted are set one by one ([`Installer::set`]); what changed is remembered, so that moving a flow
//! costs no walk over the table. What is sent counts as installed at once; an error names the transaction number and so
//! the rule, and takes that back. [`crate::order`] turns the difference into messages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use core::net::Ipv4Addr;
use net::Time;

use openflow::{
    Action, Bucket, FlowModFlags, FlowRemoved, FlowStats, GroupDescription, GroupId, GroupKind, Instructions, Match,
    PortNo, TableId, Xid,
};

use crate::compile::{CLASSIFY, destination};
use crate::sequence::PATIENCE;
use crate::spread::{Division, Means};

/// What names a rule on a switch. Ordered as switches list them: by table, priority (highest first), match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct RuleKey {
    pub(crate) table: TableId,
    pub(crate) priority: Reverse<u16>,
    pub(crate) match_: Match,
}

/// A rule as it is wanted; its group, if any, by content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) cookie: u64,
    pub(crate) idle_timeout_s: u16,
    pub(crate) instructions: Instructions,
    /// Buckets of the select group to go through after the actions applied.
    pub(crate) group: Option<Arc<[Bucket]>>,
}

/// A rule as it is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) cookie: u64,
    pub(crate) idle_timeout_s: u16,
    pub(crate) flags: FlowModFlags,
    pub(crate) instructions: Instructions,
    group: Option<GroupId>,
}

impl Rule {
    /// Whether the group it goes through is not known to be on the switch yet: the number may turn out to be taken, and
    /// packets would go wherever somebody else's group sends them.
    pub(crate) fn is_waiting_for_group(&self, switch: &Installer) -> bool {
        self.group.is_some_and(|group| switch.dirty_groups.contains(&group) || switch.new_groups.contains(&group))
    }
}

/// A change under way, by transaction number.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are of the large kind; a box would cost more than it saves")]
pub(crate) enum Sent {
    /// A rule; what was there before.
    Rule(RuleKey, Option<Rule>),
    /// A group; what was there before.
    Group(GroupId, Option<Arc<[Bucket]>>),
}

/// Something the switch refused, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// The rule, if it was one.
    pub(crate) key: Option<RuleKey>,
    /// The group, if it was one.
    pub(crate) group: Option<GroupId>,
    pub(crate) words: String,
}

/// What is known and wanted of one switch.
#[derive(Debug)]
pub(crate) struct Installer {
    owner: u16,
    pub(crate) is_online: bool,
    /// Nothing is sent: too little is known to judge the rules found here.
    pub(crate) is_held: bool,
    pub(crate) desired: BTreeMap<RuleKey, Rule>,
    pub(crate) installed: BTreeMap<RuleKey, Rule>,
    pub(crate) dirty: BTreeSet<RuleKey>,
    /// Wanted, but the switch would not have them; tried again when something was deleted.
    pub(crate) refused: BTreeSet<RuleKey>,
    /// Rules of others.
    foreign: BTreeSet<RuleKey>,
    pub(crate) groups: BTreeMap<GroupId, Arc<[Bucket]>>,
    by_buckets: BTreeMap<Arc<[Bucket]>, GroupId>,
    uses: BTreeMap<GroupId, u32>,
    pub(crate) groups_installed: BTreeMap<GroupId, Arc<[Bucket]>>,
    uses_installed: BTreeMap<GroupId, u32>,
    pub(crate) dirty_groups: BTreeSet<GroupId>,
    /// Groups sent that were not there before, and not confirmed.
    pub(crate) new_groups: BTreeSet<GroupId>,
    pub(crate) refused_groups: BTreeSet<GroupId>,
    foreign_groups: BTreeSet<GroupId>,
    pub(crate) sent: BTreeMap<Xid, Sent>,
    /// Barriers out, with what they confirm and when they were sent.
    barriers: VecDeque<(Xid, u64, Time)>,
    /// Number of the latest change of what is wanted.
    version: u64,
    confirmed: u64,
    /// Confirmed when nothing is left of what it was found with.
    reconciled_at: u64,
    /// What may be there instead of what was sent on a connection that was lost; `None`: perhaps nothing.
    doubtful: Vec<(RuleKey, Option<Rule>)>,
    /// Whether it lacked rules when it was surveyed, and nothing has been confirmed since.
    was_bare: bool,
    /// How it divides flows among next hops.
    means: Means,
    /// Whether its matches may name control bits of TCP.
    pub(crate) takes_tcp_flags: bool,
    /// Buckets as they were wanted, of rules that divide: the switch may turn out to need other means.
    divided: BTreeMap<RuleKey, Arc<[Bucket]>>,
}

impl Installer {
    /// A switch nothing is known of.
    pub(crate) fn new(owner: u16) -> Installer {
        Installer {
            owner,
            is_online: false,
            is_held: false,
            desired: BTreeMap::new(),
            installed: BTreeMap::new(),
            dirty: BTreeSet::new(),
            refused: BTreeSet::new(),
            foreign: BTreeSet::new(),
            groups: BTreeMap::new(),
            by_buckets: BTreeMap::new(),
            uses: BTreeMap::new(),
            groups_installed: BTreeMap::new(),
            uses_installed: BTreeMap::new(),
            dirty_groups: BTreeSet::new(),
            new_groups: BTreeSet::new(),
            refused_groups: BTreeSet::new(),
            foreign_groups: BTreeSet::new(),
            sent: BTreeMap::new(),
            barriers: VecDeque::new(),
            version: 0,
            confirmed: 0,
            reconciled_at: 0,
            doubtful: Vec::new(),
            was_bare: false,
            means: Means::default(),
            takes_tcp_flags: false,
            divided: BTreeMap::new(),
        }
    }

    /// Wants a rule, or wants it gone.
    pub(crate) fn set(&mut self, key: RuleKey, wanted: Option<Wanted>) {
        match wanted.as_ref().and_then(|wanted| wanted.group.clone()) {
            Some(buckets) => self.divided.insert(key, buckets),
            None => self.divided.remove(&key),
        };
        let rule = wanted.map(|wanted| self.resolve(wanted));
        let before = match &rule {
            Some(rule) => self.desired.insert(key, rule.clone()),
            None => self.desired.remove(&key),
        };
        // Release after resolving: a group both use stays.
        if let Some(group) = before.as_ref().and_then(|before| before.group) {
            self.release(group);
        }
        if before != rule {
            self.version += 1;
            self.refused.remove(&key);
            self.mark(key);
        }
    }

    /// How it divides flows among next hops is known now, or another way than before: rules that do so are others.
    pub(crate) fn set_means(&mut self, means: Means) {
        if std::mem::replace(&mut self.means, means) == means {
            return;
        }
        for (key, buckets) in self.divided.clone() {
            let rule = self.desired.get(&key).expect("a rule that divides is wanted");
            let mut instructions = rule.instructions.clone();
            instructions.apply.retain(|action| !matches!(action, Action::Group(_) | Action::Bundle(_)));
            let (cookie, idle_timeout_s) = (rule.cookie, rule.idle_timeout_s);
            self.set(key, Some(Wanted { cookie, idle_timeout_s, instructions, group: Some(buckets) }));
        }
    }
    /// How it divides flows among next hops.
    pub(crate) fn means(&self) -> Means {
        self.means
    }

    /// Number to wait for until everything wanted so far has been confirmed.
    pub(crate) fn ticket(&self) -> u64 {
        self.version
    }
    /// Whether what was wanted then has been confirmed, or cannot be for now: the survey after reconnection will see to it,
    /// or the end of the time a switch is held back. Until then it counts as unsure.
    pub(crate) fn is_confirmed(&self, ticket: u64) -> bool {
        !self.is_online || self.is_held || self.confirmed >= ticket || self.is_up_to_date()
    }
    /// Whether everything wanted is there, and confirmed.
    fn is_up_to_date(&self) -> bool {
        self.is_idle() && self.dirty.is_empty() && self.dirty_groups.is_empty()
    }
    /// Whether what was wanted then has not been confirmed, and will not be before a survey.
    pub(crate) fn is_cut_off(&self, ticket: u64) -> bool {
        (!self.is_online || self.is_held) && self.confirmed < ticket
    }
    /// Whether nothing is left to send or to be confirmed.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_online || (!self.is_held && self.is_up_to_date())
    }
    /// Whether everything sent was confirmed.
    pub(crate) fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.barriers.is_empty()
    }
    /// Barriers not answered yet.
    pub(crate) fn barriers_out(&self) -> usize {
        self.barriers.len()
    }
    /// Whether any rule of a set is refused.
    pub(crate) fn has_refused(&self, key: &RuleKey) -> bool {
        self.refused.contains(key)
    }
    /// Whether installed rules go through a group.
    pub(crate) fn is_group_used(&self, group: GroupId) -> bool {
        self.uses_installed.get(&group).is_some_and(|uses| *uses > 0)
    }
    /// Whether a rule's group is one the switch would not have.
    pub(crate) fn is_blocked(&self, rule: &Rule) -> bool {
        rule.group.is_some_and(|group| self.refused_groups.contains(&group))
    }

    /// What should be there, as the switch would list it. Of a refused rule what it was to replace still stands, if
    /// anything.
    pub(crate) fn entries(&self) -> Vec<FlowStats> {
        let standing = |(key, rule)| match self.refused.contains(key) {
            true => self.installed.get(key).map(|rule| (key, rule)),
            false => Some((key, rule)),
        };
        let wanted = self.desired.iter().filter_map(standing);
        let entry = |(key, rule): (&RuleKey, &Rule)| FlowStats {
            table: key.table,
            duration_ns: 0,
            priority: key.priority.0,
            idle_timeout_s: rule.idle_timeout_s,
            hard_timeout_s: 0,
            flags: rule.flags,
            cookie: rule.cookie,
            packets: 0,
            bytes: 0,
            match_: key.match_,
            instructions: rule.instructions.clone(),
        };
        wanted.map(entry).collect()
    }

    /// Groups that should be there, as the switch would list them.
    pub(crate) fn group_entries(&self) -> Vec<GroupDescription> {
        let wanted = self.groups.iter().filter(|(group, _)| !self.refused_groups.contains(group));
        let entry = |(group, buckets): (&GroupId, &Arc<[Bucket]>)| GroupDescription {
            group: *group,
            kind: GroupKind::Select,
            buckets: buckets.to_vec(),
        };
        wanted.map(entry).collect()
    }

    /// The connection is gone: what was not confirmed may or may not have been done.
    pub(crate) fn offline(&mut self) {
        if self.is_up_to_date() {
            self.confirmed = self.version;
        }
        self.is_online = false;
        let doubtful = std::mem::take(&mut self.sent).into_values().filter_map(|sent| match sent {
            Sent::Rule(key, before) => Some((key, before)),
            Sent::Group(..) => None,
        });
        self.doubtful.extend(doubtful);
        self.new_groups.clear();
        self.barriers.clear();
    }

    /// The switch is back, and this is what it holds. What is right stays untouched; answers whether anything of ours is
    /// there that is not wanted so. If the rules of others are not among these (`is_partial`), groups that ours do not use
    /// are theirs.
    pub(crate) fn surveyed(&mut self, rules: &[FlowStats], groups: &[GroupDescription], is_partial: bool) -> bool {
        // A switch may come again before its old connection is found dead: nothing sent there will be answered.
        self.offline();
        self.is_online = true;
        self.doubtful.clear();
        self.installed.clear();
        self.groups_installed.clear();
        self.uses_installed.clear();
        self.foreign.clear();
        self.foreign_groups.clear();
        self.refused.clear();
        self.refused_groups.clear();
        // Numbers kept for groups of an earlier life that a survey found, and nobody has wanted since.
        let Installer { by_buckets, groups: wanted, .. } = self;
        by_buckets.retain(|_, group| wanted.contains_key(group));
        // Groups have no cookies: those that rules of others use are theirs, whatever their number.
        let is_foreign = |rule: &&FlowStats| rule.cookie >> 48 != u64::from(self.owner);
        self.foreign_groups = rules.iter().filter(is_foreign).flat_map(groups_of).collect();
        if is_partial {
            let used: BTreeSet<GroupId> = rules.iter().flat_map(groups_of).collect();
            self.foreign_groups.extend(groups.iter().map(|group| group.group).filter(|group| !used.contains(group)));
        }
        for group in groups {
            self.survey_group(group);
        }
        for group in self.foreign_groups.clone() {
            self.renumber(group);
        }
        for stats in rules {
            let key = RuleKey { table: stats.table, priority: Reverse(stats.priority), match_: stats.match_ };
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
        self.was_bare = self.desired.keys().any(|key| key.table == CLASSIFY && !self.installed.contains_key(key));
        let has_leftovers = self.installed.keys().any(|key| self.dirty.contains(key));
        if has_leftovers {
            self.reconciled_at = self.version;
        }
        has_leftovers
    }

    /// Whether rules may decide here that are not those wanted, and for longer than a change takes.
    pub(crate) fn is_unsure(&self, now: Time) -> bool {
        let is_reconciling = || self.reconciled_at > 0 && !self.is_confirmed(self.reconciled_at);
        match self.is_online {
            true => self.is_held || is_reconciling() || self.is_late(now),
            false => !self.installed.is_empty(),
        }
    }
    /// Whether it does not confirm.
    pub(crate) fn is_late(&self, now: Time) -> bool {
        self.late_from().is_some_and(|late| late <= now)
    }
    /// When a switch that does not confirm will be unsure.
    pub(crate) fn late_from(&self) -> Option<Time> {
        self.barriers.front().map(|(.., sent)| sent.saturating_add(PATIENCE))
    }
    /// Whether a rule may not be there.
    pub(crate) fn may_lack(&self, key: &RuleKey) -> bool {
        let is_new = |sent: &Sent| matches!(sent, Sent::Rule(other, None) if other == key);
        !self.installed.contains_key(key)
            || self.sent.values().any(is_new)
            || self.doubtful.iter().any(|(other, before)| other == key && before.is_none())
    }
    /// Ports by which packets to addresses may leave now, whatever rule sends them there.
    pub(crate) fn ways_out(&self) -> impl Iterator<Item = (Ipv4Addr, PortNo)> {
        let before = self.sent.values().filter_map(|sent| match sent {
            Sent::Rule(key, before) => before.as_ref().map(|before| (key, before)),
            Sent::Group(..) => None,
        });
        let doubtful = self.doubtful.iter().filter_map(|(key, before)| Some((key, before.as_ref()?)));
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

    fn survey_group(&mut self, found: &GroupDescription) {
        if found.group.0 >> 16 != u32::from(self.owner) || self.foreign_groups.contains(&found.group) {
            self.foreign_groups.insert(found.group);
            return;
        }
        let is_select = found.kind == GroupKind::Select;
        let buckets: Arc<[Bucket]> = if is_select { found.buckets.clone().into() } else { Arc::new([]) };
        // Take over the number of a group an earlier life of this controller made, so that it need not change.
        if is_select && !self.groups.contains_key(&found.group) && !self.by_buckets.contains_key(&buckets) {
            self.by_buckets.insert(buckets.clone(), found.group);
        }
        self.groups_installed.insert(found.group, buckets);
    }

    /// What a switch says of a rule that is gone.
    pub(crate) fn removed(&mut self, removed: &FlowRemoved) {
        let key = RuleKey { table: removed.table, priority: Reverse(removed.priority), match_: removed.match_ };
        if removed.cookie >> 48 == u64::from(self.owner) && self.installed.contains_key(&key) {
            self.put_installed(key, None);
            self.mark(key);
        }
    }

    /// A barrier of everything sent so far went out; whether it is the last one of its batch.
    pub(crate) fn barrier_sent(&mut self, now: Time, xid: Xid, is_last: bool) {
        let is_all =
            is_last && self.dirty.is_empty() && self.dirty_groups.iter().all(|group| !self.groups.contains_key(group));
        let confirms = if is_all { self.version } else { 0 };
        self.barriers.push_back((xid, confirms, now));
    }

    /// A barrier was answered: everything before it is done or was refused. Whether it is the first one since the survey
    /// and the switch did not have all its rules then.
    pub(crate) fn barrier(&mut self, xid: Xid) -> bool {
        let Some(position) = self.barriers.iter().position(|(barrier, ..)| *barrier == xid) else {
            return false; // Of an earlier question, or never asked.
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
        std::mem::take(&mut self.was_bare)
    }

    /// There is room again: what was refused is tried once more.
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

    /// The switch refused what was sent under this number.
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
                    words: format!(
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
                let words = format!("group {:#x} is not installed, nor are rules that use it", group.0);
                Some(Refusal { key: None, group: Some(group), words })
            }
        }
    }

    /// Somebody else has taken the number of a group that was to be made: it gets another one, and so do its rules.
    pub(crate) fn taken(&mut self, group: GroupId) {
        self.foreign_groups.insert(group);
        self.groups_installed.remove(&group);
        self.renumber(group);
    }

    fn renumber(&mut self, group: GroupId) {
        let Some(buckets) = self.groups.remove(&group) else { return };
        let number = self.free_group();
        self.by_buckets.insert(buckets.clone(), number);
        self.groups.insert(number, buckets);
        if let Some(uses) = self.uses.remove(&group) {
            self.uses.insert(number, uses);
        }
        self.refused_groups.remove(&group);
        self.dirty_groups.remove(&group);
        self.mark_group(number);
        let uses = |(key, rule): (&RuleKey, &Rule)| (rule.group == Some(group)).then_some(*key);
        let users: Vec<RuleKey> = self.desired.iter().filter_map(uses).collect();
        for key in users {
            let rule = self.desired.get_mut(&key).expect("just found");
            rule.group = Some(number);
            for action in rule.instructions.apply.iter_mut().filter(|action| **action == Action::Group(group)) {
                *action = Action::Group(number);
            }
            self.refused.remove(&key);
            self.mark(key);
        }
        self.version += 1;
    }

    fn block_users(&mut self, group: GroupId) {
        let uses = |(key, rule): (&RuleKey, &Rule)| (rule.group == Some(group)).then_some(*key);
        let users: Vec<RuleKey> = self.desired.iter().filter_map(uses).collect();
        for key in users {
            if self.dirty.remove(&key) {
                self.refused.insert(key);
            }
        }
    }

    /// Whether someone else's rule is where ours should go. It stays; ours does without.
    pub(crate) fn is_foreign(&self, key: &RuleKey) -> bool {
        self.foreign.contains(key)
    }

    /// Whether there are rules of others.
    pub(crate) fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// Notes what is on the switch, as far as we know.
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

    /// A group that is not wanted is deleted: its number may get another content.
    pub(crate) fn forget_group(&mut self, group: GroupId) {
        self.by_buckets.retain(|_, number| *number != group);
    }

    fn mark(&mut self, key: RuleKey) {
        if self.desired.get(&key) == self.installed.get(&key) {
            self.dirty.remove(&key);
        } else {
            self.dirty.insert(key);
        }
    }
    fn mark_group(&mut self, group: GroupId) {
        if self.groups.get(&group) == self.groups_installed.get(&group) {
            self.dirty_groups.remove(&group);
        } else {
            self.dirty_groups.insert(group);
        }
    }

    fn resolve(&mut self, wanted: Wanted) -> Rule {
        let Wanted { cookie, idle_timeout_s, mut instructions, group } = wanted;
        let flags = FlowModFlags { send_flow_removed: idle_timeout_s > 0, ..FlowModFlags::default() };
        let group = match group.map(|buckets| self.means.divide(&buckets)) {
            Some(Division::Group(buckets)) => Some(self.acquire(buckets)),
            Some(Division::Action(action)) => {
                instructions.apply.push(action);
                None
            }
            None => None,
        };
        instructions.apply.extend(group.map(Action::Group));
        Rule { cookie, idle_timeout_s, flags, instructions, group }
    }

    /// The group with these buckets; one content has one number.
    fn acquire(&mut self, buckets: Arc<[Bucket]>) -> GroupId {
        let group = match self.by_buckets.get(&buckets) {
            Some(group) => *group,
            None => self.free_group(),
        };
        self.by_buckets.insert(buckets.clone(), group);
        let before = self.groups.insert(group, buckets.clone());
        debug_assert!(before.is_none_or(|before| before == buckets), "one number has one content");
        *self.uses.entry(group).or_insert(0) += 1;
        self.mark_group(group);
        group
    }

    fn free_group(&self) -> GroupId {
        let first = u32::from(self.owner) << 16;
        let is_free = |group: &GroupId| {
            // A group that waits to be deleted keeps its number until then: rules may still use it.
            !self.groups.contains_key(group)
                && !self.groups_installed.contains_key(group)
                && !self.foreign_groups.contains(group)
        };
        let mut numbers = (first..first + 0xff00).map(GroupId);
        numbers.find(is_free).expect("a switch has fewer than 65,280 groups: one per set of next hops")
    }

    fn release(&mut self, group: GroupId) {
        let uses = self.uses.get_mut(&group).expect("a wanted rule's group is counted");
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&group);
            if let Some(buckets) = self.groups.remove(&group) {
                self.by_buckets.remove(&buckets);
            }
            self.refused_groups.remove(&group);
            self.mark_group(group);
        }
    }
}

/// Groups a rule sends to.
fn groups_of(rule: &FlowStats) -> impl Iterator<Item = GroupId> {
    rule.instructions.apply.iter().chain(&rule.instructions.write).filter_map(|action| match action {
        Action::Group(group) => Some(*group),
        _ => None,
    })
}
