//! Files for operators: the systemd unit, and the page about security.

use std::path::Path;
use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::common::outcome;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[test]
fn systemd_unit_is_valid_and_hardened() {
    let unit = read("debian/anabranch.service");
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(&format!("{key}="))).expect("a line");
    let (program, arguments) = value("ExecStart").split_once(' ').expect("a program with arguments");
    assert_eq!(value("ExecReload"), "/bin/kill -HUP $MAINPID");
    // The options exist.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("controller.toml");
    std::fs::copy(Path::new(ROOT).join("debian/controller.toml"), &file).expect("a copy");
    let arguments = arguments.replace("/etc/anabranch/controller.toml", file.to_str().expect("a plain name"));
    let mut arguments: Vec<&str> = arguments.split(' ').collect();
    arguments.push("--check");
    let (code, _, stderr) = outcome(folder.path(), &arguments);
    assert_eq!(code, 0, "{stderr}");

    let analyze = |arguments: &[&str]| {
        let copy = folder.path().join("anabranch.service");
        let own = cargo_bin("anabranch");
        std::fs::write(&copy, unit.replace(program, own.to_str().expect("a plain name"))).expect("a file");
        match Command::new("systemd-analyze").args(arguments).arg(&copy).output() {
            Ok(output) => output,
            Err(error) => panic!("systemd-analyze (package systemd) is needed: {error}"),
        }
    };
    // Machines without systemd can run the controller; CI must check the unit.
    let is_present = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if is_present || std::env::var_os("CI").is_some() {
        // The manual page that the unit names is part of the package: scripts/check-packages.
        let verified = analyze(&["verify", "--man=no"]);
        let text = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(verified.status.success() && !text.contains("anabranch.service:"), "{text}");
        // In tenths: "OK" of systemd-analyze begins below 5.
        let exposure = analyze(&["security", "--offline=yes", "--threshold=20"]);
        assert!(exposure.status.success(), "{}", String::from_utf8_lossy(&exposure.stdout));
    }
}

/// The example configuration has the defaults, and its comments are valid settings.
#[test]
fn example_configuration_is_valid_with_and_without_its_comments() {
    let example = read("debian/controller.toml");
    let is_setting = |line: &&str| line.starts_with('[') || line.contains(" = ");
    assert_eq!(example.lines().filter(|line| !line.starts_with('#')).find(is_setting), None);
    let folder = tempfile::tempdir().expect("a folder");
    let var = folder.path().to_str().expect("a plain name");
    let uncommented: Vec<String> = example
        .lines()
        .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')))
        .map(|line| line.replace("/var/lib/anabranch", var).replace("/var/log/anabranch", var))
        .collect();
    // The unit names these keys.
    for key in ["state = ", "audit = "] {
        assert!(uncommented.iter().any(|line| line.starts_with(key)), "{key}");
    }
    for (name, text) in [("example.toml", example), ("uncommented.toml", uncommented.join("\n"))] {
        std::fs::write(folder.path().join(name), text).expect("a file");
        let (code, _, stderr) = outcome(folder.path(), &["serve", "--config", name, "--check"]);
        assert_eq!(code, 0, "{name}: {stderr}");
    }
}

/// Cargo.toml has the version. The changelogs must follow it.
#[test]
fn versions_of_changelogs_are_that_of_the_program() {
    let version = env!("CARGO_PKG_VERSION");
    let debian = read("debian/changelog");
    assert!(debian.starts_with(&format!("anabranch ({version}) ")), "debian/changelog is not of {version}");
    // Changes after a release belong to another version than that of the release.
    let changelog = read("CHANGELOG.md");
    let headings: Vec<&str> = changelog.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let released = |heading: &&&str| heading.split(' ').next() == Some(version);
    match headings.first().expect("a heading") {
        &"Unreleased" => assert_eq!(headings.iter().find(released), None, "CHANGELOG.md has released {version}"),
        first => assert!(released(&first), "CHANGELOG.md begins with {first}, not with {version}"),
    }
}

/// Each row of the threat table names tests that exist.
#[test]
fn threats_have_tests() {
    let page = read("book/src/security.md");
    let mut sources = String::new();
    for crate_name in ["control", "daemon", "cli", "openflow", "simtest", "switch", "experiment"] {
        for file in crate::common::files_below(&Path::new(ROOT).join("crates").join(crate_name), "rs") {
            sources.push_str(&std::fs::read_to_string(file).expect("a source file"));
        }
    }
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| threat") && !line.starts_with("| ---"));
    let mut count = 0;
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit_once(" | ").expect("columns").1;
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test: {row}");
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "test `{name}` does not exist: {row}");
            count += 1;
        }
    }
    assert!(count >= 60, "only {count} tests are named");
}
