//! `anabranch report`: regenerates the report of a results folder.

use std::io::Write;
use std::path::PathBuf;

use crate::error::CliError;

/// Regenerate the report of a results folder
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Folder with summary.json and runs.jsonl, or with matrix.json
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    if args.folder.join("matrix.json").is_file() {
        let path = experiment::matrix::Matrix::load(&args.folder)?.write(&args.folder)?;
        return Ok(writeln!(std::io::stdout(), "report: {}", path.display())?);
    }
    if !args.folder.join("summary.json").is_file() {
        let failure = CliError::new(format!("{} holds no finished results", args.folder.display()))
            .caused_by("there is no summary.json");
        return Err(failure.with_hint("name a folder that `anabranch run` or `compare` has finished"));
    }
    let path = experiment::write_report(&args.folder)?;
    Ok(writeln!(std::io::stdout(), "report: {}", path.display())?)
}
