//! The `[traffic]` section: flows to generate for each load and seed, or a list to replay.

use std::sync::Arc;

use net::{Bandwidth, Bytes, HostIx, Topology};
use sim::bounds::mcf::{Demand, max_concurrent};
use traffic::{
    Arrivals, CoflowOptions, CollectiveError, CollectiveSpec, DemandOptions, FlowList, Load, LoadReference, Pattern,
    RankOptions, StartUnit, Stragglers, TaskOptions, TaskTrace, TrafficError, TrafficMatrix, TrafficSpec,
    TrainingOptions, TrainingTrace, Warning,
};

use super::inputs::Inputs;
use super::traffic_sources;
use config::diagnostic::FileError;
use config::section::{Section, number};

#[derive(Clone, Debug)]
pub enum TrafficPlan {
    Generate(Generated),
    Replay(Arc<FlowList>),
    /// Collectives between ranks. The seed decides a shuffled placement, the choice of stragglers,
    /// and the background.
    Collectives {
        specs: Vec<CollectiveSpec>,
        ranks: RankOptions,
        stragglers: Option<Stragglers>,
        /// Other flows at the same time; they have no group.
        background: Option<Generated>,
    },
    Requests {
        classes: Arc<Vec<traffic::RequestSpec>>,
        description: String,
    },
    Training {
        trace: Arc<TrainingTrace>,
        options: TrainingOptions,
    },
    Tasks {
        trace: Arc<TaskTrace>,
        options: TaskOptions,
    },
    Demands {
        matrix: Arc<TrafficMatrix>,
        options: Box<DemandOptions>,
    },
    /// The flows of another plan, each split over several queue pairs.
    Split {
        whole: Box<TrafficPlan>,
        queue_pairs: u32,
    },
}

/// Flows that are drawn from distributions.
#[derive(Clone, Debug)]
pub struct Generated {
    spec: Box<TrafficSpec>,
    /// The links that a load of 1 fills, with their capacity; `None` for arrivals that set their own rate.
    reference: Option<(LoadReference, Bandwidth)>,
}

impl Generated {
    fn flows(
        &self,
        topology: &Topology,
        load: Option<f64>,
        seed: u64,
    ) -> Result<(FlowList, Vec<Warning>), TrafficError> {
        let load = load.zip(self.reference);
        let load = load.map(|(fraction, (reference, capacity))| Load { fraction, reference, capacity });
        traffic::generate(topology, &TrafficSpec { load, ..(*self.spec).clone() }, seed)
    }
}

pub(crate) struct ReadTraffic {
    pub plan: TrafficPlan,
    pub loads: Vec<Option<f64>>,
    pub flow_counts: Vec<u64>,
    pub warnings: Vec<String>,
}

/// Reads the section and generates flows with the first seed, so that impossible settings are
/// reported immediately.
pub(crate) fn read(
    section: &Section<'_>,
    topology: &Topology,
    inputs: &mut Inputs,
    first_seed: u64,
) -> Result<ReadTraffic, FileError> {
    let whole = read_whole(section, topology, inputs, first_seed)?;
    let queue_pairs = section.count("queue_pairs")?.unwrap_or(1u32);
    if queue_pairs == 1 {
        return Ok(whole);
    }
    if let TrafficPlan::Tasks { .. } = whole.plan {
        let error = section.error("queue_pairs", "cannot go with an execution trace, whose tasks name its transfers");
        return Err(error.with_hint("remove it"));
    }
    let plan = TrafficPlan::Split { whole: Box::new(whole.plan), queue_pairs };
    with_flow_counts(section, plan, whole.loads, topology, first_seed, whole.warnings)
}

fn read_whole(
    section: &Section<'_>,
    topology: &Topology,
    inputs: &mut Inputs,
    first_seed: u64,
) -> Result<ReadTraffic, FileError> {
    match traffic_sources::source(section)? {
        None => {}
        Some("flow_list") => return replay(section, topology, inputs),
        Some(source) => return traffic_sources::read(section, source, topology, inputs, first_seed),
    }
    let mut warnings = Vec::new();
    let (generated, loads) = generated(section, topology, inputs, &mut warnings)?;
    let plan = TrafficPlan::Generate(generated);
    with_flow_counts(section, plan, loads, topology, first_seed, warnings)
}

/// Generates the flows of every load with the first seed.
pub(super) fn with_flow_counts(
    section: &Section<'_>,
    plan: TrafficPlan,
    loads: Vec<Option<f64>>,
    topology: &Topology,
    first_seed: u64,
    mut warnings: Vec<String>,
) -> Result<ReadTraffic, FileError> {
    let mut flow_counts = Vec::new();
    for load in &loads {
        let (list, list_warnings) =
            plan.try_flows(topology, *load, first_seed).map_err(|cause| refused(section, &cause))?;
        warnings.extend(list_warnings.iter().map(Warning::to_string));
        flow_counts.push(list.flows.len() as u64);
    }
    Ok(ReadTraffic { plan, loads, flow_counts, warnings })
}

