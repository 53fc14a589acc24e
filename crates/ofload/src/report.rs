//! What was measured.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::book::Tally;
use crate::options::{Load, Options, Shape};
use crate::service::Carried;

/// One loop.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Loop {
    /// Its length, s.
    pub seconds: f64,
    /// Answers in it.
    pub responses: u64,
    /// Answers per second.
    pub per_s: f64,
    /// CPU time of the controller, s, where its process is known.
    pub controller_cpu_s: Option<f64>,
    /// CPU time of the generator, s.
    pub generator_cpu_s: Option<f64>,
}

/// Median, least and greatest of the loops.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Median; the lower one of two.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(0.0);
        let last = values.len().saturating_sub(1);
        Spread { median: at(last / 2), min: at(0), max: at(last) }
    }
}

/// Latency of answers, of all loops together, µs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Latency {
    /// Half are faster.
    pub p50_us: f64,
    /// 90 % are faster.
    pub p90_us: f64,
    /// 99 % are faster.
    pub p99_us: f64,
    /// 99.9 % are faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// Discovery packets carried between fake switches.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Links {
    /// Directed links there are.
    pub directed: usize,
    /// Those over which a discovery packet of the controller came back to it.
    pub found: usize,
    /// When the last of these was found, s after the last connection was made.
    pub after_connections_s: f64,
}

/// Totals of all loops.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// Packet-ins sent.
    pub packet_ins: u64,
    /// Answered within the patience, once each.
    pub answered: u64,
    /// Not answered within the patience.
    pub unanswered: u64,
    /// Of the unanswered: answered later.
    pub late: u64,
    /// Further answers to what was answered.
    pub duplicates: u64,
    /// Answers to nothing that was asked.
    pub strays: u64,
    /// Due in an open loop, but not sent.
    pub withheld: u64,
    /// Flow-mods received.
    pub flow_mods: u64,
    /// Packet-outs received.
    pub packet_outs: u64,
    /// Errors received, and messages that had to be refused.
    pub errors: u64,
    /// Connections lost.
    pub connections_lost: u64,
}

/// One controller measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub name: String,
    /// What counted as an answer.
    pub answer: &'static str,
    /// The same in words.
    pub answer_words: &'static str,
    /// The load in words.
    pub load: String,
    /// The switches in words.
    pub shape: String,
    /// Answers per second.
    pub per_s: Spread,
    /// Their latency; `None` if there were none.
    pub latency: Option<Latency>,
    /// What was counted.
    pub counts: Counts,
    /// CPU time of the controller per answer, µs.
    pub controller_cpu_us: Option<f64>,
    /// CPU time of the generator per answer, µs: how far it is from being the limit.
    pub generator_cpu_us: Option<f64>,
    /// Share of a core the generator used.
    pub generator_share: Option<f64>,
    /// Greatest resident memory seen, bytes.
    pub resident_bytes: Option<u64>,
    /// Discovery, where switches have links.
    pub links: Option<Links>,
    /// Whether fake switches carried out flow-mods while measuring.
    pub keeps_rules: bool,
    /// Each loop.
    pub loops: Vec<Loop>,
    /// Connections that were lost: switch and reason.
    pub lost: Vec<(usize, String)>,
    /// Connections to a virtual address that were carried to a member and back; `None` where they are not the load.
    pub carried: Option<Carried>,
    /// Requests of the controller that the fake switches refused since they were connected: error and how often.
    pub refusals: BTreeMap<String, u64>,
}

impl Latency {
    /// Of what was tallied; `None` if nothing was answered.
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
            answer_words: options.answer.words(),
            load: load_words(options.load),
            shape: shape_words(&options.shape),
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
        strays: total.strays,
        withheld: total.withheld,
        flow_mods: total.flow_mods,
        packet_outs: total.packet_outs,
        errors: total.errors,
        connections_lost,
    }
}

pub(crate) fn load_words(load: Load) -> String {
    match load {
        Load::Window(window) => format!("{window} outstanding per switch"),
        Load::Rate(rate) => format!("{rate}/s, open loop"),
    }
}

pub(crate) fn shape_words(shape: &Shape) -> String {
    match shape {
        Shape::Star { switches, hosts } => format!("{switches} switches of {hosts} hosts"),
        Shape::Fabric(topology) => format!("{} with {} hosts", topology.name(), topology.hosts().len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_the_loops() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(spread(&[4.0, 1.0]).median, 1.0);
        assert_eq!(spread(&[]), Spread { median: 0.0, min: 0.0, max: 0.0 });
    }
}
