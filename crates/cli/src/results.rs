//! Runs the experiment of a command and prints the table at the end.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use experiment::matrix::{Cell as Scenario, Column, Matrix, Row};
use experiment::runner::Runner;
use experiment::shard::{self, Shard};
use experiment::summary::{ClaimVerdict, Measure, Point, Standing, Stat, Summary, Verdict};
use experiment::{Experiment, Options};

use crate::error::CliError;
use crate::{cluster, interrupt, progress};

/// Options of every command that runs experiments.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Folder for the results; it replaces earlier results of the same name [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub on: Machines,
    /// Threads of a run; the results do not depend on it [default: the cores that the runs at a time
    /// leave]
    #[arg(long, conflicts_with = "on", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print the table only
    #[arg(long, short)]
    pub quiet: bool,
    /// Write no row per flow (flows.parquet, flows.csv)
    #[arg(long)]
    pub no_flows: bool,
    /// Write the list of flows to flow-lists/ in the results folder, for replay with
    /// traffic.flow_list
    #[arg(long, conflicts_with = "on")]
    pub write_flow_lists: bool,
}

/// Options of the machines that execute the runs of a command.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Machines {
    /// Runs at a time [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Run on a cluster: ray, ray://HOST:PORT, or tcp://HOST:PORT for Dask. This machine and the workers
    /// need the Python package of this version
    #[arg(long, conflicts_with = "jobs", value_name = "ADDRESS")]
    pub on: Option<String>,
}

impl RunArgs {
    /// Returns the folder of the results of an experiment.
    pub fn folder(&self, experiment: &Experiment) -> PathBuf {
        self.out.clone().unwrap_or_else(|| default_folder(&experiment.name))
    }
}

/// Returns the folder of results that have this name, unless the user gives another one.
pub fn default_folder(name: &str) -> PathBuf {
    Path::new("results").join(name)
}

pub fn run_in(platform: &dyn Runner, experiment: &Experiment, args: &RunArgs) -> Result<(), CliError> {
    let out = args.folder(experiment);
    let summary = execute_in(platform, experiment, &out, args)?;
    print(&summary, &out, args.quiet)
}

/// Prints the table, and unless `quiet` the verdicts and the path of the report.
pub fn print(summary: &Summary, out: &Path, quiet: bool) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(summary_text(summary, quiet).as_bytes())?;
    if !quiet {
        writeln!(stdout, "report: {}", out.join("report.html").display())?;
    }
    Ok(stdout.flush()?)
}

pub fn execute_in(
    platform: &dyn Runner,
    experiment: &Experiment,
    out: &Path,
    args: &RunArgs,
) -> Result<Summary, CliError> {
    refuse_others_results(experiment, out)?;
    announce(experiment, &format!("{} runs", experiment.run_count()), out, args);
    if let Some(on) = &args.on.on {
        return cluster::run(platform, experiment, out, on, args);
    }
    let options = options(out, args);
    let bar = progress::Bar::new(args.quiet);
    let summary = experiment::run_in(platform, experiment, &options, &bar, listen(platform));
    bar.finish();
    if !args.quiet {
        bar.notes().iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(summary?)
}

/// Runs a part of an experiment into a separate folder.
pub fn run_shard(platform: &dyn Runner, experiment: &Experiment, shard: Shard, args: &RunArgs) -> Result<(), CliError> {
    let parts = default_folder(&format!("{}-shards", experiment.name));
    let out = args.out.clone().unwrap_or_else(|| parts.join(shard.to_string()));
    announce(experiment, &format!("part {shard} of {} runs", experiment.run_count()), &out, args);
    let bar = progress::Bar::new(args.quiet);
    let done = shard::run_shard(platform, experiment, shard, &options(&out, args), &bar, listen(platform));
    bar.finish();
    let (runs, total) = done?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "part {shard}: {runs} of {total} runs in {}", out.display())?;
    if !args.quiet {
        let parts = if args.out.is_none() { format!("{}/*", parts.display()) } else { "DIR...".to_owned() };
        writeln!(stdout, "when all parts have ended: anabranch merge {parts}")?;
    }
    Ok(stdout.flush()?)
}

