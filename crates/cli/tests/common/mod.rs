//! The command as tests start it.

use std::path::Path;
use std::time::Duration;

use assert_cmd::Command;

/// Exit code, standard output and standard error of `anabranch` with these arguments in a folder, ended after two
/// minutes.
pub fn outcome(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("anabranch").unwrap();
    let output = command.current_dir(folder).args(args).timeout(Duration::from_secs(120)).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
