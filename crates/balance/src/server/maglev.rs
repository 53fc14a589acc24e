//! Maglev: consistent hashing by a table in which members take turns (mechanisms.md S06; Eisenbud
//! et al., Maglev: A Fast and Reliable Software Network Load Balancer, NSDI 2016).
//!
//! Every member has an order of preference over the slots of the table. In turns each takes the
//! first free slot it prefers, until all are taken. A request goes to the member of slot `hash mod
//! size`. Shares differ by a slot at most, and the removal of a member moves few other slots. All
//! instances of one pool have the same table, regardless of their seeds.
//!
//! Readings: with weights, a member takes a turn in `weight / maximum weight` of the rounds. `size`
//! is raised to the next prime. If this client cannot reach the member of a slot, the next slot is
//! used. The caller keeps connections on their members while the pool changes: it has a table of
//! connections.
//!
//! - Helps: where the same client and port must reach the same member without state, and with
//!   proactive rules.
//! - Hurts: with few or unequal requests: it ignores load.

use crate::entry::Entry;
use crate::hash;
use crate::params::Param;
use crate::server::common::{
    DIRECTION, HTP, KEY, Key, PATH, Pending, Picker, ServerFirst, Shares, TIES, position, shares,
};
use crate::server::{MemberId, Pool, ServerCx, ServerNeeds};

const SIZE: Param = Param::count("size", 2..=5_000_000, "65537")
    .doc("Number of slots of the table, raised to the next prime; at least 100 for each member.");

pub(crate) static ENTRY: Entry = Entry::declare("maglev", "Maglev")
    .summary(
        "Hashes requests to members by a table with nearly equal shares, in which few slots change when a \
         member is removed.",
    )
    .source("S06; Maglev, NSDI 2016")
    .senses("weights")
    .params(&[PATH, TIES, HTP, DIRECTION, SIZE, KEY])
    .server(|_, params| {
        let size = next_prime(params.count(SIZE.name));
        let maglev = Maglev { key: Key::new(params), size, shares: Shares::new(), table: Vec::new() };
        ServerFirst::boxed(ServerNeeds::NONE, params, maglev)
    });

struct Maglev {
    key: Key,
    size: u64,
    /// The weights the table was made from.
    shares: Shares,
    /// For every slot a position in `shares`.
    table: Vec<u32>,
}

impl Maglev {
    fn refresh(&mut self, pool: &Pool) {
        if !self.shares.iter().copied().eq(shares(pool)) {
            self.shares = shares(pool).collect();
            self.table = table(&self.shares, self.size);
        }
    }
}

impl Picker for Maglev {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        self.refresh(pending.pool);
        let slot = (self.key.of(pending.request) % self.size) as usize;
        let (before, from) = self.table.split_at(slot.min(self.table.len()));
        let mut owners = from.iter().chain(before).map(|owner| self.shares[*owner as usize].0);
        owners.find_map(|owner| position(pending.candidates, owner)).unwrap_or(0)
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.refresh(pool);
    }

    fn divide(&self, shares: &[(MemberId, u32)], slots: usize) -> Option<Vec<MemberId>> {
        Some(divide(shares, slots))
    }
}

/// Assigns slots (a power of two, at least 2) to members, and returns the member of each.
pub(super) fn divide(shares: &[(MemberId, u32)], slots: usize) -> Vec<MemberId> {
    table(shares, slots as u64).into_iter().map(|owner| shares[owner as usize].0).collect()
}

/// A member's order of preference: slots `step` apart. These are all slots, since the size is
/// prime, or a power of two with an odd step.
struct Preference {
    slot: u64,
    step: u64,
    credit: u64,
}

impl Preference {
    fn of(member: MemberId, size: u64) -> Preference {
        let hash = hash::mix(hash::combine(hash::mix(2), u64::from(member.0)));
        let slot = hash % size;
        let step = hash::mix(hash::combine(hash, 3)) % (size - 1) + 1;
        Preference { slot, step: if size.is_power_of_two() { step | 1 } else { step }, credit: 0 }
    }
}

/// Returns the owner of every slot, as positions in `shares`; empty without members.
fn table(shares: &[(MemberId, u32)], size: u64) -> Vec<u32> {
    const FREE: u32 = u32::MAX;
    let greatest = shares.iter().map(|(_, weight)| u64::from(*weight)).max().filter(|greatest| *greatest > 0);
    let Some(greatest) = greatest else { return Vec::new() };
    let mut table = vec![FREE; size as usize];
    let mut preferences: Vec<Preference> = shares.iter().map(|(id, _)| Preference::of(*id, size)).collect();
    let mut free = size;
    loop {
        for (owner, preference) in preferences.iter_mut().enumerate() {
            preference.credit += u64::from(shares[owner].1);
            if preference.credit < greatest {
                continue;
            }
            preference.credit -= greatest;
            while table[preference.slot as usize] != FREE {
                preference.slot = (preference.slot + preference.step) % size;
            }
            table[preference.slot as usize] = owner as u32;
            free -= 1;
            if free == 0 {
                return table;
            }
        }
    }
}

