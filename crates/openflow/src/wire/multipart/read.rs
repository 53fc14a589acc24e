//! Decoding of multipart replies.

use super::flow_monitor::read_update;
use super::meters::{read_meter_config, read_meter_features, read_meter_stats};
use super::table_features::read_table_features;
use super::{MORE, multipart_type};
use crate::flow_monitor::{FLOW_MONITOR, FOUNDATION};
use crate::ids::{GroupId, PortNo, QueueId, TableId};
use crate::message::Message;
use crate::multipart::{
    Description, FlowStats, GroupDescription, GroupFeatures, GroupStats, MultipartReply, PortStats, QueueStats,
    TableStats,
};
use crate::wire::actions::{read_buckets, read_instructions};
use crate::wire::modify_state::{flags_of, read_group_kind};
use crate::wire::oxm::{Unknown, read_match};
use crate::wire::port::read_port;
use crate::wire::reader::{ReadError, Reader};

/// `ofp_flow_stats` up to its match.
const FLOW_STATS: Form = at_least(48);
/// `ofp_group_stats` without its buckets.
const GROUP_STATS: Form = at_least(40);
/// `ofp_group_desc` without its buckets.
const GROUP_DESC: Form = at_least(8);
/// Records of `ofp_meter_stats`; the length does not include bands.
const METER_STATS: Form = Form { length_at: 4, minimum_len: 40 };
/// Records of `ofp_meter_config`; the length does not include bands.
const METER_CONFIG: Form = at_least(8);
/// Records of `ofp_table_features`; the length does not include properties.
const TABLE_FEATURES: Form = at_least(64);
/// An update of a flow monitor; the shortest one is abbreviated.
const FLOW_UPDATE: Form = at_least(8);

pub(in crate::wire) fn read_reply(mut body: Reader<'_>) -> Result<Message, ReadError> {
    let (kind, flags) = (body.u16()?, body.u16()?);
    body.skip(4)?;
    let reply = read_reply_body(kind, &mut body)?;
    body.end()?;
    Ok(Message::MultipartReply { reply, has_more: flags & MORE != 0 })
}

fn read_reply_body(kind: u16, body: &mut Reader<'_>) -> Result<MultipartReply, ReadError> {
    match kind {
        multipart_type::DESC => Ok(MultipartReply::Desc(read_description(body)?)),
        multipart_type::FLOW => read_records(body, FLOW_STATS, read_flow_stats, MultipartReply::Flow),
        multipart_type::AGGREGATE => {
            let (packets, bytes, flows) = (body.u64()?, body.u64()?, body.u32()?);
            body.skip(4)?;
            Ok(MultipartReply::Aggregate { packets, bytes, flows })
        }
        multipart_type::TABLE => Ok(MultipartReply::Table(read_all(body, read_table_stats)?)),
        multipart_type::PORT => Ok(MultipartReply::Port(read_all(body, read_port_stats)?)),
        multipart_type::QUEUE => Ok(MultipartReply::Queue(read_all(body, read_queue_stats)?)),
        multipart_type::GROUP => read_records(body, GROUP_STATS, read_group_stats, MultipartReply::Group),
        multipart_type::GROUP_DESC => read_records(body, GROUP_DESC, read_group_description, MultipartReply::GroupDesc),
        multipart_type::GROUP_FEATURES => Ok(MultipartReply::GroupFeatures(read_group_features(body)?)),
        multipart_type::METER => read_records(body, METER_STATS, read_meter_stats, MultipartReply::Meter),
        multipart_type::METER_CONFIG => {
            read_records(body, METER_CONFIG, read_meter_config, MultipartReply::MeterConfig)
        }
        multipart_type::METER_FEATURES => Ok(MultipartReply::MeterFeatures(read_meter_features(body)?)),
        multipart_type::TABLE_FEATURES => {
            read_records(body, TABLE_FEATURES, read_table_features, MultipartReply::TableFeatures)
        }
        multipart_type::PORT_DESC => Ok(MultipartReply::PortDesc(read_all(body, read_port)?)),
        multipart_type::EXPERIMENTER => read_experimenter_reply(body),
        _ => Ok(MultipartReply::Other { kind, body: body.remainder().to_vec() }),
    }
}

fn read_experimenter_reply(body: &mut Reader<'_>) -> Result<MultipartReply, ReadError> {
    let (experimenter, kind) = (body.u32()?, body.u32()?);
    if (experimenter, kind) == (FOUNDATION, FLOW_MONITOR) {
        return read_records(body, FLOW_UPDATE, read_update, MultipartReply::FlowMonitor);
    }
    Ok(MultipartReply::Experimenter { experimenter, kind, data: body.remainder().to_vec() })
}

