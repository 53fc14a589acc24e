//! Structured traffic: collectives, training and execution traces, traffic matrices.

use std::sync::Arc;

use net::{Bytes, Time, Topology};
use traffic::{
    CollectiveError, CollectiveSpec, DemandError, DemandOptions, Placement, RankOptions, StragglerChoice, Stragglers,
    TaskOptions, TraceOrder, TrafficError, TrainingOptions,
};

use super::inputs::Inputs;
use super::traffic_plan::{self, ReadTraffic, TrafficPlan};
use config::diagnostic::FileError;
use config::document::Data;
use config::section::Section;

pub(crate) struct Source {
    pub key: &'static str,
    pub takes: &'static [&'static str],
}

pub(crate) const SOURCES: [Source; 4] = [
    Source { key: "flow_list", takes: &["start_unit", "max_coflows", "time_scale", "size_scale", "megabyte"] },
    Source { key: "collective", takes: &["ranks", "placement", "stragglers", "straggler_delay"] },
    Source {
        key: "trace",
        takes: &["ranks", "placement", "order", "max_collectives", "max_bytes", "time_scale", "size_scale"],
    },
    Source { key: "matrix", takes: &["workload", "flows", "until", "time_scale", "rate_scale", "node_names"] },
];

const GENERATE_KEYS: [&str; 7] = ["workload", "pattern", "arrivals", "load", "load_reference", "flows", "until"];

/// Returns the source a section selects, if any. Keys that do not belong to it are rejected.
pub(crate) fn source(section: &Section<'_>) -> Result<Option<&'static str>, FileError> {
    let mut chosen = SOURCES.iter().filter(|source| section.has(source.key));
    let (source, takes): (_, &[&str]) = match (chosen.next(), chosen.next()) {
        (Some(first), Some(second)) => {
            let error = section.error(second.key, format!("cannot go with `{}`", first.key));
            return Err(error.with_hint("keep one of them"));
        }
        (Some(source), None) => (Some(source.key), source.takes),
        (None, _) => (None, &GENERATE_KEYS),
    };
    // A collective with a workload has other flows in the background.
    let has_background = source == Some("collective") && section.has("workload");
    let is_taken = |key: &&str| takes.contains(key) || (has_background && GENERATE_KEYS.contains(key));
    let others = SOURCES.iter().flat_map(|source| source.takes).chain(&GENERATE_KEYS);
    let Some(key) = others.filter(|key| !is_taken(key)).find(|key| section.has(key)) else { return Ok(source) };
    Err(match source {
        Some("collective") if GENERATE_KEYS.contains(key) => section
            .error(key, "belongs to the flows in the background of a collective")
            .with_hint("name their sizes, such as workload = \"web-search\""),
        Some(source) if GENERATE_KEYS.contains(key) => {
            let why = if source == "flow_list" { ", which defines all flows" } else { "" };
            section.error(key, format!("cannot go with `{source}`{why}"))
        }
        Some(source) => section.error(key, format!("cannot go with `{source}`")),
        None => {
            let of: Vec<&str> =
                SOURCES.iter().filter(|source| source.takes.contains(key)).map(|source| source.key).collect();
            section.error(key, format!("belongs to `{}` only", of.join("`, `")))
        }
    })
}

pub(crate) fn read(
    section: &Section<'_>,
    source: &str,
    topology: &Topology,
    inputs: &mut Inputs,
    first_seed: u64,
) -> Result<ReadTraffic, FileError> {
    if source == "collective" {
        return collective(section, topology, inputs, first_seed);
    }
    let plan = match source {
        "trace" if is_execution_trace(section)? => tasks(section, topology, inputs)?,
        "trace" => trace(section, inputs)?,
        _ => matrix(section, inputs)?,
    };
    let (list, warnings) =
        plan.try_flows(topology, None, first_seed).map_err(|cause| refused(section, source, &cause))?;
    let warnings = warnings.iter().map(traffic::Warning::to_string).collect();
    Ok(ReadTraffic { plan, loads: vec![None], flow_counts: vec![list.flows.len() as u64], warnings })
}

fn texts<'a>(section: &Section<'a>, key: &str) -> Result<Vec<&'a str>, FileError> {
    let text = |value: &'a config::document::Value| match &value.data {
        Data::Text(text) => Ok(text.as_str()),
        _ => {
            let message = format!("must be text in quotes, not {}", value.kind());
            Err(section.document.error(&value.at, &section.dotted_key(key), message))
        }
    };
    section.list(key).into_iter().map(text).collect()
}

fn collective(
    section: &Section<'_>,
    topology: &Topology,
    inputs: &mut Inputs,
    first_seed: u64,
) -> Result<ReadTraffic, FileError> {
    let specs = texts(section, "collective")?
        .into_iter()
        .map(|text| CollectiveSpec::parse(text).map_err(|cause| section.error("collective", cause.to_string())))
        .collect::<Result<Vec<CollectiveSpec>, FileError>>()?;
    if specs.is_empty() {
        return Err(section.error("collective", "is an empty list"));
    }
    let (mut warnings, mut loads, mut background) = (Vec::new(), vec![None], None);
    if section.has("workload") {
        let (flows, of_flows) = traffic_plan::generated(section, topology, inputs, &mut warnings)?;
        (background, loads) = (Some(flows), of_flows);
    }
    let plan = TrafficPlan::Collectives { specs, ranks: ranks(section)?, stragglers: stragglers(section)?, background };
    if plan.has_sampled_rounds() {
        warnings.push(
            "traffic.collective: group times are extrapolated from some rounds; all other figures are of these rounds"
                .to_owned(),
        );
    }
    traffic_plan::with_flow_counts(section, plan, loads, topology, first_seed, warnings)
}

