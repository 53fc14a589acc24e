//! Rounds over the paths to a destination in which consecutive paths part as early as possible:
//! digit reversal (mechanisms.md P04), for any network.
//!
//! A path's number encodes the branches it takes, the first branch as its most significant digit.
//! Counting with the first branch as the *least* significant digit visits every first hop before
//! using one twice, and every path once per round. If branches have different numbers of paths
//! beyond them, no such digits exist; the rounds of the branches are then interleaved in
//! proportion. [`PathCycles`] adds the effect of failures and unequal rates.

use net::routes::ClassIx;
use net::{NodeIx, Routes, Topology};

use super::paths::distinct;
use crate::dataplane::{EdgeEnv, Paths};

/// Irregular path sets up to this size are listed; larger lists (tori) would exhaust memory.
const LISTED_MAX: u32 = 4096;

/// Maximum repetitions of a path in one weighted round, and entries of such a round.
const REPETITIONS_MAX: u32 = 64;
const ROUND_MAX: usize = 1 << 16;

/// Accepted deviation from the weights, as a share, if [`REPETITIONS_MAX`] allows it.
const PRECISION: f64 = 0.01;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PathOrder {
    /// Nodes at one distance branch alike: (branches, paths beyond each), first branch first.
    Digits(Box<[(u32, u32)]>),
    Listed(Box<[u16]>),
    /// Steps of this size, coprime to the number of paths.
    Strided(u32),
}

impl PathOrder {
    fn new(topology: &Topology, routes: &Routes, from: NodeIx, to: ClassIx, count: u32) -> PathOrder {
        let total = routes.path_count(from, to);
        if total == count
            && let Some(digits) = digits(topology, routes, from, to)
        {
            return PathOrder::Digits(digits);
        }
        if total == count && count <= LISTED_MAX {
            let ranks = interleaved_ranks(topology, routes, from, to);
            return PathOrder::Listed(ranks.into_iter().map(|rank| rank as u16).collect());
        }
        PathOrder::Strided(golden_step(count))
    }

    #[inline]
    fn at(&self, place: u32, count: u32) -> u16 {
        match self {
            PathOrder::Digits(digits) => {
                let (mut rest, mut rank) = (place, 0);
                for (branches, beyond) in digits {
                    rank += rest % branches * beyond;
                    rest /= branches;
                }
                rank as u16
            }
            PathOrder::Listed(ranks) => ranks[place as usize],
            PathOrder::Strided(step) => (u64::from(place) * u64::from(*step) % u64::from(count)) as u16,
        }
    }
}

/// Returns the branching factors above 1 along the paths, if they are the same for all paths.
fn digits(topology: &Topology, routes: &Routes, from: NodeIx, to: ClassIx) -> Option<Box<[(u32, u32)]>> {
    let (mut level, mut digits) = (vec![from], Vec::new());
    while level[0] != routes.class_node(to) {
        let branches = routes.next_hops(level[0], to).len();
        if branches == 0 || level.iter().any(|node| routes.next_hops(*node, to).len() != branches) {
            return None;
        }
        // Equal branching from here on means equal numbers of paths beyond.
        let beyond = routes.path_count(topology.link(routes.next_hops(level[0], to)[0]).to, to);
        if branches > 1 {
            digits.push((branches as u32, beyond));
        }
        let far_ends = level.iter().flat_map(|node| routes.next_hops(*node, to)).map(|link| topology.link(*link).to);
        let mut next: Vec<NodeIx> = far_ends.collect();
        next.sort_unstable();
        next.dedup();
        level = next;
    }
    Some(digits.into())
}

/// Returns path numbers with the rounds of all branches interleaved in proportion to their lengths.
fn interleaved_ranks(topology: &Topology, routes: &Routes, from: NodeIx, to: ClassIx) -> Vec<u32> {
    if from == routes.class_node(to) {
        return vec![0];
    }
    let mut first = 0;
    let mut branches: Vec<std::vec::IntoIter<u32>> = Vec::new();
    for link in routes.next_hops(from, to) {
        let mut ranks = interleaved_ranks(topology, routes, topology.link(*link).to, to);
        ranks.iter_mut().for_each(|rank| *rank += first);
        first += ranks.len() as u32;
        branches.push(ranks.into_iter());
    }
    let lengths: Vec<u32> = branches.iter().map(|branch| branch.len() as u32).collect();
    interleave(&lengths).into_iter().filter_map(|branch| branches[branch as usize].next()).collect()
}