fn read_all<T>(
    body: &mut Reader<'_>,
    mut read: impl FnMut(&mut Reader<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    let mut records = Vec::new();
    while !body.is_empty() {
        records.push(read(body)?);
    }
    Ok(records)
}

/// The form of records that contain their length: where it is, and at least how long they are.
#[derive(Clone, Copy)]
struct Form {
    length_at: usize,
    minimum_len: usize,
}

/// Returns the form of records that start with their length.
const fn at_least(minimum_len: usize) -> Form {
    Form { length_at: 0, minimum_len }
}

/// Reads records that contain their length. A record with any error inside is kept as bytes, because
/// its length gives its end: omitting it would misreport the state of the switch, and refusing the
/// reply would hide the other records.
fn read_records<T>(
    body: &mut Reader<'_>,
    Form { length_at, minimum_len }: Form,
    read: impl Fn(Reader<'_>) -> Result<T, ReadError>,
    reply: fn(Vec<T>) -> MultipartReply,
) -> Result<MultipartReply, ReadError> {
    let (mut known, mut opaque) = (Vec::new(), Vec::new());
    while !body.is_empty() {
        let mut head = *body;
        head.skip(length_at)?;
        let length = usize::from(head.u16()?);
        if length < minimum_len {
            return Err(head.bad_len(format!("record of {length} bytes and not {minimum_len} or more")));
        }
        let mut record = body.part(length)?;
        match read(record) {
            Ok(record) => known.push(record),
            Err(_) => opaque.push(record.remainder().to_vec()),
        }
    }
    let known = reply(known);
    Ok(if opaque.is_empty() { known } else { MultipartReply::Partial { known: Box::new(known), opaque } })
}

fn read_description(body: &mut Reader<'_>) -> Result<Description, ReadError> {
    Ok(Description {
        manufacturer: body.string::<256>()?,
        hardware: body.string::<256>()?,
        software: body.string::<256>()?,
        serial: body.string::<32>()?,
        datapath: body.string::<256>()?,
    })
}

fn read_flow_stats(mut entry: Reader<'_>) -> Result<FlowStats, ReadError> {
    entry.skip(2)?;
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

fn read_table_stats(body: &mut Reader<'_>) -> Result<TableStats, ReadError> {
    let table = TableId(body.u8()?);
    body.skip(3)?;
    Ok(TableStats { table, active: body.u32()?, lookups: body.u64()?, matched: body.u64()? })
}

fn read_port_stats(body: &mut Reader<'_>) -> Result<PortStats, ReadError> {
    let port = PortNo(body.u32()?);
    body.skip(4)?;
    let (rx_packets, tx_packets, rx_bytes, tx_bytes) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
    let (rx_dropped, tx_dropped) = (body.u64()?, body.u64()?);
    let (rx_errors, tx_errors, rx_frame_err) = (body.u64()?, body.u64()?, body.u64()?);
    let (rx_over_err, rx_crc_err, collisions) = (body.u64()?, body.u64()?, body.u64()?);
    Ok(PortStats {
        port,
        rx_packets,
        tx_packets,
        rx_bytes,
        tx_bytes,
        rx_dropped,
        tx_dropped,
        rx_errors,
        tx_errors,
        rx_frame_err,
        rx_over_err,
        rx_crc_err,
        collisions,
        duration_ns: body.duration_ns()?,
    })
}

fn read_queue_stats(body: &mut Reader<'_>) -> Result<QueueStats, ReadError> {
    let (port, queue) = (PortNo(body.u32()?), QueueId(body.u32()?));
    let (tx_bytes, tx_packets, tx_errors) = (body.u64()?, body.u64()?, body.u64()?);
    Ok(QueueStats { port, queue, tx_bytes, tx_packets, tx_errors, duration_ns: body.duration_ns()? })
}

fn read_group_stats(mut record: Reader<'_>) -> Result<GroupStats, ReadError> {
    record.skip(4)?;
    let (group, references) = (GroupId(record.u32()?), record.u32()?);
    record.skip(4)?;
    let (packets, bytes, duration_ns) = (record.u64()?, record.u64()?, record.duration_ns()?);
    let buckets = read_all(&mut record, |record| Ok((record.u64()?, record.u64()?)))?;
    Ok(GroupStats { group, references, packets, bytes, duration_ns, buckets })
}

fn read_group_description(mut record: Reader<'_>) -> Result<GroupDescription, ReadError> {
    record.skip(2)?;
    let kind = read_group_kind(&mut record)?;
    record.skip(1)?;
    let group = GroupId(record.u32()?);
    Ok(GroupDescription { group, kind, buckets: read_buckets(record)? })
}

fn read_group_features(body: &mut Reader<'_>) -> Result<GroupFeatures, ReadError> {
    let (types, capabilities) = (body.u32()?, body.u32()?);
    let mut of_each_kind = || Ok([body.u32()?, body.u32()?, body.u32()?, body.u32()?]);
    Ok(GroupFeatures { types, capabilities, max_groups: of_each_kind()?, actions: of_each_kind()? })
}
