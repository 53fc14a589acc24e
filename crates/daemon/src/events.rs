//! Events for the event stream.

use balance::central::AgentCommand;
use control::{Event, HostLimit};
use openflow::DatapathId;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum DaemonEvent {
    Event(Event),
    /// A command to agents on hosts.
    Order(AgentCommand),
}

/// Returns a datapath id as 16 hexadecimal digits.
pub(crate) fn dpid(datapath: DatapathId) -> String {
    format!("{:016x}", datapath.0)
}

/// Returns the key of `[limits]` of a host limit.
pub(crate) fn limit_name(limit: HostLimit) -> &'static str {
    match limit {
        HostLimit::Port => "hosts_per_port",
        HostLimit::Network => "hosts",
    }
}
