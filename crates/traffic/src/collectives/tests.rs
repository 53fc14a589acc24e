use super::*;
use crate::flow::{Flow, Start};
use crate::testing::pods;
use crate::triggers;

fn make(specs: &[&str], options: RankOptions) -> FlowList {
    let specs: Vec<CollectiveSpec> = specs.iter().map(|text| CollectiveSpec::parse(text).unwrap()).collect();
    collectives(&pods(2, 2, 4), &specs, &options, 1).unwrap()
}

#[test]
fn groups_work_at_the_same_time_and_repeats_one_after_the_other() {
    let list = make(
        &["ring-all-reduce:size=800B,group_size=4,repeat=2,gap=3us", "all-to-all:size=1600B,group_size=4,stride=4"],
        RankOptions::default(),
    );
    assert_eq!(triggers::check(&list.flows), Ok(()));
    // 16 ranks: two turns of four rings of 2 * 3 * 4 sends, and four exchanges of 4 * 3.
    assert_eq!(list.flows.len(), 2 * 4 * 24 + 4 * 12);
    assert_eq!(list.total_bytes(), 2 * 4 * 2 * 3 * 800 + 4 * 3 * 1600);
    let of = |group: u32| list.flows.iter().filter(move |flow| flow.group == group);
    // Tensor-parallel groups are neighbours, data-parallel ones reach across.
    assert!(of(1).all(|flow| flow.src.0 < 4 && flow.dst.0 < 4));
    assert!(of(9).all(|flow| flow.src.0 % 4 == 0 && flow.dst.0 % 4 == 0));
    let begins =
        |group: u32| of(group).filter(|flow| !matches!(flow.start, Start::After { .. })).map(|flow| flow.start);
    for group in [1, 2, 3, 4, 9, 12] {
        assert!(begins(group).all(|start| start == Start::At(net::Time::ZERO)), "{group}");
    }
    let delay = net::Time::from_us(3);
    assert_eq!(begins(6).collect::<Vec<_>>(), [Start::AfterGroups { first: 2, last: 2, delay }; 4]);
    assert!(list.description.contains(" with "), "{}", list.description);
}

#[test]
fn triggers_of_every_group_stay_inside_it() {
    let list = make(&["all-to-all-rounds:size=1KB,group_size=8"], RankOptions::default());
    for flow in &list.flows {
        if let Start::After { flow: before, .. } = flow.start {
            assert_eq!(list.flows[before as usize].group, flow.group);
            assert_eq!(list.flows[before as usize].dst, flow.src);
        }
    }
}

#[test]
fn placements_move_ranks_and_nothing_else() {
    let sizes = |list: &FlowList| list.flows.iter().map(|flow| (flow.size_bytes, flow.start)).collect::<Vec<_>>();
    let spec = ["ring-all-gather:size=1600B"];
    let plain = make(&spec, RankOptions::default());
    for placement in [Placement::Strided, Placement::Shuffled] {
        let moved = make(&spec, RankOptions { count: None, placement });
        assert_eq!(sizes(&moved), sizes(&plain));
        assert_ne!(moved.flows, plain.flows);
    }
    let strided = make(&spec, RankOptions { count: None, placement: Placement::Strided });
    // Racks of four: neighbours of the ring are in different racks.
    assert!(strided.flows.iter().all(|flow: &Flow| flow.src.0 / 4 != flow.dst.0 / 4));
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |text: &str, count| {
        let spec = CollectiveSpec::parse(text).unwrap();
        let options = RankOptions { count, placement: Placement::Consecutive };
        collectives(&pods(2, 2, 4), &[spec], &options, 1).unwrap_err().to_string()
    };
    assert_eq!(
        refused("all-to-all:size=1KB", Some(17)),
        "17 ranks on 16 hosts; there are from 2 to as many ranks as hosts"
    );
    assert!(refused("all-to-all:size=1KB,group_size=5", None).contains("16 ranks cannot be divided into groups of 5"));
    assert!(refused("all-to-all:size=1KB,repeat=4000000000", None).contains("more than 20000000 flows"));
    assert!(refused("all-to-all:size=1KB,stride=17", None).contains("groups of 0"), "no group at all");
}
