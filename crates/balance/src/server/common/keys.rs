//! Keys of consistent hashing, and the members that take part.

use crate::hash;
use crate::params::{Param, Params};
use crate::server::{Member, MemberId, Pool, Request};

/// The hashed part of a request.
pub const KEY: Param = Param::choice("key", &["tuple", "client"], "tuple")
    .doc("Hashed key: the five-tuple, or the client's address (all its connections go to one member).");

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    is_client: bool,
}

impl Key {
    pub fn new(params: &Params) -> Key {
        Key { is_client: params.text(KEY.name) == "client" }
    }

    /// Returns the hash of a request: the same in every instance.
    pub fn of(self, request: &Request) -> u64 {
        if self.is_client {
            hash::combine(hash::mix(1), u64::from(request.tuple.src.to_bits()))
        } else {
            hash::tuple_key(&request.tuple)
        }
    }
}

/// The members that accept connections, with their weights: the input of a table. Reachability from
/// a client is not considered, since one table serves all clients.
pub type Shares = Vec<(MemberId, u32)>;

pub fn shares(pool: &Pool) -> impl Iterator<Item = (MemberId, u32)> {
    pool.members().iter().filter(|member| member.accepts_connections()).map(|member| (member.id, member.weight))
}

pub fn position(candidates: &[&Member], member: MemberId) -> Option<usize> {
    candidates.binary_search_by_key(&member, |candidate| candidate.id).ok()
}
