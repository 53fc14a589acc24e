//! The experiment file: what is compared, on what network, under what traffic, how often.
//!
//! A TOML file with units in its values; [`KEYS`] lists every key. Any key can be overridden from the command line and
//! swept over: a `[sweep]` of `"transport.min_rto" = ["5ms", "200ms"]` makes one *variant* of the experiment for each
//! value. Unknown keys are refused with the nearest known one, and every mistake is shown where it is written.
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

mod agree;
mod control;
mod describe;
pub(crate) mod expect;
mod failure_text;
mod failures;
mod headline;
mod inputs;
mod keys;
mod network;
mod services;
mod settings;
mod sweep;
mod table;
mod testbed;
mod traffic_plan;
mod traffic_sources;
mod transport;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use net::Topology;
use sim::SimConfig;

pub use headline::Headline;
pub use inputs::Input;
pub use keys::{KEYS, REPEATED};
pub use net::mistake::{FileError, Mistake, Place};
pub use testbed::{Asking, Datapath, KnownHosts, RuleSource, TestbedConfig, TrafficSource, Turns};
pub use traffic_plan::{TrafficPlan, bisection};

use crate::agreement::Terms;
use crate::claims::Claim;
use crate::summary::Measure;

use inputs::Inputs;
use net::document::{At, Data, Document, Value};
use net::section::Section;

/// A checked experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Short name.
    pub name: String,
    /// One line for reports.
    pub title: Option<String>,
    /// What it is to find out.
    pub question: Option<String>,
    /// Where it comes from.
    pub source: Option<String>,
    /// Heading of its columns in a matrix.
    pub column: Option<String>,
    /// What balancers are ranked by.
    pub measure: Measure,
    /// Seeds of the runs, the same for every balancer.
    pub seeds: Vec<u64>,
    /// What is compared.
    pub balancers: Vec<balance::Spec>,
    /// One per combination of swept values; exactly one without a sweep.
    pub variants: Vec<Variant>,
    /// Published claims the results are held against; they change no run.
    pub claims: Vec<Claim>,
    /// Claims of the file that what was given on the command line leaves out, and why.
    pub left_out: Vec<String>,
    /// What two worlds are to agree on; it changes no run.
    pub agree: Terms,
    /// What to look at before trusting the result.
    pub warnings: Vec<String>,
    /// The file in full, overrides included: running it again gives the same again.
    pub file: String,
    /// Files it refers to, which `file` expects in a folder `inputs` beside it.
    pub inputs: Vec<Input>,
}

/// The experiment with one combination of swept values.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The values, as `key=value` joined by `, `; empty without a sweep.
    pub label: String,
    /// The network, shared by variants that do not change it.
    pub topology: Arc<Topology>,
    /// What is sent.
    pub traffic: TrafficPlan,
    /// Offered loads; one `None` where traffic sets its own rate.
    pub loads: Vec<Option<f64>>,
    /// Number of flows at each load with the first seed.
    pub flow_counts: Vec<u64>,
    /// Everything else of a run.
    pub config: SimConfig,
    /// How it is carried out on an emulated network.
    pub testbed: TestbedConfig,
    /// Everything its runs depend on except balancer, load and seed, in one fixed form; see [`crate::plan`].
    pub canonical: String,
}

/// A value given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Dotted key, such as `traffic.load`.
    pub key: String,
    /// The value, as TOML where it is TOML, else taken as text.
    pub value: String,
    /// How the user wrote it, such as `--set traffic.load=0.3`; named in messages.
    pub argument: String,
    /// Whether the value is text even if it looks like a number.
    pub is_text: bool,
}

impl Override {
    /// As `--set key=value` gives it.
    pub fn set(key: &str, value: &str) -> Override {
        let argument = format!("--set {key}={value}");
        Override { key: key.to_owned(), value: value.to_owned(), argument, is_text: false }
    }
    /// Text given by another option, which messages will name; texts for `failure` are added to those there are.
    pub fn text(key: &str, value: &str, argument: String) -> Override {
        Override { key: key.to_owned(), value: value.to_owned(), argument, is_text: true }
    }
}

