//! How many connections each member has, as far as the controller knows: it counts those it places and those that end, and
//! what an agent reports replaces the count (mechanisms.md S01: "controller increments at assignment, agent overwrites
//! periodically"). So a lost end is mended by the next report, and a report that was taken just before a burst forgets it.

use std::collections::BTreeMap;

use super::server_first::{Picker, ServerFirst};
use crate::params::Params;
use crate::server::{Choice, Ended, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerNeeds};

/// Connections of the members of a pool.
#[derive(Clone, Debug, Default)]
pub struct Connections(BTreeMap<MemberId, u32>);

impl Connections {
    /// How many a member has.
    pub fn of(&self, member: MemberId) -> u32 {
        self.0.get(&member).copied().unwrap_or(0)
    }

    /// Connections with one more, per unit of weight: what a new one would find. With equal weights the order is that of
    /// the numbers of connections; an idle pool begins with the heaviest member.
    pub fn per_weight(&self, member: &Member) -> f64 {
        (f64::from(self.of(member.id)) + 1.0) / f64::from(member.weight)
    }

    /// One was placed.
    pub fn placed(&mut self, member: MemberId) {
        let count = self.0.entry(member).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// One ended.
    pub fn ended(&mut self, member: MemberId) {
        if let Some(count) = self.0.get_mut(&member) {
            *count = count.saturating_sub(1);
        }
    }

    /// What a member says itself.
    pub fn reported(&mut self, member: &Member) {
        if let Some(connections) = member.facts.connections {
            self.0.insert(member.id, connections);
        }
    }

    /// Forgets who has gone; who has come has what was reported of it.
    pub fn pool_changed(&mut self, pool: &Pool) {
        self.0.retain(|member, _| pool.get(*member).is_some());
        for member in pool.members() {
            self.0.entry(member.id).or_insert(member.facts.connections.unwrap_or(0));
        }
    }
}

/// A rule that chooses by connections and what members report, and remembers nothing else.
pub trait ByConnections: Send {
    /// The position in `candidates` of who gets the request, as in [`Picker::choose`].
    fn choose(&self, cx: &mut ServerCx<'_>, candidates: &[&Member], connections: &Connections) -> usize;
}

/// Such a rule with the connections it goes by.
pub struct Counting<R> {
    rule: R,
    connections: Connections,
}

impl<R: ByConnections + 'static> Counting<R> {
    /// The rule, with the path picker its parameters ask for.
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
