//! State and statistics (specification 7.3.5).

use super::EncodeError;
use super::actions::{read_buckets, read_instructions, write_buckets, write_instructions};
use super::changes::{bits_of, flags_of, group_kind_number, read_group_kind};
use super::oxm::{Unknown, read_match, write_match};
use super::port::{read_port, write_port};
use super::reader::{Fault, Reader};
use super::writer::{Start, Writer};
use super::{MAX_LEN, finish, message_type, start};
use crate::error::{BadRequest, ErrorKind};
use crate::ids::{GroupId, PortNo, TableId, Xid};
use crate::message::Message;
use crate::multipart::{
    Description, FlowSelection, FlowStats, GroupDescription, GroupFeatures, GroupStats, MultipartReply,
    MultipartRequest, PortStats, TableStats,
};

/// `OFPMPF_REQ_MORE`, `OFPMPF_REPLY_MORE`.
const MORE: u16 = 1;
/// `ofp_flow_stats` up to its match.
const FLOW_STATS_LEN: usize = 48;
/// `ofp_group_stats` without its buckets.
const GROUP_STATS_LEN: usize = 40;
/// `ofp_group_desc` without its buckets.
const GROUP_DESC_LEN: usize = 8;

/// Types of multipart messages (`OFPMP_*`).
mod multipart_type {
    pub const DESC: u16 = 0;
    pub const FLOW: u16 = 1;
    pub const AGGREGATE: u16 = 2;
    pub const TABLE: u16 = 3;
    pub const PORT: u16 = 4;
    pub const GROUP: u16 = 6;
    pub const GROUP_DESC: u16 = 7;
    pub const GROUP_FEATURES: u16 = 8;
    pub const PORT_DESC: u16 = 13;
}

pub(super) fn read_request(mut body: Reader<'_>) -> Result<MultipartRequest, Fault> {
    let kind = body.u16()?;
    let offset = body.offset();
    if body.u16()? & MORE != 0 {
        // Only requests that nobody makes here (table features) are long enough for parts.
        let error = ErrorKind::BadRequest(BadRequest::MultipartBufferOverflow);
        return Err(Fault::new(offset, error, "request in several parts"));
    }
    body.skip(4)?;
    let request = match kind {
        multipart_type::DESC => MultipartRequest::Desc,
        multipart_type::FLOW => MultipartRequest::Flow(read_selection(&mut body)?),
        multipart_type::AGGREGATE => MultipartRequest::Aggregate(read_selection(&mut body)?),
        multipart_type::TABLE => MultipartRequest::Table,
        multipart_type::PORT => {
            let port = PortNo(body.u32()?);
            body.skip(4)?;
            MultipartRequest::Port(port)
        }
        multipart_type::GROUP => {
            let group = GroupId(body.u32()?);
            body.skip(4)?;
            MultipartRequest::Group(group)
        }
        multipart_type::GROUP_DESC => MultipartRequest::GroupDesc,
        multipart_type::GROUP_FEATURES => MultipartRequest::GroupFeatures,
        multipart_type::PORT_DESC => MultipartRequest::PortDesc,
        _ => MultipartRequest::Other { kind, body: body.remainder().to_vec() },
    };
    body.end()?;
    Ok(request)
}

fn read_selection(body: &mut Reader<'_>) -> Result<FlowSelection, Fault> {
    let table = TableId(body.u8()?);
    body.skip(3)?;
    let (out_port, out_group) = (PortNo(body.u32()?), GroupId(body.u32()?));
    body.skip(4)?;
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let match_ = read_match(body, Unknown::Refuse)?;
    Ok(FlowSelection { table, out_port, out_group, cookie, cookie_mask, match_ })
}