/// How much of an experiment is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it.
    Whole,
    /// What `[table]` says.
    Representative,
}

/// Most runs of one experiment.
const RUNS_MAX: usize = 1_000_000;

impl Experiment {
    /// Reads an experiment file and checks it, with everything it refers to.
    ///
    /// # Errors
    /// The first mistake found, where it is written and what would do.
    pub fn load(path: &Path, overrides: &[Override]) -> Result<Experiment, FileError> {
        Experiment::load_as(path, overrides, Extent::Whole)
    }

    /// The same reduced to what its `[table]` section says represents it among other experiments; the overrides come
    /// after the section.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn load_for_matrix(path: &Path, overrides: &[Override]) -> Result<Experiment, FileError> {
        Experiment::load_as(path, overrides, Extent::Representative)
    }

    fn load_as(path: &Path, overrides: &[Override], extent: Extent) -> Result<Experiment, FileError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let failure = FileError::new(Place::File(name.clone()), "", "cannot read the experiment file");
            failure.with_cause(error).with_hint(match path.is_dir() {
                true => "it is a folder: name a file in it, or compare over all of them with `anabranch matrix FOLDER`",
                false => "`anabranch list experiments --folder DIR` shows the files of a folder",
            })
        })?;
        if text.trim().is_empty() {
            let failure = FileError::new(Place::File(name), "", "the experiment file is empty");
            return Err(failure
                .with_hint("begin with the experiment.toml that `anabranch compare` writes into its results folder"));
        }
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("experiment");
        let base = path.parent().unwrap_or(Path::new(""));
        Experiment::parse_as(&name, &text, (stem, base), overrides, extent)
    }

    /// The same from text. `file` names it in messages, `name` is the experiment's unless it gives one, and paths are
    /// relative to `base`.
    ///
    /// # Errors
    /// As [`Experiment::load`].
    pub fn parse(
        file: &str,
        text: &str,
        name: &str,
        base: &Path,
        overrides: &[Override],
    ) -> Result<Experiment, FileError> {
        Experiment::parse_as(file, text, (name, base), overrides, Extent::Whole)
    }

    fn parse_as(
        file: &str,
        text: &str,
        (name, base): (&str, &Path),
        overrides: &[Override],
        extent: Extent,
    ) -> Result<Experiment, FileError> {
        let mut document = Document::parse(file, text, &keys::LAYOUT)?;
        let is_reduced = extent == Extent::Representative && document.root.contains_key("table");
        match extent {
            Extent::Whole => table::check(&document)?,
            Extent::Representative => table::apply(&mut document)?,
        }
        for change in overrides {
            apply(&mut document, change)?;
        }
        expect::expand(&mut document);
        let top = Section::top(&document)?;
        let mut experiment = Experiment {
            name: plain_name(&top, name)?,
            title: top.text("title")?.map(str::to_owned),
            question: top.text("question")?.map(str::to_owned),
            source: top.text("source")?.map(str::to_owned),
            column: table::title(&top)?,
            measure: measure(&top)?,
            seeds: seeds(&top)?,
            balancers: balancers(&top)?,
            variants: Vec::new(),
            claims: Vec::new(),
            left_out: Vec::new(),
            agree: Terms::default(),
            warnings: Vec::new(),
            file: String::new(),
            inputs: Vec::new(),
        };
        let mut inputs = Inputs::new(base);
        experiment.read_variants(&document, &mut inputs)?;
        let expected = expect::read(&top, &experiment, is_reduced)?;
        (experiment.claims, experiment.left_out) = (expected.claims, expected.left_out);
        experiment.agree = agree::read(&top, &experiment)?;
        experiment.warnings.sort();
        experiment.warnings.dedup();
        let unchanged = overrides.is_empty() && !is_reduced && inputs.files.is_empty();
        experiment.file = if unchanged { text.to_owned() } else { rendered(&document, &inputs, &expected.kept) };
        experiment.inputs = inputs.files;
        let runs = experiment.run_count();
        if runs > RUNS_MAX {
            let message = format!("makes {runs} runs; at most {RUNS_MAX} are allowed");
            return Err(top.error("sweep", message));
        }
        Ok(experiment)
    }

    /// Number of runs: variants × loads × balancers × seeds.
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
            // Variants that agree on the section share one topology.
            let key = network.entries().map(|(key, value)| format!("{key}={};", value.inline())).collect::<String>();
            let topology = match networks.get(&key) {
                Some(topology) => topology.clone(),
                None => {
                    let (topology, warnings) = network::read(&network, inputs)?;
                    self.warnings.extend(warnings);
                    let topology = Arc::new(topology);
                    networks.insert(key, topology.clone());
                    topology
                }
            };
            if topology.hosts().len() < 2 {
                return Err(network.error("spec", "has one host only, so there is nobody to send to"));
            }
            check_hosts(&top, &self.balancers, &topology)?;
            let mut config = settings::read(&top, &topology)?;
            let is_served = services::is_asked_for(&top);
            check_kinds(&top, &self.balancers, is_served)?;
            let traffic = if is_served {
                let (services, traffic) = services::read(&top, &topology, &config.transport.kind)?;
                config.services = Some(services);
                traffic
            } else {
                traffic_plan::read(&top.section("traffic")?, &topology, inputs, self.seeds[0])?
            };
            self.warnings.extend(traffic.warnings);
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
        let at = At::Argument(change.argument.as_str().into());
        if change.key == "failure" {
            return document.append("failure", Value { data: Data::Text(change.value.clone()), at });
        }
        return document.put(&change.key, Value { data: Data::Text(change.value.clone()), at });
    }
    document.set(&change.key, &change.value, &change.argument)
}

