//! What consistent hashing hashes, and who is hashed.

use crate::hash;
use crate::params::{Param, ParamKind, Params};
use crate::server::{Member, MemberId, Pool, Request};

/// What is hashed of a request.
pub const KEY: Param = Param {
    name: "key",
    kind: ParamKind::Choice(&["tuple", "client"]),
    default: "tuple",
    unit: "",
    doc: "What is hashed: the five-tuple, or the client's address (all its connections go to one member).",
};

/// By [`KEY`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    is_client: bool,
}

impl Key {
    /// As given.
    pub fn new(params: &Params) -> Key {
        Key { is_client: params.text(KEY.name) == "client" }
    }

    /// The hash of a request: the same in every instance.
    pub fn of(self, request: &Request) -> u64 {
        if self.is_client {
            hash::combine(hash::mix(1), u64::from(request.tuple.src.to_bits()))
        } else {
            hash::tuple_key(&request.tuple)
        }
    }
}

/// The members that may get connections with their weights: what a table is made from. Whether a client reaches them is
/// another matter, since one table serves all clients.
pub type Shares = Vec<(MemberId, u32)>;

/// Of a pool.
pub fn shares(pool: &Pool) -> impl Iterator<Item = (MemberId, u32)> {
    pool.members().iter().filter(|member| member.may_get()).map(|member| (member.id, member.weight))
}

/// The position of a member among candidates.
pub fn position(candidates: &[&Member], member: MemberId) -> Option<usize> {
    candidates.binary_search_by_key(&member, |candidate| candidate.id).ok()
}
