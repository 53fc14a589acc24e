//! The state of pools: members, what is known of them, and the balancer.

use std::collections::BTreeMap;

use balance::central::{NetworkView, Path};
use balance::server::{
    self, Choice, Ended, MemberLocation, MemberRoute, Request, ServerBalancer, ServerCx, ServerEnv, ServerNeeds,
    ServerStats,
};
use balance::{Build, Spec};
use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, RandomStream, Time};
use openflow::MacAddr;

use super::health::Watch;
use super::reports::STALE_AFTER;
use super::spec::{Member, MemberId, Pool};
use super::status::MemberState;

pub(super) struct PoolState {
    pub(super) spec: Pool,
    pub(super) members: BTreeMap<MemberId, MemberEntry>,
    balancer: Box<dyn ServerBalancer>,
    rng: RandomStream,
    /// The pool as the balancer receives it: members with a known host.
    seen: server::Pool,
}

#[derive(Clone, Debug)]
pub(super) struct MemberEntry {
    pub(super) spec: Member,
    /// Whether it was removed from the pool and only keeps its connections.
    pub(super) is_removed: bool,
    pub(super) state: MemberState,
    /// Its Ethernet address in installed rules.
    pub(super) mac: Option<MacAddr>,
    pub(super) watch: Watch,
    /// When it was first updated.
    pub(super) since: Option<Time>,
    /// When it was up for the first time.
    pub(super) up_since: Option<Time>,
}

impl MemberEntry {
    pub(super) fn new(spec: Member) -> MemberEntry {
        MemberEntry {
            spec,
            is_removed: false,
            state: MemberState::Unknown,
            mac: None,
            watch: Watch::default(),
            since: None,
            up_since: None,
        }
    }
}

pub(super) fn picker(text: &str, seed: u64) -> Result<Box<dyn ServerBalancer>, String> {
    let spec = Spec::parse(text).map_err(|error| error.to_string())?;
    match spec.entry.build {
        Build::Server(build) => Ok(build(&ServerEnv { seed }, &spec.params)),
        _ => Err(format!("`{}` does not pick servers; server-rr, for one, does", spec.entry.name)),
    }
}

impl PoolState {
    /// Returns the pool of a new configuration, and the members whose number belongs to another
    /// server now.
    pub(super) fn follow(spec: &Pool, before: Option<PoolState>, seed: u64) -> (PoolState, Vec<MemberId>) {
        let is_checked_otherwise = before.as_ref().is_some_and(|before| before.spec.monitor != spec.monitor);
        let mut pool = match before {
            Some(before) if before.spec.balancer == spec.balancer => before,
            other => PoolState {
                spec: spec.clone(),
                members: other.map(|before| before.members).unwrap_or_default(),
                balancer: picker(&spec.balancer, seed).expect("services were checked"),
                rng: RandomStream::new(seed, &format!("pool {}", spec.id.0)),
                seen: server::Pool::default(),
            },
        };
        if is_checked_otherwise {
            // Results of a different kind of check are void.
            pool.members.values_mut().for_each(|facts| facts.watch = Watch::default());
        }
        let mut others = Vec::new();
        for facts in pool.members.values_mut() {
            facts.is_removed = true;
        }
        for spec in &spec.members {
            let fresh = MemberEntry::new(*spec);
            let facts = pool.members.entry(spec.id).or_insert_with(|| fresh.clone());
            if (facts.spec.address, facts.spec.port) != (spec.address, spec.port) {
                others.push(spec.id);
                *facts = fresh;
            }
            (facts.spec, facts.is_removed) = (*spec, false);
        }
        pool.spec = spec.clone();
        (pool, others)
    }

    /// Passes members and their attachments to the balancer if they have changed.
    pub(super) fn tell(&mut self, place_of: impl Fn(&Member) -> Option<(HostIx, NodeIx)>) {
        let members = self.members.iter().filter_map(|(id, facts)| {
            let (host, edge) = place_of(&facts.spec)?;
            let is_accepting = !facts.is_removed && facts.spec.is_enabled && facts.state == MemberState::Up;
            let known = self.seen.get(*id).map(|member| member.stats).unwrap_or_default();
            let place = MemberLocation::Host { host, edge };
            Some(server::Member { id: *id, place, weight: facts.spec.weight, is_accepting, stats: known })
        });
        let seen = server::Pool::new(members);
        if seen != self.seen {
            self.seen = seen;
            self.balancer.on_pool_changed(&self.seen);
        }
    }

    pub(super) fn pick(&mut self, request: &Request, except: &[MemberId], view: &NetworkView<'_>) -> Option<Choice> {
        self.age(request.at);
        let mut left_out = Vec::new();
        for id in except {
            if let Some(member) = self.seen.get_mut(*id).filter(|member| member.is_accepting) {
                member.is_accepting = false;
                left_out.push(*id);
            }
        }
        let choice = self.balancer.pick(&mut ServerCx { rng: &mut self.rng }, request, &self.seen, view);
        for id in left_out {
            if let Some(member) = self.seen.get_mut(id) {
                member.is_accepting = true;
            }
        }
        choice.filter(|choice| !except.contains(&choice.member))
    }

