//! Guarantees of the controller, checked on real switches: a k = 4 fat-tree of Open vSwitch under
//! traffic, with the experiment files that users run (`anabranch testbed run FILE`).
//!
//! The tests take minutes and need root and an idle machine: `scripts/test soak` runs them one at a
//! time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

fn run(file: &str) -> Value {
    run_with(file, &[])
}

fn run_with(file: &str, options: &[&str]) -> Value {
    let folder: TempDir = tempfile::tempdir().expect("a folder for temporary files");
    let out = folder.path().join("out");
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["testbed", "run", "--quiet", "--out"])
        .arg(&out)
        .arg(experiments().join(file))
        .args(options)
        .env("ANABRANCH_TESTBED_DIR", folder.path().join("state"))
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{file}: {said}");
    let text = fs::read(out.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&text).expect("JSON");
    runs(&summary).iter().for_each(check_accounting);
    summary
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn runs(summary: &Value) -> &Vec<Value> {
    summary["runs"].as_array().expect("runs")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count"))
}

fn dropped(run: &Value) -> u64 {
    run["packets"]["dropped"].as_object().expect("causes").values().map(number).sum()
}

/// Checks started = completed + failed + running, sent = delivered + dropped + in flight, and that
/// the preflight check lost no packet.
fn check_accounting(run: &Value) {
    let (flows, packets) = (&run["flows"], &run["packets"]);
    let ended = ["completed", "failed", "running"].map(|field| number(&flows[field])).iter().sum::<u64>();
    assert_eq!(number(&flows["started"]), ended, "{flows}");
    assert_eq!(number(&flows["started"]), number(&flows["listed"]), "{flows}");
    let accounted = number(&packets["delivered"]) + number(&packets["in_flight"]) + dropped(run);
    assert!(number(&packets["sent"]) > 0 && number(&packets["sent"]) == accounted, "{packets}");
    assert_eq!((number(&run["testbed"]["preflight_lost"]), &run["platform"]), (0, &"testbed".into()));
    assert!(number(&run["testbed"]["preflight_sent"]) > 1000);
}

fn migrations(run: &Value) -> u64 {
    number(&run["testbed"]["controller"]["moves"])
}

#[test]
#[ignore = "needs root and Open vSwitch: scripts/test soak"]
fn migrations_under_udp_lose_no_packet() {
    let summary = run("f2-ofpt/e2.6-testbed-udp.toml");
    let run = &runs(&summary)[0];
    println!("{} migrations, reordering {}", migrations(run), run["reordering"]);
    assert!(migrations(run) >= 20, "{} migrations", migrations(run));
    assert_eq!(dropped(run), 0, "{}", run["packets"]);
    assert_eq!(number(&run["flows"]["running"]), 4);
}

#[test]
#[ignore = "needs root and Open vSwitch: scripts/test soak"]
fn migrations_under_tcp_cause_no_retransmission() {
    let summary = run("f2-ofpt/e2.6-testbed-tcp.toml");
    let run = &runs(&summary)[0];
    println!("{} migrations, losses {}, share {}", migrations(run), run["loss"], run["throughput_share"]);
    assert!(migrations(run) >= 20, "{} migrations", migrations(run));
    assert_eq!(run["loss"]["retransmitted_share"].as_f64(), Some(0.0), "{}", run["loss"]);
    assert_eq!(dropped(run), 0, "{}", run["packets"]);
    // TCP continued at the rate of the hosts' links all the time: four of sixteen hosts send.
    let share = 4.0 * run["throughput_share"].as_f64().expect("a share");
    assert!(share > 0.85, "TCP got {share} of its links");
}

#[test]
#[ignore = "needs root and Open vSwitch: scripts/test soak"]
fn ofpt_uses_90_percent_of_bisection() {
    let share = |options: &[&str]| -> f64 {
        let summary = run_with("f2-ofpt/e2.1-testbed.toml", options);
        runs(&summary)[0]["throughput_share"].as_f64().expect("a share")
    };
    // ECMP decides once, so a part of the time shows the same share.
    let ofpt = share(&["--balancers", "ofpt"]);
    let ecmp = share(&["--balancers", "sdn-ecmp", "--set", "stop.until=20s"]);
    println!("OFPT {ofpt:.4}, ECMP {ecmp:.4} of the bisection");
    assert!(ofpt >= 0.9, "OFPT {ofpt}");
    assert!(ecmp > 0.0 && ofpt > ecmp, "OFPT {ofpt}, ECMP {ecmp}");
}

