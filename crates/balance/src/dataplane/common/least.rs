//! The best path or port, ties broken at random, and any port.

use net::{LinkIx, RandomStream};

use crate::dataplane::Cx;

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

/// Returns the position of any of the links; all are equally likely.
#[inline]
pub(crate) fn random_port(rng: &mut RandomStream, links: &[LinkIx]) -> usize {
    rng.next_below(links.len() as u64) as usize
}

/// Returns the position of the link with the fewest bytes queued; several such links are equally likely.
#[inline]
pub(crate) fn shortest_queue(cx: &mut Cx<'_>, links: &[LinkIx]) -> usize {
    let ports = cx.ports;
    let queues = (0u16..).zip(links).map(|(at, link)| (ports.queued_bytes(*link), at));
    least(cx.rng, queues).map_or(0, usize::from)
}
