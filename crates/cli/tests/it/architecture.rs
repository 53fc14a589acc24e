//! The dependency diagram of ARCHITECTURE.md as a test: arrows between crates, and items that pure
//! crates must not mention.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::files_below;

/// Direct dependencies that each crate may have on crates of the workspace.
const ARROWS: &[(&str, &[&str])] = &[
    ("anabranch-net", &[]),
    ("anabranch-config", &["anabranch-net"]),
    ("anabranch-traffic", &["anabranch-net"]),
    ("anabranch-balance", &["anabranch-net"]),
    ("anabranch-openflow", &[]),
    ("anabranch-switch", &["anabranch-net", "anabranch-openflow"]),
    ("anabranch-bgp", &["anabranch-net"]),
    ("anabranch-control", &["anabranch-balance", "anabranch-bgp", "anabranch-net", "anabranch-openflow"]),
    (
        "anabranch-simtest",
        &["anabranch-balance", "anabranch-control", "anabranch-net", "anabranch-openflow", "anabranch-switch"],
    ),
    (
        "anabranch-sim",
        &["anabranch-balance", "anabranch-net", "anabranch-openflow", "anabranch-switch", "anabranch-traffic"],
    ),
    (
        "anabranch-experiment",
        &[
            "anabranch-balance",
            "anabranch-config",
            "anabranch-control",
            "anabranch-net",
            "anabranch-openflow",
            "anabranch-sim",
            "anabranch-traffic",
        ],
    ),
    (
        "anabranch-daemon",
        &[
            "anabranch-balance",
            "anabranch-bgp",
            "anabranch-config",
            "anabranch-control",
            "anabranch-net",
            "anabranch-openflow",
        ],
    ),
    ("anabranch-testbed", &["anabranch-balance", "anabranch-experiment", "anabranch-net", "anabranch-traffic"]),
    ("anabranch-ofload", &["anabranch-net", "anabranch-openflow", "anabranch-switch"]),
    (
        "anabranch",
        &[
            "anabranch-balance",
            "anabranch-config",
            "anabranch-daemon",
            "anabranch-experiment",
            "anabranch-net",
            "anabranch-ofload",
            "anabranch-sim",
            "anabranch-simtest",
            "anabranch-testbed",
            "anabranch-traffic",
        ],
    ),
    (
        "anabranch-python",
        &[
            "anabranch",
            "anabranch-balance",
            "anabranch-config",
            "anabranch-experiment",
            "anabranch-net",
            "anabranch-sim",
        ],
    ),
];

/// Further dependencies of a crate's tests: controller and daemon are tested with real switches.
const ARROWS_OF_TESTS: &[(&str, &[&str])] =
    &[("anabranch-control", &["anabranch-switch"]), ("anabranch-daemon", &["anabranch-switch"])];

/// Crates without clocks, threads, output or random iteration.
const PURE: &[&str] =
    &["net", "config", "traffic", "balance", "openflow", "switch", "bgp", "control", "simtest", "sim"];

const FORBIDDEN: &[&str] =
    &["Instant::now", "SystemTime", "std::thread", "println!", "print!(", "HashMap", "HashSet", "std::net::"];

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn dependencies_follow_architecture() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(WORKSPACE)
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let names: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let known: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, known, "a crate was added or removed: update its arrows here and in ARCHITECTURE.md");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let allowed = ARROWS.iter().find(|(crate_name, _)| *crate_name == name).map_or(&[][..], |(_, allowed)| allowed);
        for dependency in package["dependencies"].as_array().expect("a list of dependencies") {
            let on = dependency["name"].as_str().expect("a name");
            let is_of_tests = dependency["kind"].as_str() == Some("dev");
            let may_test =
                ARROWS_OF_TESTS.iter().any(|(crate_name, on_too)| *crate_name == name && on_too.contains(&on));
            let forbidden = names.contains(on) && !allowed.contains(&on) && !(is_of_tests && may_test);
            assert!(!forbidden, "{name} must not depend on {on}: {allowed:?} are allowed");
        }
    }
}

#[test]
fn pure_crates_have_no_clock_thread_or_output() {
    for name in PURE {
        let files = files_below(&Path::new(WORKSPACE).join("crates").join(name).join("src"), "rs");
        assert!(!files.is_empty(), "crate {name} has moved");
        for file in files {
            let text = fs::read_to_string(&file).expect("sources are readable");
            // Measurements are ignored tests, which print what they measure.
            let is_measurement = file.ends_with("measurement.rs");
            let words: Vec<_> =
                found(&text).into_iter().filter(|word| !(is_measurement && *word == "println!")).collect();
            let message = "pure crates take time, randomness and state as arguments";
            assert!(words.is_empty(), "{} mentions {words:?}: {message}", file.display());
        }
    }
}

#[test]
fn forbidden_words_are_found_outside_comments() {
    assert_eq!(found("let t = std::time::Instant::now();"), ["Instant::now"]);
    assert_eq!(found("// Instant::now is forbidden\nlet rustc_hash = FxMap::default();"), Vec::<&str>::new());
}

fn found(text: &str) -> Vec<&'static str> {
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let mentions = |word: &&&str| text.lines().filter(code).any(|line| line.contains(**word));
    FORBIDDEN.iter().filter(mentions).copied().collect()
}