fn announce(experiment: &Experiment, runs: &str, out: &Path, args: &RunArgs) {
    if args.quiet {
        return;
    }
    warn(experiment);
    eprintln!("{}: {runs} into {}", experiment.name, out.display());
    if args.threads.is_some_and(|threads| threads > 1) {
        for (balancer, reason) in experiment.single_threaded() {
            eprintln!("note: runs of `{balancer}` use one thread: {reason}");
        }
    }
}

fn options(out: &Path, args: &RunArgs) -> Options {
    Options {
        out: out.to_owned(),
        jobs: usize::from(args.on.jobs.unwrap_or(0)),
        threads: usize::from(args.threads.unwrap_or(0)),
        flows: !args.no_flows,
        flow_lists: args.write_flow_lists,
    }
}

fn listen(platform: &dyn Runner) -> &'static AtomicBool {
    // The testbed must restore the machine, which takes longer.
    let grace = (platform.name() == "sim").then_some(INTERRUPT_GRACE);
    interrupt::listen(grace)
}

/// Time that runs of the simulator have to end after Ctrl-C.
const INTERRUPT_GRACE: std::time::Duration = std::time::Duration::from_millis(900);

/// Returns an error if a folder has results of another experiment: they may have taken hours.
///
/// # Errors
/// It has.
pub fn refuse_others_results(experiment: &Experiment, out: &Path) -> Result<(), CliError> {
    match experiment::store::Store::open(out).summary() {
        Ok(summary) if summary.experiment != experiment.name => {
            let (folder, other) = (out.display(), summary.experiment);
            let failure = CliError::new(format!("{folder} holds the results of another experiment, `{other}`"));
            Err(failure.with_hint("name another folder with --out, or rename that one"))
        }
        _ => Ok(()),
    }
}

/// Prints warnings of the experiment and the claims that are not checked.
pub fn warn(experiment: &Experiment) {
    for claim in &experiment.left_out {
        eprintln!("note: {claim}");
    }
    for warning in &experiment.warnings {
        eprintln!("warning: {warning}");
    }
}

/// Returns what a command prints of results: tables, verdicts and claims; if `quiet`, the tables.
pub fn summary_text(summary: &Summary, quiet: bool) -> String {
    let mut out = String::new();
    for verdict in &summary.verdicts {
        let of_panel = |point: &&Point| (&point.variant, point.load) == (&verdict.variant, verdict.load);
        let points: Vec<&Point> = summary.points.iter().filter(of_panel).collect();
        if summary.verdicts.len() > 1 {
            out += &format!("{}\n", heading(verdict));
        }
        out += &format!("{}\n", table(&points, verdict, summary.rank_by));
        if !quiet {
            out += &format!("{}\n\n", verdict.sentence);
        }
    }
    if let Some(overall) = summary.overall.as_ref().filter(|_| !quiet) {
        out += &format!("{}\n\n", overall.sentence);
    }
    if !quiet {
        summary.claims.iter().for_each(|verdict| out += &claim(verdict));
    }
    out
}

fn claim(verdict: &ClaimVerdict) -> String {
    let ClaimVerdict { id, claim, sentence, reason, .. } = verdict;
    let reason = reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{id} {}: {claim} — {sentence}{reason}\n", verdict.verdict.as_str())
}

fn heading(verdict: &Verdict) -> String {
    let load = verdict.load.map(|load| format!("load {load}"));
    let variant = Some(verdict.variant.clone()).filter(|variant| !variant.is_empty());
    load.into_iter().chain(variant).collect::<Vec<_>>().join(", ")
}

/// Smallest number of balancers with a column of ranks; below it the marks suffice.
const RANKED_FROM: usize = 8;

