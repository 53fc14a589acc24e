//! Results of a measurement.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::options::{Load, Shape};
use crate::outstanding::{Counts, Tally};
use crate::service::Carried;

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Loop {
    /// Duration, in seconds.
    pub seconds: f64,
    pub responses: u64,
    pub per_s: f64,
    /// CPU time of the controller, in seconds; `None` if its process is unknown.
    pub controller_cpu_s: Option<f64>,
    /// CPU time of the generator, in seconds.
    pub generator_cpu_s: Option<f64>,
}

/// Median, minimum and maximum over loops.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Median; the lower of two middle values.
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    pub(crate) fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |ix: usize| values.get(ix).copied().unwrap_or(0.0);
        let last = values.len().saturating_sub(1);
        Spread { median: at(last / 2), min: at(0), max: at(last) }
    }
}

/// Latency of the responses of all loops, in µs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

/// Discovery frames carried between emulated switches.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Links {
    pub directed: usize,
    /// Number of links over which a discovery frame returned to the controller.
    pub found: usize,
    /// Time of the last discovered link, in seconds after the last connection.
    pub after_connections_s: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    pub name: String,
    pub response: &'static str,
    pub response_description: &'static str,
    pub load: String,
    pub shape: String,
    pub per_s: Spread,
    /// Latency of responses; `None` without responses.
    pub latency: Option<Latency>,
    pub counts: Counts,
    /// CPU time of the controller per response, in µs.
    pub controller_cpu_us: Option<f64>,
    /// CPU time of the generator per response, in µs: shows how far it is from being the
    /// bottleneck.
    pub generator_cpu_us: Option<f64>,
    pub generator_cpu_share: Option<f64>,
    pub resident_bytes: Option<u64>,
    /// Discovery; `None` without links.
    pub links: Option<Links>,
    /// Whether the emulated switches applied flow-mods during the measurement.
    pub applies_flow_mods: bool,
    pub loops: Vec<Loop>,
    pub lost: Vec<(usize, String)>,
    /// Connections to a virtual address that were carried to a member and back; `None` with another
    /// load.
    pub carried: Option<Carried>,
    /// Requests of the controller that the switches rejected: error and count.
    pub refusals: BTreeMap<String, u64>,
}

impl Latency {
    pub(crate) fn of(tally: &Tally) -> Option<Latency> {
        let us = |quantile: f64| tally.latency.value_at_quantile(quantile) as f64 / 1e3;
        (!tally.latency.is_empty()).then(|| Latency {
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            p999_us: us(0.999),
            max_us: tally.latency.max() as f64 / 1e3,
        })
    }
}

/// Loops of a measurement, and the sum of their tallies.
#[derive(Default)]
pub(crate) struct Loops {
    pub(crate) list: Vec<Loop>,
    pub(crate) tally: Tally,
}

impl Loops {
    pub(crate) fn add(&mut self, (one, tally): (Loop, Tally)) {
        self.list.push(one);
        self.tally.add(&tally);
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.list.iter().map(|one| one.seconds).sum()
    }

    /// Returns CPU seconds of the controller or the generator; `None` if its process is unknown.
    pub(crate) fn cpu_s(&self, of: fn(&Loop) -> Option<f64>) -> Option<f64> {
        self.list.iter().map(of).sum()
    }
}

pub(crate) fn load_text(load: Load) -> String {
    match load {
        Load::Window(window) => format!("{window} outstanding per switch"),
        Load::Rate(rate) => format!("{rate}/s, open loop"),
    }
}

pub(crate) fn shape_text(shape: &Shape) -> String {
    match shape {
        Shape::Star { switches, hosts } => format!("{switches} switches of {hosts} hosts"),
        Shape::Fabric(topology) => format!("{} with {} hosts", topology.name(), topology.hosts().len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_median_and_extremes_of_loops() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(spread(&[4.0, 1.0]).median, 1.0);
        assert_eq!(spread(&[]), Spread { median: 0.0, min: 0.0, max: 0.0 });
    }
}
