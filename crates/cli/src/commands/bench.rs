//! `anabranch bench`: speed of the simulator, compared with a reference program in the same run;
//! for controllers see `bench_controller`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use clap::{Args as ClapArgs, Subcommand};
use comfy_table::Table;
use serde_json::{Value, json};
use sim::benchmark_scenarios::{self, BenchmarkScenario};

#[cfg(feature = "network")]
use crate::commands::bench_controller;
use crate::error::CliError;

/// Measure the speed of the simulator on fixed scenarios, and of controllers
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    target: Target,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one value for each run of the program")]
enum Target {
    Sim(SimArgs),
    #[cfg(feature = "network")]
    Controller(bench_controller::Args),
}

/// Packet-hops per CPU second on the scenarios that `benches/peers/` runs in other simulators
#[derive(Debug, ClapArgs)]
#[command(after_help = "With the ns-3 programs, built as benches/peers/ns3/README.md says:\n  anabranch bench sim \
                        --scenarios S1,S3,S4 --reference benches/peers/ns3/peer \
                        --reference benches/peers/ns3/peer-pypi")]
struct SimArgs {
    /// Scenarios, in order; those ending in L are the long versions
    #[arg(long, value_name = "IDS", default_value = "S1,S2,S3,S4", value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Runs of each scenario and program; the table shows the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Program of `benches/peers/ns3` to compare with; may be repeated. The programs and the
    /// simulator take turns, run by run
    #[arg(long = "reference", value_name = "PROGRAM")]
    references: Vec<PathBuf>,
    /// Threads of a run; with several the table also has the wall time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Balancers instead of those of the scenarios, each compared with the first one; they take
    /// turns, run by run
    #[arg(long, value_name = "SPECS", conflicts_with = "references")]
    balancers: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Run one scenario in this process and print its figures as JSON
    #[arg(long, hide = true, value_name = "ID")]
    one: Option<String>,
}

const OWN_NAME: &str = concat!("anabranch ", env!("CARGO_PKG_VERSION"));

/// Figures of one run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    packet_hops: u64,
    cpu_s: f64,
    /// Unknown for the reference program.
    wall_s: Option<f64>,
    peak_rss_bytes: u64,
}

impl Figures {
    fn rate(&self) -> f64 {
        self.packet_hops as f64 / self.cpu_s
    }
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), CliError> {
    let args = match &args.target {
        Target::Sim(args) => args,
        #[cfg(feature = "network")]
        Target::Controller(args) => return bench_controller::execute(args),
    };
    match &args.one {
        Some(id) => run_one(id, args.balancers.as_deref(), args.threads),
        None if args.balancers.is_some() => run_balancers(args),
        None => run_all(args),
    }
}

fn scenario(id: &str) -> Result<BenchmarkScenario, CliError> {
    benchmark_scenarios::scenario(id).map_err(|error| CliError::of(&error))?.ok_or_else(|| {
        CliError::new(format!("unknown scenario `{id}`"))
            .with_hint(format!("they are {}", benchmark_scenarios::IDS.join(", ")))
    })
}

/// Runs a scenario in this process, which has no other work, so that its CPU time and memory are
/// those of the scenario.
fn run_one(id: &str, balancer: Option<&str>, threads: u16) -> Result<(), CliError> {
    let mut s = scenario(id)?;
    if let Some(text) = balancer {
        s.balancer = balance::Spec::parse(text).map_err(|error| CliError::of(&error))?;
    }
    let scenario =
        sim::Scenario { topology: &s.topology, flows: &s.flows, balancer: &s.balancer, seed: 1, config: &s.config };
    let began = Instant::now();
    let (outcome, _) = experiment::run::controller::run(&scenario, usize::from(threads), &mut |_| true)
        .map_err(|error| CliError::of(&error))?;
    let figures = json!({
        "packet_hops": outcome.engine.packet_hops,
        "events": outcome.engine.events,
        "flows_completed": outcome.accounting.flows_completed,
        "flows_started": outcome.accounting.flows_started,
        "cpu_s": cpu_seconds()?,
        "wall_s": began.elapsed().as_secs_f64(),
        "peak_rss_bytes": experiment::peak_rss_bytes(),
    });
    Ok(writeln!(std::io::stdout(), "{figures}")?)
}

/// Medians of a scenario; `None` for a reference program that does not know it.
struct Row {
    id: String,
    title: String,
    own: Figures,
    references: Vec<Option<Figures>>,
}

