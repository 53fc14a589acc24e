//! What happens, for whoever listens.

use balance::central::AgentOrder;
use control::Event;
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
