//! Meters (`ofp_meter_stats`, `ofp_meter_config`, `ofp_meter_features`).

use crate::error::{ErrorKind, MeterModFailed};
use crate::ids::MeterId;
use crate::meter::{MeterBand, MeterBandKind, MeterConfig, MeterFeatures, MeterStats};
use crate::wire::reader::{ReadError, Reader};
use crate::wire::writer::Writer;

/// Length of a band, which is the same for all types.
const BAND_LEN: u16 = 16;
/// Type of the bands that drop packets (`OFPMBT_DROP`).
const DROP: u16 = 1;
/// Type of the bands that lower the priority of packets (`OFPMBT_DSCP_REMARK`).
const DSCP_REMARK: u16 = 2;

pub(super) fn read_meter_stats(mut record: Reader<'_>) -> Result<MeterStats, ReadError> {
    let meter = MeterId(record.u32()?);
    record.skip(8)?;
    let (flows, packets, bytes) = (record.u32()?, record.u64()?, record.u64()?);
    let duration_ns = record.duration_ns()?;
    let mut bands = Vec::new();
    while !record.is_empty() {
        bands.push((record.u64()?, record.u64()?));
    }
    Ok(MeterStats { meter, flows, packets, bytes, duration_ns, bands })
}

pub(super) fn write_meter_stats<W: Writer>(writer: &mut W, meter: &MeterStats) -> Result<(), W::Error> {
    let start = writer.len();
    writer.u32(meter.meter.0);
    writer.zeros(8);
    writer.u32(meter.flows);
    writer.u64(meter.packets);
    writer.u64(meter.bytes);
    writer.duration_ns(meter.duration_ns)?;
    for &(packets, bytes) in &meter.bands {
        writer.u64(packets);
        writer.u64(bytes);
    }
    writer.patch_len(start, 4, "statistics of a meter")
}

pub(super) fn read_meter_config(mut record: Reader<'_>) -> Result<MeterConfig, ReadError> {
    record.skip(2)?;
    let (flags, meter) = (record.u16()?, MeterId(record.u32()?));
    let mut bands = Vec::new();
    while !record.is_empty() {
        bands.push(read_band(&mut record)?);
    }
    Ok(MeterConfig { meter, flags, bands })
}

fn read_band(record: &mut Reader<'_>) -> Result<MeterBand, ReadError> {
    let offset = record.offset();
    let (kind, length) = (record.u16()?, record.u16()?);
    if length != BAND_LEN {
        return Err(record.bad_len(format!("band of {length} bytes and not {BAND_LEN}")));
    }
    let (rate, burst, level) = (record.u32()?, record.u32()?, record.u8()?);
    record.skip(3)?;
    let kind = match kind {
        DROP => MeterBandKind::Drop,
        DSCP_REMARK => MeterBandKind::DscpRemark(level),
        _ => {
            let error = ErrorKind::MeterModFailed(MeterModFailed::BadBand);
            return Err(ReadError::new(offset, error, format!("band of type {kind}")));
        }
    };
    Ok(MeterBand { rate, burst, kind })
}

pub(super) fn write_meter_config<W: Writer>(writer: &mut W, meter: &MeterConfig) -> Result<(), W::Error> {
    let start = writer.len();
    writer.zeros(2);
    writer.u16(meter.flags);
    writer.u32(meter.meter.0);
    for band in &meter.bands {
        let (kind, level) = match band.kind {
            MeterBandKind::Drop => (DROP, 0),
            MeterBandKind::DscpRemark(level) => (DSCP_REMARK, level),
        };
        writer.u16(kind);
        writer.u16(BAND_LEN);
        writer.u32(band.rate);
        writer.u32(band.burst);
        writer.u8(level);
        writer.zeros(3);
    }
    writer.patch_len(start, 0, "a meter")
}

pub(super) fn read_meter_features(body: &mut Reader<'_>) -> Result<MeterFeatures, ReadError> {
    let (max_meters, band_types, capabilities) = (body.u32()?, body.u32()?, body.u32()?);
    let (max_bands, max_color) = (body.u8()?, body.u8()?);
    body.skip(2)?;
    Ok(MeterFeatures { max_meters, band_types, capabilities, max_bands, max_color })
}

pub(super) fn write_meter_features(writer: &mut impl Writer, features: &MeterFeatures) {
    writer.u32(features.max_meters);
    writer.u32(features.band_types);
    writer.u32(features.capabilities);
    writer.u8(features.max_bands);
    writer.u8(features.max_color);
    writer.zeros(2);
}
