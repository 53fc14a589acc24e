//! Round robin over paths: each new flow takes the next path (mechanisms.md P28; F0 section 3.2).
//!
//! Every edge has one turn for the flows and one for the acknowledgements it sends to a
//! destination. With one common turn, requests and responses would alternate, and with two paths
//! all data would take one of them. A flow whose path fails gets the next path; it stays there when
//! the old path returns.
//!
//! It counts flows, not bytes, and ignores load.
//!
//! - Helps: where all flows are alike and paths equal: the numbers of flows of one edge on two
//!   paths never differ by more than two.
//! - Hurts: where sizes differ (it counts flows, not bytes) or paths do; edges do not coordinate
//!   their turns.

use crate::dataplane::EdgeHooks;
use crate::dataplane::common::{START, at_start, deck};
use crate::entry::{Entry, FlowLevel};

pub(crate) static ENTRY: Entry = Entry::declare("round-robin", "Round robin")
    .summary("Gives each new flow the next path in circular order.")
    .flow_level(FlowLevel::Path)
    .source("P28 round robin; F0 section 3.2")
    .params(&[START])
    .edge(|env, params| {
        let starts_anywhere = params.text("start") == "random";
        // Path given last, by [`deck`].
        let mut last = vec![NOT_YET; 2 * env.path_counts.len()];
        at_start(EdgeHooks::default(), move |cx, packet, paths| {
            let last = &mut last[deck(packet)];
            let position = match *last {
                NOT_YET if starts_anywhere => cx.rng.next_below(paths.live.len() as u64) as usize,
                NOT_YET => 0,
                last => paths.live.partition_point(|path| *path <= last),
            };
            *last = paths.live.get(position).copied().unwrap_or(paths.live[0]);
            *last
        })
    });

const NOT_YET: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use crate::dataplane::PacketView;
    use crate::dataplane::testing::{Bench, packet};

    #[test]
    fn new_flows_take_the_paths_in_turn_and_stay() {
        let mut bench = Bench::edge("round-robin:start=first", 4);
        let picks: Vec<u16> = (0..9).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        assert_eq!(picks, [0, 1, 2, 3, 0, 1, 2, 3, 0]);
        assert!(
            (0..9).all(|flow| bench.choose_path(&packet(flow), Some(picks[flow as usize])) == picks[flow as usize])
        );
        assert_eq!(bench.choose_path(&packet(3), None), 1, "a new flow under an old number has its own turn");
    }

    #[test]
    fn edges_begin_anywhere() {
        let mut firsts = [0; 4];
        let mut bench = Bench::edge_on("round-robin", "leaf-spine:leaves=64,spines=4,hosts_per_leaf=1", 0);
        for class in 1..64 {
            let p = PacketView { to: net::routes::ClassIx(class), ..packet(class) };
            firsts[usize::from(bench.choose_path(&p, None))] += 1;
        }
        assert!(firsts.iter().all(|count| *count > 4), "{firsts:?}");
    }

    #[test]
    fn acknowledgements_have_their_own_turn() {
        let mut bench = Bench::edge("round-robin:start=first", 2);
        let mut data = Vec::new();
        for flow in 0..6 {
            data.push(bench.choose_path(&packet(flow), None));
            bench.choose_path(&PacketView { is_data: false, ..packet(100 + flow) }, None);
        }
        assert_eq!(data, [0, 1, 0, 1, 0, 1]);
    }

    #[test]
    fn dead_paths_are_skipped() {
        let mut bench = Bench::edge("round-robin:start=first", 4);
        bench.choose_path(&packet(0), None);
        bench.live = vec![0, 2];
        let picks: Vec<u16> = (1..5).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        assert_eq!(picks, [2, 0, 2, 0]);
        bench.live = vec![0, 1, 2, 3];
        let picks: Vec<u16> = (5..9).map(|flow| bench.choose_path(&packet(flow), None)).collect();
        assert_eq!(picks, [1, 2, 3, 0]);
    }
}
