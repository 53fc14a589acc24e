//! The sends of one collective in one group, and what each of them waits for.

use net::Time;
use net::random::RandomStream;

use super::stages;

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
    /// All-reduce by recursive halving, then doubling (Rabenseifner): 2 log2 n steps, in each of which
    /// every rank exchanges half of what it is still responsible for with another one. Only for groups
    /// of a power of two.
    HalvingDoubling,
    /// Tokens to experts, one expert on each rank: every rank divides its buffer among all ranks by the
    /// popularity of their experts, which follows a Zipf distribution. Which expert is how popular is
    /// drawn for each collective.
    Experts {
        /// Exponent of the distribution, hundredths; 0 is a plain all-to-all.
        skew_hundredths: u32,
        /// Order in which ranks send to the experts.
        schedule: Schedule,
    },
    /// Stages of a model, in turn: each micro-batch goes from the first rank to the last and its
    /// gradients back, in the order "one forward, one backward" (PipeDream-Flush). The backward pass of
    /// a stage takes twice its forward pass, so micro-batches enter three forward passes apart.
    Pipeline {
        micro_batches: u32,
        /// Forward pass of a stage.
        compute: Time,
    },
}

/// The order of the sends of an exchange in which every rank sends to every other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// All sends begin with the collective.
    None,
    /// One-to-one stages of FAST: at any time, a rank sends to one other and receives from one.
    Fast,
}

impl Schedule {
    /// All schedules, in the order of [`Schedule::NAMES`].
    pub const ALL: [Schedule; 2] = [Schedule::None, Schedule::Fast];
    /// The values of the parameter `schedule`.
    pub const NAMES: [&str; 2] = ["none", "fast"];
}

/// One send within a collective, between members of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) bytes: u64,
    /// The step, by its position, that must have been delivered; `None` begins with the collective.
    pub(crate) after: Option<u32>,
    /// Computation between that and the send.
    pub(crate) delay: Time,
}

impl CollectiveKind {
    /// Bytes that all ranks of a group of `n` send together, for a buffer of `bytes`.
    pub fn sent_bytes(self, n: u32, bytes: u64) -> u128 {
        let each = u128::from(n.saturating_sub(1)) * u128::from(bytes);
        match self {
            CollectiveKind::AllReduce | CollectiveKind::HalvingDoubling => 2 * each,
            CollectiveKind::Pipeline { micro_batches, .. } => 2 * each * u128::from(micro_batches),
            _ => each,
        }
    }

    /// Bytes of a buffer of `bytes` that cross the link of each rank of a group of `n`: divided by the
    /// time they give the bus bandwidth of nccl-tests (PERFORMANCE.md), which compares with the rate of
    /// that link. `None` for a pipeline, which has no buffer.
    pub(crate) fn bus_bytes(self, n: u32, bytes: u64) -> Option<f64> {
        let others = f64::from(n.saturating_sub(1)) / f64::from(n.max(1));
        let factor = match self {
            CollectiveKind::AllReduce | CollectiveKind::HalvingDoubling => 2.0 * others,
            CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllToAll
            | CollectiveKind::AllToAllRounds
            | CollectiveKind::Experts { .. } => others,
            CollectiveKind::Broadcast { .. } => 1.0,
            CollectiveKind::Pipeline { .. } => return None,
        };
        Some(factor * bytes as f64)
    }

    /// Number of rounds of a group of `n`, in each of which every rank sends once; `None` for a
    /// collective without such rounds.
    pub(crate) fn rounds(self, n: u32) -> Option<u32> {
        match self {
            CollectiveKind::AllReduce => Some(2 * n.saturating_sub(1)),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAllRounds => {
                Some(n.saturating_sub(1))
            }
            CollectiveKind::AllToAll
            | CollectiveKind::Broadcast { .. }
            | CollectiveKind::HalvingDoubling
            | CollectiveKind::Experts { .. }
            | CollectiveKind::Pipeline { .. } => None,
        }
    }

