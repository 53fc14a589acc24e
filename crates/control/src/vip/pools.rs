//! Pools as they are: members, what is known of them, and the balancer that picks.

use std::collections::BTreeMap;

use balance::central::{NetworkView, Path};
use balance::registry::{Build, Spec};
use balance::server::{
    self, Choice, Ended, Facts, Place, Request, ServerBalancer, ServerCx, ServerEnv, ServerNeeds, Way,
};
use core::net::Ipv4Addr;
use net::{HostIx, NodeIx, Stream, Time};
use openflow::MacAddr;

use super::health::Watch;
use super::reports::STALE_AFTER;
use super::spec::{Member, MemberId, Pool};
use super::view::MemberState;

/// A pool.
pub(super) struct PoolNow {
    pub(super) spec: Pool,
    pub(super) members: BTreeMap<MemberId, MemberFacts>,
    balancer: Box<dyn ServerBalancer>,
    rng: Stream,
    /// As the balancer sees it: members that have been seen.
    seen: server::Pool,
}

/// A member.
#[derive(Clone, Debug)]
pub(super) struct MemberFacts {
    pub(super) spec: Member,
    /// Not wanted any more: it keeps the connections it has.
    pub(super) is_leaving: bool,
    /// What it was when that was looked at last.
    pub(super) state: MemberState,
    /// Its interface, as its rules have it.
    pub(super) mac: Option<MacAddr>,
    pub(super) watch: Watch,
    /// When it was first looked at.
    pub(super) since: Option<Time>,
    /// When it was first able to serve.
    pub(super) up_since: Option<Time>,
}

impl MemberFacts {
    /// Nothing is known of it.
    pub(super) fn new(spec: Member) -> MemberFacts {
        MemberFacts {
            spec,
            is_leaving: false,
            state: MemberState::Unknown,
            mac: None,
            watch: Watch::default(),
            since: None,
            up_since: None,
        }
    }
}

/// What picks servers, by its specification; `None` if that is none, or picks something else.
pub(super) fn picker(text: &str, seed: u64) -> Result<Box<dyn ServerBalancer>, String> {
    let spec = Spec::parse(text).map_err(|error| error.to_string())?;
    match spec.entry.build {
        Build::Server(build) => Ok(build(&ServerEnv { seed }, &spec.params)),
        _ => Err(format!("`{}` does not pick servers; server-rr, for one, does", spec.entry.name)),
    }
}

impl PoolNow {
    /// The pool as it is wanted now, and members whose numbers are those of other servers now.
    pub(super) fn follow(spec: &Pool, before: Option<PoolNow>, seed: u64) -> (PoolNow, Vec<MemberId>) {
        let is_checked_otherwise = before.as_ref().is_some_and(|before| before.spec.monitor != spec.monitor);
        let mut pool = match before {
            Some(before) if before.spec.balancer == spec.balancer => before,
            other => PoolNow {
                spec: spec.clone(),
                members: other.map(|before| before.members).unwrap_or_default(),
                balancer: picker(&spec.balancer, seed).expect("services were checked"),
                rng: Stream::new(seed, &format!("pool {}", spec.id.0)),
                seen: server::Pool::default(),
            },
        };
        if is_checked_otherwise {
            // What was found in another way does not count.
            pool.members.values_mut().for_each(|facts| facts.watch = Watch::default());
        }
        let mut others = Vec::new();
        for facts in pool.members.values_mut() {
            facts.is_leaving = true;
        }
        for spec in &spec.members {
            let fresh = MemberFacts::new(*spec);
            let facts = pool.members.entry(spec.id).or_insert_with(|| fresh.clone());
            if (facts.spec.address, facts.spec.port) != (spec.address, spec.port) {
                others.push(spec.id);
                *facts = fresh;
            }
            (facts.spec, facts.is_leaving) = (*spec, false);
        }
        pool.spec = spec.clone();
        (pool, others)
    }

    /// Members, or where they are, may have changed: the balancer is told if they have.
    pub(super) fn tell(&mut self, place_of: impl Fn(&Member) -> Option<(HostIx, NodeIx)>) {
        let members = self.members.iter().filter_map(|(id, facts)| {
            let (host, edge) = place_of(&facts.spec)?;
            let is_accepting = !facts.is_leaving && facts.spec.is_enabled && facts.state == MemberState::Up;
            let known = self.seen.get(*id).map(|member| member.facts).unwrap_or_default();
            let place = Place::Host { host, edge };
            Some(server::Member { id: *id, place, weight: facts.spec.weight, is_accepting, facts: known })
        });
        let seen = server::Pool::new(members);
        if seen != self.seen {
            self.seen = seen;
            self.balancer.pool_changed(&self.seen);
        }
    }

    /// Who gets a request: none of `except`.
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

