//! Patterns that are a fixed list of pairs.

use net::random::RandomStream;
use net::{HostIx, Topology};

use super::{Pattern, PatternError, Receivers};
use crate::generate::FLOWS_MAX;

/// The pairs of a matrix pattern; `None` for patterns of another kind.
pub(super) fn pairs(
    pattern: &Pattern,
    topology: &Topology,
    stream: &mut RandomStream,
) -> Result<Option<Vec<(HostIx, HostIx)>>, PatternError> {
    let n = topology.hosts().len() as u32;
    let per_host = match pattern {
        Pattern::Stride { .. } | Pattern::RandomBijection { .. } => 1,
        Pattern::AllToAll | Pattern::Shuffle { .. } => n - 1,
        Pattern::OneToN { n, .. } => *n,
        _ => return Ok(None),
    };
    if n < 2 {
        return Err(pattern.impossible(topology, "it has one host; a flow needs two"));
    }
    if matches!(pattern, Pattern::OneToN { n: receivers, .. } if *receivers >= n) {
        let reason = format!("a host has only {} others; lower n to that", n - 1);
        return Err(pattern.impossible(topology, reason));
    }
    // More derangements without a common pair exist, but drawing them would not end soon.
    if matches!(pattern, Pattern::OneToN { n: of_each, receivers: Receivers::Balanced } if *of_each > n / 2) {
        let reason =
            format!("balanced receivers are drawn up to half the hosts; lower n to {}, or use all-to-all", n / 2);
        return Err(pattern.impossible(topology, reason));
    }
    let pair_count = u64::from(n) * u64::from(per_host);
    if pair_count > u64::from(FLOWS_MAX) {
        let reason = format!("{pair_count} pairs are more than {FLOWS_MAX}; use fewer hosts");
        return Err(pattern.impossible(topology, reason));
    }
    Ok(Some(match pattern {
        Pattern::Stride { step } => stride(pattern, topology, step.unwrap_or(n / 2))?,
        Pattern::RandomBijection { draw: None } => random_bijection(n, stream),
        Pattern::RandomBijection { draw: Some(draw) } => {
            random_bijection(n, &mut RandomStream::new(u64::from(*draw), "bijection"))
        }
        Pattern::OneToN { n: of_each, receivers: Receivers::Independent } => one_to_n(n, *of_each, stream),
        Pattern::OneToN { n: of_each, receivers: Receivers::Balanced } => balanced(n, *of_each, stream),
        Pattern::Shuffle { .. } => shuffle(n, stream),
        _ => all_to_all(n),
    }))
}

fn stride(pattern: &Pattern, topology: &Topology, step: u32) -> Result<Vec<(HostIx, HostIx)>, PatternError> {
    let n = topology.hosts().len() as u32;
    if step.is_multiple_of(n) {
        let reason =
            format!("a step of {step} over {n} hosts leads back to the sender; use a step from 1 to {}", n - 1);
        return Err(pattern.impossible(topology, reason));
    }
    let to = |x: u32| (u64::from(x) + u64::from(step)) % u64::from(n);
    Ok((0..n).map(|x| (HostIx(x), HostIx(to(x) as u32))).collect())
}

/// A uniform permutation without fixed points: shuffles until it has none, 2.7 times on average.
fn random_bijection(n: u32, stream: &mut RandomStream) -> Vec<(HostIx, HostIx)> {
    let mut to: Vec<u32> = (0..n).collect();
    loop {
        stream.shuffle(&mut to);
        if (0..n).zip(&to).all(|(from, to)| from != *to) {
            return (0..n).zip(to).map(|(from, to)| (HostIx(from), HostIx(to))).collect();
        }
    }
}

fn all_to_all(n: u32) -> Vec<(HostIx, HostIx)> {
    let receivers = |from| others(n, from).map(move |to| (HostIx(from), HostIx(to)));
    (0..n).flat_map(receivers).collect()
}

fn one_to_n(n: u32, receivers: u32, stream: &mut RandomStream) -> Vec<(HostIx, HostIx)> {
    let mut pairs = Vec::with_capacity((n * receivers) as usize);
    for from in 0..n {
        let mut to: Vec<u32> = others(n, from).collect();
        for place in 0..receivers as usize {
            let other = place + stream.next_below((to.len() - place) as u64) as usize;
            to.swap(place, other);
            pairs.push((HostIx(from), HostIx(to[place])));
        }
    }
    pairs
}

/// Derangements without a common pair, one after the other: each is shuffled, and a receiver that its
/// sender has already, or that is the sender itself, is exchanged with that of a random sender until
/// none is left.
fn balanced(n: u32, of_each: u32, stream: &mut RandomStream) -> Vec<(HostIx, HostIx)> {
    let mut receivers: Vec<Vec<u32>> = vec![Vec::new(); n as usize];
    let mut to: Vec<u32> = (0..n).collect();
    for _ in 0..of_each {
        stream.shuffle(&mut to);
        let is_wrong =
            |from: usize, to: u32, receivers: &[Vec<u32>]| to == from as u32 || receivers[from].contains(&to);
        while let Some(from) = (0..n as usize).find(|from| is_wrong(*from, to[*from], &receivers)) {
            to.swap(from, stream.next_below(u64::from(n)) as usize);
        }
        receivers.iter_mut().zip(&to).for_each(|(receivers, to)| receivers.push(*to));
    }
    let of = |(from, receivers): (usize, &Vec<u32>)| {
        receivers.iter().map(|to| (HostIx(from as u32), HostIx(*to))).collect::<Vec<_>>()
    };
    receivers.iter().enumerate().flat_map(of).collect()
}

