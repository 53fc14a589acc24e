//! Members and the pool they are in.

use net::{HostIx, LinkIx, NodeIx};

use super::{Facts, Way};
use crate::central::NetworkView;

/// Number of a member: stable while it lives, unique within its pool, not used again soon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemberId(pub u32);

/// Where a member is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A server behind a switch.
    Host {
        /// The server.
        host: HostIx,
        /// Its switch.
        edge: NodeIx,
    },
    /// A link that leads out of the site: whatever is beyond serves.
    Uplink {
        /// It, outwards.
        link: LinkIx,
    },
}

/// One who may serve requests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// Where it is.
    pub place: Place,
    /// Its share relative to the others'; 0 for no new connections.
    pub weight: u32,
    /// Whether it may get new connections: it is up, wanted, and not draining.
    pub is_accepting: bool,
    /// What is known of it.
    pub facts: Facts,
}

impl Member {
    /// Whether it may get new connections, as far as that does not depend on the client.
    pub const fn may_get(&self) -> bool {
        self.is_accepting && self.weight > 0
    }
}

/// The members of a pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pool {
    members: Vec<Member>,
}

impl Pool {
    /// A pool of these members. Of several with one number the first is kept.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Pool {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_by_key(|member| member.id);
        members.dedup_by_key(|member| member.id);
        Pool { members }
    }

    /// All members in order of their numbers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// One member.
    pub fn get(&self, id: MemberId) -> Option<&Member> {
        Some(&self.members[self.position(id)?])
    }

    /// One member, to note what has become known or was asked for. Its number must stay.
    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Member> {
        let position = self.position(id)?;
        Some(&mut self.members[position])
    }

    /// The members that may get a request from a client behind `edge`, in order of their numbers: they accept, and live
    /// links lead there.
    pub fn candidates<'a>(&'a self, edge: NodeIx, view: &NetworkView<'_>) -> Vec<&'a Member> {
        let is_reached = |member: &&Member| Way::to(view, edge, member.place).is_some_and(|way| way.is_open());
        self.members.iter().filter(|member| member.may_get()).filter(is_reached).collect()
    }

    fn position(&self, id: MemberId) -> Option<usize> {
        self.members.binary_search_by_key(&id, |member| member.id).ok()
    }
}
