//! `anabranch list`: the registries of balancers, topologies and other choices.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use config::keys::{Key, Layout};
use experiment::claims::{METRICS, MetricInfo, Unit};
use serde_json::{Value, json};

use crate::error::CliError;
use crate::shipped;

/// List balancers, topologies, workloads, …
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  anabranch list topologies\n  anabranch list balancers conga hermes    these two alone\n  \
                        anabranch list keys traffic.load"
)]
pub struct Args {
    /// Kind of items to list
    what: What,
    /// List these items only
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the JSON Schema of the file, for editors: of keys, settings, indexes
    #[arg(long, conflicts_with_all = ["json", "names"])]
    schema: bool,
    /// Folder of experiment files, for `list experiments`
    #[arg(long, value_name = "DIR", default_value = "experiments", value_parser = shipped::path)]
    folder: PathBuf,
}

/// Returns a list as `anabranch list WHAT --json` prints it.
///
/// # Errors
/// There is no list of this name.
pub fn json(what: &str) -> Result<String, CliError> {
    let what = What::from_str(what, false).map_err(|_| CliError::new(format!("there is no list of `{what}`")))?;
    Ok(to_json(&items(what, &shipped::path("experiments").map_err(CliError::new)?)?))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    Balancers,
    Topologies,
    Workloads,
    Patterns,
    Arrivals,
    Collectives,
    Transports,
    /// Addressing modes of the controller
    Addressing,
    Experiments,
    /// Metrics of claims, reproductions and validations
    Metrics,
    /// Keys of experiment files
    Keys,
    /// Keys of configuration files of `anabranch serve`
    #[cfg(feature = "network")]
    Settings,
    /// Keys of indexes of reproductions (`reproduce.toml`)
    Indexes,
}

