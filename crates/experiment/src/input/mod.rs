//! The experiment file: balancers, network, traffic and seeds.
//!
//! A TOML file with units in its values; [`LAYOUT`] declares every key. The command line can override
//! any key, and a sweep can vary it: a `[sweep]` of `"transport.min_rto" = ["5ms", "200ms"]` makes
//! one *variant* of the experiment for each value. Unknown keys are rejected with the nearest known
//! one, and every error is shown at its place in the file.
//!
//! ```toml
//! name = "example"
//! question = "Does spraying pay under web-search traffic?"
//! seeds = 10
//! balancers = ["ecmp", "spray"]
//!
//! [topology]
//! spec = "leaf-spine:leaves=4,spines=4,hosts_per_leaf=8"
//!
//! [traffic]
//! workload = "web-search"
//! load = [0.3, 0.6]
//! flows = 2000
//!
//! [sweep]
//! "transport.kind" = ["dctcp", "newreno"]
//! ```

mod content;
mod control;
mod describe;
pub(crate) mod expect;
mod failure_text;
mod failures;
mod headline;
mod imported;
mod inputs;
mod keys;
mod links;
mod matrix;
mod network;
mod services;
mod settings;
mod sweep;
mod testbed;
mod timetable;
mod traffic_plan;
mod traffic_sources;
mod transport;
mod validation;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use net::Topology;
use sim::{Scenario, SimConfig};
use traffic::FlowList;

pub use config::diagnostic::{Diagnostic, FileError, SourceLocation};
pub use headline::Headline;
pub use inputs::{Context, Input, TraceFiles};
pub use keys::LAYOUT;
pub use testbed::{Datapath, HostLearning, QueueScheduling, RequestClient, RuleSource, TestbedConfig, TrafficSource};
pub use traffic_plan::{Bisection, TrafficPlan, bisection};

use crate::claims::Claim;
use crate::statistics::Rule;
use crate::summary::Measure;
use crate::validation::ValidationCriteria;

use config::document::{Data, Document, Value, ValueOrigin};
use config::section::Section;
use inputs::Inputs;

#[derive(Clone, Debug)]
pub struct Experiment {
    pub name: String,
    pub title: Option<String>,
    pub question: Option<String>,
    pub source: Option<String>,
    pub column: Option<String>,
    /// The quantity, margin and confidence by which balancers are compared.
    pub rule: Rule,
    /// Seeds of the runs, the same for every balancer.
    pub seeds: Vec<u64>,
    pub balancers: Vec<balance::Spec>,
    /// One per combination of swept values; exactly one without a sweep.
    pub variants: Vec<Variant>,
    pub claims: Vec<Claim>,
    /// Claims of the file that do not fit values from the command line, with the reason.
    pub left_out: Vec<String>,
    /// Criteria for comparing the simulator with the testbed; they change no run.
    pub validation: ValidationCriteria,
    pub warnings: Vec<String>,
    /// The complete file, overrides included: running it again gives the same results.
    pub file: String,
    /// Files it refers to, which `file` expects in the folder `inputs` next to it.
    pub inputs: Vec<Input>,
    /// Execution traces it refers to, whose files it expects there too.
    pub traces: Vec<TraceFiles>,
}

#[derive(Clone, Debug)]
pub struct Variant {
    /// The values, as `key=value` joined by `, `; empty without a sweep.
    pub label: String,
    pub topology: Arc<Topology>,
    pub traffic: TrafficPlan,
    /// Offered loads; one `None` if the traffic sets its own rate.
    pub loads: Vec<Option<f64>>,
    pub flow_counts: Vec<u64>,
    pub config: SimConfig,
    pub testbed: TestbedConfig,
    /// Canonical text of everything its runs depend on except balancer, load and seed; see
    /// [`crate::run::plan`].
    pub canonical: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pub key: String,
    pub value: String,
    /// The argument as typed, such as `--set traffic.load=0.3`; messages quote it.
    pub argument: String,
    pub is_text: bool,
}

