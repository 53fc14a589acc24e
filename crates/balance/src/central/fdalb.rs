//! FDALB: the controller places flows that have become long on the path with the largest share; the
//! distribution of flow sizes defines what is long (mechanisms.md P21; F0).
//!
//! The share of a path is the minimum, over its links, of capacity divided by the number of long
//! flows including the new one. Among equal paths the next in circular order is taken. The
//! threshold is the upper whisker of a box plot of `window` sizes.
//!
//! Readings:
//! - The first form divides by the number of flows without the new one, which is undefined on an
//!   idle link.
//! - `capacity=remaining` uses the capacity left according to counters, as that form does; `full`
//!   is the later one.
//! - Agents report long flows only, and a box plot of long flows alone would raise the threshold
//!   indefinitely. So they report all flows until `window` have ended, then long ones until the
//!   same number of those has ended, and so on. While all flows are reported, long ones are
//!   recognised by their reported size, or by counters every 5 s.
//! - Quartiles are medians of the halves, without the middle of an odd number.
//!
//! - Helps: with heavy-tailed sizes: only flows that have become long use the controller.
//! - Hurts: with bursts, which the threshold follows; rules change with every arrival of a long
//!   flow.

use std::collections::BTreeMap;

use net::{LinkIx, Time};

use super::common::{Dag, Ends, Search, default_routes, ends, measured, rate_of};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowInfo, FlowSource, NetworkView, Pin,
    Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("fdalb", "FDALB")
    .summary("Places flows that have become long on the path with the largest share; flow sizes set the threshold.")
    .source("P21; F0")
    .granularity(Granularity::MovableFlow)
    .senses("reports of hosts")
    .params(&[
        Param::count("window", 4..=1_000_000, "1000").unit("flows").doc("Number of flow sizes in the box plot."),
        Param::count("initial", 1..=1_000_000_000, "100000")
            .unit("bytes")
            .doc("Threshold until that number of sizes is known."),
        Param::count("min", 1..=1_000_000_000, "10000").unit("bytes").doc("Minimum of the threshold."),
        Param::count("max", 1..=1_000_000_000, "1000000").unit("bytes").doc("Maximum of the threshold."),
        Param::choice("capacity", &["full", "remaining"], "full")
            .doc("Capacity shared by long flows: that of the links, or the part left according to counters."),
    ])
    .central(|_, params| {
        let min = params.count("min");
        Box::new(Fdalb {
            window: params.count("window") as usize,
            min,
            max: params.count("max").max(min),
            is_remaining: params.text("capacity") == "remaining",
            threshold: params.count("initial"),
            sizes: Some(Vec::new()),
            long_ended: 0,
            long: Vec::new(),
            turn: BTreeMap::new(),
            search: Search::default(),
        })
    });

/// Interval at which counters are read.
const PERIOD: Time = Time::from_s(5);

struct Fdalb {
    window: usize,
    min: u64,
    max: u64,
    is_remaining: bool,
    threshold: u64,
    /// Sizes of ended flows while all flows are reported; `None` otherwise.
    sizes: Option<Vec<u64>>,
    /// Number of long flows that ended since the threshold was set.
    long_ended: usize,
    long: Vec<u32>,
    /// By pair: the rank after the last one taken.
    turn: BTreeMap<Ends, u32>,
    search: Search,
}

impl Fdalb {
    fn is_long(&self, info: &FlowInfo) -> bool {
        info.size.unwrap_or(0).max(info.bytes) > self.threshold
    }

    fn place(&mut self, view: &NetworkView<'_>, flow: FlowId, info: &FlowInfo, placements: &mut Placements) {
        if !self.is_long(info) || placements.pin_of(flow).is_some() {
            return;
        }
        let Some(ends) = ends(view, info) else { return };
        let dag = Dag::new(view);
        let (long, is_remaining) = (&self.long, self.is_remaining);
        let share = |link: LinkIx| {
            let taken = if is_remaining { measured(view, link) } else { 0.0 };
            (rate_of(view, link) - taken).max(0.0) / f64::from(long[link.ix()] + 1)
        };
        let Some(best) = self.search.widest(dag, ends, share) else { return };
        let turn = self.turn.entry(ends).or_default();
        let is_best = |link: LinkIx| share(link) >= best;
        let is_found = *turn < dag.path_count(ends) && self.search.first_fit(dag, ends, *turn, is_best);
        if is_found || self.search.first_fit(dag, ends, 0, is_best) {
            let path = self.search.found();
            *turn = dag.rank_of(ends, path).map_or(0, |rank| rank.saturating_add(1));
            path.iter().for_each(|link| self.long[link.ix()] += 1);
            placements.pin(flow, Pin { path: path.into(), rate: None });
        }
    }

    fn place_all(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        for (flow, info) in view.flows.iter() {
            self.place(view, flow, info, placements);
        }
    }