#[test]
#[ignore = "needs root and Open vSwitch: scripts/test soak"]
fn streams_leave_failed_link_within_200_ms() {
    let summary = run("testbed/link-failures.toml");
    let run = &runs(&summary)[0];
    let faults = run["testbed"]["faults"].as_array().expect("faults");
    let of = |kind: &str| -> Vec<&Value> { faults.iter().filter(|fault| fault["kind"] == kind).collect() };
    let (down, up) = (of("link-down"), of("link-up"));
    let gap = |fault: &&Value| fault["longest_gap_us"].as_f64().expect("a time") / 1e3;
    let lost = |faults: &[&Value]| faults.iter().map(|fault| number(&fault["lost"])).sum::<u64>();
    let longest = down.iter().map(gap).fold(0.0, f64::max);
    println!("{} failures: {} packets lost, longest gap {longest:.1} ms", down.len(), lost(&down));
    assert_eq!((down.len(), up.len()), (20, 20));
    for fault in &down {
        // A thousand packets a second each way: both streams together lost no more than one of them
        // sends in 200 ms.
        assert!(
            (1..=200).contains(&number(&fault["lost"])),
            "no stream used the link, or a stream stayed on it: {fault}"
        );
        assert!(gap(fault) <= 200.0, "{fault}");
    }
    assert_eq!(lost(&up), 0, "{up:?}");
    assert_eq!(lost(&down), dropped(run), "every loss is one of a failure");
}

#[test]
#[ignore = "needs root and Open vSwitch: scripts/test soak"]
fn killed_controller_loses_no_packet() {
    let summary = run("testbed/controller-killed.toml");
    assert_eq!(runs(&summary).len(), 3, "hosts configured, persisted and learned");
    for run in runs(&summary) {
        let faults = run["testbed"]["faults"].as_array().expect("faults");
        let kinds: Vec<&str> = faults.iter().filter_map(|fault| fault["kind"].as_str()).collect();
        assert_eq!(kinds, ["controller-killed", "controller-restarted"]);
        let second = &run["testbed"]["controller"];
        println!("{}: after the restart {second}", run["variant"]);
        assert_eq!(dropped(run), 0, "{}: {faults:?}", run["variant"]);
        // The restarted controller learned the whole network again and found nothing to change.
        assert_eq!((number(&second["flow_mods"]), number(&second["group_mods"])), (0, 0), "{second}");
    }
}

/// Returns the buckets of select groups of all switches below a folder, by the VLAN id that they write.
fn buckets_by_label(folder: &Path) -> std::collections::BTreeMap<String, u64> {
    let mut found = std::collections::BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder.join("ovs")) else { return found };
    for entry in entries.flatten().filter(|entry| entry.path().extension().is_some_and(|end| end == "mgmt")) {
        let bridge = format!("unix:{}", entry.path().display());
        let Ok(dump) = Command::new("ovs-ofctl").args(["-O", "OpenFlow13", "dump-groups", &bridge]).output() else {
            continue;
        };
        let text = String::from_utf8_lossy(&dump.stdout).into_owned();
        for bucket in text.split("bucket=").skip(1) {
            let label = bucket.split("set_field:").nth(1).and_then(|rest| rest.split("->vlan_vid").next());
            let weight = bucket.split("weight:").nth(1).and_then(|rest| rest.split([',', '\n']).next());
            let weight = weight.and_then(|weight| weight.parse::<u64>().ok()).unwrap_or(1);
            *found.entry(label.unwrap_or("none").to_owned()).or_default() += weight;
        }
    }
    found
}

#[test]
#[ignore = "needs root and Open vSwitch: scripts/test soak"]
fn groups_have_the_quanta_of_b4() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let (state, out) = (folder.path().join("state"), folder.path().join("out"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["testbed", "run", "--quiet", "--out"])
        .arg(&out)
        .arg(experiments().join("testbed/b4-groups.toml"))
        .env("ANABRANCH_TESTBED_DIR", &state)
        .spawn()
        .expect("it starts");
    let mut last = std::collections::BTreeMap::new();
    while child.try_wait().expect("a child").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(500));
        let seen = buckets_by_label(&state);
        if !seen.is_empty() && seen != last {
            println!("{seen:?}");
            last = seen;
        }
    }
    assert!(child.wait().expect("it ended").success());
    let mut weights: Vec<u64> = last.values().copied().collect();
    weights.sort_unstable();
    assert!(weights.len() == 2 && weights[1] == 3 * weights[0], "not three to one: {last:?}");
    let text = fs::read(out.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&text).expect("JSON");
    let run = &runs(&summary)[0];
    check_accounting(run);
    println!("{} lost of {}, throughput share {}", dropped(run), run["packets"]["sent"], run["throughput_share"]);
}

#[test]
#[ignore = "needs root, Open vSwitch and nginx: scripts/test soak"]
fn connections_leave_the_link_with_the_long_queue() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let out = folder.path().join("out");
    let done = Command::new(env!("CARGO_BIN_EXE_anabranch"))
        .args(["testbed", "run", "--quiet", "--balancers", "division-rtt", "--out"])
        .arg(&out)
        .arg(experiments().join("testbed/rtt.toml"))
        .env("ANABRANCH_TESTBED_DIR", folder.path().join("state"))
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = fs::read(out.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&text).expect("JSON");
    for run in runs(&summary) {
        println!("{}: {}", run["balancer"], run["requests"]["classes"][0]);
    }
    let class = &runs(&summary)[0]["requests"]["classes"][0];
    assert_eq!((&class["completed"], &class["failed"]), (&300.into(), &0.into()), "{class}");
    let pages = runs(&summary)[0]["requests"]["classes"][0]["pages"].as_array().expect("pages of each server").clone();
    assert!(number(&pages[1]) >= 225, "the server with the short queue answered {pages:?} of 300");
}
