//! OpenFlow 1.3 (specification 1.3.5): the messages between controller and switch as values.
//!
//! Names follow the specification without its prefixes: `OFPT_FLOW_MOD` is [`Message::FlowMod`],
//! `OFPFMFC_TABLE_FULL` is [`FlowModFailed::TableFull`]. What the specification makes redundant
//! (lengths, padding, message types) is left to the codec.

pub mod action;
pub mod address;
pub mod bundle;
pub mod channel;
pub mod error;
pub mod frame;
pub mod headers;
pub mod ids;
pub mod matching;
pub mod message;
pub mod multipart;
pub mod testing;
pub mod wire;

pub use action::{Action, Bucket, Instructions, SetField};
pub use address::MacAddr;
pub use bundle::Bundle;
pub use channel::{ConnectionId, FromController, ToController};
pub use error::*;
pub use headers::Headers;
pub use ids::{BufferId, DatapathId, GroupId, PortNo, TableId, Xid};
pub use matching::{Masked, Match, VlanMatch};
pub use message::*;
pub use multipart::*;
pub use wire::wire_len;