    /// Updates the threshold with the size of a flow that has ended.
    fn learn(&mut self, size: u64, is_long: bool, placements: &mut Placements) {
        self.long_ended += usize::from(is_long);
        match &mut self.sizes {
            Some(sizes) => {
                sizes.push(size);
                if sizes.len() >= self.window {
                    self.threshold = whisker(sizes).clamp(self.min, self.max);
                    placements.set_report_threshold(self.threshold);
                    (self.sizes, self.long_ended) = (None, 0);
                }
            }
            None if self.long_ended >= self.window => {
                self.sizes = Some(Vec::new());
                placements.set_report_threshold(0);
            }
            None => {}
        }
    }
}

impl CentralBalancer for Fdalb {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: true, period: Some(PERIOD) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                default_routes::equal_cost(view, placements);
                self.long.clear();
                self.long.resize(view.topology.links().len(), 0);
                let links = placements.pins().values().flat_map(|pin| pin.path.iter());
                links.for_each(|link| self.long[link.ix()] += 1);
                self.place_all(view, placements);
            }
            DecisionTrigger::PeriodElapsed => self.place_all(view, placements),
            DecisionTrigger::FlowStarted(flow) => {
                if let Some(info) = view.flows.get(flow) {
                    self.place(view, flow, info, placements);
                }
            }
            DecisionTrigger::FlowEnded(flow) => {
                let pin = placements.pin_of(flow);
                pin.iter().flat_map(|pin| pin.path.iter()).for_each(|link| self.long[link.ix()] -= 1);
                placements.release(flow);
                if let Some(info) = view.flows.get(flow) {
                    self.learn(info.size.unwrap_or(info.bytes), self.is_long(info), placements);
                }
            }
        }
    }
}

/// Returns the upper quartile plus 1.5 times the interquartile range of at least two sizes.
fn whisker(sizes: &mut [u64]) -> u64 {
    sizes.sort_unstable();
    let half = sizes.len() / 2;
    let (low, high) = (median(&sizes[..half]), median(&sizes[sizes.len() - half..]));
    (high + 1.5 * (high - low)) as u64
}

fn median(sorted: &[u64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle] as f64
    } else {
        (sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::central::testing::DrivenBalancer;

    #[test]
    fn the_whisker_by_hand() {
        // Halves 10 20 30 40 | 50 60 70 80: quartiles 25 and 65; 65 + 1.5 * 40.
        assert_eq!(whisker(&mut [80, 10, 70, 20, 60, 30, 50, 40]), 125);
        // Odd: the middle is in neither half: 1 2 | 3 | 4 5: 1.5 and 4.5; 4.5 + 4.5.
        assert_eq!(whisker(&mut [1, 2, 3, 4, 5]), 9);
        assert_eq!(whisker(&mut [7; 9]), 7);
    }

    #[test]
    fn the_threshold_is_learned_and_learned_again() {
        let mut driven = DrivenBalancer::new("fdalb:window=8", 1, "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
        assert_eq!(driven.placements.report_threshold_bytes(), 0, "all are reported");
        for kilobytes in [80, 10, 70, 20, 60, 30, 50, 40] {
            let flow = driven.start(0, 2, kilobytes * 1000);
            assert_eq!(driven.placements.pin_of(flow), None, "below the initial threshold");
            driven.end(flow);
        }
        assert_eq!(driven.placements.report_threshold_bytes(), 125_000);
        for _ in 0..8 {
            assert_eq!(driven.placements.report_threshold_bytes(), 125_000);
            let flow = driven.start(0, 2, 125_001);
            assert!(driven.placements.pin_of(flow).is_some());
            driven.end(flow);
        }
        assert_eq!(driven.placements.report_threshold_bytes(), 0);
    }

    #[test]
    fn the_threshold_is_clamped() {
        for (bytes, expected) in [(100, 10_000), (50_000_000, 1_000_000)] {
            let mut driven = DrivenBalancer::new("fdalb:window=4", 1, "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
            for _ in 0..4 {
                let flow = driven.start(0, 2, bytes);
                driven.end(flow);
            }
            assert_eq!(driven.placements.report_threshold_bytes(), expected);
        }
    }

    #[test]
    fn long_flows_rotate_over_paths_then_take_least_used() {
        let mut driven = DrivenBalancer::new("fdalb", 1, "leaf-spine:leaves=2,spines=4,hosts_per_leaf=4");
        let mut flows: Vec<FlowId> = (0..4).map(|_| driven.start(0, 4, 200_000)).collect();
        assert_eq!(flows.iter().map(|flow| driven.pinned(*flow)[0]).collect::<BTreeSet<_>>().len(), 4);
        let ended = flows.remove(2);
        let free = driven.pinned(ended)[0];
        driven.end(ended);
        let next = driven.start(1, 5, 200_000);
        assert_eq!(driven.pinned(next)[0], free);
    }

    #[test]
    fn a_flow_that_grows_is_found_by_counters() {
        let mut driven = DrivenBalancer::new("fdalb", 1, "leaf-spine:leaves=2,spines=2,hosts_per_leaf=2");
        let flow = driven.start(0, 2, 10);
        driven.network.flows.get_mut(flow).unwrap().bytes = 1_000_000;
        driven.period();
        assert!(driven.placements.pin_of(flow).is_some());
    }
}
