//! Encoding of multipart replies.

use super::{MORE, multipart_type};
use crate::multipart::{Description, FlowStats, GroupDescription, GroupStats, MultipartReply, PortStats, TableStats};
use crate::wire::actions::{write_buckets, write_instructions};
use crate::wire::modify_state::bits_of;
use crate::wire::oxm::write_match;
use crate::wire::port::write_port;
use crate::wire::writer::Writer;

pub(in crate::wire) fn write_reply<W: Writer>(
    writer: &mut W,
    reply: &MultipartReply,
    has_more: bool,
) -> Result<(), W::Error> {
    writer.u16(reply_type(reply));
    writer.u16(if has_more { MORE } else { 0 });
    writer.zeros(4);
    match reply {
        MultipartReply::Desc(description) => write_description(writer, description)?,
        MultipartReply::Flow(entries) => entries.iter().try_for_each(|record| write_flow_stats(writer, record))?,
        MultipartReply::Aggregate { packets, bytes, flows } => {
            writer.u64(*packets);
            writer.u64(*bytes);
            writer.u32(*flows);
            writer.zeros(4);
        }
        MultipartReply::Table(tables) => tables.iter().try_for_each(|record| write_table_stats(writer, record))?,
        MultipartReply::Port(ports) => ports.iter().try_for_each(|record| write_port_stats(writer, record))?,
        MultipartReply::Group(groups) => groups.iter().try_for_each(|record| write_group_stats(writer, record))?,
        MultipartReply::GroupDesc(groups) => {
            groups.iter().try_for_each(|record| write_group_description(writer, record))?
        }
        MultipartReply::GroupFeatures(features) => {
            writer.u32(features.types);
            writer.u32(features.capabilities);
            features.max_groups.iter().chain(&features.actions).for_each(|&word| writer.u32(word));
        }
        MultipartReply::PortDesc(ports) => ports.iter().try_for_each(|record| write_port(writer, record))?,
        MultipartReply::Other { body, .. } => writer.bytes(body),
    }
    Ok(())
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

fn write_description<W: Writer>(writer: &mut W, description: &Description) -> Result<(), W::Error> {
    writer.string(&description.manufacturer, 256, "manufacturer")?;
    writer.string(&description.hardware, 256, "hardware")?;
    writer.string(&description.software, 256, "software")?;
    writer.string(&description.serial, 32, "serial number")?;
    writer.string(&description.datapath, 256, "datapath")
}

fn write_flow_stats<W: Writer>(writer: &mut W, entry: &FlowStats) -> Result<(), W::Error> {
    let start = writer.len();
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

fn write_table_stats<W: Writer>(writer: &mut W, table: &TableStats) -> Result<(), W::Error> {
    writer.u8(table.table.0);
    writer.zeros(3);
    writer.u32(table.active);
    writer.u64(table.lookups);
    writer.u64(table.matched);
    Ok(())
}

fn write_port_stats<W: Writer>(writer: &mut W, port: &PortStats) -> Result<(), W::Error> {
    writer.u32(port.port.0);
    writer.zeros(4);
    for counter in [port.rx_packets, port.tx_packets, port.rx_bytes, port.tx_bytes, port.rx_dropped, port.tx_dropped] {
        writer.u64(counter);
    }
    // Errors are not counted, which all ones express.
    writer.bytes(&[0xff; 6 * 8]);
    writer.duration_ns(port.duration_ns)
}

fn write_group_stats<W: Writer>(writer: &mut W, group: &GroupStats) -> Result<(), W::Error> {
    let start = writer.len();
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

fn write_group_description<W: Writer>(writer: &mut W, group: &GroupDescription) -> Result<(), W::Error> {
    let start = writer.len();
    writer.zeros(2);
    writer.u8(group.kind as u8);
    writer.zeros(1);
    writer.u32(group.group.0);
    write_buckets(writer, &group.buckets)?;
    writer.patch_len(start, 0, "a group")
}
