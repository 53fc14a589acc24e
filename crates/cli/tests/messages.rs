//! What newcomers get wrong: each message says what is wrong, where, and what to do.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

mod common;
use common::outcome;

const FILE: &str = r#"name = "small"
seeds = 1
balancers = ["ecmp", "spray"]
[topology]
spec = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2"
[traffic]
workload = "web-search"
load = [0.6]
flows = 30
"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), FILE).unwrap();
    folder
}

/// Exit 2, nothing on standard output, and these words.
fn refused(folder: &Path, args: &[&str], words: &[&str]) {
    let (code, stdout, stderr) = outcome(folder, args);
    assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: `{word}` is not in\n{stderr}");
    }
}

#[test]
fn files_that_are_none() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("empty.toml"), "\n").unwrap();
    fs::write(path.join("sizes.csv"), "a,b\n1,2\n").unwrap();
    refused(path, &["run", "empty.toml"], &["the experiment file is empty", "empty.toml", "hint: begin with"]);
    refused(path, &["run", "."], &["it is a folder", "anabranch matrix FOLDER"]);
    refused(path, &["compare", "--topology", "gone.graphml"], &["cannot read gone.graphml", "from the current folder"]);
    refused(path, &["topology", "gone.topo"], &["cannot read gone.topo", "anabranch list topologies"]);
    refused(path, &["compare", "--workload", "file:path=sizes.csv"], &["sizes.csv:1", "separated by a space"]);
    refused(path, &["compare", "--out", "small.toml"], &["cannot write to small.toml", "it is a file, not a folder"]);
}

#[test]
fn options_that_are_none() {
    let folder = folder();
    let path = folder.path();
    refused(path, &["compare", "--balancers", "ecmp spray"], &["separated by commas, such as `ecmp,spray`"]);
    refused(path, &["compare", "--failure", "link-rate:any"], &["`link-rate` needs it, such as fraction=0.2"]);
    refused(path, &["serve", "--listen", "6653"], &["write an address and a port, such as 0.0.0.0:6653"]);
    refused(path, &["storm", "--seeds", "0"], &["--seeds"]);
    refused(path, &["list", "balancers", "ecpm"], &["`ecpm` is not in the list", "did you mean `ecmp`?"]);
    for command in ["list", "run", "check", "topology", "report"] {
        refused(path, &[command], &["Usage: anabranch ", "--help"]);
    }
}

#[test]
fn results_of_another_experiment_stay() {
    let folder = folder();
    let path = folder.path();
    let (code, stdout, stderr) = outcome(path, &["run", "small.toml", "--out", "kept"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(!stdout.contains("wins") && stdout.contains("one seed cannot tell"), "{stdout}");
    let kept = fs::read(path.join("kept/summary.json")).unwrap();
    refused(path, &["compare", "--out", "kept"], &["kept holds the results of another experiment, `small`", "--out"]);
    assert_eq!(fs::read(path.join("kept/summary.json")).unwrap(), kept);
    // The same experiment may go on there.
    assert_eq!(outcome(path, &["run", "small.toml", "--out", "kept", "--seeds", "2"]).0, 0);
}

#[test]
fn lists_explain_their_marks_and_can_be_asked_for_one() {
    let folder = folder();
    let (_, all, _) = outcome(folder.path(), &["list", "balancers"]);
    assert!(all.contains("from P02;") && all.contains("P… and S… are numbers in the catalogue"), "{all}");
    let (code, one, _) = outcome(folder.path(), &["list", "balancers", "hermes", "conga"]);
    assert_eq!((code, one.matches("\n    from ").count()), (0, 2), "{one}");
    let (_, json, _) = outcome(folder.path(), &["list", "keys", "traffic.load", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap().as_array().unwrap().len(), 1);
}
