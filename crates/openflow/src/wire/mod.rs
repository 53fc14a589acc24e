//! Bytes of OpenFlow 1.3 messages: to and from values.
//!
//! Sans-IO: whoever owns a socket appends what it read to a buffer and calls [`decode`] until it answers `Ok(None)`.
//! What this version does not know (experimenter messages, actions and multipart bodies, fields of other classes) survives
//! as opaque bytes where a value can hold it, and is refused with the error the specification names where it cannot.

use crate::error::ErrorKind;
use crate::ids::Xid;
use crate::message::Envelope;

/// Version number of OpenFlow 1.3 on the wire.
pub const VERSION: u8 = 4;
/// Bytes of the header every message begins with.
pub const HEADER_LEN: usize = 8;

/// Bytes that are no message of OpenFlow 1.3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Where in the message, bytes from its beginning.
    pub offset: usize,
    /// Number of the message, for the answer.
    pub xid: Xid,
    /// What to answer.
    pub kind: ErrorKind,
    /// What was wrong, in words.
    pub words: String,
    /// Length of the message: the stream goes on behind it. `None` where its end cannot be known, and the connection is
    /// to be closed.
    pub skip: Option<usize>,
}

/// A value that has no bytes: longer than 65,535, or out of the range of its field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodeError {
    /// What was wrong, in words.
    pub words: String,
}

/// The first message of `bytes`, with its length; `None` if more bytes are needed.
///
/// # Errors
/// Where and why the bytes are no message. After one with `skip` the connection can go on.
pub fn decode(bytes: &[u8]) -> Result<Option<(Envelope, usize)>, DecodeError> {
    let _ = bytes;
    unimplemented!()
}

/// Appends a message.
///
/// # Errors
/// If it does not fit; nothing is appended then.
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let _ = (envelope, out);
    unimplemented!()
}
