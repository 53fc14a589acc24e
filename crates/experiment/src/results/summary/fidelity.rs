//! Errors of flow fidelity, measured against packets.

use serde::{Deserialize, Serialize};

/// Comparison of both fidelities on a copy of the experiment that packets can simulate.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FidelityCheck {
    /// Topology specification of the copy, without rates.
    pub topology: String,
    /// Number of hosts of the copy.
    pub hosts: u64,
    /// Flows of each run of the copy.
    pub flows: u64,
    /// Number of seeds of the copy.
    pub seeds: u32,
    /// One entry per variant, load, balancer and figure.
    pub errors: Vec<FidelityError>,
}

/// The error of one figure: its value by rates of flows / its value by packets, minus 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct FidelityError {
    /// Value as in the runs.
    pub variant: String,
    /// Value as in the runs.
    pub load: Option<f64>,
    /// Value as in the runs.
    pub balancer: String,
    /// Name of the figure, such as `mean slowdown (10KB, 100KB]`.
    pub figure: String,
    /// Mean over seeds by packets, in the unit of the figure: microseconds, or a plain ratio.
    pub packets: f64,
    /// Mean over seeds by rates of flows.
    pub rates: f64,
    /// Smallest error of a seed.
    pub low: f64,
    /// Largest error of a seed.
    pub high: f64,
}

impl FidelityError {
    /// Returns the error of the means over seeds.
    pub fn mean(&self) -> f64 {
        if self.packets > 0.0 { self.rates / self.packets - 1.0 } else { 0.0 }
    }
}
