//! `anabranch completions`: what a shell needs to complete our options.

use std::io::Write;

use clap::CommandFactory;

use crate::failure::Failure;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which shell
    shell: clap_complete::Shell,
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), Failure> {
    // Written at once, as the generator panics where a pipe is closed.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "anabranch", &mut text);
    Ok(std::io::stdout().write_all(&text)?)
}
