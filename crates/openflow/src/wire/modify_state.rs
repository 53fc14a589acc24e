//! Messages that change the state of a switch: tables, groups, ports, packet-outs.

use super::actions::{read_actions, read_buckets, read_instructions, write_actions, write_buckets, write_instructions};
use super::oxm::{Unknown, read_match, write_match};
use super::reader::{ReadError, Reader};
use super::writer::Writer;
use crate::address::MacAddr;
use crate::error::{ErrorKind, FlowModFailed, GroupModFailed};
use crate::ids::{BufferId, GroupId, PortNo, TableId};
use crate::message::{
    FlowMod, FlowModCommand, FlowModFlags, GroupKind, GroupMod, GroupModCommand, Message, PacketOut, PortMod,
};

const FLOW_COMMANDS: [FlowModCommand; 5] = [
    FlowModCommand::Add,
    FlowModCommand::Modify,
    FlowModCommand::ModifyStrict,
    FlowModCommand::Delete,
    FlowModCommand::DeleteStrict,
];
const GROUP_COMMANDS: [GroupModCommand; 3] = [GroupModCommand::Add, GroupModCommand::Modify, GroupModCommand::Delete];
const GROUP_KINDS: [GroupKind; 4] = [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];

/// Known flags, from the lowest bit: remove, overlap, reset, packets, bytes.
const FLAG_BITS: u16 = 0b1_1111;

/// Returns the flags of an entry; unknown bits are ignored.
pub(super) fn flags_of(bits: u16) -> FlowModFlags {
    FlowModFlags {
        send_flow_removed: bits & 1 != 0,
        check_overlap: bits & 1 << 1 != 0,
        reset_counts: bits & 1 << 2 != 0,
        no_packet_counts: bits & 1 << 3 != 0,
        no_byte_counts: bits & 1 << 4 != 0,
    }
}

pub(super) fn bits_of(flags: FlowModFlags) -> u16 {
    u16::from(flags.send_flow_removed)
        | u16::from(flags.check_overlap) << 1
        | u16::from(flags.reset_counts) << 2
        | u16::from(flags.no_packet_counts) << 3
        | u16::from(flags.no_byte_counts) << 4
}

pub(super) fn read_flow_mod(mut body: Reader<'_>) -> Result<FlowMod, ReadError> {
    let (cookie, cookie_mask, table) = (body.u64()?, body.u64()?, TableId(body.u8()?));
    let bad_command = ErrorKind::FlowModFailed(FlowModFailed::BadCommand);
    let command = Reader::known(body.offset(), body.u8()?, &FLOW_COMMANDS, bad_command, "command")?;
    let (idle_timeout_s, hard_timeout_s, priority) = (body.u16()?, body.u16()?, body.u16()?);
    let (buffer, out_port, out_group) = (BufferId(body.u32()?), PortNo(body.u32()?), GroupId(body.u32()?));
    let offset = body.offset();
    let bits = body.u16()?;
    if bits & !FLAG_BITS != 0 {
        let error = ErrorKind::FlowModFailed(FlowModFailed::BadFlags);
        return Err(ReadError::new(offset, error, format!("flags {bits:#06x}")));
    }
    body.skip(2)?;
    let add = FlowMod::add(table, priority, read_match(&mut body, Unknown::Refuse)?, read_instructions(body)?);
    let add = FlowMod { cookie, cookie_mask, idle_timeout_s, hard_timeout_s, ..add };
    Ok(FlowMod { command, buffer, out_port, out_group, flags: flags_of(bits), ..add })
}

