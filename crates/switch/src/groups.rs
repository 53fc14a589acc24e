//! Groups: the choice of a bucket, and changes of groups.

use std::collections::BTreeMap;

use net::Time;
use openflow::{
    Action, Bucket, ErrorKind, GroupDescription, GroupId, GroupKind, GroupMod, GroupModCommand, GroupModFailed,
    Headers, PortNo, RemovedReason,
};

use crate::actions::ActionSet;
use crate::counters::Counter;
use crate::ports::Ports;
use crate::select::region;
use crate::{Select, Switch, checks};

#[derive(Clone, Debug)]
pub struct BucketState {
    pub bucket: Bucket,
    pub actions: ActionSet,
    pub counter: Counter,
}

#[derive(Clone, Debug)]
pub struct Group {
    /// A unique number that distinguishes the group from a later one with the same id.
    pub serial: u64,
    /// The same for its buckets, which a modification replaces.
    pub bucket_serial: u64,
    pub kind: GroupKind,
    pub buckets: Vec<BucketState>,
    pub counter: Counter,
    pub since: Time,
}

#[derive(Default, Debug)]
pub struct Groups {
    pub by_id: BTreeMap<GroupId, Group>,
}

impl Groups {
    pub fn describe(&self) -> Vec<GroupDescription> {
        let describe = |(group, state): (&GroupId, &Group)| GroupDescription {
            group: *group,
            kind: state.kind,
            buckets: state.buckets.iter().map(|bucket| bucket.bucket.clone()).collect(),
        };
        self.by_id.iter().map(describe).collect()
    }

    /// Returns whether a bucket watches nothing, or a live port or group (specification 6.7).
    pub fn is_bucket_live(&self, bucket: &Bucket, ports: &Ports) -> bool {
        let (port, group) = (bucket.watch_port, bucket.watch_group);
        (port == PortNo::ANY && group == GroupId::ANY)
            || (port != PortNo::ANY && ports.is_live(port))
            || (group != GroupId::ANY && self.is_live(group, ports))
    }

    /// Returns whether a group has a usable bucket. Groups never watch each other in circles.
    fn is_live(&self, group: GroupId, ports: &Ports) -> bool {
        let buckets = self.by_id.get(&group).map_or(&[][..], |group| &group.buckets);
        buckets.iter().any(|bucket| self.is_bucket_live(&bucket.bucket, ports))
    }

    /// Returns the bucket for a packet; for groups of type all, any if there is one.
    #[inline]
    pub fn choose(&self, group: &Group, ports: &Ports, select: &Select, headers: &Headers) -> Option<usize> {
        match group.kind {
            GroupKind::All | GroupKind::Indirect => (!group.buckets.is_empty()).then_some(0),
            GroupKind::FastFailover => {
                group.buckets.iter().position(|bucket| self.is_bucket_live(&bucket.bucket, ports))
            }
            GroupKind::Select => {
                let weight = |bucket: &BucketState| {
                    let is_live = bucket.bucket.weight > 0 && self.is_bucket_live(&bucket.bucket, ports);
                    if is_live { u64::from(bucket.bucket.weight) } else { 0 }
                };
                let total: u64 = group.buckets.iter().map(weight).sum();
                let mut point = region(select, headers, total)?;
                group.buckets.iter().position(|bucket| {
                    let weight = weight(bucket);
                    let is_here = point < weight;
                    point = point.saturating_sub(weight);
                    is_here
                })
            }
        }
    }

    /// Returns the length of the longest chain of groups through `group` if it had these buckets.
    fn chain_len(&self, group: GroupId, buckets: &[Bucket]) -> usize {
        self.chain_above(group) + 1 + self.chain_below(&mut buckets.iter())
    }

    // Existing chains are short, so the recursion is, too.
    fn chain_below(&self, buckets: &mut dyn Iterator<Item = &Bucket>) -> usize {
        let below = |group| {
            self.by_id
                .get(&group)
                .map_or(0, |state| 1 + self.chain_below(&mut state.buckets.iter().map(|bucket| &bucket.bucket)))
        };
        buckets.flat_map(callees).map(below).max().unwrap_or(0)
    }

    fn chain_above(&self, group: GroupId) -> usize {
        let calls = |state: &Group| state.buckets.iter().any(|bucket| callees(&bucket.bucket).any(|id| id == group));
        let callers = self.by_id.iter().filter(|(_, state)| calls(state));
        callers.map(|(caller, _)| 1 + self.chain_above(*caller)).max().unwrap_or(0)
    }

