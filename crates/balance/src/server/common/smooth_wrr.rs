//! Smooth weighted round robin among members, as in nginx: every candidate earns its weight, the
//! richest is picked and pays the sum of all weights. Picks of one member are spread out, and
//! shares are exact over a period of the weights.
//!
//! The rule is that of `dataplane/common/wrr.rs`; paths there are numbered densely, while members
//! here are added and removed by id.

use std::collections::BTreeMap;

use crate::server::{Member, MemberId, Pool};

#[derive(Clone, Debug, Default)]
pub struct SmoothWrr(BTreeMap<MemberId, f64>);

impl SmoothWrr {
    /// Picks the member of the next turn; ties go to the lowest number.
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

    /// Removes members that are gone or get nothing. A draining member loses its credit or debt,
    /// which would otherwise refer to the distant past when it returns.
    pub fn pool_changed(&mut self, pool: &Pool) {
        self.0.retain(|member, _| pool.get(*member).is_some_and(Member::accepts_connections));
    }
}
