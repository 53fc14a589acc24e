//! Records of runs, with details for the report.

use super::RunSummary;
use serde::{Deserialize, Serialize};

/// Data the report needs of a run in addition to its summary.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct RunDetail {
    /// FCT of completed flows at 0, 0.5, 1, … 100 % (201 values), microseconds.
    pub fct_quantiles_us: Vec<f64>,
    /// Slowdown at the same quantiles.
    pub slowdown_quantiles: Vec<f64>,
    /// Width of a time bin, microseconds.
    pub bin_us: f64,
    /// Load over time by tier and direction.
    pub tiers: Vec<TierSeries>,
    /// Load of every fabric link over time, rows ordered by tier then link; null for all seeds but
    /// the first.
    pub heat: Option<Heat>,
    /// Queues and load of the links of `probes.links`; left out if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkDetail>,
}

/// Queue and load of one link over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LinkDetail {
    /// Name of the link, such as `leaf0 -> spine1`.
    pub name: String,
    /// Width of a time bin, microseconds.
    pub bin_us: f64,
    /// Largest sample of the queue in each bin, bytes.
    pub queue_max_bytes: Vec<u32>,
    /// Mean of the samples in each bin, bytes.
    pub queue_mean_bytes: Vec<f64>,
    /// Bytes that have arrived at the far end in each bin.
    pub carried_bytes: Vec<u64>,
    /// Carried bytes as a share of the capacity, per bin (0..1).
    pub utilisation: Vec<f64>,
}

/// Utilisation of one kind of link over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct TierSeries {
    /// Kind of link, such as `edge→agg`.
    pub name: String,
    /// Tier of the cable.
    pub tier: u8,
    /// Whether the links lead away from the hosts.
    pub up: bool,
    /// Mean utilisation of these links, per bin (0..1).
    pub mean: Vec<f32>,
    /// Utilisation of the busiest link, per bin.
    pub max: Vec<f32>,
}

/// Utilisation of single links over time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Heat {
    /// Names of the links, one per row.
    pub links: Vec<String>,
    /// Tier series (position in [`RunDetail::tiers`]) of each row.
    pub group: Vec<u16>,
    /// Bins per row.
    pub bins: usize,
    /// Utilisation 0..1, row-major.
    pub values: Vec<f32>,
}

/// One line of `runs.jsonl`, appended as the run ends; a resumed sweep and the report read it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct RunRecord {
    /// Fingerprint of everything the run depends on (experiment content, balancer, load, seed,
    /// version). A resumed sweep skips runs whose fingerprint it finds.
    pub fingerprint: String,
    /// Build of the program that made the run ([`crate::run::plan::BUILD`]).
    #[serde(default)]
    pub build: String,
    /// Summary of the run.
    pub summary: RunSummary,
    /// Details for the report.
    pub detail: RunDetail,
}
