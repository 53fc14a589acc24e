use net::{Time, Topology};
use sim::{Accounting, ControlRecord, EngineRecord, LinkRecord, ResequencingRecord, Series};
use traffic::{BusBytes, Flow, FlowList, SampledGroups, Start};

use super::*;

fn leaf_spine() -> Topology {
    net::spec::parse("leaf-spine:leaves=2,spines=2,hosts_per_leaf=1").unwrap()
}

fn record(end: FlowEnd, fct_us: u64) -> FlowRecord {
    FlowRecord {
        end,
        started: Time::ZERO,
        fct: Time::from_us(fct_us),
        sender_fct: Time::from_us(fct_us + 1),
        ideal: Time::from_us(10),
        delivered_bytes: 5_000,
        duplicate_bytes: 70,
        packets_sent: 10,
        retransmitted: 2,
        spurious: 1,
        timeouts: 1,
        fast_retransmits: 1,
        reordered: 4,
        reorder_extent: 3,
        path_changes: 1,
    }
}

fn flow(size_bytes: u64) -> Flow {
    Flow { src: net::HostIx(0), dst: net::HostIx(1), size_bytes, start: Start::At(Time::ZERO), group: 0 }
}

/// An outcome with two bins of 10 us; `loads` is the share of their capacity that upward fabric
/// links carry in the first bin.
fn outcome(topology: &Topology, flows: Vec<FlowRecord>, loads: &[f64]) -> Outcome {
    let fabric: Vec<u32> =
        (0..topology.links().len() as u32).filter(|ix| !topology.is_host_link(net::LinkIx(*ix))).collect();
    let mut upward = loads.iter();
    let bytes = fabric.iter().flat_map(|ix| {
        let first = if topology.is_upward(net::LinkIx(*ix)) { *upward.next().unwrap_or(&0.0) } else { 0.0 };
        [(first * 12_500.0) as u64, 0]
    });
    let bytes = bytes.collect();
    let count = |end| flows.iter().filter(|flow| flow.end == end).count() as u64;
    let accounting = Accounting {
        flows_listed: flows.len() as u64,
        flows_started: flows.len() as u64 - count(FlowEnd::NotStarted),
        flows_completed: count(FlowEnd::Completed),
        flows_failed: count(FlowEnd::Failed),
        flows_running: count(FlowEnd::Running),
        ..Accounting::default()
    };
    Outcome {
        end: Time::from_us(20),
        accounting,
        links: vec![LinkRecord::default(); topology.links().len()],
        link_series: Vec::new(),
        capture: sim::Capture::default(),
        series: Series { bin: Time::from_us(10), bins: 2, links: fabric, bytes },
        queues: Vec::new(),
        resequencing: ResequencingRecord::default(),
        plane: None,
        services: None,
        control: ControlRecord { packets: 3, bytes: 192, in_flight: 0 },
        max_window_packets: 10,
        engine: EngineRecord::default(),
        flows,
    }
}

fn measured(topology: &Topology, flows: &[u64], outcome: &Outcome) -> (RunSummary, RunDetail) {
    let flows = FlowList { flows: flows.iter().map(|size| flow(*size)).collect(), ..FlowList::default() };
    let balancer = balance::Spec::parse("ecmp").unwrap();
    let run = RunContext {
        warm_up: Time::ZERO,
        has_background: false,
        topology,
        flows: &flows,
        balancer: &balancer,
        variant: "",
        load: Some(0.5),
        seed: 1,
        services: None,
        keep_heat: true,
        keep_core_bins: true,
    };
    measure(&run, outcome)
}

#[test]
fn oracle_14_cllbl_of_one_one_one_five_is_two_and_a_half() {
    assert_eq!(load::max_over_mean(&[1, 1, 1, 5]), 2.5);
    let topology = leaf_spine();
    let outcome = outcome(&topology, Vec::new(), &[0.1, 0.1, 0.1, 0.5]);
    let core = core_balance(&topology, &outcome, false);
    assert!((core.cllbl_rx - 2.5).abs() < 1e-12, "{core:?}");
    assert!((core.bb_rx - 0.2).abs() < 1e-12, "{core:?}");
    // No downward traffic: idle.
    assert_eq!((core.cllbl_tx, core.bb_tx), (1.0, 0.0));
}

#[test]
fn oracle_15_jain_of_one_one_one_zero_is_three_quarters() {
    assert_eq!(jain(&[1.0, 1.0, 1.0, 0.0]), 0.75);
    assert_eq!((jain(&[2.0, 2.0]), jain(&[]), jain(&[0.0])), (1.0, 0.0, 1.0));
}

#[test]
fn unfinished_flows_are_counted_and_never_averaged_in() {
    let topology = leaf_spine();
    let flows = vec![
        record(FlowEnd::Completed, 20),
        record(FlowEnd::Completed, 40),
        record(FlowEnd::Running, 100),
        record(FlowEnd::NotStarted, 0),
    ];
    let outcome = outcome(&topology, flows, &[]);
    let (summary, detail) = measured(&topology, &[10_000, 10_001, 20_000_000, 1], &outcome);
    assert_eq!((summary.overhead.messages, summary.overhead.bytes), (3, 192), "what the balancer sent is counted");
    let delivered: u64 = outcome.flows.iter().map(|flow| flow.delivered_bytes).sum();
    assert_eq!(summary.overhead.data_bytes, delivered);
    assert!((summary.overhead.byte_share() - 192.0 / delivered as f64).abs() < 1e-12);
    assert_eq!((summary.flows.listed, summary.flows.started, summary.flows.running), (4, 3, 1));
    assert_eq!((summary.fct_us.count, summary.fct_us.mean), (2, 30.0));
    assert_eq!((summary.slowdown.mean, summary.slowdown_min), (3.0, 2.0));
    // 2, 4 and at least 10.
    assert!((summary.slowdown_lower_bound_mean - 16.0 / 3.0).abs() < 1e-12);
    let counts: Vec<(u64, u64)> =
        summary.fct_us_by_size.iter().map(|bucket| (bucket.fct_us.count, bucket.unfinished)).collect();
    assert_eq!(counts, [(1, 0), (1, 0), (0, 0), (0, 0), (0, 1)]);
    assert_eq!(summary.sender_fct_mean_us, 31.0);
    assert_eq!((summary.reordering.fraction, summary.reordering.max_extent), (0.5, 3));
    assert_eq!((summary.loss.retransmitted_share, summary.loss.spurious), (0.2, 4));
    assert_eq!(summary.loss.duplicate_bytes, 280);
    assert_eq!(detail.fct_quantiles_us.len(), 201);
}

