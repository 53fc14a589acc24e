//! Style rules of the source tree, checked over every text file that git knows.
//!
//! `ratchet.tsv` holds the number of findings per rule and crate, and that number only falls; without a row no finding
//! is allowed. A number that has to rise, because code has moved from one crate to another, is explained in the commit.
//!
//! Clippy checks the length of functions, placeholders such as `todo!` and the reasons of ignored tests
//! (`[workspace.lints]`, `clippy.toml`).

mod planted;
mod rules;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rules::{Finding, RULES};
use source::Source;

const PLACES_MAX: usize = 20;
const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const RATCHET: &str = "crates/cli/tests/tidy/ratchet.tsv";

#[test]
fn findings_do_not_increase() {
    let mut message = String::new();
    for (rule, find) in RULES {
        let mut findings: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
        for file in tree() {
            findings.entry(group(&file.path)).or_default().extend(find(file));
        }
        let differences = differences(&committed(include_str!("ratchet.tsv"), rule), findings, changed_lines);
        if !differences.is_empty() {
            message += &format!("rule {rule}:\n{differences}");
        }
    }
    assert!(message.is_empty(), "{message}");
}

#[test]
fn fuzz_targets_exist_and_fuzz_is_its_own_workspace() {
    let root = Path::new(WORKSPACE);
    // It reads the manifest and the lock file, and downloads nothing.
    let cargo = Command::new(env!("CARGO")).args(["pkgid", "--offline"]).current_dir(root.join("fuzz")).output();
    let cargo = cargo.expect("cargo is installed, because it runs this test");
    assert!(cargo.status.success(), "fuzz/: `cargo pkgid` fails: {}", String::from_utf8_lossy(&cargo.stderr));
    let manifest = |path: &str| fs::read_to_string(root.join(path)).unwrap().parse().unwrap();
    let paths: Vec<&str> = tree().iter().map(|file| file.path.as_str()).collect();
    let problems = rules::fuzz_targets(&manifest("Cargo.toml"), &manifest("fuzz/Cargo.toml"), &paths);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Reads the numbers of a rule from `rule TAB crate-or-folder TAB count` rows; panics on any other row.
fn committed<'a>(text: &'a str, rule: &str) -> BTreeMap<&'a str, usize> {
    let row = |line: &'a str| {
        let [name, group, count] = line.split('\t').collect::<Vec<_>>().try_into().ok()?;
        RULES.iter().find(|(known, _)| *known == name)?;
        Some((name, (group, count.parse().ok().filter(|count| *count > 0)?)))
    };
    let rows = text.lines().map(|line| row(line).unwrap_or_else(|| panic!("{RATCHET}: not a valid row: `{line}`")));
    rows.filter(|(name, _)| *name == rule).map(|(_, counts)| counts).collect()
}

/// Describes the crates whose findings differ from the committed number, with places if there are more.
fn differences<'a>(
    committed: &BTreeMap<&'a str, usize>,
    mut findings: BTreeMap<&'a str, Vec<Finding>>,
    changed_lines: impl Fn() -> BTreeSet<String>,
) -> String {
    let mut message = String::new();
    committed.keys().for_each(|group| _ = findings.entry(group).or_default());
    for (group, mut places) in findings {
        let (count, committed) = (places.len(), committed.get(group).copied().unwrap_or(0));
        if count == committed {
            continue;
        }
        message += &format!("{group}: {count} findings, committed {committed}; ");
        if count < committed {
            message += &format!("commit the lower number in {RATCHET}\n");
            continue;
        }
        message += &format!("remove {} of them:\n", count - committed);
        // The lines of the current change are most likely the new findings.
        let changed = changed_lines();
        places.sort_by_key(|place| !changed.contains(&place.text));
        for place in places.iter().take(PLACES_MAX) {
            let mark = if changed.contains(&place.text) { " [changed line]" } else { "" };
            message += &format!("  {place}{mark}\n");
        }
        if count > PLACES_MAX {
            message += &format!("  and {} more\n", count - PLACES_MAX);
        }
    }
    message
}

/// Returns the text files of the workspace, read once per process.
fn tree() -> &'static [Source] {
    static TREE: LazyLock<Vec<Source>> = LazyLock::new(|| {
        let paths = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]);
        // A file deleted since the last commit is still in the index; a file that is not UTF-8 is binary.
        let read = |path: &str| Some(Source::parse(path, &fs::read_to_string(Path::new(WORKSPACE).join(path)).ok()?));
        paths.split_terminator('\0').filter_map(read).collect()
    });
    &TREE
}

/// Returns the crate of a path (`crates/net`), its top folder (`docs`), or `.` for a file of the root folder.
fn group(path: &str) -> &str {
    let depth = if path.starts_with("crates/") { 1 } else { 0 };
    path.match_indices('/').nth(depth).or(path.match_indices('/').next()).map_or(".", |(end, _)| &path[..end])
}

fn git(arguments: &[&str]) -> String {
    let output = Command::new("git").args(arguments).current_dir(WORKSPACE).output().expect("git is installed");
    assert!(output.status.success(), "`git {}` fails in {WORKSPACE}", arguments.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the lines that the working tree adds to the last commit, without indentation.
fn changed_lines() -> BTreeSet<String> {
    let diff = git(&["diff", "--unified=0", "--no-color", "--no-ext-diff", "HEAD"]);
    let new = git(&["ls-files", "-z", "--others", "--exclude-standard"]);
    let new = new.split_terminator('\0').filter_map(|path| fs::read_to_string(Path::new(WORKSPACE).join(path)).ok());
    let new = new.collect::<String>();
    let added = diff.lines().filter_map(|line| line.strip_prefix('+')).chain(new.lines());
    added.map(|line| line.trim().to_owned()).collect()
}
