//! Multipart messages: state and statistics.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `ofp_flow_stats` and the other structures")]

use crate::action::{Bucket, Instructions};
use crate::flow_monitor::{FlowMonitorRequest, FlowUpdate};
use crate::ids::{GroupId, MeterId, PortNo, QueueId, TableId};
use crate::matching::Match;
use crate::message::{FlowModFlags, GroupKind, PortDesc};
use crate::meter::{MeterConfig, MeterFeatures, MeterStats};
use crate::table_features::TableFeatures;

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

/// A request for state or statistics.
///
/// [`PortNo::ANY`], [`GroupId::ALL`] and [`MeterId::ALL`] select all ports, groups and meters.
/// `TableFeatures` without tables asks for the features, with tables it changes them. `Other` is any
/// other type, with its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MultipartRequest {
    Desc,
    Flow(FlowSelection),
    Aggregate(FlowSelection),
    Table,
    Port(PortNo),
    Queue {
        port: PortNo,
        queue: QueueId,
    },
    Group(GroupId),
    GroupDesc,
    GroupFeatures,
    Meter(MeterId),
    MeterConfig(MeterId),
    MeterFeatures,
    TableFeatures(Vec<TableFeatures>),
    PortDesc,
    /// Starts flow monitors; see [`flow_monitor`](crate::flow_monitor).
    FlowMonitor(Vec<FlowMonitorRequest>),
    Experimenter {
        experimenter: u32,
        kind: u32,
        data: Vec<u8>,
    },
    Other {
        kind: u16,
        body: Vec<u8>,
    },
}

/// A multipart reply; `Other` is any other type, with its body.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    Queue(Vec<QueueStats>),
    Group(Vec<GroupStats>),
    GroupDesc(Vec<GroupDescription>),
    GroupFeatures(GroupFeatures),
    Meter(Vec<MeterStats>),
    MeterConfig(Vec<MeterConfig>),
    MeterFeatures(MeterFeatures),
    TableFeatures(Vec<TableFeatures>),
    PortDesc(Vec<PortDesc>),
    /// The current rules of a flow monitor, or later changes (then the transaction id is 0).
    FlowMonitor(Vec<FlowUpdate>),
    /// A reply with records that no value represents: they use an extension, or a legal form that is
    /// not modelled (a VLAN match with an arbitrary mask, a masked port). `known` has the other
    /// records, `opaque` the bytes of these ones.
    Partial {
        known: Box<MultipartReply>,
        opaque: Vec<Vec<u8>>,
    },
    Experimenter {
        experimenter: u32,
        kind: u32,
        data: Vec<u8>,
    },
    Other {
        kind: u16,
        body: Vec<u8>,
    },
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

/// The counters of a port; [`PortStats::UNSUPPORTED`] for those that the switch does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortStats {
    pub port: PortNo,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    /// Receive errors of all kinds.
    pub rx_errors: u64,
    pub tx_errors: u64,
    /// Received frames with alignment errors.
    pub rx_frame_err: u64,
    /// Packets lost by receive overruns.
    pub rx_over_err: u64,
    pub rx_crc_err: u64,
    pub collisions: u64,
    pub duration_ns: u64,
}

impl PortStats {
    /// The value of a counter that the switch does not have (specification 7.3.5.6).
    pub const UNSUPPORTED: u64 = u64::MAX;

    /// Returns the statistics of a port that counts nothing.
    pub const fn unsupported(port: PortNo) -> PortStats {
        let none = PortStats::UNSUPPORTED;
        PortStats {
            port,
            rx_packets: none,
            tx_packets: none,
            rx_bytes: none,
            tx_bytes: none,
            rx_dropped: none,
            tx_dropped: none,
            rx_errors: none,
            tx_errors: none,
            rx_frame_err: none,
            rx_over_err: none,
            rx_crc_err: none,
            collisions: none,
            duration_ns: 0,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueStats {
    pub port: PortNo,
    pub queue: QueueId,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    /// Packets dropped because the queue was full.
    pub tx_errors: u64,
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
