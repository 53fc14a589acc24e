//! State and statistics.

use crate::action::{Bucket, Instructions};
use crate::ids::{GroupId, PortNo, TableId};
use crate::matching::Match;
use crate::message::{FlowModFlags, GroupKind, PortDesc};

/// Entries that statistics are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowSelection {
    /// Table, or [`TableId::ALL`].
    pub table: TableId,
    /// Only those that send out of this port; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Only those that send to this group; [`GroupId::ANY`] for all.
    pub out_group: GroupId,
    /// Only those whose cookie agrees …
    pub cookie: u64,
    /// … in these bits.
    pub cookie_mask: u64,
    /// Only those this match covers.
    pub match_: Match,
}

impl FlowSelection {
    /// Every entry.
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

/// A request for state or statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MultipartRequest {
    /// Maker and serial number.
    Desc,
    /// Each entry with its counters.
    Flow(FlowSelection),
    /// Sums over entries.
    Aggregate(FlowSelection),
    /// Tables.
    Table,
    /// Counters of a port, or of all ([`PortNo::ANY`]).
    Port(PortNo),
    /// Counters of a group, or of all ([`GroupId::ALL`]).
    Group(GroupId),
    /// Buckets of all groups.
    GroupDesc,
    /// What groups can do.
    GroupFeatures,
    /// All ports.
    PortDesc,
    /// Any other type, with its body.
    Other {
        /// Type.
        kind: u16,
        /// Body.
        body: Vec<u8>,
    },
}

/// State or statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MultipartReply {
    /// Maker and serial number.
    Desc(Description),
    /// Entries.
    Flow(Vec<FlowStats>),
    /// Sums.
    Aggregate {
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
        /// Entries.
        flows: u32,
    },
    /// Tables.
    Table(Vec<TableStats>),
    /// Ports.
    Port(Vec<PortStats>),
    /// Groups.
    Group(Vec<GroupStats>),
    /// Buckets.
    GroupDesc(Vec<GroupDescription>),
    /// What groups can do.
    GroupFeatures(GroupFeatures),
    /// Ports.
    PortDesc(Vec<PortDesc>),
    /// Any other type, with its body.
    Other {
        /// Type.
        kind: u16,
        /// Body.
        body: Vec<u8>,
    },
}

/// Who made a switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Description {
    /// Manufacturer.
    pub manufacturer: String,
    /// Hardware.
    pub hardware: String,
    /// Software.
    pub software: String,
    /// Serial number.
    pub serial: String,
    /// The datapath, in words.
    pub datapath: String,
}

/// An entry with its counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowStats {
    /// Table.
    pub table: TableId,
    /// Age, ns.
    pub duration_ns: u64,
    /// Priority.
    pub priority: u16,
    /// Idle timeout, s.
    pub idle_timeout_s: u16,
    /// Hard timeout, s.
    pub hard_timeout_s: u16,
    /// Flags.
    pub flags: FlowModFlags,
    /// Cookie.
    pub cookie: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Match.
    pub match_: Match,
    /// Instructions.
    pub instructions: Instructions,
}

/// A table with its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableStats {
    /// Table.
    pub table: TableId,
    /// Entries.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that hit.
    pub matched: u64,
}

/// A port with its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStats {
    /// Port.
    pub port: PortNo,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets dropped on the way in.
    pub rx_dropped: u64,
    /// Packets dropped on the way out.
    pub tx_dropped: u64,
    /// Age of the counters, ns.
    pub duration_ns: u64,
}

/// A group with its counters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// Group.
    pub group: GroupId,
    /// Entries and groups that use it.
    pub references: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Age, ns.
    pub duration_ns: u64,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// A group's type and buckets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupDescription {
    /// Group.
    pub group: GroupId,
    /// Type.
    pub kind: GroupKind,
    /// Buckets.
    pub buckets: Vec<Bucket>,
}

/// What groups can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFeatures {
    /// Bitmap of types.
    pub types: u32,
    /// Bitmap of capabilities (`OFPGFC_*`): bit 0 weights, bit 1 watching, bit 2 chaining, bit 3 checks for loops.
    pub capabilities: u32,
    /// Greatest number of groups of each type: all, select, indirect, fast failover.
    pub max_groups: [u32; 4],
    /// Bitmap of actions for each type.
    pub actions: [u32; 4],
}
