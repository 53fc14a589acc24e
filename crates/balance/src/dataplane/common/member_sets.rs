//! State of a switch by equal-cost set: destinations with the same next hops share it.

use net::LinkIx;
use net::routes::ClassIx;

use crate::dataplane::NextHops;

/// Marks the absence of a set.
const NONE: u32 = u32::MAX;

/// A `T` for each set of next hops. Sets remain when failures change the next hops of a destination,
/// which then has another set.
pub struct MemberSets<T> {
    /// Set of the last packet, and of the last packet of each class.
    recent: u32,
    of_class: Vec<u32>,
    sets: Vec<MemberSet<T>>,
}

struct MemberSet<T> {
    links: Box<[LinkIx]>,
    weights: Box<[u32]>,
    state: T,
}

impl<T> MemberSet<T> {
    #[inline]
    fn has(&self, members: NextHops<'_>) -> bool {
        // Most sets have no weights: the comparison of empty slices would call a library function.
        let has_weights = self.weights.len() == members.weights.len()
            && (members.weights.is_empty() || *self.weights == *members.weights);
        has_weights && *self.links == *members.links
    }
}

impl<T> MemberSets<T> {
    /// Makes an empty collection for this number of destination classes.
    pub fn new(class_count: usize) -> MemberSets<T> {
        MemberSets { recent: NONE, of_class: vec![NONE; class_count], sets: Vec::new() }
    }

    /// Returns the state of the set with these members; `make` creates it at its first use.
    #[inline]
    pub fn of(&mut self, class: ClassIx, members: NextHops<'_>, make: impl FnOnce() -> T) -> &mut T {
        // Most switches have one set, so that this saves a wait for memory.
        let mut at = self.recent as usize;
        if !self.sets.get(at).is_some_and(|set| set.has(members)) {
            at = self.of_class[class.0 as usize] as usize;
            if !self.sets.get(at).is_some_and(|set| set.has(members)) {
                at = self.find_or_make(class, members, make);
            }
            self.recent = at as u32;
        }
        &mut self.sets[at].state
    }

    #[cold]
    fn find_or_make(&mut self, class: ClassIx, members: NextHops<'_>, make: impl FnOnce() -> T) -> usize {
        let at = self.sets.iter().position(|set| set.has(members)).unwrap_or(self.sets.len());
        if at == self.sets.len() {
            let (links, weights) = (members.links.into(), members.weights.into());
            self.sets.push(MemberSet { links, weights, state: make() });
        }
        self.of_class[class.0 as usize] = at as u32;
        at
    }

    /// Returns the state that the next packet with these members will probably use.
    #[inline]
    pub fn foresee(&self, class: ClassIx, members: NextHops<'_>) -> Option<&T> {
        let recent = self.sets.get(self.recent as usize).filter(|set| set.has(members));
        let set = recent.or_else(|| self.sets.get(self.of_class[class.0 as usize] as usize));
        set.map(|set| &set.state)
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
