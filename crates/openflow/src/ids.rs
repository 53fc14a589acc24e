//! Numbers the protocol uses, each its own type.

/// A switch, as it names itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DatapathId(pub u64);

/// Ties an answer to its request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Xid(pub u32);

/// A port of a switch, or one of the reserved ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortNo(pub u32);

impl PortNo {
    /// Greatest number of a physical or logical port.
    pub const MAX: PortNo = PortNo(0xffff_ff00);
    /// Back where the packet came from.
    pub const IN_PORT: PortNo = PortNo(0xffff_fff8);
    /// Through the tables, from the first one; only in packet-out.
    pub const TABLE: PortNo = PortNo(0xffff_fff9);
    /// The switch's own forwarding.
    pub const NORMAL: PortNo = PortNo(0xffff_fffa);
    /// Flooding of the switch's own forwarding.
    pub const FLOOD: PortNo = PortNo(0xffff_fffb);
    /// Every port but the one it came from.
    pub const ALL: PortNo = PortNo(0xffff_fffc);
    /// To the controller, as packet-in.
    pub const CONTROLLER: PortNo = PortNo(0xffff_fffd);
    /// The switch's own network stack.
    pub const LOCAL: PortNo = PortNo(0xffff_fffe);
    /// No port in particular: wildcard in requests and flow deletion.
    pub const ANY: PortNo = PortNo(0xffff_ffff);

    /// Whether it stands for something other than one port of the switch.
    pub const fn is_reserved(self) -> bool {
        self.0 > Self::MAX.0
    }
}

/// A table of the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TableId(pub u8);

impl TableId {
    /// Greatest number of a table.
    pub const MAX: TableId = TableId(0xfe);
    /// All of them: in deletions and statistics requests.
    pub const ALL: TableId = TableId(0xff);
}

/// A group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupId(pub u32);

impl GroupId {
    /// Greatest number of a group.
    pub const MAX: GroupId = GroupId(0xffff_ff00);
    /// All of them: only in deletion.
    pub const ALL: GroupId = GroupId(0xffff_fffc);
    /// No group in particular.
    pub const ANY: GroupId = GroupId(0xffff_ffff);
}

/// A packet the switch keeps while the controller decides.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BufferId(pub u32);

impl BufferId {
    /// The packet is in the message itself.
    pub const NO_BUFFER: BufferId = BufferId(0xffff_ffff);
}
