//! `anabranch completions`: completion scripts for shells.

use std::io::Write;

use clap::CommandFactory;

use crate::error::CliError;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the shell
    shell: clap_complete::Shell,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    // The text is written in one call, because the generator panics on a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "anabranch", &mut text);
    Ok(std::io::stdout().write_all(&text)?)
}
