//! `anabranch testbed`: experiments on Mininet and Open vSwitch.

use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use experiment::Experiment;
use testbed::network::driver;
use testbed::services::compute::JobServer;
use testbed::services::front_end::FrontEnd;
use testbed::{Testbed, TestbedError};

use crate::commands::agent::share;
use crate::commands::run::{balancers, overrides, seeds};
use crate::error::CliError;
use crate::results::{self, RunArgs};

/// Run experiment files on an emulated network of real switches
///
/// Mininet provides the hosts and links, Open vSwitch the switches, and `anabranch serve` is the
/// controller. Needs root.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Run(RunFile),
    Validate(super::validate::Args),
    Up(UpFile),
    Down(Down),
    #[command(hide = true)]
    Jobs(Jobs),
    #[command(hide = true)]
    FrontEnd(FrontEndFile),
}

/// Run an experiment file on an emulated network
///
/// The results are those of `anabranch run`, with `testbed` as their platform. The network is
/// removed at the end, and after Ctrl-C.
#[derive(Debug, clap::Args)]
struct RunFile {
    #[command(flatten)]
    what: What,
    #[command(flatten)]
    run: RunArgs,
}

/// Build the network of an experiment file and leave it up
///
/// With testbed.rules = "static" its rules are installed; otherwise start a controller with the
/// printed configuration.
#[derive(Debug, clap::Args)]
struct UpFile {
    #[command(flatten)]
    what: What,
}

/// Remove the running testbed, or the rest of an earlier one, from this machine
#[derive(Debug, clap::Args)]
struct Down {}

/// Serve jobs that keep a processor busy; the testbed starts this on servers
#[derive(Debug, clap::Args)]
struct Jobs {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddrV4,
    /// Name of the server in its responses
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Number of cores, which jobs share
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: u32,
    /// Share of a processor that each core has
    #[arg(long, value_name = "SHARE", value_parser = share)]
    core_share: f64,
}

/// Forward requests by content; the testbed starts this on front ends
#[derive(Debug, clap::Args)]
struct FrontEndFile {
    /// JSON file with address, forwarding and rules
    #[arg(long, value_name = "FILE.json")]
    config: PathBuf,
}

#[derive(Debug, clap::Args)]
struct What {
    /// Experiment file
    #[arg(value_name = "FILE.toml", value_parser = crate::shipped::path)]
    file: PathBuf,
    /// Number of seeds, instead of the file's value
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    seeds: Option<String>,
    /// Balancers, instead of those of the file
    #[arg(long, value_name = "LIST")]
    balancers: Option<String>,
    /// Set a key of the file, such as stop.until=60s
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl What {
    fn load(&self) -> Result<Experiment, CliError> {
        let mut overrides = overrides(&self.set)?;
        overrides.extend(self.seeds.as_deref().map(seeds));
        overrides.extend(self.balancers.as_deref().map(balancers));
        Ok(Experiment::load(&self.file, &overrides)?)
    }
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    match &args.command {
        Command::Run(args) => run(args),
        Command::Validate(args) => super::validate::execute(args),
        Command::Up(args) => up(args),
        Command::Down(_) => down(),
        Command::Jobs(args) => jobs(args),
        Command::FrontEnd(args) => front_end(args),
    }
}

fn run(args: &RunFile) -> Result<(), CliError> {
    let experiment = args.what.load()?;
    let testbed = testbed()?;
    let done = results::run_in(&testbed, &experiment, &args.run);
    // The network is removed before results are reported, so that a failure leaves a clean machine.
    let closed = testbed.close().map_err(failure);
    done.and(closed)
}

fn up(args: &UpFile) -> Result<(), CliError> {
    let experiment = args.what.load()?;
    let config = testbed()?.up(&experiment).map_err(failure)?;
    println!("the network of {} is up: hosts ah0, ah1, …, switches ab1, ab2, …", args.what.file.display());
    match config {
        None => println!("its switches have static rules"),
        Some(path) => println!("start a controller for it: anabranch serve --config {}", path.display()),
    }
    println!("remove it with: anabranch testbed down");
    Ok(())
}

fn down() -> Result<(), CliError> {
    let found = driver::down().map_err(failure)?;
    match (found.was_up, found.processes + found.interfaces) {
        (true, _) => println!("the testbed was up and has been removed"),
        (false, 0) => println!("there was nothing to remove"),
        (false, _) => {
            println!("ended {} processes and removed {} interfaces", found.processes, found.interfaces);
        }
    }
    Ok(())
}

fn jobs(args: &Jobs) -> Result<(), CliError> {
    let Jobs { listen, name, cores, core_share } = args;
    let server = JobServer { at: *listen, name: name.clone(), cores: *cores, core: *core_share };
    server.serve().map_err(|cause| CliError::new(format!("cannot serve jobs at {listen}")).caused_by(cause))
}

fn front_end(args: &FrontEndFile) -> Result<(), CliError> {
    let path = args.config.display();
    let text = std::fs::read_to_string(&args.config)
        .map_err(|cause| CliError::new(format!("cannot read {path}")).caused_by(cause))?;
    let front: FrontEnd = serde_json::from_str(&text)
        .map_err(|cause| CliError::new(format!("{path} is not a configuration of a front end")).caused_by(cause))?;
    let listen = front.listen;
    front.serve().map_err(|cause| CliError::new(format!("cannot forward requests at {listen}")).caused_by(cause))
}

pub fn testbed() -> Result<Testbed, CliError> {
    let program = crate::program::path().map_err(|cause| {
        CliError::new("cannot find the program itself, which is the controller too").caused_by(cause)
    })?;
    Testbed::new(Path::new(&program).to_owned()).map_err(failure)
}

fn failure(error: TestbedError) -> CliError {
    CliError::of(&error)
}
