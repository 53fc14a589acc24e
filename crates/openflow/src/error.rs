//! Why a switch refuses something (specification 7.4.4).

/// Declares the codes of one error type with their numbers.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$code_doc:meta])* $code:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$code_doc])* $code,)* }

        impl $name {
            /// Its number on the wire.
            pub const fn code(self) -> u16 {
                match self { $($name::$code => $number,)* }
            }
            /// From its number.
            pub const fn from_code(code: u16) -> Option<$name> {
                match code { $($number => Some($name::$code),)* _ => None }
            }
        }
    };
}

codes! {
    /// The handshake failed.
    HelloFailed {
        /// No common version.
        Incompatible = 0,
        /// Permissions.
        Eperm = 1,
    }
}
codes! {
    /// The request is not understood.
    BadRequest {
        /// Version.
        BadVersion = 0,
        /// Message type.
        BadType = 1,
        /// Multipart type.
        BadMultipart = 2,
        /// Experimenter id.
        BadExperimenter = 3,
        /// Experimenter type.
        BadExpType = 4,
        /// Permissions.
        Eperm = 5,
        /// Length.
        BadLen = 6,
        /// The buffer is empty.
        BufferEmpty = 7,
        /// The buffer does not exist.
        BufferUnknown = 8,
        /// The table does not exist.
        BadTableId = 9,
        /// The controller is a slave.
        IsSlave = 10,
        /// The port is invalid.
        BadPort = 11,
        /// The packet is invalid.
        BadPacket = 12,
        /// Too many parts.
        MultipartBufferOverflow = 13,
    }
}
codes! {
    /// An action is not possible.
    BadAction {
        /// Unknown type.
        BadType = 0,
        /// Length.
        BadLen = 1,
        /// Experimenter id.
        BadExperimenter = 2,
        /// Experimenter type.
        BadExpType = 3,
        /// The output port is invalid.
        BadOutPort = 4,
        /// An argument.
        BadArgument = 5,
        /// Permissions.
        Eperm = 6,
        /// More actions than can be done.
        TooMany = 7,
        /// Queue.
        BadQueue = 8,
        /// The group does not exist.
        BadOutGroup = 9,
        /// Not possible with this match.
        MatchInconsistent = 10,
        /// The order is not possible.
        UnsupportedOrder = 11,
        /// Tag to push.
        BadTag = 12,
        /// Field to set.
        BadSetType = 13,
        /// Length of the field to set.
        BadSetLen = 14,
        /// Value to set.
        BadSetArgument = 15,
    }
}
codes! {
    /// An instruction is not possible.
    BadInstruction {
        /// Unknown.
        UnknownInst = 0,
        /// Not supported.
        UnsupInst = 1,
        /// The table to go to does not exist, or does not come later.
        BadTableId = 2,
        /// Metadata not supported.
        UnsupMetadata = 3,
        /// Metadata mask not supported.
        UnsupMetadataMask = 4,
        /// Experimenter id.
        BadExperimenter = 5,
        /// Experimenter type.
        BadExpType = 6,
        /// Length.
        BadLen = 7,
        /// Permissions.
        Eperm = 8,
        /// Given twice.
        DupInst = 9,
    }
}
codes! {
    /// A match is not possible.
    BadMatch {
        /// Type of match.
        BadType = 0,
        /// Length.
        BadLen = 1,
        /// Tag.
        BadTag = 2,
        /// Data-link mask not supported.
        BadDlAddrMask = 3,
        /// Network mask not supported.
        BadNwAddrMask = 4,
        /// Combination of wildcards.
        BadWildcards = 5,
        /// Unknown field.
        BadField = 6,
        /// A value the field cannot have.
        BadValue = 7,
        /// A mask the field cannot have.
        BadMask = 8,
        /// A prerequisite field is missing.
        BadPrereq = 9,
        /// A field given twice.
        DupField = 10,
        /// Permissions.
        Eperm = 11,
    }
}
codes! {
    /// A flow table was not changed.
    FlowModFailed {
        /// Unspecified.
        Unknown = 0,
        /// The table is full.
        TableFull = 1,
        /// The table does not exist.
        BadTableId = 2,
        /// It overlaps, and `check_overlap` was asked for.
        Overlap = 3,
        /// Permissions.
        Eperm = 4,
        /// Timeouts not supported.
        BadTimeout = 5,
        /// Unknown command.
        BadCommand = 6,
        /// Unknown flags.
        BadFlags = 7,
    }
}
codes! {
    /// A group was not changed.
    GroupModFailed {
        /// It exists already.
        GroupExists = 0,
        /// The number or a bucket is invalid.
        InvalidGroup = 1,
        /// Weights not supported (outside select groups).
        WeightUnsupported = 2,
        /// Too many groups.
        OutOfGroups = 3,
        /// Too many buckets.
        OutOfBuckets = 4,
        /// Groups of groups not supported.
        ChainingUnsupported = 5,
        /// Watching not supported or not possible.
        WatchUnsupported = 6,
        /// Groups would call each other.
        Loop = 7,
        /// It does not exist.
        UnknownGroup = 8,
        /// Other groups call it.
        ChainedGroup = 9,
        /// Unknown type.
        BadType = 10,
        /// Unknown command.
        BadCommand = 11,
        /// A bucket is invalid.
        BadBucket = 12,
        /// A watched port or group is invalid.
        BadWatch = 13,
        /// Permissions.
        Eperm = 14,
    }
}
codes! {
    /// A port was not changed.
    PortModFailed {
        /// It does not exist.
        BadPort = 0,
        /// The address is not its own.
        BadHwAddr = 1,
        /// Unsupported configuration.
        BadConfig = 2,
        /// Unsupported advertisement.
        BadAdvertise = 3,
        /// Permissions.
        Eperm = 4,
    }
}
codes! {
    /// A table's configuration was not changed.
    TableModFailed {
        /// It does not exist.
        BadTable = 0,
        /// Unsupported configuration.
        BadConfig = 1,
        /// Permissions.
        Eperm = 2,
    }
}
codes! {
    /// The switch's configuration was not changed.
    SwitchConfigFailed {
        /// Unsupported flags.
        BadFlags = 0,
        /// Unsupported length.
        BadLen = 1,
        /// Permissions.
        Eperm = 2,
    }
}
codes! {
    /// The role was not changed.
    RoleRequestFailed {
        /// The generation is older than one seen.
        Stale = 0,
        /// Roles not supported.
        Unsup = 1,
        /// Unknown role.
        BadRole = 2,
    }
}

