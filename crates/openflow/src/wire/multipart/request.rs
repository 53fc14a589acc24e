//! Multipart requests.

use super::{MORE, multipart_type};
use crate::error::{BadRequest, ErrorKind};
use crate::ids::{GroupId, PortNo, TableId};
use crate::multipart::{FlowSelection, MultipartRequest};
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
        multipart_type::PORT_DESC => MultipartRequest::PortDesc,
        _ => MultipartRequest::Other { kind, body: body.remainder().to_vec() },
    };
    body.end()?;
    Ok(request)
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