impl Override {
    pub fn set(key: &str, value: &str) -> Override {
        Override::value(key, value, format!("--set {key}={value}"))
    }
    /// Creates an override with a value from another option, which messages quote.
    pub fn value(key: &str, value: &str, argument: String) -> Override {
        Override { key: key.to_owned(), value: value.to_owned(), argument, is_text: false }
    }
    /// Creates an override with a text from another option, which messages quote. Texts for
    /// `failure` are added to the existing ones.
    pub fn text(key: &str, value: &str, argument: String) -> Override {
        Override { key: key.to_owned(), value: value.to_owned(), argument, is_text: true }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    Representative,
}

const RUNS_MAX: usize = 1_000_000;

impl Experiment {
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Experiment, FileError> {
        Experiment::load_as(path, overrides, Extent::Whole)
    }

    pub fn load_for_matrix(path: &Path, overrides: &[Override]) -> Result<Experiment, FileError> {
        Experiment::load_as(path, overrides, Extent::Representative)
    }

    fn load_as(path: &Path, overrides: &[Override], extent: Extent) -> Result<Experiment, FileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let failure = FileError::new(SourceLocation::File(name.clone()), "", "cannot read the experiment file");
            failure.with_cause(error).with_hint(match path.is_dir() {
                true => "this is a folder: name a file in it, or run all its files with `anabranch matrix FOLDER`",
                false => "`anabranch list experiments --folder DIR` shows the files of a folder",
            })
        })?;
        if text.trim().is_empty() {
            let failure = FileError::new(SourceLocation::File(name), "", "the experiment file is empty");
            return Err(failure
                .with_hint("start from the experiment.toml that `anabranch compare` writes into its results folder"));
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("experiment");
        let context = Context::below(path.parent().unwrap_or(Path::new("")));
        Experiment::parse_as(&name, &text, (stem, context), overrides, extent)
    }

    /// Reads an experiment from text. Messages quote `file`; `name` is the default name of the
    /// experiment; paths are relative to `base`.
    pub fn parse(
        file: &str,
        text: &str,
        name: &str,
        base: &Path,
        overrides: &[Override],
    ) -> Result<Experiment, FileError> {
        Experiment::parse_with(file, text, name, Context::below(base), overrides)
    }

    /// As [`Experiment::parse`], for experiments that refer to files or balancers in memory.
    pub fn parse_with(
        file: &str,
        text: &str,
        name: &str,
        context: Context,
        overrides: &[Override],
    ) -> Result<Experiment, FileError> {
        Experiment::parse_as(file, text, (name, context), overrides, Extent::Whole)
    }

    fn parse_as(
        file: &str,
        text: &str,
        (name, context): (&str, Context),
        overrides: &[Override],
        extent: Extent,
    ) -> Result<Experiment, FileError> {
        let mut document = Document::parse(file, text, &keys::LAYOUT)?;
        let is_reduced = extent == Extent::Representative && document.root.contains_key("matrix");
        match extent {
            Extent::Whole => matrix::check(&document)?,
            Extent::Representative => matrix::apply(&mut document)?,
        }
        for change in overrides {
            apply(&mut document, change)?;
        }
        expect::expand(&mut document);
        let top = Section::top(&document)?;
        let mut experiment = Experiment {
            name: folder_name(&top, name)?,
            title: top.text("title")?.map(str::to_owned),
            question: top.text("question")?.map(str::to_owned),
            source: top.text("source")?.map(str::to_owned),
            column: matrix::title(&top)?,
            rule: rule(&top)?,
            seeds: seeds(&top)?,
            balancers: balancers(&top, &context.balancers)?,
            variants: Vec::new(),
            claims: Vec::new(),
            left_out: Vec::new(),
            validation: ValidationCriteria::default(),
            warnings: Vec::new(),
            file: String::new(),
            inputs: Vec::new(),
            traces: Vec::new(),
        };
        let mut inputs = Inputs::new(context);
        experiment.read_variants(&document, &mut inputs)?;
        let expected = expect::read(&top, &experiment, is_reduced)?;
        (experiment.claims, experiment.left_out) = (expected.claims, expected.left_out);
        experiment.validation = validation::read(&top, &experiment)?;
        experiment.warnings.sort();
        experiment.warnings.dedup();
        let has_files = !inputs.files.is_empty() || !inputs.traces.is_empty();
        let unchanged = overrides.is_empty() && !is_reduced && !has_files;
        experiment.file = if unchanged { text.to_owned() } else { rendered(&document, &inputs, &expected.kept) };
        (experiment.inputs, experiment.traces) = (inputs.files, inputs.traces);
        let runs = experiment.run_count();
        if runs > RUNS_MAX {
            let message = format!("makes {runs} runs; at most {RUNS_MAX} are allowed");
            return Err(top.error("sweep", message));
        }
        Ok(experiment)
    }

    /// Returns the balancers whose runs use one thread regardless of the number given, each with the
    /// reason.
    pub fn single_threaded(&self) -> Vec<(String, &'static str)> {
        let mut found: Vec<(String, &'static str)> = Vec::new();
        let flows = FlowList::default();
        for variant in &self.variants {
            for balancer in &self.balancers {
                let (topology, config) = (&*variant.topology, &variant.config);
                let scenario = Scenario { topology, flows: &flows, balancer, seed: 0, config };
                if let Some(reason) = sim::reason_for_one_thread(&scenario)
                    && !found.iter().any(|(label, _)| *label == balancer.label())
                {
                    found.push((balancer.label(), reason));
                }
            }
        }
        found
    }

    pub fn run_count(&self) -> usize {
        let points: usize = self.variants.iter().map(|variant| variant.loads.len()).sum();
        points.saturating_mul(self.balancers.len()).saturating_mul(self.seeds.len())
    }

    fn read_variants(&mut self, document: &Document, inputs: &mut Inputs) -> Result<(), FileError> {
        let mut networks: BTreeMap<String, Arc<Topology>> = BTreeMap::new();
        for (label, mut document) in sweep::expand(document)? {
            failure_text::expand(&mut document)?;
            let top = Section::top(&document)?;
            let network = top.section("topology")?;
            // Variants with the same section share one topology.
            let mut key = String::new();
            for section in std::iter::once(network).chain(top.sections("link")?) {
                key.extend(section.entries().map(|(key, value)| format!("{key}={};", value.inline())));
                key.push('|');
            }
            let network = top.section("topology")?;
            let topology = match networks.get(&key) {
                Some(topology) => topology.clone(),
                None => {
                    let (topology, warnings) = network::read(&network, inputs)?;
                    self.warnings.extend(warnings);
                    let topology = Arc::new(links::apply(&top, topology)?);
                    networks.insert(key, topology.clone());
                    topology
                }
            };
            if topology.hosts().len() < 2 {
                return Err(network.error("spec", "has only one host; flows need at least two"));
            }
            check_hosts(&top, &self.balancers, &topology)?;
            let mut config = settings::read(&top, &topology)?;
            let is_served = services::has_requests(&top);
            check_kinds(&top, &self.balancers, is_served)?;
            control::check_addressing(&top, (config.control.addressing, is_served), &self.balancers, &topology)?;
            control::check_legacy(&top, &config.control.legacy, &self.balancers, is_served)?;
            let traffic = if is_served {
                if config.probes.warm_up > net::Time::ZERO {
                    let error = top.section("probes")?.error("warm_up", "cannot go with [[requests]]");
                    return Err(error.with_hint("start the measured requests later, with requests.start"));
                }
                if !config.probes.capture.links.is_empty() {
                    let error = top.section("probes")?.error("capture", "cannot go with [[requests]]");
                    return Err(error.with_hint("switches rewrite headers of requests, which captures do not show"));
                }
                let (services, traffic) = services::read(&top, &topology, &config.transport)?;
                config.services = Some(services);
                traffic
            } else {
                traffic_plan::read(&top.section("traffic")?, &topology, inputs, self.seeds[0])?
            };
            let servers = config.services.as_ref().map(|services| &services.servers[..]);
            config.control.schedule = timetable::read(&top, &topology, &self.balancers, servers)?;
            self.warnings.extend(traffic.warnings);
            if top.section("topology")?.has("file") {
                let warnings = imported::warnings(&topology, &traffic.plan, &traffic.loads, &config.transport.kind);
                self.warnings.extend(warnings);
            }
            settings::check_fidelity(&top, &self.balancers, &topology, &traffic.plan, &config)?;
            let testbed = testbed::testbed(&top.section("testbed")?)?;
            let canonical = canonical(&document, inputs);
            let (traffic, loads, flow_counts) = (traffic.plan, traffic.loads, traffic.flow_counts);
            self.variants.push(Variant { label, topology, traffic, loads, flow_counts, config, testbed, canonical });
        }
        Ok(())
    }
}