/// Why a switch refuses something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ErrorKind {
    /// Type 0.
    HelloFailed(HelloFailed),
    /// Type 1.
    BadRequest(BadRequest),
    /// Type 2.
    BadAction(BadAction),
    /// Type 3.
    BadInstruction(BadInstruction),
    /// Type 4.
    BadMatch(BadMatch),
    /// Type 5.
    FlowModFailed(FlowModFailed),
    /// Type 6.
    GroupModFailed(GroupModFailed),
    /// Type 7.
    PortModFailed(PortModFailed),
    /// Type 8.
    TableModFailed(TableModFailed),
    /// Type 10.
    SwitchConfigFailed(SwitchConfigFailed),
    /// Type 11.
    RoleRequestFailed(RoleRequestFailed),
    /// Any other type and code.
    Other {
        /// Type.
        kind: u16,
        /// Code.
        code: u16,
    },
}

impl ErrorKind {
    /// Its type and code on the wire.
    pub const fn numbers(self) -> (u16, u16) {
        match self {
            ErrorKind::HelloFailed(code) => (0, code.code()),
            ErrorKind::BadRequest(code) => (1, code.code()),
            ErrorKind::BadAction(code) => (2, code.code()),
            ErrorKind::BadInstruction(code) => (3, code.code()),
            ErrorKind::BadMatch(code) => (4, code.code()),
            ErrorKind::FlowModFailed(code) => (5, code.code()),
            ErrorKind::GroupModFailed(code) => (6, code.code()),
            ErrorKind::PortModFailed(code) => (7, code.code()),
            ErrorKind::TableModFailed(code) => (8, code.code()),
            ErrorKind::SwitchConfigFailed(code) => (10, code.code()),
            ErrorKind::RoleRequestFailed(code) => (11, code.code()),
            ErrorKind::Other { kind, code } => (kind, code),
        }
    }

    /// From its type and code on the wire.
    pub fn from_numbers(kind: u16, code: u16) -> ErrorKind {
        let known = match kind {
            0 => HelloFailed::from_code(code).map(ErrorKind::HelloFailed),
            1 => BadRequest::from_code(code).map(ErrorKind::BadRequest),
            2 => BadAction::from_code(code).map(ErrorKind::BadAction),
            3 => BadInstruction::from_code(code).map(ErrorKind::BadInstruction),
            4 => BadMatch::from_code(code).map(ErrorKind::BadMatch),
            5 => FlowModFailed::from_code(code).map(ErrorKind::FlowModFailed),
            6 => GroupModFailed::from_code(code).map(ErrorKind::GroupModFailed),
            7 => PortModFailed::from_code(code).map(ErrorKind::PortModFailed),
            8 => TableModFailed::from_code(code).map(ErrorKind::TableModFailed),
            10 => SwitchConfigFailed::from_code(code).map(ErrorKind::SwitchConfigFailed),
            11 => RoleRequestFailed::from_code(code).map(ErrorKind::RoleRequestFailed),
            _ => None,
        };
        known.unwrap_or(ErrorKind::Other { kind, code })
    }
}