    /// Handles the statistics of a server. Returns whether it is a member.
    pub(super) fn report(&mut self, address: Ipv4Addr, facts: ServerStats) -> bool {
        let at_address = self.members.iter().filter(|(_, member)| member.spec.address == address);
        let ids: Vec<MemberId> = at_address.map(|(id, _)| *id).collect();
        for id in &ids {
            if let Some(member) = self.seen.get_mut(*id) {
                member.stats = counted(member, facts);
                self.balancer.on_report(member);
            }
        }
        !ids.is_empty()
    }

    /// Passes the response time of an HTTP health check to the balancer.
    pub(super) fn responded(&mut self, id: MemberId, response: Time) {
        if let Some(member) = self.seen.get(id) {
            self.balancer.on_response(member, response);
        }
    }

    /// Assigns client slots to members that may get connections and are up or may come up.
    pub(super) fn divide(&self, now: Time, buckets: usize) -> Vec<MemberId> {
        let may_get = |facts: &&MemberEntry| {
            let is_awaited = facts.awaited_until().is_some_and(|until| until > now);
            let is_wanted = !facts.is_removed && facts.spec.is_enabled && facts.spec.weight > 0;
            is_wanted && (facts.state == MemberState::Up || is_awaited)
        };
        let shares = self.members.values().filter(may_get).map(|facts| (facts.spec.id, facts.spec.weight));
        self.balancer.assign_slots(&shares.collect::<Vec<_>>(), buckets).unwrap_or_default()
    }

    pub(super) fn path_to(&mut self, request: &Request, id: MemberId, view: &NetworkView<'_>) -> Option<Path> {
        self.balancer.path_to(request, self.seen.get(id)?, view)
    }
    /// Returns whether there is a path from a client's switch to a member.
    pub(super) fn is_reached(&self, request: &Request, id: MemberId, view: &NetworkView<'_>) -> bool {
        let place = self.seen.get(id).map(|member| member.place);
        place.and_then(|place| MemberRoute::to(view, request.edge, place)).is_some_and(|way| way.is_reachable())
    }

    pub(super) fn needs(&self) -> ServerNeeds {
        self.balancer.needs()
    }

    /// Records the byte count of a member; `at` is `None` if the counters were not refreshed.
    pub(super) fn counted(&mut self, id: MemberId, bytes: u64, at: Option<Time>) {
        if let Some(member) = self.seen.get_mut(id) {
            member.stats.bytes = Some(bytes);
            member.stats.bytes_at = at.or(member.stats.bytes_at);
            self.balancer.on_counters(member);
        }
    }

    fn age(&mut self, now: Time) {
        let is_old = |member: &server::Member| member.stats.at.is_some_and(|at| at.saturating_add(STALE_AFTER) <= now);
        let old: Vec<MemberId> =
            self.seen.members().iter().filter(|member| is_old(member)).map(|member| member.id).collect();
        for id in old {
            if let Some(member) = self.seen.get_mut(id) {
                member.stats = counted(member, ServerStats::default());
                self.balancer.on_report(member);
            }
        }
    }

    pub(super) fn placed(&mut self, request: &Request, member: MemberId) {
        self.balancer.on_placed(request, &Choice { member, path: None });
    }
    pub(super) fn ended(&mut self, request: &Request, ended: &Ended) {
        self.balancer.on_ended(request, ended);
    }
}

/// Combines the statistics of a member with the counters of its connections.
fn counted(member: &server::Member, reported: ServerStats) -> ServerStats {
    ServerStats { bytes: member.stats.bytes, bytes_at: member.stats.bytes_at, ..reported }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Established, PoolId, Refusal};
    use super::*;

    #[test]
    fn statistics_expire() {
        let address = Ipv4Addr::new(10, 0, 0, 1);
        let member = Member { id: MemberId(1), address, port: None, weight: 1, is_enabled: true };
        let (established, refusal) = (Established::Keep, Refusal::Reset);
        let balancer = "server-cpu".to_owned();
        let spec = Pool { id: PoolId(1), balancer, monitor: None, members: vec![member], established, refusal };
        let (mut pool, others) = PoolState::follow(&spec, None, 1);
        assert!(others.is_empty());
        pool.tell(|_| Some((HostIx(0), NodeIx(0))));
        let facts = ServerStats { cpu: Some(0.5), at: Some(Time::from_s(10)), ..ServerStats::default() };
        assert!(pool.report(address, facts) && !pool.report(Ipv4Addr::new(10, 0, 0, 2), facts));
        let known = |pool: &PoolState| pool.seen.get(MemberId(1)).expect("a member").stats;
        pool.age(Time::from_s(24));
        assert_eq!(known(&pool), facts);
        pool.tell(|_| Some((HostIx(3), NodeIx(0))));
        assert_eq!(known(&pool), facts, "also after a migration");
        pool.age(Time::from_s(25));
        assert_eq!(known(&pool), ServerStats::default());
    }
}
