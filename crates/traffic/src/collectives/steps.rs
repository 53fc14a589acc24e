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

    /// Flows of a group of `n`, at most.
    pub(crate) fn flow_count(self, n: u32) -> u64 {
        let (n, others) = (u64::from(n), u64::from(n).saturating_sub(1));
        match self {
            CollectiveKind::AllReduce => 2 * others * n,
            CollectiveKind::Broadcast { .. } => others,
            _ => others * n,
        }
    }

    /// Appends the steps of a group of `n`; their positions begin with the first one appended to an
    /// empty list. Blocks without bytes make no step, so that bytes add up.
    pub(crate) fn steps(self, n: u32, bytes: u64, steps: &mut Vec<Step>) {
        match self {
            CollectiveKind::AllReduce => ring(n, bytes, 2 * n.saturating_sub(1), steps),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter => ring(n, bytes, n.saturating_sub(1), steps),
            CollectiveKind::AllToAll => all_to_all(n, bytes, false, steps),
            CollectiveKind::AllToAllRounds => all_to_all(n, bytes, true, steps),
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

fn all_to_all(n: u32, bytes: u64, in_rounds: bool, steps: &mut Vec<Step>) {
    let mut received: Vec<Option<u32>> = vec![None; n as usize];
    for round in 1..n {
        let begin = steps.len();
        for from in 0..n {
            let to = (from + round) % n;
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
        kind.steps(n, bytes, &mut steps);
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
                    assert!(steps.len() as u64 <= kind.flow_count(n));
                    if bytes >= u64::from(n) {
                        assert_eq!(steps.len() as u64, kind.flow_count(n), "{kind:?} {n} {bytes}");
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
    fn a_broadcast_doubles_the_holders_in_each_round() {
        let steps = steps(CollectiveKind::Broadcast { root: 5 }, 7, 10);
        let pairs: Vec<(u32, u32)> = steps.iter().map(|step| (step.from, step.to)).collect();
        assert_eq!(pairs, [(5, 6), (5, 0), (6, 1), (5, 2), (6, 3), (0, 4)]);
        let after: Vec<Option<u32>> = steps.iter().map(|step| step.after).collect();
        assert_eq!(after, [None, Some(0), Some(0), Some(1), Some(2), Some(1)]);
    }
}
