//! Multipart messages: state and statistics.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `ofp_flow_stats` and the other structures")]

use crate::action::{Bucket, Instructions};
use crate::ids::{GroupId, PortNo, TableId};
use crate::matching::Match;
use crate::message::{FlowModFlags, GroupKind, PortDesc};

/// The entries of a statistics request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSelection {
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

/// A multipart request: [`PortNo::ANY`] and [`GroupId::ALL`] select all ports and groups; `Other` is
/// any other type, with its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MultipartRequest {
    Desc,
    Flow(FlowSelection),
    Aggregate(FlowSelection),
    Table,
    Port(PortNo),
    Group(GroupId),
    GroupDesc,
    GroupFeatures,
    PortDesc,
    Other { kind: u16, body: Vec<u8> },
}

/// A multipart reply; `Other` is any other type, with its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MultipartReply {
    Desc(Description),
    Flow(Vec<FlowStats>),
    Aggregate { packets: u64, bytes: u64, flows: u32 },
    Table(Vec<TableStats>),
    Port(Vec<PortStats>),
    Group(Vec<GroupStats>),
    GroupDesc(Vec<GroupDescription>),
    GroupFeatures(GroupFeatures),
    PortDesc(Vec<PortDesc>),
    Other { kind: u16, body: Vec<u8> },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Description {
    pub manufacturer: String,
    pub hardware: String,
    pub software: String,
    pub serial: String,
    pub datapath: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlowStats {
    pub table: TableId,
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableStats {
    pub table: TableId,
    pub active: u32,
    pub lookups: u64,
    pub matched: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStats {
    pub port: PortNo,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub duration_ns: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStats {
    pub group: GroupId,
    /// Number of entries and groups that use the group.
    pub references: u32,
    pub packets: u64,
    pub bytes: u64,
    pub duration_ns: u64,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupDescription {
    pub group: GroupId,
    pub kind: GroupKind,
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFeatures {
    pub types: u32,
    /// Bitmap of capabilities (`OFPGFC_*`): bit 0 weights, bit 1 watching, bit 2 chaining, bit 3
    /// checks for loops.
    pub capabilities: u32,
    /// Maximum number of groups of each type: all, select, indirect, fast failover.
    pub max_groups: [u32; 4],
    pub actions: [u32; 4],
}
