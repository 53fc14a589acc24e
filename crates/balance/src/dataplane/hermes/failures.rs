//! Blackholes of single (source, destination) pairs: timeouts without any acknowledgement.

use net::{HostIx, Time};

use crate::dataplane::EdgeEnv;

/// A host here and the host it sends to.
pub(super) type Pair = (HostIx, HostIx);

/// Suspicions by pair and path.
pub(super) struct Holes {
    /// Whether each host is one of this edge.
    is_here: Vec<bool>,
    /// Ordered by pair and path.
    suspicions: Vec<Suspicion>,
    timeouts: u64,
    failed_for_ps: u64,
}

#[derive(Clone, Copy, Debug)]
struct Suspicion {
    pair: Pair,
    path: u16,
    timeouts: u64,
    /// Time until which this pair avoids the path, ps.
    hole_until: u64,
}

impl Holes {
    /// Makes an empty table. More than `timeouts` in a row make a hole for `failed_for_ps`.
    pub(super) fn new(env: &EdgeEnv<'_>, timeouts: u64, failed_for_ps: u64) -> Holes {
        let hosts = (0..env.topology.hosts().len() as u32).map(HostIx);
        let is_here = hosts.map(|host| env.routes.class_of(host) == env.class).collect();
        Holes { is_here, suspicions: Vec::new(), timeouts, failed_for_ps }
    }

    /// Returns the pair of two hosts, or `None` if the source is not a host of this edge.
    pub(super) fn pair(&self, src: HostIx, dst: HostIx) -> Option<Pair> {
        self.is_here.get(src.ix())?.then_some((src, dst))
    }

    #[inline]
    pub(super) fn is_hole(&self, pair: Pair, path: u16, now: Time) -> bool {
        self.find(pair, path).is_ok_and(|at| now.as_ps() < self.suspicions[at].hole_until)
    }

    pub(super) fn timed_out(&mut self, pair: Pair, path: u16, now: Time) {
        let at = self.find(pair, path).unwrap_or_else(|at| {
            self.suspicions.insert(at, Suspicion { pair, path, timeouts: 0, hole_until: 0 });
            at
        });
        let suspicion = &mut self.suspicions[at];
        suspicion.timeouts += 1;
        if suspicion.timeouts > self.timeouts {
            suspicion.hole_until = now.as_ps().saturating_add(self.failed_for_ps);
        }
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, pair: Pair, path: u16) {
        if let Ok(at) = self.find(pair, path) {
            self.suspicions.remove(at);
        }
    }

    /// Returns the position of a suspicion, or where it belongs.
    fn find(&self, pair: Pair, path: u16) -> Result<usize, usize> {
        self.suspicions.binary_search_by_key(&(pair, path), |suspicion| (suspicion.pair, suspicion.path))
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
        let seen = |holes: &Holes, pair: Pair| [0, 1, 2, 3].map(|path| holes.is_hole(pair, path, now));
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
        assert!(holes.suspicions.is_empty());
    }
}
