//! Encoding and decoding of OpenFlow 1.3 messages.
//!
//! The codec does no I/O: the owner of a socket appends the bytes it read to a buffer and calls
//! [`decode`] until it returns `Ok(None)`. Content that no value represents is kept as bytes in what
//! a switch reports: messages and multipart types of experimenters, single records of multipart
//! replies, match fields of packet-ins and flow-removed messages. In what a controller orders it is
//! refused with the error of the specification. Padding may have any content when read; zeros are
//! written.

mod actions;
mod asynchronous;
mod hello;
mod modify_state;
mod multipart;
mod oxm;
mod port;
mod reader;
mod switch_config;
mod writer;

use reader::{ReadError, ReadErrorDetails, Reader};
use writer::{Length, Writer};

use crate::error::{BadRequest, ErrorKind};
use crate::ids::Xid;
use crate::message::{Envelope, Message};

/// Version number of OpenFlow 1.3 on the wire.
pub const VERSION: u8 = 4;
/// Highest version number of any published version of OpenFlow (1.5).
const VERSION_MAX: u8 = 6;
/// Length of the header of every message.
pub const HEADER_LEN: usize = 8;
/// Maximum length of a message.
pub const MAX_LEN: usize = 0xffff;

/// The error of bytes that are not a message of OpenFlow 1.3.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("message {} at byte {offset}: {message} ({kind:?})", xid.0)]
pub struct DecodeError {
    /// Position in the message, in bytes from its start.
    pub offset: usize,
    /// Transaction id of the message, for the reply.
    pub xid: Xid,
    /// Error to send.
    pub kind: ErrorKind,
    /// The violated rule.
    pub message: String,
    /// Length of the complete message, after which the stream continues. `None` if its end is
    /// unknown; the connection must then be closed.
    pub skip: Option<usize>,
}

/// Number of bytes of a refused message in the error (`ofp_error_msg`: at least 64).
const REFUSED_LEN: usize = 64;

impl DecodeError {
    /// Returns the error message in reply to `bytes`, which start with the refused message. Returns
    /// `None` if that was an error message itself: otherwise two peers would exchange errors
    /// indefinitely.
    pub fn error_reply(&self, bytes: &[u8]) -> Option<Envelope> {
        if bytes.get(1) == Some(&ERROR) {
            return None;
        }
        let length = self.skip.unwrap_or(REFUSED_LEN).min(REFUSED_LEN).min(bytes.len());
        let message = Message::Error { kind: self.kind, data: bytes[..length].to_vec() };
        Some(Envelope { xid: self.xid, message })
    }
}

/// The error of a value that cannot be encoded: longer than 65,535 bytes, or out of the range of
/// its field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct EncodeError {
    /// The violated rule.
    pub message: String,
}

/// Declares the types of messages (`ofp_type`): the number, the message, and how its body is read.
macro_rules! message_types {
    (|$version:ident, $body:ident| $($number:tt: $message:pat = $read:expr,)*) => {
        fn read_body($version: u8, kind: u8, mut $body: Reader<'_>) -> Result<Message, ReadError> {
            match kind {
                $($number => $read,)*
                _ => {
                    let error = ErrorKind::BadRequest(BadRequest::BadType);
                    Err(ReadError::new(1, error, format!("message of type {kind}")))
                }
            }
        }

        /// Returns the type number of a message (`ofp_type`).
        pub fn type_of(message: &Message) -> u8 {
            match message {
                $($message => $number,)*
            }
        }
    };
}

const HELLO: u8 = 0;
const ERROR: u8 = 1;

message_types! { |version, body|
    HELLO: Message::Hello { .. } = hello::read_hello(version, body).map(|versions| Message::Hello { versions }),
    ERROR: Message::Error { .. } = {
        let kind = ErrorKind::from_numbers(body.u16()?, body.u16()?);
        Ok(Message::Error { kind, data: body.remainder().to_vec() })
    },
    2: Message::EchoRequest(_) = Ok(Message::EchoRequest(body.remainder().to_vec())),
    3: Message::EchoReply(_) = Ok(Message::EchoReply(body.remainder().to_vec())),
    4: Message::Experimenter { .. } | Message::FlowMonitor(_) = multipart::read_experimenter(body),
    5: Message::FeaturesRequest = body.end().map(|()| Message::FeaturesRequest),
    6: Message::FeaturesReply(_) = switch_config::read_features(body).map(Message::FeaturesReply),
    7: Message::GetConfigRequest = body.end().map(|()| Message::GetConfigRequest),
    8: Message::GetConfigReply(_) = switch_config::read_config(body).map(Message::GetConfigReply),
    9: Message::SetConfig(_) = switch_config::read_config(body).map(Message::SetConfig),
    10: Message::PacketIn(_) = asynchronous::read_packet_in(body).map(Message::PacketIn),
    11: Message::FlowRemoved(_) = asynchronous::read_flow_removed(body).map(Message::FlowRemoved),
    12: Message::PortStatus { .. } = asynchronous::read_port_status(body),
    13: Message::PacketOut(_) = modify_state::read_packet_out(body).map(Message::PacketOut),
    14: Message::FlowMod(_) = modify_state::read_flow_mod(body).map(Message::FlowMod),
    15: Message::GroupMod(_) = modify_state::read_group_mod(body).map(Message::GroupMod),
    16: Message::PortMod(_) = modify_state::read_port_mod(body).map(Message::PortMod),
    17: Message::TableMod { .. } = modify_state::read_table_mod(body),
    18: Message::MultipartRequest(_) = multipart::read_request(body).map(Message::MultipartRequest),
    19: Message::MultipartReply { .. } = multipart::read_reply(body),
    20: Message::BarrierRequest = body.end().map(|()| Message::BarrierRequest),
    21: Message::BarrierReply = body.end().map(|()| Message::BarrierReply),
    24: Message::RoleRequest(_) = switch_config::read_role(body).map(Message::RoleRequest),
    25: Message::RoleReply(_) = switch_config::read_role(body).map(Message::RoleReply),
    26: Message::GetAsyncRequest = body.end().map(|()| Message::GetAsyncRequest),
    27: Message::GetAsyncReply(_) = switch_config::read_async(body).map(Message::GetAsyncReply),
    28: Message::SetAsync(_) = switch_config::read_async(body).map(Message::SetAsync),
}

