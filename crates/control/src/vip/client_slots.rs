//! Client slots and the members they are assigned to: how slots migrate without breaking
//! connections.
//!
//! A switch cannot distinguish a packet of an established connection from the first packet of a new
//! one. While a slot migrates, its packets therefore go to the controller, which can (Wang,
//! Butnariu, Rexford: "OpenFlow-based server load balancing gone wild", Hot-ICE 2011): opening
//! segments get the new member, all others the old one, and each connection gets its own rules. A
//! connection without packets for the idle timeout of the service has ended. So after that time all
//! established ones have their rules, and the rule of the slot may lead to the new member.

use core::net::Ipv4Addr;
use net::Time;

use super::slot_rules::ClientSlot;
use super::spec::MemberId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlotState {
    /// No member: its packets go to the controller.
    Unassigned,
    /// A member, without the controller.
    Assigned(MemberId),
    /// Migrating away from a member, until a time. `is_found`: known only from rules of a previous
    /// controller instance.
    Migrating { from: MemberId, until: Time, is_found: bool },
}

impl SlotState {
    /// Returns the member with connections in this slot without separate rules.
    pub(super) fn current_member(self) -> Option<MemberId> {
        match self {
            SlotState::Unassigned => None,
            SlotState::Assigned(member) | SlotState::Migrating { from: member, .. } => Some(member),
        }
    }
}

/// Fate of the connections of a member whose slot is assigned to another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// They stay, or are reset.
    Kept,
    /// Their next packet goes to the new member.
    Moved,
}

pub(super) trait MemberProperties {
    fn is_up(&self, member: MemberId) -> bool;
    fn fate(&self, member: MemberId) -> Fate;
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SlotTable {
    slots: Vec<SlotState>,
    /// Desired member of each slot. Fewer (a power of two) than slots while the number of slots
    /// shrinks; empty if no slot is desired.
    targets: Vec<MemberId>,
    /// Whether any slot was found on switches.
    pub(super) are_found: bool,
}

impl SlotTable {
    pub(super) fn slots(&self) -> impl Iterator<Item = (ClientSlot, SlotState)> {
        let count = self.slots.len();
        self.slots.iter().enumerate().map(move |(index, slot)| (ClientSlot { index, count }, *slot))
    }
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| *slot == SlotState::Unassigned)
    }
    pub(super) fn of(&self, client: Ipv4Addr) -> (SlotState, Option<MemberId>) {
        if self.slots.is_empty() {
            return (SlotState::Unassigned, None);
        }
        let index = ClientSlot::of(client, self.slots.len()).index;
        (self.slots[index], self.target(index))
    }
    /// Returns whether a member may have connections that use slot rules.
    pub(super) fn has(&self, member: MemberId) -> bool {
        self.slots.iter().any(|slot| slot.current_member() == Some(member))
    }
    pub(super) fn count_of(&self, member: MemberId) -> usize {
        self.slots.iter().filter(|slot| **slot == SlotState::Assigned(member)).count()
    }
    pub(super) fn moving(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, SlotState::Migrating { .. })).count()
    }
    pub(super) fn next_due(&self) -> Option<Time> {
        let until = |slot: &SlotState| if let SlotState::Migrating { until, .. } = slot { Some(*until) } else { None };
        self.slots.iter().filter_map(until).min()
    }

    fn target(&self, index: usize) -> Option<MemberId> {
        self.targets.get(index & self.targets.len().wrapping_sub(1)).copied()
    }

    /// Records a slot found on a switch after a restart, unless better information is known.
    pub(super) fn find(&mut self, bucket: ClientSlot, slot: SlotState) {
        if self.slots.is_empty() {
            self.slots = vec![SlotState::Unassigned; bucket.count];
        }
        if self.slots.len() != bucket.count || bucket.index >= bucket.count {
            return;
        }
        let known = &mut self.slots[bucket.index];
        // A switch is informed of the end of a migration long after all switches were informed of
        // its begin.
        let is_less = match *known {
            SlotState::Unassigned => true,
            SlotState::Migrating { is_found, .. } => is_found && matches!(slot, SlotState::Assigned(_)),
            SlotState::Assigned(_) => false,
        };
        if is_less {
            (*known, self.are_found) = (slot, true);
        }
    }

    /// Advances towards the desired state: `count` slots (0 for none) with these members. A
    /// migration takes `lasts`.
    pub(super) fn follow(
        &mut self,
        now: Time,
        count: usize,
        targets: Vec<MemberId>,
        lasts: Time,
        facts: &impl MemberProperties,
    ) {
        debug_assert!(targets.is_empty() || targets.len() == count, "one for each bucket");
        self.targets = targets;
        if self.slots.is_empty() {
            self.slots = vec![SlotState::Unassigned; count];
        }
        while self.slots.len() < count {
            // Two of the new slots have the clients of an old one.
            self.slots.extend_from_within(..);
        }
        for index in 0..self.slots.len() {
            self.slots[index] = next(self.slots[index], self.target(index), now, lasts, facts);
        }
        // Merge slots once those that become one have the same member.
        let no_migration = self.moving() == 0;
        if no_migration && self.slots.len() > count && self.are_folded(count) {
            self.slots.truncate(count);
        }
    }

    fn are_folded(&self, count: usize) -> bool {
        count == 0 || self.slots.iter().enumerate().all(|(index, slot)| *slot == self.slots[index & (count - 1)])
    }
}

