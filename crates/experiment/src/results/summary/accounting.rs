//! Accounting of flows and packets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Flow accounting: started = completed + failed + running.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FlowCounts {
    /// Flows in the list.
    pub listed: u64,
    /// Flows that started.
    pub started: u64,
    /// Flows that completed.
    pub completed: u64,
    /// Flows that failed: the sender stopped after too many time-outs.
    pub failed: u64,
    /// Flows running at the end of the run: censored, never included in averages.
    pub running: u64,
}

/// Packet accounting: sent = delivered + to the controller + dropped + in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct PacketCounts {
    /// Packets handed to host interfaces.
    pub sent: u64,
    /// Packets received by their destination.
    pub delivered: u64,
    /// Packets lost, by cause; causes without losses are listed as 0.
    pub dropped: BTreeMap<String, u64>,
    /// Packets in queues and on links at the end.
    pub in_flight: u64,
    /// Packets that only the controller received; a packet it sends on counts as sent again. Left
    /// out if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_controller: u64,
    /// Packets trimmed to a header by full queues, regardless of the fate of the header; left out
    /// if 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub trimmed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
