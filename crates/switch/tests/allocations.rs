//! Decisions and counting need no allocation after warm-up.

#![allow(unsafe_code, reason = "a counting allocator cannot be written without")]

#[path = "it/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use anabranch_switch::Decision;
use common::{Bench, config, tcp, to};
use openflow::*;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn packets_cost_no_allocation() {
    let mut bench = Bench::new(config());
    let group_mod = |id, kind, buckets| {
        Message::GroupMod(GroupMod { command: GroupModCommand::Add, kind, group: GroupId(id), buckets })
    };
    let buckets: Vec<Bucket> = (2..5).map(|port| Bucket::watching(PortNo(port), 1)).collect();
    bench.tell(group_mod(1, GroupKind::Select, buckets.clone()));
    let copies = buckets.into_iter().map(|bucket| Bucket { weight: 0, watch_port: PortNo::ANY, ..bucket });
    bench.tell(group_mod(2, GroupKind::All, copies.collect()));
    let on = Instructions { goto: Some(TableId(1)), ..Instructions::default() };
    bench.add(0, 1, Match::default(), on);
    bench.add(1, 2, to(2), Instructions::apply(vec![Action::Group(GroupId(1))]));
    bench.add(1, 2, to(3), Instructions::apply(vec![Action::Group(GroupId(2)), Action::output(PortNo::ALL)]));
    bench.add(1, 0, Match::default(), Instructions::apply(vec![Action::to_controller()]));
    let mut decision = Decision::default();
    let mut pass = |decision: &mut Decision| {
        let before = ALLOCATIONS.get();
        for dst in 2..5 {
            for src_port in 0..100 {
                bench.switch.decide(bench.now, PortNo(1), &tcp(1, dst, src_port), decision);
                bench.switch.count(bench.now, PortNo(1), decision, 1, 1500);
            }
        }
        ALLOCATIONS.get() - before
    };
    assert!(pass(&mut decision) > 0, "six copies do not fit into a decision that is new: the counter counts");
    assert_eq!(pass(&mut decision), 0);
}
