//! Multipart messages: state and statistics.

use crate::action::{Bucket, Instructions};
use crate::ids::{GroupId, PortNo, TableId};
use crate::matching::Match;
use crate::message::{FlowModFlags, GroupKind, PortDesc};

/// The entries of a statistics request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.2")]
pub struct FlowSelection {
    /// A table, or [`TableId::ALL`].
    pub table: TableId,
    /// Only entries with output to this port; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Only entries with output to this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
    /// Only entries whose cookie agrees in the bits of `cookie_mask`.
    pub cookie: u64,
    pub cookie_mask: u64,
    /// Only entries that this match covers.
    pub match_: Match,
}

impl FlowSelection {
    /// Returns the selection of all entries.
    pub fn all() -> FlowSelection {
        FlowSelection {
            table: TableId::ALL,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            cookie: 0,
            cookie_mask: 0,
            match_: Match::default(),
        }
    }
}

/// A multipart request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5")]
pub enum MultipartRequest {
    Desc,
    Flow(FlowSelection),
    Aggregate(FlowSelection),
    Table,
    /// The counters of a port, or of all ([`PortNo::ANY`]).
    Port(PortNo),
    /// The counters of a group, or of all ([`GroupId::ALL`]).
    Group(GroupId),
    GroupDesc,
    GroupFeatures,
    PortDesc,
    /// Any other type, with its body.
    Other {
        kind: u16,
        body: Vec<u8>,
    },
}

/// A multipart reply.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5")]
pub enum MultipartReply {
    Desc(Description),
    Flow(Vec<FlowStats>),
    Aggregate {
        packets: u64,
        bytes: u64,
        flows: u32,
    },
    Table(Vec<TableStats>),
    Port(Vec<PortStats>),
    Group(Vec<GroupStats>),
    GroupDesc(Vec<GroupDescription>),
    GroupFeatures(GroupFeatures),
    PortDesc(Vec<PortDesc>),
    /// Any other type, with its body.
    Other {
        kind: u16,
        body: Vec<u8>,
    },
}

/// The description of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.1")]
pub struct Description {
    pub manufacturer: String,
    pub hardware: String,
    pub software: String,
    pub serial: String,
    pub datapath: String,
}

/// An entry with its counters.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.2")]
pub struct FlowStats {
    pub table: TableId,
    /// Age in ns.
    pub duration_ns: u64,
    pub priority: u16,
    /// Idle timeout in s; 0 for none.
    pub idle_timeout_s: u16,
    /// Hard timeout in s; 0 for none.
    pub hard_timeout_s: u16,
    pub flags: FlowModFlags,
    pub cookie: u64,
    pub packets: u64,
    pub bytes: u64,
    pub match_: Match,
    pub instructions: Instructions,
}

/// A table with its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.4")]
pub struct TableStats {
    pub table: TableId,
    pub active: u32,
    pub lookups: u64,
    pub matched: u64,
}

/// A port with its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.6")]
pub struct PortStats {
    pub port: PortNo,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    /// Age of the counters in ns.
    pub duration_ns: u64,
}

/// A group with its counters.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.8")]
pub struct GroupStats {
    pub group: GroupId,
    /// Number of entries and groups that use the group.
    pub references: u32,
    pub packets: u64,
    pub bytes: u64,
    /// Age in ns.
    pub duration_ns: u64,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// A group's type and buckets.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.9")]
pub struct GroupDescription {
    pub group: GroupId,
    pub kind: GroupKind,
    pub buckets: Vec<Bucket>,
}

/// The supported features of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.5.10")]
pub struct GroupFeatures {
    pub types: u32,
    /// Bitmap of capabilities (`OFPGFC_*`): bit 0 weights, bit 1 watching, bit 2 chaining, bit 3
    /// checks for loops.
    pub capabilities: u32,
    /// Maximum number of groups of each type: all, select, indirect, fast failover.
    pub max_groups: [u32; 4],
    pub actions: [u32; 4],
}