fn next_prime(from: u64) -> u64 {
    let is_prime = |n: &u64| *n >= 2 && (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (from..).find(is_prime).unwrap_or(from)
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    use super::*;

    const SIZE: u64 = 65_537;

    fn equal(count: u32) -> Shares {
        (1..=count).map(|id| (MemberId(id), 1)).collect()
    }

    fn slots(table: &[u32], owner: u32) -> u64 {
        table.iter().filter(|slot| **slot == owner).count() as u64
    }

    #[test]
    fn shares_differ_by_a_slot_at_most() {
        for count in [1, 2, 3, 10, 100, 655] {
            let table = table(&equal(count), SIZE);
            let (least, most) = (SIZE / u64::from(count), SIZE.div_ceil(u64::from(count)));
            assert!((0..count).all(|owner| (least..=most).contains(&slots(&table, owner))), "{count} members");
        }
    }

    #[test]
    fn little_moves_when_a_member_goes() {
        for count in [10u32, 100] {
            let before = table(&equal(count), SIZE);
            for gone in [0, count / 2, count - 1] {
                let mut shares = equal(count);
                shares.remove(gone as usize);
                let after = table(&shares, SIZE);
                let number = |owner: u32| owner + u32::from(owner >= gone);
                let moved = |(old, new): (&u32, &u32)| *old != gone && *old != number(*new);
                let extra = before.iter().zip(&after).filter(|pair| moved(*pair)).count();
                // The paper has a few percent with 100 slots per member, and less with more.
                assert!((extra as f64) < 0.05 * SIZE as f64, "{extra} slots of others moved");
            }
        }
    }

    /// Tables with a power of two of slots: as even as possible, and most slots stay.
    #[test]
    fn few_slots_are_divided_evenly_and_most_stay() {
        for slots in [2, 8, 64, 256, 4096] {
            for count in [1u32, 2, 3, 5, 8, 20] {
                let shares = equal(count);
                let before = divide(&shares, slots);
                let (least, most) = (slots / count as usize, slots.div_ceil(count as usize));
                let hits = |id: u32| before.iter().filter(|owner| owner.0 == id).count();
                assert!((1..=count).all(|id| (least..=most).contains(&hits(id))), "{count} members, {slots} slots");
                let after = divide(&shares[1..], slots);
                let moved = before.iter().zip(&after).filter(|(old, new)| old.0 != 1 && old != new).count();
                // A small table moves more than a large one: at most a quarter of the slots.
                assert!(count == 1 || moved * 4 <= slots, "{moved} of {slots} slots moved, {count} members");
            }
        }
        let heavy = divide(&[(MemberId(1), 3), (MemberId(2), 1), (MemberId(3), 0)], 64);
        let hits = |id: u32| heavy.iter().filter(|owner| owner.0 == id).count();
        assert_eq!((heavy.len(), hits(1), hits(2), hits(3)), (64, 48, 16, 0));
        assert!(divide(&[(MemberId(1), 0)], 64).is_empty() && divide(&[], 64).is_empty());
    }

    #[test]
    fn weights_are_kept_to_a_percent() {
        let weights = [1u32, 2, 3, 10, 5];
        let shares: Shares = weights.iter().zip(1..).map(|(weight, id)| (MemberId(id), *weight)).collect();
        let table = table(&shares, SIZE);
        for (owner, weight) in weights.iter().enumerate() {
            let expected = SIZE as f64 * f64::from(*weight) / 21.0;
            let share = slots(&table, owner as u32) as f64 / expected;
            assert!((0.99..1.01).contains(&share), "weight {weight}: {share}");
        }
    }

    #[test]
    fn connection_hash_is_stable_and_most_stay_when_one_drains() {
        let (mut one, mut other) = (Bench::new("maglev", &[1; 10]), Bench::new("maglev", &[1; 10]));
        other.rng = net::RandomStream::new(99, "another");
        let before = one.picks(5_000);
        assert_eq!(before, other.picks(5_000), "instances agree");
        other.change(4, |member| member.is_accepting = false);
        let mut again = Bench::new("maglev", &[1; 10]);
        again.change(4, |member| member.is_accepting = false);
        let after = again.picks(5_000);
        assert!(after.iter().all(|member| *member != 4));
        let moved = before.iter().zip(&after).filter(|(old, new)| **old != 4 && old != new).count();
        assert!(moved < 250, "{moved} of 5000 moved that need not have");
    }

    #[test]
    fn clients_can_be_kept_together() {
        let mut bench = Bench::new("maglev:key=client,size=101", &[1; 10]);
        // The requests of a bench come from one address.
        let picks = bench.picks(50);
        assert!(picks.iter().all(|member| *member == picks[0]));
    }

    #[test]
    fn primes_are_found() {
        assert_eq!([2, 3, 4, 65_536, 65_537, 65_538].map(next_prime), [2, 3, 5, 65_537, 65_537, 65_539]);
    }
}
