//! `anabranch merge`: the results of an experiment from the folders of its parts.

use std::path::PathBuf;

use experiment::Options;
use experiment::merge;
use experiment::runner::Simulator;

use crate::error::CliError;
use crate::results;

/// Merge the parts of an experiment that `anabranch run --shard` has run
///
/// The results are the bytes that one machine writes, apart from measured times. The order of the
/// folders does not matter.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(after_help = "Example:\n  anabranch run sweep.toml --shard 1/2    on one machine\n  \
                        anabranch run sweep.toml --shard 2/2    on another\n  \
                        anabranch merge results/sweep-shards/*")]
pub struct Args {
    /// Folders of the parts, each written by one `anabranch run --shard`
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Folder for the results [default: results/NAME, or results/NAME-partial]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the table of balancers only, without verdicts and the path of the report
    #[arg(long, short)]
    quiet: bool,
    /// Write the results so far: comparisons have the seeds that all their balancers have completed, and
    /// there is no row per flow
    #[arg(long, conflicts_with = "no_flows")]
    partial: bool,
    /// Write no row per flow, as for parts that were run with --no-flows
    #[arg(long)]
    no_flows: bool,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let experiment = merge::experiment_of(&args.folders).map_err(experiment::Error::from)?;
    let name = format!("{}{}", experiment.name, if args.partial { "-partial" } else { "" });
    let out = args.out.clone().unwrap_or_else(|| results::default_folder(&name));
    results::refuse_others_results(&experiment, &out)?;
    let options = Options { out: out.clone(), jobs: 1, threads: 1, flows: !args.no_flows, flow_lists: false };
    let merge = if args.partial { merge::merge_partial } else { merge::merge };
    let summary = merge(&Simulator, &experiment, &args.folders, &options)?;
    if args.partial && !args.quiet {
        summary.warnings.iter().for_each(|warning| eprintln!("note: {warning}"));
    }
    results::print(&summary, &out, args.quiet)
}
