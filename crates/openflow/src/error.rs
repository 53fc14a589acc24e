//! Error types and codes (specification 7.4.4).

/// Declares the codes of one error type with their numbers.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$code_doc:meta])* $code:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$code_doc])* $code,)* }

        impl $name {
            /// Returns the number on the wire.
            pub const fn code(self) -> u16 {
                match self { $($name::$code => $number,)* }
            }
            /// Returns the code of a number on the wire.
            pub const fn from_code(code: u16) -> Option<$name> {
                match code { $($number => Some($name::$code),)* _ => None }
            }
        }
    };
}

codes! {
    /// Codes of a failed handshake.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    HelloFailed {
        Incompatible = 0,
        Eperm = 1,
    }
}
codes! {
    /// Codes of an invalid request.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    BadRequest {
        BadVersion = 0,
        BadType = 1,
        BadMultipart = 2,
        BadExperimenter = 3,
        BadExpType = 4,
        Eperm = 5,
        BadLen = 6,
        BufferEmpty = 7,
        BufferUnknown = 8,
        BadTableId = 9,
        IsSlave = 10,
        BadPort = 11,
        BadPacket = 12,
        MultipartBufferOverflow = 13,
    }
}
codes! {
    /// Codes of an invalid action.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    BadAction {
        BadType = 0,
        BadLen = 1,
        BadExperimenter = 2,
        BadExpType = 3,
        BadOutPort = 4,
        BadArgument = 5,
        Eperm = 6,
        TooMany = 7,
        BadQueue = 8,
        BadOutGroup = 9,
        /// Not valid with this match.
        MatchInconsistent = 10,
        UnsupportedOrder = 11,
        BadTag = 12,
        BadSetType = 13,
        BadSetLen = 14,
        BadSetArgument = 15,
    }
}
codes! {
    /// Codes of an invalid instruction.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    BadInstruction {
        UnknownInst = 0,
        UnsupInst = 1,
        /// The table does not exist, or is not a later one.
        BadTableId = 2,
        UnsupMetadata = 3,
        UnsupMetadataMask = 4,
        BadExperimenter = 5,
        BadExpType = 6,
        BadLen = 7,
        Eperm = 8,
        DupInst = 9,
    }
}
codes! {
    /// Codes of an invalid match.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    BadMatch {
        BadType = 0,
        BadLen = 1,
        BadTag = 2,
        BadDlAddrMask = 3,
        BadNwAddrMask = 4,
        BadWildcards = 5,
        BadField = 6,
        BadValue = 7,
        BadMask = 8,
        BadPrereq = 9,
        DupField = 10,
        Eperm = 11,
    }
}
codes! {
    /// Codes of a failed flow-mod.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    FlowModFailed {
        Unknown = 0,
        TableFull = 1,
        BadTableId = 2,
        /// The entry overlaps, and `check_overlap` is set.
        Overlap = 3,
        Eperm = 4,
        BadTimeout = 5,
        BadCommand = 6,
        BadFlags = 7,
    }
}
codes! {
    /// Codes of a failed group-mod.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    GroupModFailed {
        GroupExists = 0,
        /// The number or a bucket is invalid.
        InvalidGroup = 1,
        WeightUnsupported = 2,
        OutOfGroups = 3,
        OutOfBuckets = 4,
        ChainingUnsupported = 5,
        WatchUnsupported = 6,
        Loop = 7,
        UnknownGroup = 8,
        ChainedGroup = 9,
        BadType = 10,
        BadCommand = 11,
        BadBucket = 12,
        /// A watched port or group is invalid.
        BadWatch = 13,
        Eperm = 14,
    }
}
codes! {
    /// Codes of a failed port-mod.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    PortModFailed {
        BadPort = 0,
        BadHwAddr = 1,
        BadConfig = 2,
        BadAdvertise = 3,
        Eperm = 4,
    }
}
codes! {
    /// Codes of a failed table-mod.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    TableModFailed {
        BadTable = 0,
        BadConfig = 1,
        Eperm = 2,
    }
}
codes! {
    /// Codes of a failed set-config.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    SwitchConfigFailed {
        BadFlags = 0,
        BadLen = 1,
        Eperm = 2,
    }
}
codes! {
    /// Codes of a failed role request.
    #[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
    RoleRequestFailed {
        /// The generation is older than a previous one.
        Stale = 0,
        Unsup = 1,
        BadRole = 2,
    }
}

/// An error type with its code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs, reason = "fields as in OpenFlow 1.3.5, section 7.4.4")]
pub enum ErrorKind {
    HelloFailed(HelloFailed),
    BadRequest(BadRequest),
    BadAction(BadAction),
    BadInstruction(BadInstruction),
    BadMatch(BadMatch),
    FlowModFailed(FlowModFailed),
    GroupModFailed(GroupModFailed),
    PortModFailed(PortModFailed),
    TableModFailed(TableModFailed),
    SwitchConfigFailed(SwitchConfigFailed),
    RoleRequestFailed(RoleRequestFailed),
    /// Any other type and code.
    Other {
        kind: u16,
        code: u16,
    },
}

impl ErrorKind {
    /// Returns type and code on the wire.
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

    /// Returns the error of a type and code on the wire.
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
