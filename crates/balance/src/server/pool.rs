//! Members and their pool.

use net::{HostIx, LinkIx, NodeIx};

use super::{MemberRoute, ServerStats};
use crate::central::NetworkView;

/// Number of a member: stable while the member exists, unique within its pool, not reused soon.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct MemberId(pub u32);

/// The location of a member in the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberLocation {
    /// A server behind a switch.
    Host {
        /// The host of the server.
        host: HostIx,
        /// The switch of the server.
        edge: NodeIx,
    },
    /// A link out of the site; the network beyond it serves requests.
    Uplink {
        /// The outgoing direction of the link.
        link: LinkIx,
    },
}

/// A member of a pool.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Member {
    /// Number, unique within the pool.
    pub id: MemberId,
    /// Location in the network.
    pub place: MemberLocation,
    /// Share relative to the other members; 0 for no new connections.
    pub weight: u32,
    /// Whether it may get new connections: it is up, configured, and not draining.
    pub is_accepting: bool,
    /// Statistics from agents and counters.
    pub stats: ServerStats,
}

impl Member {
    /// Returns whether it may get new connections, apart from conditions on the client.
    pub const fn accepts_connections(&self) -> bool {
        self.is_accepting && self.weight > 0
    }
}

/// The members of a pool.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pool {
    members: Vec<Member>,
}

impl Pool {
    /// Makes a pool of these members; of several with one number the first is kept.
    pub fn new(members: impl IntoIterator<Item = Member>) -> Pool {
        let mut members: Vec<Member> = members.into_iter().collect();
        members.sort_by_key(|member| member.id);
        members.dedup_by_key(|member| member.id);
        Pool { members }
    }

    /// Returns all members in the order of their numbers.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the member with this number.
    pub fn get(&self, id: MemberId) -> Option<&Member> {
        Some(&self.members[self.position(id)?])
    }

    /// Returns a member, to update its state. Its number must not change.
    pub fn get_mut(&mut self, id: MemberId) -> Option<&mut Member> {
        let position = self.position(id)?;
        Some(&mut self.members[position])
    }

    /// Returns the members that may get a request from a client behind `edge`, in the order of
    /// their numbers: they accept connections and are reachable over live links.
    pub fn candidates<'a>(&'a self, edge: NodeIx, view: &NetworkView<'_>) -> Vec<&'a Member> {
        let is_reached =
            |member: &&Member| MemberRoute::to(view, edge, member.place).is_some_and(|route| route.is_reachable());
        self.members.iter().filter(|member| member.accepts_connections()).filter(is_reached).collect()
    }

    fn position(&self, id: MemberId) -> Option<usize> {
        self.members.binary_search_by_key(&id, |member| member.id).ok()
    }
}
