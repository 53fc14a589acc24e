//! `anabranch import traffic`: estimates the traffic from records of flows and packets.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use net::Time;
use serde_json::json;
use traffic::records::{Edges, Estimate, Estimates, Record, estimate, read_records};

use crate::error::CliError;

/// Estimate the traffic: NetFlow, sFlow, GoFlow2, Zeek, VPC flow logs
///
/// Known are nfdump -o csv, sflowtool -l and -j, JSON of GoFlow2, conn.log of Zeek and VPC flow logs.
/// Exporters sample, so every figure has a 95 % interval. With --hosts and --ports packets are counted
/// where they enter the network; without, every switch on the path counts them.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
#[command(
    after_help = "Example:\n  anabranch import traffic data/operators/flows/nfdump.csv --hosts data/operators/flows/hosts.csv \
                        --ports data/operators/flows/ports.csv --topology net.json --out traffic"
)]
pub struct TrafficArgs {
    /// Files, or folders whose files are read
    #[arg(required = true, value_name = "FILE|FOLDER")]
    files: Vec<PathBuf>,
    /// CSV file with the columns name and ip
    #[arg(long, value_name = "FILE.csv")]
    hosts: Option<PathBuf>,
    /// CSV file with the columns agent, ifindex and peer: what is at the ports of switches
    #[arg(long, value_name = "FILE.csv", requires = "hosts")]
    ports: Option<PathBuf>,
    /// Network whose host links the load refers to
    #[arg(long, value_name = "SPEC|FILE")]
    topology: Option<String>,
    /// One packet in N was sampled, where exporters do not tell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sampling: Option<u32>,
    /// Time that the records cover, where they have no times
    #[arg(long, value_name = "TIME")]
    duration: Option<Time>,
    /// Folder for estimates.json, and matrix.csv for traffic.matrix
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print all figures as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, or is of no known form.
pub(super) fn execute(args: &TrafficArgs) -> Result<(), CliError> {
    let (mut records, mut warnings): (Vec<Record>, Vec<String>) = (Vec::new(), Vec::new());
    for path in &args.files {
        for (path, text) in super::import::texts(path)? {
            let read = read_records(&path, &text, args.sampling);
            let mut found = read.map_err(|error| CliError::new("cannot import the traffic").caused_by(error))?;
            records.append(&mut found.records);
            warnings.append(&mut found.warnings);
        }
    }
    let hosts = args.hosts.as_deref().map(hosts).transpose()?;
    let edges = args.ports.as_deref().map(|path| edges(path, hosts.as_ref())).transpose()?;
    let name_of = |address: IpAddr| match &hosts {
        Some(hosts) => hosts.get(&address).cloned(),
        None => Some(address.to_string()),
    };
    let found = estimate(&records, edges.as_ref(), &name_of);
    warnings.extend(found.warnings.iter().cloned());
    let seconds = args.duration.map(|time| time.as_s_f64()).filter(|seconds| *seconds > 0.0).or(found.duration_s);
    let topology = args.topology.as_deref().map(super::topology::read).transpose()?;
    let load = topology.as_ref().zip(seconds).map(|(topology, seconds)| {
        let capacity = net::bisection::host_capacity(topology).as_bps_f64();
        found.payload_bytes.times(8.0 / (seconds * capacity))
    });
    if load.is_none() && args.topology.is_some() {
        warnings.push(
            "the records have no times, so the load is not known: give the time that they cover with --duration"
                .to_owned(),
        );
    }
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let figures = figures(&found, seconds, load);
    let document = document(&found, seconds, load, &warnings);
    if let Some(out) = &args.out {
        write(out, "estimates.json", &format!("{document:#}\n"))?;
        match seconds {
            Some(seconds) if args.hosts.is_some() => write(out, "matrix.csv", &matrix(&found, seconds))?,
            _ => eprintln!("note: matrix.csv needs --hosts, and times or --duration"),
        }
    }
    if args.json {
        println!("{document:#}");
    } else {
        println!("{figures}");
    }
    Ok(())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<(), CliError> {
    let path = folder.join(name);
    let failure = |cause| CliError::new(format!("cannot write {}", path.display())).caused_by(cause);
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, text)).map_err(failure)
}

