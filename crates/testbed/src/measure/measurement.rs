//! Measurements of the programs that send and receive.

use crate::traffic::datagrams::DeliveryGap;

/// Measurement of one flow. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowMeasurement {
    /// Start of the flow; 0 if it did not start.
    pub first_ns: u64,
    /// Arrival of the last byte; 0 if nothing arrived.
    pub last_ns: u64,
    pub is_all_sent: bool,
    /// Whether every byte arrived before the end of the run.
    pub is_complete: bool,
    /// Payload that arrived before the end of the run.
    pub bytes: u64,
    /// Packets; 0 if the program does not report them.
    pub sent: u64,
    /// Packets that arrived before and after the end of the run.
    pub received: u64,
    pub late: u64,
    pub retransmitted: u64,
    /// Packets that arrived below the highest sequence seen, and the largest distance below it.
    pub reordered: u64,
    pub reorder_extent: u64,
    /// Sum of the socket-to-socket delays of `received`.
    pub delay_sum_ns: u64,
    /// Longest time between two packets.
    pub longest_gap_ns: u64,
}

/// Measurements of all flows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrafficMeasurement {
    /// In the order of the flow list.
    pub flows: Vec<FlowMeasurement>,
    /// Gaps in UDP flows, of all flows together.
    pub gaps: Vec<DeliveryGap>,
    /// Whether packets were counted per flow. Otherwise the counters of the hosts' interfaces are
    /// used.
    pub has_packets: bool,
}
