//! Random: every request goes to an independently drawn member, in proportion to weights
//! (mechanisms.md S04). Floodlight calls this WRR.
//!
//! - Helps: with many requests; it is stateless, so several controllers need no coordination.
//! - Hurts: with few requests: random draws give some servers more than others for a while.

use crate::entry::Entry;
use crate::hash::position_of_point;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, TIES};
use crate::server::{MemberId, ServerCx, ServerNeeds, maglev};

pub(crate) static ENTRY: Entry = Entry::declare("server-random", "Random (servers)")
    .summary("Draws a member for every request, in proportion to weights.")
    .source("S04 Random; Floodlight's WRR")
    .senses("weights")
    .params(&[PATH, TIES, HTP, DIRECTION])
    .server(|_, params| ServerFirst::boxed(ServerNeeds::NONE, params, Random));

struct Random;

impl Picker for Random {
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        let weights = pending.candidates.iter().map(|member| u64::from(member.weight));
        let point = cx.rng.next_below(weights.clone().sum());
        position_of_point(point, weights).expect("a draw is below the sum of the weights")
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
        let [first, second, _] = bench.hits(40_000);
        assert_eq!(second, 0);
        // 10,000 expected with a standard deviation of 87.
        assert!((9_650..10_350).contains(&first), "{first}");
    }
}
