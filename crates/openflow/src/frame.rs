//! Ethernet frames: from bytes to the headers switches look at, and the few packets a controller makes itself.

use core::net::Ipv4Addr;

use crate::address::MacAddr;
use crate::headers::{Headers, ether, protocol};

/// A frame that is not what it says it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame ends inside a header.
    #[error("the frame ends after {len} bytes inside its {layer} header")]
    Truncated {
        /// Where.
        layer: &'static str,
        /// Bytes there are.
        len: usize,
    },
    /// A field with a value its layer does not allow.
    #[error("{layer}: {what}")]
    Malformed {
        /// Where.
        layer: &'static str,
        /// What is wrong.
        what: &'static str,
    },
}
