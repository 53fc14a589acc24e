//! Addressing modes in the simulator: hosts use ARP, switches rewrite or label packets.

use std::fs;

use crate::support::{NEVER, experiment, options};
use anabranch_experiment::summary::{AddressingCost, RunSummary, Summary};
use anabranch_experiment::{Options, run};

const FILE: &str = r#"
name = "addressing"
seeds = 1
balancers = ["sdn-ecmp"]

[topology]
spec = "fat-tree:k=4"

[traffic]
pattern = "all-to-all"
workload = "fixed:size=20KB"
arrivals = "all-at-once"

[control]
arp = "resolve"

[sweep]
"control.addressing" = ["flat", "portland", "seattle", "vl2", "trill"]

[stop]
until = "20s"
"#;

fn results(overrides: &[(&str, &str)], jobs: usize) -> (Summary, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let experiment = experiment(FILE, overrides).unwrap_or_else(|error| panic!("{error}"));
    let options = Options { flows: false, ..options(folder.path(), jobs) };
    let summary = run(&experiment, &options, &(), &NEVER).unwrap_or_else(|error| panic!("{error:?}"));
    (summary, fs::read(folder.path().join("summary.json")).unwrap())
}

fn cost(run: &RunSummary) -> &AddressingCost {
    run.overhead.control_plane.as_ref().and_then(|plane| plane.addressing.as_ref()).expect("hosts resolve addresses")
}

#[test]
fn every_mode_delivers_all_flows_with_the_rules_of_its_closed_form() {
    let (summary, bytes) = results(&[], 1);
    assert_eq!(bytes, results(&[], 2).1, "results depend on threads");
    let expected = [None, Some([9, 7, 7]), Some([42, 23, 23]), Some([16, 12, 12]), Some([42, 23, 23])];
    for (run, expected) in summary.runs.iter().zip(expected) {
        let cost = cost(run);
        assert_eq!((run.flows.completed, run.flows.failed), (240, 0), "{}", cost.mode);
        // TRILL answers no request, and sends each to the fifteen other hosts.
        let (answered, relayed) = if cost.mode == "trill" { (0, 240) } else { (240, 0) };
        let requests = (cost.arp_requests, cost.arp_answered, cost.arp_relayed, cost.arp_copies);
        assert_eq!(requests, (240, answered, relayed, relayed * 15), "{}", cost.mode);
        assert_eq!(run.packets.dropped["no_route"] + run.packets.dropped["loop"], 0, "{}", cost.mode);
        let rules: Vec<u32> = cost.entries.iter().map(|entries| entries.max).collect();
        assert!(expected.is_none_or(|expected| rules == expected), "{}: {rules:?}", cost.mode);
        let switches: Vec<u32> = cost.entries.iter().map(|entries| entries.switches).collect();
        assert_eq!(switches, [8, 8, 4]);
    }
}

#[test]
fn failed_link_loses_no_flow() {
    let failure = [("failure", "[\"link-down:pod0/agg0->core0,at=200us\"]")];
    for run in &results(&failure, 2).0.runs {
        assert_eq!(run.flows.completed, 240, "{}: {:?}", cost(run).mode, run.flows);
        assert_eq!(run.packets.dropped["loop"], 0, "{}", cost(run).mode);
    }
}

#[test]
fn refused_location_fails_the_flow_after_three_requests() {
    let overrides =
        [("control.refuse", "[\"10.0.0.1 > 10.0.0.16\"]"), ("sweep", "{}"), ("control.addressing", "\"vl2\"")];
    let (summary, _) = results(&overrides, 1);
    let (run, cost) = (&summary.runs[0], cost(&summary.runs[0]));
    // The flows of both directions: the receiver of one needs the address to reply.
    assert_eq!((run.flows.completed, run.flows.failed), (238, 2));
    assert_eq!((cost.lookups_refused, cost.arp_failures), (3, 2));
    assert_eq!((cost.lookups, cost.directory_updates), (239, 16));
}

#[test]
fn modes_that_cannot_work_are_refused_with_the_key() {
    let refused = |overrides: &[(&str, &str)]| experiment(FILE, overrides).expect_err("it cannot work").to_string();
    let said = refused(&[("balancers", "[\"hedera\"]")]);
    assert!(said.contains("control.addressing") && said.contains("sdn-ecmp, not hedera"), "{said}");
    let said = refused(&[("topology.spec", "\"flattened-butterfly:k=3,n=2\"")]);
    assert!(said.contains("the network is not a multi-rooted tree"), "{said}");
    let said = refused(&[("control.arp", "\"known\"")]);
    assert!(said.contains("control.arp") && said.contains("cannot be \"known\""), "{said}");
    let said = refused(&[("control.refuse", "[\"10.0.0.1 > 10.0.0.2\"]")]);
    assert!(said.contains("control.refuse") && said.contains("needs a directory"), "{said}");
}
