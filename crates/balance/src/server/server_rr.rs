//! Round robin: requests go to the members in turn (mechanisms.md S04; F1's RR, F4's Round robin).
//!
//! Readings: F4 prints `list[INDEX / SERV-LEN]`, always 0: a misprint; `list[i]; i = (i + 1) mod n`
//! is meant. Here the next number after the last served one is used, which is the same for constant
//! members, and skips no member when others are added or removed. Weights count only in that a
//! member with 0 gets nothing; `server-wrr` uses weights.
//!
//! - Helps: with equal servers and requests of equal load.
//! - Hurts: with unequal servers or requests: it counts connections, not their load.

use crate::entry::Entry;
use crate::server::common::{DIRECTION, HTP, PATH, TIES, by_rule, in_turn};
use crate::server::{MemberId, ServerNeeds};

pub(crate) static ENTRY: Entry = Entry::declare("server-rr", "Round robin (servers)")
    .summary("Gives requests to the members of a pool in turn.")
    .source("S04, S03 Round robin; F1 (RR), F4")
    .params(&[PATH, TIES, HTP, DIRECTION])
    .server(|_, params| {
        let mut last: Option<MemberId> = None;
        by_rule(ServerNeeds::NONE, params, move |_, pending| in_turn(pending, &mut last))
    });

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn members_take_turns_and_unavailable_ones_are_skipped() {
        let mut bench = Bench::new("server-rr", &[1, 5, 1, 1]);
        assert_eq!(bench.picks(9), [1, 2, 3, 4, 1, 2, 3, 4, 1], "weights do not count");
        bench.change(2, |member| member.is_accepting = false);
        bench.change(4, |member| member.weight = 0);
        assert_eq!(bench.picks(4), [3, 1, 3, 1]);
        bench.change(2, |member| member.is_accepting = true);
        assert_eq!(bench.picks(3), [2, 3, 1], "who returns is not served twice to catch up");
    }
}
