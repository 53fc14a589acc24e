//! Feedback about paths to the sender's edge (the Congestion-From-Leaf table of CONGA, SIGCOMM
//! 2014, section 3.3). The edge where packets leave the fabric stores the value they met on each
//! path, and writes one entry at a time into the overlay header of packets going back.
//!
//! Entries are sent in turn, changed ones first. Entries older than the ageing time are not sent:
//! an unused path would otherwise keep its last value for as long as packets go back.

use net::Time;
use net::routes::ClassIx;

use super::paths::{PathIndex, PathSets};
use crate::dataplane::{Arrival, EdgeEnv};

/// Packs an entry into the 24 bits of an overlay header; 0 is the header without one.
#[inline]
pub fn pack(path: u16, value: u8) -> u32 {
    (u32::from(path) + 1) << 8 | u32::from(value)
}

/// Unpacks the entry of an overlay header; returns `None` for a header without one.
#[inline]
pub fn unpack(tag: u32) -> Option<(u16, u8)> {
    let path = (tag >> 8 & 0xffff).checked_sub(1)?;
    Some((path as u16, tag as u8))
}

/// Values that packets from other edges met, by class and path.
#[derive(Clone, Debug)]
pub struct CongestionFromLeaf {
    index: PathIndex,
    values: Vec<u16>,
    noted_ps: Vec<u64>,
    known: PathSets,
    changed: PathSets,
    next: Vec<u16>,
    age_ps: u64,
}

impl CongestionFromLeaf {
    /// Makes an empty table; entries older than `age` are not sent.
    pub fn new(env: &EdgeEnv<'_>, age: Time) -> CongestionFromLeaf {
        CongestionFromLeaf::with_index(PathIndex::inward(env), age)
    }

    fn with_index(index: PathIndex, age: Time) -> CongestionFromLeaf {
        CongestionFromLeaf {
            values: vec![0; index.total()],
            noted_ps: vec![0; index.total()],
            known: PathSets::new(&index),
            changed: PathSets::new(&index),
            next: vec![0; index.class_count()],
            age_ps: age.as_ps(),
            index,
        }
    }

    /// Records that a packet from `from` met `value` on `path`. Invalid path numbers are ignored.
    #[inline]
    pub fn note(&mut self, from: ClassIx, path: u16, value: u16, now: Time) {
        let Some(at) = self.index.get(from, path) else { return };
        if self.values[at] != value || !self.known.contains(from, path) {
            self.known.insert(from, path);
            self.changed.insert(from, path);
        }
        self.values[at] = value;
        self.noted_ps[at] = now.as_ps();
    }

    /// Returns the path and value to send to `to` now.
    #[inline]
    pub fn tell(&mut self, to: ClassIx, now: Time) -> Option<(u16, u16)> {
        let start = self.next[to.0 as usize];
        loop {
            let path = self.changed.next(to, start).or_else(|| self.known.next(to, start))?;
            self.changed.remove(to, path);
            let at = self.index.range(to).start + usize::from(path);
            if now.as_ps().saturating_sub(self.noted_ps[at]) > self.age_ps {
                self.known.remove(to, path);
                continue;
            }
            self.next[to.0 as usize] = path + 1;
            return Some((path, self.values[at]));
        }
    }
}

/// Utilisations of paths as CONGA exchanges them: this edge returns those that packets from other
/// edges met, and stores those of paths from here that far edges return (To-Leaf).
pub struct Utilisations {
    age_ps: u64,
    index: PathIndex,
    /// The last utilisation returned for each path from here, and its time.
    returned: Vec<u8>,
    returned_ps: Vec<u64>,
    relay: CongestionFromLeaf,
}

impl Utilisations {
    /// Makes empty tables; entries older than `age` are not sent, and count as 0.
    pub fn new(env: &EdgeEnv<'_>, age: Time) -> Utilisations {
        let index = PathIndex::outward(env);
        Utilisations {
            age_ps: age.as_ps(),
            returned: vec![0; index.total()],
            returned_ps: vec![0; index.total()],
            relay: CongestionFromLeaf::new(env, age),
            index,
        }
    }

