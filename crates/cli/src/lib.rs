//! The `anabranch` command: compares load balancers on simulated networks.
//!
//! A library, because two programs contain it: `anabranch` itself, and the Python package, which
//! installs the same command.

mod cluster;
mod commands;
mod error;
mod fidelity;
mod interrupt;
mod program;
mod progress;
mod results;
mod sequential;
mod shard;
pub mod shipped;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

pub use commands::bound::json as bound_json;
pub use commands::list::json as list_json;
pub use error::CliError;
pub use program::set_program;
pub use results::{refuse_others_results, summary_text};

/// Which load balancer should your network run? Compares them in a packet simulator and on Open
/// vSwitch, and controls OpenFlow switches
#[derive(Debug, Parser)]
#[command(name = "anabranch", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Start with:\n  anabranch compare           three balancers on a small fat-tree, in seconds\n  \
                        anabranch list balancers    what can be compared\n\
                        Exit codes: 0 done, 1 a check failed, 2 usage, configuration or environment, 130 Ctrl-C."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(commands::compare::Args),
    Run(commands::run::Args),
    Merge(commands::merge::Args),
    Cluster(commands::cluster::Args),
    Matrix(commands::matrix::Args),
    #[cfg(feature = "network")]
    Reproduce(commands::reproduce::Args),
    Check(commands::check::Args),
    List(commands::list::Args),
    Topology(commands::topology::Args),
    Import(commands::import::Args),
    Bound(commands::bound::Args),
    Report(commands::report::Args),
    Bench(commands::bench::Args),
    #[cfg(feature = "network")]
    Simtest(commands::simtest::Args),
    #[cfg(feature = "network")]
    Testbed(commands::testbed::Args),
    #[cfg(feature = "network")]
    Serve(commands::serve::Args),
    #[cfg(feature = "network")]
    Replay(commands::replay::Args),
    #[cfg(feature = "network")]
    Agent(commands::agent::Args),
    Completions(commands::completions::Args),
    Manual(commands::manual::Args),
}

/// Runs the command with these arguments, of which the first is the name of the program. Returns
/// the exit code: 0 done, 1 a check failed, 2 usage, configuration or environment, 130 Ctrl-C.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        Err(message) => {
            // A closed pipe has read enough.
            let _ = message.print();
            return u8::try_from(message.exit_code()).unwrap_or(2);
        }
    };
    let done = match command {
        Command::Compare(args) => commands::compare::execute(&args),
        Command::Run(args) => commands::run::execute(&args),
        Command::Merge(args) => commands::merge::execute(&args),
        Command::Cluster(args) => commands::cluster::execute(&args),
        Command::Matrix(args) => commands::matrix::execute(&args),
        #[cfg(feature = "network")]
        Command::Reproduce(args) => commands::reproduce::execute(&args),
        Command::Check(args) => commands::check::execute(&args),
        Command::List(args) => commands::list::execute(&args),
        Command::Topology(args) => commands::topology::execute(&args),
        Command::Import(args) => commands::import::execute(&args),
        Command::Bound(args) => commands::bound::execute(&args),
        Command::Report(args) => commands::report::execute(&args),
        Command::Bench(args) => commands::bench::execute(&args),
        #[cfg(feature = "network")]
        Command::Simtest(args) => commands::simtest::execute(&args),
        #[cfg(feature = "network")]
        Command::Testbed(args) => commands::testbed::execute(&args),
        #[cfg(feature = "network")]
        Command::Serve(args) => commands::serve::execute(&args),
        #[cfg(feature = "network")]
        Command::Replay(args) => commands::replay::execute(&args),
        #[cfg(feature = "network")]
        Command::Agent(args) => commands::agent::execute(&args),
        Command::Completions(args) => commands::completions::execute(&args),
        Command::Manual(args) => commands::manual::execute(&args),
    };
    match done {
        // The reader closed the pipe because it has read enough.
        Ok(()) | Err(CliError::BrokenPipe) => 0,
        Err(failure) => {
            eprint!("{failure}");
            failure.exit_code()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_and_option_is_well_formed_and_explained() {
        let mut command = super::Cli::command();
        command.build();
        command.clone().debug_assert();
        for command in command.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
