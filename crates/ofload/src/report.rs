//! Results of a measurement.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::options::{Load, Options, Shape};
use crate::outstanding::Tally;
use crate::service::Carried;

/// One loop.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Loop {
    /// Duration, in seconds.
    pub seconds: f64,
    /// Responses in the loop.
    pub responses: u64,
    /// Responses per second.
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
    fn of(mut values: Vec<f64>) -> Spread {
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
    /// Number of directed links.
    pub directed: usize,
    /// Number of links over which a discovery frame returned to the controller.
    pub found: usize,
    /// Time of the last discovered link, in seconds after the last connection.
    pub after_connections_s: f64,
}

/// Totals of all loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// Packet-ins sent.
    pub packet_ins: u64,
    /// Packet-ins with a response within the response timeout.
    pub answered: u64,
    /// Packet-ins without a response within the response timeout.
    pub unanswered: u64,
    /// Unanswered packet-ins with a late response.
    pub late: u64,
    /// Further responses to answered packet-ins.
    pub duplicates: u64,
    /// Responses to no recent packet-in.
    pub unmatched: u64,
    /// Packet-ins due in an open loop but not sent.
    pub withheld: u64,
    /// Flow-mods received.
    pub flow_mods: u64,
    /// Packet-outs received.
    pub packet_outs: u64,
    /// Errors received, and messages that were rejected.
    pub errors: u64,
    /// Connections lost.
    pub connections_lost: u64,
}

/// The results of one controller.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    pub name: String,
    /// Response criterion.
    pub answer: &'static str,
    /// Description of the response criterion.
    pub response_description: &'static str,
    /// Load, as text.
    pub load: String,
    /// Topology of the switches, as text.
    pub shape: String,
    /// Responses per second.
    pub per_s: Spread,
    /// Latency of responses; `None` without responses.
    pub latency: Option<Latency>,
    pub counts: Counts,
    /// CPU time of the controller per response, in µs.
    pub controller_cpu_us: Option<f64>,
    /// CPU time of the generator per response, in µs: shows how far it is from being the
    /// bottleneck.
    pub generator_cpu_us: Option<f64>,
    /// Share of a core that the generator used.
    pub generator_share: Option<f64>,
    /// Maximum resident memory of the controller, in bytes.
    pub resident_bytes: Option<u64>,
    /// Discovery; `None` without links.
    pub links: Option<Links>,
    /// Whether the emulated switches applied flow-mods during the measurement.
    pub keeps_rules: bool,
    pub loops: Vec<Loop>,
    /// Lost connections: switch and reason.
    pub lost: Vec<(usize, String)>,
    /// Connections to a virtual address that were carried to a member and back; `None` with another
    /// load.
    pub carried: Option<Carried>,
    /// Requests of the controller that the switches rejected: error and count.
    pub refusals: BTreeMap<String, u64>,
}

impl Latency {
    /// Returns the latency of a tally; `None` without responses.
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

impl Report {
    pub(crate) fn new(
        name: String,
        options: &Options,
        loops: Vec<Loop>,
        total: &Tally,
        lost: Vec<(usize, String)>,
        resident_bytes: Option<u64>,
        links: Option<Links>,
    ) -> Report {
        let latency = Latency::of(total);
        let responses: u64 = loops.iter().map(|one| one.responses).sum();
        let seconds: f64 = loops.iter().map(|one| one.seconds).sum();
        let cpu = |of: fn(&Loop) -> Option<f64>| loops.iter().map(of).sum::<Option<f64>>();
        let per_response =
            |cpu_s: Option<f64>| cpu_s.filter(|_| responses > 0).map(|cpu_s| cpu_s * 1e6 / responses as f64);
        let generator = cpu(|one| one.generator_cpu_s);
        Report {
            name,
            answer: options.answer.name(),
            response_description: options.answer.description(),
            load: load_text(options.load),
            shape: shape_text(&options.shape),
            per_s: Spread::of(loops.iter().map(|one| one.per_s).collect()),
            latency,
            counts: counts(total, lost.len() as u64),
            controller_cpu_us: per_response(cpu(|one| one.controller_cpu_s)),
            generator_cpu_us: per_response(generator),
            generator_share: generator.map(|cpu_s| cpu_s / seconds),
            resident_bytes,
            links,
            keeps_rules: options.keeps_rules,
            loops,
            lost,
            carried: None,
            refusals: BTreeMap::new(),
        }
    }
}

pub(crate) fn counts(total: &Tally, connections_lost: u64) -> Counts {
    Counts {
        packet_ins: total.sent,
        answered: total.responses + total.responses_after,
        unanswered: total.unanswered,
        late: total.late,
        duplicates: total.duplicates,
        unmatched: total.strays,
        withheld: total.withheld,
        flow_mods: total.flow_mods,
        packet_outs: total.packet_outs,
        errors: total.errors,
        connections_lost,
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
