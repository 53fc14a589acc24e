//! Weighted round robin: requests go to the members in turn, in proportion to their weights,
//! interleaved like nginx does (mechanisms.md S04, WRR (smooth)).
//!
//! Floodlight's method of this name is a weighted random draw; that is `server-random`.
//!
//! - Helps: with servers of known, unequal strength.
//! - Hurts: where strengths are unknown or change, or requests differ in cost.

use crate::entry::Entry;
use crate::server::common::{DIRECTION, HTP, PATH, Pending, Picker, ServerFirst, SmoothWrr, TIES};
use crate::server::{Pool, ServerCx, ServerNeeds};

pub(crate) static ENTRY: Entry = Entry::declare("server-wrr", "Weighted round robin (servers)")
    .summary("Gives requests to the members in turn, in proportion to their weights.")
    .source("S04 WRR (smooth, as nginx has it); S03 Round robin, weighted")
    .senses("weights")
    .params(&[PATH, TIES, HTP, DIRECTION])
    .server(|_, params| ServerFirst::boxed(ServerNeeds::NONE, params, Weighted(SmoothWrr::default())));

struct Weighted(SmoothWrr);

impl Picker for Weighted {
    fn choose(&mut self, _: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        self.0.next(pending.candidates, |member| f64::from(member.weight))
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.0.pool_changed(pool);
    }
}

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn order_matches_nginx() {
        // mechanisms.md §10 oracle 13: weights 5, 1, 1 give a a b a c a a.
        let mut bench = Bench::new("server-wrr", &[5, 1, 1]);
        assert_eq!(bench.picks(14), [1, 1, 2, 1, 3, 1, 1, 1, 1, 2, 1, 3, 1, 1]);
    }

    #[test]
    fn draining_member_gets_nothing_and_returns_without_credit() {
        let mut bench = Bench::new("server-wrr", &[1, 1, 1]);
        bench.picks(1);
        bench.change(1, |member| member.is_accepting = false);
        assert!(bench.picks(1000).iter().all(|member| *member != 1));
        bench.change(1, |member| member.is_accepting = true);
        let hits: [usize; 3] = bench.hits(300);
        assert!(hits.iter().all(|count| (99..=101).contains(count)), "{hits:?}");
    }
}
