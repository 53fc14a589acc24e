//! Comparisons of summaries, and of a small experiment by packets and by rates.

use std::path::Path;

use super::*;
use crate::input::Override;
use crate::summary::Quantiles;

fn summary(seeds: &[(u64, f64)]) -> Summary {
    let run = |(seed, mean): &(u64, f64)| RunSummary {
        balancer: "ecmp".to_owned(),
        seed: *seed,
        slowdown: Quantiles { mean: *mean, p99: 2.0 * mean, ..Quantiles::default() },
        ..RunSummary::default()
    };
    Summary { runs: seeds.iter().map(run).collect(), ..Summary::default() }
}

#[test]
fn errors_are_ranges_over_seeds() {
    let errors = compare(&summary(&[(1, 2.0), (2, 4.0)]), &summary(&[(1, 2.2), (2, 3.8)]));
    let names: Vec<&str> = errors.iter().map(|error| error.figure.as_str()).collect();
    assert_eq!(names, ["mean slowdown", "p99 slowdown"]);
    let FidelityError { packets, rates, low, high, .. } = errors[0].clone();
    assert_eq!((packets, rates), (3.0, 3.0));
    assert!((low + 0.05).abs() < 1e-12 && (high - 0.1).abs() < 1e-12, "{low} {high}");
    assert_eq!(errors[0].mean(), 0.0);
}

#[test]
fn bounds_and_runs_without_counterpart_are_left_out() {
    let mut packets = summary(&[(1, 2.0), (3, 2.0)]);
    packets.runs[0].is_bound = true;
    assert!(compare(&packets, &summary(&[(1, 2.0)])).is_empty());
}

/// The check runs the same flows in both fidelities and finds a small error on a small network.
#[test]
fn a_check_compares_both_fidelities() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    std::fs::write(&file, crate::testing::SMALL).unwrap();
    let overrides = [Override::set("balancers", "[\"ecmp\", \"spray\"]"), Override::set("seeds", "2")];
    let experiment = Experiment::load(&file, &overrides).unwrap();
    let copies = copy(&experiment, &file, &overrides).unwrap();
    let found = check(&copies, &folder.path().join("out"), 1, &(), &AtomicBool::new(false)).unwrap();
    assert_eq!((found.seeds, found.hosts), (2, copies[0].variants[0].topology.hosts().len() as u64));
    let mean = found.errors.iter().find(|error| error.balancer == "ecmp" && error.figure == "mean slowdown").unwrap();
    assert!(mean.low <= mean.mean() && mean.mean() <= mean.high && mean.mean().abs() < 0.3, "{mean:?}");
    let rates = Path::new("out/flow/summary.json");
    let text = std::fs::read_to_string(folder.path().join(rates)).unwrap();
    assert!(text.contains("\"fidelity\": \"flow\""));
}
