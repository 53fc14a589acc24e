//! FAST: an exchange of unequal parts as stages, in each of which a rank sends to one other and
//! receives from one (mechanisms-2.md P44; NSDI 2026, arXiv 2505.09764).
//!
//! No link of a rank can be done before its bytes have crossed it, so the completion of an exchange
//! takes at least T, the largest sum of a row (sent) or a column (received) of the matrix of bytes.
//! The matrix is padded until all sums are T. Such a matrix is a sum of permutations (Birkhoff):
//! take a permutation of pairs that all have bytes left, subtract the smallest of them from all,
//! repeat. Each permutation is a stage; padding is time in which a rank is idle. The lengths of the
//! stages add up to T, and the rank with T bytes is busy in all. In rounds to the next rank, the
//! second next and so on (SpreadOut), each round takes as long as its largest part.
//!
//! A send begins when the last one of its sender and the last one to its receiver have been
//! delivered. It names the one of the two that ends later if all links have one rate; then no rank
//! receives from two or sends to two at once, and the exchange takes T. Waiting for the sender
//! alone would not do: one with a small part would begin its next send while the receiver still
//! receives a large one. A pair that stays together in the next stage continues with the same send.
//!
//! Readings:
//! - FAST first balances inside servers, over their fast links, and then divides the matrix of
//!   servers. A rank here has its own network interface and is a server of one: nothing is balanced
//!   first, and pairs in one server are pairs like any other.
//! - The source does not say which permutation is taken. Here it is one whose smallest element is
//!   at least half of the largest possible: its threshold is halved until one exists.
//!   Permutations keep the pairs of the one before where they can. This makes fewer and longer
//!   sends.
//! - The plan exists before the exchange begins and costs no time (published: 221 us for 64
//!   accelerators).

use net::Time;

use super::steps::Step;

/// Bytes from one rank to another in a stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    from: usize,
    to: usize,
    bytes: u64,
}

/// Returns the number of stages of `n` ranks, at most: (n - 1)^2 + 1, as many as permutations are
/// needed for any matrix with equal sums.
pub(super) fn count_max(n: u32) -> u64 {
    let others = u64::from(n.saturating_sub(1));
    others * others + 1
}

/// Appends the sends of an exchange among `n` ranks to an empty list. `bytes` has the bytes from
/// rank i to rank j at i n + j; those of a rank to itself are 0.
pub(super) fn append(n: usize, bytes: Vec<u64>, steps: &mut Vec<Step>) {
    // The last send of each rank and the last one to it, and the end of each send at a rate of 1.
    let (mut sent, mut received) = (vec![None; n], vec![None; n]);
    let mut ends: Vec<u128> = Vec::new();
    for Part { from, to, bytes } in stages(n, bytes).into_iter().flatten() {
        let last: [Option<u32>; 2] = [sent[from], received[to]];
        if let [Some(one), Some(other)] = last
            && one == other
        {
            steps[one as usize].bytes += bytes;
            ends[one as usize] += u128::from(bytes);
            continue;
        }
        let [of_sender, of_receiver] = last.map(|place| place.map_or(0, |place| ends[place as usize]));
        let after = if of_receiver > of_sender { received[to] } else { sent[from] };
        let place = steps.len() as u32;
        steps.push(Step { from: from as u32, to: to as u32, bytes, after, delay: Time::ZERO });
        ends.push(of_sender.max(of_receiver) + u128::from(bytes));
        (sent[from], received[to]) = (Some(place), Some(place));
    }
}

/// Divides a matrix into stages: the parts of each are a partial permutation, and its largest part
/// is the length of the stage.
fn stages(n: usize, mut bytes: Vec<u64>) -> Vec<Vec<Part>> {
    let (mut padded, total) = pad(n, &bytes);
    let mut matching = Matching::new(n);
    let mut threshold = padded.iter().max().map_or(0, |largest| largest.checked_ilog2().map_or(0, |bits| 1 << bits));
    let (mut left, mut stages) = (total, Vec::new());
    while left > 0 {
        while !matching.complete(|from, to| padded[from * n + to] >= threshold) {
            // All sums are `left`, so that there is a permutation of elements above 0.
            threshold /= 2;
        }
        let pairs: Vec<(usize, usize)> = matching.pairs().collect();
        let length = pairs.iter().map(|(from, to)| padded[from * n + to]).min().unwrap_or(left);
        left -= length;
        let mut parts = Vec::new();
        for (from, to) in pairs {
            let at = from * n + to;
            padded[at] -= length;
            if padded[at] < threshold {
                matching.separate(from, to);
            }
            let part = u64::try_from(length).unwrap_or(u64::MAX).min(bytes[at]);
            bytes[at] -= part;
            if part > 0 {
                parts.push(Part { from, to, bytes: part });
            }
        }
        stages.push(parts);
    }
    stages
}

