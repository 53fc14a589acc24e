//! Recordings: everything that goes into the controller, in a file that reproduces its outputs.
//!
//! The controller has no clock and no randomness, so the same inputs give the same outputs. A
//! recording therefore holds configuration and inputs, and of the outputs a hash.
//!
//! ```text
//! engine ─► RecordedController ─► control::Controller
//!                │ entries
//!                ▼
//!            Recorder: records ─► Writer (thread) ─► file ─► replay
//! ```
//!
//! The key of discovery probes is in the file, because without it the controller would reject the
//! recorded probes. A daemon draws another key at each start, so this one has no use after the run;
//! while the daemon runs, only its user may read the file.

mod controller;
mod file;
mod output_hash;
mod recorder;
mod replay;
mod summary;
#[cfg(test)]
mod tests;
mod writer;

use std::net::Ipv4Addr;

use balance::central::AgentReport;
use balance::server::ServerStats;
use control::edge::RouteInput;
use control::vip::Services;
use openflow::ConnectionId;
use serde::{Deserialize, Serialize, Serializer};

pub(crate) use controller::RecordedController;
pub(crate) use recorder::Recorder;

pub use file::ReadError;
pub use recorder::RecordError;
pub use replay::{Options, ReplayError, replay};
pub use summary::{Position, Summary};

/// A piece of a recording. The order of variants and fields is part of the format.
#[derive(Debug, Serialize, Deserialize)]
enum Entry<'a> {
    /// The controller is created. The first entry.
    Start { config: Box<control::Config>, balancer: String },
    /// An input, and the time since the previous one in ps. The time is negative after a pause,
    /// which the clock of the daemon leaves out.
    Input {
        after_ps: i64,
        #[serde(borrow)]
        input: Input<'a>,
    },
    /// The driver takes all outputs; the hash of all outputs since the start.
    Outputs(u64),
    /// The recording ends. The last entry, unless the process was killed.
    End(End),
}

/// A call of the controller.
#[derive(Debug, Serialize, Deserialize)]
enum Input<'a> {
    Connected(ConnectionId),
    Disconnected(ConnectionId),
    /// A message as bytes of OpenFlow, header included.
    Message(ConnectionId, #[serde(serialize_with = "as_bytes")] &'a [u8]),
    Timeout,
    AgentReport(AgentReport),
    MemberReport(Ipv4Addr, ServerStats),
    Services(Services),
    /// The specification of another balancer.
    Balancer(String),
    Routes(RouteInput),
}

impl Input<'_> {
    /// Returns the name of the kind of input.
    fn name(&self) -> &'static str {
        match self {
            Input::Connected(_) => "connected",
            Input::Disconnected(_) => "disconnected",
            Input::Message(..) => "message",
            Input::Timeout => "timeout",
            Input::AgentReport(_) => "agent_report",
            Input::MemberReport(..) => "member_report",
            Input::Services(_) => "services",
            Input::Balancer(_) => "balancer",
            Input::Routes(_) => "routes",
        }
    }
}

/// The reason for the end of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum End {
    Stopped,
    Panicked,
    SizeLimit,
    WriterBehind,
    NotEncodable,
}

impl End {
    fn text(self) -> &'static str {
        match self {
            End::Stopped => "the daemon stopped",
            End::Panicked => "the controller panicked",
            End::SizeLimit => "the maximum size was reached: raise [log] record_bytes",
            End::WriterBehind => "the disk was slower than the inputs: record to a faster one",
            End::NotEncodable => "an input has no encoding, which is a defect of anabranch",
        }
    }
}

/// Serialises bytes as one piece, and not as a sequence of numbers.
fn as_bytes<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}