/// Returns item numbers, `i` repeated `repetitions[i]` times, evenly spread; ties in order.
pub(crate) fn interleave(repetitions: &[u32]) -> Vec<u32> {
    let places = repetitions.iter().zip(0u32..).flat_map(|(count, item)| {
        // The j-th of n is at the middle of the j-th n-th of the round.
        (0..*count).map(move |j| (((2 * u64::from(j) + 1) << 32) / (2 * u64::from(*count)), item))
    });
    let mut places: Vec<(u64, u32)> = places.collect();
    places.sort_unstable();
    places.into_iter().map(|(_, item)| item).collect()
}

/// Returns the smallest repetitions within [`PRECISION`], or as close as possible.
fn repetitions(weights: &[u32]) -> Vec<u32> {
    let greatest = f64::from(weights.iter().copied().max().unwrap_or(1).max(1));
    let shares = |most: u32| weights.iter().map(move |weight| f64::from(*weight) / greatest * f64::from(most));
    let limit = (ROUND_MAX / weights.len().max(1)).clamp(1, REPETITIONS_MAX as usize) as u32;
    let is_close = |share: f64| (share - share.round()).abs() <= PRECISION * share;
    let most = (1..=limit).find(|most| shares(*most).all(is_close)).unwrap_or(limit);
    // A live path is used even if it is very slow.
    shares(most).map(|share| (share.round() as u32).max(1)).collect()
}

