//! Actions, instructions and buckets (`ofp_action_header`, `ofp_instruction`, `ofp_bucket`).

use super::oxm::{read_set_field, write_set_field};
use super::reader::{ReadError, Reader};
use super::writer::Writer;
use crate::action::{Action, Bucket, Instructions};
use crate::bundle::Bundle;
use crate::error::{BadAction, BadInstruction, ErrorKind, GroupModFailed};
use crate::ids::{GroupId, PortNo, TableId};
use crate::matching::Masked;

mod action_type {
    pub const OUTPUT: u16 = 0;
    pub const PUSH_VLAN: u16 = 17;
    pub const POP_VLAN: u16 = 18;
    pub const SET_QUEUE: u16 = 21;
    pub const GROUP: u16 = 22;
    pub const DEC_NW_TTL: u16 = 24;
    pub const SET_FIELD: u16 = 25;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// `NXAST_BUNDLE` of Open vSwitch (ovs-actions(7), "The bundle action").
mod bundle {
    pub const NICIRA: u32 = 0x2320;
    pub const SUBTYPE: u16 = 12;
    /// `NX_BD_ALG_HRW`.
    pub const HIGHEST_RANDOM_WEIGHT: u16 = 1;
    /// `NX_HASH_FIELDS_SYMMETRIC_L3L4_UDP`.
    pub const SYMMETRIC_L3L4_UDP: u16 = 3;
    /// `NXM_OF_IN_PORT`: members are ports.
    pub const IN_PORT: u32 = 0x0000_0002;
    /// Bytes before the members.
    pub const LEN: usize = 32;
}

/// The action that only simulated switches know. Its experimenter is a locally administered OUI, which
/// IEEE assigns to no vendor.
mod push_ipv4 {
    pub const ANABRANCH: u32 = 0x0002_a7ab;
    pub const SUBTYPE: u16 = 1;
    /// Bytes that fill the action up to a multiple of eight.
    pub const PADDING: usize = 6;
}

mod instruction_type {
    pub const GOTO_TABLE: u16 = 1;
    pub const WRITE_METADATA: u16 = 2;
    pub const WRITE_ACTIONS: u16 = 3;
    pub const APPLY_ACTIONS: u16 = 4;
    pub const CLEAR_ACTIONS: u16 = 5;
    pub const METER: u16 = 6;
    pub const EXPERIMENTER: u16 = 0xffff;
}

/// `ofp_bucket` without its actions.
const BUCKET_LEN: usize = 16;

pub(super) fn read_actions(reader: Reader<'_>) -> Result<Vec<Action>, ReadError> {
    let mut reader = reader.short_as(ErrorKind::BadAction(BadAction::BadLen));
    let mut actions = Vec::new();
    while !reader.is_empty() {
        actions.push(read_action(&mut reader)?);
    }
    Ok(actions)
}

/// Writes an action or instruction of 8 bytes.
#[inline]
fn write_short(writer: &mut impl Writer, kind: u16, body: u32) {
    writer.u64(u64::from(kind) << 48 | 8 << 32 | u64::from(body));
}

fn read_action(reader: &mut Reader<'_>) -> Result<Action, ReadError> {
    let offset = reader.offset();
    let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
    if length < 8 || length % 8 != 0 {
        return Err(reader.bad_len(format!("action of {length} bytes")));
    }
    let mut body = reader.part(length - 4)?;
    let action = match kind {
        action_type::OUTPUT => {
            let (port, max_len) = (PortNo(body.u32()?), body.u16()?);
            body.skip(6)?;
            Action::Output { port, max_len }
        }
        action_type::GROUP => Action::Group(GroupId(body.u32()?)),
        action_type::SET_QUEUE => Action::SetQueue(body.u32()?),
        action_type::PUSH_VLAN => Action::PushVlan((body.u32()? >> 16) as u16),
        action_type::POP_VLAN => {
            body.skip(4)?;
            Action::PopVlan
        }
        action_type::DEC_NW_TTL => {
            body.skip(4)?;
            Action::DecNwTtl
        }
        action_type::SET_FIELD => {
            let field = read_set_field(&mut body)?;
            // The padding fills a multiple of eight, not more.
            body.skip(body.len() % 8)?;
            Action::SetField(field)
        }
        action_type::EXPERIMENTER => {
            let error = ErrorKind::BadAction(BadAction::BadExperimenter);
            let unknown = || ReadError::new(offset, error, "action of an experimenter");
            read_experimenter(&mut body)?.ok_or_else(unknown)?
        }
        _ => {
            let error = ErrorKind::BadAction(BadAction::BadType);
            return Err(ReadError::new(offset, error, format!("action of type {kind}")));
        }
    };
    body.end()?;
    Ok(action)
}

/// Reads the rest of an experimenter action if it is one that [`write_action`] writes; other actions
/// are unknown.
fn read_experimenter(body: &mut Reader<'_>) -> Result<Option<Action>, ReadError> {
    match (body.u32()?, body.u16()?) {
        (bundle::NICIRA, bundle::SUBTYPE) => Ok(read_bundle(body)?.map(Action::Bundle)),
        (push_ipv4::ANABRANCH, push_ipv4::SUBTYPE) if body.len() == push_ipv4::PADDING => {
            body.skip(push_ipv4::PADDING)?;
            Ok(Some(Action::PushIpv4))
        }
        _ => Ok(None),
    }
}

/// Reads the rest of a bundle behind its subtype.
fn read_bundle(body: &mut Reader<'_>) -> Result<Option<Bundle>, ReadError> {
    if body.len() < bundle::LEN - 10 {
        return Ok(None);
    }
    let (algorithm, fields, basis) = (body.u16()?, body.u16()?, body.u16()?);
    let (member_type, count, destination) = (body.u32()?, body.u16()?, (body.u16()?, body.u32()?));
    body.skip(4)?;
    let is_known = (algorithm, fields, member_type, destination)
        == (bundle::HIGHEST_RANDOM_WEIGHT, bundle::SYMMETRIC_L3L4_UDP, bundle::IN_PORT, (0, 0));
    if !is_known || body.len() != (2 * usize::from(count)).next_multiple_of(8) {
        return Ok(None);
    }
    let mut ports = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        ports.push(PortNo(u32::from(body.u16()?)));
    }
    body.skip(body.len())?;
    Ok(Bundle::new(basis, ports))
}

