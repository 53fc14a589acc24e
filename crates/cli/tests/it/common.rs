//! Runs the command for tests.

use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// An experiment of two balancers, two loads and two seeds.
pub const SMALL: &str = include_str!("../../../experiment/tests/data/small.toml");

/// Returns exit code, standard output and standard error of `anabranch` in a folder. The command is
/// killed after two minutes.
pub fn outcome(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("anabranch").unwrap();
    let output = command.current_dir(folder).args(args).timeout(Duration::from_secs(120)).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

pub fn folder_with(small: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), small).unwrap();
    folder
}

/// Splits a command at its spaces; `␣` is a space in an argument.
fn words_of(command: &str) -> Vec<String> {
    command.split(' ').map(|word| word.replace('␣', " ")).collect()
}

/// Runs a command that must succeed. Returns its standard output.
pub fn succeed(folder: &Path, command: &str) -> String {
    let args = words_of(command);
    let (code, stdout, stderr) = outcome(folder, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(code, 0, "{command}: {stderr}");
    stdout
}

/// Runs a command that must exit with 2, an empty standard output and `words` in the error.
pub fn assert_rejected(folder: &Path, command: &str, words: &[&str]) {
    let args = words_of(command);
    let (code, stdout, stderr) = outcome(folder, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((code, stdout.as_str()), (2, ""), "{command}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{command}: `{word}` is not in\n{stderr}");
    }
}

pub fn read_json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
