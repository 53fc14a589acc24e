//! Why the controller closes the connection of a switch, and what to do.

use std::fmt;

use openflow::{DatapathId, ErrorKind};

use super::session::State;

/// The reason why the controller closes a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The hello does not offer OpenFlow 1.3; `versions` is its bitmap.
    Version { versions: u32 },
    /// The first message is not a hello.
    NotHello,
    /// An auxiliary connection of a switch; `id` is its number.
    Auxiliary { id: u8 },
    /// The switch rejects a request that every switch must support.
    RequestRejected { request: &'static str, error: ErrorKind },
    /// Another connection with this datapath id is alive.
    DatapathInUse { datapath: DatapathId },
    /// The switch has been silent for [`crate::Config::echo_timeout`].
    Silent,
    /// A newer connection has the same datapath id.
    Replaced,
}

impl CloseReason {
    /// Returns the reason for an error reply to the request that a state waits for.
    pub(super) fn rejected(state: State, error: ErrorKind) -> CloseReason {
        let request = match state {
            State::Hello => "hello",
            State::Features => "features request",
            State::Ports => "request for port descriptions",
            State::Groups => "request for group descriptions",
            State::Rules | State::Ready => "request for flow statistics",
        };
        CloseReason::RequestRejected { request, error }
    }
}

/// Returns the highest version of a bitmap as text, such as `OpenFlow 1.0`.
fn highest(versions: u32) -> String {
    match versions.checked_ilog2() {
        None | Some(0) => "no version".to_owned(),
        Some(version) => format!("OpenFlow 1.{} at most", version - 1),
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Version { versions } if versions >> 5 != 0 => write!(
                f,
                "its hello does not offer OpenFlow 1.3 (bitmap {versions:#x}); enable version 1.3 on the switch \
                 (Open vSwitch: protocols=OpenFlow13)"
            ),
            CloseReason::Version { versions } => write!(
                f,
                "its hello offers {}, but OpenFlow 1.3 is needed; enable version 1.3 on the switch (Open vSwitch: \
                 protocols=OpenFlow13)",
                highest(*versions)
            ),
            CloseReason::NotHello => f.write_str(
                "its first message is not a hello, so it is not an OpenFlow switch; check which program connects here",
            ),
            CloseReason::Auxiliary { id } => write!(
                f,
                "it is auxiliary connection {id}, which this controller does not use; configure the main connection alone"
            ),
            CloseReason::RequestRejected { request, error } => write!(
                f,
                "the switch rejects the {request} ({error:?}), which OpenFlow 1.3 requires; update the switch, or check \
                 whether it restricts this controller"
            ),
            CloseReason::DatapathInUse { datapath } => write!(
                f,
                "a connected switch has the datapath id {:016x} and still answers; give each switch its own id, and bind \
                 ids to certificates with TLS",
                datapath.0
            ),
            CloseReason::Silent => f.write_str(
                "the switch has sent nothing for [control] echo_timeout; check the path to it, or raise the timeout",
            ),
            CloseReason::Replaced => {
                f.write_str("the switch has connected again, and this connection did not answer any more")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_named() {
        let text = |versions| CloseReason::Version { versions }.to_string();
        assert!(text(1 << 1).contains("OpenFlow 1.0 at most"), "{}", text(1 << 1));
        assert!(text(1 << 3 | 1 << 1).contains("OpenFlow 1.2 at most"));
        assert!(text(0).contains("no version"));
        assert!(text(1 << 5).contains("bitmap 0x20"));
    }
}
