//! Random: every request goes to an independently drawn member, in proportion to weights
//! (mechanisms.md S04). Floodlight calls this WRR.
//!
//! - Helps: with many requests; it is stateless, so several controllers need no coordination.
//! - Hurts: with few requests: random draws give some servers more than others for a while.

use crate::entry::Entry;
use crate::server::common::{DIRECTION, HTP, PATH, Picker, ServerFirst};
use crate::server::{Member, MemberId, Pool, Request, ServerCx, ServerNeeds, maglev};

pub(crate) static ENTRY: Entry = Entry::declare("server-random", "Random (servers)")
    .summary("Draws a member for every request, in proportion to weights.")
    .source("S04 Random; Floodlight's WRR")
    .senses("weights")
    .params(&[PATH, HTP, DIRECTION])
    .server(|_, params| ServerFirst::boxed(Random, params));

struct Random;

impl Picker for Random {
    const NEEDS: ServerNeeds = ServerNeeds { reports: false, bytes: false, link_load: false, latency: false };

    fn choose(&mut self, cx: &mut ServerCx<'_>, _: &Request, _: &Pool, candidates: &[&Member]) -> usize {
        let total: u64 = candidates.iter().map(|member| u64::from(member.weight)).sum();
        let mut left = cx.rng.next_below(total);
        for (position, member) in candidates.iter().enumerate() {
            let weight = u64::from(member.weight);
            if left < weight {
                return position;
            }
            left -= weight;
        }
        unreachable!("a draw is below the sum of the weights")
    }

    fn divide(&self, shares: &[(MemberId, u32)], slots: usize) -> Option<Vec<MemberId>> {
        Some(maglev::divide(shares, slots))
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn draws_follow_weights() {
        let mut bench = Bench::new("server-random", &[1, 0, 3]);
        let picks = bench.picks(40_000);
        let hits = |id| picks.iter().filter(|member| **member == id).count();
        assert_eq!(hits(2), 0);
        // 10,000 expected with a standard deviation of 87.
        assert!((9_650..10_350).contains(&hits(1)), "{}", hits(1));
    }
}
