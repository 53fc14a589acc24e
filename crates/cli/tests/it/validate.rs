//! `anabranch testbed validate`: agreement, difference, errors. The "testbed" results are made from a
//! simulation.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{assert_rejected, outcome, printed_json, succeed};

/// One core switch is loaded at constant rates: CLLBL is 2, and nothing is random.
const FILE: &str = include_str!("../data/validation.toml");

fn results_of_two_platforms() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), FILE).unwrap();
    for out in ["sim", "real"] {
        succeed(folder.path(), &format!("run small.toml --quiet --out {out}"));
    }
    change(folder.path(), |summary| {
        summary["runs"].as_array_mut().unwrap().iter_mut().for_each(|run| run["platform"] = "testbed".into());
    });
    folder
}

fn change(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("real/summary.json");
    let mut summary: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut summary);
    fs::write(path, serde_json::to_vec(&summary).unwrap()).unwrap();
    // As the testbed writes it, and not as an edited file.
    let sums = "sha256sum $(cut --characters 67- SHA256SUMS) > new && mv new SHA256SUMS";
    let status = Command::new("sh").args(["-c", sums]).current_dir(folder.join("real")).status().unwrap();
    assert!(status.success());
}

#[test]
fn agreeing_platforms_are_compared_in_table_and_json() {
    let folder = results_of_two_platforms();
    let (code, stdout, stderr) = outcome(folder.path(), &["testbed", "validate", "sim", "real"]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    for words in [
        "sim and testbed from 2 s on, to agree within 10",
        "core_bb_tx",
        "8 of 8 figures agree",
        "X1: One path is used",
    ] {
        assert!(stdout.contains(words), "`{words}` is not in\n{stdout}");
    }
    let json = printed_json(folder.path(), "testbed validate sim real --json");
    assert_eq!((json["rows"].as_array().unwrap().len(), &json["rows"][0]["seeds"]), (8, &2.into()), "{json}");
    assert_eq!((&json["rows"][0]["balancer"], &json["rows"][0]["verdict"]), (&"spt".into(), &"holds".into()));
    assert!((json["rows"][0]["first"]["mean"].as_f64().unwrap() - 2.0).abs() < 0.05, "{json}");
}

#[test]
fn difference_or_broken_claim_exits_with_1() {
    let folder = results_of_two_platforms();
    // Only the bin before the compared time is changed, so no figure differs.
    change(folder.path(), |summary| summary["runs"][0]["core"]["bins"][0]["bb_rx"] = 0.9.into());
    succeed(folder.path(), "testbed validate sim real");
    change(folder.path(), |summary| {
        for run in 0..2 {
            for bin in 2..4 {
                let value = &mut summary["runs"][run]["core"]["bins"][bin]["bb_rx"];
                *value = (value.as_f64().unwrap() * 1.15).into();
            }
        }
    });
    let (code, stdout, stderr) = outcome(folder.path(), &["testbed", "validate", "sim", "real"]);
    assert_eq!(code, 1, "{stderr}");
    assert!(stdout.contains("+15.0 %") && stdout.contains("differs"), "{stdout}");
    assert!(stderr.contains("the platforms do not agree: 1 of 8 figures differ"), "{stderr}");
    succeed(folder.path(), "testbed validate sim real --tolerance 0.2");
    change(folder.path(), |summary| summary["claims"][0]["verdict"] = "fails".into());
    let (code, _, stderr) = outcome(folder.path(), &["testbed", "validate", "sim", "real", "--tolerance", "0.2"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("claims do not hold: X1"), "{stderr}");
}

#[test]
fn errors_name_cause_and_fix() {
    let folder = results_of_two_platforms();
    let reject = |arguments: &str, words: &str| {
        assert_rejected(folder.path(), &format!("testbed validate sim {arguments}"), &[words]);
    };
    reject("nowhere", "nowhere holds no finished results");
    reject("real --tolerance 0", "0 is not above 0");
    change(folder.path(), |summary| summary["runs"] = Value::Array(Vec::new()));
    let (code, stdout, stderr) = outcome(folder.path(), &["testbed", "validate", "sim", "real"]);
    assert_eq!(code, 2, "{stdout}");
    assert!(stderr.contains("no comparable runs in common"), "{stderr}");
    for (good, bad, words) in [
        ("from = \"2s\"\n[[", "from = \"2s\"\nuntil = \"1s\"\n[[", "validation.until: is not after `from`"),
        ("[validation]", "[validation]\nmetrics = [\"core_cllbl\"]", "validation.metrics: unknown metric `core_cllbl`"),
        ("[validation]", "[validation]\ntolerance = 2", "validation.tolerance: 2 is not above 0 and at most 1"),
        ("fixed_bins = true\n", "", "needs time bins of a fixed width"),
    ] {
        fs::write(folder.path().join("bad.toml"), FILE.replace(good, bad)).unwrap();
        assert_rejected(folder.path(), "check bad.toml", &[words]);
    }
}
