//! The committed training traces become the flows their files describe.

use std::path::Path;

use anabranch_traffic::{
    Flow, FlowList, Placement, RankOptions, Start, TraceOrder, TrainingOptions, TrainingTrace, Warning, read_csv,
    read_training, write_csv,
};
use net::Topology;

const TP2: &str = "L7B-M1-C04_Llama7B_megatron_tp2_pp1_mbs1";
const TP8: &str = "G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1";
const GPT175B: &str = "G175B-M1-C03_GPT175B_megatron_tp8_pp1_mbs1_A100.txt";

fn text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/aicb");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn trace(name: &str) -> TrainingTrace {
    read_training(name, &text(name)).unwrap_or_else(|error| panic!("{error}"))
}

fn hosts(count: u32) -> Topology {
    net::spec::parse(&format!("leaf-spine:leaves={},spines=2,hosts_per_leaf=8", count / 8)).unwrap()
}

fn ranks(count: u32) -> RankOptions {
    RankOptions { count: Some(count), placement: Placement::Consecutive }
}

/// Bytes that a trace of the `.csv` kind sends, added up from its text alone: (n - 1) / n of the buffer
/// by each of n ranks, twice in an all-reduce, in each of 128 / n groups.
fn bytes_by_hand(text: &str) -> u128 {
    let mut total = 0;
    for line in text.lines().skip(2) {
        let fields: Vec<&str> = line.split(',').collect();
        let Ok(size) = fields[2].parse::<u128>() else { continue };
        let times = if fields[0] == "CommType.all_reduce" { 2 } else { 1 };
        total += times * (128 / size) * (size - 1) * fields[3].parse::<u128>().unwrap();
    }
    total
}

#[test]
fn a_trace_sends_the_bytes_it_says() {
    // One step in full, on the ranks it was taken on.
    let name = format!("{TP2}.csv");
    let options = TrainingOptions { ranks: ranks(128), ..TrainingOptions::default() };
    let (list, warnings) = trace(&name).flows(&hosts(128), &options, 1).unwrap();
    // One all-reduce of the file is of 0 bytes.
    assert_eq!(warnings, [Warning::NothingToSend { count: 1 }]);
    assert_eq!(list.total_bytes(), bytes_by_hand(&text(&name)));
    assert!(list.total_bytes() > 1_000_000_000_000, "a training step is large");
    // 128 ranks make 64 pairs and 2 groups of 64, each collective of each with its own number.
    let numbers: std::collections::BTreeSet<u32> = list.flows.iter().map(|flow| flow.group).collect();
    assert_eq!(numbers.len(), (134 + 3) * 64 + (3 + 5 + 1) * 2);
    let first = list.flows.iter().find(|flow| flow.size_bytes == 16_777_216 / 2).unwrap();
    assert_eq!(first.src.0 / 2, first.dst.0 / 2, "tensor-parallel ranks are neighbours");
}

#[test]
fn every_committed_trace_is_read_and_limits_are_told() {
    for (name, count) in [
        (format!("{TP2}.csv"), 146),
        (format!("{TP8}.csv"), 178),
        (format!("{TP2}_A100.txt"), 0),
        (GPT175B.to_owned(), 0),
        ("all_reduce.txt".to_owned(), 19),
        ("all_to_all.txt".to_owned(), 19),
    ] {
        let options =
            TrainingOptions { ranks: ranks(16), first: Some(12), size_scale: 1e-3, ..TrainingOptions::default() };
        let (list, warnings) = trace(&name).flows(&hosts(16), &options, 1).unwrap();
        assert!(!list.flows.is_empty() && list.flows.iter().all(|flow| flow.src != flow.dst), "{name}");
        assert!(FlowList::clone(&list).flows.iter().all(|flow| flow.size_bytes > 0 && flow.group > 0));
        let left_out = warnings.iter().find_map(|warning| match warning {
            Warning::CollectivesLeftOut { count, .. } => Some(*count),
            _ => None,
        });
        let left_out = left_out.unwrap_or_else(|| panic!("{name}: nothing left out in {warnings:?}"));
        if count > 0 {
            assert_eq!(left_out, count - 12, "{name}");
        }
        // The description kept with results can be replayed.
        let replayed = read_csv("t.csv", &write_csv(&list), &hosts(16)).unwrap();
        assert!(replayed.flows == list.flows && replayed.description == list.description, "{name}");
        assert!(
            !list.bus_bytes.is_empty() && replayed.bus_bytes.is_empty(),
            "{name}: a list of flows has no collectives"
        );
    }
}

