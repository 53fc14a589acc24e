//! Buckets of clients and who serves them: how they change without connections changing their members.
//!
//! A switch cannot tell a packet of a connection that stands from the first one of another. While a bucket moves, its packets
//! therefore come to the controller, which can (Wang, Butnariu, Rexford: "OpenFlow-based server load balancing gone wild", Hot-ICE
//! 2011): those that open connections get the new member, all others the one before, and both get rules of their own, which
//! stay. A connection that has said nothing for as long as the service lets connections be silent is over; so after that long
//! all that stand have their rules, and the bucket's may lead to the new member.

use core::net::Ipv4Addr;
use net::Time;

use super::bucket_rules::Bucket;
use super::spec::MemberId;

/// Who serves a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// Nobody: its packets come to the controller as those of other services do.
    Nobody,
    /// A member, without the controller.
    Serving(MemberId),
    /// It moves away from a member, until then. Whether that is known by rules of an earlier life only.
    Moving { from: MemberId, until: Time, is_found: bool },
}

impl Slot {
    /// Who has connections of it that have no rules of their own.
    pub(super) fn holder(self) -> Option<MemberId> {
        match self {
            Slot::Nobody => None,
            Slot::Serving(member) | Slot::Moving { from: member, .. } => Some(member),
        }
    }
}

/// What becomes of the connections of a member whose bucket gets another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// They stay, or are told that they are over.
    Minded,
    /// Their next packet goes to whoever serves then.
    Moved,
}

/// What is to be known of members.
pub(super) trait Facts {
    /// Whether it can serve.
    fn is_up(&self, member: MemberId) -> bool;
    /// What becomes of its connections.
    fn fate(&self, member: MemberId) -> Fate;
}

/// The buckets of a service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Buckets {
    slots: Vec<Slot>,
    /// Who is to have each; fewer (a power of two) than there are slots while these become fewer, none where nobody is to have any.
    targets: Vec<MemberId>,
    /// Whether any were found on switches.
    pub(super) are_found: bool,
}

impl Buckets {
    pub(super) fn slots(&self) -> impl Iterator<Item = (Bucket, Slot)> {
        let count = self.slots.len();
        self.slots.iter().enumerate().map(move |(index, slot)| (Bucket { index, count }, *slot))
    }
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| *slot == Slot::Nobody)
    }
    /// The bucket of a client, and who is to serve it.
    pub(super) fn of(&self, client: Ipv4Addr) -> (Slot, Option<MemberId>) {
        if self.slots.is_empty() {
            return (Slot::Nobody, None);
        }
        let index = Bucket::of(client, self.slots.len()).index;
        (self.slots[index], self.target(index))
    }
    /// Whether a member may have connections that go by the rules of buckets.
    pub(super) fn has(&self, member: MemberId) -> bool {
        self.slots.iter().any(|slot| slot.holder() == Some(member))
    }
    /// How many a member serves.
    pub(super) fn count_of(&self, member: MemberId) -> usize {
        self.slots.iter().filter(|slot| **slot == Slot::Serving(member)).count()
    }
    /// How many are moving.
    pub(super) fn moving(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Slot::Moving { .. })).count()
    }
    /// When the next one will have moved.
    pub(super) fn next_due(&self) -> Option<Time> {
        let until = |slot: &Slot| if let Slot::Moving { until, .. } = slot { Some(*until) } else { None };
        self.slots.iter().filter_map(until).min()
    }

    fn target(&self, index: usize) -> Option<MemberId> {
        self.targets.get(index & self.targets.len().wrapping_sub(1)).copied()
    }

    /// What a switch has of an earlier life, if that is not known better.
    pub(super) fn find(&mut self, bucket: Bucket, slot: Slot) {
        if self.slots.is_empty() {
            self.slots = vec![Slot::Nobody; bucket.count];
        }
        if self.slots.len() != bucket.count || bucket.index >= bucket.count {
            return;
        }
        let known = &mut self.slots[bucket.index];
        // Where one switch had been told that a move is over, all had been told that there is one, long before.
        let is_less = match *known {
            Slot::Nobody => true,
            Slot::Moving { is_found, .. } => is_found && matches!(slot, Slot::Serving(_)),
            Slot::Serving(_) => false,
        };
        if is_less {
            (*known, self.are_found) = (slot, true);
        }
    }

    /// Goes on towards what is wanted: `count` buckets (0 for none) with these members. A move takes `lasts`.
    pub(super) fn follow(&mut self, now: Time, count: usize, targets: Vec<MemberId>, lasts: Time, facts: &impl Facts) {
        debug_assert!(targets.is_empty() || targets.len() == count, "one for each bucket");
        self.targets = targets;
        if self.slots.is_empty() {
            self.slots = vec![Slot::Nobody; count];
        }
        while self.slots.len() < count {
            // Two of the new ones have the clients of an old one.
            self.slots.extend_from_within(..);
        }
        for index in 0..self.slots.len() {
            self.slots[index] = next(self.slots[index], self.target(index), now, lasts, facts);
        }
        // Fewer, once those that become one have one member.
        let is_calm = self.moving() == 0;
        if is_calm && self.slots.len() > count && self.are_folded(count) {
            self.slots.truncate(count);
        }
    }

    fn are_folded(&self, count: usize) -> bool {
        count == 0 || self.slots.iter().enumerate().all(|(index, slot)| *slot == self.slots[index & (count - 1)])
    }
}

