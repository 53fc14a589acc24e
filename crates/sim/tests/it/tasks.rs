//! Execution traces against closed forms, by packets and by rates.

use std::io::{BufRead, Cursor};
use std::path::Path;

use crate::common::{list, simulate, simulate_on, topology, try_simulate};
use anabranch_sim::{Fidelity, FlowEnd, Outcome, SimConfig, TransportConfig, TransportKind, UdpRate};
use net::Time;
use traffic::{CollectiveSpec, Flow, FlowList, RankOptions, Start, TaskOptions, read_chakra, read_goal};

const STAR: &str = "single-switch:hosts=8";

fn both_fidelities() -> [SimConfig; 2] {
    [Fidelity::Packet, Fidelity::Flow].map(|fidelity| SimConfig { fidelity, ..SimConfig::default() })
}

fn goal(blocks: &[&str], options: &TaskOptions) -> FlowList {
    let block = |(rank, body): (usize, &&str)| format!("rank {rank} {{\n{}\n}}\n", body.replace("; ", "\n"));
    let blocks: String = blocks.iter().enumerate().map(block).collect();
    let text = format!("num_ranks {}\n{blocks}", blocks.matches("rank ").count());
    let trace = read_goal("t.goal", &mut Cursor::new(text)).unwrap_or_else(|error| panic!("{error}"));
    trace.flows(&topology(STAR), options, 1).unwrap()
}

/// Start and end of each flow, nanoseconds, with a check that all have completed.
fn times(o: &Outcome) -> Vec<(f64, f64)> {
    assert!(o.flows.iter().all(|flow| flow.end == FlowEnd::Completed));
    let time = |time: Time| time.as_ps() as f64 / 1000.0;
    o.flows.iter().map(|flow| (time(flow.started), time(flow.started.saturating_add(flow.fct)))).collect()
}

fn run(blocks: &[&str]) -> impl Iterator<Item = Vec<(f64, f64)>> {
    let list = goal(blocks, &TaskOptions::default());
    both_fidelities().into_iter().map(move |config| times(&simulate(&topology(STAR), &list, "ecmp", 1, &config)))
}

#[test]
fn a_chain_of_sends_and_computations_takes_the_sum_of_its_times() {
    for times in run(&[
        "s: send 8b to 1; r: recv 8b from 1; c: calc 2500; c requires r; t: send 9b to 1; t requires c",
        "r: recv 8b from 0; c: calc 70000; c requires r; s: send 8b to 0; s requires c; recv 9b from 0",
    ]) {
        let [first, last, back] = times[..] else { panic!("{times:?}") };
        assert_eq!(first.0, 0.0);
        assert_eq!(back.0, first.1 + 70_000.0);
        assert_eq!(last.0, back.1 + 2_500.0);
    }
}

#[test]
fn computations_of_one_cpu_are_serial_and_those_of_two_parallel() {
    let receipts = "recv 1b from 0 tag 1; recv 1b from 0 tag 2";
    // Ready at the same time: the one that comes first in the file runs first.
    let send = "s: send 1b to 1 tag 1; t: send 1b to 1 tag 2; s requires a; t requires b";
    for (cpus, starts) in [("1 1", [300.0, 1000.0]), ("1 2", [300.0, 700.0])] {
        let (one, other) = cpus.split_once(' ').unwrap();
        for times in run(&[&format!("a: calc 300 cpu {one}; b: calc 700 cpu {other}; {send}"), receipts]) {
            assert_eq!([times[0].0, times[1].0], starts);
        }
    }
    // In the order in which they become ready, not that of the file.
    for times in run(&[&format!("a: calc 300; b: calc 700; z: calc 50 cpu 9; a requires z; {send}"), receipts]) {
        assert_eq!([times[0].0, times[1].0], [1000.0, 700.0]);
    }
}

#[test]
fn irequires_waits_for_the_start() {
    let receipts = "recv 1000000b from 0 tag 1; recv 1b from 0 tag 2; recv 1b from 0 tag 3; recv 1b from 0 tag 4";
    let list = "c: calc 600; d: calc 900; s: send 1000000b to 1 tag 1; s irequires d; t: send 1b to 1 tag 2; \
        t irequires s; u: send 1b to 1 tag 3; u irequires c; v: send 1b to 1 tag 4; v irequires r; \
        r: recv 1b from 2; r requires d";
    for times in run(&[list, receipts, "c: calc 90000; send 1b to 0; c irequires c0; c0: calc 1"]) {
        // d starts when c ends; s and t with d; u with c; the receipt is posted when d has ended.
        let starts: Vec<f64> = times.iter().map(|(start, _)| *start).collect();
        assert_eq!(starts[..4], [600.0, 600.0, 0.0, 1500.0]);
    }
}

