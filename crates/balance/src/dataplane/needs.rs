//! What a mechanism needs of the world around it, declared beside its parameters.

use net::Time;

use super::Scale;
use crate::params::Params;

/// Everything a mechanism may need; `Default` is nothing.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Needs {
    /// Rate estimators on every fabric link, and their reading stamped into packets.
    pub sensing: Option<Sensing>,
    /// How a flow becomes connections.
    pub connection: Connection,
    /// Lossless switches.
    pub lossless: Option<Lossless>,
    /// What receivers do about order.
    pub receiving: Receiving,
}

/// Needs of a mechanism that has none.
pub const NO_NEEDS: fn(&Scale, &Params) -> Needs = |_, _| Needs::default();

/// A discounting rate estimator on every fabric link (mechanisms.md §1.3): on transmission X grows by the bytes sent, and
/// every `interval` it shrinks by the factor 1 − `decay`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensing {
    /// Time between two decays.
    pub interval: Time,
    /// Share forgotten at each, above 0 and at most 1.
    pub decay: f64,
    /// Bits of the quantised reading stamped into packets, 1 to 8.
    pub bits: u8,
}

impl Sensing {
    /// Time constant of the estimator.
    pub fn time_constant(&self) -> Time {
        Time::from_ps((self.interval.as_ps() as f64 / self.decay) as u64)
    }

    /// A utilisation as the number packets carry: floor(u · 2^bits), at most 2^bits − 1.
    #[inline]
    pub fn quantise(&self, utilisation: f64) -> u8 {
        let steps = 1u32 << self.bits;
        ((utilisation * f64::from(steps)) as u32).min(steps - 1) as u8
    }
}

/// How a flow becomes connections.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Connection {
    /// One flow, one connection.
    #[default]
    Single,
    /// Several subflows that share the flow's data (MPTCP).
    Subflows(Subflows),
    /// Several connections that each carry all of the flow's data (RepFlow).
    Copies(Copies),
}

/// Multipath TCP (mechanisms.md P11).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subflows {
    /// Subflows of a connection, 1 to 8.
    pub count: u8,
    /// How their windows grow together.
    pub coupling: Coupling,
    /// Bytes a connection sends on its first subflow before it opens the others.
    pub open_after_bytes: u64,
}

/// Coupled congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coupling {
    /// Linked increases (RFC 6356).
    Lia,
    /// Opportunistic linked increases (Khalili et al., CoNEXT 2012).
    Olia,
    /// Each subflow for itself.
    None,
}

/// Replicated flows (mechanisms.md P19).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Connections per flow, at least 2.
    pub count: u8,
    /// Only flows up to this size are replicated, bytes.
    pub max_bytes: u64,
    /// What they race for.
    pub race: Race,
    /// Choose ports until the copies take different first hops.
    pub force_distinct: bool,
}

/// What copies race for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Race {
    /// All data goes over each; the first to complete counts (RepFlow).
    Data,
    /// Only the handshake is replicated; data goes over the first connection that opens (RepSYN).
    Handshake,
}

/// Priority flow control in every switch (mechanisms.md P07).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lossless {
    /// Traffic classes, 1 to 8.
    pub priorities: u8,
    /// A port asks its upstream neighbour to pause when this much from it is buffered, bytes.
    pub pause_above_bytes: u32,
    /// And to go on when it is down to this.
    pub resume_below_bytes: u32,
}

/// What receivers do about order, where the experiment leaves it to the balancer.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Receiving {
    /// Resequencing for mechanisms that always reorder, none for others.
    #[default]
    Usual,
    /// Resequencing, for parameters that make a per-packet mechanism of a per-flow one.
    Resequenced,
    /// Resequencing without a limit, and no fast retransmit: in lossless networks only the timer means loss (DeTail).
    Patient,
    /// Resequencing that tells loss inside a flowcell from reordering between flowcells (Presto): a gap within the
    /// flowcell last seen is shown at once, one at a boundary is held for `patience` × the average time such gaps last.
    Flowcells {
        /// Bytes of a flowcell, counted as the sender's edge does.
        bytes: u32,
        /// Multiple of the average reordering time to wait; 2 as published.
        patience: f64,
    },
}
