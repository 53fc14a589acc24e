//! The record of a packet that a test sent.

use net::{HostIx, NodeIx, Time, address};
use openflow::Headers;

#[derive(Clone, Debug, Default)]
pub struct Packet {
    pub visited: Vec<NodeIx>,
    pub delivered: Option<(HostIx, Time)>,
    pub has_looped: bool,
    pub arrived: Option<Headers>,
    /// The reply of the host it was delivered to ([`TestNetwork::answering`]).
    pub answer: Option<u32>,
    pub deliveries: u32,
    pub(super) is_answer: bool,
}

impl Packet {
    /// Returns the datapath ids of the switches it visited.
    pub fn path(&self) -> Vec<u64> {
        self.visited.iter().map(|node| address::datapath_of(*node)).collect()
    }
}