/// What a bucket is next, which `target` is to have.
fn next(slot: Slot, target: Option<MemberId>, now: Time, lasts: Time, facts: &impl Facts) -> Slot {
    let is_target = |member: MemberId| Some(member) == target;
    // Whoever is to have it may be waited for, and has it already only if an earlier life saw to that.
    let serving = target.filter(|target| facts.is_up(*target)).map_or(Slot::Nobody, Slot::Serving);
    match slot {
        Slot::Nobody => serving,
        Slot::Serving(member) if is_target(member) => slot,
        Slot::Serving(from) if facts.fate(from) == Fate::Minded => {
            Slot::Moving { from, until: now.saturating_add(lasts), is_found: false }
        }
        Slot::Serving(_) => serving,
        // It goes back: those that were opened meanwhile have rules of their own.
        Slot::Moving { from, .. } if is_target(from) => Slot::Serving(from),
        Slot::Moving { from, until, .. } if facts.fate(from) == Fate::Moved || until <= now => serving,
        Slot::Moving { .. } => slot,
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
    impl Facts for Known {
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
    fn slots(buckets: &Buckets) -> Vec<Slot> {
        buckets.slots().map(|(_, slot)| slot).collect()
    }
    fn moving(from: MemberId, until: u64) -> Slot {
        Slot::Moving { from, until: Time::from_s(until), is_found: false }
    }

    #[test]
    fn a_bucket_moves_for_as_long_as_connections_may_be_silent() {
        let (mut buckets, all) = (Buckets::default(), known(&[A, B], Fate::Minded));
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &all);
        assert_eq!(slots(&buckets), [Slot::Serving(A), Slot::Serving(B)]);
        buckets.follow(Time::from_s(1), 2, vec![B, B], LASTS, &all);
        assert_eq!(slots(&buckets), [moving(A, 31), Slot::Serving(B)]);
        assert_eq!((buckets.next_due(), buckets.has(A), buckets.count_of(A)), (Some(Time::from_s(31)), true, 0));
        buckets.follow(Time::from_s(30), 2, vec![B, B], LASTS, &all);
        assert_eq!(buckets.moving(), 1, "later changes do not make it longer");
        buckets.follow(Time::from_s(31), 2, vec![B, B], LASTS, &all);
        assert_eq!((slots(&buckets), buckets.has(A)), (vec![Slot::Serving(B); 2], false));
    }

    #[test]
    fn a_bucket_may_go_back_and_who_is_moved_is_moved_at_once() {
        let (mut buckets, all) = (Buckets::default(), known(&[A, B], Fate::Minded));
        for targets in [[A, A], [B, B], [A, A]] {
            buckets.follow(Time::ZERO, 2, targets.to_vec(), LASTS, &all);
        }
        assert_eq!(slots(&buckets), [Slot::Serving(A); 2]);
        buckets.follow(Time::ZERO, 2, vec![B, B], LASTS, &known(&[B], Fate::Moved));
        assert_eq!(slots(&buckets), [Slot::Serving(B); 2]);
        buckets.follow(Time::ZERO, 2, vec![A, A], LASTS, &all);
        buckets.follow(Time::from_s(1), 2, vec![A, A], LASTS, &known(&[A], Fate::Moved));
        assert_eq!(slots(&buckets), [Slot::Serving(A); 2], "also in the middle");
        buckets.follow(Time::from_s(1), 2, Vec::new(), LASTS, &known(&[], Fate::Moved));
        assert!(buckets.is_empty());
    }

    #[test]
    fn nobody_gets_a_bucket_before_being_up() {
        let mut buckets = Buckets::default();
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &known(&[B], Fate::Minded));
        assert_eq!(slots(&buckets), [Slot::Nobody, Slot::Serving(B)]);
        assert_eq!(buckets.of(Ipv4Addr::new(10, 0, 0, 2)), (Slot::Nobody, Some(A)));
        // But who had it in an earlier life keeps it until it is known better.
        buckets.find(Bucket { index: 0, count: 2 }, Slot::Serving(A));
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &known(&[B], Fate::Minded));
        assert_eq!(slots(&buckets), [Slot::Serving(A), Slot::Serving(B)]);
    }

    #[test]
    fn what_is_found_is_believed_if_nothing_better_is_known() {
        let mut buckets = Buckets::default();
        let at = |index, count| Bucket { index, count };
        let found = |until| Slot::Moving { from: A, until: Time::from_s(until), is_found: true };
        buckets.find(at(1, 2), found(9));
        buckets.find(at(1, 2), Slot::Serving(B));
        assert_eq!(slots(&buckets), [Slot::Nobody, Slot::Serving(B)], "one switch has been told that it has moved");
        buckets.find(at(1, 2), Slot::Serving(A));
        buckets.find(at(1, 2), found(9));
        buckets.find(at(3, 4), Slot::Serving(A));
        assert_eq!(slots(&buckets), [Slot::Nobody, Slot::Serving(B)]);
        buckets.follow(Time::ZERO, 2, vec![A, A], LASTS, &known(&[A], Fate::Minded));
        buckets.find(at(1, 2), Slot::Serving(A));
        assert_eq!(slots(&buckets)[1], moving(B, 30), "a move of this life is known");
    }

    /// Two of twice as many have the clients of one; those that become one move to one member first.
    #[test]
    fn more_or_fewer_buckets_move_nobody_unasked() {
        let (mut buckets, all) = (Buckets::default(), known(&[A, B], Fate::Minded));
        buckets.follow(Time::ZERO, 2, vec![A, B], LASTS, &all);
        buckets.follow(Time::ZERO, 4, vec![A, B, A, B], LASTS, &all);
        assert_eq!(slots(&buckets), [A, B, A, B].map(Slot::Serving));
        buckets.follow(Time::ZERO, 4, vec![A, B, B, A], LASTS, &all);
        buckets.follow(Time::from_s(30), 4, vec![A, B, B, A], LASTS, &all);
        assert_eq!(slots(&buckets), [A, B, B, A].map(Slot::Serving));
        buckets.follow(Time::from_s(30), 2, vec![A, A], LASTS, &all);
        assert_eq!(slots(&buckets), [Slot::Serving(A), moving(B, 60), moving(B, 60), Slot::Serving(A)]);
        assert_eq!(buckets.of(Ipv4Addr::new(10, 0, 0, 6)), (moving(B, 60), Some(A)));
        buckets.follow(Time::from_s(60), 2, vec![A, A], LASTS, &all);
        assert_eq!(slots(&buckets), [Slot::Serving(A); 2]);
        buckets.follow(Time::from_s(60), 0, Vec::new(), LASTS, &all);
        assert_eq!(slots(&buckets), [moving(A, 90); 2]);
        buckets.follow(Time::from_s(90), 0, Vec::new(), LASTS, &all);
        assert!(buckets.slots().next().is_none());
    }
}
