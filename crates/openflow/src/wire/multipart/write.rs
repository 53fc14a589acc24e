//! Encoding of multipart replies.

use super::flow_monitor::write_update;
use super::meters::{write_meter_config, write_meter_features, write_meter_stats};
use super::table_features::write_table_features;
use super::{MORE, multipart_type};
use crate::flow_monitor::{FLOW_MONITOR, FOUNDATION};
use crate::multipart::{
    Description, FlowStats, GroupDescription, GroupStats, MultipartReply, PortStats, QueueStats, TableStats,
};
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
    write_reply_body(writer, reply)
}

fn write_reply_body<W: Writer>(writer: &mut W, reply: &MultipartReply) -> Result<(), W::Error> {
    match reply {
        MultipartReply::Desc(description) => write_description(writer, description)?,
        MultipartReply::Flow(entries) => write_all(writer, entries, write_flow_stats)?,
        MultipartReply::Aggregate { packets, bytes, flows } => {
            writer.u64(*packets);
            writer.u64(*bytes);
            writer.u32(*flows);
            writer.zeros(4);
        }
        MultipartReply::Table(tables) => write_all(writer, tables, write_table_stats)?,
        MultipartReply::Port(ports) => write_all(writer, ports, write_port_stats)?,
        MultipartReply::Queue(queues) => write_all(writer, queues, write_queue_stats)?,
        MultipartReply::Group(groups) => write_all(writer, groups, write_group_stats)?,
        MultipartReply::GroupDesc(groups) => write_all(writer, groups, write_group_description)?,
        MultipartReply::GroupFeatures(features) => {
            writer.u32(features.types);
            writer.u32(features.capabilities);
            features.max_groups.iter().chain(&features.actions).for_each(|&word| writer.u32(word));
        }
        MultipartReply::Meter(meters) => write_all(writer, meters, write_meter_stats)?,
        MultipartReply::MeterConfig(meters) => write_all(writer, meters, write_meter_config)?,
        MultipartReply::MeterFeatures(features) => write_meter_features(writer, features),
        MultipartReply::TableFeatures(tables) => write_all(writer, tables, write_table_features)?,
        MultipartReply::PortDesc(ports) => write_all(writer, ports, write_port)?,
        MultipartReply::FlowMonitor(updates) => {
            writer.u32(FOUNDATION);
            writer.u32(FLOW_MONITOR);
            write_all(writer, updates, write_update)?;
        }
        MultipartReply::Partial { known, opaque } => {
            write_reply_body(writer, known)?;
            opaque.iter().for_each(|record| writer.bytes(record));
        }
        MultipartReply::Experimenter { experimenter, kind, data } => {
            writer.u32(*experimenter);
            writer.u32(*kind);
            writer.bytes(data);
        }
        MultipartReply::Other { body, .. } => writer.bytes(body),
    }
    Ok(())
}

fn write_all<W: Writer, T>(
    writer: &mut W,
    records: &[T],
    write: impl Fn(&mut W, &T) -> Result<(), W::Error>,
) -> Result<(), W::Error> {
    records.iter().try_for_each(|record| write(writer, record))
}

fn reply_type(reply: &MultipartReply) -> u16 {
    match reply {
        MultipartReply::Desc(_) => multipart_type::DESC,
        MultipartReply::Flow(_) => multipart_type::FLOW,
        MultipartReply::Aggregate { .. } => multipart_type::AGGREGATE,
        MultipartReply::Table(_) => multipart_type::TABLE,
        MultipartReply::Port(_) => multipart_type::PORT,
        MultipartReply::Queue(_) => multipart_type::QUEUE,
        MultipartReply::Group(_) => multipart_type::GROUP,
        MultipartReply::GroupDesc(_) => multipart_type::GROUP_DESC,
        MultipartReply::GroupFeatures(_) => multipart_type::GROUP_FEATURES,
        MultipartReply::Meter(_) => multipart_type::METER,
        MultipartReply::MeterConfig(_) => multipart_type::METER_CONFIG,
        MultipartReply::MeterFeatures(_) => multipart_type::METER_FEATURES,
        MultipartReply::TableFeatures(_) => multipart_type::TABLE_FEATURES,
        MultipartReply::PortDesc(_) => multipart_type::PORT_DESC,
        MultipartReply::FlowMonitor(_) | MultipartReply::Experimenter { .. } => multipart_type::EXPERIMENTER,
        MultipartReply::Partial { known, .. } => reply_type(known),
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
    write_match(writer, &entry.match_, &[])?;
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
    let (rx, tx) = (port.rx_errors, port.tx_errors);
    for counter in [rx, tx, port.rx_frame_err, port.rx_over_err, port.rx_crc_err, port.collisions] {
        writer.u64(counter);
    }
    writer.duration_ns(port.duration_ns)
}

fn write_queue_stats<W: Writer>(writer: &mut W, queue: &QueueStats) -> Result<(), W::Error> {
    writer.u32(queue.port.0);
    writer.u32(queue.queue.0);
    writer.u64(queue.tx_bytes);
    writer.u64(queue.tx_packets);
    writer.u64(queue.tx_errors);
    writer.duration_ns(queue.duration_ns)
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
