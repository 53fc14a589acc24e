//! `anabranch compare`: an experiment defined by options alone.

use std::path::Path;

use experiment::{Experiment, Override};

use crate::error::CliError;
use crate::results::RunArgs;
use crate::sequential::Sureness;

/// Compare balancers on one network under one kind of traffic
///
/// Every option has a default, so `anabranch compare` alone is a first experiment. The results
/// folder holds `experiment.toml`, the same experiment as a file to start from.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  anabranch compare --topology fat-tree:k=8 --workload web-search --load 0.3,0.6 \
                        --balancers ecmp,spray,hermes-rtt\n  anabranch compare --collective ring-all-reduce:size=1MB \
                        --topology leaf-spine --balancers ecmp,mrc")]
pub struct Args {
    /// Network: a family with parameters (see `list topologies`), or a file
    #[arg(long, value_name = "SPEC|FILE", default_value = "fat-tree:k=4")]
    topology: String,
    /// Flow sizes; see `list workloads`
    #[arg(long, value_name = "SPEC", default_value = "web-search")]
    workload: String,
    /// Collective between all hosts instead, such as ring-all-reduce:size=16MB; see `list collectives`
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["workload", "load", "flows", "pattern"])]
    collective: Option<String>,
    /// Offered loads, as shares of the host links
    #[arg(long, value_name = "LOADS", default_value = "0.6", allow_hyphen_values = true)]
    load: String,
    /// Balancers, with parameters after a colon; see `list balancers`
    #[arg(long, value_name = "SPECS", default_value = "ecmp,spray,hermes-rtt")]
    balancers: String,
    /// Flows of each run
    #[arg(long, value_name = "N", default_value = "4000", allow_hyphen_values = true)]
    flows: String,
    /// Seeds of each point; every balancer runs the same seeds
    #[arg(long, value_name = "N", default_value = "3", allow_hyphen_values = true)]
    seeds: String,
    /// Traffic pattern; see `list patterns`
    #[arg(long, value_name = "SPEC", default_value = "random-pairs")]
    pattern: String,
    /// Transport of the hosts; see `list transports`
    #[arg(long, value_name = "NAME", default_value = "dctcp")]
    transport: String,
    /// Fault, such as link-down:leaf0->spine1, link-rate:20%,fraction=0.2,
    /// random-drop:any,probability=0.02, blackhole:spine0,fraction=0.5 or switch-down:any, each
    /// with at=, until=, detection_delay= or selection_seed= (may be repeated; see failure in `list keys`)
    #[arg(long = "failure", value_name = "SPEC")]
    failures: Vec<String>,
    /// Set any key of an experiment file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    sureness: Sureness,
    #[command(flatten)]
    run: RunArgs,
}

pub fn execute(args: &Args) -> Result<(), CliError> {
    args.sureness.run(|more| experiment(args, more), &args.run).map(drop)
}

fn experiment(args: &Args, more: Vec<Override>) -> Result<Experiment, CliError> {
    let text = |key: &str, option: &str, value: &str| Override::text(key, value, format!("--{option} {value}"));
    let topology = if super::topology::is_file(&args.topology) { "topology.file" } else { "topology.spec" };
    // A file is shown by its name: its folders mean nothing to readers of the report.
    let network = match super::topology::is_file(&args.topology) {
        true => Path::new(&args.topology).file_name().and_then(|name| name.to_str()).unwrap_or(&args.topology),
        false => &args.topology,
    };
    let title = format!("{} on {network}", args.collective.as_ref().unwrap_or(&args.workload));
    let mut overrides = vec![
        Override::text("title", &title, "the title".to_owned()),
        text(topology, "topology", &args.topology),
        text("transport.kind", "transport", &args.transport),
        text("balancers", "balancers", &args.balancers),
    ];
    // Numbers are checked together with all values of files.
    let mut numbers = vec![("seeds", "seeds", &args.seeds, args.seeds.clone())];
    if let Some(collective) = &args.collective {
        overrides.push(text("traffic.collective", "collective", collective));
    } else {
        overrides.push(text("traffic.workload", "workload", &args.workload));
        overrides.push(text("traffic.pattern", "pattern", &args.pattern));
        numbers.push(("traffic.load", "load", &args.load, format!("[{}]", args.load)));
        numbers.push(("traffic.flows", "flows", &args.flows, args.flows.clone()));
    }
    for (key, option, written, value) in numbers {
        overrides.push(Override::value(key, &value, format!("--{option} {written}")));
    }
    for failure in &args.failures {
        overrides.push(text("failure", "failure", failure));
    }
    overrides.extend(super::run::overrides(&args.set)?);
    overrides.extend(more);
    Ok(Experiment::parse("the command line", "", "compare", Path::new(""), &overrides)?)
}