/// Reads flows that are drawn, and their loads.
pub(super) fn generated(
    section: &Section<'_>,
    topology: &Topology,
    inputs: &mut Inputs,
    warnings: &mut Vec<String>,
) -> Result<(Generated, Vec<Option<f64>>), FileError> {
    let spec = spec(section, inputs)?;
    let given = loads(section)?;
    let (loads, reference) = if spec.arrivals.follow_load() {
        if given.is_empty() {
            let hint = format!("arrivals `{}` require it, such as load = [0.3, 0.6]", spec.arrivals);
            return Err(section.missing("load").with_hint(hint));
        }
        (given.into_iter().map(Some).collect(), Some(load_reference(section, topology)?))
    } else {
        if !given.is_empty() {
            warnings.push(format!("traffic.load is not used: arrivals `{}` set their own rate", spec.arrivals));
        }
        (vec![None], None)
    };
    Ok((Generated { spec: Box::new(spec), reference }, loads))
}

fn spec(section: &Section<'_>, inputs: &mut Inputs) -> Result<TrafficSpec, FileError> {
    let workload = section.text("workload")?.ok_or_else(|| {
        section.missing("workload").with_hint(
            "name flow sizes, such as workload = \"web-search\", or a flow_list, collective, trace or matrix",
        )
    })?;
    let sizes = traffic::parse_workload(workload, &mut |path| inputs.read(path));
    let pattern = Pattern::parse(section.text("pattern")?.unwrap_or("random-pairs"));
    let arrivals = Arrivals::parse(section.text("arrivals")?.unwrap_or("poisson"));
    Ok(TrafficSpec {
        sizes: sizes.map_err(|cause| section.error("workload", cause.to_string()))?,
        pattern: pattern.map_err(|cause| section.error("pattern", cause.to_string()))?,
        arrivals: arrivals.map_err(|cause| section.error("arrivals", cause.to_string()))?,
        load: None,
        flows: section.count("flows")?,
        until: section.above_zero("until")?,
    })
}

fn loads(section: &Section<'_>) -> Result<Vec<f64>, FileError> {
    let mut loads: Vec<f64> = Vec::new();
    for value in section.list("load") {
        let at = |message: String| section.document.error(&value.at, "traffic.load", message);
        let hint = "0.6 is 60 % of what load_reference can carry";
        let no_number = || at(format!("must be a number, not {}", value.kind())).with_hint(hint);
        let load = number(value).ok_or_else(no_number)?;
        if !(load > 0.0 && load <= 1000.0) {
            return Err(at(format!("{load} is not a valid load")).with_hint(hint));
        }
        if loads.contains(&load) {
            return Err(at(format!("{load} is listed twice")));
        }
        loads.push(load);
    }
    if section.has("load") && loads.is_empty() {
        return Err(section.error("load", "is an empty list"));
    }
    Ok(loads)
}

fn load_reference(section: &Section<'_>, topology: &Topology) -> Result<(LoadReference, Bandwidth), FileError> {
    let load = match section.choice("load_reference")? {
        Some("uplinks") => Load::of_fabric_uplinks(1.0, topology),
        Some("bisection") => Load::of_bisection(1.0, net::bisection::at_most(topology)),
        _ => Load::of_host_links(1.0, topology),
    };
    Ok((load.reference, load.capacity))
}

/// The bisection of a network, or bounds of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bisection {
    /// Smallest capacity between two halves of the hosts that was found.
    pub at_most: Bandwidth,
    /// No two halves have less between them; `None` if it was not computed.
    pub at_least: Option<Bandwidth>,
}

/// Maximum number of hosts for which the lower bound is computed, from the flow between all pairs.
const PAIRED_HOSTS_MAX: usize = 64;

