//! Experiment files and data that the program contains, used outside a clone of the repository.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

use crate::common::{EXPERIMENTS, files_below};

/// Runs a command in an empty folder whose cache is `cache`. Returns exit code, standard output and standard error.
fn run(cache: &Path, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::cargo_bin("anabranch").unwrap();
    let output = command.current_dir(folder.path()).env("XDG_CACHE_HOME", cache).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn experiments_work_without_a_clone() {
    let cache = tempfile::tempdir().unwrap();
    let (code, listed, _) = run(cache.path(), &["list", "experiments"]);
    assert_eq!(code, 0);
    let names: Vec<&str> = listed.lines().filter(|line| line.starts_with("experiments/")).collect();
    let files = files_below(Path::new(EXPERIMENTS), "toml");
    let files = files.iter().filter(|path| !path.ends_with("reproduce.toml")).count();
    assert_eq!(names.len(), files);
    // Every file is complete with the files that it refers to.
    let (code, _, errors) = run(cache.path(), &[&["check"], &*names].concat());
    assert_eq!(code, 0, "{errors}");
    assert_eq!(run(cache.path(), &["topology", "data/topologies/b4.json"]).0, 0);
    let (code, shown, _) = run(cache.path(), &["reproduce", "--list"]);
    assert_eq!(code, 0);
    assert!(shown.contains("E0.1"));
}

#[test]
fn own_files_come_first_and_only_known_names_are_unpacked() {
    let cache = tempfile::tempdir().unwrap();
    let (code, _, errors) = run(cache.path(), &["check", "experiments/none.toml", "other/none.toml"]);
    assert_eq!(code, 2);
    assert!(errors.contains("experiments/none.toml"), "{errors}");
    assert!(fs::read_dir(cache.path()).unwrap().next().is_none(), "nothing is unpacked");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("experiments/canon")).unwrap();
    let mut command = Command::cargo_bin("anabranch").unwrap();
    let output = command.current_dir(folder.path()).args(["matrix"]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("there is no experiment file in experiments/canon"), "{errors}");
}

#[test]
fn unwritable_cache_is_an_error_that_names_the_way_out() {
    let cache = tempfile::NamedTempFile::new().unwrap();
    let (code, _, errors) = run(cache.path(), &["list", "experiments"]);
    assert_eq!(code, 2);
    assert!(errors.contains("XDG_CACHE_HOME"), "{errors}");
}