pub(super) fn write_flow_mod<W: Writer>(writer: &mut W, change: &FlowMod) -> Result<(), W::Error> {
    // Written in one piece, because most messages of a busy controller are flow-mods.
    let mut fixed = [0; 40];
    fixed[..8].copy_from_slice(&change.cookie.to_be_bytes());
    fixed[8..16].copy_from_slice(&change.cookie_mask.to_be_bytes());
    (fixed[16], fixed[17]) = (change.table.0, change.command as u8);
    fixed[18..20].copy_from_slice(&change.idle_timeout_s.to_be_bytes());
    fixed[20..22].copy_from_slice(&change.hard_timeout_s.to_be_bytes());
    fixed[22..24].copy_from_slice(&change.priority.to_be_bytes());
    fixed[24..28].copy_from_slice(&change.buffer.0.to_be_bytes());
    fixed[28..32].copy_from_slice(&change.out_port.0.to_be_bytes());
    fixed[32..36].copy_from_slice(&change.out_group.0.to_be_bytes());
    fixed[36..38].copy_from_slice(&bits_of(change.flags).to_be_bytes());
    writer.bytes(&fixed);
    write_match(writer, &change.match_, &[])?;
    write_instructions(writer, &change.instructions)
}

pub(super) fn read_group_kind(reader: &mut Reader<'_>) -> Result<GroupKind, ReadError> {
    let error = ErrorKind::GroupModFailed(GroupModFailed::BadType);
    Reader::known(reader.offset(), reader.u8()?, &GROUP_KINDS, error, "group of type")
}

pub(super) fn read_group_mod(mut body: Reader<'_>) -> Result<GroupMod, ReadError> {
    let bad_command = ErrorKind::GroupModFailed(GroupModFailed::BadCommand);
    let command = Reader::known(body.offset(), body.u16()?, &GROUP_COMMANDS, bad_command, "command")?;
    let kind = read_group_kind(&mut body)?;
    body.skip(1)?;
    let group = GroupId(body.u32()?);
    Ok(GroupMod { command, kind, group, buckets: read_buckets(body)? })
}

pub(super) fn write_group_mod<W: Writer>(writer: &mut W, change: &GroupMod) -> Result<(), W::Error> {
    writer.u16(change.command as u16);
    writer.u8(change.kind as u8);
    writer.zeros(1);
    writer.u32(change.group.0);
    write_buckets(writer, &change.buckets)
}

pub(super) fn read_port_mod(mut body: Reader<'_>) -> Result<PortMod, ReadError> {
    let port = PortNo(body.u32()?);
    body.skip(4)?;
    let hw_addr = MacAddr(body.array()?);
    body.skip(2)?;
    let (config, mask, advertise) = (body.u32()?, body.u32()?, body.u32()?);
    body.skip(4)?;
    body.end()?;
    Ok(PortMod { port, hw_addr, config, mask, advertise })
}

pub(super) fn write_port_mod(writer: &mut impl Writer, change: &PortMod) {
    writer.u32(change.port.0);
    writer.zeros(4);
    writer.bytes(&change.hw_addr.0);
    writer.zeros(2);
    writer.u32(change.config);
    writer.u32(change.mask);
    writer.u32(change.advertise);
    writer.zeros(4);
}

pub(super) fn read_table_mod(mut body: Reader<'_>) -> Result<Message, ReadError> {
    let table = TableId(body.u8()?);
    body.skip(3)?;
    let config = body.u32()?;
    body.end()?;
    Ok(Message::TableMod { table, config })
}

pub(super) fn read_packet_out(mut body: Reader<'_>) -> Result<PacketOut, ReadError> {
    let (buffer, in_port) = (BufferId(body.u32()?), PortNo(body.u32()?));
    let actions_len = usize::from(body.u16()?);
    body.skip(6)?;
    let actions = read_actions(body.part(actions_len)?)?;
    Ok(PacketOut { buffer, in_port, actions, data: body.remainder().to_vec() })
}

pub(super) fn write_packet_out<W: Writer>(writer: &mut W, packet: &PacketOut) -> Result<(), W::Error> {
    writer.u32(packet.buffer.0);
    writer.u32(packet.in_port.0);
    let head = writer.len();
    writer.zeros(8);
    let actions = writer.len();
    write_actions(writer, &packet.actions)?;
    let length = writer.len() - actions;
    writer.check(length <= 0xffff, || format!("actions of {length} bytes are longer than 65,535"))?;
    writer.overwrite(head, &(length as u16).to_be_bytes());
    writer.bytes(&packet.data);
    Ok(())
}