/// Returns the bisection. The lower bound is a flow from every host to every other one: a cut into
/// halves of n / 2 hosts carries (n / 2)² of its pairs in each direction.
pub fn bisection(topology: &Topology) -> Bisection {
    let (at_most, hosts) = (net::bisection::at_most(topology), topology.hosts().len() as u32);
    if hosts as usize <= net::bisection::MAX_EXACT_HOSTS {
        return Bisection { at_most, at_least: Some(at_most) };
    }
    if hosts as usize > PAIRED_HOSTS_MAX {
        return Bisection { at_most, at_least: None };
    }
    const RATE_BPS: f64 = 1e6;
    let pairs = (0..hosts).flat_map(|src| (0..hosts).map(move |dst| (HostIx(src), HostIx(dst))));
    let demands: Vec<Demand> =
        pairs.filter(|(src, dst)| src != dst).map(|(src, dst)| Demand { src, dst, bps: RATE_BPS }).collect();
    let share = max_concurrent(topology, &demands, 0.1).share;
    let crossing = f64::from(hosts / 2) * f64::from(hosts - hosts / 2);
    let bps = share * RATE_BPS * crossing;
    // Three digits, rounded down: the flow is found by approximation.
    let digit = 10f64.powf((bps.max(1.0).log10() - 2.0).floor());
    let at_least = Bandwidth::from_bps(((bps / digit).floor() * digit) as u64);
    Bisection { at_most, at_least: Some(at_least.min(at_most)) }
}

fn replay(section: &Section<'_>, topology: &Topology, inputs: &mut Inputs) -> Result<ReadTraffic, FileError> {
    let (file, text) = inputs.of(section, "flow_list")?;
    let broken = |cause: traffic::ImportError| section.error("flow_list", "is not usable").with_cause(cause);
    let mut warnings = Vec::new();
    let list = if file.ends_with(".csv") {
        traffic::read_csv(file, &text, topology).map_err(broken)?
    } else if file.ends_with(".cm") {
        connection_matrix(section, file, &text, topology)?
    } else if file.ends_with(".txt") {
        let (list, list_warnings) =
            traffic::read_coflows(file, &text, topology, &coflow_options(section)?).map_err(broken)?;
        warnings.extend(list_warnings.iter().map(Warning::to_string));
        list
    } else {
        let error = section.error("flow_list", format!("the format of `{file}` is unknown"));
        return Err(error.with_hint("name a .csv (anabranch), .cm (htsim) or .txt (coflow trace) file"));
    };
    if list.flows.is_empty() {
        return Err(section.error("flow_list", format!("{file} contains no flows")));
    }
    let flow_counts = vec![list.flows.len() as u64];
    Ok(ReadTraffic { plan: TrafficPlan::Replay(Arc::new(list)), loads: vec![None], flow_counts, warnings })
}

fn connection_matrix(
    section: &Section<'_>,
    file: &str,
    text: &str,
    topology: &Topology,
) -> Result<FlowList, FileError> {
    let unit = match section.choice("start_unit")? {
        Some("us") => StartUnit::Microseconds,
        _ => StartUnit::Picoseconds,
    };
    let matrix = traffic::read_cm(file, text, unit)
        .map_err(|cause| section.error("flow_list", "is not usable").with_cause(cause))?;
    let hosts = topology.hosts().len();
    if matrix.host_count as usize > hosts {
        let message = format!("{file} is for {} hosts; `{}` has {hosts}", matrix.host_count, topology.name());
        return Err(section.error("flow_list", message).with_hint("use a topology with at least this many hosts"));
    }
    Ok(matrix.list)
}

fn coflow_options(section: &Section<'_>) -> Result<CoflowOptions, FileError> {
    let default = CoflowOptions::default();
    Ok(CoflowOptions {
        first: section.count("max_coflows")?,
        time_scale: section.positive("time_scale")?.unwrap_or(default.time_scale),
        size_scale: section.positive("size_scale")?.unwrap_or(default.size_scale),
        bytes_per_megabyte: match section.above_zero::<Bytes>("megabyte")? {
            Some(bytes) => u32::try_from(bytes.as_u64()).unwrap_or(default.bytes_per_megabyte),
            None => default.bytes_per_megabyte,
        },
    })
}

fn refused(section: &Section<'_>, cause: &TrafficError) -> FileError {
    let key = match cause {
        TrafficError::Pattern(_) | TrafficError::Triggered(_) | TrafficError::GroupsInBackground => "pattern",
        TrafficError::Collective(CollectiveError::Ranks { .. } | CollectiveError::Groups { .. })
            if section.has("ranks") =>
        {
            "ranks"
        }
        TrafficError::Collective(CollectiveError::Straggler { .. }) => "stragglers",
        TrafficError::Collective(_) => "collective",
        // Matrices do not reach this function.
        TrafficError::Demand(_) => "workload",
        TrafficError::NoCapacity(_) => "load_reference",
        TrafficError::LoadMissing(_) | TrafficError::BadLoad(_) | TrafficError::TooLate(_) => "load",
        TrafficError::NoEnd | TrafficError::TooMany => "flows",
    };
    section.error(key, cause.to_string())
}

impl TrafficPlan {
    /// Returns the links that a load of 1 fills, with their capacity, of flows that are drawn.
    pub(super) fn load_reference(&self) -> Option<(LoadReference, Bandwidth)> {
        match self {
            TrafficPlan::Generate(generated) => generated.reference,
            _ => None,
        }
    }