    /// Flows of a group of `n`, at most, in no more than `rounds`.
    pub(crate) fn flow_count(self, n: u32, rounds: u32) -> u64 {
        let (all, others) = (u64::from(n), u64::from(n).saturating_sub(1));
        match self.rounds(n) {
            Some(total) => u64::from(total.min(rounds)) * all,
            None => match self {
                CollectiveKind::Broadcast { .. } => others,
                CollectiveKind::HalvingDoubling => 2 * all * u64::from(n.max(1).ilog2()),
                CollectiveKind::Pipeline { micro_batches, .. } => 2 * others * u64::from(micro_batches),
                CollectiveKind::Experts { schedule: Schedule::Fast, .. } => stages::count_max(n).saturating_mul(all),
                _ => others * all,
            },
        }
    }

    /// Appends the steps of a group of `n` in no more than `rounds`; their positions begin with the
    /// first one appended to an empty list. Blocks without bytes make no step, so that bytes add up.
    /// `random` decides the popularity of experts.
    pub(crate) fn steps(self, n: u32, bytes: u64, rounds: u32, random: &mut RandomStream, steps: &mut Vec<Step>) {
        let count = self.rounds(n).unwrap_or(0).min(rounds);
        match self {
            CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter => {
                ring(n, bytes, count, steps);
            }
            CollectiveKind::AllToAll => exchange(n, |to| block(bytes, n, to), 1..n, false, steps),
            CollectiveKind::AllToAllRounds if rounds < n.saturating_sub(1) => {
                exchange(n, |to| block(bytes, n, to), spread(n, count), true, steps);
            }
            CollectiveKind::AllToAllRounds => exchange(n, |to| block(bytes, n, to), 1..n, true, steps),
            CollectiveKind::Broadcast { root } => broadcast(n, bytes, root, steps),
            CollectiveKind::HalvingDoubling => halving_doubling(n, bytes, steps),
            CollectiveKind::Experts { skew_hundredths, schedule } => {
                let bytes_to = bytes_to_experts(n, bytes, f64::from(skew_hundredths) / 100.0, random);
                match schedule {
                    Schedule::None => exchange(n, |to| bytes_to[to as usize], 1..n, false, steps),
                    Schedule::Fast => {
                        let pair = |from: usize, to: usize| if from == to { 0 } else { bytes_to[to] };
                        let size = n as usize;
                        let matrix = (0..size * size).map(|at| pair(at / size, at % size)).collect();
                        stages::append(size, matrix, steps);
                    }
                }
            }
            CollectiveKind::Pipeline { micro_batches, compute } => pipeline(n, bytes, micro_batches, compute, steps),
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
                steps.push(Step { from, to: (from + 1) % n, bytes, after, delay: Time::ZERO });
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

/// Notes, for each rank, the latest of the steps from `begin` on that it receives.
fn note_received(received: &mut [Option<u32>], steps: &[Step], begin: usize) {
    for (place, step) in steps.iter().enumerate().skip(begin) {
        received[step.to as usize] = Some(place as u32);
    }
}

/// Each distance is a round, in which every rank sends to the rank that far behind it, as many bytes
/// as `bytes_to` says for the receiver.
fn exchange(
    n: u32,
    bytes_to: impl Fn(u32) -> u64,
    distances: impl Iterator<Item = u32>,
    in_rounds: bool,
    steps: &mut Vec<Step>,
) {
    let mut received: Vec<Option<u32>> = vec![None; n as usize];
    for distance in distances {
        let begin = steps.len();
        for from in 0..n {
            let to = ((u64::from(from) + u64::from(distance)) % u64::from(n)) as u32;
            let bytes = bytes_to(to);
            if bytes > 0 {
                let after = received[from as usize].filter(|_| in_rounds);
                steps.push(Step { from, to, bytes, after, delay: Time::ZERO });
            }
        }
        note_received(&mut received, steps, begin);
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
            steps.push(Step { from: member(from), to: member(to), bytes, after, delay: Time::ZERO });
        }
        holders = holders.saturating_mul(2);
    }
}

/// In step k of the first half, a rank keeps the half of its part that its bit k selects, counted from
/// the most significant one, and sends the other half to the rank that differs in this bit. The second
/// half repeats the exchanges backwards, with what each rank has by then.
fn halving_doubling(n: u32, bytes: u64, steps: &mut Vec<Step>) {
    if !n.is_power_of_two() || n < 2 {
        return;
    }
    let bits = n.ilog2();
    // The part of a rank after its first `k` steps.
    let part = |rank: u32, k: u32| {
        (0..k).fold((0, bytes), |(from, to), bit| {
            let middle = from + (to - from) / 2;
            if rank >> (bits - 1 - bit) & 1 == 0 { (from, middle) } else { (middle, to) }
        })
    };
    let mut received: Vec<Option<u32>> = vec![None; n as usize];
    let halving = (0..bits).map(|bit| (bit, true));
    for (bit, is_halving) in halving.chain((0..bits).rev().map(|bit| (bit, false))) {
        let begin = steps.len();
        for from in 0..n {
            let to = from ^ (1 << (bits - 1 - bit));
            // Halving sends what the other keeps, doubling what the rank has kept.
            let (low, high) = part(if is_halving { to } else { from }, bit + 1);
            if high > low {
                let after = received[from as usize];
                steps.push(Step { from, to, bytes: high - low, after, delay: Time::ZERO });
            }
        }
        note_received(&mut received, steps, begin);
    }
}

/// Returns the bytes that each rank sends to the expert on each rank, its own included.
fn bytes_to_experts(n: u32, bytes: u64, skew: f64, random: &mut RandomStream) -> Vec<u64> {
    let mut popularity: Vec<f64> = (1..=n).map(|place| libm::pow(f64::from(place), -skew)).collect();
    random.shuffle(&mut popularity);
    let sum: f64 = popularity.iter().sum();
    let mut below = 0.0;
    let mut bounds = vec![0];
    for popularity in &popularity {
        below += popularity;
        bounds.push((bytes as f64 * (below / sum)) as u64);
    }
    bounds[n as usize] = bytes;
    bounds.windows(2).map(|bounds| bounds[1].saturating_sub(bounds[0])).collect()
}

fn pipeline(n: u32, bytes: u64, micro_batches: u32, compute: Time, steps: &mut Vec<Step>) {
    let last = n.saturating_sub(1);
    for batch in 0..if bytes > 0 { micro_batches } else { 0 } {
        let mut after = None;
        let there = (0..last).map(|from| {
            let passes = if from == 0 { 3 * u64::from(batch) + 1 } else { 1 };
            (from, from + 1, passes)
        });
        let back = (1..=last).rev().map(|from| (from, from - 1, if from == last { 3 } else { 2 }));
        for (from, to, passes) in there.chain(back) {
            let place = steps.len() as u32;
            let delay = Time::from_ps(compute.as_ps().saturating_mul(passes));
            steps.push(Step { from, to, bytes, after, delay });
            after = Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn experts(skew_hundredths: u32, schedule: Schedule) -> CollectiveKind {
        CollectiveKind::Experts { skew_hundredths, schedule }
    }

    const KINDS: [CollectiveKind; 9] = [
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll,
        CollectiveKind::AllToAllRounds,
        CollectiveKind::Broadcast { root: 2 },
        experts(120, Schedule::None),
        experts(120, Schedule::Fast),
        CollectiveKind::Pipeline { micro_batches: 3, compute: Time::ZERO },
    ];

    fn random() -> RandomStream {
        RandomStream::new(1, "experts")
    }

    fn steps(kind: CollectiveKind, n: u32, bytes: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        kind.steps(n, bytes, u32::MAX, &mut random(), &mut steps);
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
                    let is_even = !matches!(kind, CollectiveKind::Experts { .. });
                    if bytes >= u64::from(n) && is_even {
                        assert_eq!(steps.len() as u64, kind.flow_count(n, u32::MAX), "{kind:?} {n} {bytes}");
                    }
                    for (place, step) in steps.iter().enumerate() {
                        assert!(step.from < n && step.to < n && step.from != step.to && step.bytes > 0);
                        if let Some(after) = step.after {
                            assert!((after as usize) < place);
                            // Only what a rank itself had a part in can hold it up; with a schedule, also
                            // what the receiver received.
                            let before = &steps[after as usize];
                            let is_fast = kind == experts(120, Schedule::Fast) && before.to == step.to;
                            assert!(before.to == step.from || before.from == step.from || is_fast);
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
            kind.steps(12, 1200, 4, &mut random(), &mut steps);
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

    #[test]
    fn halving_and_doubling_exchange_with_one_rank_after_the_other() {
        for n in [2u32, 4, 8, 16] {
            for bytes in [16, 1000, 1001] {
                let steps = steps(CollectiveKind::HalvingDoubling, n, bytes);
                let sent: u128 = steps.iter().map(|step| u128::from(step.bytes)).sum();
                assert_eq!(sent, CollectiveKind::HalvingDoubling.sent_bytes(n, bytes), "{n} {bytes}");
                assert_eq!(steps.len() as u64, CollectiveKind::HalvingDoubling.flow_count(n, u32::MAX));
                for (place, step) in steps.iter().enumerate() {
                    let round = place as u32 / n;
                    assert_eq!(step.after.map(|after| after / n), round.checked_sub(1));
                    assert!(step.after.is_none_or(|after| steps[after as usize].to == step.from));
                    let bit = round.min(2 * n.ilog2() - 1 - round);
                    assert_eq!(step.from ^ step.to, n >> (bit + 1));
                }
            }
        }
        assert!(steps(CollectiveKind::HalvingDoubling, 6, 100).is_empty());
    }

    #[test]
    fn popular_experts_receive_in_proportion() {
        let n = 64;
        let steps = steps(experts(120, Schedule::None), n, 64_000_000);
        let from_first: Vec<u64> = steps.iter().filter(|step| step.from == 0).map(|step| step.bytes).collect();
        let mut sorted = from_first.clone();
        sorted.sort_unstable();
        // Zipf with exponent 1.2 over 64: the first is 64^1.2 = 147 times as popular as the last, and
        // 2^(5 * 1.2) = 64 times as popular as number 32. One of the 64 is the rank's own expert.
        let ratio = *sorted.last().unwrap() as f64 / sorted[0] as f64;
        assert!((110.0..148.0).contains(&ratio), "{ratio}");
        let from_next: Vec<u64> = steps.iter().filter(|step| step.from == 1).map(|step| step.bytes).collect();
        assert_eq!(from_first[1..], from_next[..62], "all ranks like the same experts");
        let even = experts(0, Schedule::None);
        let mut plain = Vec::new();
        even.steps(8, 800, u32::MAX, &mut random(), &mut plain);
        assert!(plain.iter().all(|step| step.bytes == 100));
    }

    #[test]
    fn a_pipeline_without_a_network_has_the_bubble_of_one_forward_one_backward() {
        let (n, micro_batches, compute) = (4, 6, Time::from_us(10));
        let steps = steps(CollectiveKind::Pipeline { micro_batches, compute }, n, 1000);
        let mut sent = vec![Time::ZERO; steps.len()];
        for (place, step) in steps.iter().enumerate() {
            sent[place] = step.after.map_or(Time::ZERO, |after| sent[after as usize]).saturating_add(step.delay);
        }
        // The last gradient arrives before the last backward pass: 3 (m + n - 1) passes less 2.
        let last = sent.iter().max().unwrap();
        assert_eq!(*last, Time::from_us(10 * (3 * (6 + 4 - 1) - 2)));
        assert_eq!(steps.len() as u64, CollectiveKind::Pipeline { micro_batches, compute }.flow_count(n, u32::MAX));
    }
}
