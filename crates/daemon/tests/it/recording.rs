//! A daemon records what its controller receives, and the replay sends the same.

use std::fs;
use std::path::PathBuf;

use anabranch_daemon::recording::{Options, Summary, replay};
use net::Time;
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::common::{Fabric, Process, fat_tree, network, request, wait};

fn replayed(file: &std::path::Path) -> Summary {
    replay(file, Options::default(), None).expect("a recording")
}

#[test]
fn replay_sends_the_recorded_bytes() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("inputs");
    let record = file.clone();
    let (daemon, http, fabric) = network(move |settings| settings.log.record = Some(record));
    fabric.with(|wires| wires.announce());
    fabric.wait_reached();
    assert_eq!(request(http, "PUT", "/v1/balancer", Some("{\"spec\": \"hedera\"}")).0, 200);
    let node = fabric.with(|wires| *wires.nodes.keys().next().expect("a switch"));
    fabric.with(move |wires| wires.disconnect(node));
    wait("it connects again", || fabric.with(|wires| wires.connected()) == 20);
    fabric.wait_reached();
    drop(fabric);
    daemon.stop();

    let summary = replayed(&file);
    assert!(summary.is_same(), "{summary}");
    assert_eq!((summary.switches, summary.end.as_str()), (20, "the daemon stopped"), "{summary}");
    assert!(summary.sent["flow_mod"] > 100 && summary.received["packet_in"] > 10, "{summary}");
    assert!(
        summary.inputs["balancer"] == 1 && summary.inputs["disconnected"] >= 1 && summary.inputs["connected"] >= 21,
        "{summary}"
    );
    assert!(summary.events["SwitchUp"] >= 20 && summary.decisions > 0, "{summary}");

    let mut lines = Vec::new();
    let early = Options { until: Some(Time::from_us(1)), ..Options::default() };
    let cut = replay(&file, early, Some(&mut |line: &str| lines.push(line.to_owned()))).expect("a recording");
    assert!(cut.is_same() && cut.inputs.values().sum::<u64>() < summary.inputs.values().sum::<u64>(), "{cut}");
    replay(&file, Options::default(), Some(&mut |line: &str| lines.push(line.to_owned()))).expect("a recording");
    for part in [" < #", " > #", "event: SwitchUp", "c1 connected", "Balancer(\"hedera\")", "FeaturesRequest"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{part}");
    }
}

#[test]
fn recording_of_a_killed_daemon_replays() {
    // Both processes know the name.
    let name = |process: u32| PathBuf::from(format!("{}/{process}.inputs", env!("CARGO_TARGET_TMPDIR")));
    let of_parent = name(std::os::unix::process::parent_id());
    let test = "recording::recording_of_a_killed_daemon_replays";
    let Some(process) = Process::start(test, move |settings| settings.log.record = Some(of_parent)) else { return };
    let fabric = Fabric::start(fat_tree(), process.openflow);
    fabric.wait_reached();
    // The daemon writes at intervals: a kill loses what it received since the last write.
    let file = name(std::process::id());
    wait("the file holds every switch and its rules", || {
        replay(&file, Options::default(), None).is_ok_and(|summary| {
            summary.switches == 20 && summary.sent.get("flow_mod").is_some_and(|rules| *rules > 100)
        })
    });
    process.signal(Signal::SIGKILL);
    drop((process, fabric));

    let summary = replayed(&file);
    assert!(summary.is_same() && summary.end != "the daemon stopped", "{summary}");
    assert!(summary.switches == 20 && summary.sent["flow_mod"] > 100, "{summary}");
    fs::remove_file(file).expect("a file");
}
