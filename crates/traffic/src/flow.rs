//! The one product of this crate: a list of flows to send.

use net::{HostIx, Time};

/// When a flow begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At this time.
    At(Time),
    /// `delay` after flow `flow` (a position in the list) has delivered its last byte.
    After {
        /// Position in the list of the flow waited for.
        flow: u32,
        /// Further wait.
        delay: Time,
    },
}

/// One transfer of `size` payload bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flow {
    /// Sending host.
    pub src: HostIx,
    /// Receiving host, never the sender.
    pub dst: HostIx,
    /// Payload bytes, at least 1.
    pub size_bytes: u64,
    /// When its first byte is offered to the socket.
    pub start: Start,
    /// Job, coflow or collective it belongs to; 0 where there is none.
    pub group: u32,
}

/// Flows in order of their start times (triggered ones keep their place), with what was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowList {
    /// The flows. A flow's position is its id everywhere: in records, in triggers, in reports.
    pub flows: Vec<Flow>,
    /// What the generator was asked for, in words, for reports: distribution, pattern, load and its reference.
    pub description: String,
}