pub(super) fn write_request(writer: &mut Writer<'_>, request: &MultipartRequest) -> Result<(), EncodeError> {
    let kind = match request {
        MultipartRequest::Desc => multipart_type::DESC,
        MultipartRequest::Flow(_) => multipart_type::FLOW,
        MultipartRequest::Aggregate(_) => multipart_type::AGGREGATE,
        MultipartRequest::Table => multipart_type::TABLE,
        MultipartRequest::Port(_) => multipart_type::PORT,
        MultipartRequest::Group(_) => multipart_type::GROUP,
        MultipartRequest::GroupDesc => multipart_type::GROUP_DESC,
        MultipartRequest::GroupFeatures => multipart_type::GROUP_FEATURES,
        MultipartRequest::PortDesc => multipart_type::PORT_DESC,
        MultipartRequest::Other { kind, .. } => *kind,
    };
    writer.u16(kind);
    writer.zeros(6);
    match request {
        MultipartRequest::Flow(selection) | MultipartRequest::Aggregate(selection) => {
            writer.u8(selection.table.0);
            writer.zeros(3);
            writer.u32(selection.out_port.0);
            writer.u32(selection.out_group.0);
            writer.zeros(4);
            writer.u64(selection.cookie);
            writer.u64(selection.cookie_mask);
            write_match(writer, &selection.match_)?;
        }
        MultipartRequest::Port(PortNo(number)) | MultipartRequest::Group(GroupId(number)) => {
            writer.u32(*number);
            writer.zeros(4);
        }
        MultipartRequest::Other { body, .. } => writer.bytes(body),
        MultipartRequest::Desc
        | MultipartRequest::Table
        | MultipartRequest::GroupDesc
        | MultipartRequest::GroupFeatures
        | MultipartRequest::PortDesc => {}
    }
    Ok(())
}

/// Reads a reply. One of a known type that holds what no value can (an action or a match field of an experimenter, say)
/// is kept whole as [`MultipartReply::Other`]: without those parts it would be a lie.
pub(super) fn read_reply(mut body: Reader<'_>) -> Result<Message, Fault> {
    let (kind, flags) = (body.u16()?, body.u16()?);
    body.skip(4)?;
    let reply = match read_reply_body(kind, body) {
        Err(fault) if fault.is_unknown => MultipartReply::Other { kind, body: body.remainder().to_vec() },
        reply => reply?,
    };
    Ok(Message::MultipartReply { reply, has_more: flags & MORE != 0 })
}

fn read_reply_body(kind: u16, mut body: Reader<'_>) -> Result<MultipartReply, Fault> {
    let reply = match kind {
        multipart_type::DESC => MultipartReply::Desc(read_description(&mut body)?),
        multipart_type::FLOW => MultipartReply::Flow(read_all(&mut body, read_flow_stats)?),
        multipart_type::AGGREGATE => {
            let (packets, bytes, flows) = (body.u64()?, body.u64()?, body.u32()?);
            body.skip(4)?;
            MultipartReply::Aggregate { packets, bytes, flows }
        }
        multipart_type::TABLE => MultipartReply::Table(read_all(&mut body, read_table_stats)?),
        multipart_type::PORT => MultipartReply::Port(read_all(&mut body, read_port_stats)?),
        multipart_type::GROUP => MultipartReply::Group(read_all(&mut body, read_group_stats)?),
        multipart_type::GROUP_DESC => MultipartReply::GroupDesc(read_all(&mut body, read_group_description)?),
        multipart_type::GROUP_FEATURES => MultipartReply::GroupFeatures(read_group_features(&mut body)?),
        multipart_type::PORT_DESC => MultipartReply::PortDesc(read_all(&mut body, read_port)?),
        _ => MultipartReply::Other { kind, body: body.remainder().to_vec() },
    };
    body.end()?;
    Ok(reply)
}

/// Records up to the end.
fn read_all<T>(
    body: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let mut records = Vec::new();
    while !body.is_empty() {
        records.push(read(body)?);
    }
    Ok(records)
}

/// A record that begins with its length, which is at least this; what follows the length.
fn record<'a>(body: &mut Reader<'a>, least: usize) -> Result<Reader<'a>, Fault> {
    let length = usize::from(body.u16()?);
    if length < least {
        return Err(body.bad_len(format!("record of {length} bytes and not {least} or more")));
    }
    body.part(length - 2)
}

fn read_description(body: &mut Reader<'_>) -> Result<Description, Fault> {
    Ok(Description {
        manufacturer: body.string::<256>()?,
        hardware: body.string::<256>()?,
        software: body.string::<256>()?,
        serial: body.string::<32>()?,
        datapath: body.string::<256>()?,
    })
}

fn read_flow_stats(body: &mut Reader<'_>) -> Result<FlowStats, Fault> {
    let mut entry = record(body, FLOW_STATS_LEN)?;
    let table = TableId(entry.u8()?);
    entry.skip(1)?;
    let (duration_ns, priority) = (entry.duration_ns()?, entry.u16()?);
    let (idle_timeout_s, hard_timeout_s, flags) = (entry.u16()?, entry.u16()?, flags_of(entry.u16()?));
    entry.skip(4)?;
    let (cookie, packets, bytes) = (entry.u64()?, entry.u64()?, entry.u64()?);
    let match_ = read_match(&mut entry, Unknown::Refuse)?;
    let instructions = read_instructions(entry)?;
    Ok(FlowStats {
        table,
        duration_ns,
        priority,
        idle_timeout_s,
        hard_timeout_s,
        flags,
        cookie,
        packets,
        bytes,
        match_,
        instructions,
    })
}

