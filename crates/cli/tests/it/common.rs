//! Runs the command for tests.

use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;
use tempfile::TempDir;

/// Returns exit code, standard output and standard error of `anabranch` in a folder. The command is
/// killed after two minutes.
pub fn outcome(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("anabranch").unwrap();
    let output = command.current_dir(folder).args(args).timeout(Duration::from_secs(120)).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Creates a folder with an experiment file `small.toml`.
pub fn folder_with(small: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), small).unwrap();
    folder
}

/// Runs a command that must exit with 2, an empty standard output and `words` in the error.
pub fn assert_rejected(folder: &Path, args: &[&str], words: &[&str]) {
    let (code, stdout, stderr) = outcome(folder, args);
    assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{args:?}: `{word}` is not in\n{stderr}");
    }
}
