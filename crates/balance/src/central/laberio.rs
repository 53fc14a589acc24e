//! LABERIO: while link loads differ too much, the largest flow of the busiest link moves to the path with
//! the most room (mechanisms.md P30; Long et al., AINA 2013).
//!
//! A new flow is pinned to the path whose narrowest link has the most remaining capacity by the counters.
//! Every `period` the controller computes the standard deviation of the utilisations of all links between
//! switches. If it exceeds `threshold`, the controller takes the busiest link and its largest flow, and
//! moves the flow to the path with the most remaining capacity; up to `moves` flows in a period.
//!
//! Known from the abstract: flows change paths during their transmission; up to 13 % shorter transmissions
//! than with round robin and LOBUS. Our readings: utilisations instead of bytes, so that links of different
//! rates compare; all constants; one of several equally wide paths is drawn; a flow moves only if its path
//! is then less utilised than the busiest link was, and otherwise the next smaller flow is tried. Flows
//! whose rate is not yet known do not move. The variant that changes a single hop has no counterpart.
//!
//! Pitfalls: flows that start between two readings of the counters take the same path. Default routes
//! carry what has no pin, which counts in the loads but cannot move.
//!
//! - Helps: with few long flows whose rates change, or that met on a link when they started.
//! - Hurts: with flows shorter than the period; where one flow fills a link alone, it is moved in vain to
//!   another one as long as that is idle.

use std::cmp::Reverse;

use net::{Bandwidth, LinkIx, Time};

use super::common::{Dag, Ends, Search, default_routes, ends, is_usable, measured, rate_of, read_loads};
use super::hedera::{DETECT, flow_source, request_reports};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Pin, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("laberio", "LABERIO")
    .summary("Moves the largest flow of the busiest link to the widest path while link loads differ too much.")
    .source("P30; AINA 2013")
    .granularity(Granularity::MovableFlow)
    .senses("flow and port counters")
    .params(&[
        Param::duration("period", "1s").doc("Time between two comparisons of the links (not published)."),
        Param::number("threshold", 0.0..=1.0, "0.1")
            .unit("of capacity")
            .doc("Standard deviation of the utilisations of links above which flows move (not published)."),
        Param::count("moves", 1..=1000, "1").unit("flows").doc("Maximum number of flows moved in a period."),
        DETECT,
    ])
    .example("laberio:period=100ms")
    .central(|_, params| {
        Box::new(Laberio {
            period: params.duration("period").max(Time::from_ms(1)),
            threshold: params.number("threshold"),
            moves_max: params.count("moves"),
            source: flow_source(params),
            search: Search::default(),
            used: Vec::new(),
        })
    });

struct Laberio {
    period: Time,
    threshold: f64,
    moves_max: u64,
    source: FlowSource,
    search: Search,
    /// By link: bits per second, with the moves of this period. Less than 0 if flows that left it were
    /// faster than it was when it was measured.
    used: Vec<f64>,
}

impl Laberio {
    fn utilisation(&self, view: &NetworkView<'_>, link: LinkIx) -> f64 {
        self.used[link.ix()].max(0.0) / rate_of(view, link)
    }

    fn place(&mut self, cx: &mut CentralCx<'_>, flow: FlowId, placements: &mut Placements) {
        let Some(ends) = cx.view.flows.get(flow).and_then(|info| ends(cx.view, info)) else { return };
        let view = cx.view;
        if find(&mut self.search, cx, ends, |link| measured(view, link)) {
            placements.pin(flow, Pin { path: self.search.found().into(), rate: None });
        }
    }

    fn place_new(&mut self, cx: &mut CentralCx<'_>, placements: &mut Placements) {
        for (flow, _) in cx.view.flows.iter() {
            if placements.pin_of(flow).is_none() {
                self.place(cx, flow, placements);
            }
        }
    }

    /// Returns the busiest link if the loads of the links differ too much.
    fn congested(&self, view: &NetworkView<'_>) -> Option<LinkIx> {
        let links = || (0..view.topology.links().len() as u32).map(LinkIx);
        let inner = || links().filter(|link| is_usable(view, *link));
        let count = inner().count().max(1) as f64;
        let mean = inner().map(|link| self.utilisation(view, link)).sum::<f64>() / count;
        let variance = inner().map(|link| (self.utilisation(view, link) - mean).powi(2)).sum::<f64>() / count;
        // The lowest number among equals.
        let busier = |a: LinkIx, b: LinkIx| if self.utilisation(view, b) > self.utilisation(view, a) { b } else { a };
        if variance.sqrt() > self.threshold { inner().reduce(busier) } else { None }
    }

