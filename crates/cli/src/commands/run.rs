//! `anabranch run`: an experiment from a file.

use std::path::PathBuf;

use experiment::{Experiment, Override};

use crate::failure::Failure;
use crate::results::{self, RunArgs};

/// Run experiment files
///
/// Runs that the results folder holds already are not done again, so an interrupted experiment goes on where it was.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Experiment files
    #[arg(required = true, value_name = "FILE.toml")]
    files: Vec<PathBuf>,
    /// Number of seeds, instead of what the file says
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// Set a key of the file, such as traffic.load=0.3
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where to run: `sim`; for real switches see `anabranch testbed run`
    #[arg(long, value_parser = world, default_value = "sim")]
    world: String,
    #[command(flatten)]
    run: RunArgs,
}

/// `--world`: there is one here.
fn world(text: &str) -> Result<String, String> {
    match text {
        "sim" => Ok(text.to_owned()),
        "testbed" => Err("real switches are another command: anabranch testbed run FILE.toml".to_owned()),
        _ => Err("there is only `sim` here".to_owned()),
    }
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), Failure> {
    let mut overrides = overrides(&args.set)?;
    if let Some(seeds) = &args.seeds {
        overrides.push(self::seeds(seeds));
    }
    if args.files.len() > 1 && args.run.out.is_some() {
        let failure = Failure::new("--out takes one experiment, but several files are given");
        return Err(failure.with_hint("leave it out: each experiment has a folder results/NAME of its own"));
    }
    // All files are checked before the first one runs for an hour.
    let experiments: Vec<Experiment> =
        args.files.iter().map(|file| Experiment::load(file, &overrides)).collect::<Result<_, _>>()?;
    experiments.iter().try_for_each(|experiment| results::run(experiment, &args.run))
}

/// `--seeds N`.
pub fn seeds(count: &str) -> Override {
    let argument = format!("--seeds {count}");
    Override { key: "seeds".to_owned(), value: count.to_owned(), argument, is_text: false }
}

/// `KEY=VALUE` options, taken apart.
pub fn overrides(set: &[String]) -> Result<Vec<Override>, Failure> {
    let apart = |text: &String| match text.split_once('=') {
        Some((key, value)) => {
            let argument = format!("--set {text}");
            Ok(Override { key: key.trim().to_owned(), value: value.trim().to_owned(), argument, is_text: false })
        }
        None => Err(Failure::new(format!("--set {text}: there is no `=`"))
            .with_hint("write `--set key=value`, such as --set traffic.load=0.3")),
    };
    set.iter().map(apart).collect()
}
