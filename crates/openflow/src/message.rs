//! The messages of OpenFlow 1.3.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `ofp_flow_mod` and the other structures")]

use crate::action::{Action, Bucket, Instructions};
use crate::address::MacAddr;
use crate::error::ErrorKind;
use crate::flow_monitor::FlowMonitorControl;
use crate::ids::{BufferId, DatapathId, GroupId, PortNo, TableId, Xid};
use crate::matching::Match;
use crate::multipart::{MultipartReply, MultipartRequest};

/// A message with its transaction id.
#[derive(Clone, PartialEq, Debug)]
pub struct Envelope {
    pub xid: Xid,
    pub message: Message,
}

/// A message of OpenFlow 1.3.
///
/// - `Hello`: `versions` is a bitmap (bit 4 is 1.3).
/// - `Error`: `data` is the start of the refused message (at least 64 bytes if it has them), or text
///   after a failed hello. It is empty in simulations without bytes, where the transaction id
///   identifies the message.
/// - `TableMod` is deprecated in 1.3, and so are all bits of `config`.
/// - `MultipartReply`: a reply or one part of it; with `has_more` more parts with the same
///   transaction id follow.
/// - `BarrierRequest`: earlier messages are finished before later ones start.
/// - `FlowMonitor`: an extension, like the multipart messages of flow monitors.
/// - `Experimenter`: another extension of the experimenter with this id.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    Hello { versions: u32 },
    Error { kind: ErrorKind, data: Vec<u8> },
    EchoRequest(Vec<u8>),
    EchoReply(Vec<u8>),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    PortStatus { reason: PortReason, port: PortDesc },
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortMod),
    TableMod { table: TableId, config: u32 },
    MultipartRequest(MultipartRequest),
    MultipartReply { reply: MultipartReply, has_more: bool },
    BarrierRequest,
    BarrierReply,
    RoleRequest(Role),
    RoleReply(Role),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    FlowMonitor(FlowMonitorControl),
    Experimenter { experimenter: u32, kind: u32, data: Vec<u8> },
}

/// The features of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    pub datapath: DatapathId,
    pub buffers: u32,
    pub tables: u8,
    /// Number of an auxiliary connection; 0 for the main one.
    pub auxiliary: u8,
    /// Capability bits (`OFPC_*`).
    pub capabilities: u32,
}

/// Capability bits of [`Features::capabilities`].
pub mod capability {
    pub const FLOW_STATS: u32 = 1;
    pub const TABLE_STATS: u32 = 1 << 1;
    pub const PORT_STATS: u32 = 1 << 2;
    pub const GROUP_STATS: u32 = 1 << 3;
}