    /// Moves a flow away from `link`. Returns whether one can move.
    fn relieve(&mut self, cx: &mut CentralCx<'_>, link: LinkIx, placements: &mut Placements) -> bool {
        let view = cx.view;
        let mut flows: Vec<(Reverse<Bandwidth>, FlowId)> = Vec::new();
        for (flow, _) in placements.pins().iter().filter(|(_, pin)| pin.path.contains(&link)) {
            flows.extend(view.flows.get(*flow).and_then(|info| info.rate).map(|rate| (Reverse(rate), *flow)));
        }
        flows.sort_unstable();
        let busiest = self.utilisation(view, link);
        for (Reverse(rate), flow) in flows {
            let Some(ends) = view.flows.get(flow).and_then(|info| ends(view, info)) else { continue };
            let rate = rate.as_bps_f64();
            let old = placements.pin_of(flow).expect("it is a pinned flow").path.clone();
            old.iter().for_each(|link| self.used[link.ix()] -= rate);
            let is_found = find(&mut self.search, cx, ends, |link| self.used[link.ix()].max(0.0));
            let new = if is_found { self.search.found() } else { &old };
            new.iter().for_each(|link| self.used[link.ix()] += rate);
            if new.iter().all(|link| self.utilisation(view, *link) < busiest) {
                placements.pin(flow, Pin { path: new.into(), rate: None });
                return true;
            }
            new.iter().for_each(|link| self.used[link.ix()] -= rate);
            old.iter().for_each(|link| self.used[link.ix()] += rate);
        }
        false
    }
}

/// Finds one of the paths with the most remaining capacity on the narrowest link; `used` is in bits per
/// second.
fn find(search: &mut Search, cx: &mut CentralCx<'_>, ends: Ends, used: impl Fn(LinkIx) -> f64) -> bool {
    let (view, dag) = (cx.view, Dag::new(cx.view));
    let left = |link: LinkIx| rate_of(view, link) - used(link);
    let Some(best) = search.widest(dag, ends, left) else { return false };
    search.any_fit(dag, ends, cx.rng, |link| left(link) >= best)
}

impl CentralBalancer for Laberio {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        match why {
            DecisionTrigger::NetworkChanged => {
                default_routes::equal_cost(cx.view, placements);
                request_reports(self.source, placements);
                self.place_new(cx, placements);
            }
            DecisionTrigger::PeriodElapsed => {
                self.place_new(cx, placements);
                read_loads(cx.view, &mut self.used);
                for _ in 0..self.moves_max {
                    let Some(link) = self.congested(cx.view) else { break };
                    if !self.relieve(cx, link, placements) {
                        break;
                    }
                }
            }
            DecisionTrigger::FlowStarted(flow) => self.place(cx, flow, placements),
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::LinkLoad;
    use crate::central::testing::DrivenBalancer;

    const TWO_PATHS: &str = "leaf-spine:leaves=2,spines=2,hosts_per_leaf=4,host_rate=10Gbps,fabric_rate=10Gbps";

    impl DrivenBalancer {
        /// Sets the rates of flows, and the loads of links to what these flows carry.
        fn measure(&mut self, rates: &[(FlowId, u64)]) {
            self.network.load.fill(LinkLoad::default());
            for (flow, gbps) in rates {
                let rate = Bandwidth::from_bps(gbps * 1_000_000_000);
                self.network.flows.get_mut(*flow).unwrap().rate = Some(rate);
                for link in self.pinned(*flow).clone().iter() {
                    let load = &mut self.network.load[link.ix()];
                    let sum = load.rate.map_or(0, Bandwidth::as_bps) + rate.as_bps();
                    *load = LinkLoad { rate: Some(Bandwidth::from_bps(sum)), at: self.network.now };
                }
            }
        }
        fn first_links(&self, flows: &[FlowId]) -> Vec<LinkIx> {
            flows.iter().map(|flow| self.pinned(*flow)[0]).collect()
        }
    }