/// Sender by sender, the receivers of each in a separate random order.
fn shuffle(n: u32, stream: &mut RandomStream) -> Vec<(HostIx, HostIx)> {
    let mut pairs = Vec::with_capacity((n * (n - 1)) as usize);
    for from in 0..n {
        let mut to: Vec<u32> = others(n, from).collect();
        stream.shuffle(&mut to);
        pairs.extend(to.into_iter().map(|to| (HostIx(from), HostIx(to))));
    }
    pairs
}

fn others(n: u32, host: u32) -> impl Iterator<Item = u32> {
    (0..n).filter(move |other| *other != host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{pods, single_rack};

    fn pairs_of(text: &str, topology: &Topology, seed: u64) -> Vec<(u32, u32)> {
        let pairs = Pattern::parse(text).unwrap().pairs(topology, &mut RandomStream::new(seed, "pairs"));
        let pairs = pairs.unwrap().expect("a matrix pattern");
        pairs.into_iter().map(|(from, to)| (from.0, to.0)).collect()
    }

    fn reason(text: &str, topology: &Topology) -> String {
        let pattern = Pattern::parse(text).unwrap();
        let error = pattern.pairs(topology, &mut RandomStream::new(1, "pairs")).unwrap_err();
        error.to_string()
    }

    #[test]
    fn stride_is_a_shift() {
        let eight = pods(2, 2, 2);
        assert_eq!(pairs_of("stride:step=3", &eight, 1)[6], (6, 1));
        assert_eq!(pairs_of("stride", &eight, 1)[1], (1, 5));
        // The step of F0: every host of 4 pods of 20 sends to another pod.
        let f0 = pods(4, 2, 10);
        assert!(pairs_of("stride:step=30", &f0, 1).iter().all(|(from, to)| from / 20 != to / 20));
    }

    #[test]
    fn a_bijection_has_no_fixed_point_and_every_receiver_once() {
        let topology = pods(2, 2, 3);
        for seed in 0..50 {
            let pairs = pairs_of("random-bijection", &topology, seed);
            assert!(pairs.iter().all(|(from, to)| from != to));
            let mut to: Vec<u32> = pairs.iter().map(|(_, to)| *to).collect();
            to.sort_unstable();
            assert_eq!(to, (0..12).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn bijections_are_uniform() {
        // Four hosts have nine permutations without fixed points.
        let topology = single_rack(4);
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..9_000 {
            *seen.entry(pairs_of("random-bijection", &topology, seed)).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 9);
        assert!(seen.values().all(|count| count.abs_diff(1_000) < 150), "{seen:?}");
    }

    #[test]
    fn all_to_all_and_shuffle_hold_the_same_pairs() {
        let topology = single_rack(5);
        let (mut all, mut shuffled) = (pairs_of("all-to-all", &topology, 1), pairs_of("shuffle", &topology, 1));
        assert_eq!(all.len(), 20);
        assert_ne!(all, shuffled);
        all.sort_unstable();
        shuffled.sort_unstable();
        assert_eq!(all, shuffled);
    }

    #[test]
    fn one_to_n_gives_distinct_other_receivers() {
        let topology = pods(2, 2, 2);
        let pairs = pairs_of("one-to-n:n=4", &topology, 3);
        assert_eq!(pairs.len(), 32);
        for from in 0..8 {
            let mut to: Vec<u32> = pairs.iter().filter(|pair| pair.0 == from).map(|pair| pair.1).collect();
            to.sort_unstable();
            to.dedup();
            assert!(to.len() == 4 && !to.contains(&from));
        }
    }

    #[test]
    fn a_numbered_bijection_is_the_same_for_all_seeds() {
        let topology = pods(4, 2, 10);
        let draw = |text: &str, seed| pairs_of(text, &topology, seed);
        assert_eq!(draw("random-bijection:draw=7", 1), draw("random-bijection:draw=7", 2));
        assert_ne!(draw("random-bijection:draw=7", 1), draw("random-bijection:draw=8", 1));
        assert_ne!(draw("random-bijection", 1), draw("random-bijection", 2));
    }

    #[test]
    fn balanced_receivers_receive_from_as_many_as_they_send_to() {
        let topology = pods(2, 2, 4);
        for (seed, n) in (0..40).zip([1, 2, 4, 8].into_iter().cycle()) {
            let pairs = pairs_of(&format!("one-to-n:n={n},receivers=balanced"), &topology, seed);
            let mut distinct = pairs.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 16 * n as usize, "no pair twice");
            assert!(pairs.iter().all(|(from, to)| from != to));
            for host in 0..16 {
                assert_eq!(pairs.iter().filter(|pair| pair.0 == host).count(), n as usize);
                assert_eq!(pairs.iter().filter(|pair| pair.1 == host).count(), n as usize);
            }
        }
    }

    #[test]
    fn impossible_patterns_say_why() {
        let four = single_rack(4);
        assert_eq!(
            reason("stride:step=8", &four),
            "pattern `stride:step=8` is impossible on `test`: a step of 8 over 4 hosts leads back to the sender; use a step from 1 to 3"
        );
        assert!(reason("one-to-n:n=4", &four).ends_with("a host has only 3 others; lower n to that"));
        let reason_balanced = reason("one-to-n:n=3,receivers=balanced", &four);
        assert!(reason_balanced.ends_with("lower n to 2, or use all-to-all"), "{reason_balanced}");
        for name in ["stride", "random-bijection", "all-to-all", "one-to-n", "shuffle"] {
            assert!(reason(name, &single_rack(1)).ends_with("it has one host; a flow needs two"));
        }
    }
}
