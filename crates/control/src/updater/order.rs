//! The order of messages to a switch, decided in this module only.
//!
//! A batch consists of these parts, with a barrier after each that is not empty:
//! 1. groups that are new or changed, before the rules that use them. Rules wait until new groups
//!    are *confirmed*: another controller may have taken the number, which only the reply shows;
//! 2. rules that are new or changed. A rule of the same match and priority is replaced in place, so
//!    no packet falls between the old one and the new one;
//! 3. deletions of rules, after the rules that take over their packets, and so not while any of
//!    these wait. If the switch has rejected a rule because its table is full, deletions go first;
//! 4. deletions of groups, once every change of rules is confirmed: deleting a group deletes its
//!    rules.
//!
//! A batch has at most [`BATCH`] changes, and at most [`BATCHES_OUT`] batches are unconfirmed, so
//! that a slow switch is not flooded.

use openflow::{
    ErrorKind, FlowMod, FlowModCommand, FlowModFailed, GroupId, GroupKind, GroupMod, GroupModCommand, Instructions,
    Message, TableId,
};

use crate::updater::compile::Compiler;
use crate::updater::store::{Installer, RuleKey, Sent};

pub(crate) const BATCH: usize = 256;
/// Maximum number of unanswered barriers before more is sent.
const BATCHES_OUT: usize = 4;

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all values are of the large variant; a box would add an allocation to each"
)]
pub(crate) enum Item {
    /// A change, with the data to revert it if the switch rejects it.
    Change(Message, Sent),
    Barrier,
    /// Not sent: a foreign rule occupies the match and priority.
    Occupied(RuleKey, ErrorKind),
}

/// Returns the next batch, empty if nothing can or must be sent. Its content counts as installed
/// from now on.
pub(crate) fn next_batch(switch: &mut Installer, owner: u16) -> Vec<Item> {
    if !switch.is_online || switch.is_silenced() || switch.barriers.len() >= BATCHES_OUT {
        return Vec::new();
    }
    let (mut items, mut room) = (Vec::new(), BATCH);
    let part = |items: &mut Vec<Item>, changes: Vec<Item>| {
        let needs_barrier = changes.iter().any(|item| matches!(item, Item::Change(..)));
        items.extend(changes);
        if needs_barrier {
            items.push(Item::Barrier);
        }
    };
    let new_groups = groups(switch, &mut room, Part::Wanted);
    part(&mut items, new_groups);
    let parts = if switch.refused.is_empty() { [Part::Wanted, Part::Gone] } else { [Part::Gone, Part::Wanted] };
    for which in parts {
        if which == Part::Gone && switch.refused.is_empty() && has_waiting(switch) {
            continue;
        }
        let changes = rules(switch, owner, &mut room, which);
        part(&mut items, changes);
    }
    if items.is_empty() && switch.is_idle() {
        let old_groups = groups(switch, &mut room, Part::Gone);
        part(&mut items, old_groups);
    }
    items
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Wanted,
    Gone,
}

fn groups(switch: &mut Installer, room: &mut usize, part: Part) -> Vec<Item> {
    let is_meant = |group: &&GroupId| switch.groups.contains_key(group) == (part == Part::Wanted);
    let mut chosen: Vec<GroupId> = switch.dirty_groups.iter().filter(is_meant).copied().collect();
    if part == Part::Gone {
        chosen.retain(|group| !switch.is_group_used(*group));
    }
    chosen.truncate(*room);
    *room -= chosen.len();
    chosen.into_iter().map(|group| change_group(switch, group)).collect()
}

fn change_group(switch: &mut Installer, group: GroupId) -> Item {
    switch.dirty_groups.remove(&group);
    let before = switch.groups_installed.remove(&group);
    let wanted = switch.groups.get(&group).cloned();
    let command = match (&before, &wanted) {
        (_, None) => GroupModCommand::Delete,
        (None, Some(_)) => GroupModCommand::Add,
        (Some(_), Some(_)) => GroupModCommand::Modify,
    };
    let buckets = wanted.as_deref().map_or_else(Vec::new, <[_]>::to_vec);
    match wanted {
        Some(wanted) => drop(switch.groups_installed.insert(group, wanted)),
        None => switch.forget_group(group),
    }
    if command == GroupModCommand::Add {
        switch.new_groups.insert(group);
    }
    let message = Message::GroupMod(GroupMod { command, kind: GroupKind::Select, group, buckets });
    Item::Change(message, Sent::Group(group, before))
}

fn has_waiting(switch: &Installer) -> bool {
    let wanted = switch.dirty.keys().filter_map(|key| switch.desired.get(&key));
    wanted.into_iter().any(|rule| rule.is_waiting_for_group(switch))
}