/// Best first, indistinguishable balancers next to each other, bounds last.
fn table(points: &[&Point], verdict: &Verdict, measure: Measure) -> Table {
    let mut points = points.to_vec();
    let rivals = points.iter().filter(|point| !point.is_bound).count();
    let is_long = rivals > RANKED_FROM;
    let order = |point: &Point| (point.is_bound, point.rank == 0, point.rank);
    let cost = |point: &Point| measure.cost(measure.of_point(point).mean);
    if is_long {
        points.sort_by(|a, b| order(a).cmp(&order(b)).then(cost(a).total_cmp(&cost(b))));
    } else {
        points.sort_by_key(|point| point.is_bound);
    }
    let shown = Shown {
        rank_by: measure,
        is_long,
        has_optimum: points.iter().any(|point| point.share_of_optimum.is_some()),
        // Jobs, coflows and collectives end with their last flow.
        has_groups: points.iter().any(|point| !is_absent(&point.group_lower_bound_us)),
        has_bus: points.iter().any(|point| !is_absent(&point.bus_gbps)),
    };
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let mut header = vec![if is_long { "rank" } else { "" }, "balancer"];
    if measure == Measure::Throughput {
        header.push("throughput");
    }
    let groups = [shown.has_groups.then_some("group time"), shown.has_bus.then_some("bus bandwidth")];
    header.extend(in_order(["mean slowdown", "p99 slowdown", "FCT ≤ 100 KB", "FCT > 1 MB"], groups, measure));
    header.extend(["flows done", "drops", "× best"]);
    if shown.has_optimum {
        header.push("of optimum");
    }
    table.set_header(header);
    for point in points {
        table.add_row(row(point, verdict, shown));
    }
    table
}

#[derive(Clone, Copy)]
struct Shown {
    rank_by: Measure,
    is_long: bool,
    has_optimum: bool,
    has_groups: bool,
    has_bus: bool,
}

