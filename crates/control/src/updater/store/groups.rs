//! Groups of one switch: numbers, contents, and the rules that use them.

use std::collections::BTreeMap;
use std::sync::Arc;

use openflow::{Action, Bucket, GroupDescription, GroupId, GroupKind, Instructions};

use super::{Installer, Rule, RuleKey};

impl Installer {
    pub(crate) fn is_group_used(&self, group: GroupId) -> bool {
        self.uses_installed.get(&group).is_some_and(|uses| *uses > 0)
    }

    /// Returns the desired groups, as the switch would list them.
    pub(crate) fn group_entries(&self) -> Vec<GroupDescription> {
        let entry = |(group, buckets): (&GroupId, &Arc<[Bucket]>)| GroupDescription {
            group: *group,
            kind: GroupKind::Select,
            buckets: buckets.to_vec(),
        };
        self.groups.iter().map(entry).collect()
    }

    pub(super) fn read_back_group(&mut self, found: &GroupDescription) {
        if found.group.0 >> 16 != u32::from(self.owner) || self.foreign_groups.contains(&found.group) {
            self.foreign_groups.insert(found.group);
            return;
        }
        let is_select = found.kind == GroupKind::Select;
        let buckets: Arc<[Bucket]> = if is_select { found.buckets.clone().into() } else { Arc::new([]) };
        // Adopt the number of a group of a previous controller instance, so that it need not
        // change.
        if is_select && !self.groups.contains_key(&found.group) && !self.by_buckets.contains_key(&buckets) {
            self.by_buckets.insert(buckets.clone(), found.group);
        }
        self.groups_installed.insert(found.group, buckets);
    }

    /// Corrects the installed groups by those a switch has. Returns the number that differs. A new
    /// group with a number of this controller belongs to another controller: foreign rules may use it.
    pub(in crate::updater) fn correct_groups(&mut self, found: &[GroupDescription]) -> usize {
        let found: BTreeMap<GroupId, &GroupDescription> = found.iter().map(|group| (group.group, group)).collect();
        let foreign = found.keys().filter(|group| !self.groups_installed.contains_key(group));
        self.foreign_groups.extend(foreign);
        let is_same = |(group, buckets): &(&GroupId, &Arc<[Bucket]>)| {
            found.get(group).is_some_and(|found| found.kind == GroupKind::Select && found.buckets[..] == buckets[..])
        };
        let differing: Vec<GroupId> =
            self.groups_installed.iter().filter(|entry| !is_same(entry)).map(|(group, _)| *group).collect();
        for group in &differing {
            match found.get(group) {
                Some(found) => drop(self.groups_installed.insert(*group, found.buckets.clone().into())),
                None => drop(self.groups_installed.remove(group)),
            }
            self.mark_group(*group);
        }
        if !differing.is_empty() {
            self.retry(); // Rules may have been rejected because their group was missing.
        }
        differing.len()
    }

    /// Gives a group another number because another controller has taken its own, and changes the
    /// rules that use it.
    pub(crate) fn taken(&mut self, group: GroupId) {
        self.foreign_groups.insert(group);
        self.groups_installed.remove(&group);
        self.renumber(group);
    }

    pub(super) fn renumber(&mut self, group: GroupId) {
        let Some(buckets) = self.groups.remove(&group) else { return };
        let number = self.free_group();
        self.by_buckets.insert(buckets.clone(), number);
        self.groups.insert(number, buckets);
        if let Some(uses) = self.uses.remove(&group) {
            self.uses.insert(number, uses);
        }
        self.dirty_groups.remove(&group);
        self.mark_group(number);
        let uses = |(key, rule): (RuleKey, &Arc<Rule>)| (rule.group == Some(group)).then_some(key);
        let users: Vec<RuleKey> = self.desired.iter().filter_map(uses).collect();
        for key in users {
            let rule = Arc::make_mut(self.desired.get_mut(&key).expect("just found"));
            rule.group = Some(number);
            for action in rule.instructions.apply.iter_mut().filter(|action| **action == Action::Group(group)) {
                *action = Action::Group(number);
            }
            self.reconsider(key);
        }
        self.version += 1;
    }

    /// Releases the number of a deleted group for other contents.
    pub(crate) fn forget_group(&mut self, group: GroupId) {
        self.by_buckets.retain(|_, number| *number != group);
    }

    pub(super) fn mark_group(&mut self, group: GroupId) {
        if self.groups.get(&group) == self.groups_installed.get(&group) {
            self.dirty_groups.remove(&group);
        } else {
            self.dirty_groups.insert(group);
        }
    }

    /// Returns the number of the group with these buckets; one content has one number.
    pub(super) fn acquire(&mut self, buckets: Arc<[Bucket]>) -> GroupId {
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

    pub(super) fn free_group(&self) -> GroupId {
        let first = u32::from(self.owner) << 16;
        let is_free = |group: &GroupId| {
            // A group that waits for its deletion keeps its number: rules may still use it.
            !self.groups.contains_key(group)
                && !self.groups_installed.contains_key(group)
                && !self.foreign_groups.contains(group)
        };
        let mut numbers = (first..first + 0xff00).map(GroupId);
        numbers.find(is_free).expect("a switch has fewer than 65,280 groups: one per set of next hops")
    }

    pub(super) fn release(&mut self, group: GroupId) {
        let uses = self.uses.get_mut(&group).expect("a desired rule's group is counted");
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&group);
            if let Some(buckets) = self.groups.remove(&group) {
                self.by_buckets.remove(&buckets);
            }
            self.mark_group(group);
        }
    }
}

pub(super) fn groups_of(instructions: &Instructions) -> impl Iterator<Item = GroupId> {
    instructions.apply.iter().chain(&instructions.write).filter_map(|action| match action {
        Action::Group(group) => Some(*group),
        _ => None,
    })
}