#[test]
fn throughput_is_a_share_of_the_host_links() {
    let topology = leaf_spine();
    let flows = vec![record(FlowEnd::Completed, 20)];
    let outcome = outcome(&topology, flows, &[]);
    let (summary, _) = measured(&topology, &[5_000], &outcome);
    // 5000 B in 20 us = 2 Gb/s of 2 × 10 Gb/s.
    assert!((summary.throughput_share - 0.1).abs() < 1e-12);
    assert_eq!((summary.fairness.jain, summary.fairness.min), (1.0, 0.5));
}

#[test]
fn series_and_heat_agree() {
    let topology = leaf_spine();
    let outcome = outcome(&topology, Vec::new(), &[0.1, 0.1, 0.1, 0.5]);
    let (_, detail) = measured(&topology, &[], &outcome);
    let names: Vec<&str> = detail.tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(names, ["leaf→spine", "spine→leaf"]);
    assert!((f64::from(detail.tiers[0].mean[0]) - 0.2).abs() < 1e-6 && detail.tiers[0].max[0] == 0.5);
    let heat = detail.heat.unwrap();
    assert_eq!((heat.links.len(), heat.bins, heat.values.len()), (8, 2, 16));
    assert_eq!(heat.group, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(heat.links[0], "leaf0 -> spine0");
}

#[test]
fn groups_take_from_their_first_start_to_their_last_byte() {
    let topology = leaf_spine();
    let at = |us, record: FlowRecord| FlowRecord { started: Time::from_us(us), ..record };
    let done = |us, fct_us| at(us, record(FlowEnd::Completed, fct_us));
    let records =
        vec![done(5, 20), done(10, 40), done(7, 100), at(3, record(FlowEnd::Running, 1)), done(1, 9), done(2, 900)];
    let outcome = outcome(&topology, records, &[]);
    // Group 3 is incomplete, and 0 means no group.
    let flows: Vec<Flow> = [2, 2, 3, 3, 9, 0].into_iter().map(|group| Flow { group, ..flow(1) }).collect();
    let list = FlowList { flows, ..FlowList::default() };
    let times = groups::group_times(&list, &Selection::of(&list, &outcome, Time::ZERO, false).grouped, outcome.end);
    assert_eq!((times.unfinished, times.time_us.count), (1, 2));
    // The incomplete group began at 3 us.
    let age = outcome.end.as_us_f64() - 3.0;
    assert_eq!(times.time_lower_bound_mean_us, (45.0 + 9.0 + age) / 3.0);
    assert_eq!(times.bus_gbps_mean, 0.0);
    let all_reduce = |first, last, bytes| BusBytes { first, last, bytes };
    let list = FlowList { bus_bytes: vec![all_reduce(1, 2, 9e3), all_reduce(9, 9, 9e3)], ..list };
    let times = groups::group_times(&list, &Selection::of(&list, &outcome, Time::ZERO, false).grouped, outcome.end);
    assert_eq!(times.bus_gbps_mean, (1.6 + 8.0) / 2.0, "9 KB in 45 us and in 9 us");
    assert_eq!((times.time_us.mean, times.time_us.p50, times.time_us.max), ((45.0 + 9.0) / 2.0, 9.0, 45.0));
}

#[test]
fn rounds_that_were_not_simulated_follow_at_the_pace_of_the_later_ones() {
    let topology = leaf_spine();
    // Two chains of four flows; rounds end after 10, 20, 32 and 44 us.
    let starts = [0, 0, 10, 9, 20, 19, 30, 32];
    let times = [10, 9, 10, 10, 12, 11, 13, 12];
    let record = |(start, time): (&u64, &u64)| FlowRecord {
        started: Time::from_us(*start),
        ..record(FlowEnd::Completed, *time)
    };
    let outcome = outcome(&topology, starts.iter().zip(&times).map(record).collect(), &[]);
    let after = |id: u32| if id < 2 { Start::At(Time::ZERO) } else { Start::After { flow: id - 2, delay: Time::ZERO } };
    let flows: Vec<Flow> = (0..8).map(|id| Flow { group: 5, start: after(id), ..flow(1) }).collect();
    let mut list = FlowList { flows, ..FlowList::default() };
    let time = |list: &FlowList| {
        let times = groups::group_times(list, &Selection::of(list, &outcome, Time::ZERO, false).grouped, outcome.end);
        (times.extrapolated, times.time_us.mean)
    };
    assert_eq!(time(&list), (0, 44.0));
    list.sampled = vec![SampledGroups { first: 5, last: 6, simulated: 4, rounds: 104 }];
    assert_eq!(time(&list), (1, 44.0 + 100.0 * 12.0));
}
