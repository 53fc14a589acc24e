//! The messages of OpenFlow 1.3.

use crate::action::{Action, Bucket, Instructions};
use crate::address::MacAddr;
use crate::error::ErrorKind;
use crate::ids::{BufferId, DatapathId, GroupId, PortNo, TableId, Xid};
use crate::matching::Match;
use crate::multipart::{MultipartReply, MultipartRequest};

/// A message with its transaction id.
#[derive(Clone, PartialEq, Debug)]
pub struct Envelope {
    /// Repeated by replies and errors.
    pub xid: Xid,
    /// The message itself.
    pub message: Message,
}

/// A message of OpenFlow 1.3.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3 and 7.4")]
pub enum Message {
    /// Hello: the versions of the sender as a bitmap (bit 4 is 1.3).
    Hello {
        versions: u32,
    },
    Error {
        kind: ErrorKind,
        /// Start of the refused message (at least 64 bytes if it has them); text after a failed
        /// hello. Empty in simulations without bytes, where the transaction id identifies the
        /// message.
        data: Vec<u8>,
    },
    /// Echo request with arbitrary data.
    EchoRequest(Vec<u8>),
    /// Echo reply with the data of the request.
    EchoReply(Vec<u8>),
    FeaturesRequest,
    FeaturesReply(Features),
    GetConfigRequest,
    GetConfigReply(SwitchConfig),
    SetConfig(SwitchConfig),
    PacketIn(PacketIn),
    FlowRemoved(FlowRemoved),
    /// A port was added, deleted or modified.
    PortStatus {
        reason: PortReason,
        port: PortDesc,
    },
    PacketOut(PacketOut),
    FlowMod(FlowMod),
    GroupMod(GroupMod),
    PortMod(PortMod),
    /// Changes a table's configuration (deprecated in 1.3).
    TableMod {
        table: TableId,
        /// Deprecated bits; 0.
        config: u32,
    },
    MultipartRequest(MultipartRequest),
    /// A multipart reply, or one part of it.
    MultipartReply {
        reply: MultipartReply,
        /// Whether more parts with the same transaction id follow.
        has_more: bool,
    },
    /// Barrier: earlier messages are finished before later ones start.
    BarrierRequest,
    BarrierReply,
    RoleRequest(Role),
    RoleReply(Role),
    GetAsyncRequest,
    GetAsyncReply(AsyncConfig),
    SetAsync(AsyncConfig),
    /// An extension of an experimenter.
    Experimenter {
        /// Experimenter id.
        experimenter: u32,
        kind: u32,
        data: Vec<u8>,
    },
}

/// The features of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.1")]
pub struct Features {
    pub datapath: DatapathId,
    /// Number of packets it can buffer.
    pub buffers: u32,
    /// Number of tables.
    pub tables: u8,
    /// Number of an auxiliary connection; 0 for the main one.
    pub auxiliary: u8,
    /// Capability bits (`OFPC_*`).
    pub capabilities: u32,
}

/// Capability bits of [`Features::capabilities`].
pub mod capability {
    /// Flow statistics.
    pub const FLOW_STATS: u32 = 1;
    /// Table statistics.
    pub const TABLE_STATS: u32 = 1 << 1;
    /// Port statistics.
    pub const PORT_STATS: u32 = 1 << 2;
    /// Group statistics.
    pub const GROUP_STATS: u32 = 1 << 3;
    /// Reassembles IP fragments.
    pub const IP_REASM: u32 = 1 << 5;
    /// Queue statistics.
    pub const QUEUE_STATS: u32 = 1 << 6;
    /// Blocks ports that would loop.
    pub const PORT_BLOCKED: u32 = 1 << 8;
}

/// The treatment of packets to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Treatment of fragments: 0 normal, 1 drop, 2 reassemble.
    pub flags: u16,
    /// Number of packet bytes sent on a table miss.
    pub miss_send_len: u16,
}

/// The reason of a packet-in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.1")]
pub enum PacketInReason {
    NoMatch,
    Action,
    InvalidTtl,
}

/// A packet-in.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.1")]
pub struct PacketIn {
    pub buffer: BufferId,
    /// Length of the whole packet in bytes.
    pub total_len: u16,
    pub reason: PacketInReason,
    pub table: TableId,
    /// Cookie of the entry that sent the packet; all ones for none.
    pub cookie: u64,
    /// Ingress port and metadata.
    pub match_: Match,
    /// The start of the packet.
    pub data: Vec<u8>,
}

/// The reason of a flow-removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.2")]
pub enum RemovedReason {
    IdleTimeout,
    HardTimeout,
    Delete,
    GroupDelete,
}