    /// Returns the utilisations of the paths from here to `to`, by path.
    #[inline]
    pub fn of(&self, now: Time, to: ClassIx) -> impl Fn(u16) -> u8 {
        let range = self.index.range(to);
        let (returned, returned_ps) = (&self.returned[range.clone()], &self.returned_ps[range]);
        move |path| {
            let path = usize::from(path);
            let is_fresh = now.as_ps().saturating_sub(returned_ps[path]) <= self.age_ps;
            if is_fresh { returned[path] } else { 0 }
        }
    }

    /// Returns the overlay header of a packet to `to`.
    #[inline]
    pub fn header(&mut self, now: Time, to: ClassIx) -> u32 {
        self.relay.tell(to, now).map_or(0, |(path, utilisation)| pack(path, utilisation as u8))
    }

    /// Reads a packet that leaves the fabric.
    #[inline]
    pub fn arrived(&mut self, now: Time, arrival: &Arrival) {
        self.relay.note(arrival.from, arrival.path, u16::from(arrival.utilisation), now);
        if let Some((path, utilisation)) = unpack(arrival.tag)
            && let Some(at) = self.index.get(arrival.from, path)
        {
            self.returned[at] = utilisation;
            self.returned_ps[at] = now.as_ps();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: ClassIx = ClassIx(1);
    const AGE: Time = Time::from_ms(10);

    fn relay() -> CongestionFromLeaf {
        CongestionFromLeaf::with_index(PathIndex::new([0, 4]), AGE)
    }

    #[test]
    fn headers_hold_any_entry_or_none() {
        assert_eq!(unpack(0), None);
        for (path, value) in [(0, 0), (0, 255), (65_534, 0), (65_534, 255), (7, 5)] {
            let tag = pack(path, value);
            assert!(tag > 0 && tag < 1 << 24);
            assert_eq!(unpack(tag), Some((path, value)));
        }
    }

    #[test]
    fn entries_go_out_in_turn_and_changed_ones_first() {
        let (mut relay, now) = (relay(), Time::ZERO);
        assert_eq!(relay.tell(FROM, now), None);
        for path in [0, 1, 3] {
            relay.note(FROM, path, 10 + path, now);
        }
        let told = |relay: &mut CongestionFromLeaf| relay.tell(FROM, now).map(|(path, _)| path).unwrap();
        let first: Vec<u16> = (0..7).map(|_| told(&mut relay)).collect();
        assert_eq!(first, [0, 1, 3, 0, 1, 3, 0]);
        relay.note(FROM, 1, 11, now);
        relay.note(FROM, 3, 14, now);
        relay.note(FROM, 0, 10, now);
        assert_eq!(relay.tell(FROM, now), Some((3, 14)), "only 3 changed");
        assert_eq!(told(&mut relay), 0, "then the turn goes on");
    }

    #[test]
    fn expired_entries_are_not_sent_until_recorded_again() {
        let mut relay = relay();
        relay.note(FROM, 2, 5, Time::ZERO);
        relay.note(FROM, 0, 1, AGE);
        assert_eq!(relay.tell(FROM, AGE), Some((0, 1)));
        assert_eq!(relay.tell(FROM, AGE), Some((2, 5)));
        let later = AGE.saturating_add(Time::from_ps(1));
        assert_eq!([relay.tell(FROM, later), relay.tell(FROM, later)], [Some((0, 1)); 2]);
        relay.note(FROM, 2, 5, later);
        assert_eq!(relay.tell(FROM, later), Some((2, 5)));
    }

    #[test]
    fn invalid_path_numbers_are_ignored() {
        let mut relay = relay();
        relay.note(FROM, 4, 1, Time::ZERO);
        relay.note(ClassIx(0), 0, 1, Time::ZERO);
        relay.note(ClassIx(7), 0, 1, Time::ZERO);
        assert_eq!([relay.tell(FROM, Time::ZERO), relay.tell(ClassIx(0), Time::ZERO)], [None; 2]);
    }
}
