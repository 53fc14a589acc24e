//! Events for the event stream.

use balance::central::AgentCommand;
use control::{AddressConflict, Departure, Event, HostLimit};
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

pub(crate) fn departure_name(why: Departure) -> &'static str {
    match why {
        Departure::Idle => "idle",
        Departure::PortDown => "port_down",
        Departure::Evicted => "evicted",
        Departure::LinkFound => "link_found",
    }
}

/// Returns why a host was forgotten, as text for the log.
pub(crate) fn departure_text(why: Departure) -> &'static str {
    match why {
        Departure::Idle => "it was silent for [hosts] idle_timeout and did not reply to ARP requests",
        Departure::PortDown => "its port was down or missing for [hosts] port_down_timeout",
        Departure::Evicted => "evicted, because a limit of hosts is reached",
        Departure::LinkFound => "its port leads to a switch",
    }
}

pub(crate) fn conflict_name(why: AddressConflict) -> &'static str {
    match why {
        AddressConflict::Duplicate => "duplicate",
        AddressConflict::Pinned => "pinned",
        AddressConflict::Flapping => "flapping",
    }
}

/// Returns what an address conflict means, as text for the log.
pub(crate) fn conflict_text(why: AddressConflict) -> &'static str {
    match why {
        AddressConflict::Duplicate => "two hosts use it; the one known first replied at its port and keeps it",
        AddressConflict::Pinned => "the address is configured in [[host]]; the claim is ignored",
        AddressConflict::Flapping => "it has moved too often; the claim is ignored until it has been stable",
    }
}

pub(crate) fn limit_name(limit: HostLimit) -> &'static str {
    match limit {
        HostLimit::Port => "hosts_per_port",
        HostLimit::Network => "hosts",
    }
}
