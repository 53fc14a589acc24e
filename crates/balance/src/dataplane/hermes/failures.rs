//! Blackholes of single (source, destination) pairs: timeouts without any acknowledgement.

use net::{HostIx, Time};

use crate::dataplane::EdgeEnv;

/// Suspicions by pair of a host here and any host. A pair without any takes one lookup.
pub(super) struct Holes {
    /// Number of each host among those of this edge; [`ELSEWHERE`] for others.
    local: Vec<u16>,
    /// First suspicion of a pair, by local number × number of hosts + destination, or [`NONE`].
    first: Vec<u32>,
    suspicions: Vec<Suspicion>,
    /// First entry of the list of unused suspicions.
    free: u32,
    in_use: u32,
    timeouts: u64,
    failed_for_ps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    path: u16,
    timeouts: u64,
    /// Time until which this pair avoids the path, ps.
    hole_until: u64,
    next: u32,
}

const ELSEWHERE: u16 = u16::MAX;
/// Zero, so that pairs without suspicions use no memory; suspicions are numbered from 1.
const NONE: u32 = 0;

impl Holes {
    /// Makes an empty table. More than `timeouts` in a row make a hole for `failed_for_ps`.
    pub(super) fn new(env: &EdgeEnv<'_>, timeouts: u64, failed_for_ps: u64) -> Holes {
        let host_count = env.topology.hosts().len();
        let mut count = 0u16;
        let local: Vec<u16> = (0..host_count as u32)
            .map(|host| {
                if env.routes.class_of(HostIx(host)) != env.class || count == ELSEWHERE {
                    return ELSEWHERE;
                }
                count += 1;
                count - 1
            })
            .collect();
        Holes {
            first: vec![NONE; usize::from(count) * host_count],
            local,
            suspicions: Vec::new(),
            free: NONE,
            in_use: 0,
            timeouts,
            failed_for_ps,
        }
    }

    /// Returns the number of a pair, or `None` if the source is not a host of this edge.
    pub(super) fn pair(&self, src: HostIx, dst: HostIx) -> Option<u32> {
        let local = *self.local.get(src.ix()).filter(|local| **local != ELSEWHERE)?;
        Some((usize::from(local) * self.local.len() + dst.ix()) as u32)
    }

    #[inline]
    pub(super) fn is_hole(&self, pair: u32, path: u16, now: Time) -> bool {
        self.in_use > 0
            && self.find(pair, path).is_some_and(|(_, at)| now.as_ps() < self.suspicions[at as usize - 1].hole_until)
    }

    pub(super) fn timed_out(&mut self, pair: u32, path: u16, now: Time) {
        let at = self.find(pair, path).map_or_else(|| self.add(pair, path), |(_, at)| at);
        let suspicion = &mut self.suspicions[at as usize - 1];
        suspicion.timeouts += 1;
        if suspicion.timeouts > self.timeouts {
            suspicion.hole_until = now.as_ps().saturating_add(self.failed_for_ps);
        }
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, pair: u32, path: u16) {
        if self.in_use == 0 {
            return;
        }
        let Some((before, at)) = self.find(pair, path) else { return };
        let next = std::mem::replace(&mut self.suspicions[at as usize - 1].next, self.free);
        match before {
            NONE => self.first[pair as usize] = next,
            before => self.suspicions[before as usize - 1].next = next,
        }
        self.free = at;
        self.in_use -= 1;
    }

    fn add(&mut self, pair: u32, path: u16) -> u32 {
        let first = &mut self.first[pair as usize];
        let suspicion = Suspicion { path, timeouts: 0, hole_until: 0, next: *first };
        self.in_use += 1;
        if self.free == NONE {
            self.suspicions.push(suspicion);
            *first = self.suspicions.len() as u32;
        } else {
            *first = self.free;
            self.free = std::mem::replace(&mut self.suspicions[*first as usize - 1], suspicion).next;
        }
        *first
    }

    fn find(&self, pair: u32, path: u16) -> Option<(u32, u32)> {
        let (mut before, mut at) = (NONE, self.first[pair as usize]);
        while at != NONE {
            let suspicion = &self.suspicions[at as usize - 1];
            if suspicion.path == path {
                return Some((before, at));
            }
            (before, at) = (at, suspicion.next);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::testing::with_edge_env;

    #[test]
    fn suspicions_come_and_go_by_pair_and_path() {
        let mut holes =
            with_edge_env("leaf-spine:leaves=2,spines=4,hosts_per_leaf=4", 0, |env| Holes::new(env, 1, 1000));
        let pairs = [(0, 4), (0, 5), (3, 4)].map(|(src, dst)| holes.pair(HostIx(src), HostIx(dst)).unwrap());
        assert_eq!(holes.pair(HostIx(4), HostIx(0)), None, "not a host of this edge");
        let now = Time::from_ps(10);
        for path in [0, 1, 2] {
            holes.timed_out(pairs[0], path, now);
            assert!(!holes.is_hole(pairs[0], path, now), "one timeout is allowed");
            holes.timed_out(pairs[0], path, now);
        }
        let seen = |holes: &Holes, pair: u32| [0, 1, 2, 3].map(|path| holes.is_hole(pair, path, now));
        assert_eq!(seen(&holes, pairs[0]), [true, true, true, false]);
        assert_eq!([seen(&holes, pairs[1]), seen(&holes, pairs[2])], [[false; 4]; 2], "other pairs know nothing of it");
        holes.acknowledged(pairs[0], 1);
        holes.acknowledged(pairs[0], 3);
        assert_eq!(seen(&holes, pairs[0]), [true, false, true, false]);
        holes.timed_out(pairs[2], 3, now);
        holes.timed_out(pairs[2], 3, now);
        holes.timed_out(pairs[0], 1, now);
        assert_eq!(seen(&holes, pairs[0]), [true, false, true, false], "the count was reset");
        assert_eq!(seen(&holes, pairs[2]), [false, false, false, true]);
        assert!(!holes.is_hole(pairs[0], 0, Time::from_ps(1010)), "a hole is tried again in the end");
        for path in 0..4 {
            holes.acknowledged(pairs[0], path);
            holes.acknowledged(pairs[2], path);
        }
        assert_eq!((holes.in_use, holes.suspicions.len()), (0, 4));
    }
}