fn write_bundle(writer: &mut impl Writer, bundle: &Bundle) {
    writer.u32(bundle::NICIRA);
    writer.u16(bundle::SUBTYPE);
    writer.u16(bundle::HIGHEST_RANDOM_WEIGHT);
    writer.u16(bundle::SYMMETRIC_L3L4_UDP);
    writer.u16(bundle.basis);
    writer.u32(bundle::IN_PORT);
    writer.u16(bundle.ports().count() as u16);
    // The result is not loaded into a field: the packet is sent out of the port.
    writer.zeros(2 + 4 + 4);
    bundle.ports().for_each(|port| writer.u16(port.0 as u16));
}

pub(super) fn write_actions<W: Writer>(writer: &mut W, actions: &[Action]) -> Result<(), W::Error> {
    actions.iter().try_for_each(|&action| write_action(writer, action))
}

fn write_action<W: Writer>(writer: &mut W, action: Action) -> Result<(), W::Error> {
    let start = writer.len();
    match action {
        Action::Group(group) => write_short(writer, action_type::GROUP, group.0),
        Action::SetQueue(queue) => write_short(writer, action_type::SET_QUEUE, queue),
        Action::PushVlan(ether_type) => write_short(writer, action_type::PUSH_VLAN, u32::from(ether_type) << 16),
        Action::PopVlan => write_short(writer, action_type::POP_VLAN, 0),
        Action::DecNwTtl => write_short(writer, action_type::DEC_NW_TTL, 0),
        Action::Output { port, max_len } => {
            writer.u64(u64::from(action_type::OUTPUT) << 48 | 16 << 32 | u64::from(port.0));
            // Six bytes of padding.
            writer.u64(u64::from(max_len) << 48);
        }
        Action::PushIpv4 => {
            writer.u32(u32::from(action_type::EXPERIMENTER) << 16);
            writer.u32(push_ipv4::ANABRANCH);
            writer.u16(push_ipv4::SUBTYPE);
            end_action(writer, start)?;
        }
        Action::Bundle(bundle) => {
            writer.u32(u32::from(action_type::EXPERIMENTER) << 16);
            write_bundle(writer, &bundle);
            end_action(writer, start)?;
        }
        Action::SetField(field) => {
            writer.u32(u32::from(action_type::SET_FIELD) << 16);
            write_set_field(writer, field)?;
            end_action(writer, start)?;
        }
    }
    Ok(())
}

/// Pads an action that started at `start`, and fills in its length.
fn end_action<W: Writer>(writer: &mut W, start: usize) -> Result<(), W::Error> {
    writer.pad_to_8(start);
    writer.patch_len(start, 2, "an action")
}