fn read_table_stats(body: &mut Reader<'_>) -> Result<TableStats, Fault> {
    let table = TableId(body.u8()?);
    body.skip(3)?;
    Ok(TableStats { table, active: body.u32()?, lookups: body.u64()?, matched: body.u64()? })
}

fn read_port_stats(body: &mut Reader<'_>) -> Result<PortStats, Fault> {
    let port = PortNo(body.u32()?);
    body.skip(4)?;
    let (rx_packets, tx_packets, rx_bytes, tx_bytes) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let (rx_dropped, tx_dropped) = (body.u64()?, body.u64()?);
    // Errors received and sent, framing, overruns, checksums, collisions.
    body.skip(6 * 8)?;
    let duration_ns = body.duration_ns()?;
    Ok(PortStats { port, rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, duration_ns })
}

fn read_group_stats(body: &mut Reader<'_>) -> Result<GroupStats, Fault> {
    let mut record = record(body, GROUP_STATS_LEN)?;
    record.skip(2)?;
    let (group, references) = (GroupId(record.u32()?), record.u32()?);
    record.skip(4)?;
    let (packets, bytes, duration_ns) = (record.u64()?, record.u64()?, record.duration_ns()?);
    let buckets = read_all(&mut record, |record| Ok((record.u64()?, record.u64()?)))?;
    Ok(GroupStats { group, references, packets, bytes, duration_ns, buckets })
}

fn read_group_description(body: &mut Reader<'_>) -> Result<GroupDescription, Fault> {
    let mut record = record(body, GROUP_DESC_LEN)?;
    let kind = read_group_kind(&mut record)?;
    record.skip(1)?;
    let group = GroupId(record.u32()?);
    Ok(GroupDescription { group, kind, buckets: read_buckets(record)? })
}

fn read_group_features(body: &mut Reader<'_>) -> Result<GroupFeatures, Fault> {
    let (types, capabilities) = (body.u32()?, body.u32()?);
    let mut of_each_kind = || Ok([body.u32()?, body.u32()?, body.u32()?, body.u32()?]);
    Ok(GroupFeatures { types, capabilities, max_groups: of_each_kind()?, actions: of_each_kind()? })
}

/// A reply under construction, perhaps in several messages.
struct Parts {
    xid: Xid,
    kind: u16,
    /// Whether records that do not fit may go into another message.
    may_split: bool,
    /// Where the message being written began.
    message: Start,
    /// Where its body began.
    body: Start,
}

impl Parts {
    fn begin(writer: &mut Writer<'_>, xid: Xid, kind: u16, may_split: bool) -> Parts {
        let message = start(writer, message_type::MULTIPART_REPLY, xid);
        writer.u16(kind);
        writer.zeros(6);
        Parts { xid, kind, may_split, message, body: writer.start() }
    }

    fn finish(&self, writer: &mut Writer<'_>, has_more: bool) -> Result<(), EncodeError> {
        // Type and flags follow the header.
        writer.patch(self.message, 10, if has_more { MORE } else { 0 });
        finish(writer, self.message)
    }

    fn records<T>(
        &mut self,
        writer: &mut Writer<'_>,
        records: &[T],
        write: impl Fn(&mut Writer<'_>, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        for record in records {
            let begin = writer.start();
            write(writer, record)?;
            if self.may_split && writer.since(self.message) > MAX_LEN && begin != self.body {
                writer.undo(begin);
                self.finish(writer, true)?;
                *self = Parts::begin(writer, self.xid, self.kind, true);
                write(writer, record)?;
            }
        }
        Ok(())
    }
}

