//! Traffic division disabled: every connection goes to the first member (mechanisms.md S03; F4).
//!
//! F4's comparison. The next member is used while the first is draining, down or unreachable.
//!
//! - Helps: as the baseline: one member serves alone, the next takes over when it fails.
//! - Hurts: wherever one member is not enough.

use crate::entry::Entry;
use crate::server::ServerNeeds;
use crate::server::common::{DIRECTION, HTP, PATH, TIES, by_rule};

pub(crate) static ENTRY: Entry = Entry::declare("division-no", "No division")
    .summary("Gives every request to the first member of the pool: F4's baseline.")
    .source("S03 No; F4")
    .params(&[PATH, TIES, HTP, DIRECTION])
    .server(|_, params| by_rule(ServerNeeds::NONE, params, |_, _| 0));

#[cfg(test)]
mod tests {
    use crate::server::testing::Bench;

    #[test]
    fn first_member_gets_all_until_it_fails() {
        let mut bench = Bench::new("division-no", &[1, 1, 1]);
        assert_eq!(bench.picks(5), [1; 5]);
        bench.change(1, |member| member.is_accepting = false);
        assert_eq!(bench.picks(3), [2; 3]);
        bench.change(1, |member| member.is_accepting = true);
        assert_eq!(bench.pick(), 1);
    }
}
