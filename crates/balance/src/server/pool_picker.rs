//! A server balancer with its pool, outside of a controller: front ends have one for each rule.

use net::{RandomStream, Time};

use super::{Ended, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerEnv, ServerStats};
use crate::central::NetworkView;
use crate::entry::Build;
use crate::registry::Spec;

/// A balancer, the members that it picks from, and its random stream.
pub struct PoolPicker {
    balancer: Box<dyn ServerBalancer>,
    pool: Pool,
    rng: RandomStream,
}

impl PoolPicker {
    /// Makes a picker of these members. `stream` names its random stream among those of the seed.
    ///
    /// # Errors
    /// Returns a message if the specification is not of a server balancer.
    pub fn new(
        spec: &Spec,
        (seed, stream): (u64, &str),
        members: impl IntoIterator<Item = Member>,
    ) -> Result<PoolPicker, String> {
        let Build::Server(build) = spec.entry.build else {
            return Err(format!("`{}` does not pick servers", spec.entry.name));
        };
        let pool = Pool::new(members);
        let mut balancer = build(&ServerEnv { seed }, &spec.params);
        balancer.on_pool_changed(&pool);
        Ok(PoolPicker { balancer, pool, rng: RandomStream::new(seed, stream) })
    }

    /// Returns the member for a request; `None` if no member may serve it.
    pub fn pick(&mut self, request: &Request, view: &NetworkView<'_>) -> Option<MemberId> {
        let choice = self.balancer.pick(&mut ServerCx { rng: &mut self.rng }, request, &self.pool, view)?;
        Some(choice.member)
    }

    /// Handles the first byte of a member's response, `took` after the connection was opened.
    pub fn on_response(&mut self, member: MemberId, took: Time) {
        if let Some(member) = self.pool.get(member) {
            self.balancer.on_response(member, took);
        }
    }

    /// Handles the end of a connection to a member.
    pub fn on_ended(&mut self, request: &Request, ended: &Ended) {
        self.balancer.on_ended(request, ended);
    }

    /// Handles the report of a member's agent, if the member is in the pool.
    pub fn on_report(&mut self, member: MemberId, stats: ServerStats) {
        if let Some(member) = self.pool.get_mut(member) {
            member.stats = stats;
            self.balancer.on_report(member);
        }
    }
}
