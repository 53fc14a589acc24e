//! Decoding of multipart replies.

use super::{MORE, multipart_type};
use crate::ids::{GroupId, PortNo, TableId};
use crate::message::Message;
use crate::multipart::{
    Description, FlowStats, GroupDescription, GroupFeatures, GroupStats, MultipartReply, PortStats, TableStats,
};
use crate::wire::actions::{read_buckets, read_instructions};
use crate::wire::modify_state::{flags_of, read_group_kind};
use crate::wire::oxm::{Unknown, read_match};
use crate::wire::port::read_port;
use crate::wire::reader::{ReadError, Reader};

/// `ofp_flow_stats` up to its match.
const FLOW_STATS_LEN: usize = 48;
/// `ofp_group_stats` without its buckets.
const GROUP_STATS_LEN: usize = 40;
/// `ofp_group_desc` without its buckets.
const GROUP_DESC_LEN: usize = 8;

/// Reads a reply. A reply with a record that no value represents is kept whole as
/// [`MultipartReply::Other`]: omitting the record would misreport the state of the switch. The
/// record may use an extension, or be legal but not modelled (a VLAN match with an arbitrary mask,
/// a masked port).
pub(in crate::wire) fn read_reply(mut body: Reader<'_>) -> Result<Message, ReadError> {
    let (kind, flags) = (body.u16()?, body.u16()?);
    body.skip(4)?;
    let reply = match read_reply_body(kind, body) {
        Err(fault) if fault.is_unknown() => MultipartReply::Other { kind, body: body.remainder().to_vec() },
        reply => reply?,
    };
    Ok(Message::MultipartReply { reply, has_more: flags & MORE != 0 })
}

fn read_reply_body(kind: u16, mut body: Reader<'_>) -> Result<MultipartReply, ReadError> {
    let reply = match kind {
        multipart_type::DESC => MultipartReply::Desc(read_description(&mut body)?),
        multipart_type::FLOW => MultipartReply::Flow(read_records(&mut body, FLOW_STATS_LEN, read_flow_stats)?),
        multipart_type::AGGREGATE => {
            let (packets, bytes, flows) = (body.u64()?, body.u64()?, body.u32()?);
            body.skip(4)?;
            MultipartReply::Aggregate { packets, bytes, flows }
        }
        multipart_type::TABLE => MultipartReply::Table(read_all(&mut body, read_table_stats)?),
        multipart_type::PORT => MultipartReply::Port(read_all(&mut body, read_port_stats)?),
        multipart_type::GROUP => MultipartReply::Group(read_records(&mut body, GROUP_STATS_LEN, read_group_stats)?),
        multipart_type::GROUP_DESC => {
            MultipartReply::GroupDesc(read_records(&mut body, GROUP_DESC_LEN, read_group_description)?)
        }
        multipart_type::GROUP_FEATURES => MultipartReply::GroupFeatures(read_group_features(&mut body)?),
        multipart_type::PORT_DESC => MultipartReply::PortDesc(read_all(&mut body, read_port)?),
        _ => MultipartReply::Other { kind, body: body.remainder().to_vec() },
    };
    body.end()?;
    Ok(reply)
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

/// Reads records that start with their length, which must be at least `minimum_len`. Any error
/// inside a record counts as an [unknown extension](ReadError::is_unknown): the length gives the
/// end of the record, so the reply around it can be kept.
fn read_records<T>(
    body: &mut Reader<'_>,
    minimum_len: usize,
    read: impl Fn(Reader<'_>) -> Result<T, ReadError>,
) -> Result<Vec<T>, ReadError> {
    read_all(body, |body| {
        let length = usize::from(body.u16()?);
        if length < minimum_len {
            return Err(body.bad_len(format!("record of {length} bytes and not {minimum_len} or more")));
        }
        read(body.part(length - 2)?).map_err(ReadError::into_unknown)
    })
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
    // Receive and transmit errors, framing, overruns, checksums, collisions.
    body.skip(6 * 8)?;
    let duration_ns = body.duration_ns()?;
    Ok(PortStats { port, rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, duration_ns })
}

fn read_group_stats(mut record: Reader<'_>) -> Result<GroupStats, ReadError> {
    record.skip(2)?;
    let (group, references) = (GroupId(record.u32()?), record.u32()?);
    record.skip(4)?;
    let (packets, bytes, duration_ns) = (record.u64()?, record.u64()?, record.duration_ns()?);
    let buckets = read_all(&mut record, |record| Ok((record.u64()?, record.u64()?)))?;
    Ok(GroupStats { group, references, packets, bytes, duration_ns, buckets })
}

fn read_group_description(mut record: Reader<'_>) -> Result<GroupDescription, ReadError> {
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
