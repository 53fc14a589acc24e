//! The messages.

use crate::action::{Action, Bucket, Instructions};
use crate::address::MacAddr;
use crate::error::ErrorKind;
use crate::ids::{BufferId, DatapathId, GroupId, PortNo, TableId, Xid};
use crate::matching::Match;
use crate::multipart::{MultipartReply, MultipartRequest};

/// A message with the number that ties answers to requests.
#[derive(Clone, PartialEq, Debug)]
pub struct Envelope {
    /// Repeated in answers and errors.
    pub xid: Xid,
    /// The message.
    pub message: Message,
}

/// A message of OpenFlow 1.3.
#[derive(Clone, PartialEq, Debug)]
pub enum Message {
    /// Opens a connection: versions its sender speaks, as a bitmap (bit 4 is 1.3).
    Hello {
        /// Bitmap of versions.
        versions: u32,
    },
    /// Refusal.
    Error {
        /// Why.
        kind: ErrorKind,
        /// Beginning of the refused message (at least 64 bytes where there are any); text after a failed hello. Empty in
        /// worlds without bytes: there the transaction number says which.
        data: Vec<u8>,
    },
    /// Are you there?
    EchoRequest(Vec<u8>),
    /// Yes.
    EchoReply(Vec<u8>),
    /// What are you?
    FeaturesRequest,
    /// A switch describes itself.
    FeaturesReply(Features),
    /// How are you configured?
    GetConfigRequest,
    /// Configuration of the switch.
    GetConfigReply(SwitchConfig),
    /// Configure yourself.
    SetConfig(SwitchConfig),
    /// A packet for the controller.
    PacketIn(PacketIn),
    /// An entry is gone.
    FlowRemoved(FlowRemoved),
    /// A port came, went or changed.
    PortStatus {
        /// Which of these.
        reason: PortReason,
        /// The port.
        port: PortDesc,
    },
    /// Send a packet.
    PacketOut(PacketOut),
    /// Change a flow table.
    FlowMod(FlowMod),
    /// Change a group.
    GroupMod(GroupMod),
    /// Change a port.
    PortMod(PortMod),
    /// Change a table's configuration (deprecated in 1.3).
    TableMod {
        /// Table.
        table: TableId,
        /// Deprecated bits; 0.
        config: u32,
    },
    /// Ask for state or statistics.
    MultipartRequest(MultipartRequest),
    /// State or statistics; perhaps one part of them.
    MultipartReply {
        /// The part.
        reply: MultipartReply,
        /// Whether more parts follow under the same number.
        has_more: bool,
    },
    /// Finish everything before this before anything after it.
    BarrierRequest,
    /// Done.
    BarrierReply,
    /// Take a role.
    RoleRequest(Role),
    /// The role now.
    RoleReply(Role),
    /// Which asynchronous messages do you send me?
    GetAsyncRequest,
    /// These.
    GetAsyncReply(AsyncConfig),
    /// Send me these.
    SetAsync(AsyncConfig),
    /// Something of another specification.
    Experimenter {
        /// Whose.
        experimenter: u32,
        /// Its type.
        kind: u32,
        /// Its content.
        data: Vec<u8>,
    },
}

/// What a switch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// Its number.
    pub datapath: DatapathId,
    /// Packets it can keep.
    pub buffers: u32,
    /// Tables of its pipeline.
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

/// How a switch treats packets it hands to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Treatment of fragments: 0 normal, 1 drop, 2 reassemble.
    pub flags: u16,
    /// Bytes of a packet sent after a table miss.
    pub miss_send_len: u16,
}

/// Why a packet came to the controller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PacketInReason {
    /// By a table-miss entry.
    NoMatch,
    /// By an action.
    Action,
    /// Its TTL ran out.
    InvalidTtl,
}

/// A packet for the controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketIn {
    /// Where the switch keeps it.
    pub buffer: BufferId,
    /// Its whole length, bytes.
    pub total_len: u16,
    /// Why it came.
    pub reason: PacketInReason,
    /// The table that sent it.
    pub table: TableId,
    /// Cookie of the entry that sent it; all ones for none.
    pub cookie: u64,
    /// The port it came in, and metadata.
    pub match_: Match,
    /// Its beginning.
    pub data: Vec<u8>,
}

/// Why an entry is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RemovedReason {
    /// Unused for its idle timeout.
    IdleTimeout,
    /// Its hard timeout is over.
    HardTimeout,
    /// Deleted by a controller.
    Delete,
    /// With its group.
    GroupDelete,
}

/// An entry is gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowRemoved {
    /// Its cookie.
    pub cookie: u64,
    /// Its priority.
    pub priority: u16,
    /// Why.
    pub reason: RemovedReason,
    /// Its table.
    pub table: TableId,
    /// How long it lived, ns.
    pub duration_ns: u64,
    /// Its idle timeout, s; 0 for none.
    pub idle_timeout_s: u16,
    /// Its hard timeout, s; 0 for none.
    pub hard_timeout_s: u16,
    /// Packets it handled.
    pub packets: u64,
    /// Bytes it handled.
    pub bytes: u64,
    /// Its match.
    pub match_: Match,
}