fn apply(document: &mut Document, change: &Override) -> Result<(), FileError> {
    if change.is_text {
        let at = ValueOrigin::Argument(change.argument.as_str().into());
        let value = Value { data: Data::Text(change.value.clone()), at };
        return if change.key == "failure" {
            document.append("failure", value)
        } else {
            document.put(&change.key, value)
        };
    }
    document.set(&change.key, &change.value, &change.argument)
}

fn folder_name(top: &Section<'_>, default: &str) -> Result<String, FileError> {
    let name = top.text("name")?.unwrap_or(default);
    check_folder_name(top, name)?;
    Ok(name.to_owned())
}

pub(crate) fn check_folder_name(section: &Section<'_>, name: &str) -> Result<(), FileError> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(is_plain) {
        let error = section.error("name", format!("`{name}` is not a valid folder name"));
        return Err(error.with_hint("use letters, digits, `-`, `_`, `+` and `.`"));
    }
    Ok(())
}

/// Reads how balancers are compared.
fn rule(top: &Section<'_>) -> Result<Rule, FileError> {
    let Rule { margin, confidence, .. } = Rule::default();
    Ok(Rule {
        rank_by: rank_by(top)?,
        margin: top.positive("margin")?.unwrap_or(margin),
        confidence: top.positive("confidence")?.unwrap_or(confidence),
    })
}