/// The name becomes a folder, so it must be one.
fn plain_name(top: &Section<'_>, default: &str) -> Result<String, FileError> {
    let name = top.text("name")?.unwrap_or(default);
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        let error = top.error("name", format!("`{name}` cannot name a folder"));
        return Err(error.with_hint("use letters, digits, `-`, `_`, `+` and `.`"));
    }
    Ok(name.to_owned())
}

/// Without a word for it, what senders do that react to nothing is measured by what arrives.
fn measure(top: &Section<'_>) -> Result<Measure, FileError> {
    Ok(match top.choice("measure", &["slowdown", "throughput"])? {
        Some(0) => Measure::Slowdown,
        Some(_) => Measure::Throughput,
        None if top.section("transport")?.text("kind")? == Some("udp") => Measure::Throughput,
        None => Measure::Slowdown,
    })
}

fn seeds(top: &Section<'_>) -> Result<Vec<u64>, FileError> {
    const SEEDS_MAX: u64 = 100_000;
    let Some(value) = top.get("seeds") else { return Ok(vec![1, 2, 3]) };
    let Data::List(items) = &value.data else {
        let count = top.count("seeds", 1..=SEEDS_MAX)?.unwrap_or(3);
        return Ok((1..=count).collect());
    };
    let mut seeds = Vec::new();
    for item in items {
        let Data::Integer(seed @ 0..) = item.data else {
            return Err(top.document.error(&item.at, "seeds", "a seed is a whole number, 0 or more"));
        };
        if seeds.contains(&(seed as u64)) {
            return Err(top.document.error(&item.at, "seeds", format!("{seed} is there twice")));
        }
        seeds.push(seed as u64);
    }
    match seeds.is_empty() {
        true => Err(top.error("seeds", "is an empty list").with_hint("write a number of seeds, such as 10")),
        false => Ok(seeds),
    }
}

fn balancers(top: &Section<'_>) -> Result<Vec<balance::Spec>, FileError> {
    let mut balancers: Vec<balance::Spec> = Vec::new();
    for value in top.list("balancers") {
        let at = |message: String| top.document.error(&value.at, "balancers", message);
        let Data::Text(text) = &value.data else {
            return Err(at(format!("must be text in quotes, not {}", value.kind())));
        };
        for spec in balance::Spec::parse_list(text).map_err(|cause| at(cause.to_string()))? {
            if balancers.iter().any(|other| other.label() == spec.label()) {
                return Err(at(format!("`{}` is there twice", spec.label())));
            }
            balancers.push(spec);
        }
    }
    match balancers.is_empty() {
        true => Err(top.missing("balancers").with_hint("name some, such as balancers = [\"ecmp\", \"spray\"]")),
        false => Ok(balancers),
    }
}

