//! Ring hash: consistent hashing with virtual nodes (mechanisms.md S06; Karger et al., Consistent
//! Hashing and Random Trees, STOC 1997). Every member has `points` points on a ring; a request goes
//! to the next point from its hash on.
//!
//! Readings: the heaviest member has `points`, others in proportion, at least one. The points of a
//! member do not depend on the others', so the removal of a member moves only its requests. A
//! member this client cannot reach is skipped.
//!
//! Shares differ by about 1/sqrt(points): Maglev's are even.
//!
//! - Helps: where members are added and removed: only requests of a removed member move.
//! - Hurts: with few points, where shares are uneven; it ignores load.

use crate::entry::Entry;
use crate::hash;
use crate::params::Param;
use crate::server::common::{
    DIRECTION, HTP, KEY, Key, PATH, Pending, Picker, ServerFirst, Shares, TIES, position, shares,
};
use crate::server::{MemberId, Pool, ServerCx, ServerNeeds};

const POINTS: Param =
    Param::count("points", 1..=10_000, "100").doc("Number of points of the heaviest member on the ring.");

pub(crate) static ENTRY: Entry = Entry::declare("ring-hash", "Ring hash")
    .summary(
        "Hashes requests to the next of many points of the members on a ring; a removed member moves only \
         its requests.",
    )
    .source("S06 ring; Karger et al., STOC 1997")
    .senses("weights")
    .params(&[PATH, TIES, HTP, DIRECTION, POINTS, KEY])
    .server(|_, params| {
        let points = params.count(POINTS.name);
        let ring = Ring { key: Key::new(params), points, shares: Shares::new(), ring: Vec::new() };
        ServerFirst::boxed(ServerNeeds::NONE, params, ring)
    });

struct Ring {
    key: Key,
    points: u64,
    /// The weights the ring was made from.
    shares: Shares,
    ring: Vec<(u64, MemberId)>,
}

impl Ring {
    fn refresh(&mut self, pool: &Pool) {
        if self.shares.iter().copied().eq(shares(pool)) {
            return;
        }
        self.shares = shares(pool).collect();
        self.ring = ring(&self.shares, self.points);
    }
}

/// Returns the points of all members in the order of their places; the heaviest member has `points`.
pub(super) fn ring(shares: &[(MemberId, u32)], points: u64) -> Vec<(u64, MemberId)> {
    let heaviest = shares.iter().map(|(_, weight)| u64::from(*weight)).max().unwrap_or(1);
    let count = |weight: u32| (points * u64::from(weight)).div_ceil(heaviest);
    let place = |id: MemberId, point: u64| hash::combine(hash::combine(hash::mix(4), u64::from(id.0)), point);
    let places = |(id, weight): &(MemberId, u32)| {
        let id = *id;
        (0..count(*weight)).map(move |point| (place(id, point), id))
    };
    let mut ring: Vec<(u64, MemberId)> = shares.iter().flat_map(places).collect();
    ring.sort_unstable();
    ring
}

impl Picker for Ring {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        self.refresh(pending.pool);
        let key = self.key.of(pending.request);
        let (before, from) = self.ring.split_at(self.ring.partition_point(|(place, _)| *place < key));
        let mut owners = from.iter().chain(before).map(|(_, owner)| *owner);
        owners.find_map(|owner| position(pending.candidates, owner)).unwrap_or(0)
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.refresh(pool);
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn only_requests_of_removed_member_move() {
        let before = Bench::new("ring-hash", &[1; 10]).picks(5_000);
        let mut bench = Bench::new("ring-hash", &[1; 10]);
        bench.change(4, |member| member.is_accepting = false);
        let after = bench.picks(5_000);
        assert!(before.iter().zip(&after).all(|(old, new)| *old == 4 || old == new));
        assert!(after.iter().all(|member| *member != 4));
    }

    #[test]
    fn shares_are_near_the_weights() {
        let hits: [usize; 3] = Bench::new("ring-hash:points=1000", &[1, 2, 4]).hits(70_000);
        for (hits, weight) in hits.into_iter().zip([1.0, 2.0, 4.0]) {
            let share = hits as f64 / 10_000.0 / weight;
            // 1/sqrt(points) is 6 % for the lightest: three of these.
            assert!((0.82..1.18).contains(&share), "weight {weight}: {share}");
        }
    }
}
