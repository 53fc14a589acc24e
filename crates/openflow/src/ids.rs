//! The number types of the protocol.

/// The datapath id of a switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct DatapathId(pub u64);

/// The transaction id, which a reply repeats.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Xid(pub u32);

/// A port number, including the reserved ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct PortNo(pub u32);

impl PortNo {
    /// Largest number of a physical or logical port.
    pub const MAX: PortNo = PortNo(0xffff_ff00);
    /// The port the packet came from.
    pub const IN_PORT: PortNo = PortNo(0xffff_fff8);
    /// Processing by the tables, starting with the first; only in packet-outs.
    pub const TABLE: PortNo = PortNo(0xffff_fff9);
    /// The non-OpenFlow forwarding of the switch.
    pub const NORMAL: PortNo = PortNo(0xffff_fffa);
    /// The non-OpenFlow flooding of the switch.
    pub const FLOOD: PortNo = PortNo(0xffff_fffb);
    /// All ports except the one the packet came from.
    pub const ALL: PortNo = PortNo(0xffff_fffc);
    /// A packet-in to the controller.
    pub const CONTROLLER: PortNo = PortNo(0xffff_fffd);
    /// The local network stack of the switch.
    pub const LOCAL: PortNo = PortNo(0xffff_fffe);
    /// The wildcard of requests and deletions.
    pub const ANY: PortNo = PortNo(0xffff_ffff);

    /// Returns whether the number is not that of a physical or logical port.
    pub const fn is_reserved(self) -> bool {
        self.0 > Self::MAX.0
    }
}

/// A table of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TableId(pub u8);

impl TableId {
    /// Largest number that a table can have.
    pub const MAX: TableId = TableId(0xfe);
    /// All tables: in deletions and statistics requests.
    pub const ALL: TableId = TableId(0xff);
}

/// The number of a group, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

impl GroupId {
    /// Largest number that a group can have.
    pub const MAX: GroupId = GroupId(0xffff_ff00);
    /// All groups: in deletions only.
    pub const ALL: GroupId = GroupId(0xffff_fffc);
    /// No group: the wildcard of requests and deletions.
    pub const ANY: GroupId = GroupId(0xffff_ffff);
}

/// A packet buffered by the switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

impl BufferId {
    /// The message contains the packet.
    pub const NO_BUFFER: BufferId = BufferId(0xffff_ffff);
}

/// The number of a queue, unique within its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct QueueId(pub u32);

impl QueueId {
    /// The wildcard of requests about queues.
    pub const ALL: QueueId = QueueId(0xffff_ffff);
}

/// The number of a meter, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MeterId(pub u32);

impl MeterId {
    /// Largest number that a meter can have.
    pub const MAX: MeterId = MeterId(0xffff_0000);
    /// The wildcard of requests about meters.
    pub const ALL: MeterId = MeterId(0xffff_ffff);
}
