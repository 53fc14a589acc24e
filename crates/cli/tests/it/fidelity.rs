//! Experiments by rates of flows, on the command line.

use std::fs;

use crate::common::{SMALL, assert_rejected, folder_with, read_json, succeed};

fn by_rates(balancers: &str) -> String {
    let file = SMALL.replace("seeds = 2", "seeds = 2\nfidelity = \"flow\"").replace("[0.3, 0.6]", "[0.6]");
    let line = file.lines().find(|line| line.starts_with("balancers")).expect("a list of balancers").to_owned();
    file.replace(&line, &format!("balancers = {balancers}"))
}

#[test]
fn a_check_of_fidelity_prints_errors_and_adds_them_to_the_report() {
    let folder = folder_with(&by_rates("[\"ecmp\", \"spray\"]"));
    let path = folder.path();
    let printed = succeed(path, "run small.toml --out out --check-fidelity");
    assert!(
        printed.contains("fidelity on ") && printed.contains("mean slowdown") && printed.contains(" … "),
        "{printed}"
    );
    let summary = read_json(path.join("out/summary.json"));
    assert_eq!(summary["runs"][0]["fidelity"], "flow");
    let errors = summary["fidelity_check"]["errors"].as_array().unwrap();
    assert!(errors.iter().any(|error| error["balancer"] == "ecmp" && error["figure"] == "mean slowdown"));
    let report = fs::read_to_string(path.join("out/report.html")).unwrap();
    assert!(report.contains("Rates of flows were simulated, not packets"));
    // The checksums of the folder cover the added figures, and the report can be written again.
    let again = succeed(path, "report out");
    assert!(again.contains("report.html"), "{again}");
    assert_eq!(fs::read_to_string(path.join("out/report.html")).unwrap(), report);
}

#[test]
fn runs_by_rates_repeat_byte_for_byte_on_any_number_of_threads() {
    let folder = folder_with(&by_rates("[\"ecmp\", \"drb\"]"));
    let path = folder.path();
    for (out, jobs) in [("one", 1), ("two", 2)] {
        succeed(path, &format!("run small.toml --out {out} --jobs {jobs}"));
    }
    let summary = |out: &str| fs::read(path.join(out).join("summary.json")).unwrap();
    assert_eq!(summary("one"), summary("two"));
}

#[test]
fn balancers_without_rates_are_rejected_before_the_first_run() {
    for (balancer, expected) in [
        ("conga", "balancer `conga` depends on single packets"),
        ("mptcp", "opens several connections"),
        ("hedera", "decides in a controller"),
    ] {
        let folder = folder_with(&by_rates(&format!("[\"ecmp\", \"{balancer}\"]")));
        let words = ["fidelity", expected, "hint: set fidelity = \"packet\", or use"];
        assert_rejected(folder.path(), "run small.toml", &words);
    }
    let folder = folder_with(&by_rates("[\"ecmp\"]"));
    let command = "run small.toml --set failure=[{kind='random-drop',link='any',probability=0.1}]";
    assert_rejected(folder.path(), command, &["failure `random-drop`", "link-down"]);
    assert_rejected(folder.path(), "run small.toml --set fidelity=fluid", &["fidelity", "packet"]);
}

/// A ring on one path each: its rounds are alike, so the time of some gives that of all.
#[test]
fn some_rounds_of_a_collective_give_the_time_of_all() {
    let file = |fidelity: &str, rounds: &str| {
        format!(
            "balancers = [\"ecmp\"]\nfidelity = \"{fidelity}\"\n\
             [topology]\nspec = \"leaf-spine:leaves=4,spines=4,hosts_per_leaf=8,fabric_rate=40Gbps\"\n\
             [traffic]\ncollective = \"ring-all-reduce:size=8MB{rounds}\"\n"
        )
    };
    let folder = folder_with(&file("flow", ""));
    let path = folder.path();
    let group_time = |text: &str| {
        fs::write(path.join("small.toml"), text).unwrap();
        fs::remove_dir_all(path.join("out")).ok();
        succeed(path, "run small.toml --out out");
        let run = &read_json(path.join("out/summary.json"))["runs"][0];
        (run["groups"]["time_us"]["mean"].as_f64().unwrap(), run["flows"]["completed"].as_u64().unwrap())
    };
    let (all, flows) = group_time(&file("flow", ""));
    let (some, few) = group_time(&file("flow", ",rounds=16"));
    assert_eq!((flows, few), (62 * 32, 16 * 32));
    assert!((some / all - 1.0).abs() < 0.05, "{some} us from 16 rounds, {all} us of 62");
    fs::write(path.join("small.toml"), file("packet", ",rounds=16")).unwrap();
    assert_rejected(path, "check small.toml", &["small.toml:6", "has `rounds`, which need rates of flows"]);
}