/// Requests need balancers that pick servers, and flows between hosts those that do not.
fn check_kinds(top: &Section<'_>, balancers: &[balance::Spec], is_served: bool) -> Result<(), FileError> {
    let Some(other) = balancers.iter().find(|spec| spec.entry.is_server() != is_served) else { return Ok(()) };
    let values = top.list("balancers");
    let at = values.iter().find(|value| matches!(&value.data, Data::Text(text) if text.contains(other.entry.name)));
    let name = other.entry.name;
    let (message, hint) = if is_served {
        let message = format!("`{name}` picks no servers, and the file has requests to services");
        (message, "take those such as server-rr or sl-ps; what goes on beneath them is `control.base`")
    } else {
        let message = format!("`{name}` picks servers for requests, and the file has none, only flows between hosts");
        (
            message,
            "take a dataplane or central balancer (`anabranch list balancers`), or add [[server]], [[service]] and [[requests]]",
        )
    };
    let error = match at {
        Some(value) => top.document.error(&value.at, "balancers", message),
        None => top.error("balancers", message),
    };
    Err(error.with_hint(hint))
}

/// Controllers do not reach into hosts that have several links or forward.
fn check_hosts(top: &Section<'_>, balancers: &[balance::Spec], topology: &Topology) -> Result<(), FileError> {
    let is_controlled = |spec: &&balance::Spec| spec.entry.is_central() || spec.entry.is_server();
    let Some(central) = balancers.iter().find(is_controlled) else { return Ok(()) };
    let is_plain = |host: &net::NodeIx| topology.out_links(*host).len() == 1 && !topology.node(*host).forwards;
    let Some(host) = topology.hosts().iter().find(|host| !is_plain(host)) else { return Ok(()) };
    let name = &topology.node(*host).name;
    let message =
        format!("`{}` needs hosts with one link each, and host `{name}` has several or forwards", central.entry.name);
    Err(top.error("balancers", message).with_hint("leave it out, or take a topology such as fat-tree:k=4"))
}

/// The file with overrides, with paths into the `inputs` folder, and with these of its claims.
fn rendered(document: &Document, inputs: &Inputs, claims: &[bool]) -> String {
    let mut document = document.clone();
    if let Some(Data::List(items)) = document.root.get_mut("expect").map(|entry| &mut entry.value.data) {
        let mut kept = claims.iter();
        items.retain(|_| kept.next().is_none_or(|kept| *kept));
        if items.is_empty() {
            document.root.remove("expect");
        }
    }
    replace_paths(&mut document, inputs, &|input| format!("inputs/{}", input.stored));
    document.render(&keys::order)
}

/// What the runs of a variant depend on: paths replaced by the content of the files, axes and words left out.
fn canonical(document: &Document, inputs: &Inputs) -> String {
    let mut document = document.clone();
    replace_paths(&mut document, inputs, &|input| {
        // The end of the name chooses the reader, so it belongs to the content.
        let extension = input.stored.rsplit('.').next().unwrap_or_default();
        format!("{:032x}.{extension}", xxhash_rust::xxh3::xxh3_128(input.text.as_bytes()))
    });
    for key in [
        "name",
        "title",
        "question",
        "source",
        "seeds",
        "balancers",
        "measure",
        "sweep",
        "table",
        "expect",
        "agree",
        "testbed",
    ] {
        document.root.remove(key);
    }
    if let Some(Data::Table(traffic)) = document.root.get_mut("traffic").map(|entry| &mut entry.value.data) {
        traffic.remove("load");
    }
    document.render(&keys::order)
}

fn replace_paths(document: &mut Document, inputs: &Inputs, with: &dyn Fn(&Input) -> String) {
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
mod tests;
