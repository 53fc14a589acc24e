//! `anabranch topology`: describes a network, and exports it to other programs.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use experiment::input::Bisection;
use experiment::results::tiers::{LinkKind, tier_name};
use net::{Bandwidth, HostIx, LinkIx, Node, NodeIx, NodeKind, Routes, Topology};
use serde_json::json;

use crate::error::CliError;

/// Describe or export a network
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// A family with parameters (see `list topologies`), or a .graphml, .topo or .json file
    #[arg(value_name = "SPEC|FILE")]
    network: String,
    /// Print JSON
    #[arg(long, conflicts_with = "export")]
    json: bool,
    /// Print it in the format of another program
    #[arg(long, value_name = "FORMAT")]
    export: Option<Format>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Graphml,
    Json,
    Mininet,
}

/// Returns whether a text names a file rather than a family.
pub fn is_file(text: &str) -> bool {
    let path = Path::new(text);
    let known = |extension: &std::ffi::OsStr| ["graphml", "topo", "json"].iter().any(|known| extension == *known);
    path.is_file() || path.extension().is_some_and(known)
}

/// Runs the command.
pub fn execute(args: &Args) -> Result<(), CliError> {
    let topology = read(&args.network)?;
    let text = match args.export {
        Some(Format::Graphml) => net::export::graphml(&topology),
        Some(Format::Json) => net::export::json(&topology),
        Some(Format::Mininet) => net::export::mininet(&topology),
        None if args.json => format!("{:#}\n", Facts::of(&topology).json()),
        None => Facts::of(&topology).text(),
    };
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

pub fn read(network: &str) -> Result<Topology, CliError> {
    if !is_file(network) {
        return net::spec::parse(network).map_err(|error| {
            CliError::new(format!("{network}: no such topology"))
                .caused_by(error)
                .with_hint("`anabranch list topologies` shows all families with their parameters; files end with .graphml, .topo or .json")
        });
    }
    let text = std::fs::read_to_string(crate::shipped::path(network).map_err(CliError::new)?).map_err(|cause| {
        let failure = CliError::new(format!("cannot read {network}")).caused_by(cause);
        failure.with_hint("name a file that is there, or a family of `anabranch list topologies`")
    })?;
    let read = net::import::read(Path::new(network), &text, &net::import::ImportOptions::default());
    let imported = read.map_err(|error| CliError::new(format!("{network}: not a usable topology")).caused_by(error))?;
    imported.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    Ok(imported.topology)
}

struct Facts {
    name: String,
    hosts: usize,
    /// Number of switches by name of tier, lowest first.
    switches: Vec<(String, usize)>,
    cables: usize,
    /// Kind of link, number of cables, lowest and highest rate.
    links: Vec<(String, usize, Bandwidth, Bandwidth)>,
    /// Length in links, hosts at that distance from the first host, lowest and highest number of
    /// equal-cost paths.
    paths: Vec<(u64, usize, u32, u32)>,
    bisection: Bisection,
    /// Name of tier, capacity below / capacity above.
    oversubscription: Vec<(String, f64)>,
}

impl Facts {
    fn of(topology: &Topology) -> Facts {
        Facts {
            name: topology.name().to_owned(),
            hosts: topology.hosts().len(),
            switches: switches(topology),
            cables: topology.links().len() / 2,
            links: links(topology),
            paths: paths(topology),
            bisection: experiment::input::bisection(topology),
            oversubscription: oversubscription(topology),
        }
    }

    fn text(&self) -> String {
        let total: usize = self.switches.iter().map(|(_, count)| count).sum();
        let tiers: Vec<String> = self.switches.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let mut out = format!("{}\n", self.name);
        out += &format!("  hosts       {}\n", self.hosts);
        out += &format!("  switches    {total} ({})\n", tiers.join(", "));
        out += &format!("  cables      {}\n", self.cables);
        for (name, count, least, greatest) in &self.links {
            let rates = if least == greatest { least.to_string() } else { format!("{least} to {greatest}") };
            out += &format!("    {name}: {count} at {rates}\n");
        }
        out += &match self.bisection {
            Bisection { at_most, at_least: Some(at_least) } if at_least == at_most => {
                format!("  bisection   {at_most}\n")
            }
            Bisection { at_most, at_least: Some(at_least) } => format!("  bisection   {at_least} to {at_most}\n"),
            Bisection { at_most, at_least: None } => format!("  bisection   at most {at_most}\n"),
        };
        for (name, ratio) in &self.oversubscription {
            out += &format!("  {name} oversubscription {ratio:.2} : 1\n");
        }
        out += "  paths from the first host\n";
        for (length, hosts, least, greatest) in &self.paths {
            let count = if least == greatest { least.to_string() } else { format!("{least} to {greatest}") };
            out += &format!("    to {hosts} hosts {length} links away: {count} of equal cost\n");
        }
        out
    }

    fn json(&self) -> serde_json::Value {
        let links = self.links.iter().map(|(name, count, least, greatest)| {
            json!({ "kind": name, "cables": count, "rate_min_bps": least.as_bps(), "rate_max_bps": greatest.as_bps() })
        });
        let paths = self.paths.iter().map(|(length, hosts, least, greatest)| {
            json!({ "links": length, "hosts": hosts, "equal_cost_min": least, "equal_cost_max": greatest })
        });
        json!({
            "name": self.name,
            "hosts": self.hosts,
            "switches": self.switches.iter().map(|(name, count)| json!({ "tier": name, "count": count })).collect::<Vec<_>>(),
            "cables": self.cables,
            "links": links.collect::<Vec<_>>(),
            "paths_from_first_host": paths.collect::<Vec<_>>(),
            "bisection_bps": self.bisection.at_most.as_bps(),
            "bisection_min_bps": self.bisection.at_least.map(Bandwidth::as_bps),
            "oversubscription": self.oversubscription.iter()
                .map(|(name, ratio)| json!({ "tier": name, "ratio": ratio })).collect::<Vec<_>>(),
        })
    }
}

fn is_switch(node: &Node) -> bool {
    node.kind == NodeKind::Switch
}

fn switches(topology: &Topology) -> Vec<(String, usize)> {
    let mut count: BTreeMap<u8, usize> = BTreeMap::new();
    for node in topology.nodes().iter().filter(|node| is_switch(node)) {
        *count.entry(node.tier.0).or_default() += 1;
    }
    let top = topology.top_tier().0;
    count.into_iter().map(|(tier, count)| (tier_name(tier, top), count)).collect()
}

fn links(topology: &Topology) -> Vec<(String, usize, Bandwidth, Bandwidth)> {
    let mut kinds: BTreeMap<LinkKind, (usize, Bandwidth, Bandwidth)> = BTreeMap::new();
    for ix in (0..topology.links().len()).step_by(2) {
        let link = LinkIx(ix as u32);
        // Cables are named upward, independent of their first end.
        let kind = LinkKind { up: true, ..LinkKind::of(topology, link) };
        for rate in [topology.link(link).rate, topology.link(link.reverse()).rate] {
            let entry = kinds.entry(kind).or_insert((0, rate, rate));
            (entry.1, entry.2) = (entry.1.min(rate), entry.2.max(rate));
        }
        kinds.entry(kind).and_modify(|entry| entry.0 += 1);
    }
    kinds.into_iter().map(|(kind, (count, least, greatest))| (kind.name(topology), count, least, greatest)).collect()
}

fn paths(topology: &Topology) -> Vec<(u64, usize, u32, u32)> {
    let routes = Routes::intact(topology);
    let from = topology.host(HostIx(0));
    let mut by_length: BTreeMap<u64, (usize, u32, u32)> = BTreeMap::new();
    for host in (1..topology.hosts().len() as u32).map(HostIx) {
        let class = routes.class_of(host);
        let Some(distance) = routes.distance(from, class) else { continue };
        let length = u64::from(distance) + u64::from(routes.last_link(host).is_some());
        let count = routes.path_count(from, class);
        let entry = by_length.entry(length).or_insert((0, count, count));
        *entry = (entry.0 + 1, entry.1.min(count), entry.2.max(count));
    }
    by_length.into_iter().map(|(length, (hosts, least, greatest))| (length, hosts, least, greatest)).collect()
}

/// Returns, for each tier of switches with links up, all rates up from below / all rates up from
/// it.
fn oversubscription(topology: &Topology) -> Vec<(String, f64)> {
    let top = topology.top_tier();
    let tiers: std::collections::BTreeSet<_> =
        topology.nodes().iter().filter(|node| is_switch(node)).map(|node| node.tier).collect();
    let tier = |node: NodeIx| topology.node(node).tier;
    let ratio = |of| {
        let up = |link: &&net::Link| tier(link.to) > tier(link.from);
        let sum = |links: &mut dyn Iterator<Item = &net::Link>| links.map(|link| link.rate.as_bps_f64()).sum::<f64>();
        let below = sum(&mut topology.links().iter().filter(up).filter(|link| tier(link.to) == of));
        let above = sum(&mut topology.links().iter().filter(up).filter(|link| tier(link.from) == of));
        (above > 0.0).then(|| (tier_name(of.0, top.0), below / above))
    };
    tiers.into_iter().filter_map(ratio).collect()
}
