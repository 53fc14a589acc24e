//! Central balancers with the controller, from the file to the results.

use std::fs;
use std::path::Path;

use crate::support::{NEVER, experiment, options};
use anabranch_experiment::summary::{RunSummary, Summary};
use anabranch_experiment::{Options, run};

/// k = 4; tests add failures.
const FAT_TREE: &str = include_str!("../data/fat-tree.toml");

const F0: &str = include_str!("../data/f0-stride.toml");

fn results(text: &str, overrides: &[(&str, &str)]) -> Summary {
    let folder = tempfile::tempdir().unwrap();
    results_in(folder.path(), text, overrides, 2)
}

fn results_in(folder: &Path, text: &str, overrides: &[(&str, &str)], jobs: usize) -> Summary {
    let experiment = experiment(text, overrides).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { flows: false, ..options(folder, jobs) };
    run(&experiment, &options, &(), &NEVER).unwrap_or_else(|error| panic!("{error:?}"))
}

fn of<'a>(summary: &'a Summary, balancer: &str) -> &'a RunSummary {
    summary.runs.iter().find(|run| run.balancer == balancer).expect("it was run")
}

#[test]
fn central_and_other_balancers_are_compared_in_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("1"), folder.path().join("2"));
    let summary = results_in(&one, FAT_TREE, &[], 1);
    results_in(&two, FAT_TREE, &[], 2);
    for name in ["summary.json", "report.html", "points.csv"] {
        assert_eq!(fs::read(one.join(name)).unwrap(), fs::read(two.join(name)).unwrap(), "{name} depends on threads");
    }
    for run in &summary.runs {
        assert_eq!((run.flows.completed, run.packets.in_flight), (200, 0), "{}: {:?}", run.balancer, run.packets);
        let packets = &run.packets;
        let lost: u64 = packets.dropped.values().sum();
        assert_eq!(packets.sent, packets.delivered + packets.to_controller + lost + packets.in_flight);
        assert_eq!(packets.dropped["no_route"] + packets.dropped["loop"], 0);
        assert_eq!(run.overhead.control_plane.is_some(), run.balancer.starts_with("sdn"), "{}", run.balancer);
    }
    // Hashing spreads flows over four cores; a single path for all is slower.
    let slowdown = |balancer| of(&summary, balancer).slowdown_lower_bound_mean;
    let (hashed, single) = (slowdown("sdn-ecmp"), slowdown("sdn-spt:tie=first"));
    assert!(hashed < single, "{hashed} against {single}");
    let plane = of(&summary, "sdn-ecmp").overhead.control_plane.clone().expect("there is a controller");
    assert!(plane.decisions > 0 && plane.boot.messages > 0 && plane.entries_max >= 16, "{plane:?}");
    assert_eq!((plane.errors, plane.messages_lost), (0, 0));
    let timings = fs::read_to_string(one.join("timings.json")).unwrap();
    assert_eq!(timings.matches("decision_us").count(), 4, "two balancers, two seeds: {timings}");
    assert!(!fs::read_to_string(one.join("summary.json")).unwrap().contains("decision_us"));
    let report = fs::read_to_string(one.join("report.html")).unwrap();
    assert!(report.contains("Entries per switch"), "the controller's costs are in the report");
}

/// E0.1, E0.2: "ECMP" of F0 fills one core link of each pod and leaves the others empty.
#[test]
fn the_shortest_path_under_stride_loads_one_core_of_four() {
    let summary = results(F0, &[]);
    let core = &summary.runs[0].core;
    for (what, value, expected) in [
        ("CLLBL RX", core.cllbl_rx, 4.0),
        ("CLLBL TX", core.cllbl_tx, 4.0),
        ("BB RX", core.bb_rx, 0.25),
        ("BB TX", core.bb_tx, 0.25),
    ] {
        assert!((value / expected - 1.0).abs() < 0.005, "{what} is {value}, not {expected}");
    }
    let plane = summary.runs[0].overhead.control_plane.clone().expect("there is a controller");
    assert_eq!(
        plane.to_switches["flow_mod"].messages, 0,
        "the network has not changed, and discovery must not report a change"
    );
}

