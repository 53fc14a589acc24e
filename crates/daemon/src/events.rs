//! Events for the event stream.

use balance::central::AgentCommand;
use control::{Event, HostLimit};
use openflow::DatapathId;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum DaemonEvent {
    Event(Event),
    Command(AgentCommand),
}

/// Returns a datapath id as 16 hexadecimal digits.
pub(crate) fn dpid(datapath: DatapathId) -> String {
    format!("{:016x}", datapath.0)
}

pub(crate) fn limit_name(limit: HostLimit) -> &'static str {
    match limit {
        HostLimit::Port => "hosts_per_port",
        HostLimit::Network => "hosts",
    }
}
