//! The number of connections of each member, as known to the controller: it counts placed and ended
//! connections, and an agent's report replaces the count (mechanisms.md S01: "controller increments
//! at assignment, agent overwrites periodically"). So the next report corrects a lost end, and a
//! report sampled just before a burst ignores the burst.

use std::collections::BTreeMap;

use super::server_first::{Picker, ServerFirst};
use crate::params::Params;
use crate::server::{Choice, Ended, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerNeeds};

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

/// A rule that picks by connections and reported statistics, without other state.
pub trait ByConnections: Send {
    /// Returns the position in `candidates` of the member, as in [`Picker::choose`].
    fn choose(&self, cx: &mut ServerCx<'_>, candidates: &[&Member], connections: &Connections) -> usize;
}

pub struct Counting<R> {
    rule: R,
    connections: Connections,
}

impl<R: ByConnections + 'static> Counting<R> {
    pub fn boxed(rule: R, params: &Params) -> Box<dyn ServerBalancer> {
        ServerFirst::boxed(Counting { rule, connections: Connections::default() }, params)
    }
}

impl<R: ByConnections> Picker for Counting<R> {
    const NEEDS: ServerNeeds = ServerNeeds { reports: true, bytes: false, link_load: false, latency: false };

    fn choose(&mut self, cx: &mut ServerCx<'_>, _: &Request, _: &Pool, candidates: &[&Member]) -> usize {
        self.rule.choose(cx, candidates, &self.connections)
    }

    fn placed(&mut self, _: &Request, choice: &Choice) {
        self.connections.placed(choice.member);
    }

    fn ended(&mut self, _: &Request, ended: &Ended) {
        self.connections.ended(ended.member);
    }

    fn reported(&mut self, member: &Member) {
        self.connections.reported(member);
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.connections.pool_changed(pool);
    }
}