fn row(point: &Point, verdict: &Verdict, shown: Shown) -> Vec<Cell> {
    let Shown { rank_by: measure, is_long, has_optimum, has_groups, has_bus } = shown;
    let best = point.balancer == verdict.best;
    let mark = match () {
        () if best => "★",
        () if point.standing == Standing::Tied => "≈",
        () if point.standing == Standing::Undecided => "?",
        () => "",
    };
    let rank = match point.rank {
        _ if point.is_bound => "bound".to_owned(),
        0 if is_long => "–".to_owned(),
        rank if is_long => format!("{rank} {mark}"),
        _ => mark.to_owned(),
    };
    let mut row = vec![Cell::new(rank.trim_end()), Cell::new(&point.balancer)];
    let mut numbers = Vec::new();
    if measure == Measure::Throughput {
        numbers.push(share_spread(&point.throughput_share));
    }
    let groups = [has_groups.then(|| group_time(point)), has_bus.then(|| bandwidth(&point.bus_gbps))];
    let flows = [
        mean_slowdown(point),
        number(&point.slowdown_p99),
        time(&point.small_fct_mean_us),
        time(&point.large_fct_mean_us),
    ];
    numbers.extend(in_order(flows, groups, measure));
    numbers.extend([
        flows_done(point),
        share(&point.drop_share),
        if best { "best".to_owned() } else { point.ratio.to_string() },
    ]);
    if has_optimum {
        numbers.push(point.share_of_optimum.as_ref().map_or_else(|| "–".to_owned(), share_spread));
    }
    row.extend(numbers.into_iter().map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
    match (best, point.is_bound) {
        (true, _) => row.into_iter().map(|cell| cell.add_attribute(Attribute::Bold).fg(Color::Green)).collect(),
        (_, true) => row.into_iter().map(|cell| cell.fg(Color::DarkGrey)).collect(),
        _ => row,
    }
}

/// Returns the columns of flows and those of groups that are shown; what ranks balancers comes first.
fn in_order<T>(flows: [T; 4], groups: [Option<T>; 2], measure: Measure) -> Vec<T> {
    let groups = groups.into_iter().flatten();
    match measure {
        Measure::GroupTime => groups.chain(flows).collect(),
        Measure::Slowdown | Measure::Throughput => flows.into_iter().chain(groups).collect(),
    }
}

/// Such as `83.1 ± 0.4 %`.
fn share_spread(stat: &Stat) -> String {
    let percent = |share: f64| share * 100.0;
    let (mean, ci95, min, max) = (percent(stat.mean), percent(stat.ci95), percent(stat.min), percent(stat.max));
    let percent = Stat { mean, ci95, min, max, ..Stat::default() };
    if is_absent(stat) { "–".to_owned() } else { format!("{} %", spread(&percent)) }
}

pub fn matrix_table(matrix: &Matrix) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    let mut header = vec!["balancer".to_owned(), "× best".to_owned()];
    header.extend(matrix.has_optimum().then(|| "of optimum".to_owned()));
    header.extend(matrix.columns.iter().map(Column::name));
    table.set_header(header);
    for line in &matrix.rows {
        let at_least = if line.unranked > 0 { "≥ " } else { "" };
        let mut texts = vec![line.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{at_least}{}", digits(ratio)))];
        if matrix.has_optimum() {
            let share = |share: f64| format!("{} %", digits(share * 100.0));
            texts.push(line.share_of_optimum.map_or_else(|| "–".to_owned(), share));
        }
        texts.extend(matrix.columns.iter().map(|column| scenario(line, column)));
        let name = if line.balancer.is_bound { " (bound)" } else { "" };
        let mut cells = vec![Cell::new(format!("{}{name}", line.balancer.label))];
        cells.extend(texts.into_iter().map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
        table.add_row(cells);
    }
    table
}

fn scenario(row: &Row, column: &Column) -> String {
    let Some(Scenario { mean, balancer, is_lower_bound, .. }) = column.cell(&row.balancer.label) else {
        return "–".to_owned();
    };
    let star = if column.best == *balancer { "★ " } else { "" };
    let at_least = if *is_lower_bound { "≥ " } else { "" };
    let value = match column.rank_by {
        _ if mean.mean <= 0.0 => return "–".to_owned(),
        Measure::Slowdown => digits(mean.mean),
        Measure::Throughput => format!("{} %", digits(mean.mean * 100.0)),
        Measure::GroupTime => time_us(mean.mean),
    };
    format!("{star}{at_least}{value}")
}

fn is_absent(stat: &Stat) -> bool {
    stat.max == 0.0
}

fn number(stat: &Stat) -> String {
    if is_absent(stat) { "–".to_owned() } else { digits(stat.mean) }
}

fn spread(stat: &Stat) -> String {
    match stat.ci95 {
        0.0 => number(stat),
        // An interval that reaches far down says less than the seeds themselves.
        wide if wide > stat.mean / 2.0 => format!("{} ({}…{})", digits(stat.mean), digits(stat.min), digits(stat.max)),
        half => format!("{} ± {}", digits(stat.mean), digits(half)),
    }
}

/// Formats about three significant digits.
fn digits(value: f64) -> String {
    match value.abs() {
        x if x >= 100.0 => format!("{value:.0}"),
        x if x >= 10.0 => format!("{value:.1}"),
        x if x >= 0.01 || x == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

fn time(stat: &Stat) -> String {
    if is_absent(stat) { "–".to_owned() } else { time_us(stat.mean) }
}

fn group_time(point: &Point) -> String {
    let at_least = if Measure::GroupTime.is_lower_bound(point) { "≥ " } else { "" };
    format!("{at_least}{}", time(&point.group_lower_bound_us))
}

/// Unfinished flows count with the slowdown they had reached, as in the verdict.
fn mean_slowdown(point: &Point) -> String {
    let at_least = if Measure::Slowdown.is_lower_bound(point) { "≥ " } else { "" };
    format!("{at_least}{}", spread(&point.slowdown_lower_bound))
}

fn bandwidth(stat: &Stat) -> String {
    if is_absent(stat) { "–".to_owned() } else { format!("{} Gb/s", digits(stat.mean)) }
}

fn time_us(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", digits(us / 1e6)),
        us if us >= 1e3 => format!("{} ms", digits(us / 1e3)),
        us => format!("{} us", digits(us)),
    }
}

fn flows_done(point: &Point) -> String {
    if point.flows_completed == point.flows_started {
        return format!("all {}", point.flows_started);
    }
    format!("{} of {}", point.flows_completed, point.flows_started)
}

fn share(stat: &Stat) -> String {
    match stat.mean * 100.0 {
        0.0 => "0".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent => format!("{} %", digits(percent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_absence_is_not_zero() {
        let stat = |mean: f64, ci95: f64| Stat { mean, ci95, max: mean, ..Stat::default() };
        assert_eq!((number(&Stat::default()), time(&Stat::default())), ("–".to_owned(), "–".to_owned()));
        assert_eq!(spread(&stat(2.345, 0.1)), "2.35 ± 0.10");
        assert_eq!(time(&stat(51.84, 0.0)), "51.8 us");
        assert_eq!(time(&stat(12_345.0, 0.0)), "12.3 ms");
        assert_eq!(share(&stat(0.000_01, 0.0)), "< 0.01 %");
    }
}