/// The treatment of packets to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Treatment of fragments: 0 normal, 1 drop, 2 reassemble.
    pub flags: u16,
    /// Number of packet bytes sent on a table miss.
    pub miss_send_len: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PacketInReason {
    NoMatch = 0,
    Action = 1,
    InvalidTtl = 2,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketIn {
    pub buffer: BufferId,
    /// Length of the whole packet in bytes.
    pub total_len: u16,
    pub reason: PacketInReason,
    pub table: TableId,
    /// Cookie of the entry that sent the packet; all ones for none.
    pub cookie: u64,
    pub match_: Match,
    /// Fields of the packet that no match expresses (its tunnel, for instance), as OXM bytes.
    pub other_fields: Vec<u8>,
    pub data: Vec<u8>,
}

/// The reason of a removal. `MeterDelete` and `Eviction` are of OpenFlow 1.4; Open vSwitch uses them
/// in flow monitors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RemovedReason {
    IdleTimeout = 0,
    HardTimeout = 1,
    Delete = 2,
    GroupDelete = 3,
    MeterDelete = 4,
    Eviction = 5,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowRemoved {
    pub cookie: u64,
    pub priority: u16,
    pub reason: RemovedReason,
    pub table: TableId,
    /// Lifetime in ns.
    pub duration_ns: u64,
    pub idle_timeout_s: u16,
    pub hard_timeout_s: u16,
    pub packets: u64,
    pub bytes: u64,
    pub match_: Match,
    /// Fields of the match that no value represents, as OXM bytes. If there are any, `match_` covers
    /// more packets than the removed entry did, which was another one than the entry with `match_`.
    pub other_fields: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortReason {
    Add = 0,
    Delete = 1,
    Modify = 2,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortDesc {
    pub port: PortNo,
    pub hw_addr: MacAddr,
    /// Name, at most 15 bytes.
    pub name: String,
    /// Whether the administrator took it down (`OFPPC_PORT_DOWN`).
    pub is_admin_down: bool,
    /// Whether the link is down (`OFPPS_LINK_DOWN`).
    pub is_link_down: bool,
    /// Rate as the switch reports it, kbit/s; often wrong (virtual ports report 10 Gb/s).
    pub speed_kbps: u32,
    /// Maximum rate as the switch reports it, kbit/s; 0 if it reports none.
    pub max_speed_kbps: u32,
    pub features: PortFeatures,
}

/// Bitmaps of the rates, media and negotiation of a port (`OFPPF_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortFeatures {
    pub current: u32,
    pub advertised: u32,
    pub supported: u32,
    /// Advertised by the other end of the link.
    pub peer: u32,
}

impl PortDesc {
    /// Returns the description of a port that is up.
    pub fn up(port: PortNo, hw_addr: MacAddr, name: impl Into<String>, speed_kbps: u32) -> PortDesc {
        let (is_admin_down, is_link_down) = (false, false);
        let (max_speed_kbps, features) = (0, PortFeatures::default());
        PortDesc { port, hw_addr, name: name.into(), is_admin_down, is_link_down, speed_kbps, max_speed_kbps, features }
    }

    /// Returns whether the port forwards packets.
    pub fn is_live(&self) -> bool {
        !self.is_admin_down && !self.is_link_down
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketOut {
    /// A buffered packet, or [`BufferId::NO_BUFFER`].
    pub buffer: BufferId,
    /// The ingress port for processing, or [`PortNo::CONTROLLER`].
    pub in_port: PortNo,
    pub actions: Vec<Action>,
    /// The packet, unless it is buffered.
    pub data: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FlowModCommand {
    /// Adds an entry; replaces one with the same match and priority.
    Add = 0,
    /// Changes the instructions of all entries that the match covers.
    Modify = 1,
    /// Changes the instructions of the entry with exactly this match and priority.
    ModifyStrict = 2,
    /// Deletes all entries that the match covers.
    Delete = 3,
    /// Deletes the entry with exactly this match and priority.
    DeleteStrict = 4,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowMod {
    pub cookie: u64,
    /// Restricts modification and deletion to entries whose cookie agrees in these bits; 0 for no
    /// restriction.
    pub cookie_mask: u64,
    pub table: TableId,
    pub command: FlowModCommand,
    /// 0 for none, like the hard timeout.
    pub idle_timeout_s: u16,
    pub hard_timeout_s: u16,
    /// The highest priority wins.
    pub priority: u16,
    /// A buffered packet that the switch then processes.
    pub buffer: BufferId,
    /// For deletions: only entries with output to this port; [`PortNo::ANY`] for no restriction.
    pub out_port: PortNo,
    /// For deletions: only entries with output to this group; [`GroupId::ANY`] for no restriction.
    pub out_group: GroupId,
    pub flags: FlowModFlags,
    pub match_: Match,
    pub instructions: Instructions,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowModFlags {
    /// Send a flow-removed when the entry is removed.
    pub send_flow_removed: bool,
    /// Refuse if an entry of the same priority could match the same packet.
    pub check_overlap: bool,
    /// Reset the counters of the replaced entry.
    pub reset_counts: bool,
    pub no_packet_counts: bool,
    pub no_byte_counts: bool,
}

impl FlowMod {
    /// Returns an addition without timeouts and flags.
    pub fn add(table: TableId, priority: u16, match_: Match, instructions: Instructions) -> FlowMod {
        FlowMod {
            cookie: 0,
            cookie_mask: 0,
            table,
            command: FlowModCommand::Add,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            priority,
            buffer: BufferId::NO_BUFFER,
            out_port: PortNo::ANY,
            out_group: GroupId::ANY,
            flags: FlowModFlags::default(),
            match_,
            instructions,
        }
    }

    /// Returns a deletion of the entry with exactly this match and priority.
    pub fn delete_strict(table: TableId, priority: u16, match_: Match) -> FlowMod {
        let command = FlowModCommand::DeleteStrict;
        FlowMod { command, ..FlowMod::add(table, priority, match_, Instructions::default()) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupModCommand {
    Add = 0,
    Modify = 1,
    /// Deletes the group and all entries that use it; [`GroupId::ALL`] for all groups.
    Delete = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupKind {
    /// A copy to each bucket.
    All = 0,
    /// One live bucket, by the switch's hash and the weights.
    Select = 1,
    /// The only bucket.
    Indirect = 2,
    /// The first live bucket.
    FastFailover = 3,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMod {
    pub command: GroupModCommand,
    pub kind: GroupKind,
    pub group: GroupId,
    pub buckets: Vec<Bucket>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortMod {
    pub port: PortNo,
    /// The port's address, as a check.
    pub hw_addr: MacAddr,
    pub config: u32,
    /// Configuration bits to change.
    pub mask: u32,
    /// Features to advertise; 0 for no change.
    pub advertise: u32,
}

/// The role of a controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ControllerRole {
    /// In requests: keeps the role and returns it.
    NoChange = 0,
    /// Full access, shared with other controllers.
    Equal = 1,
    /// Full access, exclusive.
    Master = 2,
    /// Read-only access.
    Slave = 3,
}

/// A role with the generation of its election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Role {
    pub role: ControllerRole,
    /// Increases with every election.
    pub generation: u64,
}

/// The asynchronous messages of a controller, one bit per reason; first as master or equal, then as
/// slave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncConfig {
    pub packet_in: [u32; 2],
    pub port_status: [u32; 2],
    pub flow_removed: [u32; 2],
}