/// A controller pauses between the stages of an update until packets in flight have arrived, half a
/// second on slow links. It must have finished before the first flow begins: E2.1's trees once
/// changed in the first two seconds under its flows.
#[test]
fn a_network_that_was_up_has_its_rules_when_the_first_flow_begins() {
    let slow = "fat-tree:k=8,host_rate=1Mbps,fabric_rate=2Mbps,host_delay=5ms,fabric_delay=1ms";
    let spec = format!("topology.spec=\"{slow}\"");
    let (key, value) = spec.split_once('=').expect("a key and its value");
    let balancers = r#"["sdn-spt:tie=dst_tor", "sdn-spt:tie=first", "sdn-ecmp"]"#;
    let more = [(key, value), ("traffic.pattern", "stride:step=64"), ("balancers", balancers), ("stop.until", "5s")];
    for run in &results(F0, &more).runs {
        let plane = run.overhead.control_plane.clone().expect("there is a controller");
        let changes = plane.to_switches["flow_mod"].messages + plane.to_switches["group_mod"].messages;
        assert_eq!(changes, 0, "{}: switches were changed after time 0: {plane:?}", run.balancer);
        assert_eq!(run.packets.dropped["no_route"] + run.packets.dropped["loop"], 0, "{}", run.balancer);
    }
}

/// One UDP flow in each direction of every pair; a core cable fails permanently.
const CUT: &str = include_str!("../data/cut.toml");

#[test]
fn rules_avoid_a_cut_link_after_detection() {
    let summary = |more: &[&str]| {
        let cut = "\"link-down:any,at=10ms,detection_delay=1ms\"".to_owned();
        let failures = std::iter::once(cut).chain(more.iter().map(|text| format!("\"{text}\"")));
        let list = format!("[{}]", failures.collect::<Vec<_>>().join(", "));
        results(CUT, &[("failure", &list), ("control.latency", "\"100us\"")])
    };
    let lost = |summary: &Summary| summary.runs[0].packets.dropped["link_down"];
    let free = summary(&[]);
    let run = &free.runs[0];
    // A cable of the fabric carries a flow or more at 1 Gb/s: 83 packets a millisecond each.
    assert!(lost(&free) > 0, "the cable that was cut carried nothing: choose another");
    assert!(lost(&free) < 83 * 10 * 4, "{:?}", run.packets.dropped);
    assert!(run.throughput_share > 0.09, "{}", run.throughput_share);
    let plane = run.overhead.control_plane.clone().expect("there is a controller");
    assert!(plane.to_switches["flow_mod"].messages + plane.to_switches["group_mod"].messages > 0, "{plane:?}");
    // The controller is down for the next 15 ms, so more packets are lost, except those that
    // switches reroute without it (groups whose buckets watch ports).
    let late = summary(&["controller-down,at=9ms,until=25ms"]);
    assert!(lost(&late) > lost(&free), "{} against {}", lost(&late), lost(&free));
}

#[test]
fn control_errors_name_the_key() {
    for (key, value, words) in [
        ("control.latancy", "\"1ms\"", "there is no such key"),
        ("control.latency", "\"fast\"", "control.latency"),
        ("control.bandwidth", "\"0bps\"", "must be above zero"),
        ("control.hash", "\"none\"", "`none` is not possible"),
        ("control.connect_at", "\"1ms\"", "needs boot = \"cold\""),
        ("control.packet_in_per_s", "0", "0 is not from 1"),
        ("failure", "[\"channel-stall:leaf9,at=1ms\"]", "has no node `leaf9`"),
        ("failure", "[\"channel-down:any,link=a\"]", "does not belong to `channel-down`"),
        ("failure", "[\"controller-down,switch=edge0\"]", "does not belong to `controller-down`"),
        ("failure", "[\"controller-down,direction=one-way\"]", "does not belong to `controller-down`"),
        ("topology.spec", "\"bcube:n=4,k=1\"", "needs hosts with one link each"),
    ] {
        let message = experiment(FAT_TREE, &[(key, value)]).unwrap_err().to_string();
        assert!(message.contains(words), "{key} = {value}: {message}");
    }
}

#[test]
fn control_plane_failures_are_described() {
    let failures =
        "[\"controller-down,at=1ms,until=2ms\", \"link-down:any,direction=one-way\", \"channel-stall:any,at=3ms\"]";
    let experiment = experiment(FAT_TREE, &[("failure", failures)]).unwrap();
    let setting =
        experiment.setting().into_iter().find(|(name, _)| name == "failures").expect("the setting lists failures").1;
    for words in ["controller: down from 1ms until 2ms", "down in this direction", "control channel of core"] {
        assert!(setting.contains(words), "{words}: {setting}");
    }
}
