//! `anabranch matrix`: many experiments side by side.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use experiment::Experiment;
use experiment::matrix::{Matrix, Part};
use experiment::runner::Simulator;

use crate::error::CliError;
use crate::results::{self, Machines, RunArgs};

/// Compare balancers over a folder of experiments
///
/// The `[matrix]` section of each experiment file selects a representative part. Each experiment has
/// a separate results folder; next to these folders, matrix.json, matrix.csv, matrix.md and
/// report.html hold balancers × scenarios. Existing runs are not repeated, so an interrupted matrix
/// resumes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  anabranch matrix experiments/canon --balancers ecmp,spray,hermes-rtt --seeds 2")]
pub struct Args {
    /// Folders of experiment files, or files
    #[arg(value_name = "FOLDER|FILE.toml", default_value = "experiments/canon", value_parser = crate::shipped::path)]
    paths: Vec<PathBuf>,
    /// Number of seeds, instead of the files' values
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// Balancers, instead of those of the files
    #[arg(long, value_name = "SPECS")]
    balancers: Option<String>,
    /// Set a key of every file, such as traffic.flows=500
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run the experiments in full and ignore their `[matrix]` sections
    #[arg(long)]
    full: bool,
    /// Folder for the results [default: results/NAME, the name of the folder or `NAME-NAME` of several]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    on: Machines,
    /// Print the table only
    #[arg(long, short)]
    quiet: bool,
    /// Also write a row per flow (flows.parquet, flows.csv); adding balancers or seeds then repeats
    /// all runs
    #[arg(long)]
    flows: bool,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let mut overrides = super::run::overrides(&args.set)?;
    overrides.extend(args.seeds.as_deref().map(super::run::seeds));
    overrides.extend(args.balancers.as_deref().map(super::run::balancers));
    let load = if args.full { Experiment::load } else { Experiment::load_for_matrix };
    // Every file is checked first: the first experiment may run for minutes.
    let files = files(&args.paths)?;
    let experiments: Vec<Experiment> = files.iter().map(|file| load(file, &overrides)).collect::<Result<_, _>>()?;
    refuse_same_names(&files, &experiments)?;
    let name = name(&args.paths);
    let out = args.out.clone().unwrap_or_else(|| Path::new("results").join(&name));
    if !args.quiet {
        let runs: usize = experiments.iter().map(Experiment::run_count).sum();
        eprintln!("{name}: {} experiments, {runs} runs into {}", experiments.len(), out.display());
    }
    let run = RunArgs {
        out: None,
        on: args.on.clone(),
        threads: None,
        quiet: args.quiet,
        no_flows: !args.flows,
        write_flow_lists: false,
    };
    let mut parts = Vec::with_capacity(experiments.len());
    for experiment in &experiments {
        let summary = results::execute_in(&Simulator, experiment, &out.join(&experiment.name), &run)?;
        parts.push(Part::of(experiment, summary));
    }
    let matrix = Matrix::build(&name, &parts);
    let report = matrix.write(&out)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", results::matrix_table(&matrix))?;
    if !args.quiet {
        writeln!(stdout, "report: {}", report.display())?;
    }
    Ok(stdout.flush()?)
}

fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_file() {
            files.push(path.clone());
            continue;
        }
        if !path.is_dir() {
            let failure = CliError::new(format!("no such file or folder: {}", path.display()));
            return Err(failure.with_hint("name a folder of experiment files, or the files"));
        }
        let mut inside = super::list::experiment_files(path)?;
        if inside.is_empty() {
            let failure = CliError::new(format!("there is no experiment file in {}", path.display()));
            return Err(failure.with_hint("name a folder with .toml files, or the files"));
        }
        files.append(&mut inside);
    }
    Ok(files)
}

/// Returns the names of the folders, or `matrix` if files are among the paths.
fn name(paths: &[PathBuf]) -> String {
    let folder = |path: &PathBuf| {
        let folder = path.canonicalize().ok().filter(|folder| folder.is_dir())?;
        Some(folder.file_name()?.to_str()?.to_owned())
    };
    let names: Option<Vec<String>> = paths.iter().map(folder).collect();
    names.map_or_else(|| "matrix".to_owned(), |names| names.join("-"))
}

/// Each experiment has a results folder with its name.
fn refuse_same_names(files: &[PathBuf], experiments: &[Experiment]) -> Result<(), CliError> {
    for (ix, experiment) in experiments.iter().enumerate() {
        if let Some(other) = experiments[..ix].iter().position(|other| other.name == experiment.name) {
            let (one, two) = (files[other].display(), files[ix].display());
            let failure = CliError::new(format!("{one} and {two} are both named `{}`", experiment.name));
            return Err(failure.with_hint("give one of them another `name`: it is the folder of its results"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_the_names_of_its_folders() {
        let folder = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        assert_eq!(name(&[folder("src")]), "src");
        assert_eq!(name(&[folder("src"), folder("tests")]), "src-tests");
        assert_eq!(name(&[folder("src"), folder("Cargo.toml")]), "matrix");
    }
}
