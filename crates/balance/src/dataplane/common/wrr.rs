//! Smooth weighted round robin (mechanisms.md P28): every candidate earns its weight, the richest
//! is picked and pays the sum of all weights. Picks of one candidate are spread out instead of
//! consecutive, and shares are exact over any period of the weights.

use net::RandomStream;

use super::paths::PathIndex;
use crate::dataplane::{Cx, PacketView};
use crate::params::Param;

pub const START: Param = Param::choice("start", &["random", "first"], "random")
    .doc("First turn: at random, or the first path (then all edges begin alike).");

/// Picks an element of `live`. `credits` holds the credit of each path, by path number; `weight`
/// returns the weight of the element at a position of `live`. Ties are won by the first.
///
/// Weights may differ from call to call; added and removed paths keep their credit.
pub fn pick(live: &[u16], credits: &mut [f64], weight: impl Fn(usize) -> f64) -> u16 {
    let (mut total, mut best) = (0.0, live[0]);
    for (position, path) in live.iter().enumerate() {
        let earned = weight(position);
        total += earned;
        credits[usize::from(*path)] += earned;
        if credits[usize::from(*path)] > credits[usize::from(best)] {
            best = *path;
        }
    }
    credits[usize::from(best)] -= total;
    best
}

/// Gives every path a random part of its weight as initial credit, so that pickers that begin at
/// the same time do not all begin with the first path.
pub fn start_anywhere(live: &[u16], credits: &mut [f64], rng: &mut RandomStream, weight: impl Fn(usize) -> f64) {
    for (position, path) in live.iter().enumerate() {
        credits[usize::from(*path)] = rng.next_f64() * weight(position);
    }
}

/// Returns the turn of a packet: one for data and one for bare acknowledgements per class. With one
/// common turn, requests and responses would alternate, and with two paths all data would take one
/// of them.
#[inline]
pub fn deck(packet: &PacketView) -> usize {
    2 * packet.to.0 as usize + usize::from(!packet.is_data)
}

/// Credits of smooth weighted round robin by class, separate for data and acknowledgements.
pub struct SmoothWrr {
    starts_anywhere: bool,
    has_started: Vec<bool>,
    credits: [Vec<f64>; 2],
    index: PathIndex,
}

impl SmoothWrr {
    /// Makes the state before the first pick. A random start prevents edges from beginning alike.
    pub fn new(index: PathIndex, starts_anywhere: bool) -> SmoothWrr {
        let credits = || vec![0.0; index.total()];
        SmoothWrr {
            starts_anywhere,
            has_started: vec![false; 2 * index.class_count()],
            credits: [credits(), credits()],
            index,
        }
    }

    /// Returns the path for a new flow; `weight` is that of the path at a position of `live`.
    pub fn pick(&mut self, cx: &mut Cx<'_>, packet: &PacketView, live: &[u16], weight: impl Fn(usize) -> f64) -> u16 {
        let credits = &mut self.credits[usize::from(!packet.is_data)][self.index.range(packet.to)];
        let has_started = std::mem::replace(&mut self.has_started[deck(packet)], true);
        if !has_started && self.starts_anywhere {
            start_anywhere(live, credits, cx.rng, &weight);
        }
        pick(live, credits, weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(live: &[u16], weights: &[f64], credits: &mut [f64], count: usize) -> Vec<u16> {
        (0..count).map(|_| pick(live, credits, |position| weights[position])).collect()
    }

    #[test]
    fn the_order_is_the_one_of_oracle_13() {
        // mechanisms.md §10 oracle 13: weights 5, 1, 1 give a a b a c a a.
        let mut credits = [0.0; 3];
        let order = picks(&[0, 1, 2], &[5.0, 1.0, 1.0], &mut credits, 14);
        assert_eq!(order, [0, 0, 1, 0, 2, 0, 0, 0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(credits, [0.0; 3], "a period ends where it began");
    }

    #[test]
    fn path_shares_have_bounded_error() {
        let weights = [7.0, 2.0, 3.0, 1.0];
        let mut hits = [0.0; 4];
        let mut credits = [0.0; 4];
        for round in 1..=1300 {
            hits[usize::from(pick(&[0, 1, 2, 3], &mut credits, |i| weights[i]))] += 1.0;
            for (hit, weight) in hits.iter().zip(weights) {
                assert!((hit - f64::from(round) * weight / 13.0).abs() < 1.0 + 1e-9, "{hits:?} after {round}");
            }
        }
    }

    #[test]
    fn a_path_that_returns_takes_its_share_again() {
        let mut credits = [0.0; 4];
        picks(&[0, 1, 2, 3], &[1.0; 4], &mut credits, 6);
        assert!(picks(&[0, 3], &[1.0; 2], &mut credits, 100).iter().all(|path| [0, 3].contains(path)));
        let back = picks(&[0, 1, 2, 3], &[1.0; 4], &mut credits, 400);
        let hits = (0..4).map(|path| back.iter().filter(|p| **p == path).count());
        assert!(hits.clone().all(|count| (98..=102).contains(&count)), "{:?}", hits.collect::<Vec<_>>());
    }

    #[test]
    fn a_random_start_keeps_the_shares_but_not_the_order() {
        let mut rng = RandomStream::new(3, "wrr");
        let mut firsts = [0; 4];
        for _ in 0..4000 {
            let mut credits = [0.0; 4];
            start_anywhere(&[0, 1, 2, 3], &mut credits, &mut rng, |_| 1.0);
            let mut order = picks(&[0, 1, 2, 3], &[1.0; 4], &mut credits, 4);
            firsts[usize::from(order[0])] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
        }
        assert!(firsts.iter().all(|count| (900..1100).contains(count)), "{firsts:?}");
    }
}
