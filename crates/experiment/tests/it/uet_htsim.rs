//! Spraying compared with the Ultra Ethernet simulator, in the scenarios of `experiments/uet-htsim`.
//! The book has all of them with ten seeds; here are those that distinguish balancers, with three.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{NEVER, options};
use anabranch_experiment::{Experiment, Override, run};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/uet-htsim");

/// Their name of an algorithm, and our balancer.
const BALANCERS: [(&str, &str); 5] = [
    ("mixed64", "ue-spray"),
    ("reps64", "reps"),
    ("switch-round-robin", "spray-rr"),
    ("bitmap64", "ue-spray:picker=bitmap"),
    ("oblivious64", "ue-spray:picker=oblivious"),
];

/// Mean and largest completion time at the sender, microseconds, means over seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    mean: f64,
    last: f64,
}

fn records(path: &Path) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

fn number(record: &BTreeMap<String, String>, column: &str) -> f64 {
    record[column].parse().unwrap()
}

/// Returns their times of a scenario by algorithm.
fn theirs(scenario: &str) -> BTreeMap<String, Times> {
    let mut times: BTreeMap<String, (Times, f64)> = BTreeMap::new();
    for record in records(&Path::new(FOLDER).join("runs.csv")).iter().filter(|record| record["scenario"] == scenario) {
        let (sum, runs) = times.entry(record["algorithm"].clone()).or_default();
        sum.mean += number(record, "mean_us");
        sum.last += number(record, "last_us");
        *runs += 1.0;
    }
    times
        .into_iter()
        .map(|(name, (sum, runs))| (name, Times { mean: sum.mean / runs, last: sum.last / runs }))
        .collect()
}

/// Returns our times of the flows of one list in an experiment file, by balancer.
fn ours(file: &str, list: &str) -> BTreeMap<String, Times> {
    let balancers = BALANCERS.map(|(_, balancer)| format!("{balancer:?}")).join(",");
    let lists = format!("[\"{list}.cm\"]");
    let overrides = [
        Override::set("seeds", "3"),
        Override::set("balancers", &format!("[{balancers}]")),
        Override::set("sweep.traffic.flow_list", &lists),
    ];
    let experiment = Experiment::load(&Path::new(FOLDER).join(file), &overrides).unwrap();
    let folder = tempfile::tempdir().unwrap();
    run(&experiment, &options(folder.path(), 2), &(), &NEVER).unwrap();
    let mut runs: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for flow in records(&folder.path().join("flows.csv")) {
        assert_eq!(flow["status"], "completed");
        runs.entry((flow["balancer"].clone(), flow["seed"].clone())).or_default().push(number(&flow, "sender_fct_us"));
    }
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    for ((balancer, _), flows) in runs {
        let sum = times.entry(balancer).or_default();
        sum.mean += flows.iter().sum::<f64>() / flows.len() as f64 / 3.0;
        sum.last += flows.iter().copied().fold(0.0, f64::max) / 3.0;
    }
    times
}

/// Compares the mean completion times of a scenario; `their_suffix` names its slow links. Returns
/// our times.
fn compare(file: &str, list: &str, their_suffix: &str) -> [Times; BALANCERS.len()] {
    let (theirs, ours) = (theirs(&format!("{list}{their_suffix}")), ours(file, list));
    BALANCERS.map(|(name, balancer)| {
        let (reference, times) = (theirs[name], ours[balancer]);
        println!(
            "{list}{their_suffix} {name}: mean {:.1} to {:.1}, last {:.1} to {:.1}",
            reference.mean, times.mean, reference.last, times.last
        );
        let ratio = times.mean / reference.mean;
        assert!((ratio - 1.0).abs() < 0.05, "{list}{their_suffix} {name}: {times:?} for {reference:?}");
        times
    })
}

#[test]
fn mean_completion_times_of_spraying_are_those_of_the_ultra_ethernet_simulator() {
    for list in ["perm128_2M", "stride64_2M"] {
        let [mixed, reps, round_robin, _, oblivious] = compare("healthy.toml", list, "");
        // By the largest completion time, in their order: feedback, round robin, none.
        assert!(mixed.last.max(reps.last) < round_robin.last, "{list}: {mixed:?} {reps:?} {round_robin:?}");
        assert!(round_robin.last < oblivious.last, "{list}: {round_robin:?} {oblivious:?}");
    }
    for list in ["perm128_2M", "stride64_2M"] {
        let [mixed, reps, round_robin, bitmap, oblivious] = compare("four-slow-links.toml", list, "_degraded4");
        let hosts = mixed.last.max(reps.last).max(bitmap.last);
        assert!(hosts < round_robin.last.min(oblivious.last), "{list}: {hosts} {round_robin:?} {oblivious:?}");
    }
}
