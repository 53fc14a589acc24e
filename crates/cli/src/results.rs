//! Running an experiment for a command, and the table at the end.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Attribute, Cell, CellAlignment, Color, ContentArrangement, Table};
use experiment::summary::{ClaimVerdict, Point, Stat, Summary, Verdict};
use experiment::{Experiment, Options};

use crate::failure::Failure;
use crate::{interrupt, progress};

/// Options of every command that runs something.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Folder for the results [default: results/NAME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at a time [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print the table only
    #[arg(long, short)]
    pub quiet: bool,
    /// Write no row per flow (flows.parquet, flows.csv)
    #[arg(long)]
    pub no_flows: bool,
    /// Write the flows that are sent to flow-lists/ in the results folder, to be replayed with traffic.flow_list
    #[arg(long)]
    pub write_flow_lists: bool,
}

/// Runs the experiment, then prints who won.
pub fn run(experiment: &Experiment, args: &RunArgs) -> Result<(), Failure> {
    let out = args.out.clone().unwrap_or_else(|| Path::new("results").join(&experiment.name));
    if !args.quiet {
        warn(experiment);
        eprintln!("{}: {} runs into {}", experiment.name, experiment.run_count(), out.display());
    }
    let options = Options {
        out: out.clone(),
        jobs: usize::from(args.jobs.unwrap_or(0)),
        flows: !args.no_flows,
        flow_lists: args.write_flow_lists,
    };
    let bar = progress::Bar::new(args.quiet);
    let summary = experiment::run(experiment, &options, &bar, interrupt::listen());
    bar.finish();
    let mut stdout = io::stdout().lock();
    stdout.write_all(text(&summary?, args.quiet).as_bytes())?;
    if !args.quiet {
        writeln!(stdout, "report: {}", out.join("report.html").display())?;
    }
    Ok(stdout.flush()?)
}

/// Warnings of the experiment, and claims it is not held against.
pub fn warn(experiment: &Experiment) {
    for claim in &experiment.left_out {
        eprintln!("note: {claim}");
    }
    for warning in &experiment.warnings {
        eprintln!("warning: {warning}");
    }
}

/// One table for each variant and load, each with its verdict; then what became of each published claim.
pub fn text(summary: &Summary, quiet: bool) -> String {
    let mut out = String::new();
    for verdict in &summary.verdicts {
        let of_panel = |point: &&Point| (&point.variant, point.load) == (&verdict.variant, verdict.load);
        let points: Vec<&Point> = summary.points.iter().filter(of_panel).collect();
        if summary.verdicts.len() > 1 {
            out += &format!("{}\n", heading(verdict));
        }
        out += &format!("{}\n", table(&points, verdict));
        if !quiet {
            out += &format!("{}\n\n", verdict.sentence);
        }
    }
    if !quiet {
        summary.claims.iter().for_each(|verdict| out += &claim(verdict));
    }
    out
}

/// A claim on a line.
fn claim(verdict: &ClaimVerdict) -> String {
    let ClaimVerdict { id, claim, sentence, reason, .. } = verdict;
    let reason = reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    format!("{id} {}: {claim} — {sentence}{reason}\n", verdict.verdict.words())
}

fn heading(verdict: &Verdict) -> String {
    let load = verdict.load.map(|load| format!("load {load}"));
    let variant = Some(verdict.variant.clone()).filter(|variant| !variant.is_empty());
    load.into_iter().chain(variant).collect::<Vec<_>>().join(", ")
}

fn table(points: &[&Point], verdict: &Verdict) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header([
        "",
        "balancer",
        "mean slowdown",
        "p99 slowdown",
        "FCT ≤ 100 KB",
        "FCT > 1 MB",
        "flows done",
        "drops",
        "vs best",
    ]);
    for point in points {
        let best = point.balancer == verdict.best;
        let mark = if best {
            "★"
        } else if verdict.tied.contains(&point.balancer) {
            "≈"
        } else {
            ""
        };
        let mut row = vec![Cell::new(mark), Cell::new(&point.balancer)];
        let numbers = [
            spread(&point.slowdown_mean),
            number(&point.slowdown_p99),
            time(&point.small_fct_mean_us),
            time(&point.large_fct_mean_us),
            flows_done(point),
            share(&point.drop_share),
            versus(point, best),
        ];
        row.extend(numbers.map(|number| Cell::new(number).set_alignment(CellAlignment::Right)));
        if best {
            row = row.into_iter().map(|cell| cell.add_attribute(Attribute::Bold).fg(Color::Green)).collect();
        }
        table.add_row(row);
    }
    table
}

fn is_absent(stat: &Stat) -> bool {
    stat.max == 0.0
}

fn number(stat: &Stat) -> String {
    if is_absent(stat) { "–".to_owned() } else { digits(stat.mean) }
}

fn spread(stat: &Stat) -> String {
    if stat.ci95 == 0.0 { number(stat) } else { format!("{} ± {}", digits(stat.mean), digits(stat.ci95)) }
}

/// Three significant digits or so.
fn digits(value: f64) -> String {
    match value.abs() {
        x if x >= 100.0 => format!("{value:.0}"),
        x if x >= 10.0 => format!("{value:.1}"),
        x if x >= 0.01 || x == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

fn time(stat: &Stat) -> String {
    match stat.mean {
        _ if is_absent(stat) => "–".to_owned(),
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
    if stat.mean == 0.0 { "0".to_owned() } else { format!("{} %", digits(stat.mean * 100.0)) }
}

fn versus(point: &Point, best: bool) -> String {
    let difference = &point.slowdown_vs_best;
    match (best, difference.ci95 == 0.0) {
        (true, _) => "best".to_owned(),
        (false, true) => format!("{:+.2}", difference.mean),
        (false, false) => format!("{:+.2} ± {}", difference.mean, digits(difference.ci95)),
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
        assert_eq!(share(&stat(0.000_01, 0.0)), "1.0e-3 %");
    }
}
