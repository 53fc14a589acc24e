//! `anabranch run`: runs experiments from files.

use std::path::PathBuf;

use experiment::runner::Simulator;
use experiment::{Experiment, Override};

use crate::error::CliError;
use crate::fidelity;
use crate::results::{self, RunArgs};
use crate::sequential::Sureness;
use crate::shard;

/// Run experiment files
///
/// Runs that the results folder already holds are not repeated, so an interrupted experiment
/// resumes.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Experiment files
    #[arg(required = true, value_name = "FILE.toml", value_parser = crate::shipped::path)]
    files: Vec<PathBuf>,
    /// Number of seeds, instead of the file's value
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// Set a key of the file, such as traffic.load=0.3
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Platform: `sim`; for real switches see `anabranch testbed run`
    #[arg(long, value_parser = platform, default_value = "sim")]
    platform: String,
    /// Also run a small copy of each experiment by packets and by rates of flows, and report the
    /// error of its figures
    #[arg(long)]
    check_fidelity: bool,
    /// Do this part of the runs only, such as 2/8; `anabranch merge` puts the parts together. With COUNT
    /// alone the number is that of the task in a Slurm array or of the pod in a Kubernetes Job, without a
    /// value Slurm gives both
    #[arg(long, value_name = "NUMBER/COUNT", num_args = 0..=1, default_missing_value = shard::FROM_ENVIRONMENT)]
    #[arg(conflicts_with_all = ["check_fidelity", "until_sure"])]
    shard: Option<String>,
    #[command(flatten)]
    sureness: Sureness,
    #[command(flatten)]
    run: RunArgs,
}

/// Parses `--platform`, which has one value here.
fn platform(text: &str) -> Result<String, String> {
    match text {
        "sim" => Ok(text.to_owned()),
        "testbed" => Err("real switches are another command: anabranch testbed run FILE.toml".to_owned()),
        _ => Err("there is only `sim` here".to_owned()),
    }
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let mut overrides = overrides(&args.set)?;
    overrides.extend(args.seeds.as_deref().map(seeds));
    if args.files.len() > 1 && args.run.out.is_some() {
        let failure = CliError::new("--out takes one experiment, but several files are given");
        return Err(failure.with_hint("leave it out: each experiment has its folder results/NAME"));
    }
    let load = |file: &PathBuf, more: Vec<Override>| {
        let all: Vec<Override> = overrides.iter().cloned().chain(more).collect();
        Ok(Experiment::load(file, &all)?)
    };
    // Every file is checked first: the first experiment may run for an hour.
    let experiments: Vec<Experiment> =
        args.files.iter().map(|file| load(file, args.sureness.overrides())).collect::<Result<_, CliError>>()?;
    if let Some(text) = &args.shard {
        let shard = shard::parse(text, &|name| std::env::var(name).ok())?;
        return experiments.iter().try_for_each(|one| results::run_shard(&Simulator, one, shard, &args.run));
    }
    for file in &args.files {
        let experiment = args.sureness.run(|more| load(file, more), &args.run)?;
        if args.check_fidelity {
            fidelity::check(file, &experiment, &overrides, &args.run)?;
        }
    }
    Ok(())
}

pub fn seeds(count: &str) -> Override {
    Override::value("seeds", count, format!("--seeds {count}"))
}

pub fn balancers(specs: &str) -> Override {
    Override::text("balancers", specs, format!("--balancers {specs}"))
}

pub fn overrides(set: &[String]) -> Result<Vec<Override>, CliError> {
    let apart = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok(Override::value(key.trim(), value.trim(), format!("--set {text}"))),
        None => Err(CliError::new(format!("--set {text}: there is no `=`"))
            .with_hint("write `--set key=value`, such as --set traffic.load=0.3")),
    };
    set.iter().map(apart).collect()
}