/// Reads columns of a CSV file without quotation marks: the values with their line.
fn columns(path: &Path, names: &[&str]) -> Result<Vec<(usize, Vec<String>)>, CliError> {
    let fail = |line: usize, problem: String| CliError::new(format!("{}:{line}: {problem}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|cause| CliError::new(format!("cannot read {}", path.display())).caused_by(cause))?;
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let (first, header) = lines.next().ok_or_else(|| fail(1, "is empty".to_owned()))?;
    let header: Vec<&str> = header.split(',').map(str::trim).collect();
    let position = |name: &&str| {
        let found = header.iter().position(|column| column == name);
        found.ok_or_else(|| fail(first, format!("the column `{name}` is missing")))
    };
    let positions: Vec<usize> = names.iter().map(position).collect::<Result<_, _>>()?;
    let row = |(line, text): (usize, &str)| {
        let values: Vec<&str> = text.split(',').map(str::trim).collect();
        let value = |at: &usize| values.get(*at).map(|value| (*value).to_owned());
        let picked: Option<Vec<String>> = positions.iter().map(value).collect();
        Ok((line, picked.ok_or_else(|| fail(line, format!("has fewer than {} columns", header.len())))?))
    };
    lines.map(row).collect()
}

fn hosts(path: &Path) -> Result<BTreeMap<IpAddr, String>, CliError> {
    let host = |(line, values): (usize, Vec<String>)| {
        let address = values[1]
            .parse()
            .map_err(|_| CliError::new(format!("{}:{line}: `{}` is not an address", path.display(), values[1])))?;
        Ok((address, values[0].clone()))
    };
    columns(path, &["name", "ip"])?.into_iter().map(host).collect()
}

/// Returns the ports that face hosts.
fn edges(path: &Path, hosts: Option<&BTreeMap<IpAddr, String>>) -> Result<Edges, CliError> {
    let names: BTreeSet<&String> = hosts.into_iter().flat_map(BTreeMap::values).collect();
    let mut edges = Edges::new();
    for (line, values) in columns(path, &["agent", "ifindex", "peer"])? {
        if !names.contains(&values[2]) {
            continue;
        }
        let (Ok(agent), Ok(port)) = (values[0].parse(), values[1].parse()) else {
            let problem = format!("`{}` is not an address, or `{}` not a number", values[0], values[1]);
            return Err(CliError::new(format!("{}:{line}: {problem}", path.display())));
        };
        edges.insert((agent, port));
    }
    if edges.is_empty() {
        let failure = CliError::new(format!("{}: no port has a host of the list as its peer", path.display()));
        return Err(failure.with_hint("the column peer must have names of --hosts"));
    }
    Ok(edges)
}

/// Returns names and texts of the figures that are known.
fn rows(
    found: &Estimates,
    seconds: Option<f64>,
    load: Option<Estimate>,
) -> Vec<(&'static str, Estimate, f64, &'static str)> {
    let mut rows = vec![
        ("packets", found.packets, 1.0, ""),
        ("IP bytes", found.ip_bytes, 1e6, "MB"),
        ("payload", found.payload_bytes, 1e6, "MB"),
    ];
    rows.extend(seconds.map(|seconds| ("rate of payload", found.payload_bytes.times(8.0 / seconds), 1e9, "Gb/s")));
    rows.extend(load.map(|load| ("load of the host links", load, 0.01, "%")));
    rows.extend(found.flows.map(|flows| ("flows", flows, 1.0, "")));
    rows.extend(found.mean_size.map(|size| ("mean size of a flow", size, 1e3, "KB")));
    rows
}

fn figures(found: &Estimates, seconds: Option<f64>, load: Option<Estimate>) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["figure", "estimate", "95 % interval", "unit"]);
    for (name, estimate, unit, unit_name) in rows(found, seconds, load) {
        // Packets and flows are whole numbers.
        let decimals = if unit == 1.0 { 0 } else { 2 };
        let digits = |value: f64| format!("{:.decimals$}", value / unit);
        let interval = match estimate.low < estimate.high {
            true => format!("{} to {}", digits(estimate.low), digits(estimate.high)),
            false => "counted".to_owned(),
        };
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([Cell::new(name), right(digits(estimate.value)), right(interval), Cell::new(unit_name)]);
    }
    let mut out = format!("{table}\n");
    let (counted, all) = found.counted;
    let _ = writeln!(
        out,
        "{counted} of {all} records counted; {} pairs; {} flows of known size",
        found.pairs.len(),
        found.large_flows.len()
    );
    out.trim_end().to_owned()
}

fn document(found: &Estimates, seconds: Option<f64>, load: Option<Estimate>, warnings: &[String]) -> serde_json::Value {
    let value = |estimate: &Estimate| json!({ "value": estimate.value, "low": estimate.low, "high": estimate.high });
    let pairs = found
        .pairs
        .iter()
        .map(|((from, to), estimate)| json!({ "from": from, "to": to, "payload_bytes": value(estimate) }));
    json!({
        "records": found.counted.1,
        "records_counted": found.counted.0,
        "duration_s": seconds,
        "packets": value(&found.packets),
        "ip_bytes": value(&found.ip_bytes),
        "payload_bytes": value(&found.payload_bytes),
        "load": load.as_ref().map(value),
        "flows": found.flows.as_ref().map(value),
        "mean_size_bytes": found.mean_size.as_ref().map(value),
        "large_flows_bytes": found.large_flows.iter().map(value).collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "warnings": warnings,
    })
}

/// Returns the rates of payload between hosts, for `traffic.matrix`.
fn matrix(found: &Estimates, seconds: f64) -> String {
    let mut out = String::from("# estimated from records of flows or packets: payload, Mbit/s\ntime_s");
    for (from, to) in found.pairs.keys() {
        let _ = write!(out, ",{from}>{to}");
    }
    out += "\n0";
    for estimate in found.pairs.values() {
        let _ = write!(out, ",{}", estimate.value * 8.0 / seconds / 1e6);
    }
    out + "\n"
}
