//! Buckets of hashes, each with a member, of which few move when the members change.

use crate::server::MemberId;

/// Gives each member its share of the buckets by weight. Only buckets of members that have too
/// many, or are no longer in `shares`, move; all are free before the first call, and without
/// members afterwards.
pub fn reassign(owners: &mut [Option<MemberId>], shares: &[(MemberId, u32)]) {
    let mut left = quotas(shares, owners.len());
    for owner in owners.iter_mut() {
        let at = owner.and_then(|owner| shares.binary_search_by_key(&owner, |(id, _)| *id).ok());
        match at.and_then(|at| left.get_mut(at)).filter(|left| **left > 0) {
            Some(left) => *left -= 1,
            None => *owner = None,
        }
    }
    let mut turn = 0;
    for owner in owners.iter_mut().filter(|owner| owner.is_none()) {
        // Members take turns, so that neighbouring buckets go to several.
        let found = (0..left.len()).map(|step| (turn + step) % left.len()).find(|at| left[*at] > 0);
        let Some(at) = found else { break };
        left[at] -= 1;
        turn = at + 1;
        *owner = Some(shares[at].0);
    }
}

/// Returns the number of buckets of each member: its share by weight, rounded by the largest
/// remainders.
fn quotas(shares: &[(MemberId, u32)], buckets: usize) -> Vec<usize> {
    let total: u64 = shares.iter().map(|(_, weight)| u64::from(*weight)).sum();
    if total == 0 {
        return vec![0; shares.len()];
    }
    let part = |weight: u32| buckets as u64 * u64::from(weight);
    let mut quotas: Vec<usize> = shares.iter().map(|(_, weight)| (part(*weight) / total) as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(part(shares[*at].1) % total));
    let rest = buckets - quotas.iter().sum::<usize>();
    order.into_iter().take(rest).for_each(|at| quotas[at] += 1);
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(owners: &[Option<MemberId>], id: u32) -> usize {
        owners.iter().filter(|owner| **owner == Some(MemberId(id))).count()
    }

    #[test]
    fn shares_are_exact_and_only_the_necessary_buckets_move() {
        let mut owners = vec![None; 1000];
        let mut shares: Vec<(MemberId, u32)> = (1..=9).map(|id| (MemberId(id), 1)).collect();
        reassign(&mut owners, &shares);
        assert!((1..=9).all(|id| (111..=112).contains(&hits(&owners, id))));
        for (gone, count) in [(3, 8), (9, 7)] {
            let before = owners.clone();
            shares.retain(|(id, _)| id.0 != gone);
            reassign(&mut owners, &shares);
            let moved = before.iter().zip(&owners).filter(|(old, new)| old != new).count();
            assert!(moved <= hits(&before, gone) + count, "{moved} moved, {} had to", hits(&before, gone));
            assert!(shares.iter().all(|(id, _)| hits(&owners, id.0).abs_diff(1000 / count) <= 1));
        }
        let heavy = [(MemberId(1), 3), (MemberId(2), 1), (MemberId(3), 0)];
        reassign(&mut owners, &heavy);
        assert_eq!([1, 2, 3].map(|id| hits(&owners, id)), [750, 250, 0]);
        reassign(&mut owners, &[]);
        assert!(owners.iter().all(Option::is_none));
    }
}