fn next(slot: SlotState, target: Option<MemberId>, now: Time, lasts: Time, facts: &impl MemberProperties) -> SlotState {
    let is_target = |member: MemberId| Some(member) == target;
    // The desired member may not be up yet; it has the slot already only if a previous controller
    // instance assigned it.
    let serving = target.filter(|target| facts.is_up(*target)).map_or(SlotState::Unassigned, SlotState::Assigned);
    match slot {
        SlotState::Unassigned => serving,
        SlotState::Assigned(member) if is_target(member) => slot,
        SlotState::Assigned(from) if facts.fate(from) == Fate::Kept => {
            SlotState::Migrating { from, until: now.saturating_add(lasts), is_found: false }
        }
        SlotState::Assigned(_) => serving,
        // Back to the old member: connections opened meanwhile have their own rules.
        SlotState::Migrating { from, .. } if is_target(from) => SlotState::Assigned(from),
        SlotState::Migrating { from, until, .. } if facts.fate(from) == Fate::Moved || until <= now => serving,
        SlotState::Migrating { .. } => slot,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);
    const LASTS: Time = Time::from_s(30);

    struct Known {
        up: BTreeSet<MemberId>,
        fate: Fate,
    }
    impl MemberProperties for Known {
        fn is_up(&self, member: MemberId) -> bool {
            self.up.contains(&member)
        }
        fn fate(&self, _: MemberId) -> Fate {
            self.fate
        }
    }
    fn known(up: &[MemberId], fate: Fate) -> Known {
        Known { up: up.iter().copied().collect(), fate }
    }
    fn slots(buckets: &SlotTable) -> Vec<SlotState> {
        buckets.slots().map(|(_, slot)| slot).collect()
    }
    fn moving(from: MemberId, until: u64) -> SlotState {
        SlotState::Migrating { from, until: Time::from_s(until), is_found: false }
    }

    #[test]
    fn slot_migrates_for_the_idle_timeout() {
        let (mut buckets, all) = (SlotTable::default(), known(&[A, B], Fate::Kept));
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &all);
        assert_eq!(slots(&buckets), [SlotState::Assigned(A), SlotState::Assigned(B)]);
        buckets.follow(Time::from_s(1), 2, vec![B, B], LASTS, &all);
        assert_eq!(slots(&buckets), [moving(A, 31), SlotState::Assigned(B)]);
        assert_eq!((buckets.next_due(), buckets.has(A), buckets.count_of(A)), (Some(Time::from_s(31)), true, 0));
        buckets.follow(Time::from_s(30), 2, vec![B, B], LASTS, &all);
        assert_eq!(buckets.moving(), 1, "later changes do not extend it");
        buckets.follow(Time::from_s(31), 2, vec![B, B], LASTS, &all);
        assert_eq!((slots(&buckets), buckets.has(A)), (vec![SlotState::Assigned(B); 2], false));
    }

    #[test]
    fn slot_returns_to_its_member_and_moves_at_once_if_configured() {
        let (mut buckets, all) = (SlotTable::default(), known(&[A, B], Fate::Kept));
        for targets in [[A, A], [B, B], [A, A]] {
            buckets.follow(Time::ZERO, 2, targets.to_vec(), LASTS, &all);
        }
        assert_eq!(slots(&buckets), [SlotState::Assigned(A); 2]);
        buckets.follow(Time::ZERO, 2, vec![B, B], LASTS, &known(&[B], Fate::Moved));
        assert_eq!(slots(&buckets), [SlotState::Assigned(B); 2]);
        buckets.follow(Time::ZERO, 2, vec![A, A], LASTS, &all);
        buckets.follow(Time::from_s(1), 2, vec![A, A], LASTS, &known(&[A], Fate::Moved));
        assert_eq!(slots(&buckets), [SlotState::Assigned(A); 2], "also in the middle");
        buckets.follow(Time::from_s(1), 2, Vec::new(), LASTS, &known(&[], Fate::Moved));
        assert!(buckets.is_empty());
    }

    #[test]
    fn member_that_is_down_gets_no_slot() {
        let mut buckets = SlotTable::default();
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &known(&[B], Fate::Kept));
        assert_eq!(slots(&buckets), [SlotState::Unassigned, SlotState::Assigned(B)]);
        assert_eq!(buckets.of(Ipv4Addr::new(10, 0, 0, 2)), (SlotState::Unassigned, Some(A)));
        // A member assigned by a previous controller instance keeps the slot until more is known.
        buckets.find(ClientSlot { index: 0, count: 2 }, SlotState::Assigned(A));
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &known(&[B], Fate::Kept));
        assert_eq!(slots(&buckets), [SlotState::Assigned(A), SlotState::Assigned(B)]);
    }

    #[test]
    fn found_slots_count_until_more_is_known() {
        let mut buckets = SlotTable::default();
        let at = |index, count| ClientSlot { index, count };
        let found = |until| SlotState::Migrating { from: A, until: Time::from_s(until), is_found: true };
        buckets.find(at(1, 2), found(9));
        buckets.find(at(1, 2), SlotState::Assigned(B));
        assert_eq!(
            slots(&buckets),
            [SlotState::Unassigned, SlotState::Assigned(B)],
            "one switch has the rule from the end of the migration"
        );
        buckets.find(at(1, 2), SlotState::Assigned(A));
        buckets.find(at(1, 2), found(9));
        buckets.find(at(3, 4), SlotState::Assigned(A));
        assert_eq!(slots(&buckets), [SlotState::Unassigned, SlotState::Assigned(B)]);
        buckets.follow(Time::ZERO, 2, vec![A, A], LASTS, &known(&[A], Fate::Kept));
        buckets.find(at(1, 2), SlotState::Assigned(A));
        assert_eq!(slots(&buckets)[1], moving(B, 30), "a migration of this instance is known");
    }

    /// Two slots of a doubled table have the clients of one; slots that are merged migrate to one
    /// member first.
    #[test]
    fn resized_slot_table_keeps_members() {
        let (mut buckets, all) = (SlotTable::default(), known(&[A, B], Fate::Kept));
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &all);
        buckets.follow(Time::ZERO, 4, vec![A, B, A, B], LASTS, &all);
        assert_eq!(slots(&buckets), [A, B, A, B].map(SlotState::Assigned));
        buckets.follow(Time::ZERO, 4, vec![A, B, B, A], LASTS, &all);
        buckets.follow(Time::from_s(30), 4, vec![A, B, B, A], LASTS, &all);
        assert_eq!(slots(&buckets), [A, B, B, A].map(SlotState::Assigned));
        buckets.follow(Time::from_s(30), 2, vec![A, A], LASTS, &all);
        assert_eq!(slots(&buckets), [SlotState::Assigned(A), moving(B, 60), moving(B, 60), SlotState::Assigned(A)]);
        assert_eq!(buckets.of(Ipv4Addr::new(10, 0, 0, 6)), (moving(B, 60), Some(A)));
        buckets.follow(Time::from_s(60), 2, vec![A, A], LASTS, &all);
        assert_eq!(slots(&buckets), [SlotState::Assigned(A); 2]);
        buckets.follow(Time::from_s(60), 0, Vec::new(), LASTS, &all);
        assert_eq!(slots(&buckets), [moving(A, 90); 2]);
        buckets.follow(Time::from_s(90), 0, Vec::new(), LASTS, &all);
        assert!(buckets.slots().next().is_none());
    }
}