#[test]
fn fewer_ranks_shrink_data_parallel_groups_alone() {
    let name = format!("{TP8}.csv");
    let options = TrainingOptions { ranks: ranks(32), size_scale: 1e-4, ..TrainingOptions::default() };
    let (list, warnings) = trace(&name).flows(&hosts(32), &options, 1).unwrap();
    assert!(warnings.contains(&Warning::OtherRanks { traced: 128, used: 32 }), "{warnings:?}");
    let of = |group: u32| list.flows.iter().filter(move |flow| flow.group == group);
    let members =
        |group: u32| of(group).flat_map(|flow| [flow.src.0, flow.dst.0]).collect::<std::collections::BTreeSet<u32>>();
    // The trace begins with data-parallel sums of 1 byte (8 scaled): 8 groups of 4 ranks, 8 apart.
    assert_eq!(members(1).into_iter().collect::<Vec<_>>(), [0, 8, 16, 24]);
    let tensor = list.flows.iter().filter(|flow| flow.src.0 / 8 == flow.dst.0 / 8).count();
    assert!(tensor > 0);
    // Without a number of ranks the largest that fits is taken.
    let automatic = TrainingOptions { ranks: RankOptions::default(), ..options };
    assert_eq!(trace(&name).flows(&hosts(32), &automatic, 1).unwrap().0, list);
    let three = TrainingOptions { ranks: ranks(12), ..options };
    let error = trace(&name).flows(&hosts(32), &three, 1).unwrap_err().to_string();
    assert!(error.contains("12 ranks cannot be divided"), "{error}");
}

fn begins(list: &FlowList, group: u32) -> Vec<Start> {
    let first = |flow: &&Flow| flow.group == group && !matches!(flow.start, Start::After { .. });
    list.flows.iter().filter(first).map(|flow| flow.start).collect()
}

const SMALL: &str = "[rank0 ~ rank3]\ncomm_type,comm_group,comm_group_size,msg_size,src\n\
    CommType.all_reduce,CommGroup.tp_group,2,100,None\nCommType.all_reduce,CommGroup.dp_group,2,200,None\n\
    CommType.barrier,CommGroup.all,4,0,None\nCommType.broadcast,CommGroup.tp_group,2,50,1\n";

#[test]
fn order_is_that_of_the_program_or_of_each_group() {
    let small = read_training("s.csv", SMALL).unwrap();
    let flows = |order| {
        let options = TrainingOptions { order, ranks: ranks(4), ..TrainingOptions::default() };
        small.flows(&hosts(8), &options, 1).unwrap().0
    };
    let delay = net::Time::ZERO;
    let program = flows(TraceOrder::Program);
    assert_eq!(program.total_bytes(), 2 * 2 * 100 + 2 * 2 * 200 + 2 * 50);
    assert_eq!(begins(&program, 1), [Start::At(delay); 2]);
    assert_eq!(begins(&program, 3), [Start::AfterGroups { first: 1, last: 2, delay }; 2]);
    assert_eq!(begins(&program, 6), [Start::AfterGroups { first: 3, last: 4, delay }]);
    let group = flows(TraceOrder::Group);
    assert_eq!(begins(&group, 3), [Start::At(delay); 2]);
    assert_eq!(begins(&group, 6), [Start::AfterGroups { first: 2, last: 2, delay }]);
    let broadcast: Vec<(u32, u32)> =
        program.flows.iter().filter(|flow| flow.group > 4).map(|flow| (flow.src.0, flow.dst.0)).collect();
    assert_eq!(broadcast, [(1, 0), (3, 2)]);
}

#[test]
fn workloads_go_forward_then_backward_with_their_computation() {
    let text = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 0\n2\n\
        a -1 100 ALLREDUCE 10 200 ALLREDUCE 20 400 ALLGATHER 40 7\nb -1 1000 NONE 0 2000 ALLREDUCE 80 4000 NONE 0 7\n";
    let workload = read_training("w.txt", text).unwrap();
    let options = TrainingOptions { ranks: ranks(4), time_scale: 2.0, ..TrainingOptions::default() };
    let (list, _) = workload.flows(&hosts(8), &options, 1).unwrap();
    assert_eq!(list.total_bytes(), 2 * 2 * (10 + 20 + 80) + 2 * 40);
    let after = |first, last, ns| Start::AfterGroups { first, last, delay: net::Time::from_ns(ns) };
    assert_eq!(begins(&list, 1), [Start::At(net::Time::from_ns(200)); 2]);
    // Backward: b's input gradient after both forwards, then b's weight gradient, update, a's.
    assert_eq!(begins(&list, 3), [after(1, 1, 2 * (1000 + 2000)); 2]);
    assert_eq!(begins(&list, 5), [after(3, 3, 2 * (4000 + 7 + 200)); 2]);
    assert_eq!(begins(&list, 7), [after(5, 6, 2 * 400); 2]);
}

#[test]
fn byte_limits_cut_between_collectives() {
    let small = read_training("s.csv", SMALL).unwrap();
    let flows = |max_bytes| {
        let options = TrainingOptions { ranks: ranks(4), max_bytes: Some(max_bytes), ..TrainingOptions::default() };
        small.flows(&hosts(8), &options, 1)
    };
    let (list, warnings) = flows(1299).unwrap();
    assert_eq!(list.total_bytes(), 1200);
    assert_eq!(warnings, [Warning::CollectivesLeftOut { count: 1, bytes: 100 }]);
    assert_eq!(flows(1300).unwrap().1, []);
    let error = flows(399).unwrap_err().to_string();
    assert!(error.contains("the first collective alone sends 400 B, above the limit of 399 B"), "{error}");
}
