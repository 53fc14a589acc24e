//! Error types and codes: `ofp_error_type`, and the enumeration of codes of each type.

/// Declares the error types with their numbers. The codes of a type are numbered from 0.
macro_rules! error_types {
    ($($(#[$doc:meta])* $name:ident = $kind:literal { $($code:ident),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            #[allow(missing_docs, reason = "codes as in OpenFlow 1.3.5")]
            pub enum $name { $($code,)* }

            impl $name {
                const CODES: &[$name] = &[$($name::$code),*];
            }
        )*

        /// An error type with its code.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[allow(missing_docs, reason = "types as in OpenFlow 1.3.5, `ofp_error_type`")]
        pub enum ErrorKind {
            $($name($name),)*
            /// Any other type and code.
            Other { kind: u16, code: u16 },
        }

        impl ErrorKind {
            /// Returns type and code on the wire.
            pub const fn numbers(self) -> (u16, u16) {
                match self {
                    $(ErrorKind::$name(code) => ($kind, code as u16),)*
                    ErrorKind::Other { kind, code } => (kind, code),
                }
            }

            /// Returns the error of a type and code on the wire.
            pub fn from_numbers(kind: u16, code: u16) -> ErrorKind {
                let at = usize::from(code);
                let known = match kind {
                    $($kind => $name::CODES.get(at).copied().map(ErrorKind::$name),)*
                    _ => None,
                };
                known.unwrap_or(ErrorKind::Other { kind, code })
            }
        }
    };
}

error_types! {
    /// Codes of a failed handshake.
    HelloFailed = 0 { Incompatible, Eperm }

    /// Codes of an invalid request.
    BadRequest = 1 {
        BadVersion, BadType, BadMultipart, BadExperimenter, BadExpType, Eperm, BadLen, BufferEmpty,
        BufferUnknown, BadTableId, IsSlave, BadPort, BadPacket, MultipartBufferOverflow,
    }

    /// Codes of an invalid action. `MatchInconsistent`: it is not valid with this match.
    BadAction = 2 {
        BadType, BadLen, BadExperimenter, BadExpType, BadOutPort, BadArgument, Eperm, TooMany,
        BadQueue, BadOutGroup, MatchInconsistent, UnsupportedOrder, BadTag, BadSetType, BadSetLen,
        BadSetArgument,
    }

    /// Codes of an invalid instruction. `BadTableId`: the table does not exist, or is not a later
    /// one.
    BadInstruction = 3 {
        UnknownInst, UnsupInst, BadTableId, UnsupMetadata, UnsupMetadataMask, BadExperimenter,
        BadExpType, BadLen, Eperm, DupInst,
    }

    /// Codes of an invalid match.
    BadMatch = 4 {
        BadType, BadLen, BadTag, BadDlAddrMask, BadNwAddrMask, BadWildcards, BadField, BadValue,
        BadMask, BadPrereq, DupField, Eperm,
    }

    /// Codes of a failed flow-mod. `Overlap`: the entry overlaps, and `check_overlap` is set.
    FlowModFailed = 5 {
        Unknown, TableFull, BadTableId, Overlap, Eperm, BadTimeout, BadCommand, BadFlags,
    }

    /// Codes of a failed group-mod. `InvalidGroup`: the number or a bucket is invalid. `BadWatch`:
    /// a watched port or group is invalid.
    GroupModFailed = 6 {
        GroupExists, InvalidGroup, WeightUnsupported, OutOfGroups, OutOfBuckets,
        ChainingUnsupported, WatchUnsupported, Loop, UnknownGroup, ChainedGroup, BadType,
        BadCommand, BadBucket, BadWatch, Eperm,
    }

    /// Codes of a failed port-mod.
    PortModFailed = 7 { BadPort, BadHwAddr, BadConfig, BadAdvertise, Eperm }

    /// Codes of a failed table-mod.
    TableModFailed = 8 { BadTable, BadConfig, Eperm }

    /// Codes of a failed queue operation.
    QueueOpFailed = 9 { BadPort, BadQueue, Eperm }

    /// Codes of a failed set-config.
    SwitchConfigFailed = 10 { BadFlags, BadLen, Eperm }

    /// Codes of a failed role request. `Stale`: the generation is older than a previous one.
    RoleRequestFailed = 11 { Stale, Unsup, BadRole }

    /// Codes of a failed meter-mod.
    MeterModFailed = 12 {
        Unknown, MeterExists, InvalidMeter, UnknownMeter, BadCommand, BadFlags, BadRate, BadBurst,
        BadBand, BadBandValue, OutOfMeters, OutOfBands,
    }

    /// Codes of refused table features.
    TableFeaturesFailed = 13 { BadTable, BadMetadata, BadType, BadLen, BadArgument, Eperm }
}
