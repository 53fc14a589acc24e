//! The sends of one collective in one group, and what each of them waits for.

/// A collective, with the algorithm that carries it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectiveKind {
    /// Reduce-scatter, then all-gather, round a ring: 2 (n - 1) steps; in each, every rank sends
    /// one block to its successor, and a rank's send waits for what it received in the step before.
    AllReduce,
    /// Round a ring in n - 1 steps; the buffer is the whole that every rank has in the end.
    AllGather,
    /// Round a ring in n - 1 steps; the buffer is the whole that every rank has in the beginning.
    ReduceScatter,
    /// Every rank sends one block of its buffer to every other, all at once.
    AllToAll,
    /// The same in n - 1 rounds: in round k, rank i sends to rank i + k after receiving.
    AllToAllRounds,
    /// Down a binomial tree: in round k, the 2^k ranks that have the whole buffer send it to as
    /// many others, each one send after the other.
    Broadcast {
        /// Member of the group that has it in the beginning.
        root: u32,
    },
}

/// One send within a collective, between members of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: u64,
    /// The step, by its position, that must have been delivered; `None` begins with the collective.
    pub(crate) after: Option<u32>,
}

impl CollectiveKind {
    /// Bytes that all ranks of a group of `n` send together, for a buffer of `bytes`.
    pub fn sent_bytes(self, n: u32, bytes: u64) -> u128 {
        let each = u128::from(n.saturating_sub(1)) * u128::from(bytes);
        if self == CollectiveKind::AllReduce { 2 * each } else { each }
    }

    /// Number of rounds of a group of `n`, in each of which every rank sends once; `None` for a
    /// collective without such rounds.
    pub(crate) fn rounds(self, n: u32) -> Option<u32> {
        match self {
            CollectiveKind::AllReduce => Some(2 * n.saturating_sub(1)),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAllRounds => {
                Some(n.saturating_sub(1))
            }
            CollectiveKind::AllToAll | CollectiveKind::Broadcast { .. } => None,
        }
    }

    /// Flows of a group of `n`, at most, in no more than `rounds`.
    pub(crate) fn flow_count(self, n: u32, rounds: u32) -> u64 {
        let (all, others) = (u64::from(n), u64::from(n).saturating_sub(1));
        match self.rounds(n) {
            Some(total) => u64::from(total.min(rounds)) * all,
            None if matches!(self, CollectiveKind::Broadcast { .. }) => others,
            None => others * all,
        }
    }

    /// Appends the steps of a group of `n` in no more than `rounds`; their positions begin with the
    /// first one appended to an empty list. Blocks without bytes make no step, so that bytes add up.
    pub(crate) fn steps(self, n: u32, bytes: u64, rounds: u32, steps: &mut Vec<Step>) {
        let count = self.rounds(n).unwrap_or(0).min(rounds);
        match self {
            CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
                ring(n, bytes, count, steps);
            }
            CollectiveKind::AllToAll => exchange(n, bytes, 1..n, false, steps),
            CollectiveKind::AllToAllRounds if rounds < n.saturating_sub(1) => {
                exchange(n, bytes, spread(n, count), true, steps);
            }
            CollectiveKind::AllToAllRounds => exchange(n, bytes, 1..n, true, steps),
            CollectiveKind::Broadcast { root } => broadcast(n, bytes, root, steps),
        }
    }
}

fn block(bytes: u64, n: u32, ix: u32) -> u64 {
    let n = u64::from(n);
    bytes / n + u64::from(u64::from(ix) < bytes % n)
}

/// Block b begins at rank b and moves one rank on in each round, so what a rank sends in a round is
/// what it received in the one before.
fn ring(n: u32, bytes: u64, rounds: u32, steps: &mut Vec<Step>) {
    let mut last: Vec<Option<u32>> = vec![None; n as usize];
    for round in 0..rounds {
        for (ix, last) in (0..n).zip(&mut last) {
            let (from, bytes) = ((ix + round) % n, block(bytes, n, ix));
            if bytes > 0 {
                let after = last.replace(steps.len() as u32);
                steps.push(Step { from, to: (from + 1) % n, bytes, after });
            }
        }
    }
}

