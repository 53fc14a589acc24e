//! Smooth weighted round robin among members, as nginx has it: every candidate earns its weight, the richest is picked and
//! pays what all earned together. Picks of one member are spread out, and shares are exact over a period of the weights.
//!
//! The rule is that of `dataplane/parts/wrr.rs`; there paths are numbered densely, here members come and go by id.

use std::collections::BTreeMap;

use crate::server::{Member, MemberId, Pool};

/// What each member has earned.
#[derive(Clone, Debug, Default)]
pub struct Turns(BTreeMap<MemberId, f64>);

impl Turns {
    /// Whose turn it is; ties go to the lowest number.
    pub fn next(&mut self, candidates: &[&Member], weight: impl Fn(&Member) -> f64) -> usize {
        let (mut total, mut best, mut most) = (0.0, 0, f64::NEG_INFINITY);
        for (position, member) in candidates.iter().enumerate() {
            let earned = weight(member);
            let credit = self.0.entry(member.id).or_insert(0.0);
            *credit += earned;
            total += earned;
            if *credit > most {
                (best, most) = (position, *credit);
            }
        }
        if let Some(credit) = candidates.get(best).and_then(|member| self.0.get_mut(&member.id)) {
            *credit -= total;
        }
        best
    }

    /// Forgets who has gone or may get nothing. A member that drains leaves what it had earned or owed: it would have to
    /// pay or be paid for a time long past when it returns.
    pub fn pool_changed(&mut self, pool: &Pool) {
        self.0.retain(|member, _| pool.get(*member).is_some_and(Member::may_get));
    }
}