    /// Returns the flows of one seed and load, which do not depend on the balancer.
    ///
    /// # Errors
    /// Errors of the generator. Reading an experiment already checks its first seed.
    pub fn flows(&self, topology: &Topology, load: Option<f64>, seed: u64) -> Result<Arc<FlowList>, TrafficError> {
        match self {
            TrafficPlan::Replay(list) => Ok(list.clone()),
            _ => Ok(Arc::new(self.try_flows(topology, load, seed)?.0)),
        }
    }

    pub(crate) fn try_flows(
        &self,
        topology: &Topology,
        load: Option<f64>,
        seed: u64,
    ) -> Result<(FlowList, Vec<Warning>), TrafficError> {
        match self {
            TrafficPlan::Generate(generated) => generated.flows(topology, load, seed),
            TrafficPlan::Replay(list) => Ok(((**list).clone(), Vec::new())),
            TrafficPlan::Collectives { specs, ranks, stragglers, background } => {
                let mut list = traffic::collectives(topology, specs, ranks, seed)?;
                if let Some(stragglers) = stragglers {
                    list = stragglers.delay_flows(list, topology, ranks, seed)?;
                }
                let Some(background) = background else { return Ok((list, Vec::new())) };
                let (others, warnings) = background.flows(topology, load, seed)?;
                if others.flows.iter().any(|flow| flow.group > 0) {
                    return Err(TrafficError::GroupsInBackground);
                }
                Ok((list.merged(others), warnings))
            }
            TrafficPlan::Requests { classes, description } => {
                Ok((traffic::requests(classes, seed, description.clone()), Vec::new()))
            }
            TrafficPlan::Training { trace, options } => trace.flows(topology, options, seed),
            TrafficPlan::Tasks { trace, options } => Ok((trace.flows(topology, options, seed)?, Vec::new())),
            TrafficPlan::Demands { matrix, options } => matrix.flows(topology, options, seed),
            TrafficPlan::Split { whole, queue_pairs } => {
                let (list, warnings) = whole.try_flows(topology, load, seed)?;
                Ok((list.over_queue_pairs(*queue_pairs), warnings))
            }
        }
    }

    /// Returns the plan of the flows before they are split.
    pub fn whole(&self) -> &TrafficPlan {
        match self {
            TrafficPlan::Split { whole, .. } => whole.whole(),
            _ => self,
        }
    }

    /// Returns whether flows run next to collectives. Statistics of single flows are then
    /// about these flows.
    pub fn has_background(&self) -> bool {
        matches!(self.whole(), TrafficPlan::Collectives { background: Some(_), .. })
    }

    /// Returns whether only some rounds of a collective are simulated.
    pub(crate) fn has_sampled_rounds(&self) -> bool {
        matches!(self.whole(), TrafficPlan::Collectives { specs, .. } if specs.iter().any(|spec| spec.rounds.is_some()))
    }

    pub fn describe(&self) -> String {
        match self {
            TrafficPlan::Generate(generated) => describe_generated(generated),
            TrafficPlan::Replay(list) => list.description.clone(),
            TrafficPlan::Collectives { specs, ranks, stragglers, background } => {
                let specs: Vec<String> = specs.iter().map(CollectiveSpec::to_string).collect();
                let count = ranks.count.map_or("one rank per host".to_owned(), |count| format!("{count} ranks"));
                let mut text = format!("{}; {count}, {}", specs.join(" with "), ranks.placement);
                if let Some(stragglers) = stragglers {
                    text += &format!("; {stragglers}");
                }
                if let Some(background) = background {
                    text += &format!("; background: {}", describe_generated(background));
                }
                text
            }
            TrafficPlan::Requests { description, .. } => description.clone(),
            TrafficPlan::Training { trace, options } => trace.describe(options),
            TrafficPlan::Tasks { trace, options } => trace.describe(options),
            TrafficPlan::Demands { matrix, options } => matrix.describe(options),
            TrafficPlan::Split { whole, queue_pairs } => {
                format!("{}; each flow over {queue_pairs} queue pairs", whole.describe())
            }
        }
    }
}

fn describe_generated(Generated { spec, reference }: &Generated) -> String {
    let mut text = format!(
        "{} (mean {:.0} B), pattern {}, arrivals {}",
        spec.sizes.name(),
        spec.sizes.mean_bytes(),
        spec.pattern,
        spec.arrivals
    );
    if let Some((reference, capacity)) = reference {
        text += &format!(", load of {} ({capacity})", reference.name());
    }
    if let Some(flows) = spec.flows {
        text += &format!(", {flows} flows");
    }
    if let Some(until) = spec.until {
        text += &format!(", starts before {until}");
    }
    text
}
