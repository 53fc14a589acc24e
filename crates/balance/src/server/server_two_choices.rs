//! Two choices: of two members drawn at random, the one with fewer connections (mechanisms.md S04; Mitzenmacher, The Power
//! of Two Choices in Randomized Load Balancing, IEEE TPDS 2001).
//!
//! The two are drawn alike whatever their weights; then fewest `(connections + 1) / weight` wins, and the first drawn of
//! equals.
//!
//! - Helps: nearly as even as least connections, looking at two members only.
//! - Hurts: where connections differ much in cost.

use crate::dataplane::NO_NEEDS;
use crate::registry::{Build, Entry, Granularity, Reorders, World};
use crate::server::parts::connections::{ByConnections, Connections, Counting};
use crate::server::parts::path::{DIRECTION, HTP, PATH};
use crate::server::{Member, ServerCx};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "server-two-choices",
    title: "Two choices (servers)",
    summary: "Draws two members and takes the one with fewer connections per weight.",
    source: "S04 power of two choices; Mitzenmacher, IEEE TPDS 2001",
    granularity: Granularity::Flow,
    reorders: Reorders::Never,
    senses: "connections it placed, corrected by reports",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[PATH, HTP, DIRECTION],
    example: "server-two-choices",
    needs: NO_NEEDS,
    build: Build::Server(|_, params| Counting::boxed(TwoChoices, params)),
};

struct TwoChoices;

impl ByConnections for TwoChoices {
    fn choose(&self, cx: &mut ServerCx<'_>, candidates: &[&Member], connections: &Connections) -> usize {
        let count = candidates.len() as u64;
        if count == 1 {
            return 0;
        }
        let first = cx.rng.below(count) as usize;
        // Another one: what is drawn from the first on is one further.
        let other = cx.rng.below(count - 1) as usize;
        let second = other + usize::from(other >= first);
        let load = |position: usize| connections.per_weight(candidates[position]);
        if load(second) < load(first) { second } else { first }
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn the_worst_of_many_is_far_better_than_random() {
        // n connections on n members: two choices leave ln ln n / ln 2 + O(1) at most, random about ln n / ln ln n.
        let most = |spec: &str| {
            let picks = Bench::new(spec, &[1; 400]).picks(400);
            (1..=400).map(|id| picks.iter().filter(|member| **member == id).count()).max().unwrap()
        };
        assert!(most("server-two-choices") <= 3, "{}", most("server-two-choices"));
        assert!(most("server-random") >= 4, "{}", most("server-random"));
    }

    #[test]
    fn two_members_are_always_compared() {
        let mut bench = Bench::new("server-two-choices", &[1, 1]);
        bench.report(1, |facts| facts.connections = Some(100));
        assert_eq!(bench.picks(100), [2; 100]);
        let mut alone = Bench::new("server-two-choices", &[1]);
        assert_eq!(alone.picks(3), [1; 3]);
    }
}
