//! Meters: limits of the rate of the packets of some entries.

#![allow(missing_docs, reason = "named as in OpenFlow 1.3.5: `ofp_meter_stats` and the other structures")]

use crate::ids::MeterId;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterStats {
    pub meter: MeterId,
    /// Number of entries that use the meter.
    pub flows: u32,
    pub packets: u64,
    pub bytes: u64,
    pub duration_ns: u64,
    /// Packets and bytes that each band treated.
    pub bands: Vec<(u64, u64)>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeterConfig {
    pub meter: MeterId,
    /// Unit of the rates and what is counted (`OFPMF_*`).
    pub flags: u16,
    pub bands: Vec<MeterBand>,
}

/// A band: what happens to packets above a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeterBand {
    pub rate: u32,
    pub burst: u32,
    pub kind: MeterBandKind,
}

/// The treatment of packets above the rate. `DscpRemark` increases the drop precedence of the DSCP
/// field by this number of levels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeterBandKind {
    Drop,
    DscpRemark(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MeterFeatures {
    /// Maximum number of meters; 0 for a switch without meters.
    pub max_meters: u32,
    /// Bitmap of the band types (bit 1 drop, bit 2 DSCP remark).
    pub band_types: u32,
    /// Bitmap of the flags that meters may have (`OFPMF_*`).
    pub capabilities: u32,
    /// Maximum number of bands of a meter.
    pub max_bands: u8,
    pub max_color: u8,
}