    /// Starts flows on one of two paths, and none on the other.
    fn met(spec: &str, count: u32) -> (DrivenBalancer, Vec<FlowId>) {
        let mut driven = DrivenBalancer::new(spec, 1, TWO_PATHS);
        let first = driven.start(0, 4, 1);
        let path = driven.pinned(first).clone();
        let mut flows = vec![first];
        for host in 1..count {
            let flow = driven.start(host, 4 + host, 1);
            driven.placements.pin(flow, Pin { path: path.clone(), rate: None });
            flows.push(flow);
        }
        (driven, flows)
    }

    #[test]
    fn a_new_flow_takes_the_path_with_the_most_remaining_capacity() {
        let mut driven = DrivenBalancer::new("laberio", 1, TWO_PATHS);
        let first = driven.start(0, 4, 1);
        driven.measure(&[(first, 4)]);
        let second = driven.start(1, 5, 1);
        assert_ne!(driven.pinned(first)[0], driven.pinned(second)[0]);
        driven.measure(&[(first, 4), (second, 7)]);
        let third = driven.start(2, 6, 1);
        assert_eq!(driven.pinned(third), driven.pinned(first));
    }

    #[test]
    fn equally_wide_paths_are_drawn() {
        let mut driven = DrivenBalancer::new("laberio", 1, TWO_PATHS);
        let flows: Vec<FlowId> = (0..200).map(|n| driven.start(n % 4, 4 + n / 4 % 4, 1)).collect();
        let first = driven.first_links(&flows);
        let hits = first.iter().filter(|link| **link == first[0]).count();
        assert!((70..130).contains(&hits), "{hits}");
    }

    #[test]
    fn the_largest_flow_of_the_busiest_link_moves_to_the_idle_path() {
        let (mut driven, flows) = met("laberio", 3);
        driven.measure(&[(flows[0], 3), (flows[1], 4), (flows[2], 2)]);
        let before = driven.first_links(&flows);
        driven.period();
        let after = driven.first_links(&flows);
        assert_eq!((after[0], after[2]), (before[0], before[2]));
        assert_ne!(after[1], before[1]);
        // 5 and 4 of 10 Gb/s: the 3 Gb/s would load the other link with 7.
        driven.measure(&[(flows[0], 3), (flows[1], 4), (flows[2], 2)]);
        driven.period();
        assert_eq!(driven.first_links(&flows), after);
    }

    #[test]
    fn nothing_moves_below_the_threshold() {
        // Two of eight links between switches carry 9 of 10 Gb/s: mean 0.225, deviation 0.39.
        for (threshold, moves) in [("0.38", true), ("0.4", false)] {
            let (mut driven, flows) = met(&format!("laberio:threshold={threshold}"), 3);
            driven.measure(&[(flows[0], 3), (flows[1], 4), (flows[2], 2)]);
            let before = driven.first_links(&flows);
            driven.period();
            assert_eq!(driven.first_links(&flows) != before, moves, "{threshold}");
        }
    }

    #[test]
    fn as_many_flows_move_in_a_period_as_allowed_and_useful() {
        // 8 and 0 of 10 Gb/s become 6 and 2, then 4 and 4.
        for (allowed, expected) in [(1, 1), (2, 2), (9, 2)] {
            let (mut driven, flows) = met(&format!("laberio:moves={allowed},threshold=0"), 4);
            let rates: Vec<(FlowId, u64)> = flows.iter().map(|flow| (*flow, 2)).collect();
            driven.measure(&rates);
            let before = driven.first_links(&flows);
            driven.period();
            let moved = driven.first_links(&flows).iter().zip(&before).filter(|(a, b)| a != b).count();
            assert_eq!(moved, expected, "{allowed}");
        }
    }

    #[test]
    fn a_flow_that_fills_a_link_alone_stays_while_the_other_path_is_as_busy() {
        let (mut driven, flows) = met("laberio:threshold=0", 2);
        driven.measure(&[(flows[0], 6), (flows[1], 1)]);
        driven.period();
        let after = driven.first_links(&flows);
        assert_ne!(after[0], after[1]);
        driven.measure(&[(flows[0], 9), (flows[1], 9)]);
        driven.period();
        assert_eq!(driven.first_links(&flows), after);
    }
}
