//! Errors of newcomers: each message says what is wrong, where, and how to fix it.

use std::fs;

use tempfile::TempDir;

use crate::common::{SMALL, assert_rejected, folder_with, outcome, printed_json, succeed};

fn folder() -> TempDir {
    folder_with(&SMALL.replace("seeds = 2", "seeds = 1").replace("[0.3, 0.6]", "[0.6]"))
}

#[test]
fn unreadable_files_are_rejected_with_hint() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("empty.toml"), "\n").unwrap();
    fs::write(path.join("sizes.csv"), "a,b\n1,2\n").unwrap();
    assert_rejected(path, "run empty.toml", &["the experiment file is empty", "empty.toml", "hint: start from"]);
    assert_rejected(path, "run .", &["this is a folder", "anabranch matrix FOLDER"]);
    assert_rejected(path, "compare --topology gone.graphml", &["cannot read gone.graphml", "to the current folder"]);
    assert_rejected(path, "topology gone.topo", &["cannot read gone.topo", "anabranch list topologies"]);
    assert_rejected(path, "compare --workload file:path=sizes.csv", &["sizes.csv:1", "separated by a space"]);
    assert_rejected(path, "compare --out small.toml", &["cannot write to small.toml", "this is a file, not a folder"]);
}

#[test]
fn invalid_options_are_rejected_with_hint() {
    let folder = folder();
    let path = folder.path();
    assert_rejected(path, "compare --balancers ecmp␣spray", &["separated by commas, such as `ecmp,spray`"]);
    assert_rejected(path, "compare --failure link-rate:any", &["`link-rate` needs it, such as fraction=0.2"]);
    assert_rejected(path, "serve --listen 6653", &["write an address and a port, such as 0.0.0.0:6653"]);
    assert_rejected(path, "simtest --seeds 0", &["--seeds"]);
    assert_rejected(path, "list balancers ecpm", &["`ecpm` is not in the list", "did you mean `ecmp`?"]);
    for command in ["list", "run", "check", "topology", "report"] {
        assert_rejected(path, command, &["Usage: anabranch ", "--help"]);
    }
}

#[test]
fn results_of_another_experiment_are_kept() {
    let folder = folder();
    let path = folder.path();
    let stdout = succeed(path, "run small.toml --out kept");
    assert!(!stdout.contains("wins") && stdout.contains("one seed cannot resolve"), "{stdout}");
    let kept = fs::read(path.join("kept/summary.json")).unwrap();
    assert_rejected(path, "compare --out kept", &["kept holds the results of another experiment, `small`", "--out"]);
    assert_eq!(fs::read(path.join("kept/summary.json")).unwrap(), kept);
    // The same experiment may continue there.
    succeed(path, "run small.toml --out kept --seeds 2");
}

#[test]
fn lists_explain_marks_and_filter_by_name() {
    let folder = folder();
    let all = succeed(folder.path(), "list balancers");
    assert!(all.contains("from P02;") && all.contains("P… and S… are numbers in the catalogue"), "{all}");
    let (code, one, _) = outcome(folder.path(), &["list", "balancers", "hermes", "conga"]);
    assert_eq!((code, one.matches("\n    from ").count()), (0, 2), "{one}");
    assert_eq!(printed_json(folder.path(), "list keys traffic.load --json").as_array().unwrap().len(), 1);
}
