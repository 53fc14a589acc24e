//! What happens, for whoever listens.

use balance::central::AgentOrder;
use control::{Event, HostLimit};
use openflow::DatapathId;

/// Something that happened.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Happening {
    /// An event of the controller.
    Event(Event),
    /// Agents on hosts are told something.
    Order(AgentOrder),
}

/// The number of a switch as people write it: 16 hexadecimal digits.
pub(crate) fn dpid(datapath: DatapathId) -> String {
    format!("{:016x}", datapath.0)
}

/// What leaves no room for a host, as `[limits]` names it.
pub(crate) fn limit_name(limit: HostLimit) -> &'static str {
    match limit {
        HostLimit::Port => "hosts_per_port",
        HostLimit::Network => "hosts",
    }
}
