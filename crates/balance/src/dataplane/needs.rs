//! The requirements of a mechanism on its platform, declared next to its parameters.

use net::Time;

/// All possible requirements; `Default` is none.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Needs {
    /// Rate estimators on every fabric link, whose readings are stamped into packets.
    pub sensing: Option<Sensing>,
    /// Mapping of a flow to connections.
    pub connection: Connection,
    /// Lossless switches; `None` for switches that drop.
    pub lossless: Option<Lossless>,
    /// Order in which receivers deliver packets.
    pub receiving: Receiving,
    /// Whether switches send messages to their neighbours, which leave a port before data, and set timers.
    pub messages: bool,
    /// Whether it reads links anywhere in the network at once, which no real switch can: a run with
    /// such a mechanism uses one thread.
    pub reads_all_links: bool,
    /// Whether hosts begin flows that are due at the same instant with the largest (LPT), rather than
    /// in the order of the list.
    pub largest_first: bool,
}

/// A discounting rate estimator on every fabric link (mechanisms.md §1.3): on transmission X grows
/// by the bytes sent, and every `interval` it shrinks by the factor 1 − `decay`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensing {
    /// Time between two decays.
    pub interval: Time,
    /// Share forgotten at each decay, above 0 and at most 1.
    pub decay: f64,
    /// Bits of the quantised reading stamped into packets, 1 to 8; 0 if no reading is stamped.
    pub bits: u8,
}

impl Sensing {
    /// Returns the time constant of the estimator.
    pub fn time_constant(&self) -> Time {
        Time::from_ps((self.interval.as_ps() as f64 / self.decay) as u64)
    }

    /// Quantises a utilisation to the number in packets: floor(u · 2^bits), at most 2^bits − 1.
    #[inline]
    pub fn quantise(&self, utilisation: f64) -> u8 {
        let steps = 1u32 << self.bits;
        ((utilisation * f64::from(steps)) as u32).min(steps - 1) as u8
    }
}

/// The mapping of a flow to connections.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Connection {
    /// One connection per flow.
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
    /// Coupling of the window growth of the subflows.
    pub coupling: Coupling,
    /// Bytes a connection sends on its first subflow before it opens the others.
    pub open_after_bytes: u64,
    /// Whether the other subflows open only after the first acknowledgement of data, each with a
    /// handshake (RFC 8684, section 3.2), even if the transport has none.
    pub join_after_data: bool,
}

/// Coupled congestion control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coupling {
    /// Linked increases (RFC 6356).
    Lia,
    /// Opportunistic linked increases (Khalili et al., CoNEXT 2012).
    Olia,
    /// Independent congestion control per subflow.
    None,
}

/// Replicated flows (mechanisms.md P19).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Connections per flow, at least 2.
    pub count: u8,
    /// Maximum size of a replicated flow, bytes.
    pub max_bytes: u64,
    /// The step that replicas compete for.
    pub race: Race,
    /// Whether ports are chosen until the copies take different first hops.
    pub force_distinct: bool,
}

/// The step that replicas compete for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Race {
    /// Every copy carries all data; the first to complete counts (RepFlow).
    Data,
    /// Only the handshake is replicated; data uses the first connection that opens (RepSYN).
    Handshake,
}

/// Priority flow control in every switch (mechanisms.md P07).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lossless {
    /// Traffic classes, 1 to 8.
    pub priorities: u8,
    /// Bytes buffered from an upstream neighbour above which a port pauses that neighbour.
    pub pause_above_bytes: u32,
    /// Bytes at which the port resumes the neighbour.
    pub resume_below_bytes: u32,
}

/// Delivery order at receivers, if the experiment does not set it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Receiving {
    /// Resequencing for mechanisms that always reorder, and none for others.
    #[default]
    Usual,
    /// Resequencing, for parameters that turn a per-flow mechanism into a per-packet one.
    Resequenced,
    /// Unlimited resequencing, no fast retransmit: if lossless, only the timer means loss (DeTail).
    Patient,
    /// For go-back-N: network interfaces that keep early packets, and report each gap once (NICs with
    /// selective repeat). Resequencing for other transports as usual.
    Reported,
    /// Resequencing that distinguishes loss inside a flowcell from reordering between flowcells
    /// (Presto). A gap within the last flowcell is delivered immediately; a gap at a boundary is
    /// held for `patience` × the average duration of such gaps.
    Flowcells {
        /// Size of a flowcell as the sender's edge counts it, bytes.
        bytes: u32,
        /// Multiple of the average reordering time that is waited; 2 as published.
        patience: f64,
    },
}