/// Returns a step near the golden section of `count` that visits all paths: consecutive paths are
/// distant in number, hence on different first branches.
fn golden_step(count: u32) -> u32 {
    let coprime = |step: &u32| {
        let (mut a, mut b) = (*step, count);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    let golden = (f64::from(count) * 0.618_033_988_749_895) as u32;
    (golden.max(1)..count).find(coprime).unwrap_or(1)
}

/// Rounds over the paths of one edge to every class.
pub(crate) struct PathCycles {
    counts: Box<[u16]>,
    order_of_class: Vec<u32>,
    orders: Vec<PathOrder>,
    /// Weighted rounds of classes whose live paths have unequal rates.
    weighted: Vec<Option<Box<WeightedRound>>>,
}

struct WeightedRound {
    live: Vec<u16>,
    weights: Vec<u32>,
    round: Vec<u16>,
}

impl PathCycles {
    /// Makes the rounds for the edge of `env`. Equal orders are stored once.
    pub(crate) fn new(env: &EdgeEnv<'_>) -> PathCycles {
        let order = |(count, to): (&u16, u32)| {
            PathOrder::new(env.topology, env.routes, env.edge, ClassIx(to), u32::from(*count))
        };
        let (order_of_class, orders) = distinct(env.path_counts.iter().zip(0..).map(order));
        let weighted = (0..env.path_counts.len()).map(|_| None).collect();
        PathCycles { counts: env.path_counts.into(), order_of_class, orders, weighted }
    }

    /// Returns the next live path in the round to `to`; paths of unequal [`Paths::weights`] occur
    /// in proportion to their weights. `place` is the position of this user in the round; any start
    /// value is fair.
    pub(crate) fn next(&mut self, to: ClassIx, place: &mut u32, paths: Paths<'_>) -> u16 {
        if paths.weights.windows(2).any(|pair| pair[0] != pair[1]) {
            return self.next_weighted(to, place, paths);
        }
        let class = to.0 as usize;
        let count = u32::from(self.counts[class]);
        let order = &self.orders[self.order_of_class[class] as usize];
        for _ in 0..count {
            let path = order.at(*place % count, count);
            *place = (*place % count) + 1;
            if paths.live.len() == count as usize || paths.live.binary_search(&path).is_ok() {
                return path;
            }
        }
        paths.live[0]
    }

    fn next_weighted(&mut self, to: ClassIx, place: &mut u32, paths: Paths<'_>) -> u16 {
        let class = to.0 as usize;
        if self.weighted[class].as_ref().is_none_or(|known| known.live != paths.live || known.weights != paths.weights)
        {
            self.weighted[class] = Some(Box::new(self.weigh(class, paths)));
        }
        let round = self.weighted[class].as_ref().map_or(paths.live, |known| &known.round);
        let path = round[*place as usize % round.len()];
        *place = (*place % round.len() as u32) + 1;
        path
    }

    fn weigh(&self, class: usize, paths: Paths<'_>) -> WeightedRound {
        let count = u32::from(self.counts[class]);
        let order = &self.orders[self.order_of_class[class] as usize];
        let ordered = (0..count).map(|place| order.at(place, count));
        let positions: Vec<usize> = ordered.filter_map(|path| paths.live.binary_search(&path).ok()).collect();
        let weights: Vec<u32> = positions.iter().map(|position| paths.weights[*position]).collect();
        let turns = interleave(&repetitions(&weights));
        let round = turns.into_iter().map(|turn| paths.live[positions[turn as usize]]).collect();
        WeightedRound { live: paths.live.to_vec(), weights: paths.weights.to_vec(), round }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(spec: &str, to: u32) -> (PathOrder, u32, Topology, Routes) {
        let topology = net::spec::parse(spec).unwrap();
        let routes = Routes::intact(&topology);
        let from = routes.class_node(ClassIx(0));
        let count = routes.path_count(from, ClassIx(to)).min(u32::from(u16::MAX) - 1);
        let order = PathOrder::new(&topology, &routes, from, ClassIx(to), count);
        (order, count, topology, routes)
    }

    #[test]
    fn digits_are_the_branchings_on_the_way() {
        // An edge switch of a fat-tree: k/2 aggregations, k/2 cores beyond each, one path down.
        let (order, ..) = order("fat-tree:k=8", 31);
        assert_eq!(order, PathOrder::Digits([(4, 4), (4, 1)].into()));
        assert_eq!([0, 1, 2, 3, 4, 5].map(|place| order.at(place, 16)), [0, 4, 8, 12, 1, 5]);
    }

    #[test]
    fn every_order_visits_each_path_once_a_round() {
        for (spec, to) in [
            ("fat-tree:k=8", 31),
            ("fat-tree:k=8", 1),
            ("vl2:d0=2,d1=4,d2=4,hosts_per_tor=3", 3),
            ("leaf-spine:leaves=3,spines=4,hosts_per_leaf=3,parallel=2", 2),
            ("bcube:n=4,k=1", 15),
            ("camcube:k=4", 42),
            ("flattened-butterfly:k=3,n=3", 8),
            ("camcube:k=6", 8),
            ("geni-wan", 3),
        ] {
            let (order, count, ..) = order(spec, to);
            let mut paths: Vec<u16> = (0..count).map(|place| order.at(place, count)).collect();
            paths.sort_unstable();
            assert_eq!(paths, (0..count as u16).collect::<Vec<_>>(), "{spec} to {to}: {order:?}");
        }
    }

    #[test]
    fn irregular_branches_are_used_in_proportion() {
        // Offset (2, 1, 0) in a torus: two of the three paths begin in the first dimension.
        let to = ClassIx(8);
        let (order, count, topology, routes) = order("camcube:k=6", to.0);
        assert_eq!(count, 3);
        assert!(matches!(order, PathOrder::Listed(_)), "{order:?}");
        let from = routes.class_node(ClassIx(0));
        let hops = routes.next_hops(from, to);
        let mut used = vec![0u32; hops.len()];
        for place in 0..count {
            let path = routes.path(&topology, from, to, u32::from(order.at(place, count)));
            used[hops.iter().position(|hop| *hop == path[0]).unwrap()] += 1;
            for (hop, used) in hops.iter().zip(&used) {
                let share = f64::from(routes.path_count(topology.link(*hop).to, to)) / f64::from(count);
                assert!((f64::from(*used) - share * f64::from(place + 1)).abs() <= 1.0, "ahead or behind at {place}");
            }
        }
    }

    #[test]
    fn very_many_paths_are_strided_through() {
        let (order, count, ..) = order("camcube:k=6", 3 + 6 * 3 + 36 * 3);
        assert!(matches!(order, PathOrder::Strided(_)) && count > LISTED_MAX, "{count} {order:?}");
        let mut seen = vec![false; count as usize];
        (0..count).for_each(|place| seen[usize::from(order.at(place, count))] = true);
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn interleaving_spreads_repetitions() {
        assert_eq!(interleave(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(interleave(&[2, 2]), [0, 1, 0, 1]);
        assert_eq!(interleave(&[4, 2]), [0, 1, 0, 0, 1, 0]);
        assert_eq!(interleave(&[0, 1]), [1]);
    }

    #[test]
    fn weights_become_few_repetitions() {
        assert_eq!(repetitions(&[10, 2]), [5, 1]);
        assert_eq!(repetitions(&[7, 7, 7]), [1, 1, 1]);
        assert_eq!(repetitions(&[21_845, 43_690]), [1, 2], "rounded weights are seen through");
        assert_eq!(repetitions(&[65_000, 1]), [64, 1], "a slow path is not forgotten");
        assert_eq!(repetitions(&[0, 0]), [1, 1]);
    }
}