/// Returns a matrix with the largest sum of a row or a column in all rows and columns, and that
/// sum. No element is below that of `bytes`.
fn pad(n: usize, bytes: &[u64]) -> (Vec<u128>, u128) {
    let mut padded: Vec<u128> = bytes.iter().copied().map(u128::from).collect();
    let mut rows: Vec<u128> = (0..n).map(|from| padded[from * n..][..n].iter().sum()).collect();
    let mut columns: Vec<u128> = (0..n).map(|to| (0..n).map(|from| padded[from * n + to]).sum()).collect();
    let total = rows.iter().chain(&columns).copied().max().unwrap_or(0);
    let (mut from, mut to) = (0, 0);
    while from < n && to < n {
        let missing = (total - rows[from]).min(total - columns[to]);
        padded[from * n + to] += missing;
        rows[from] += missing;
        columns[to] += missing;
        if rows[from] == total {
            from += 1;
        } else {
            to += 1;
        }
    }
    (padded, total)
}

/// Pairs of senders and receivers, each in one pair at most.
struct Matching {
    receiver_of: Vec<Option<usize>>,
    sender_of: Vec<Option<usize>>,
}

impl Matching {
    fn new(n: usize) -> Matching {
        Matching { receiver_of: vec![None; n], sender_of: vec![None; n] }
    }