fn stragglers(section: &Section<'_>) -> Result<Option<Stragglers>, FileError> {
    let delay = section.above_zero::<Time>("straggler_delay")?;
    let Some(value) = section.get("stragglers") else {
        return match delay {
            Some(_) => Err(section.missing("stragglers").with_hint("name ranks, such as [3, 7], or a share: \"5%\"")),
            None => Ok(None),
        };
    };
    let wrong = || {
        let error = section.error("stragglers", "must be a list of ranks or a share of all ranks");
        error.with_hint("write [3, 7], or \"5%\"")
    };
    let ranks = match &value.data {
        Data::List(items) if !items.is_empty() => {
            let rank = |item: &config::document::Value| match item.data {
                Data::Integer(rank) => u32::try_from(rank).ok(),
                _ => None,
            };
            StragglerChoice::Ranks(items.iter().map(rank).collect::<Option<_>>().ok_or_else(wrong)?)
        }
        Data::Text(text) => {
            let percent: f64 =
                text.strip_suffix('%').and_then(|number| number.trim().parse().ok()).ok_or_else(wrong)?;
            if !(percent > 0.0 && percent <= 100.0) {
                return Err(section.error("stragglers", "must be above 0% and at most 100%"));
            }
            StragglerChoice::Share(percent / 100.0)
        }
        _ => return Err(wrong()),
    };
    let delay = delay.ok_or_else(|| section.missing("straggler_delay").with_hint("such as \"100us\""))?;
    Ok(Some(Stragglers { ranks, delay }))
}

fn ranks(section: &Section<'_>) -> Result<RankOptions, FileError> {
    let placement = section.chosen("placement", &Placement::ALL)?.unwrap_or_default();
    Ok(RankOptions { count: section.count("ranks")?, placement })
}

fn scale(section: &Section<'_>, key: &str) -> Result<f64, FileError> {
    Ok(section.positive(key)?.unwrap_or(1.0))
}

/// Returns whether the name of a trace ends as those of GOAL and Chakra do.
fn is_execution_trace(section: &Section<'_>) -> Result<bool, FileError> {
    let file = section.text("trace")?.unwrap_or_default().to_ascii_lowercase();
    Ok([".goal", ".et", ".json"].iter().any(|end| file.ends_with(end)))
}

fn tasks(section: &Section<'_>, topology: &Topology, inputs: &mut Inputs) -> Result<TrafficPlan, FileError> {
    if let Some(key) = ["order", "max_collectives", "max_bytes"].into_iter().find(|key| section.has(key)) {
        return Err(section.error(key, "belongs to AICB and SimAI traces").with_hint("leave it out"));
    }
    let trace = inputs.task_trace(section, topology.hosts().len())?;
    let (size_scale, time_scale) = (scale(section, "size_scale")?, scale(section, "time_scale")?);
    let options = TaskOptions { ranks: ranks(section)?, size_scale, time_scale };
    Ok(TrafficPlan::Tasks { trace, options })
}

fn trace(section: &Section<'_>, inputs: &mut Inputs) -> Result<TrafficPlan, FileError> {
    let (file, text) = inputs.of(section, "trace")?;
    let trace = traffic::read_training(file, &text)
        .map_err(|cause| section.error("trace", "is not usable").with_cause(cause))?;
    let options = TrainingOptions {
        ranks: ranks(section)?,
        order: match section.choice("order")? {
            Some("group") => TraceOrder::Group,
            _ => TraceOrder::Program,
        },
        first: section.count("max_collectives")?,
        max_bytes: section.above_zero::<Bytes>("max_bytes")?.map(Bytes::as_u64),
        size_scale: scale(section, "size_scale")?,
        time_scale: scale(section, "time_scale")?,
    };
    Ok(TrafficPlan::Training { trace: Arc::new(trace), options })
}

fn matrix(section: &Section<'_>, inputs: &mut Inputs) -> Result<TrafficPlan, FileError> {
    let workload = section.text("workload")?.ok_or_else(|| {
        section.missing("workload").with_hint("name sizes of the flows of a matrix, such as workload = \"web-search\"")
    })?;
    let sizes = traffic::parse_workload(workload, &mut |path| inputs.read(path))
        .map_err(|cause| section.error("workload", cause.to_string()))?;
    let (file, text) = inputs.of(section, "matrix")?;
    let matrix = traffic::read_matrix(file, &text)
        .map_err(|cause| section.error("matrix", "is not usable").with_cause(cause))?;
    let pair = |text: &str| match text.split_once('=') {
        Some((name, node)) => Ok((name.trim().to_owned(), node.trim().to_owned())),
        None => Err(section.error("node_names", format!("`{text}` is not of the form name=node"))),
    };
    let options = DemandOptions {
        sizes,
        time_scale: scale(section, "time_scale")?,
        rate_scale: scale(section, "rate_scale")?,
        flows: section.count("flows")?,
        until: section.above_zero::<Time>("until")?,
        names: texts(section, "node_names")?.into_iter().map(pair).collect::<Result<_, _>>()?,
    };
    Ok(TrafficPlan::Demands { matrix: Arc::new(matrix), options: Box::new(options) })
}

fn refused(section: &Section<'_>, source: &str, cause: &TrafficError) -> FileError {
    let key = match cause {
        TrafficError::Collective(
            CollectiveError::Ranks { .. } | CollectiveError::Groups { .. } | CollectiveError::RanksOfTrace { .. },
        ) if section.has("ranks") => "ranks",
        TrafficError::Collective(CollectiveError::Nothing(_)) if section.has("max_bytes") => "max_bytes",
        TrafficError::Demand(DemandError::UnknownNode { .. }) if section.has("node_names") => "node_names",
        _ => source,
    };
    section.error(key, cause.to_string())
}