fn run_all(args: &SimArgs) -> Result<(), CliError> {
    let references = args.references.iter().map(|path| Reference::new(path)).collect::<Result<Vec<_>, _>>()?;
    let by: fn(&Figures) -> f64 =
        if args.threads > 1 { |run| run.wall_s.unwrap_or(run.cpu_s) } else { |run| run.cpu_s };
    let mut rows = Vec::new();
    for id in args.scenarios.iter().map(|id| id.trim()) {
        let title = scenario(id)?.title;
        let (mut own, mut others) = (Vec::new(), vec![Vec::new(); references.len()]);
        for _ in 0..args.repeat {
            own.push(measure(id, None, args.threads)?);
            for (reference, runs) in references.iter().zip(&mut others) {
                runs.extend(reference.measure(id)?);
            }
        }
        let references = others.iter_mut().map(|runs| (!runs.is_empty()).then(|| median(runs, by))).collect();
        rows.push(Row { id: id.to_owned(), title, own: median(&mut own, by), references });
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let all: Vec<Value> = rows.iter().map(|row| row_json(row, &references)).collect();
        return Ok(writeln!(out, "{:#}", Value::Array(all))?);
    }
    writeln!(out, "{}", table(&rows, &references, args.threads > 1))?;
    for row in &rows {
        writeln!(out, "{}: {}", row.id, row.title)?;
    }
    if !references.is_empty() {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        writeln!(out, "{OWN_NAME}: profile {build}")?;
    }
    for reference in &references {
        writeln!(out, "{}: {}", reference.path.display(), reference.version)?;
    }
    Ok(())
}

fn row_json(row: &Row, references: &[Reference]) -> Value {
    let entry = |(reference, figures): (&Reference, &Option<Figures>)| {
        let figures = figures.as_ref()?;
        Some(json!({"program": reference.path, "version": reference.version, "figures": as_json(figures),
                    "ratio": row.own.rate() / figures.rate()}))
    };
    let references: Vec<Value> = references.iter().zip(&row.references).filter_map(entry).collect();
    json!({"scenario": row.id, "title": row.title, "anabranch": as_json(&row.own), "references": references})
}

/// One line per scenario and program. Without reference programs, the columns that compare are
/// left out.
fn table(rows: &[Row], references: &[Reference], with_wall_time: bool) -> Table {
    let compares = !references.is_empty();
    let line = |id: &str, name: &str, figures: Option<&Figures>, ratio: String| {
        let mut line = vec![id.to_owned()];
        line.extend(compares.then(|| name.to_owned()));
        line.extend(figures.map_or_else(|| ["—"; 4].map(str::to_owned), cells));
        let wall_s = figures.and_then(|figures| figures.wall_s);
        line.extend(with_wall_time.then(|| wall_s.map_or_else(String::new, |wall_s| format!("{wall_s:.2}"))));
        line.extend(compares.then_some(ratio));
        line
    };
    let mut header = vec!["scenario"];
    header.extend(compares.then_some("program"));
    header.extend(["packet-hops", "CPU s", "M hops / CPU s", "peak memory"]);
    header.extend(with_wall_time.then_some("wall s"));
    header.extend(compares.then_some("ratio"));
    let mut table = Table::new();
    table.set_header(header);
    for row in rows {
        table.add_row(line(&row.id, OWN_NAME, Some(&row.own), String::new()));
        for (reference, figures) in references.iter().zip(&row.references) {
            let ratio = figures.map_or_else(String::new, |other| format!("{:.1}×", row.own.rate() / other.rate()));
            table.add_row(line(&row.id, reference.name(), figures.as_ref(), ratio));
        }
    }
    table
}

/// Runs the same scenarios with several balancers: hops per CPU second of each as a share of the
/// first one's.
fn run_balancers(args: &SimArgs) -> Result<(), CliError> {
    let text = args.balancers.as_deref().unwrap_or_default();
    let specs = balance::Spec::parse_list(text).map_err(|error| CliError::of(&error))?;
    if specs.is_empty() {
        return Err(CliError::new("the list --balancers is empty")
            .with_hint("list at least one, such as --balancers ecmp,conga"));
    }
    let mut entries = Vec::new();
    for id in args.scenarios.iter().map(|id| id.trim()) {
        scenario(id)?;
        let mut runs = vec![Vec::new(); specs.len()];
        for _ in 0..args.repeat {
            for (spec, runs) in specs.iter().zip(&mut runs) {
                runs.push(measure(id, Some(&spec.label()), args.threads)?);
            }
        }
        let medians: Vec<Figures> = runs.iter_mut().map(|runs| median(runs, Figures::rate)).collect();
        entries
            .extend(specs.iter().zip(&medians).map(|(spec, f)| (id, spec.label(), *f, f.rate() / medians[0].rate())));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        let entry = |(id, balancer, figures, ratio): &(&str, String, Figures, f64)| json!({"scenario": id, "balancer": balancer, "anabranch": as_json(figures), "ratio": ratio});
        return Ok(writeln!(out, "{:#}", Value::Array(entries.iter().map(entry).collect()))?);
    }
    let mut table = Table::new();
    let share = format!("of {}", specs[0].label());
    table.set_header(["scenario", "balancer", "packet-hops", "CPU s", "M hops / CPU s", "peak memory", &share]);
    for (id, balancer, figures, ratio) in &entries {
        let mut row = vec![(*id).to_owned(), balancer.clone()];
        row.extend(cells(figures));
        row.push(format!("{:.0} %", ratio * 100.0));
        table.add_row(row);
    }
    Ok(writeln!(out, "{table}")?)
}

