//! Style rules of the source tree, checked over every file that git knows.
//!
//! The rules of [`rules::RATCHETS`] are ratchets: `ratchet.tsv` holds the number of findings per rule and crate, and
//! that number only falls. Every other rule allows no finding at all.

mod planted;
mod ratchet;
mod rules;
mod source;
mod tree;

use std::process::Command;

use tree::{Tree, workspace};

#[test]
fn prose_uses_no_more_banned_words() {
    ratchet::check("banned-words");
}

#[test]
fn comments_and_documents_have_no_more_long_lines() {
    ratchet::check("long-lines");
}

#[test]
fn functions_over_70_lines_do_not_increase() {
    ratchet::check("long-functions");
}

#[test]
fn files_over_600_lines_do_not_increase() {
    ratchet::check("long-files");
}

#[test]
fn doc_comments_of_four_words_do_not_increase() {
    ratchet::check("short-docs");
}

#[test]
fn file_names_describe_their_content() {
    let paths: Vec<&str> = Tree::get().files.iter().map(|file| file.path.as_str()).collect();
    rules::expect_none("file-names", rules::file_names(&paths));
}

#[test]
fn files_name_no_path_of_one_machine() {
    let findings = Tree::get().files.iter().flat_map(rules::machine_paths);
    rules::expect_none("machine-paths", findings.collect());
}

#[test]
fn code_has_no_placeholder_and_no_unexplained_ignore() {
    let findings = Tree::get().files.iter().flat_map(rules::placeholders);
    rules::expect_none("placeholders", findings.collect());
}

#[test]
fn fuzz_targets_exist_and_fuzz_is_its_own_workspace() {
    let root = workspace();
    let fuzz = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        let output = command.args(arguments).arg("--offline").current_dir(root.join("fuzz")).output();
        let output = output.expect("cargo is installed, because it runs this test");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "fuzz/: `cargo {}` fails: {stderr}", arguments.join(" "));
        output.stdout
    };
    let metadata = fuzz(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).expect("cargo writes JSON");
    // `metadata --no-deps` ignores the lock file; `pkgid` parses it and downloads nothing.
    fuzz(&["pkgid"]);
    let paths: Vec<&str> = Tree::get().files.iter().map(|file| file.path.as_str()).collect();
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the workspace has a manifest");
    rules::expect_none("fuzz-targets", rules::fuzz_targets(&metadata, &root, &manifest, &paths));
}
