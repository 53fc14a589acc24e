//! The small copy of an experiment.

use std::path::Path;

use net::spec_text::SpecText;
use traffic::CollectiveSpec;

use crate::input::{Experiment, FileError, Override, TrafficPlan};

/// Hosts of a copy, at most; networks up to this size are copied as they are.
const HOSTS_MAX: usize = 256;
/// Flows of each run of a copy, and its seeds, at most.
const FLOWS_MAX: u64 = 2_000;
const SEEDS_MAX: usize = 3;

/// The reason why an experiment has no copy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum CopyError {
    #[error("the network `{topology}` has {hosts} hosts, and its family has no smaller copy")]
    NoCopy { topology: String, hosts: usize },
    #[error("the copy of the experiment is not valid")]
    File(#[from] FileError),
}

/// Reads an experiment again as a copy that packets can simulate: by packets, and by rates of flows.
///
/// # Errors
/// The family of the network has no smaller copy, or the file does not fit the copy.
pub fn copy(experiment: &Experiment, file: &Path, overrides: &[Override]) -> Result<[Experiment; 2], CopyError> {
    let changes = changes(experiment)?;
    let load = |fidelity: &str, more: Option<String>| {
        let mut all = overrides.to_vec();
        all.extend(changes.iter().map(|(key, value)| Override::set(key, value)));
        all.extend(more.map(|collectives| Override::set("traffic.collective", &collectives)));
        all.push(Override::set("fidelity", fidelity));
        Experiment::load(file, &all)
    };
    Ok([load("packet", all_rounds(experiment))?, load("flow", None)?])
}

/// Returns the collectives with all their rounds, if only some are simulated: the error of a copy
/// includes that of the extrapolation.
fn all_rounds(experiment: &Experiment) -> Option<String> {
    let traffic = experiment.variants[0].traffic.whole();
    let TrafficPlan::Collectives { specs, .. } = traffic else { return None };
    let whole = specs.iter().map(|spec| format!("\"{}\"", CollectiveSpec { rounds: None, ..*spec }));
    traffic.has_sampled_rounds().then(|| format!("[{}]", whole.collect::<Vec<String>>().join(", ")))
}

/// Returns the keys of a file that differ in the copy.
fn changes(experiment: &Experiment) -> Result<Vec<(&'static str, String)>, CopyError> {
    let mut changes = Vec::new();
    if experiment.seeds.len() > SEEDS_MAX {
        changes.push(("seeds", SEEDS_MAX.to_string()));
    }
    let mut hosts = usize::MAX;
    for variant in &experiment.variants {
        let name = variant.topology.name();
        hosts = hosts.min(variant.topology.hosts().len());
        if hosts <= HOSTS_MAX {
            continue;
        }
        let given = given_spec(&experiment.file).unwrap_or_else(|| name.to_owned());
        let smaller = smaller(&given).ok_or(CopyError::NoCopy { topology: name.to_owned(), hosts })?;
        hosts = net::spec::parse(&smaller).map_or(hosts, |topology| topology.hosts().len());
        changes.push(("topology.spec", smaller));
        break;
    }
    let flows = experiment.variants.iter().flat_map(|variant| &variant.flow_counts).max().copied().unwrap_or(0);
    match experiment.variants[0].traffic.whole() {
        TrafficPlan::Generate { .. } | TrafficPlan::Demands { .. } if flows > FLOWS_MAX => {
            changes.push(("traffic.flows", FLOWS_MAX.to_string()));
        }
        TrafficPlan::Collectives { ranks, .. } if ranks.count.is_some_and(|count| count as usize > hosts) => {
            changes.push(("traffic.ranks", hosts.to_string()));
        }
        TrafficPlan::Training { .. } if experiment.variants[0].topology.hosts().len() > hosts => {
            changes.push(("traffic.ranks", hosts.to_string()));
        }
        _ => {}
    }
    Ok(changes)
}

/// Returns `topology.spec` of a file, which has rates and delays.
fn given_spec(file: &str) -> Option<String> {
    let line = file.lines().map(str::trim).find(|line| line.starts_with("spec") && line.contains('='))?;
    Some(line.split_once('=')?.1.split('"').nth(1)?.to_owned())
}

/// Returns a spec of the same shape with at most [`HOSTS_MAX`] hosts: a fat-tree of k = 8, or a
/// network whose counts are all halved as often as necessary, which keeps its oversubscription.
fn smaller(spec: &str) -> Option<String> {
    let mut spec = spec.to_owned();
    for _ in 0..32 {
        if net::spec::parse(&spec).is_ok_and(|topology| topology.hosts().len() <= HOSTS_MAX) {
            return Some(spec);
        }
        spec = halved(&spec)?;
    }
    None
}

fn halved(spec: &str) -> Option<String> {
    let SpecText { name, values } = SpecText::parse(spec).ok()?;
    let half = |value: &str| -> Option<String> {
        let counts: Option<Vec<String>> = value
            .split('/')
            .map(|count| count.parse::<u32>().ok().map(|count| (count / 2).max(1).to_string()))
            .collect();
        Some(counts?.join("/"))
    };
    let counts: &[&str] = match name {
        "fat-tree" => return Some(with(name, &values, &[("k", "8".to_owned())])),
        "leaf-spine" => &["leaves", "spines", "hosts_per_leaf"],
        "multi-tier" => &["switches", "hosts_per_edge", "uplinks"],
        _ => return None,
    };
    let changed: Option<Vec<(&str, String)>> =
        counts.iter().map(|count| Some((*count, half(values.get(count)?)?))).collect();
    Some(with(name, &values, &changed?))
}

fn with(name: &str, values: &std::collections::BTreeMap<&str, &str>, changed: &[(&str, String)]) -> String {
    let mut values: std::collections::BTreeMap<&str, String> =
        values.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
    values.extend(changed.iter().cloned());
    let values: Vec<String> = values.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{name}:{}", values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_keep_the_shape_of_the_network() {
        assert_eq!(smaller("fat-tree:k=48,host_rate=25Gbps").unwrap(), "fat-tree:host_rate=25Gbps,k=8");
        assert_eq!(
            smaller("leaf-spine:leaves=64,spines=32,hosts_per_leaf=64,fabric_rate=40Gbps").unwrap(),
            "leaf-spine:fabric_rate=40Gbps,hosts_per_leaf=16,leaves=16,spines=8"
        );
        assert_eq!(smaller("fat-tree:k=4").unwrap(), "fat-tree:k=4");
        let tiers = smaller("multi-tier:hosts_per_edge=64,switches=1024/128/64,uplinks=8/16").unwrap();
        assert!(net::spec::parse(&tiers).unwrap().hosts().len() <= HOSTS_MAX, "{tiers}");
        assert_eq!(smaller("bcube:n=16,k=2"), None);
    }

    #[test]
    fn the_spec_of_a_file_is_found() {
        let file = "name = \"x\"\n[topology]\nspec = \"fat-tree:k=48\" # large\n";
        assert_eq!(given_spec(file).unwrap(), "fat-tree:k=48");
    }
}
