//! Descriptions that Open vSwitch, an independent implementation, prints of encoded messages.

use std::io::ErrorKind::NotFound;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::goldens;

/// Returns whether a program of Open vSwitch is installed; in continuous integration it must be.
pub fn is_installed(program: &str) -> bool {
    match Command::new(program).arg("--version").output() {
        Ok(output) => output.status.success(),
        Err(error) if error.kind() == NotFound => {
            let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!is_ci, "{program} is missing: install Debian's openvswitch-switch (scripts/setup)");
            eprintln!("skipped: {program} is not installed");
            false
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Returns what `ovs-ofctl ofp-parse` prints of messages; unlike `ofp-print` it reads raw bytes.
fn parse(bytes: &[u8]) -> String {
    let mut child = Command::new("ovs-ofctl")
        .args(["ofp-parse", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn open_vswitch_understands_every_golden() {
    if !is_installed("ovs-ofctl") {
        return;
    }
    for golden in goldens::all() {
        let printed = parse(&crate::bytes_of(&golden.envelope()));
        let (title, content) = &golden.shown;
        assert!(printed.starts_with(title) && printed.contains(content), "{}: {printed}", golden.name);
        for complaint in ["decode", "OFPBRC", "OFPBMC", "OFPBAC", "OFPBIC", "***"] {
            assert!(!printed.contains(complaint), "{}: {printed}", golden.name);
        }
    }
}