/// Writes a whole reply with its header: one message, or as many as it takes if it may be split.
pub(super) fn write_reply(
    writer: &mut Writer<'_>,
    xid: Xid,
    reply: &MultipartReply,
    has_more: bool,
    may_split: bool,
) -> Result<(), EncodeError> {
    let mut parts = Parts::begin(writer, xid, reply_type(reply), may_split);
    match reply {
        MultipartReply::Desc(description) => write_description(writer, description)?,
        MultipartReply::Flow(entries) => parts.records(writer, entries, write_flow_stats)?,
        MultipartReply::Aggregate { packets, bytes, flows } => {
            writer.u64(*packets);
            writer.u64(*bytes);
            writer.u32(*flows);
            writer.zeros(4);
        }
        MultipartReply::Table(tables) => parts.records(writer, tables, write_table_stats)?,
        MultipartReply::Port(ports) => parts.records(writer, ports, write_port_stats)?,
        MultipartReply::Group(groups) => parts.records(writer, groups, write_group_stats)?,
        MultipartReply::GroupDesc(groups) => parts.records(writer, groups, write_group_description)?,
        MultipartReply::GroupFeatures(features) => {
            writer.u32(features.types);
            writer.u32(features.capabilities);
            features.max_groups.iter().chain(&features.actions).for_each(|&word| writer.u32(word));
        }
        MultipartReply::PortDesc(ports) => parts.records(writer, ports, write_port)?,
        MultipartReply::Other { body, .. } => writer.bytes(body),
    }
    parts.finish(writer, has_more)
}

fn reply_type(reply: &MultipartReply) -> u16 {
    match reply {
        MultipartReply::Desc(_) => multipart_type::DESC,
        MultipartReply::Flow(_) => multipart_type::FLOW,
        MultipartReply::Aggregate { .. } => multipart_type::AGGREGATE,
        MultipartReply::Table(_) => multipart_type::TABLE,
        MultipartReply::Port(_) => multipart_type::PORT,
        MultipartReply::Group(_) => multipart_type::GROUP,
        MultipartReply::GroupDesc(_) => multipart_type::GROUP_DESC,
        MultipartReply::GroupFeatures(_) => multipart_type::GROUP_FEATURES,
        MultipartReply::PortDesc(_) => multipart_type::PORT_DESC,
        MultipartReply::Other { kind, .. } => *kind,
    }
}

fn write_description(writer: &mut Writer<'_>, description: &Description) -> Result<(), EncodeError> {
    writer.string(&description.manufacturer, 256, "manufacturer")?;
    writer.string(&description.hardware, 256, "hardware")?;
    writer.string(&description.software, 256, "software")?;
    writer.string(&description.serial, 32, "serial number")?;
    writer.string(&description.datapath, 256, "datapath")
}

fn write_flow_stats(writer: &mut Writer<'_>, entry: &FlowStats) -> Result<(), EncodeError> {
    let start = writer.start();
    writer.zeros(2);
    writer.u8(entry.table.0);
    writer.zeros(1);
    writer.duration_ns(entry.duration_ns)?;
    writer.u16(entry.priority);
    writer.u16(entry.idle_timeout_s);
    writer.u16(entry.hard_timeout_s);
    writer.u16(bits_of(entry.flags));
    writer.zeros(4);
    writer.u64(entry.cookie);
    writer.u64(entry.packets);
    writer.u64(entry.bytes);
    write_match(writer, &entry.match_)?;
    write_instructions(writer, &entry.instructions)?;
    writer.patch_len(start, 0, "an entry")
}

fn write_table_stats(writer: &mut Writer<'_>, table: &TableStats) -> Result<(), EncodeError> {
    writer.u8(table.table.0);
    writer.zeros(3);
    writer.u32(table.active);
    writer.u64(table.lookups);
    writer.u64(table.matched);
    Ok(())
}

fn write_port_stats(writer: &mut Writer<'_>, port: &PortStats) -> Result<(), EncodeError> {
    writer.u32(port.port.0);
    writer.zeros(4);
    for counter in [port.rx_packets, port.tx_packets, port.rx_bytes, port.tx_bytes, port.rx_dropped, port.tx_dropped] {
        writer.u64(counter);
    }
    // Errors are not counted here; all ones says so.
    writer.bytes(&[0xff; 6 * 8]);
    writer.duration_ns(port.duration_ns)
}

fn write_group_stats(writer: &mut Writer<'_>, group: &GroupStats) -> Result<(), EncodeError> {
    let start = writer.start();
    writer.zeros(4);
    writer.u32(group.group.0);
    writer.u32(group.references);
    writer.zeros(4);
    writer.u64(group.packets);
    writer.u64(group.bytes);
    writer.duration_ns(group.duration_ns)?;
    for &(packets, bytes) in &group.buckets {
        writer.u64(packets);
        writer.u64(bytes);
    }
    writer.patch_len(start, 0, "statistics of a group")
}

fn write_group_description(writer: &mut Writer<'_>, group: &GroupDescription) -> Result<(), EncodeError> {
    let start = writer.start();
    writer.zeros(2);
    writer.u8(group_kind_number(group.kind));
    writer.zeros(1);
    writer.u32(group.group.0);
    write_buckets(writer, &group.buckets)?;
    writer.patch_len(start, 0, "a group")
}