    fn would_loop(&self, group: GroupId, buckets: &[Bucket]) -> bool {
        let mut pending: Vec<GroupId> = buckets.iter().flat_map(callees).collect();
        let mut seen = Vec::new();
        while let Some(next) = pending.pop() {
            if next == group {
                return true;
            }
            if let Err(at) = seen.binary_search(&next) {
                seen.insert(at, next);
                let state = self.by_id.get(&next).map_or(&[][..], |state| &state.buckets);
                pending.extend(state.iter().flat_map(|bucket| callees(&bucket.bucket)));
            }
        }
        false
    }
}

pub fn callees(bucket: &Bucket) -> impl Iterator<Item = GroupId> + '_ {
    let watched = (bucket.watch_group != GroupId::ANY).then_some(bucket.watch_group);
    let called = bucket.actions.iter().filter_map(|action| match action {
        Action::Group(group) => Some(*group),
        _ => None,
    });
    called.chain(watched)
}

fn refused<T>(why: GroupModFailed) -> Result<T, ErrorKind> {
    Err(ErrorKind::GroupModFailed(why))
}

impl Switch {
    pub(crate) fn group_mod(&mut self, group_mod: &GroupMod) -> Result<(), ErrorKind> {
        match group_mod.command {
            GroupModCommand::Add => self.add_group(group_mod)?,
            GroupModCommand::Modify => self.modify_group(group_mod)?,
            GroupModCommand::Delete => self.delete_group(group_mod.group)?,
        }
        self.tally.group_mods += 1;
        Ok(())
    }

    fn add_group(&mut self, group_mod: &GroupMod) -> Result<(), ErrorKind> {
        let id = group_mod.group;
        if id > GroupId::MAX {
            return refused(GroupModFailed::InvalidGroup);
        }
        if self.groups.by_id.contains_key(&id) {
            return refused(GroupModFailed::GroupExists);
        }
        if self.groups.by_id.len() >= self.config.max_groups as usize {
            return refused(GroupModFailed::OutOfGroups);
        }
        let buckets = self.checked_buckets(group_mod)?;
        let serial = self.changed();
        let (counter, since) = (Counter::default(), self.clock.now);
        let group = Group { serial, bucket_serial: serial, kind: group_mod.kind, buckets, counter, since };
        self.groups.by_id.insert(id, group);
        Ok(())
    }

    fn modify_group(&mut self, group_mod: &GroupMod) -> Result<(), ErrorKind> {
        if !self.groups.by_id.contains_key(&group_mod.group) {
            return refused(GroupModFailed::UnknownGroup);
        }
        let buckets = self.checked_buckets(group_mod)?;
        let bucket_serial = self.changed();
        if let Some(group) = self.groups.by_id.get_mut(&group_mod.group) {
            (group.kind, group.buckets, group.bucket_serial) = (group_mod.kind, buckets, bucket_serial);
        }
        Ok(())
    }

    fn checked_buckets(&self, group_mod: &GroupMod) -> Result<Vec<BucketState>, ErrorKind> {
        if self.groups.would_loop(group_mod.group, &group_mod.buckets) {
            return refused(GroupModFailed::Loop);
        }
        checks::group(group_mod, &self.ports, &self.groups)?;
        if self.groups.chain_len(group_mod.group, &group_mod.buckets) > checks::CHAIN_MAX {
            return refused(GroupModFailed::ChainingUnsupported);
        }
        let state = |bucket: &Bucket| BucketState {
            bucket: bucket.clone(),
            actions: ActionSet::of(&bucket.actions),
            counter: Counter::default(),
        };
        Ok(group_mod.buckets.iter().map(state).collect())
    }

    fn delete_group(&mut self, id: GroupId) -> Result<(), ErrorKind> {
        if id > GroupId::MAX && id != GroupId::ALL {
            return refused(GroupModFailed::InvalidGroup);
        }
        if id == GroupId::ALL {
            if self.groups.by_id.is_empty() {
                return Ok(());
            }
            self.remove_entries(RemovedReason::GroupDelete, |entry| {
                entry.actions().any(|action| matches!(action, Action::Group(_)))
            });
            self.groups.by_id.clear();
        } else {
            // Deleting a missing group is not an error.
            if !self.groups.by_id.contains_key(&id) {
                return Ok(());
            }
            if self.groups.chain_above(id) > 0 {
                return refused(GroupModFailed::ChainedGroup);
            }
            self.remove_entries(RemovedReason::GroupDelete, |entry| entry.uses_group(id));
            self.groups.by_id.remove(&id);
        }
        self.changed();
        Ok(())
    }
}
