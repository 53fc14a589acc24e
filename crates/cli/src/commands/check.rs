//! `anabranch check`: reads an experiment file, or the index of a reproduction, with everything it
//! refers to, and runs nothing.

use std::io::Write;
use std::path::PathBuf;

use experiment::Experiment;
use experiment::reproduction::{self, Index};

use crate::error::CliError;
use crate::results;

/// Check experiment files without running them
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Experiment files
    #[arg(required = true, value_name = "FILE.toml", value_parser = crate::shipped::path)]
    files: Vec<PathBuf>,
    /// Set a key of the file, such as traffic.load=0.3
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the effective file, including every --set
    #[arg(long)]
    print_config: bool,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let overrides = super::run::overrides(&args.set)?;
    let mut out = std::io::stdout().lock();
    for file in &args.files {
        if reproduction::is_index(file) {
            let index = Index::load(file)?;
            let (name, document) = (file.display(), &index.document);
            let numbers = index.numbers.len();
            writeln!(out, "{name}: {document}, {} experiments, {numbers} numbers", index.entries.len())?;
            continue;
        }
        let experiment = Experiment::load(file, &overrides)?;
        results::warn(&experiment);
        if args.print_config {
            write!(out, "{}", experiment.file)?;
            continue;
        }
        writeln!(out, "{}: {} runs", file.display(), experiment.run_count())?;
        for (name, text) in experiment.setting() {
            writeln!(out, "  {name}: {text}")?;
        }
        let balancers: Vec<String> = experiment.balancers.iter().map(balance::Spec::label).collect();
        writeln!(out, "  balancers: {}", balancers.join(", "))?;
    }
    Ok(out.flush()?)
}
