//! `anabranch reproduce` as users run it, on a document written for the test.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{assert_rejected, outcome, succeed};

/// One of two core switches is loaded at constant rates: CLLBL is exactly 2, and only ECMP's hashes
/// are random.
const FILE: &str = include_str!("../data/constant-rates.toml");

const INDEX: &str = include_str!("../data/reproduce.toml");

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
    let stdout = succeed(folder.path(), "reproduce all --out out");
    assert!(
        stdout.contains("Of 1 claims 0 hold") && stdout.contains("2 experiments: 1 numbers, 1 contradicted"),
        "{stdout}"
    );
    let out = folder.path().join("out");
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let result: Value = serde_json::from_str(&read("reproduction.json")).unwrap();
    let entries = &result["documents"][0]["entries"];
    assert_eq!((&entries[0]["verdict"], &entries[1]["verdict"]), (&"exact".into(), &"not reproduced".into()));
    assert_eq!(entries[0]["numbers"][0]["points"][0]["measured"]["mean"], 2.0);
    assert!(entries[1]["reason"].as_str().unwrap().ends_with("hosts send 4 Mb/s in all into 40 Mb/s"), "{entries}");
    // Every verdict refers to a results folder that the report links.
    let report = read("report.html");
    assert!(out.join("d7/small/summary.json").is_file() && report.contains("href=\"d7/small/report.html\""));
    assert!(report.contains("Figure 1") && report.contains("Figure 2") && report.contains("4 / 40 = 0.1"));
    assert!(!report.contains("src=\"http") && !report.contains("href=\"http"), "it loads nothing");
    assert_eq!(read("reproduction.csv").lines().count(), 3);
    assert!(read("reproduction.md").contains("| E7.1 | Is one path used? | numbers | exact |"));

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
    let stdout = succeed(folder.path(), "reproduce --list");
    assert!(
        stdout.contains("E7.2 Is half of it used? (section 2)") && stdout.contains("small.toml (4 runs)"),
        "{stdout}"
    );
    assert!(!folder.path().join("results").exists(), "listing runs nothing");
    let stdout = succeed(folder.path(), "reproduce e7.2 --quiet");
    assert!(stdout.contains("E7.2") && !stdout.contains("E7.1"), "{stdout}");
    assert!(folder.path().join("results/reproduce/reproduction.json").is_file());
}

#[test]
fn invalid_arguments_and_indexes_are_rejected_with_hint() {
    let folder = document();
    for (command, expected) in [
        ("reproduce e7.3", "there is no document or experiment `e7.3`"),
        ("reproduce all --platform testbed", "nothing of `all` runs on the testbed"),
        ("reproduce all --folder none", "cannot read the folder none"),
    ] {
        assert_rejected(folder.path(), command, &[expected, "hint: "]);
    }
    let index = folder.path().join("experiments/d7/reproduce.toml");
    let stdout = succeed(folder.path(), "check experiments/d7/reproduce.toml");
    assert_eq!(stdout, "experiments/d7/reproduce.toml: D7, 2 experiments, 2 numbers\n");
    fs::write(&index, INDEX.replace("core_bb_rx", "core_bb")).unwrap();
    let line = 1 + INDEX.lines().position(|line| line.contains("core_bb_rx")).unwrap();
    let words = ["number.1.metric: unknown metric `core_bb`", &format!("reproduce.toml:{line}:10")];
    assert_rejected(folder.path(), "check experiments/d7/reproduce.toml", &words);
    let listed = succeed(folder.path(), "list experiments");
    assert!(listed.contains("small.toml") && !listed.contains("reproduce.toml"), "{listed}");
}
