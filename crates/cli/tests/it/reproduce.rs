//! `anabranch reproduce` as users run it, on a document written for the test.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::outcome;

/// One of two core switches is loaded at constant rates: CLLBL is exactly 2, and only ECMP's hashes
/// are random.
const FILE: &str = r#"name = "small"
seeds = 2
balancers = ["spt", "ecmp"]
[topology]
spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2,host_rate=1Mbps,fabric_rate=10Mbps"
[traffic]
workload = "fixed:size=1GB"
arrivals = "all-at-once"
pattern = "stride:step=2"
[transport]
kind = "udp"
rate = "2Mbps"
[probes]
bin = "1s"
fixed_bins = true
[stop]
until = "4s"
"#;

const INDEX: &str = r#"document = "D7"
title = "A document"
source = "nobody, 2026"
[[experiment]]
id = "E7.1"
question = "Is one path used?"
section = "section 1"
[[experiment]]
id = "E7.2"
question = "Is half of it used?"
section = "section 2"
[[run]]
file = "small.toml"
[[number]]
id = "E7.1"
claim = "CLLBL of one path"
printed = "2.00"
value = 2
metric = "core_cllbl_rx"
balancer = "spt"
equals = 2
figure = "Figure 1"
label = "one path"
[[number]]
id = "E7.2"
claim = "BB of one path"
printed = "0.9"
value = 0.9
metric = "core_bb_rx"
balancer = "spt"
within = [0.85, 0.95]
bound = 0.1
reason = "hosts send 4 Mb/s in all into 40 Mb/s"
found = [0.05, 0.11]
[[curve]]
figure = "Figure 2"
ids = ["E7.1"]
metric = "core_cllbl_rx"
balancers = ["spt", "ecmp"]
over = "time"
printed_name = ["the document"]
printed = [[[1, 2], [4, 2]]]
[[wrong]]
id = "E7.2"
says = "0.9"
arithmetic = "4 / 40 = 0.1"
instead = "0.1"
"#;

fn document() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("experiments/d7");
    fs::create_dir_all(&own).unwrap();
    fs::write(own.join("small.toml"), FILE).unwrap();
    fs::write(own.join("reproduce.toml"), INDEX).unwrap();
    folder
}

#[test]
fn document_is_run_judged_and_stored() {
    let folder = document();
    let (code, stdout, stderr) = outcome(folder.path(), &["reproduce", "all", "--out", "out"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("2 experiments: 1 exact, 1 not reproduced"), "{stdout}");
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("reproduction.json")).unwrap();
    let entries = &result["documents"][0]["entries"];
    assert_eq!((&entries[0]["verdict"], &entries[1]["verdict"]), (&"exact".into(), &"not reproduced".into()));
    assert_eq!(entries[0]["numbers"][0]["places"][0]["measured"]["mean"], 2.0);
    assert!(entries[1]["reason"].as_str().unwrap().ends_with("hosts send 4 Mb/s in all into 40 Mb/s"), "{entries}");
    // Every verdict refers to a results folder that the report links.
    let report = read("report.html");
    assert!(out.join("d7/small/summary.json").is_file() && report.contains("href=\"d7/small/report.html\""));
    assert!(report.contains("Figure 1") && report.contains("Figure 2") && report.contains("4 / 40 = 0.1"));
    assert!(!report.contains("src=\"http") && !report.contains("href=\"http"), "it loads nothing");
    assert_eq!(read("reproduction.csv").lines().count(), 3);
    assert!(read("reproduction.md").contains("| E7.1 | Is one path used? | exact |"));

    // Repeated, into the same folder and into another one: the bytes are identical.
    let names = ["reproduction.json", "reproduction.csv", "reproduction.md", "report.html", "d7/small/summary.json"];
    let before: Vec<String> = names.iter().map(|name| read(name)).collect();
    outcome(folder.path(), &["reproduce", "--out", "out", "--quiet", "--jobs", "1"]);
    assert_eq!(before, names.map(read));
    outcome(folder.path(), &["reproduce", "D7", "--out", "again", "--quiet", "--jobs", "1"]);
    let again = names.map(|name| fs::read_to_string(folder.path().join("again").join(name)).unwrap());
    assert_eq!(before, again);
}

#[test]
fn single_experiment_runs_and_all_are_listed() {
    let folder = document();
    let (code, stdout, _) = outcome(folder.path(), &["reproduce", "--list"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("E7.2 Is half of it used? (section 2)") && stdout.contains("small.toml (4 runs)"),
        "{stdout}"
    );
    assert!(!folder.path().join("results").exists(), "listing runs nothing");
    let (code, stdout, _) = outcome(folder.path(), &["reproduce", "e7.2", "--quiet"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("E7.2") && !stdout.contains("E7.1"), "{stdout}");
    assert!(folder.path().join("results/reproduce/reproduction.json").is_file());
}

#[test]
fn invalid_arguments_and_indexes_are_rejected_with_hint() {
    let folder = document();
    for (args, expected) in [
        (&["reproduce", "e7.3"][..], "there is no document or experiment `e7.3`"),
        (&["reproduce", "all", "--world", "testbed"], "nothing of `all` runs on the testbed"),
        (&["reproduce", "all", "--folder", "none"], "cannot read the folder none"),
    ] {
        let (code, _, stderr) = outcome(folder.path(), args);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(expected) && stderr.contains("hint: "), "{stderr}");
    }
    let index = folder.path().join("experiments/d7/reproduce.toml");
    let (code, stdout, _) = outcome(folder.path(), &["check", "experiments/d7/reproduce.toml"]);
    assert_eq!((code, stdout.as_str()), (0, "experiments/d7/reproduce.toml: D7, 2 experiments, 2 numbers\n"));
    fs::write(&index, INDEX.replace("core_bb_rx", "core_bb")).unwrap();
    let (code, _, stderr) = outcome(folder.path(), &["check", "experiments/d7/reproduce.toml"]);
    assert_eq!(code, 2);
    let line = 1 + INDEX.lines().position(|line| line.contains("core_bb_rx")).unwrap();
    assert!(stderr.contains("number.1.metric: unknown metric `core_bb`"), "{stderr}");
    assert!(stderr.contains(&format!("reproduce.toml:{line}:10")), "{stderr}");
    let (_, listed, _) = outcome(folder.path(), &["list", "experiments"]);
    assert!(listed.contains("small.toml") && !listed.contains("reproduce.toml"), "{listed}");
}
