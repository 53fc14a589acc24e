//! Balancers that pick the server first and then a path to it: all except the joint ones.

use net::Time;

use super::connections::Connections;
use super::path::PathPicker;
use crate::central::{NetworkView, Path};
use crate::params::Params;
use crate::server::{Choice, Ended, Member, MemberId, Pool, Request, ServerBalancer, ServerCx, ServerNeeds};

/// A request and the members that may get it.
pub struct Pending<'a> {
    pub request: &'a Request,
    pub pool: &'a Pool,
    /// The members of `pool` that may get the request: at least one, in the order of their numbers.
    pub candidates: &'a [&'a Member],
    pub connections: &'a Connections,
}

pub trait Picker: Send {
    /// Returns the position in [`Pending::candidates`] of the member.
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize;

    /// Counts a placed connection, picked by this rule or by another component; `others` is the number of
    /// connections that the member had before.
    fn placed(&mut self, _request: &Request, _choice: &Choice, _others: u32) {}

    fn ended(&mut self, _request: &Request, _ended: &Ended) {}

    /// Handles a new report of a member, or the expiry of its last one; `connections` is the number
    /// of its connections from then on.
    fn reported(&mut self, _member: &Member, _connections: u32) {}

    /// Handles a response time that the controller, or a proxy, measured itself.
    fn responded(&mut self, _member: &Member, _response: Time) {}

    fn counted(&mut self, _member: &Member) {}

    /// Handles changes of members, weights, or availability.
    fn pool_changed(&mut self, _pool: &Pool) {}

    /// Assigns slots to members, as in [`ServerBalancer::assign_slots`].
    fn divide(&self, _shares: &[(MemberId, u32)], _slots: usize) -> Option<Vec<MemberId>> {
        None
    }
}

/// A rule with a path picker and the numbers of connections.
pub struct ServerFirst<P> {
    /// The data the rule reads.
    needs: ServerNeeds,
    picker: P,
    path: PathPicker,
    /// Decides ties of paths; drawn with the first request.
    tie_draw: Option<u64>,
    connections: Connections,
}

impl<P: Picker + 'static> ServerFirst<P> {
    pub fn boxed(needs: ServerNeeds, params: &Params, picker: P) -> Box<dyn ServerBalancer> {
        let (path, connections) = (PathPicker::new(params), Connections::default());
        Box::new(ServerFirst { needs, picker, path, tie_draw: None, connections })
    }
}

/// Makes a balancer of [`Picker::choose`] alone.
pub fn by_rule<F>(needs: ServerNeeds, params: &Params, choose: F) -> Box<dyn ServerBalancer>
where
    F: FnMut(&mut ServerCx<'_>, &Pending<'_>) -> usize + Send + 'static,
{
    ServerFirst::boxed(needs, params, Rule(choose))
}

/// Returns the position of the member after the last served one, by their numbers, and remembers it.
pub fn in_turn(pending: &Pending<'_>, last: &mut Option<MemberId>) -> usize {
    let next = pending.candidates.iter().position(|member| Some(member.id) > *last).unwrap_or(0);
    *last = Some(pending.candidates[next].id);
    next
}

struct Rule<F>(F);

impl<F: FnMut(&mut ServerCx<'_>, &Pending<'_>) -> usize + Send> Picker for Rule<F> {
    fn choose(&mut self, cx: &mut ServerCx<'_>, pending: &Pending<'_>) -> usize {
        (self.0)(cx, pending)
    }
}

impl<P: Picker> ServerBalancer for ServerFirst<P> {
    fn needs(&self) -> ServerNeeds {
        self.needs.and(self.path.needs())
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
        let pending = Pending { request, pool, candidates: &candidates, connections: &self.connections };
        let member = candidates[self.picker.choose(cx, &pending)];
        if self.path.are_ties_drawn() && self.tie_draw.is_none() {
            self.tie_draw = Some(cx.rng.next_u64());
        }
        let path = self.path.pick(request, member, view, self.tie_draw.unwrap_or_default());
        let choice = Choice { member: member.id, path };
        self.on_placed(request, &choice);
        Some(choice)
    }

    fn path_to(&mut self, request: &Request, member: &Member, view: &NetworkView<'_>) -> Option<Path> {
        self.path.pick(request, member, view, self.tie_draw.unwrap_or_default())
    }

    fn picks_paths(&self) -> bool {
        !self.path.is_default()
    }

    fn on_placed(&mut self, request: &Request, choice: &Choice) {
        let others = self.connections.of(choice.member);
        self.connections.placed(choice.member);
        self.picker.placed(request, choice, others);
    }

    fn on_ended(&mut self, request: &Request, ended: &Ended) {
        self.connections.ended(ended.member);
        self.picker.ended(request, ended);
    }

    fn on_report(&mut self, member: &Member) {
        self.connections.reported(member);
        self.picker.reported(member, self.connections.of(member.id));
    }

    fn on_response(&mut self, member: &Member, response: Time) {
        self.picker.responded(member, response);
    }

    fn on_counters(&mut self, member: &Member) {
        self.picker.counted(member);
    }

    fn on_pool_changed(&mut self, pool: &Pool) {
        self.connections.pool_changed(pool);
        self.picker.pool_changed(pool);
    }

    fn assign_slots(&self, shares: &[(MemberId, u32)], slots: usize) -> Option<Vec<MemberId>> {
        if self.path.is_default() { self.picker.divide(shares, slots) } else { None }
    }
}

/// Returns the position with the lowest score; the first of equals.
pub fn least(candidates: &[&Member], mut score: impl FnMut(&Member) -> f64) -> usize {
    let scores = candidates.iter().map(|member| score(member)).enumerate();
    scores.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(position, _)| position)
}