/// Decodes the first message of `bytes` and returns its length; `None` if more bytes are needed.
///
/// A hello of any version is decoded, so that the error can name the supported versions.
///
/// # Errors
/// The bytes are not a message. After an error with `skip` the connection can continue.
pub fn decode(bytes: &[u8]) -> Result<Option<(Envelope, usize)>, DecodeError> {
    let Some(&[version, kind, high, low, ref xid @ ..]) = bytes.first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let (length, xid) = (usize::from(u16::from_be_bytes([high, low])), Xid(u32::from_be_bytes(*xid)));
    let refuse = |fault: ReadError, skip| {
        let ReadErrorDetails { offset, kind, message: words, .. } = fault.details();
        DecodeError { offset, xid, kind, message: words, skip }
    };
    let is_hello = kind == HELLO;
    // No known version: the bytes are not OpenFlow (TLS, for instance, or HTTP), and the length is
    // meaningless.
    if !is_hello && !(1..=VERSION_MAX).contains(&version) {
        return Err(refuse(bad_version(version), None));
    }
    if length < HEADER_LEN {
        let error = ErrorKind::BadRequest(BadRequest::BadLen);
        return Err(refuse(ReadError::new(2, error, format!("length {length} is less than a header's")), None));
    }
    let Some(whole) = bytes.get(..length) else { return Ok(None) };
    let result = if version == VERSION || is_hello {
        read_body(version, kind, Reader::behind_header(whole))
    } else {
        Err(bad_version(version))
    };
    let message = result.map_err(|fault| refuse(fault, Some(length)))?;
    Ok(Some((Envelope { xid, message }, length)))
}

#[cold]
fn bad_version(version: u8) -> ReadError {
    let error = ErrorKind::BadRequest(BadRequest::BadVersion);
    ReadError::new(0, error, format!("version {version} and not {VERSION} (OpenFlow 1.3)"))
}

/// Appends a message.
///
/// # Errors
/// The message does not fit; nothing is appended then.
pub fn encode(envelope: &Envelope, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let begin = out.len();
    let result = write(out, envelope.xid, &envelope.message);
    if result.is_err() {
        out.truncate(begin);
    }
    result
}

/// Returns the length of a message in bytes, header included, without encoding it; also of a
/// message that does not fit. Simulated channels use it.
pub fn wire_len(message: &Message) -> usize {
    let mut length = Length(0);
    let Ok(()) = write(&mut length, Xid(0), message);
    length.0
}

fn write<W: Writer>(writer: &mut W, xid: Xid, message: &Message) -> Result<(), W::Error> {
    let start = writer.len();
    writer.bytes(&[VERSION, type_of(message), 0, 0]);
    writer.u32(xid.0);
    write_body(writer, start, message)?;
    writer.patch_len(start, 2, "a message")
}

fn write_body<W: Writer>(writer: &mut W, start: usize, message: &Message) -> Result<(), W::Error> {
    match message {
        Message::Hello { versions } => {
            writer.overwrite(start, &[hello::header_version(*versions)]);
            hello::write_hello(writer, *versions);
        }
        Message::Error { kind, data } => {
            let (kind, code) = kind.numbers();
            writer.u16(kind);
            writer.u16(code);
            writer.bytes(data);
        }
        Message::EchoRequest(data) | Message::EchoReply(data) => writer.bytes(data),
        Message::Experimenter { experimenter, kind, data } => {
            writer.u32(*experimenter);
            writer.u32(*kind);
            writer.bytes(data);
        }
        Message::FlowMonitor(control) => multipart::write_control(writer, *control),
        Message::FeaturesReply(features) => switch_config::write_features(writer, features),
        Message::GetConfigReply(config) | Message::SetConfig(config) => switch_config::write_config(writer, *config),
        Message::PacketIn(packet) => asynchronous::write_packet_in(writer, packet)?,
        Message::FlowRemoved(removed) => asynchronous::write_flow_removed(writer, removed)?,
        Message::PortStatus { reason, port } => asynchronous::write_port_status(writer, *reason, port)?,
        Message::PacketOut(packet) => modify_state::write_packet_out(writer, packet)?,
        Message::FlowMod(change) => modify_state::write_flow_mod(writer, change)?,
        Message::GroupMod(change) => modify_state::write_group_mod(writer, change)?,
        Message::PortMod(change) => modify_state::write_port_mod(writer, change),
        Message::TableMod { table, config } => {
            writer.u8(table.0);
            writer.zeros(3);
            writer.u32(*config);
        }
        Message::MultipartRequest(request) => multipart::write_request(writer, request)?,
        Message::MultipartReply { reply, has_more } => multipart::write_reply(writer, reply, *has_more)?,
        Message::RoleRequest(role) | Message::RoleReply(role) => switch_config::write_role(writer, *role),
        Message::GetAsyncReply(config) | Message::SetAsync(config) => switch_config::write_async(writer, config),
        // The message consists of its header only.
        Message::FeaturesRequest
        | Message::GetConfigRequest
        | Message::BarrierRequest
        | Message::BarrierReply
        | Message::GetAsyncRequest => {}
    }
    Ok(())
}
