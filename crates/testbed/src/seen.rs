//! What programs that send and receive saw, whichever they are.

use crate::error::TestbedError;
use crate::sockets::Break;

/// One flow. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowSeen {
    /// When it began; 0 for never.
    pub first_ns: u64,
    /// When its last byte arrived; 0 where nothing did.
    pub last_ns: u64,
    /// Whether the sender got rid of everything.
    pub is_all_sent: bool,
    /// Whether everything arrived before the end.
    pub is_complete: bool,
    /// Payload that arrived before the end, bytes.
    pub bytes: u64,
    /// Packets sent; 0 where the program does not tell.
    pub sent: u64,
    /// Packets that arrived before the end.
    pub received: u64,
    /// Packets that arrived after it.
    pub late: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets that arrived below the highest sequence seen.
    pub reordered: u64,
    /// How far below.
    pub reorder_extent: u64,
    /// Sum of the times from socket to socket, nanoseconds.
    pub delay_sum_ns: u64,
    /// Longest silence between two packets, nanoseconds.
    pub longest_gap_ns: u64,
}

/// All flows, in the order of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// One per flow.
    pub flows: Vec<FlowSeen>,
    /// Places where UDP flows lost packets or fell silent, all flows together.
    pub breaks: Vec<Break>,
    /// Whether packets of flows were counted one by one; otherwise those of hosts' interfaces are.
    pub has_packets: bool,
}

/// An error of a program.
pub(crate) fn failed(program: &str, reason: impl Into<String>) -> TestbedError {
    TestbedError::Traffic { program: program.to_owned(), reason: reason.into() }
}
