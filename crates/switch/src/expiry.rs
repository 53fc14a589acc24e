//! Expiry of entries (specification 5.5).
//!
//! Every entry with a timeout is queued once, at the earliest time it may expire, and again then if
//! it was used meanwhile. Packets therefore have no overhead.

use net::Time;
use openflow::{RemovedReason, TableId};

use crate::Switch;
use crate::table::Entry;

fn expiry(entry: &Entry) -> Option<(Time, RemovedReason)> {
    let after = |since: Time, timeout_s: u16| since.saturating_add(Time::from_s(u64::from(timeout_s)));
    let idle = (entry.idle_timeout_s > 0)
        .then(|| (after(entry.usage().last, entry.idle_timeout_s), RemovedReason::IdleTimeout));
    let hard = (entry.hard_timeout_s > 0)
        .then(|| (after(entry.installed_at, entry.hard_timeout_s), RemovedReason::HardTimeout));
    idle.into_iter().chain(hard).min()
}

impl Switch {
    pub(crate) fn plan_timeout(&mut self, table: TableId, slot: u32) {
        let Some(entry) = self.tables[usize::from(table.0)].get_mut(slot) else { return };
        let deadline = expiry(entry).map(|(at, _)| at);
        entry.deadline = deadline.unwrap_or(Time::MAX);
        self.deadlines.extend(deadline.map(|at| (at, table, slot)));
    }

    pub fn handle_timeout(&mut self, now: Time) {
        self.clock.advance(now);
        while let Some(&(at, table, slot)) = self.deadlines.first().filter(|(at, ..)| *at <= self.clock.now) {
            let entry = self.tables[usize::from(table.0)].get(slot);
            match entry.and_then(expiry) {
                Some((when, reason)) if when <= self.clock.now => self.remove_entry(table, slot, reason),
                _ => {
                    self.deadlines.remove(&(at, table, slot));
                    self.plan_timeout(table, slot);
                }
            }
        }
        self.flush_monitors();
    }
}
