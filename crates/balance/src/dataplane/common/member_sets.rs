//! State of a switch by equal-cost set: destinations with the same next hops share it.

use net::LinkIx;
use net::routes::ClassIx;

use crate::dataplane::NextHops;

/// Marks the absence of a set.
const NONE: u32 = u32::MAX;

/// A `T` for each set of next hops. Sets remain when failures change the next hops of a destination,
/// which then has another set.
pub struct MemberSets<T> {
    /// Set of the last packet of each class.
    of_class: Vec<u32>,
    sets: Vec<MemberSet<T>>,
}

struct MemberSet<T> {
    links: Box<[LinkIx]>,
    weights: Box<[u32]>,
    state: T,
}

impl<T> MemberSets<T> {
    /// Makes an empty collection for this number of destination classes.
    pub fn new(class_count: usize) -> MemberSets<T> {
        MemberSets { of_class: vec![NONE; class_count], sets: Vec::new() }
    }

    /// Returns the state of the set with these members; `make` creates it at its first use.
    #[inline]
    pub fn of(&mut self, class: ClassIx, members: NextHops<'_>, make: impl FnOnce() -> T) -> &mut T {
        let is_same = |set: &MemberSet<T>| *set.links == *members.links && *set.weights == *members.weights;
        let last = &mut self.of_class[class.0 as usize];
        if !self.sets.get(*last as usize).is_some_and(is_same) {
            *last = self.sets.iter().position(is_same).unwrap_or(self.sets.len()) as u32;
        }
        if *last as usize == self.sets.len() {
            let (links, weights) = (members.links.into(), members.weights.into());
            self.sets.push(MemberSet { links, weights, state: make() });
        }
        &mut self.sets[*last as usize].state
    }

    /// Returns the state that the last packet of a class used; its members may have changed since.
    #[inline]
    pub fn last_of(&self, class: ClassIx) -> Option<&T> {
        self.sets.get(self.of_class[class.0 as usize] as usize).map(|set| &set.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_with_the_same_members_share_their_state() {
        let mut sets: MemberSets<u32> = MemberSets::new(3);
        let links = [LinkIx(1), LinkIx(3), LinkIx(5)];
        let members = |count: usize| NextHops { links: &links[..count], weights: &[] };
        *sets.of(ClassIx(0), members(3), || 1) += 10;
        assert_eq!(*sets.of(ClassIx(1), members(3), || 2), 11);
        assert_eq!(*sets.of(ClassIx(1), members(2), || 3), 3, "after a failure");
        assert_eq!(*sets.of(ClassIx(0), members(3), || 4), 11);
        assert_eq!(*sets.of(ClassIx(1), members(3), || 5), 11, "and after its end");
        let weighted = NextHops { links: &links, weights: &[1, 1, 2] };
        assert_eq!(*sets.of(ClassIx(1), weighted, || 6), 6);
    }
}