#[test]
fn a_receipt_waits_for_the_later_of_its_requirement_and_its_message() {
    for (compute, is_message_later) in [(10, true), (9_000_000, false)] {
        let receipt = format!("c: calc {compute}; r: recv 50000b from 0; r requires c; s: send 1b to 2; s requires r");
        for times in run(&["send 50000b to 1", &receipt, "recv 1b from 1"]) {
            let (message, after) = (times[0], times[1]);
            assert_eq!(after.0, if is_message_later { message.1 } else { 9_000_000.0 });
        }
    }
    // Two messages: the later one decides.
    let waits = "r: recv 9b from 0; t: recv 900000b from 2; s: send 1b to 3; s requires r; s requires t";
    for times in run(&["send 9b to 1", waits, "send 900000b to 1", "recv 1b from 1"]) {
        assert_eq!(times[1].0, times[2].1.max(times[0].1));
        assert!(times[2].1 > times[0].1);
    }
}

fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces").join(name).display().to_string()
}

fn ring(bytes: u64) -> FlowList {
    let spec = CollectiveSpec::parse(&format!("ring-all-reduce:size={bytes}B")).unwrap();
    traffic::collectives(&topology(STAR), &[spec], &RankOptions::default(), 1).unwrap()
}

/// Records as (sender, start, end), in order.
fn by_sender(list: &FlowList, o: &Outcome) -> Vec<(u32, f64, f64)> {
    let mut all: Vec<_> =
        list.flows.iter().zip(times(o)).map(|(flow, (start, end))| (flow.src.0, start, end)).collect();
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all
}

#[test]
fn a_ring_of_goal_is_our_ring_and_its_computations() {
    let text = std::fs::read_to_string(data("goal/all_reduce_ring.goal")).unwrap();
    let trace = read_goal("t.goal", &mut Cursor::new(text)).unwrap();
    let ring = ring(8 << 20);
    for config in both_fidelities() {
        let run = |list: &FlowList| by_sender(list, &simulate(&topology(STAR), list, "ecmp", 1, &config));
        let options = TaskOptions { time_scale: 0.0, ..TaskOptions::default() };
        let plain = run(&ring);
        assert_eq!(run(&trace.flows(&topology(STAR), &options, 1).unwrap()), plain);
        // Seven of the steps of each rank wait for 20 us more.
        let with_computation = run(&trace.flows(&topology(STAR), &TaskOptions::default(), 1).unwrap());
        let end = |all: &[(u32, f64, f64)]| all.iter().map(|(_, _, end)| *end).fold(0.0, f64::max);
        let more = end(&with_computation) - end(&plain);
        assert!((more - 7.0 * 20_000.0).abs() < 1_000.0, "{more}");
    }
}

#[test]
fn an_all_reduce_of_chakra_is_its_computation_and_our_ring() {
    let files = (0..8).map(|rank| -> (String, Box<dyn BufRead>) {
        let name = data(&format!("chakra/all_reduce.{rank}.et"));
        (name.clone(), Box::new(Cursor::new(std::fs::read(name).unwrap())))
    });
    let trace = read_chakra("all_reduce", &mut { files }).unwrap();
    let list = trace.flows(&topology(STAR), &TaskOptions::default(), 1).unwrap();
    let mut ring = ring(64 << 20);
    for flow in &mut ring.flows {
        if flow.start == Start::At(Time::ZERO) {
            flow.start = Start::At(Time::from_us(1500));
        }
    }
    for config in both_fidelities() {
        let run = |list: &FlowList| by_sender(list, &simulate(&topology(STAR), list, "ecmp", 1, &config));
        assert_eq!(run(&list), run(&ring));
    }
}

#[test]
fn a_run_with_tasks_is_the_same_on_several_threads_and_without_acknowledgements() {
    let chain = "s: send 90000b to 1; c: calc 5000; c requires s; t: send 1b to 1 tag 1; t requires c";
    let list = goal(&[chain, "recv 90000b from 0; recv 1b from 0 tag 1"], &TaskOptions::default());
    let udp = TransportConfig {
        kind: TransportKind::Udp(UdpRate::Constant(net::Bandwidth::from_gbps(1))),
        ..TransportConfig::default()
    };
    let t = topology("leaf-spine:leaves=4,spines=2,hosts_per_leaf=2");
    for transport in [TransportConfig::default(), udp] {
        let config = SimConfig { transport, ..SimConfig::default() };
        let one = simulate(&t, &list, "ecmp", 1, &config);
        let ends = times(&one);
        assert_eq!(ends[1].0, ends[0].1 + 5_000.0);
        assert!(one == simulate_on(3, &t, &list, "ecmp", 1, &config));
    }
}

#[test]
fn tasks_of_other_flows_are_refused() {
    let mut flows = goal(&["send 8b to 1", "recv 8b from 0"], &TaskOptions::default());
    let waiting = Flow { start: Start::AfterTasks, ..flows.flows[0] };
    flows.flows.push(waiting);
    for list in [flows, list(vec![waiting])] {
        let error = try_simulate(&topology(STAR), &list, "ecmp", 1, &SimConfig::default()).unwrap_err().to_string();
        assert!(error.contains("no graph of tasks"), "{error}");
    }
}