    fn pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.receiver_of.iter().enumerate().filter_map(|(from, to)| to.map(|to| (from, to)))
    }

    fn separate(&mut self, from: usize, to: usize) {
        self.receiver_of[from] = None;
        self.sender_of[to] = None;
    }

    /// Adds pairs until all ranks are in one, by augmenting paths. Returns whether that is possible
    /// with the pairs that are allowed; all present ones are.
    fn complete(&mut self, is_allowed: impl Fn(usize, usize) -> bool) -> bool {
        let n = self.receiver_of.len();
        (0..n).all(|from| self.receiver_of[from].is_some() || self.augment(from, &is_allowed, &mut vec![false; n]))
    }

    /// Finds a receiver for `from`; other senders may change receivers. Receivers in `visited` were tried.
    fn augment(&mut self, from: usize, is_allowed: &impl Fn(usize, usize) -> bool, visited: &mut [bool]) -> bool {
        for to in 0..visited.len() {
            if visited[to] || !is_allowed(from, to) {
                continue;
            }
            visited[to] = true;
            if self.sender_of[to].is_none_or(|other| self.augment(other, is_allowed, visited)) {
                self.receiver_of[from] = Some(to);
                self.sender_of[to] = Some(from);
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use net::random::RandomStream;
    use proptest::prelude::*;

    use super::*;

    /// Returns the largest sum of a row or a column.
    fn bottleneck(n: usize, bytes: &[u64]) -> u128 {
        let sum =
            |step: usize, begin: usize| bytes.iter().skip(begin).step_by(step).take(n).copied().map(u128::from).sum();
        (0..n).flat_map(|rank| [sum(1, rank * n), sum(n, rank)]).max().unwrap_or(0)
    }

    /// Checks the stages of a matrix. Returns their number.
    fn check_stages(n: usize, bytes: &[u64]) -> usize {
        let stages = stages(n, bytes.to_vec());
        let mut sums = vec![0u64; n * n];
        let mut lengths = 0;
        for stage in &stages {
            let (mut senders, mut receivers) = (vec![false; n], vec![false; n]);
            for part in stage {
                assert!(!std::mem::replace(&mut senders[part.from], true), "two parts of one sender");
                assert!(!std::mem::replace(&mut receivers[part.to], true), "two parts for one receiver");
                sums[part.from * n + part.to] += part.bytes;
            }
            lengths += stage.iter().map(|part| u128::from(part.bytes)).max().expect("no stage without parts");
        }
        assert_eq!(sums, bytes);
        assert_eq!(lengths, bottleneck(n, bytes));
        assert!(stages.len() as u64 <= count_max(n as u32), "{} stages of {n}", stages.len());
        stages.len()
    }

    /// Checks the sends of a matrix: each begins with the end of the one that it waits for, in a
    /// network in which only the links of ranks are limited, to a rate of 1. Returns their number.
    fn check_sends(n: usize, bytes: &[u64]) -> usize {
        let mut steps = Vec::new();
        append(n, bytes.to_vec(), &mut steps);
        let mut sums = vec![0u64; n * n];
        let mut spans: Vec<(u128, u128)> = Vec::new();
        for step in &steps {
            let begin = step.after.map_or(0, |after| spans[after as usize].1);
            spans.push((begin, begin + u128::from(step.bytes)));
            sums[step.from as usize * n + step.to as usize] += step.bytes;
        }
        assert_eq!(sums, bytes);
        assert_eq!(spans.iter().map(|span| span.1).max().unwrap_or(0), bottleneck(n, bytes), "completion");
        for rank in 0..n as u32 {
            for end in [|step: &Step| step.from, |step: &Step| step.to] {
                let mut of_rank: Vec<_> =
                    steps.iter().zip(&spans).filter(|(step, _)| end(step) == rank).map(|(_, span)| *span).collect();
                of_rank.sort_unstable();
                let one_at_a_time = of_rank.windows(2).all(|spans| spans[0].1 <= spans[1].0);
                assert!(one_at_a_time, "two sends of or to rank {rank} at once: {of_rank:?}");
            }
        }
        steps.len()
    }

    /// Returns the time of rounds to the next rank, the second next and so on, one after the other.
    fn spread_out(n: usize, bytes: &[u64]) -> u64 {
        let round = |distance: usize| (0..n).map(|from| bytes[from * n + (from + distance) % n]).max().unwrap_or(0);
        (1..n).map(round).sum()
    }

    #[test]
    fn four_ranks_take_14_where_rounds_take_17() {
        // The figures of the source; its matrix was not at hand, this is another one with the same
        // two times.
        let bytes = [0, 4, 1, 5, 1, 0, 2, 2, 1, 4, 0, 7, 5, 5, 3, 0];
        assert_eq!((bottleneck(4, &bytes), spread_out(4, &bytes)), (14, 17));
        check_stages(4, &bytes);
        check_sends(4, &bytes);
    }

    #[test]
    fn one_stage_each_for_even_rounds_and_none_without_bytes() {
        let even: Vec<u64> = (0..25).map(|at| if at % 6 == 0 { 0 } else { 10 }).collect();
        assert_eq!((check_stages(5, &even), check_sends(5, &even)), (4, 20));
        assert_eq!((check_stages(3, &[0; 9]), check_sends(3, &[0; 9])), (0, 0));
        assert!(stages(0, vec![]).is_empty() && stages(1, vec![0]).is_empty());
    }

    #[test]
    fn sums_above_64_bits_are_divided() {
        let most = u64::MAX;
        let bytes = [0, most, most, 1, 0, most, 0, most, 0];
        check_stages(3, &bytes);
        check_sends(3, &bytes);
    }

    #[test]
    fn sixty_four_ranks_need_less_than_a_quarter_of_the_sends_that_are_possible() {
        let n = 64;
        let mut random = RandomStream::new(1, "matrix");
        let mut bytes: Vec<u64> = (0..n * n).map(|_| (random.exponential(1.0) * 1e6) as u64).collect();
        (0..n).for_each(|rank| bytes[rank * n + rank] = 0);
        let (stages, sends) = (check_stages(n, &bytes), check_sends(n, &bytes));
        assert!(4 * sends as u64 <= n as u64 * count_max(64), "{stages} stages, {sends} sends");
    }

    /// Matrices with many, few and no elements, of small and of large values.
    fn matrix() -> impl Strategy<Value = (usize, Vec<u64>)> {
        let element = prop_oneof![2 => Just(0), 3 => 0..10u64, 1 => 0..1_000_000_000u64];
        (1..10usize).prop_flat_map(move |n| {
            (Just(n), prop::collection::vec(element.clone(), n * n)).prop_map(|(n, mut bytes)| {
                (0..n).for_each(|rank| bytes[rank * n + rank] = 0);
                (n, bytes)
            })
        })
    }

    proptest! {
        #[test]
        fn stages_are_partial_permutations_whose_lengths_add_up_to_the_largest_sum((n, bytes) in matrix()) {
            check_stages(n, &bytes);
        }

        #[test]
        fn sends_follow_one_another_at_both_ends_and_complete_in_the_largest_sum((n, bytes) in matrix()) {
            check_sends(n, &bytes);
        }
    }
}
