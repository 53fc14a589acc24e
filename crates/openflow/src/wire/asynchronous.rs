//! Asynchronous messages: packet-in, flow-removed, port-status.

use super::oxm::{Unknown, read_match, write_match};
use super::port::{read_port, write_port};
use super::reader::{ReadError, Reader};
use super::writer::Writer;
use crate::error::{BadRequest, ErrorKind};
use crate::ids::{BufferId, TableId};
use crate::message::{FlowRemoved, Message, PacketIn, PacketInReason, PortDesc, PortReason, RemovedReason};

/// Reads the reason of a message. The specification has no error for unknown reasons, because only
/// switches send these messages.
fn read_reason<T: Copy, const N: usize>(reader: &mut Reader<'_>, reasons: [T; N]) -> Result<T, ReadError> {
    let error = ErrorKind::BadRequest(BadRequest::BadType);
    Reader::known(reader.offset(), reader.u8()?, &reasons, error, "reason")
}

pub(super) fn read_packet_in(mut body: Reader<'_>) -> Result<PacketIn, ReadError> {
    let (buffer, total_len) = (BufferId(body.u32()?), body.u16()?);
    let reasons = [PacketInReason::NoMatch, PacketInReason::Action, PacketInReason::InvalidTtl];
    let reason = read_reason(&mut body, reasons)?;
    let (table, cookie) = (TableId(body.u8()?), body.u64()?);
    let mut other_fields = Vec::new();
    let match_ = read_match(&mut body, Unknown::Keep(&mut other_fields))?;
    body.skip(2)?;
    Ok(PacketIn { buffer, total_len, reason, table, cookie, match_, other_fields, data: body.remainder().to_vec() })
}

pub(super) fn write_packet_in<W: Writer>(writer: &mut W, packet: &PacketIn) -> Result<(), W::Error> {
    writer.u32(packet.buffer.0);
    writer.u16(packet.total_len);
    writer.u8(packet.reason as u8);
    writer.u8(packet.table.0);
    writer.u64(packet.cookie);
    write_match(writer, &packet.match_, &packet.other_fields)?;
    writer.zeros(2);
    writer.bytes(&packet.data);
    Ok(())
}

pub(super) fn read_removed_reason(reader: &mut Reader<'_>) -> Result<RemovedReason, ReadError> {
    use RemovedReason::{Delete, Eviction, GroupDelete, HardTimeout, IdleTimeout, MeterDelete};
    read_reason(reader, [IdleTimeout, HardTimeout, Delete, GroupDelete, MeterDelete, Eviction])
}

pub(super) fn read_flow_removed(mut body: Reader<'_>) -> Result<FlowRemoved, ReadError> {
    let (cookie, priority) = (body.u64()?, body.u16()?);
    let reason = read_removed_reason(&mut body)?;
    let (table, duration_ns) = (TableId(body.u8()?), body.duration_ns()?);
    let (idle_timeout_s, hard_timeout_s) = (body.u16()?, body.u16()?);
    let (packets, bytes) = (body.u64()?, body.u64()?);
    let mut other_fields = Vec::new();
    let match_ = read_match(&mut body, Unknown::Keep(&mut other_fields))?;
    body.end()?;
    Ok(FlowRemoved {
        cookie,
        priority,
        reason,
        table,
        duration_ns,
        idle_timeout_s,
        hard_timeout_s,
        packets,
        bytes,
        match_,
        other_fields,
    })
}

pub(super) fn write_flow_removed<W: Writer>(writer: &mut W, removed: &FlowRemoved) -> Result<(), W::Error> {
    writer.u64(removed.cookie);
    writer.u16(removed.priority);
    writer.u8(removed.reason as u8);
    writer.u8(removed.table.0);
    writer.duration_ns(removed.duration_ns)?;
    writer.u16(removed.idle_timeout_s);
    writer.u16(removed.hard_timeout_s);
    writer.u64(removed.packets);
    writer.u64(removed.bytes);
    write_match(writer, &removed.match_, &removed.other_fields)?;
    Ok(())
}

pub(super) fn read_port_status(mut body: Reader<'_>) -> Result<Message, ReadError> {
    let reason = read_reason(&mut body, [PortReason::Add, PortReason::Delete, PortReason::Modify])?;
    body.skip(7)?;
    let port = read_port(&mut body)?;
    body.end()?;
    Ok(Message::PortStatus { reason, port })
}

pub(super) fn write_port_status<W: Writer>(
    writer: &mut W,
    reason: PortReason,
    port: &PortDesc,
) -> Result<(), W::Error> {
    writer.u8(reason as u8);
    writer.zeros(7);
    write_port(writer, port)
}
