//! `anabranch replay`: repeats a recording of `anabranch serve`.

use std::io::Write;
use std::path::PathBuf;

use daemon::recording::{Options, ReadError, ReplayError, replay};
use net::Time;

use crate::error::CliError;

/// Repeat a recording of `serve --record` and compare the outputs
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the outputs are as recorded, 1 they differ, 2 the file cannot be read.",
    arg_required_else_help = true
)]
pub struct Args {
    /// Recording
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print every input, output and event
    #[arg(long)]
    trace: bool,
    /// Leave out inputs later than this time after the start of the daemon
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    until: Option<Time>,
    /// Replay a recording of another build of the same version, such as one without a correction
    #[arg(long)]
    any_build: bool,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), CliError> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut written = Ok(());
    let mut print = |line: &str| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    };
    let trace: Option<&mut dyn FnMut(&str)> = if args.trace { Some(&mut print) } else { None };
    let options = Options { until: args.until, any_build: args.any_build };
    let replayed = replay(&args.file, options, trace);
    written?;
    let file = args.file.display();
    let summary = replayed.map_err(|error| failure(&error, &file.to_string()))?;
    if args.json {
        let text = serde_json::to_string_pretty(&summary).expect("a summary has a JSON form");
        writeln!(out, "{text}")?;
    } else {
        write!(out, "{summary}")?;
    }
    out.flush()?;
    if summary.is_same() {
        return Ok(());
    }
    let message = match (summary.panic, summary.first_difference) {
        (Some(panic), _) => format!("{file}: the controller panicked {panic}"),
        (None, Some(difference)) => format!("{file}: the outputs differ from the recorded ones {difference}"),
        (None, None) => unreachable!("a replay without panic and difference is the same"),
    };
    let hint = "--trace with --until shows what led to it";
    Err(CliError::new(message).with_hint(hint).found_by_check())
}

fn failure(error: &ReplayError, file: &str) -> CliError {
    let failure = CliError::new(format!("{file}: {error}"));
    let causes = std::iter::successors(std::error::Error::source(error), |&cause| cause.source());
    let failure = causes.fold(failure, CliError::caused_by);
    match error {
        ReplayError::Read(ReadError::Program { program, .. }) if program == env!("CARGO_PKG_VERSION") => {
            failure.with_hint("--any-build replays it with this program, for example to test a correction")
        }
        ReplayError::Read(ReadError::Damaged(_)) => {
            failure.with_hint("copy the file again, in binary mode; --until replays the part before the record")
        }
        _ => failure,
    }
}

fn seconds(text: &str) -> Result<Time, String> {
    let seconds: f64 = text.parse().map_err(|_| "write a number of seconds, such as 12.5".to_owned())?;
    if seconds.is_finite() && seconds >= 0.0 {
        Ok(Time::from_s_f64(seconds))
    } else {
        Err("write a number of seconds from 0 on".to_owned())
    }
}
