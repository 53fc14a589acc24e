//! Two choices: of two members drawn at random, the one with fewer connections (mechanisms.md S04;
//! Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, IEEE TPDS 2001).
//!
//! The two are drawn uniformly, regardless of weights. The fewest `(connections + 1) / weight`
//! wins; among equals, the first drawn.
//!
//! - Helps: nearly as even as least connections, with only two members compared.
//! - Hurts: where connections cause different loads.

use crate::entry::Entry;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, TIES, by_rule};
use crate::server::{ServerCx, ServerNeeds};

pub(crate) static ENTRY: Entry = Entry::declare("server-two-choices", "Two choices (servers)")
    .summary("Draws two members and takes the one with fewer connections per weight.")
    .source("S04 power of two choices; Mitzenmacher, IEEE TPDS 2001")
    .senses("connections it placed, corrected by reports")
    .params(&[PATH, TIES, HTP, DIRECTION])
    .server(|_, params| by_rule(ServerNeeds::REPORTS, params, choose));

fn choose(cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
    let count = pending.candidates.len() as u64;
    if count == 1 {
        return 0;
    }
    let first = cx.rng.next_below(count) as usize;
    // A different one: draws from the first one's position on are shifted by one.
    let other = cx.rng.next_below(count - 1) as usize;
    let second = other + usize::from(other >= first);
    let load = |position: usize| pending.connections.per_weight(pending.candidates[position]);
    if load(second) < load(first) { second } else { first }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn the_worst_of_many_is_far_better_than_random() {
        // n connections on n members: the maximum is ln ln n / ln 2 + O(1) with two choices, and
        // about ln n / ln ln n at random.
        let most = |spec: &str| {
            let hits: [usize; 400] = Bench::new(spec, &[1; 400]).hits(400);
            hits.into_iter().max().unwrap()
        };
        assert!(most("server-two-choices") <= 3, "{}", most("server-two-choices"));
        assert!(most("server-random") >= 4, "{}", most("server-random"));
    }

    #[test]
    fn two_members_are_always_compared() {
        let mut bench = Bench::new("server-two-choices", &[1, 1]);
        bench.report(1, |stats| stats.connections = Some(100));
        assert_eq!(bench.picks(100), [2; 100]);
        let mut alone = Bench::new("server-two-choices", &[1]);
        assert_eq!(alone.picks(3), [1; 3]);
    }
}
