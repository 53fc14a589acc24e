//! Flow monitors: the multipart messages of EXT-187.

use crate::error::{BadRequest, ErrorKind};
use crate::flow_monitor::{
    CANCEL, FOUNDATION, FlowChange, FlowEvent, FlowMonitorControl, FlowMonitorFlags, FlowMonitorRequest, FlowUpdate,
    PAUSED, RESUMED,
};
use crate::ids::{PortNo, TableId, Xid};
use crate::message::Message;
use crate::wire::actions::{read_instructions, write_instructions};
use crate::wire::asynchronous::read_removed_reason;
use crate::wire::oxm::{Unknown, read_match, write_match};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

/// Known flags, from the lowest bit: initial, add, delete, modify, instructions, own.
const FLAG_BITS: u16 = 0b11_1111;

const ADDED: u16 = 0;
const DELETED: u16 = 1;
const MODIFIED: u16 = 2;
const ABBREVIATED: u16 = 3;

fn flags_of(bits: u16) -> FlowMonitorFlags {
    FlowMonitorFlags {
        initial: bits & 1 != 0,
        add: bits & 1 << 1 != 0,
        delete: bits & 1 << 2 != 0,
        modify: bits & 1 << 3 != 0,
        instructions: bits & 1 << 4 != 0,
        own: bits & 1 << 5 != 0,
    }
}

fn bits_of(flags: FlowMonitorFlags) -> u16 {
    u16::from(flags.initial)
        | u16::from(flags.add) << 1
        | u16::from(flags.delete) << 2
        | u16::from(flags.modify) << 3
        | u16::from(flags.instructions) << 4
        | u16::from(flags.own) << 5
}

pub(super) fn read_monitors(body: &mut Reader<'_>) -> Result<Vec<FlowMonitorRequest>, ReadError> {
    let mut monitors = Vec::new();
    while !body.is_empty() {
        let id = body.u32()?;
        let offset = body.offset();
        let bits = body.u16()?;
        if bits & !FLAG_BITS != 0 {
            let error = ErrorKind::BadRequest(BadRequest::BadMultipart);
            return Err(ReadError::new(offset, error, format!("flags {bits:#06x} of a flow monitor")));
        }
        // The length of the match, which the match itself contains.
        body.skip(2)?;
        let (out_port, table) = (PortNo(body.u32()?), TableId(body.u8()?));
        body.skip(3)?;
        let match_ = read_match(body, Unknown::Refuse)?;
        monitors.push(FlowMonitorRequest { id, flags: flags_of(bits), out_port, table, match_ });
    }
    Ok(monitors)
}

pub(super) fn write_monitors<W: Writer>(writer: &mut W, monitors: &[FlowMonitorRequest]) -> Result<(), W::Error> {
    for monitor in monitors {
        writer.u32(monitor.id);
        writer.u16(bits_of(monitor.flags));
        let match_len = writer.len();
        writer.zeros(2);
        writer.u32(monitor.out_port.0);
        writer.u8(monitor.table.0);
        writer.zeros(3);
        let length = write_match(writer, &monitor.match_, &[])?;
        writer.overwrite(match_len, &length.to_be_bytes());
    }
    Ok(())
}

pub(super) fn read_update(mut record: Reader<'_>) -> Result<FlowUpdate, ReadError> {
    record.skip(2)?;
    let offset = record.offset();
    let event = record.u16()?;
    if event == ABBREVIATED {
        let xid = Xid(record.u32()?);
        record.end()?;
        return Ok(FlowUpdate::Abbreviated(xid));
    }
    // The reason has 16 bits, of which the upper eight are zero.
    record.skip(1)?;
    let event = match event {
        ADDED | MODIFIED => {
            record.skip(1)?;
            if event == ADDED { FlowEvent::Added } else { FlowEvent::Modified }
        }
        DELETED => FlowEvent::Deleted(read_removed_reason(&mut record)?),
        _ => {
            let error = ErrorKind::BadRequest(BadRequest::BadMultipart);
            return Err(ReadError::new(offset, error, format!("event {event} of a flow monitor")));
        }
    };
    let (priority, idle_timeout_s, hard_timeout_s) = (record.u16()?, record.u16()?, record.u16()?);
    record.skip(2)?;
    let table = TableId(record.u8()?);
    record.skip(1)?;
    let cookie = record.u64()?;
    let match_ = read_match(&mut record, Unknown::Refuse)?;
    let instructions = read_instructions(record)?;
    let rule = FlowChange { event, table, priority, idle_timeout_s, hard_timeout_s, cookie, match_, instructions };
    Ok(FlowUpdate::Full(rule))
}

pub(super) fn write_update<W: Writer>(writer: &mut W, update: &FlowUpdate) -> Result<(), W::Error> {
    let start = writer.len();
    writer.zeros(2);
    match update {
        FlowUpdate::Abbreviated(xid) => {
            writer.u16(ABBREVIATED);
            writer.u32(xid.0);
        }
        FlowUpdate::Full(change) => write_change(writer, change)?,
    }
    writer.patch_len(start, 0, "an update of a flow monitor")
}

fn write_change<W: Writer>(writer: &mut W, change: &FlowChange) -> Result<(), W::Error> {
    let (event, reason) = match change.event {
        FlowEvent::Added => (ADDED, 0),
        FlowEvent::Deleted(reason) => (DELETED, reason as u16),
        FlowEvent::Modified => (MODIFIED, 0),
    };
    writer.u16(event);
    writer.u16(reason);
    writer.u16(change.priority);
    writer.u16(change.idle_timeout_s);
    writer.u16(change.hard_timeout_s);
    let match_len = writer.len();
    writer.zeros(2);
    writer.u8(change.table.0);
    writer.zeros(1);
    writer.u64(change.cookie);
    let length = write_match(writer, &change.match_, &[])?;
    writer.overwrite(match_len, &length.to_be_bytes());
    write_instructions(writer, &change.instructions)
}

/// Reads an experimenter message, which may be about flow monitors.
pub(in crate::wire) fn read_experimenter(mut body: Reader<'_>) -> Result<Message, ReadError> {
    let (experimenter, kind) = (body.u32()?, body.u32()?);
    let control = match (experimenter, kind, body.len()) {
        (FOUNDATION, CANCEL, 4) => FlowMonitorControl::Cancel(body.u32()?),
        (FOUNDATION, PAUSED, 0) => FlowMonitorControl::Paused,
        (FOUNDATION, RESUMED, 0) => FlowMonitorControl::Resumed,
        _ => return Ok(Message::Experimenter { experimenter, kind, data: body.remainder().to_vec() }),
    };
    Ok(Message::FlowMonitor(control))
}

pub(in crate::wire) fn write_control(writer: &mut impl Writer, control: FlowMonitorControl) {
    writer.u32(FOUNDATION);
    match control {
        FlowMonitorControl::Cancel(id) => {
            writer.u32(CANCEL);
            writer.u32(id);
        }
        FlowMonitorControl::Paused => writer.u32(PAUSED),
        FlowMonitorControl::Resumed => writer.u32(RESUMED),
    }
}
