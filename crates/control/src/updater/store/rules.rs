//! Rules as desired, and as messages and replies of switches show them.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use openflow::flow_monitor::FlowChange;
use openflow::{Bucket, FlowMod, FlowModFlags, FlowRemoved, FlowStats, GroupId, Instructions, Match, TableId};

use super::groups::groups_of;

/// Identity of a rule on a switch. Ordered as switches list rules: by table, priority (highest
/// first), match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct RuleKey {
    pub(crate) table: TableId,
    pub(crate) priority: Reverse<u16>,
    pub(crate) match_: Match,
}

impl RuleKey {
    pub(crate) fn new(table: TableId, priority: u16, match_: Match) -> RuleKey {
        RuleKey { table, priority: Reverse(priority), match_ }
    }

    /// Returns a hash for comparisons within this process.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
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
    pub(super) group: Option<GroupId>,
}

impl From<&FlowStats> for Rule {
    fn from(stats: &FlowStats) -> Rule {
        let (cookie, idle_timeout_s, flags) = (stats.cookie, stats.idle_timeout_s, stats.flags);
        let group = groups_of(&stats.instructions).next();
        Rule { cookie, idle_timeout_s, flags, instructions: stats.instructions.clone(), group }
    }
}

impl Rule {
    /// Returns whether a switch lists exactly this rule.
    pub(crate) fn is_same(&self, stats: &FlowStats) -> bool {
        (self.cookie, self.idle_timeout_s, self.flags) == (stats.cookie, stats.idle_timeout_s, stats.flags)
            && self.instructions == stats.instructions
    }
}

/// A flow monitor does not report flags: desired rules have none.
impl From<&FlowChange> for Rule {
    fn from(change: &FlowChange) -> Rule {
        let (cookie, idle_timeout_s) = (change.cookie, change.idle_timeout_s);
        let group = groups_of(&change.instructions).next();
        Rule {
            cookie,
            idle_timeout_s,
            flags: FlowModFlags::default(),
            instructions: change.instructions.clone(),
            group,
        }
    }
}