/// Reads `rank_by`. The default for senders that do not react to congestion is throughput, and for
/// collectives group time, because what waits for a collective waits for its last flow.
fn rank_by(top: &Section<'_>) -> Result<Measure, FileError> {
    if let Some(measure) = top.choice("rank_by")?.and_then(Measure::from_name) {
        return Ok(measure);
    }
    let traffic = top.section("traffic")?;
    Ok(match top.section("transport")?.text("kind")? {
        Some("udp") => Measure::Throughput,
        _ if traffic.has("collective") || traffic.has("trace") => Measure::GroupTime,
        _ => Measure::Slowdown,
    })
}

fn seeds(top: &Section<'_>) -> Result<Vec<u64>, FileError> {
    let Some(value) = top.get("seeds") else { return Ok(vec![1, 2, 3]) };
    let Data::List(items) = &value.data else {
        let count = top.count("seeds")?.unwrap_or(3);
        return Ok((1..=count).collect());
    };
    let mut seeds = Vec::new();
    for item in items {
        let Data::Integer(seed @ 0..) = item.data else {
            return Err(top.document.error(&item.at, "seeds", "a seed must be a whole number, 0 or more"));
        };
        if seeds.contains(&(seed as u64)) {
            return Err(top.document.error(&item.at, "seeds", format!("{seed} is listed twice")));
        }
        seeds.push(seed as u64);
    }
    match seeds.is_empty() {
        true => Err(top.error("seeds", "is an empty list").with_hint("write a number of seeds, such as 10")),
        false => Ok(seeds),
    }
}

fn balancers(top: &Section<'_>, others: &[&'static balance::Entry]) -> Result<Vec<balance::Spec>, FileError> {
    let mut balancers: Vec<balance::Spec> = Vec::new();
    for value in top.list("balancers") {
        let at = |message: String| top.document.error(&value.at, "balancers", message);
        let Data::Text(text) = &value.data else {
            return Err(at(format!("must be text in quotes, not {}", value.kind())));
        };
        for spec in balance::Spec::parse_list_with(text, others).map_err(|cause| at(cause.to_string()))? {
            if balancers.iter().any(|other| other.label() == spec.label()) {
                return Err(at(format!("`{}` is listed twice", spec.label())));
            }
            balancers.push(spec);
        }
    }
    match balancers.is_empty() {
        true => Err(top.missing("balancers").with_hint("name some, such as balancers = [\"ecmp\", \"spray\"]")),
        false => Ok(balancers),
    }
}