/// Returns some of the distances 1 to n - 1, each once. Any part of them is spread over all: they are
/// the golden section of the range apart.
fn spread(n: u32, count: u32) -> impl Iterator<Item = u32> {
    let others = u64::from(n.saturating_sub(1)).max(1);
    let mut step = (others as f64 * 0.618).round() as u64;
    while gcd(step, others) > 1 {
        step += 1;
    }
    (0..u64::from(count)).map(move |round| (1 + round * step % others) as u32)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Each distance is a round, in which every rank sends to the rank that far behind it.
fn exchange(n: u32, bytes: u64, distances: impl Iterator<Item = u32>, in_rounds: bool, steps: &mut Vec<Step>) {
    let mut received: Vec<Option<u32>> = vec![None; n as usize];
    for distance in distances {
        let begin = steps.len();
        for from in 0..n {
            let to = ((u64::from(from) + u64::from(distance)) % u64::from(n)) as u32;
            let bytes = block(bytes, n, to);
            if bytes > 0 {
                let after = received[from as usize].filter(|_| in_rounds);
                steps.push(Step { from, to, bytes, after });
            }
        }
        for (place, step) in steps.iter().enumerate().skip(begin) {
            received[step.to as usize] = Some(place as u32);
        }
    }
}

fn broadcast(n: u32, bytes: u64, root: u32, steps: &mut Vec<Step>) {
    // The last step each rank had a part in; ranks counted from the root.
    let mut last: Vec<Option<u32>> = vec![None; n as usize];
    let mut holders = 1;
    while holders < n && bytes > 0 {
        for from in 0..holders.min(n - holders) {
            let to = from + holders;
            let place = Some(steps.len() as u32);
            let after = std::mem::replace(&mut last[from as usize], place);
            last[to as usize] = place;
            let member = |rank: u32| ((u64::from(rank) + u64::from(root)) % u64::from(n)) as u32;
            steps.push(Step { from: member(from), to: member(to), bytes, after });
        }
        holders = holders.saturating_mul(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [CollectiveKind; 6] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::AllToAllRounds,
        CollectiveKind::Broadcast { root: 2 },
    ];

    fn steps(kind: CollectiveKind, n: u32, bytes: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        kind.steps(n, bytes, u32::MAX, &mut steps);
        steps
    }

    #[test]
    fn bytes_add_up_and_waits_point_back() {
        for kind in KINDS {
            for n in 1..10 {
                for bytes in [0, 1, 3, 7, 8, 1000, 1001] {
                    let steps = steps(kind, n, bytes);
                    let sent: u128 = steps.iter().map(|step| u128::from(step.bytes)).sum();
                    assert_eq!(sent, kind.sent_bytes(n, bytes), "{kind:?} {n} {bytes}");
                    assert!(steps.len() as u64 <= kind.flow_count(n, u32::MAX));
                    if bytes >= u64::from(n) {
                        assert_eq!(steps.len() as u64, kind.flow_count(n, u32::MAX), "{kind:?} {n} {bytes}");
                    }
                    for (place, step) in steps.iter().enumerate() {
                        assert!(step.from < n && step.to < n && step.from != step.to && step.bytes > 0);
                        if let Some(after) = step.after {
                            assert!((after as usize) < place);
                            // Only what a rank itself had a part in can hold it up.
                            let before = &steps[after as usize];
                            assert!(before.to == step.from || before.from == step.from);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_ring_send_waits_for_what_the_rank_received_in_the_step_before() {
        let n = 5;
        for (kind, rounds) in [(CollectiveKind::AllReduce, 8), (CollectiveKind::AllGather, 4)] {
            let steps = steps(kind, n, 1000);
            assert_eq!(steps.len() as u32, rounds * n);
            for (place, step) in steps.iter().enumerate() {
                let round = place as u32 / n;
                assert_eq!(step.to, (step.from + 1) % n);
                let Some(after) = step.after else {
                    assert_eq!(round, 0);
                    continue;
                };
                assert_eq!(after / n, round - 1);
                assert_eq!(steps[after as usize].to, step.from);
            }
            // Every rank sends once in each round.
            for round in steps.chunks(n as usize) {
                let mut from: Vec<u32> = round.iter().map(|step| step.from).collect();
                from.sort_unstable();
                assert_eq!(from, (0..n).collect::<Vec<u32>>());
            }
        }
    }

    #[test]
    fn blocks_pass_every_rank() {
        // After a ring of n - 1 steps each block has been everywhere; sizes identify the blocks.
        let mut seen = vec![vec![0u32; 4]; 4];
        for step in steps(CollectiveKind::AllGather, 4, 4 * 10 + 3) {
            seen[step.to as usize][usize::from(step.bytes == 11)] += 1;
        }
        assert!(seen.iter().enumerate().all(|(rank, seen)| seen[0] == u32::from(rank != 3) && seen[1] >= 2));
    }

    #[test]
    fn all_to_all_reaches_every_other_rank_once() {
        for kind in [CollectiveKind::AllToAll, CollectiveKind::AllToAllRounds] {
            let steps = steps(kind, 6, 600);
            let mut pairs: Vec<(u32, u32)> = steps.iter().map(|step| (step.from, step.to)).collect();
            pairs.sort_unstable();
            pairs.dedup();
            assert_eq!(pairs.len(), 30);
            let begins = steps.iter().filter(|step| step.after.is_none()).count();
            assert_eq!(begins, if kind == CollectiveKind::AllToAll { 30 } else { 6 });
        }
        let rounds = steps(CollectiveKind::AllToAllRounds, 6, 600);
        for (place, step) in rounds.iter().enumerate().skip(6) {
            let before = step.after.unwrap();
            assert_eq!(before as usize / 6, place / 6 - 1);
            assert_eq!(rounds[before as usize].to, step.from);
        }
    }

    #[test]
    fn some_rounds_are_the_first_of_a_ring_and_distant_ones_of_an_exchange() {
        let some = |kind: CollectiveKind| {
            let mut steps = Vec::new();
            kind.steps(12, 1200, 4, &mut steps);
            steps
        };
        assert_eq!(some(CollectiveKind::AllReduce), steps(CollectiveKind::AllReduce, 12, 1200)[..48]);
        let exchange = some(CollectiveKind::AllToAllRounds);
        assert_eq!(exchange.len(), 48);
        let distances = exchange.chunks(12).map(|round| (round[0].to + 12 - round[0].from) % 12);
        let distances: Vec<u32> = distances.collect();
        assert_eq!(distances, [1, 8, 4, 11]);
        for step in &exchange[12..] {
            assert_eq!(exchange[step.after.unwrap() as usize].to, step.from);
        }
        for n in 2..60 {
            let mut all: Vec<u32> = spread(n, n - 1).collect();
            all.sort_unstable();
            assert_eq!(all, (1..n).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn a_broadcast_doubles_the_holders_in_each_round() {
        let steps = steps(CollectiveKind::Broadcast { root: 5 }, 7, 10);
        let pairs: Vec<(u32, u32)> = steps.iter().map(|step| (step.from, step.to)).collect();
        assert_eq!(pairs, [(5, 6), (5, 0), (6, 1), (5, 2), (6, 3), (0, 4)]);
        let after: Vec<Option<u32>> = steps.iter().map(|step| step.after).collect();
        assert_eq!(after, [None, Some(0), Some(0), Some(1), Some(2), Some(1)]);
    }
}
