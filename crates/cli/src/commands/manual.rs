//! `anabranch manual`: manual pages.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::error::CliError;

/// Write manual pages, one for each command, to a folder
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// Folder of the pages; a missing one is created
    folder: PathBuf,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::new(format!("{}: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    // `anabranch help COMMAND` prints what the page of the command says.
    let command = crate::Cli::command().disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.folder).map_err(failed)
}