fn rules(switch: &mut Installer, owner: u16, room: &mut usize, part: Part) -> Vec<Item> {
    let is_wanted = |key: &RuleKey| switch.desired.contains_key(key) && !switch.evicted.contains(key);
    let is_meant = |key: &RuleKey| is_wanted(key) == (part == Part::Wanted);
    // If the table is full, rules of client slots are the dispensable ones.
    let of = |is_slot_rule: bool| {
        let meant = switch.dirty.keys().filter(is_meant);
        meant.filter(move |key| Compiler::is_slot_rule(key) == is_slot_rule)
    };
    let chosen: Vec<RuleKey> = of(false).chain(of(true)).take(*room).collect();
    let mut items = Vec::with_capacity(chosen.len());
    for key in chosen {
        // A rule whose new group did not fit into this batch, or is not confirmed, waits for the
        // next batch.
        let wanted = switch.desired.get(&key);
        if wanted.is_some_and(|rule| rule.is_waiting_for_group(switch)) {
            continue;
        }
        *room -= 1;
        items.push(change_rule(switch, owner, key));
    }
    items
}

fn change_rule(switch: &mut Installer, owner: u16, key: RuleKey) -> Item {
    switch.dirty.remove(&key);
    let wanted = switch.desired.get(&key).filter(|_| !switch.evicted.contains(&key)).cloned();
    if switch.foreign.contains(&key) {
        switch.refused.insert(key);
        return Item::Occupied(key, ErrorKind::FlowModFailed(FlowModFailed::Overlap));
    }
    let before = switch.installed.get(&key).cloned();
    switch.put_installed(key, wanted.clone());
    let mut flow_mod = FlowMod::add(key.table, key.priority.0, key.match_, Instructions::default());
    match wanted {
        Some(rule) => {
            flow_mod.cookie = rule.cookie;
            flow_mod.idle_timeout_s = rule.idle_timeout_s;
            flow_mod.flags = rule.flags;
            flow_mod.instructions = rule.instructions.clone();
        }
        None => {
            flow_mod.command = FlowModCommand::DeleteStrict;
            flow_mod.cookie = u64::from(owner) << 48;
            flow_mod.cookie_mask = 0xffff << 48;
        }
    }
    debug_assert!(flow_mod.table != TableId::ALL, "rules name their table");
    Item::Change(Message::FlowMod(flow_mod), Sent::Rule(key, before))
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use net::Time;
    use openflow::{
        Action, Bucket, Envelope, FlowStats, GroupDescription, GroupModFailed, Match, PortNo, Xid, headers::ether,
    };

    use super::*;
    use crate::updater::store::DesiredRule;

    const OWNER: u16 = 7;
    const FIRST: GroupId = GroupId(7 << 16);

    fn key(priority: u16) -> RuleKey {
        let match_ = Match { eth_type: Some(ether::IPV4), ..Match::default() };
        RuleKey { table: TableId(1), priority: Reverse(priority), match_ }
    }
    fn through(ports: &[u32]) -> Option<DesiredRule> {
        let buckets = ports.iter().map(|port| Bucket::watching(PortNo(*port), 1)).collect();
        let instructions = Instructions::default();
        Some(DesiredRule { cookie: 7 << 48, idle_timeout_s: 0, instructions, group: Some(buckets) })
    }
    fn switch(groups: &[GroupDescription]) -> Installer {
        let mut switch = Installer::new(OWNER);
        switch.reconcile(&[], groups, false);
        switch
    }
    /// Returns everything that can be sent now; transaction numbers continue from `next`.
    fn send(switch: &mut Installer, next: &mut u32) -> Vec<Envelope> {
        let mut sent = Vec::new();
        loop {
            let items = next_batch(switch, OWNER);
            if items.is_empty() {
                return sent;
            }
            let last = items.len() - 1;
            for (position, item) in items.into_iter().enumerate() {
                *next += 1;
                let message = match item {
                    Item::Change(message, change) => {
                        switch.sent.insert(Xid(*next), change);
                        message
                    }
                    Item::Barrier => {
                        switch.barrier_sent(Time::ZERO, Xid(*next), position == last);
                        Message::BarrierRequest
                    }
                    Item::Occupied(..) => continue,
                };
                sent.push(Envelope { xid: Xid(*next), message });
            }
        }
    }
    fn kinds(sent: &[Envelope]) -> String {
        let letter = |envelope: &Envelope| match &envelope.message {
            Message::GroupMod(_) => 'g',
            Message::FlowMod(change) if change.command == FlowModCommand::Add => 'r',
            Message::FlowMod(_) => 'd',
            _ => '|',
        };
        sent.iter().map(letter).collect()
    }
    fn groups_used(sent: &[Envelope]) -> Vec<GroupId> {
        let group = |envelope: &Envelope| match &envelope.message {
            Message::FlowMod(change) => change.instructions.apply.iter().find_map(|action| match action {
                Action::Group(group) => Some(*group),
                _ => None,
            }),
            _ => None,
        };
        sent.iter().filter_map(group).collect()
    }

    /// Simulation tests 13561 and 14653: a foreign group had the number, and forwarded the packets.
    #[test]
    fn rules_wait_until_their_new_group_is_confirmed() {
        let (mut switch, mut next) = (switch(&[]), 0);
        switch.set(key(9), Some(DesiredRule { group: None, ..through(&[]).unwrap() }));
        let barrier = send(&mut switch, &mut next).last().unwrap().xid;
        switch.barrier(barrier);
        switch.set(key(9), None);
        switch.set(key(5), through(&[1, 2]));
        let sent = send(&mut switch, &mut next);
        assert_eq!(kinds(&sent), "g|", "neither the rule nor the deletion of the one whose packets it takes over");
        // A foreign group has the number.
        switch.refused(sent[0].xid, ErrorKind::GroupModFailed(GroupModFailed::GroupExists)).expect("it was sent");
        switch.barrier(sent[1].xid);
        let sent = send(&mut switch, &mut next);
        assert_eq!(kinds(&sent), "g|");
        switch.barrier(sent[1].xid);
        let sent = send(&mut switch, &mut next);
        assert_eq!((kinds(&sent), groups_used(&sent)), ("r|d|".to_owned(), vec![GroupId(FIRST.0 + 1)]));
    }

    /// Simulation test 19098: a switch reconnected without its groups, and two sets of buckets got
    /// one number.
    #[test]
    fn numbers_of_missing_groups_are_released() {
        let found = |port: u32| GroupDescription {
            group: FIRST,
            kind: GroupKind::Select,
            buckets: vec![Bucket::watching(PortNo(port), 1), Bucket::watching(PortNo(9), 1)],
        };
        let (mut switch, mut next) = (switch(&[found(3)]), 0);
        let no_rules: [FlowStats; 0] = [];
        switch.reconcile(&no_rules, &[], false);
        switch.set(key(5), through(&[4, 9]));
        switch.set(key(6), through(&[3, 9]));
        let sent = send(&mut switch, &mut next);
        assert_eq!(kinds(&sent), "gg|");
        switch.barrier(sent[2].xid);
        let mut used = groups_used(&send(&mut switch, &mut next));
        used.sort_unstable();
        assert_eq!(used, [FIRST, GroupId(FIRST.0 + 1)]);
    }

    /// Regression: the changed rule was deleted and then forgotten.
    #[test]
    fn evicted_rule_whose_next_hops_change_returns_when_the_table_has_room() {
        use crate::updater::block::Block;
        use crate::updater::compile::{default_route_key, last_hop_key};
        let (mut switch, mut next, address) = (switch(&[]), 0, core::net::Ipv4Addr::new(10, 0, 0, 1));
        let (route, last_hop) = (default_route_key(Block::exact(address)), last_hop_key(address));
        let to = |port: u32| {
            let instructions = Instructions { apply: vec![Action::SetQueue(port)], ..Instructions::default() };
            Some(DesiredRule { cookie: 7 << 48, idle_timeout_s: 0, instructions, group: None })
        };
        let confirm = |switch: &mut Installer, sent: &[Envelope]| {
            for envelope in sent.iter().filter(|envelope| envelope.message == Message::BarrierRequest) {
                switch.barrier(envelope.xid);
            }
        };
        switch.set(route, to(1));
        let sent = send(&mut switch, &mut next);
        confirm(&mut switch, &sent);
        switch.set(last_hop, to(2));
        let sent = send(&mut switch, &mut next);
        switch.refused(sent[0].xid, ErrorKind::FlowModFailed(FlowModFailed::TableFull)).expect("it was sent");
        confirm(&mut switch, &sent);
        switch.set(route, to(3));
        let sent = send(&mut switch, &mut next);
        assert_eq!(kinds(&sent), "d|r|", "one goes, the other one comes");
        assert!(switch.desired.contains_key(&route) && !switch.installed.contains_key(&route));
        confirm(&mut switch, &sent);
        switch.set(last_hop, None);
        let sent = send(&mut switch, &mut next);
        confirm(&mut switch, &sent);
        let later = send(&mut switch, &mut next);
        assert_eq!(switch.installed.get(&route), switch.desired.get(&route), "{} {}", kinds(&sent), kinds(&later));
    }
}
