//! Runs on a cluster: the Python package has the clients of Ray and Dask, so a process of Python runs
//! the experiment, and this one shows the results.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use experiment::Experiment;
use experiment::runner::Runner;
use experiment::store::Store;
use experiment::summary::Summary;
use serde_json::json;

use crate::error::{CliError, INTERRUPTED};
use crate::results::RunArgs;
use crate::{interrupt, program};

const HINT: &str = "install the Python package of this version where `python3` finds it; \
                    ANABRANCH_PYTHON names another interpreter";

/// Runs what a folder lacks on the cluster `on`, and returns the results.
pub fn run(
    platform: &dyn Runner,
    experiment: &Experiment,
    out: &Path,
    on: &str,
    args: &RunArgs,
) -> Result<Summary, CliError> {
    if platform.name() != "sim" {
        return Err(CliError::new("--on: only runs of the simulator can be on a cluster").with_hint("leave it out"));
    }
    if !experiment.traces.is_empty() {
        let error = CliError::new("--on: execution traces are too large to be sent to workers");
        return Err(error.with_hint("use `--shard` on machines that share the folder of the trace"));
    }
    let inputs: serde_json::Map<_, _> =
        experiment.inputs.iter().map(|input| (input.stored.clone(), json!(input.text))).collect();
    let task = json!({
        "version": env!("CARGO_PKG_VERSION"), "name": experiment.name, "text": experiment.file, "inputs": inputs,
        "out": out, "on": on, "flows": !args.no_flows, "quiet": args.quiet,
    });
    let python = program::python();
    let cannot = |error: std::io::Error| {
        CliError::new(format!("cannot run `{}`", python.display())).caused_by(error).with_hint(HINT)
    };
    // Ctrl-C reaches the other process too, which cancels its tasks and ends.
    interrupt::listen(None);
    let mut process =
        Command::new(&python).args(["-m", "anabranch._on"]).stdin(Stdio::piped()).spawn().map_err(cannot)?;
    if let Some(mut stdin) = process.stdin.take() {
        // A process that has ended reads nothing; its exit code tells.
        let _ = stdin.write_all(task.to_string().as_bytes());
    }
    match process.wait().map_err(cannot)?.code() {
        Some(0) => Store::open(out).summary().map_err(|error| experiment::Error::from(error).into()),
        Some(code) if code == i32::from(INTERRUPTED) => {
            let kept = CliError::new("interrupted; parts that came back are kept").interrupted();
            Err(kept.with_hint("repeat the command to resume"))
        }
        // It has said why.
        Some(FAILED) => Err(CliError::new(format!("the runs on `{on}` failed"))),
        _ => {
            let reason = format!("`{}` did not run the package anabranch", python.display());
            Err(CliError::new(reason).with_hint(HINT))
        }
    }
}

/// Exit code of the other process after an error that it has printed.
const FAILED: i32 = 2;