struct Item {
    name: String,
    /// Of balancers: where they decide.
    kind: Option<&'static str>,
    summary: String,
    source: String,
    parameters: Vec<Parameter>,
    more: Vec<(&'static str, Value)>,
}

struct Parameter {
    name: String,
    default: String,
    doc: String,
    /// Accepted values as text, if known.
    takes: Option<String>,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    if args.schema {
        let schema = schema(args.what)?;
        return Ok(writeln!(std::io::stdout(), "{schema:#}")?);
    }
    let items = named(items(args.what, &args.folder)?, &args.names)?;
    let text = if args.json { to_json(&items) } else { to_text(&items) + explanation(args.what) };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

fn items(what: What, folder: &Path) -> Result<Vec<Item>, CliError> {
    Ok(match what {
        What::Balancers => balancers(),
        What::Topologies => net::spec::FAMILIES.iter().map(topology).collect(),
        What::Workloads => workloads(),
        What::Patterns => {
            traffic::PATTERNS.iter().map(|p| of_traffic(p.name, p.title, p.source, p.parameters)).collect()
        }
        What::Arrivals => traffic::ARRIVALS.iter().map(|a| of_traffic(a.name, a.title, "", a.parameters)).collect(),
        What::Collectives => {
            traffic::COLLECTIVES.iter().map(|c| of_traffic(c.name, c.title, "", c.parameters)).collect()
        }
        What::Transports => transports(),
        What::Addressing => net::ADDRESSING_MODES.iter().map(addressing).collect(),
        What::Experiments => experiments(folder)?,
        What::Metrics => metrics(),
        What::Keys => key_items(&experiment::input::LAYOUT),
        #[cfg(feature = "network")]
        What::Settings => key_items(&daemon::config::LAYOUT),
        What::Indexes => key_items(&experiment::reproduction::LAYOUT),
    })
}

fn named(mut items: Vec<Item>, names: &[String]) -> Result<Vec<Item>, CliError> {
    for name in names {
        if !items.iter().any(|item| item.name == *name) {
            let hint = net::did_you_mean::suggestion(name, items.iter().map(|item| item.name.as_str()));
            return Err(CliError::new(format!("`{name}` is not in the list")).with_hint(hint));
        }
    }
    items.retain(|item| names.is_empty() || names.contains(&item.name));
    Ok(items)
}

/// Explains the marks of a list; empty if they are self-explanatory.
fn explanation(what: What) -> &'static str {
    match what {
        What::Balancers => {
            "\n`parameter [default]: meaning`; write name:parameter=value,parameter=value, such as ecmp:hash=threshold.\n\
             Decided by: dataplane: switches and hosts; central: a controller; server: where servers are picked for requests; none: a bound, \
             the best possible result.\n\
             `from`: P… and S… are numbers in the catalogue of mechanisms this project began with, F0 to F7 the studies it \
             reproduces (`anabranch reproduce --list`).\n\
             More on each: its page in the book (scripts/book), and its example, `anabranch run experiments/balancers/NAME.toml`.\n"
        }
        What::Topologies | What::Workloads | What::Patterns | What::Arrivals | What::Collectives => {
            "\n`parameter [default]: meaning`; write name:parameter=value,parameter=value, such as fat-tree:k=8.\n"
        }
        What::Addressing => {
            "\nWrite addressing = \"NAME\" in `[control]` of an experiment file or of the configuration of `anabranch serve`; \
             the chapter \"Addressing\" of the book compares them.\n"
        }
        What::Transports => "\n`key [default]: meaning`; keys are those of `[transport]` in an experiment file.\n",
        What::Keys => {
            "\n`section.key`, what it means (what it takes) [default]; `traffic.load` is `load` below `[traffic]` in the file, or \
             --set traffic.load=0.3.\n"
        }
        #[cfg(feature = "network")]
        What::Settings => {
            "\n`section.key`, what it means (what it takes) [default]; `anabranch serve --config FILE.toml` reads them.\n"
        }
        What::Indexes => {
            "\n`section.key`, what it means (what it takes) [default]; `anabranch reproduce` reads indexes.\n"
        }
        What::Experiments | What::Metrics => "",
    }
}

fn to_text(items: &[Item]) -> String {
    let mut out = String::new();
    for item in items {
        let kind = item.kind.map_or_else(String::new, |kind| format!(" ({kind})"));
        out += &format!("{}{kind}\n    {}\n", item.name, item.summary);
        if !item.source.is_empty() {
            out += &format!("    from {}\n", item.source);
        }
        for Parameter { name, default, doc, .. } in &item.parameters {
            out += &format!("    {name} [{default}]: {doc}\n");
        }
    }
    out
}

fn to_json(items: &[Item]) -> String {
    let parameter = |p: &Parameter| {
        let mut value = json!({ "name": p.name, "default": p.default, "doc": p.doc });
        if let Some(takes) = &p.takes {
            value["takes"] = json!(takes);
        }
        value
    };
    let items: Vec<Value> = items
        .iter()
        .map(|item| {
            let parameters: Vec<Value> = item.parameters.iter().map(parameter).collect();
            let mut value =
                json!({ "name": item.name, "summary": item.summary, "source": item.source, "parameters": parameters });
            if let Some(kind) = item.kind {
                value["kind"] = json!(kind);
            }
            for (name, fact) in &item.more {
                value[*name] = fact.clone();
            }
            value
        })
        .collect();
    format!("{:#}\n", Value::Array(items))
}

fn item(name: &str, summary: &str, source: &str, parameters: Vec<Parameter>) -> Item {
    Item {
        name: name.to_owned(),
        kind: None,
        summary: summary.to_owned(),
        source: source.to_owned(),
        parameters,
        more: Vec::new(),
    }
}

fn parameter(name: &str, default: &str, unit: &str, doc: &str) -> Parameter {
    let default =
        if unit.is_empty() || default.contains(unit) { default.to_owned() } else { format!("{default} {unit}") };
    Parameter { name: name.to_owned(), default, doc: doc.to_owned(), takes: None }
}

fn balancers() -> Vec<Item> {
    let of = |entry: &balance::Entry| {
        let of = |p: &balance::Param| Parameter {
            takes: Some(p.kind.takes()),
            ..parameter(p.name, p.default, p.unit, p.doc)
        };
        let parameters = entry.params.iter().map(of).collect();
        let platforms: Vec<&str> = entry.platforms().iter().map(|platform| platform.describe()).collect();
        let more = vec![
            ("title", json!(entry.title)),
            ("decides", json!(entry.decides())),
            ("unit", json!(entry.granularity.describe())),
            ("reorders", json!(entry.reorders().describe())),
            ("senses", json!(entry.senses)),
            ("platforms", json!(platforms)),
            ("example", json!(entry.example)),
        ];
        Item { kind: Some(entry.kind()), more, ..item(entry.name, entry.summary, entry.source, parameters) }
    };
    balance::registry::all().map(of).collect()
}

fn topology(family: &net::spec::Family) -> Item {
    let parameters = family.params.iter().map(|p| parameter(p.name, p.default, "", p.doc)).collect();
    item(family.name, family.title, family.source, parameters)
}

fn addressing(info: &net::AddressingInfo) -> Item {
    let balancers = if info.balancers.is_empty() { "all".to_owned() } else { info.balancers.join(", ") };
    let text = format!("{}: {} (balancers: {balancers})", info.title, info.summary);
    item(info.name, &text, info.source, Vec::new())
}

fn of_traffic(name: &str, title: &str, source: &str, parameters: &[traffic::Parameter]) -> Item {
    item(name, title, source, parameters.iter().map(|p| parameter(p.name, p.default, "", p.doc)).collect())
}

fn workloads() -> Vec<Item> {
    let published = traffic::WORKLOADS.iter().map(|w| item(w.name, w.title, w.source, Vec::new()));
    let made = traffic::PARAMETRIC.iter().map(|(name, title, ps)| of_traffic(name, title, "", ps));
    published.chain(made).collect()
}

fn transports() -> Vec<Item> {
    let keys = |about: &sim::About| {
        let known = experiment::input::LAYOUT.of("transport").filter(|key| about.reads(key.name));
        known.map(|key| parameter(key.name, key.default, "", key.doc)).collect()
    };
    let of = |about: &sim::About| {
        item(about.name, &format!("{}: {}", about.title, about.summary), about.source, keys(about))
    };
    sim::TransportKind::ALL.iter().map(of).collect()
}

fn metrics() -> Vec<Item> {
    let unit = |unit| match unit {
        Unit::Time => "us",
        Unit::Share => "share, 0 to 1",
        Unit::BytesPerS => "bytes per second",
        Unit::Plain => "number",
    };
    let of = |metric: &MetricInfo| Item {
        more: vec![("unit", json!(unit(metric.unit)))],
        ..item(metric.name, &format!("{} ({})", metric.doc, unit(metric.unit)), "", Vec::new())
    };
    METRICS.iter().map(of).collect()
}

fn schema(what: What) -> Result<Value, CliError> {
    match what {
        What::Keys => Ok(config::schema::schema(&experiment::input::LAYOUT, "An experiment of anabranch")),
        #[cfg(feature = "network")]
        What::Settings => Ok(daemon::config::schema()),
        What::Indexes => Ok(config::schema::schema(&experiment::reproduction::LAYOUT, "An index of a reproduction")),
        _ => Err(CliError::new("only files have a schema").with_hint("use it with `keys`, `settings` or `indexes`")),
    }
}

/// Returns the keys of a file, including those of sections that may be repeated.
fn key_items(layout: &Layout) -> Vec<Item> {
    let of = |key: &Key| {
        let dot = if key.section.is_empty() { "" } else { "." };
        let more = vec![
            ("takes", json!(key.kind.to_string())),
            ("schema", key.kind.schema()),
            ("default", json!(key.default)),
            ("doc", json!(key.doc)),
            ("is_repeated", json!(layout.repeated.contains(&key.section))),
        ];
        let summary = format!("{} ({}) [{}]", key.doc, key.kind, key.default);
        Item { more, ..item(&format!("{}{dot}{}", key.section, key.name), &summary, "", Vec::new()) }
    };
    layout.keys.iter().map(of).collect()
}

fn experiments(folder: &Path) -> Result<Vec<Item>, CliError> {
    let mut items = Vec::new();
    for file in experiment_files(folder)
        .map_err(|failure| failure.with_hint("name a folder of experiment files with --folder"))?
    {
        let headline = experiment::input::Headline::read(&file)?;
        let name = shipped::name(&file).display().to_string();
        items.push(item(&name, &headline.text, &headline.source, Vec::new()));
    }
    Ok(items)
}

pub fn experiment_files(folder: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    collect(folder, &mut files)
        .map_err(|cause| CliError::new(format!("cannot read the folder {}", folder.display())).caused_by(cause))?;
    files.sort();
    Ok(files)
}

/// Collects all `.toml` files below a folder except indexes of reproductions.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml")
            && !experiment::reproduction::is_index(&path)
        {
            files.push(path);
        }
    }
    Ok(())
}
