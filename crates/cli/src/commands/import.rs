//! `anabranch import`: reads files of other programs.

use std::io::Write;
use std::path::{Path, PathBuf};

use net::import::{ImportOptions, Imported, cabling};
use net::{Bandwidth, Time};

use super::import_traffic::TrafficArgs;
use crate::error::CliError;

/// Read networks and traffic from files of switches and other programs
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Topology(TopologyArgs),
    Traffic(TrafficArgs),
}

/// Read a network: SONiC, LLDP, NetBox, containerlab, ibnetdiscover and others
///
/// Known are config_db.json and minigraph.xml of SONiC; LLDP neighbours of lldpctl, EOS, Junos and
/// NX-OS as JSON; exports of NetBox; layer-1 topologies of Batfish; NetJSON; containerlab; InfraGraph;
/// and ibnetdiscover. Several files are one network: a cable that two of them report is one cable, and
/// contradictions are warnings. The name of an LLDP file up to its first point names the device.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(
    after_help = "Example:\n  anabranch import topology data/operators/sonic data/operators/lldp --out net.json\n  \
                        anabranch topology net.json"
)]
struct TopologyArgs {
    /// Files, or folders whose files are read
    #[arg(required = true, value_name = "FILE|FOLDER")]
    files: Vec<PathBuf>,
    /// File for the network, for `--topology` and `topology.file` [default: print it]
    #[arg(long, value_name = "FILE.json")]
    out: Option<PathBuf>,
    /// Rate of cables without one in the files
    #[arg(long, value_name = "RATE", default_value = "10Gbps")]
    rate: Bandwidth,
    /// Delay of cables without one in the files
    #[arg(long, value_name = "TIME", default_value = "1us")]
    delay: Time,
    /// Print no warnings about what was assumed
    #[arg(long, short)]
    quiet: bool,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, or is of no known form.
pub fn execute(args: &Args) -> Result<(), CliError> {
    match &args.what {
        What::Topology(args) => topology(args),
        What::Traffic(args) => super::import_traffic::execute(args),
    }
}

fn topology(args: &TopologyArgs) -> Result<(), CliError> {
    let texts = args.files.iter().map(|path| texts(path)).collect::<Result<Vec<_>, _>>()?.concat();
    let files: Vec<cabling::File<'_>> = texts.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let name = args
        .out
        .as_deref()
        .unwrap_or(&args.files[0])
        .file_stem()
        .map_or_else(|| "network".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let options = ImportOptions { default_rate: args.rate, default_delay: args.delay, ..ImportOptions::default() };
    let read = cabling::read(&name, &files, &options);
    let Imported { topology, warnings } =
        read.map_err(|error| CliError::new("cannot import the network").caused_by(error))?;
    if !args.quiet {
        warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    }
    let text = net::export::json(&topology);
    match &args.out {
        None => std::io::stdout().write_all(text.as_bytes())?,
        Some(path) => {
            let failure = |cause| CliError::new(format!("cannot write {}", path.display())).caused_by(cause);
            std::fs::write(path, text).map_err(failure)?;
            let (hosts, nodes, cables) = (topology.hosts().len(), topology.nodes().len(), topology.links().len() / 2);
            let switches = nodes - hosts;
            println!(
                "{}: {hosts} hosts, {switches} switches, {cables} cables; anabranch topology shows it",
                path.display()
            );
        }
    }
    Ok(())
}

/// Returns the text of a file, or of all files of a folder in the order of their names.
pub(super) fn texts(path: &Path) -> Result<Vec<(String, String)>, CliError> {
    let failure =
        |path: &Path, cause: std::io::Error| CliError::new(format!("cannot read {}", path.display())).caused_by(cause);
    let mut paths = vec![path.to_owned()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        paths = entries.map_err(|cause| failure(path, cause))?.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file());
        paths.sort();
        if paths.is_empty() {
            return Err(CliError::new(format!("{} has no files", path.display())));
        }
    }
    let read = |path: PathBuf| match std::fs::read_to_string(&path) {
        Ok(text) => Ok((path.display().to_string(), text)),
        Err(cause) => Err(failure(&path, cause)),
    };
    paths.into_iter().map(read).collect()
}
