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
pub mod flow_monitor;
pub mod frame;
pub mod headers;
pub mod ids;
pub mod matching;
pub mod message;
pub mod meter;
pub mod multipart;
pub mod table_features;
pub mod testing;
pub mod wire;

pub use action::{Action, Bucket, Instructions, SetField};
pub use address::MacAddr;
pub use bundle::Bundle;
pub use channel::{ConnectionId, FromController, ToController};
pub use error::*;
pub use flow_monitor::{FlowChange, FlowEvent, FlowMonitorControl, FlowMonitorFlags, FlowMonitorRequest, FlowUpdate};
pub use headers::Headers;
pub use ids::{BufferId, DatapathId, GroupId, MeterId, PortNo, QueueId, TableId, Xid};
pub use matching::{Masked, Match, VlanMatch};
pub use message::*;
pub use meter::{MeterBand, MeterBandKind, MeterConfig, MeterFeatures, MeterStats};
pub use multipart::*;
pub use table_features::{FeatureId, TableFeatures, TableProperty};
pub use wire::wire_len;
