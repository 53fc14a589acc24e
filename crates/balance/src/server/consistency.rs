//! Forwarding of every packet of a connection to the server that has its state, without the
//! controller: per-connection consistency (mechanisms-2.md S08, S09).
//!
//! The balancers of the registry pick once per connection, and the controller keeps the connection
//! where it is by rules. Load balancers without such rules decide for every packet; the pool may
//! have changed since the last one. A connection breaks if a packet reaches a server that does not
//! know it.

use std::collections::BTreeMap;

use super::{MemberId, Pool};

/// Result of [`PacketForwarder::open`]: where the first packet went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The member that received the first packet, and has the state of the connection.
    pub member: MemberId,
    /// The value that the client returns in all later packets, if the load balancer uses one.
    pub cookie: u16,
}

/// A load balancer that forwards single packets. `key` is the hash of the five-tuple.
pub trait PacketForwarder {
    /// Handles changes of members: those of `pool` are up, and some of them accept connections.
    fn on_pool_changed(&mut self, pool: &Pool);

    /// Forwards the first packet of a connection. `picked` is the member, accepting connections,
    /// that a balancing policy prefers; mechanisms that hash ignore it. Returns `None` if they
    /// refuse it.
    fn open(&mut self, key: u64, picked: MemberId) -> Option<Opened>;

    /// Forwards a later packet. Returns `None` if it is dropped.
    fn forward(&mut self, key: u64, cookie: u16) -> Option<MemberId>;

    /// Handles the last packet of a connection.
    fn close(&mut self, _key: u64, _cookie: u16) {}
}

/// A table with an entry for every connection, as in a software load balancer: the reference.
#[derive(Clone, Debug, Default)]
pub struct ConnectionTable {
    members: BTreeMap<u64, MemberId>,
}

impl PacketForwarder for ConnectionTable {
    fn on_pool_changed(&mut self, pool: &Pool) {
        self.members.retain(|_, member| pool.get(*member).is_some());
    }

    fn open(&mut self, key: u64, picked: MemberId) -> Option<Opened> {
        self.members.insert(key, picked);
        Some(Opened { member: picked, cookie: 0 })
    }

    fn forward(&mut self, key: u64, _: u16) -> Option<MemberId> {
        self.members.get(&key).copied()
    }

    fn close(&mut self, key: u64, _: u16) {
        self.members.remove(&key);
    }
}
