//! Multipart requests.

use super::flow_monitor::{read_monitors, write_monitors};
use super::table_features::{read_table_features, write_table_features};
use super::{MORE, multipart_type};
use crate::error::{BadRequest, ErrorKind};
use crate::flow_monitor::{FLOW_MONITOR, FOUNDATION};
use crate::ids::{GroupId, MeterId, PortNo, QueueId, TableId};
use crate::multipart::{FlowSelection, MultipartRequest};
use crate::table_features::TableFeatures;
use crate::wire::oxm::{Unknown, read_match, write_match};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

pub(in crate::wire) fn read_request(mut body: Reader<'_>) -> Result<MultipartRequest, ReadError> {
    let kind = body.u16()?;
    let offset = body.offset();
    if body.u16()? & MORE != 0 {
        // Only requests that this implementation never sends (table features) are long enough for
        // parts.
        let error = ErrorKind::BadRequest(BadRequest::MultipartBufferOverflow);
        return Err(ReadError::new(offset, error, "request in several parts"));
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
        multipart_type::QUEUE => MultipartRequest::Queue { port: PortNo(body.u32()?), queue: QueueId(body.u32()?) },
        multipart_type::METER | multipart_type::METER_CONFIG => {
            let meter = MeterId(body.u32()?);
            body.skip(4)?;
            let is_config = kind == multipart_type::METER_CONFIG;
            if is_config { MultipartRequest::MeterConfig(meter) } else { MultipartRequest::Meter(meter) }
        }
        multipart_type::METER_FEATURES => MultipartRequest::MeterFeatures,
        multipart_type::TABLE_FEATURES => MultipartRequest::TableFeatures(read_tables(&mut body)?),
        multipart_type::PORT_DESC => MultipartRequest::PortDesc,
        multipart_type::EXPERIMENTER => read_experimenter_request(&mut body)?,
        _ => MultipartRequest::Other { kind, body: body.remainder().to_vec() },
    };
    body.end()?;
    Ok(request)
}

fn read_tables(body: &mut Reader<'_>) -> Result<Vec<TableFeatures>, ReadError> {
    let mut tables = Vec::new();
    while !body.is_empty() {
        let mut head = *body;
        let length = usize::from(head.u16()?);
        if length < 2 {
            return Err(head.bad_len(format!("table of {length} bytes")));
        }
        tables.push(read_table_features(body.part(length)?)?);
    }
    Ok(tables)
}

fn read_experimenter_request(body: &mut Reader<'_>) -> Result<MultipartRequest, ReadError> {
    let (experimenter, kind) = (body.u32()?, body.u32()?);
    if (experimenter, kind) == (FOUNDATION, FLOW_MONITOR) {
        return Ok(MultipartRequest::FlowMonitor(read_monitors(body)?));
    }
    Ok(MultipartRequest::Experimenter { experimenter, kind, data: body.remainder().to_vec() })
}

fn read_selection(body: &mut Reader<'_>) -> Result<FlowSelection, ReadError> {
    let table = TableId(body.u8()?);
    body.skip(3)?;
    let (out_port, out_group) = (PortNo(body.u32()?), GroupId(body.u32()?));
    body.skip(4)?;
    let (cookie, cookie_mask) = (body.u64()?, body.u64()?);
    let match_ = read_match(body, Unknown::Refuse)?;
    Ok(FlowSelection { table, out_port, out_group, cookie, cookie_mask, match_ })
}

pub(in crate::wire) fn write_request<W: Writer>(writer: &mut W, request: &MultipartRequest) -> Result<(), W::Error> {
    writer.u16(request_type(request));
    writer.zeros(6);
    match request {
        MultipartRequest::Flow(selection) | MultipartRequest::Aggregate(selection) => {
            write_selection(writer, selection)?;
        }
        MultipartRequest::Port(PortNo(number))
        | MultipartRequest::Group(GroupId(number))
        | MultipartRequest::Meter(MeterId(number))
        | MultipartRequest::MeterConfig(MeterId(number)) => {
            writer.u32(*number);
            writer.zeros(4);
        }
        MultipartRequest::Queue { port, queue } => {
            writer.u32(port.0);
            writer.u32(queue.0);
        }
        MultipartRequest::TableFeatures(tables) => {
            tables.iter().try_for_each(|table| write_table_features(writer, table))?;
        }
        MultipartRequest::FlowMonitor(monitors) => {
            writer.u32(FOUNDATION);
            writer.u32(FLOW_MONITOR);
            write_monitors(writer, monitors)?;
        }
        MultipartRequest::Experimenter { experimenter, kind, data } => {
            writer.u32(*experimenter);
            writer.u32(*kind);
            writer.bytes(data);
        }
        MultipartRequest::Other { body, .. } => writer.bytes(body),
        MultipartRequest::Desc
        | MultipartRequest::Table
        | MultipartRequest::GroupDesc
        | MultipartRequest::GroupFeatures
        | MultipartRequest::MeterFeatures
        | MultipartRequest::PortDesc => {}
    }
    Ok(())
}

fn request_type(request: &MultipartRequest) -> u16 {
    match request {
        MultipartRequest::Desc => multipart_type::DESC,
        MultipartRequest::Flow(_) => multipart_type::FLOW,
        MultipartRequest::Aggregate(_) => multipart_type::AGGREGATE,
        MultipartRequest::Table => multipart_type::TABLE,
        MultipartRequest::Port(_) => multipart_type::PORT,
        MultipartRequest::Queue { .. } => multipart_type::QUEUE,
        MultipartRequest::Group(_) => multipart_type::GROUP,
        MultipartRequest::GroupDesc => multipart_type::GROUP_DESC,
        MultipartRequest::GroupFeatures => multipart_type::GROUP_FEATURES,
        MultipartRequest::Meter(_) => multipart_type::METER,
        MultipartRequest::MeterConfig(_) => multipart_type::METER_CONFIG,
        MultipartRequest::MeterFeatures => multipart_type::METER_FEATURES,
        MultipartRequest::TableFeatures(_) => multipart_type::TABLE_FEATURES,
        MultipartRequest::PortDesc => multipart_type::PORT_DESC,
        MultipartRequest::FlowMonitor(_) | MultipartRequest::Experimenter { .. } => multipart_type::EXPERIMENTER,
        MultipartRequest::Other { kind, .. } => *kind,
    }
}

fn write_selection<W: Writer>(writer: &mut W, selection: &FlowSelection) -> Result<(), W::Error> {
    writer.u8(selection.table.0);
    writer.zeros(3);
    writer.u32(selection.out_port.0);
    writer.u32(selection.out_group.0);
    writer.zeros(4);
    writer.u64(selection.cookie);
    writer.u64(selection.cookie_mask);
    write_match(writer, &selection.match_, &[])?;
    Ok(())
}