    /// An agent tells of a server; whether it is a member.
    pub(super) fn report(&mut self, address: Ipv4Addr, facts: Facts) -> bool {
        let at_address = self.members.iter().filter(|(_, member)| member.spec.address == address);
        let ids: Vec<MemberId> = at_address.map(|(id, _)| *id).collect();
        for id in &ids {
            if let Some(member) = self.seen.get_mut(*id) {
                member.facts = counted(member, facts);
                self.balancer.reported(member);
            }
        }
        !ids.is_empty()
    }

    /// Divides buckets among members that may get connections, if they can serve or may yet be found.
    pub(super) fn divide(&self, now: Time, buckets: usize) -> Vec<MemberId> {
        let may_get = |facts: &&MemberFacts| {
            let is_awaited = facts.awaited_until().is_some_and(|until| until > now);
            let is_wanted = !facts.is_leaving && facts.spec.is_enabled && facts.spec.weight > 0;
            is_wanted && (facts.state == MemberState::Up || is_awaited)
        };
        let shares = self.members.values().filter(may_get).map(|facts| (facts.spec.id, facts.spec.weight));
        self.balancer.divide(&shares.collect::<Vec<_>>(), buckets).unwrap_or_default()
    }

    /// The path to a member that a connection has already.
    pub(super) fn path_to(&mut self, request: &Request, id: MemberId, view: &NetworkView<'_>) -> Option<Path> {
        self.balancer.path_to(request, self.seen.get(id)?, view)
    }
    /// Whether anything leads from a client's switch to a member.
    pub(super) fn is_reached(&self, request: &Request, id: MemberId, view: &NetworkView<'_>) -> bool {
        let place = self.seen.get(id).map(|member| member.place);
        place.and_then(|place| Way::to(view, request.edge, place)).is_some_and(|way| way.is_open())
    }

    /// What the balancer needs.
    pub(super) fn needs(&self) -> ServerNeeds {
        self.balancer.needs()
    }

    /// Counters told of so many bytes of a member; `at` is `None` where they had not been refreshed.
    pub(super) fn counted(&mut self, id: MemberId, bytes: u64, at: Option<Time>) {
        if let Some(member) = self.seen.get_mut(id) {
            member.facts.bytes = Some(bytes);
            member.facts.bytes_at = at.or(member.facts.bytes_at);
            self.balancer.counted(member);
        }
    }

    /// Facts that have become too old do not count any more.
    fn age(&mut self, now: Time) {
        let is_old = |member: &server::Member| member.facts.at.is_some_and(|at| at.saturating_add(STALE_AFTER) <= now);
        let old: Vec<MemberId> =
            self.seen.members().iter().filter(|member| is_old(member)).map(|member| member.id).collect();
        for id in old {
            if let Some(member) = self.seen.get_mut(id) {
                member.facts = counted(member, Facts::default());
                self.balancer.reported(member);
            }
        }
    }

    /// A connection goes on with the member it had.
    pub(super) fn placed(&mut self, request: &Request, member: MemberId) {
        self.balancer.placed(request, &Choice { member, path: None });
    }
    /// A connection is over.
    pub(super) fn ended(&mut self, request: &Request, ended: &Ended) {
        self.balancer.ended(request, ended);
    }
}

/// What is reported of a member, with what counters have told of it.
fn counted(member: &server::Member, reported: Facts) -> Facts {
    Facts { bytes: member.facts.bytes, bytes_at: member.facts.bytes_at, ..reported }
}

#[cfg(test)]
mod tests {
    use super::super::spec::{Established, PoolId, Refusal};
    use super::*;

    #[test]
    fn facts_count_until_they_are_old() {
        let address = Ipv4Addr::new(10, 0, 0, 1);
        let member = Member { id: MemberId(1), address, port: None, weight: 1, is_enabled: true };
        let (established, refusal) = (Established::Keep, Refusal::Reset);
        let balancer = "server-cpu".to_owned();
        let spec = Pool { id: PoolId(1), balancer, monitor: None, members: vec![member], established, refusal };
        let (mut pool, others) = PoolNow::follow(&spec, None, 1);
        assert!(others.is_empty());
        pool.tell(|_| Some((HostIx(0), NodeIx(0))));
        let facts = Facts { cpu: Some(0.5), at: Some(Time::from_s(10)), ..Facts::default() };
        assert!(pool.report(address, facts) && !pool.report(Ipv4Addr::new(10, 0, 0, 2), facts));
        let known = |pool: &PoolNow| pool.seen.get(MemberId(1)).expect("a member").facts;
        pool.age(Time::from_s(24));
        assert_eq!(known(&pool), facts);
        pool.tell(|_| Some((HostIx(3), NodeIx(0))));
        assert_eq!(known(&pool), facts, "also where it moves");
        pool.age(Time::from_s(25));
        assert_eq!(known(&pool), Facts::default());
    }
}