fn check_kinds(top: &Section<'_>, balancers: &[balance::Spec], is_served: bool) -> Result<(), FileError> {
    let Some(other) = balancers.iter().find(|spec| spec.entry.is_server() != is_served) else { return Ok(()) };
    let values = top.list("balancers");
    let at = values.iter().find(|value| matches!(&value.data, Data::Text(text) if text.contains(other.entry.name)));
    let name = other.entry.name;
    let (message, hint) = if is_served {
        let message = format!("`{name}` is not a server balancer, and the file has requests to services");
        (message, "use balancers such as server-rr or sl-ps; `control.routing` sets their routing")
    } else {
        let message = format!("`{name}` is a server balancer, and the file has only flows between hosts");
        (
            message,
            "use a dataplane or central balancer (`anabranch list balancers`), or add [[server]], [[service]] and [[requests]]",
        )
    };
    let error = match at {
        Some(value) => top.document.error(&value.at, "balancers", message),
        None => top.error("balancers", message),
    };
    Err(error.with_hint(hint))
}

fn check_hosts(top: &Section<'_>, balancers: &[balance::Spec], topology: &Topology) -> Result<(), FileError> {
    let is_controlled = |spec: &&balance::Spec| spec.entry.is_central() || spec.entry.is_server();
    let Some(central) = balancers.iter().find(is_controlled) else { return Ok(()) };
    let is_plain = |host: &net::NodeIx| topology.out_links(*host).len() == 1 && !topology.node(*host).forwards;
    let Some(host) = topology.hosts().iter().find(|host| !is_plain(host)) else { return Ok(()) };
    let name = &topology.node(*host).name;
    let message =
        format!("`{}` needs hosts with one link each, and host `{name}` has several or forwards", central.entry.name);
    Err(top.error("balancers", message).with_hint("leave it out, or use a topology such as fat-tree:k=4"))
}

fn rendered(document: &Document, inputs: &Inputs, claims: &[bool]) -> String {
    let mut document = document.clone();
    if let Some(Data::List(items)) = document.root.get_mut("expect").map(|entry| &mut entry.value.data) {
        let mut kept = claims.iter();
        items.retain(|_| kept.next().is_none_or(|kept| *kept));
        if items.is_empty() {
            document.root.remove("expect");
        }
    }
    replace_paths(&mut document, inputs, &|stored, _| format!("inputs/{stored}"));
    document.render()
}

/// Returns a text of everything the runs of a variant depend on: paths are replaced by file
/// contents, sweep axes and descriptions are left out.
fn canonical(document: &Document, inputs: &Inputs) -> String {
    let mut document = document.clone();
    replace_paths(&mut document, inputs, &|stored, digest| {
        // The file extension selects the reader, so it belongs to the content.
        let extension = stored.rsplit('.').next().unwrap_or_default();
        format!("{digest:032x}.{extension}")
    });
    for key in
        "name title question source seeds balancers rank_by margin confidence sweep matrix expect validation testbed"
            .split(' ')
    {
        document.root.remove(key);
    }
    if let Some(Data::Table(traffic)) = document.root.get_mut("traffic").map(|entry| &mut entry.value.data) {
        traffic.remove("load");
    }
    document.render()
}

fn replace_paths(document: &mut Document, inputs: &Inputs, with: &dyn Fn(&str, u128) -> String) {
    let replace = |key: &str, value: &mut Value| {
        if let Data::Text(text) = &mut value.data
            && let Some(path) = inputs.replace(key, text, with)
        {
            *text = path;
        }
    };
    for (section, entry) in &mut document.root {
        let Data::Table(table) = &mut entry.value.data else { continue };
        for (key, entry) in table {
            match &mut entry.value.data {
                Data::List(items) if section == "sweep" => items.iter_mut().for_each(|item| replace(key, item)),
                _ => replace(&format!("{section}.{key}"), &mut entry.value),
            }
        }
    }
}

#[cfg(test)]
mod failure_tests;
#[cfg(test)]
mod tests;
