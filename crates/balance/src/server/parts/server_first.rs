//! Balancers that choose the server first and then a path to it: all but the joint ones.

use super::path::PathPicker;
use crate::central::{NetworkView, Path};
use crate::params::Params;
use crate::server::{Choice, Ended, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerNeeds};

/// The rule by which a server is chosen.
pub trait Picker: Send {
    /// What the rule reads.
    const NEEDS: ServerNeeds;

    /// The position in `candidates` of who gets the request. They are the members of `pool` that may get it: at least one,
    /// in order of their numbers.
    fn choose(&mut self, cx: &mut ServerCx<'_>, request: &Request, pool: &Pool, candidates: &[&Member]) -> usize;

    /// A connection was placed, by this rule or by others.
    fn placed(&mut self, _request: &Request, _choice: &Choice) {}

    /// A connection ended.
    fn ended(&mut self, _request: &Request, _ended: &Ended) {}

    /// A member has reported, or its report has become too old.
    fn reported(&mut self, _member: &Member) {}

    /// Counters of a member's rules were read.
    fn counted(&mut self, _member: &Member) {}

    /// Another set of members, weights, or readiness.
    fn pool_changed(&mut self, _pool: &Pool) {}

    /// Divides slots among members, as in [`ServerBalancer::divide`].
    fn divide(&self, _shares: &[(MemberId, u32)], _slots: usize) -> Option<Vec<MemberId>> {
        None
    }
}

/// A rule with a path picker.
pub struct ServerFirst<P> {
    picker: P,
    path: PathPicker,
}

impl<P: Picker + 'static> ServerFirst<P> {
    /// The rule, with the path picker its parameters ask for.
    pub fn boxed(picker: P, params: &Params) -> Box<dyn ServerBalancer> {
        Box::new(ServerFirst { picker, path: PathPicker::new(params) })
    }
}

impl<P: Picker> ServerBalancer for ServerFirst<P> {
    fn needs(&self) -> ServerNeeds {
        P::NEEDS.and(self.path.needs())
    }

    fn pick(
        &mut self,
        cx: &mut ServerCx<'_>,
        request: &Request,
        pool: &Pool,
        view: &NetworkView<'_>,
    ) -> Option<Choice> {
        let candidates = pool.candidates(request.edge, view);
        if candidates.is_empty() {
            return None;
        }
        let member = candidates[self.picker.choose(cx, request, pool, &candidates)];
        let choice = Choice { member: member.id, path: self.path.pick(request, member, view) };
        self.picker.placed(request, &choice);
        Some(choice)
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        self.path.pick(request, member, view)
    }

    fn placed(&mut self, request: &Request, choice: &Choice) {
        self.picker.placed(request, choice);
    }

    fn ended(&mut self, request: &Request, ended: &Ended) {
        self.picker.ended(request, ended);
    }

    fn reported(&mut self, member: &Member) {
        self.picker.reported(member);
    }

    fn counted(&mut self, member: &Member) {
        self.picker.counted(member);
    }

    fn pool_changed(&mut self, pool: &Pool) {
        self.picker.pool_changed(pool);
    }

    fn divide(&self, shares: &[(MemberId, u32)], slots: usize) -> Option<Vec<MemberId>> {
        if self.path.is_base() { self.picker.divide(shares, slots) } else { None }
    }
}

/// The position with the least score; the first of equals.
pub fn least(candidates: &[&Member], mut score: impl FnMut(&Member) -> f64) -> usize {
    let scores = candidates.iter().map(|member| score(member)).enumerate();
    scores.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(position, _)| position)
}
