//! `anabranch bench controller` as a user runs it.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use crate::common::{assert_rejected, read_json, succeed};

#[test]
fn unreachable_controller_is_error_with_hint() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().to_string();
    let command = format!("bench controller --controller {free} --switches 1");
    assert_rejected(Path::new("."), &command, &[&free, "hint: is the controller running"]);
}

#[test]
fn invalid_options_are_rejected() {
    for (options, expected) in [
        ("", "--controller"),
        (" --controller nowhere:port:1", "is not an address"),
        (" --controller 127.0.0.1:1 --window 0", "--window"),
        (" --controller 127.0.0.1:1 --rate=-3", "--rate"),
        (" --controller 127.0.0.1:1 --topology fat-tre:k=4", "fat-tree"),
        (" --reference ryu-manager", "only ovs-testcontroller can be started"),
        (" --reference /nonexistent/ovs-testcontroller --no-pin", "openvswitch-testcontroller"),
    ] {
        assert_rejected(Path::new("."), &format!("bench controller{options}"), &[expected]);
    }
}

#[test]
fn reference_controller_is_started_measured_and_written_to_json() {
    let Some(program) = testcontroller() else {
        let is_ci = std::env::var_os("CI").is_some();
        assert!(!is_ci, "ovs-testcontroller is missing: install openvswitch-testcontroller");
        eprintln!("SKIPPED: ovs-testcontroller is not installed (Debian: openvswitch-testcontroller)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let options = "--switches 2 --hosts 3 --loops 1 --warm-up 0 --seconds 0.3 --no-pin --json figures.json";
    let text = succeed(folder.path(), &format!("bench controller {options} --reference {program}"));
    assert!(text.contains("ovs-testcontroller") && text.contains("a response is the packet-out"), "{text}");
    let figures = read_json(folder.path().join("figures.json"));
    for (at, load) in ["1 outstanding per switch", "64 outstanding per switch"].iter().enumerate() {
        let report = &figures["measurements"][at][0];
        assert_eq!(report["load"], *load);
        assert!(report["counts"]["answered"].as_u64().unwrap() > 100, "{report}");
        assert_eq!(report["counts"]["unanswered"], 0, "{report}");
        assert!(report["resident_bytes"].as_u64().unwrap() > 1_000_000, "{report}");
    }
}

fn testcontroller() -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join("ovs-testcontroller")).find(|path| path.is_file());
    found.map(|path| path.display().to_string())
}
