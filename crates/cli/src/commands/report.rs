//! `anabranch report`: the report of a results folder anew.

use std::io::Write;
use std::path::PathBuf;

use crate::failure::Failure;

/// Write the report of a results folder anew
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder with summary.json and runs.jsonl
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), Failure> {
    if !args.folder.join("summary.json").is_file() {
        let failure = Failure::new(format!("{} holds no finished results", args.folder.display()))
            .caused_by("there is no summary.json");
        return Err(failure.with_hint("name a folder that `anabranch run` or `compare` has finished"));
    }
    let path = experiment::write_report(&args.folder)?;
    Ok(writeln!(std::io::stdout(), "report: {}", path.display())?)
}
