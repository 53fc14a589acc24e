//! Weighted round robin over paths: each new flow takes the path whose turn it is in a smooth
//! weighted round robin, weighted by capacity (mechanisms.md P28; F0 section 3.2).
//!
//! The weight of a path is the rate of its slowest link, as routing knows it. Data and
//! acknowledgements have separate turns, for the reason given in `common/wrr.rs`. It counts flows,
//! not bytes, and ignores load.
//!
//! - Helps: where flows are alike and path rates differ in a way that routing knows.
//! - Hurts: where sizes differ; it ignores load, so a busy path is used like an idle one.

use crate::dataplane::EdgeHooks;
use crate::dataplane::common::{PathIndex, START, SmoothWrr, at_start};
use crate::entry::{Entry, FlowLevel};

pub(crate) static ENTRY: Entry = Entry::declare("weighted-round-robin", "Weighted round robin")
    .summary("Gives new flows to the paths in turn, in proportion to capacity.")
    .flow_level(FlowLevel::Path)
    .source("P28 weighted round robin; F0 section 3.2")
    .senses("capacities, after failures are detected")
    .params(&[START])
    .edge(|env, params| {
        let mut turns = SmoothWrr::new(PathIndex::outward(env), params.text("start") == "random");
        at_start(EdgeHooks { weights: true, ..EdgeHooks::default() }, move |cx, packet, paths| {
            turns.pick(cx, packet, paths.live, |position| f64::from(paths.weights[position]))
        })
    });

#[cfg(test)]
mod tests {
    use crate::dataplane::PacketView;
    use crate::dataplane::testing::{Bench, packet};

    fn bench(spec: &str) -> Bench {
        let mut bench = Bench::edge(spec, 3);
        bench.weights = vec![5, 1, 1];
        bench
    }

    #[test]
    fn new_flows_follow_oracle_13() {
        let mut bench = bench("weighted-round-robin:start=first");
        let picks: Vec<u16> = (0..7).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        assert_eq!(picks, [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(bench.choose_path(&packet(2), Some(1)), 1, "flows stay");
        // Acknowledgements begin a separate round.
        let ack = |flow| PacketView { is_data: false, ..packet(flow) };
        let picks: Vec<u16> = (0..7).map(|flow| bench.choose_path(&ack(flow), None)).collect();
        assert_eq!(picks, [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn shares_follow_the_weights_from_any_start() {
        let mut bench = bench("weighted-round-robin");
        let hits: [u32; 3] = bench.hits((0..7000).map(packet));
        assert!((4998..=5002).contains(&hits[0]) && (998..=1002).contains(&hits[1]), "{hits:?}");
    }

    #[test]
    fn weights_are_those_of_live_paths() {
        let mut bench = bench("weighted-round-robin");
        (0..10).for_each(|flow| {
            bench.choose_path(&packet(flow), None);
        });
        (bench.live, bench.weights) = (vec![0, 2], vec![1, 3]);
        let hits: [u32; 3] = bench.hits((10..410).map(packet));
        assert_eq!(hits[1], 0);
        // Earlier credit is kept, hence some slack: at most the six shares of a former round.
        assert!((294..=306).contains(&hits[2]), "{hits:?}");
        (bench.live, bench.weights) = (vec![0, 1, 2], vec![1, 1, 1]);
        assert!((500..560).any(|flow| bench.choose_path(&packet(flow), None) == 1));
    }
}
