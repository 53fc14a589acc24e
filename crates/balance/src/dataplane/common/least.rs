//! The best path, ties broken at random.

use net::RandomStream;

/// Returns the path of the lowest key; several of that key are equally likely. It draws once for
/// each path that equals the best before it.
#[inline]
pub(crate) fn least<K: PartialOrd>(rng: &mut RandomStream, paths: impl Iterator<Item = (K, u16)>) -> Option<u16> {
    let (mut best, mut ties): (Option<(K, u16)>, u64) = (None, 0);
    for (key, path) in paths {
        let is_less = best.as_ref().is_none_or(|(least, _)| key < *least);
        if !is_less && best.as_ref().is_some_and(|(least, _)| key != *least) {
            continue;
        }
        ties = if is_less { 1 } else { ties + 1 };
        // The n-th of equals replaces the current one with probability 1/n: all are equal.
        if is_less || rng.next_below(ties) == 0 {
            best = Some((key, path));
        }
    }
    best.map(|(_, path)| path)
}
