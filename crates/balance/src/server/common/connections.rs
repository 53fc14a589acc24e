//! The number of connections of each member, as known to the controller: it counts placed and ended
//! connections, and an agent's report replaces the count (mechanisms.md S01: "controller increments
//! at assignment, agent overwrites periodically"). So the next report corrects a lost end, and a
//! report sampled just before a burst ignores the burst.

use std::collections::BTreeMap;

use crate::server::{Member, MemberId, Pool};

#[derive(Clone, Debug, Default)]
pub struct Connections(BTreeMap<MemberId, u32>);

impl Connections {
    pub fn of(&self, member: MemberId) -> u32 {
        self.0.get(&member).copied().unwrap_or(0)
    }

    /// Returns the connections including a new one, per unit of weight. With equal weights the
    /// order is that of the numbers of connections; an idle pool begins with the heaviest member.
    pub fn per_weight(&self, member: &Member) -> f64 {
        (f64::from(self.of(member.id)) + 1.0) / f64::from(member.weight)
    }

    pub fn placed(&mut self, member: MemberId) {
        let count = self.0.entry(member).or_insert(0);
        *count = count.saturating_add(1);
    }

    pub fn ended(&mut self, member: MemberId) {
        if let Some(count) = self.0.get_mut(&member) {
            *count = count.saturating_sub(1);
        }
    }

    pub fn reported(&mut self, member: &Member) {
        if let Some(connections) = member.stats.connections {
            self.0.insert(member.id, connections);
        }
    }

    /// Removes the counts of removed members; new members start with their reported count.
    pub fn pool_changed(&mut self, pool: &Pool) {
        self.0.retain(|member, _| pool.get(*member).is_some());
        for member in pool.members() {
            self.0.entry(member.id).or_insert(member.stats.connections.unwrap_or(0));
        }
    }
}