pub(super) fn read_instructions(reader: Reader<'_>) -> Result<Instructions, ReadError> {
    let mut reader = reader.short_as(ErrorKind::BadInstruction(BadInstruction::BadLen));
    let mut instructions = Instructions::default();
    // Bit n is set if type n occurred.
    let mut seen = 0u8;
    while !reader.is_empty() {
        let offset = reader.offset();
        let (kind, length) = (reader.u16()?, usize::from(reader.u16()?));
        if length < 8 || length % 8 != 0 {
            return Err(reader.bad_len(format!("instruction of {length} bytes")));
        }
        let body = reader.part(length - 4)?;
        read_instruction(&mut instructions, offset, kind, body)?;
        // Only types up to 6 reach this point.
        if seen & 1 << kind != 0 {
            let error = ErrorKind::BadInstruction(BadInstruction::DupInst);
            return Err(ReadError::new(offset, error, format!("instruction of type {kind} given twice")));
        }
        seen |= 1 << kind;
    }
    Ok(instructions)
}

fn read_instruction(found: &mut Instructions, offset: usize, kind: u16, mut body: Reader<'_>) -> Result<(), ReadError> {
    let unknown = |error, words: String| Err(ReadError::new(offset, ErrorKind::BadInstruction(error), words));
    match kind {
        instruction_type::GOTO_TABLE => found.goto = Some(TableId((body.u32()? >> 24) as u8)),
        instruction_type::WRITE_METADATA => {
            body.skip(4)?;
            found.metadata = Some(Masked { value: body.u64()?, mask: body.u64()? });
        }
        instruction_type::WRITE_ACTIONS | instruction_type::APPLY_ACTIONS | instruction_type::CLEAR_ACTIONS => {
            body.skip(4)?;
            match kind {
                instruction_type::WRITE_ACTIONS => found.write = read_actions(body)?,
                instruction_type::APPLY_ACTIONS => found.apply = read_actions(body)?,
                _ => {
                    body.end()?;
                    found.clear = true;
                }
            }
            return Ok(());
        }
        instruction_type::METER => found.meter = Some(body.u32()?),
        instruction_type::EXPERIMENTER => {
            return unknown(BadInstruction::BadExperimenter, "instruction of an experimenter".to_owned());
        }
        _ => return unknown(BadInstruction::UnknownInst, format!("instruction of type {kind}")),
    }
    body.end()
}

pub(super) fn write_instructions<W: Writer>(writer: &mut W, instructions: &Instructions) -> Result<(), W::Error> {
    if let Some(meter) = instructions.meter {
        write_short(writer, instruction_type::METER, meter);
    }
    write_list(writer, instruction_type::APPLY_ACTIONS, &instructions.apply)?;
    if instructions.clear {
        write_short(writer, instruction_type::CLEAR_ACTIONS, 0);
    }
    write_list(writer, instruction_type::WRITE_ACTIONS, &instructions.write)?;
    if let Some(Masked { value, mask }) = instructions.metadata {
        writer.u16(instruction_type::WRITE_METADATA);
        writer.u16(24);
        writer.zeros(4);
        writer.u64(value);
        writer.u64(mask);
    }
    if let Some(table) = instructions.goto {
        write_short(writer, instruction_type::GOTO_TABLE, u32::from(table.0) << 24);
    }
    Ok(())
}

/// Writes an instruction with actions; an instruction without actions has no effect and is omitted.
fn write_list<W: Writer>(writer: &mut W, kind: u16, actions: &[Action]) -> Result<(), W::Error> {
    if actions.is_empty() {
        return Ok(());
    }
    let start = writer.len();
    writer.u64(u64::from(kind) << 48);
    write_actions(writer, actions)?;
    writer.patch_len(start, 2, "a list of actions")
}

pub(super) fn read_buckets(reader: Reader<'_>) -> Result<Vec<Bucket>, ReadError> {
    let mut reader = reader.short_as(ErrorKind::GroupModFailed(GroupModFailed::BadBucket));
    let mut buckets = Vec::new();
    while !reader.is_empty() {
        let length = usize::from(reader.u16()?);
        let Some(rest) = length.checked_sub(2).filter(|_| length >= BUCKET_LEN) else {
            return Err(reader.bad_len(format!("bucket of {length} bytes")));
        };
        let mut body = reader.part(rest)?;
        let (weight, watch_port, watch_group) = (body.u16()?, PortNo(body.u32()?), GroupId(body.u32()?));
        body.skip(4)?;
        buckets.push(Bucket { weight, watch_port, watch_group, actions: read_actions(body)? });
    }
    Ok(buckets)
}

pub(super) fn write_buckets<W: Writer>(writer: &mut W, buckets: &[Bucket]) -> Result<(), W::Error> {
    for bucket in buckets {
        let start = writer.len();
        writer.zeros(2);
        writer.u16(bucket.weight);
        writer.u32(bucket.watch_port.0);
        writer.u32(bucket.watch_group.0);
        writer.zeros(4);
        write_actions(writer, &bucket.actions)?;
        writer.patch_len(start, 0, "a bucket")?;
    }
    Ok(())
}