/// What happened to a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortReason {
    /// It came.
    Add,
    /// It went.
    Delete,
    /// It changed.
    Modify,
}

/// A port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortDesc {
    /// Number.
    pub port: PortNo,
    /// Address.
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
    /// Whether packets pass.
    pub fn is_live(&self) -> bool {
        !self.is_admin_down && !self.is_link_down
    }
}

/// Send a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketOut {
    /// A packet the switch keeps, or [`BufferId::NO_BUFFER`].
    pub buffer: BufferId,
    /// The port it counts as having come in, or [`PortNo::CONTROLLER`].
    pub in_port: PortNo,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The packet, unless the switch keeps it.
    pub data: Vec<u8>,
}

/// What to do to a flow table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FlowModCommand {
    /// Add an entry, in place of one with the same match and priority.
    Add,
    /// Change the instructions of all entries the match covers.
    Modify,
    /// Change those of the one entry with this match and priority.
    ModifyStrict,
    /// Delete all entries the match covers.
    Delete,
    /// Delete the one entry with this match and priority.
    DeleteStrict,
}

/// Change a flow table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowMod {
    /// Cookie to store (add).
    pub cookie: u64,
    /// Restricts modification and deletion to entries whose cookie agrees in these bits; 0 for no restriction.
    pub cookie_mask: u64,
    /// Table; [`TableId::ALL`] only in deletions.
    pub table: TableId,
    /// What to do.
    pub command: FlowModCommand,
    /// Gone when unused this long, s; 0 for never.
    pub idle_timeout_s: u16,
    /// Gone after this long, s; 0 for never.
    pub hard_timeout_s: u16,
    /// Of matching entries the highest one wins.
    pub priority: u16,
    /// A packet the switch keeps, to be processed afterwards.
    pub buffer: BufferId,
    /// Deletions: only entries that send out of this port; [`PortNo::ANY`] for no restriction.
    pub out_port: PortNo,
    /// Deletions: only entries that send to this group; [`GroupId::ANY`] for no restriction.
    pub out_group: GroupId,
    /// Flags.
    pub flags: FlowModFlags,
    /// Which packets.
    pub match_: Match,
    /// What happens to them.
    pub instructions: Instructions,
}

/// Flags of a flow-table change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FlowModFlags {
    /// Tell when the entry is gone.
    pub send_flow_removed: bool,
    /// Refuse if an entry of the same priority could match the same packet.
    pub check_overlap: bool,
    /// Counters of the replaced entry begin anew.
    pub reset_counts: bool,
    /// Packets need not be counted.
    pub no_packet_counts: bool,
    /// Bytes need not be counted.
    pub no_byte_counts: bool,
}

impl FlowMod {
    /// An addition without timeouts and flags.
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

    /// Deletion of the one entry of this match and priority.
    pub fn delete_strict(table: TableId, priority: u16, match_: Match) -> FlowMod {
        let command = FlowModCommand::DeleteStrict;
        FlowMod { command, ..FlowMod::add(table, priority, match_, Instructions::default()) }
    }
}

/// What to do to a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupModCommand {
    /// A new one.
    Add,
    /// Other type or buckets.
    Modify,
    /// Delete it with all entries that use it; [`GroupId::ALL`] for all.
    Delete,
}

/// What a group does with its buckets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupKind {
    /// A copy to each.
    All,
    /// One live one, by the switch's hash and the weights.
    Select,
    /// The only one.
    Indirect,
    /// The first live one.
    FastFailover,
}

/// Change a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupModCommand,
    /// Type.
    pub kind: GroupKind,
    /// Number.
    pub group: GroupId,
    /// Alternatives or copies.
    pub buckets: Vec<Bucket>,
}

/// Change a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortMod {
    /// Port.
    pub port: PortNo,
    /// Its address, as a check.
    pub hw_addr: MacAddr,
    /// Bits of the configuration to set.
    pub config: u32,
    /// Bits of the configuration that are meant.
    pub mask: u32,
    /// Features to advertise; 0 to leave them.
    pub advertise: u32,
}

/// What a controller may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ControllerRole {
    /// Only asking (in requests: leave the role).
    NoChange,
    /// Everything, as any other equal one.
    Equal,
    /// Everything, alone.
    Master,
    /// Read only.
    Slave,
}

/// A role with the number that orders claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Role {
    /// Role.
    pub role: ControllerRole,
    /// Grows with every election.
    pub generation: u64,
}

/// Which asynchronous messages a controller gets, one bit per reason; first as master or equal, then as slave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncConfig {
    /// Reasons of packet-in.
    pub packet_in: [u32; 2],
    /// Reasons of port-status.
    pub port_status: [u32; 2],
    /// Reasons of flow-removed.
    pub flow_removed: [u32; 2],
}