/// A flow-removed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.2")]
pub struct FlowRemoved {
    pub cookie: u64,
    pub priority: u16,
    pub reason: RemovedReason,
    pub table: TableId,
    /// Lifetime in ns.
    pub duration_ns: u64,
    /// Idle timeout in s; 0 for none.
    pub idle_timeout_s: u16,
    /// Hard timeout in s; 0 for none.
    pub hard_timeout_s: u16,
    pub packets: u64,
    pub bytes: u64,
    pub match_: Match,
}

/// The reason of a port-status.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.3")]
pub enum PortReason {
    Add,
    Delete,
    Modify,
}

/// A port description.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.2.1")]
pub struct PortDesc {
    pub port: PortNo,
    pub hw_addr: MacAddr,
    /// Name, at most 15 bytes.
    pub name: String,
    /// Whether the administrator took it down (`OFPPC_PORT_DOWN`).
    pub is_admin_down: bool,
    /// Whether there is no link (`OFPPS_LINK_DOWN`).
    pub is_link_down: bool,
    /// Rate as the switch reports it, kbit/s; often wrong (virtual ports report 10 Gb/s).
    pub speed_kbps: u32,
}

impl PortDesc {
    /// Returns whether the port forwards packets.
    pub fn is_live(&self) -> bool {
        !self.is_admin_down && !self.is_link_down
    }
}

/// A packet-out.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.7")]
pub struct PacketOut {
    /// A buffered packet, or [`BufferId::NO_BUFFER`].
    pub buffer: BufferId,
    /// The ingress port for processing, or [`PortNo::CONTROLLER`].
    pub in_port: PortNo,
    pub actions: Vec<Action>,
    /// The packet, unless it is buffered.
    pub data: Vec<u8>,
}

/// The command of a flow-mod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.1")]
pub enum FlowModCommand {
    /// Adds an entry; replaces one with the same match and priority.
    Add,
    /// Changes the instructions of all entries that the match covers.
    Modify,
    /// Changes the instructions of the entry with exactly this match and priority.
    ModifyStrict,
    /// Deletes all entries that the match covers.
    Delete,
    /// Deletes the entry with exactly this match and priority.
    DeleteStrict,
}

/// A flow-mod.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.1")]
pub struct FlowMod {
    pub cookie: u64,
    /// Restricts modification and deletion to entries whose cookie agrees in these bits; 0 for no
    /// restriction.
    pub cookie_mask: u64,
    /// Table; [`TableId::ALL`] only in deletions.
    pub table: TableId,
    pub command: FlowModCommand,
    /// Idle timeout in s; 0 for none.
    pub idle_timeout_s: u16,
    /// Hard timeout in s; 0 for none.
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

/// The flags of a flow-mod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.1")]
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

/// The command of a group-mod.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.2")]
pub enum GroupModCommand {
    Add,
    Modify,
    /// Deletes the group and all entries that use it; [`GroupId::ALL`] for all groups.
    Delete,
}

/// The type of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.2")]
pub enum GroupKind {
    /// A copy to each bucket.
    All,
    /// One live bucket, by the switch's hash and the weights.
    Select,
    /// The only bucket.
    Indirect,
    /// The first live bucket.
    FastFailover,
}

/// A group-mod.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.2")]
pub struct GroupMod {
    pub command: GroupModCommand,
    pub kind: GroupKind,
    pub group: GroupId,
    pub buckets: Vec<Bucket>,
}

/// A port-mod.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.4.3")]
pub struct PortMod {
    pub port: PortNo,
    /// The port's address, as a check.
    pub hw_addr: MacAddr,
    /// Configuration bits.
    pub config: u32,
    /// Configuration bits to change.
    pub mask: u32,
    /// Features to advertise; 0 for no change.
    pub advertise: u32,
}

/// The role of a controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.9")]
pub enum ControllerRole {
    /// In requests: keeps the role and returns it.
    NoChange,
    /// Full access, shared with other controllers.
    Equal,
    /// Full access, exclusive.
    Master,
    /// Read-only access.
    Slave,
}

/// A role with the generation of its election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.9")]
pub struct Role {
    pub role: ControllerRole,
    /// Increases with every election.
    pub generation: u64,
}

/// The asynchronous messages of a controller, one bit per reason; first as master or equal, then as
/// slave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.3.10")]
pub struct AsyncConfig {
    pub packet_in: [u32; 2],
    pub port_status: [u32; 2],
    pub flow_removed: [u32; 2],
}