fn median(runs: &mut [Figures], by: fn(&Figures) -> f64) -> Figures {
    runs.sort_by(|a, b| by(a).total_cmp(&by(b)));
    runs[runs.len() / 2]
}

fn cells(figures: &Figures) -> [String; 4] {
    [
        format!("{:.2} M", figures.packet_hops as f64 / 1e6),
        format!("{:.2}", figures.cpu_s),
        format!("{:.3}", figures.rate() / 1e6),
        format!("{:.1} MB", figures.peak_rss_bytes as f64 / 1e6),
    ]
}

fn as_json(figures: &Figures) -> Value {
    json!({"packet_hops": figures.packet_hops, "cpu_s": figures.cpu_s, "hops_per_cpu_s": figures.rate(), "wall_s": figures.wall_s,
           "peak_rss_bytes": figures.peak_rss_bytes})
}

fn measure(id: &str, balancer: Option<&str>, threads: u16) -> Result<Figures, CliError> {
    let program = crate::program::path()?;
    let mut command = Command::new(program);
    command.args(["bench", "sim", "--one", id]);
    command.args(["--threads", &threads.to_string()]);
    command.args(balancer.into_iter().flat_map(|spec| ["--balancers", spec]));
    let text = output(&mut command)?;
    let value: Value = serde_json::from_str(&text).map_err(|error| CliError::of(&error))?;
    let number = |key: &str| value[key].as_f64().unwrap_or(0.0);
    Ok(Figures {
        packet_hops: number("packet_hops") as u64,
        cpu_s: number("cpu_s").max(0.01),
        wall_s: value["wall_s"].as_f64(),
        peak_rss_bytes: number("peak_rss_bytes") as u64,
    })
}

struct Reference {
    path: PathBuf,
    /// First line of its `--version`.
    version: String,
}

impl Reference {
    fn new(path: &Path) -> Result<Self, CliError> {
        let text = output(Command::new(path).arg("--version"))?;
        Ok(Self { path: path.to_owned(), version: text.lines().next().unwrap_or_default().to_owned() })
    }

    /// Returns the version without the details in parentheses.
    fn name(&self) -> &str {
        self.version.split(" (").next().unwrap_or_default()
    }

    /// Runs the program; `None` if it does not know the scenario.
    fn measure(&self, id: &str) -> Result<Option<Figures>, CliError> {
        let (base, long) = match id {
            "S1" | "S3" | "S4" => (id, None),
            "S1L" => ("S1", Some(["--packets", "100000"])),
            "S3L" => ("S3", Some(["--packets", "10000"])),
            "S4L" => ("S4", Some(["--flow-count", "200000"])),
            _ => return Ok(None),
        };
        let mut command = Command::new(&self.path);
        // The fastest mode of ns-3: closed sockets keep it from searching through finished
        // connections, and this scheduler is faster than the default.
        command.args(["--scenario", base, "--count", "1", "--close", "1", "--scheduler", "priority-queue"]);
        let text = output(command.args(long.iter().flatten()))?;
        let field = |name: &str| {
            let at = text.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            at.and_then(|number| number.parse::<f64>().ok())
                .ok_or_else(|| CliError::new(format!("the reference program printed no `{name}=`")).caused_by(&text))
        };
        Ok(Some(Figures {
            packet_hops: field("packet_hops")? as u64,
            cpu_s: field("cpu_s")?,
            wall_s: None,
            peak_rss_bytes: (field("peak_rss_mb")? * 1_048_576.0) as u64,
        }))
    }
}

fn output(command: &mut Command) -> Result<String, CliError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| CliError::new(format!("cannot run `{name}`")).caused_by(error))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(CliError::new(format!("`{name}` ended with {}", output.status)).caused_by(text.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the user and system time of this process, seconds.
fn cpu_seconds() -> Result<f64, CliError> {
    let stat = procfs::process::Process::myself().and_then(|process| process.stat());
    let stat = stat.map_err(|_| CliError::new("CPU time needs /proc, which this system lacks"))?;
    Ok((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}
