//! Central TE: a controller collects the traffic matrix and pins every large pair of hosts to the
//! shortest path that has the capacity for it, once in a period (mechanisms-2.md P37, "Central TE";
//! Gangidi et al., SIGCOMM 2024).
//!
//! Every period: the pairs of hosts that send more than `threshold` of their link are the matrix.
//! In the order of their demands, highest first, each gets a constrained shortest path: links with
//! less residual capacity than its demand do not exist for it, of the other paths it takes one with
//! the fewest links, among these the one whose narrowest link has the most capacity left, and
//! reserves its demand there. Exact-match rules pin it. All other traffic has equal-cost routes.
//!
//! Between two computations nothing reacts to load. If a link fails, the pairs pinned over it have
//! the equal-cost routes until the next computation; the others keep their paths.
//!
//! Readings: a pair without a path that has the capacity stays on the equal-cost routes, whose load
//! is not reserved. A pair keeps its path if that has the capacity and is as short as the best one,
//! so that an unchanged matrix changes no rule. A pair that is no longer large is released. Paths
//! that are longer than the shortest are used. Demands are estimated from the links of hosts as in
//! Hedera, since pairs that share a link would otherwise seem to fit on it; with `demand=measured`
//! they are the rates of the counters. The published period is 30 s, and so is the default; an
//! experiment that simulates less sets a shorter one.
//!
//! - Helps: with long, repeated transfers between few pairs, as in training, over an intact
//!   network.
//! - Hurts: under several failures, and with traffic that changes within a period.

use net::paths::{self, Metric};
use net::{LinkIx, Time};

use super::common::{Dag, Ends, Hosts, Search, default_routes, is_usable, rate_of};
use super::hedera::{DETECT, Large, THRESHOLD, estimated, flow_source, large_flows, measured_flows, request_reports};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Path, Pin, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("central-te", "Central TE")
    .summary("Pins every large pair of hosts to the shortest path with capacity for it, once in a period.")
    .source("P37; Gangidi et al., SIGCOMM 2024")
    .granularity(Granularity::MovableFlow)
    .senses("flow counters")
    .params(&[
        Param::duration("period", "30s").doc("Time between two computations; published: about 30 s."),
        Param { default: "0.05", ..THRESHOLD },
        Param::choice("demand", &["estimated", "measured"], "estimated")
            .doc("Demands in the matrix: the rates that the links of the hosts allow, or the counted rates."),
        Param { default: "pairs", ..DETECT },
    ])
    .example("central-te:period=1s")
    .central(|_, params| Box::new(CentralTe::new(params)));

struct CentralTe {
    period: Time,
    threshold: f64,
    is_estimated: bool,
    source: FlowSource,
    hosts: Hosts,
    search: Search,
    /// Residual capacity by link, bits per second; 0 for dead links and links of hosts.
    left: Vec<f64>,
}

/// Part of its capacity by which a link may be overbooked, so that rounded shares of it fit.
const SLACK: f64 = 1e-9;

impl CentralTe {
    fn new(params: &Params) -> CentralTe {
        CentralTe {
            period: params.duration("period").max(Time::from_ms(1)),
            threshold: params.number("threshold"),
            is_estimated: params.text("demand") == "estimated",
            source: flow_source(params),
            hosts: Hosts::default(),
            search: Search::default(),
            left: Vec::new(),
        }
    }

    fn compute(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        let flows = large_flows(view, &self.hosts, self.threshold, self.source);
        let mut matrix = match self.is_estimated {
            true => estimated(&self.hosts, &flows),
            false => measured_flows(view, &self.hosts, &flows),
        };
        matrix.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(a.flow.cmp(&b.flow)));
        self.left.clear();
        let capacity = |link: LinkIx| if is_usable(view, link) { rate_of(view, link) * (1.0 + SLACK) } else { 0.0 };
        self.left.extend((0..view.topology.links().len() as u32).map(|link| capacity(LinkIx(link))));
        let mut is_placed = vec![false; view.flows.capacity()];
        for large in &matrix {
            let before = placements.pin_of(large.flow).map(|pin| pin.path.clone());
            if let Some(path) = self.path(view, large, before) {
                path.iter().for_each(|link| self.left[link.ix()] -= large.rate);
                is_placed[large.flow.ix()] = true;
                placements.pin(large.flow, Pin { path, rate: None });
            }
        }
        let is_gone = |flow: &FlowId| !is_placed.get(flow.ix()).copied().unwrap_or(false);
        let gone: Vec<FlowId> = placements.pins().keys().copied().filter(is_gone).collect();
        gone.into_iter().for_each(|flow| placements.release(flow));
    }

    /// Returns the constrained shortest path of a flow: the one before if none is shorter.
    fn path(&mut self, view: &NetworkView<'_>, large: &Large, before: Option<Path>) -> Option<Path> {
        let found = self.shortest(view, large.ends, large.rate)?;
        let has_capacity = |link: &LinkIx| self.left[link.ix()] >= large.rate;
        let kept = before.filter(|path| path.len() == found.len() && path.iter().all(has_capacity));
        Some(kept.unwrap_or(found))
    }

    fn shortest(&mut self, view: &NetworkView<'_>, ends: Ends, rate: f64) -> Option<Path> {
        let left = &self.left;
        let width = self.search.widest(Dag::new(view), ends, |link| left[link.ix()])?;
        if width >= rate && width > 0.0 {
            return Some(self.search.found().into());
        }
        let has_capacity = |link: LinkIx| left[link.ix()] >= rate && left[link.ix()] > 0.0;
        let to = view.routes.class_node(ends.to);
        paths::shortest(view.topology, ends.from, to, Metric::Hops, has_capacity).map(Path::from)
    }
}

impl CentralBalancer for CentralTe {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        match why {
            DecisionTrigger::NetworkChanged => {
                self.hosts = Hosts::new(cx.view);
                default_routes::equal_cost(cx.view, placements);
                request_reports(self.source, placements);
            }
            DecisionTrigger::PeriodElapsed => self.compute(cx.view, placements),
            DecisionTrigger::FlowStarted(_) => {}
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

#[cfg(test)]
mod tests {
    use net::{Bandwidth, HostIx, NodeIx, RandomStream, TopologyBuilder};
    use proptest::prelude::*;

    use super::*;
    use crate::central::common::is_switch;
    use crate::central::testing::{DrivenBalancer, SMALL, TestNetwork};

    /// Sites with one link of 40 Gb/s to a host each, and links of 10 Gb/s between some of them.
    fn sites(count: u32, links: &[(usize, usize)]) -> TestNetwork {
        let mut builder = TopologyBuilder::new("sites");
        let sites: Vec<NodeIx> = (0..count).map(|site| builder.switch(format!("s{site}"), 1, None)).collect();
        for (site, switch) in sites.iter().enumerate() {
            let host = builder.host(format!("h{site}"), site as u32, None);
            builder.connect(host, *switch, Bandwidth::from_gbps(40), Time::from_us(1));
        }
        for (from, to) in links {
            builder.connect(sites[*from], sites[*to], Bandwidth::from_gbps(10), Time::from_us(1));
        }
        TestNetwork::of(builder.build().expect("a network of sites"))
    }

    fn flow(driven: &mut DrivenBalancer, src: u32, dst: u32, gbps: u64) -> FlowId {
        driven.network.flow(src, dst, Some(Bandwidth::from_gbps(gbps)))
    }

    fn lengths(driven: &DrivenBalancer, flows: &[FlowId]) -> Vec<Option<usize>> {
        flows.iter().map(|flow| driven.placements.pin_of(*flow).map(|pin| pin.path.len())).collect()
    }

    #[test]
    fn demands_take_the_shortest_path_with_capacity_highest_first() {
        // A square with a diagonal between 0 and 2: one path of one link, two of two.
        let network = sites(4, &[(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]);
        let mut driven = DrivenBalancer::on("central-te:demand=measured,threshold=0", 1, network);
        let flows = [4, 6, 5, 7, 9, 1].map(|gbps| flow(&mut driven, 0, 2, gbps));
        driven.period();
        // 9 and 1 share the direct link; 7, 6 have a detour each, then 4 fits next to 6, and 5 nowhere.
        assert_eq!(lengths(&driven, &flows), [Some(2), Some(2), None, Some(2), Some(1), Some(1)]);
        assert_eq!(driven.pinned(flows[0]), driven.pinned(flows[1]), "6 and 4");
    }

    #[test]
    fn pairs_below_the_threshold_are_not_placed_and_are_released() {
        let mut driven = DrivenBalancer::on("central-te:demand=measured", 1, sites(2, &[(0, 1)]));
        let flows = [2, 3].map(|gbps| flow(&mut driven, 0, 1, gbps));
        driven.period();
        assert_eq!(lengths(&driven, &flows), [None, Some(1)], "5 % of 40 Gb/s is 2");
        driven.network.flows.get_mut(flows[1]).unwrap().rate = Some(Bandwidth::from_gbps(1));
        driven.period();
        assert_eq!(lengths(&driven, &flows), [None, None]);
    }

    #[test]
    fn an_unchanged_matrix_changes_nothing() {
        let mut driven = DrivenBalancer::new("central-te", 1, "fat-tree:k=4");
        let flows = driven.network.half_stride();
        driven.period();
        assert!(driven.placements.pins().len() > flows.len() / 2);
        driven.placements.take_changes();
        driven.period();
        assert_eq!(driven.placements.take_changes(), crate::central::Changes::default());
    }

    #[test]
    fn a_failed_link_waits_for_the_period() {
        let mut driven = DrivenBalancer::new("central-te", 1, "leaf-spine:leaves=2,spines=3,hosts_per_leaf=2");
        let flows = [(0, 2), (1, 3)].map(|(src, dst)| flow(&mut driven, src, dst, 5));
        driven.period();
        let before = flows.map(|flow| driven.pinned(flow).clone());
        let dead = before[0][0];
        driven.set_cable(dead, false);
        assert!(driven.placements.pin_of(flows[0]).is_none(), "the equal-cost routes until the period ends");
        assert_eq!(driven.pinned(flows[1]), &before[1]);
        // A third flow starts: it has no pin before the period ends either.
        let third = flow(&mut driven, 0, 3, 5);
        driven.decide(DecisionTrigger::FlowStarted(third));
        assert!(driven.placements.pin_of(third).is_none());
        driven.period();
        let after = [flows[0], third].map(|flow| driven.pinned(flow).clone());
        assert!(after.iter().all(|path| path.iter().all(|link| driven.network.alive[link.ix()])));
        assert_eq!(driven.pinned(flows[1]), &before[1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]
        /// No link has more than its capacity, and a flow without a pin fits nowhere: an independent
        /// search finds no path with the capacity that remains after the last flow.
        #[test]
        fn no_link_is_overbooked_and_no_capacity_is_missed(
            family in prop::sample::select(SMALL),
            spec in prop::sample::select(&["central-te:demand=measured", "central-te"][..]),
            seed in any::<u64>(),
        ) {
            let mut rng = RandomStream::new(seed, "matrix");
            let mut driven = DrivenBalancer::new(spec, 1, family);
            let hosts = driven.network.topology.hosts().len() as u64;
            for round in 0..3 {
                for _ in 0..2 * hosts {
                    let (src, dst) = (rng.next_below(hosts) as u32, rng.next_below(hosts) as u32);
                    if src != dst {
                        let rate = driven.network.topology.links()[0].rate.as_bps() / 10 * (1 + rng.next_below(10));
                        driven.network.flow(src, dst, Some(Bandwidth::from_bps(rate)));
                    }
                }
                if round == 2 {
                    let cable = LinkIx(rng.next_below(driven.network.alive.len() as u64) as u32);
                    if !driven.network.topology.is_host_link(cable) {
                        driven.set_cable(cable, false);
                    }
                }
                driven.period();
                let view = driven.network.view();
                let hosts = Hosts::new(&view);
                let large = large_flows(&view, &hosts, 0.05, FlowSource::Pairs);
                let demands = match spec.contains("measured") {
                    true => measured_flows(&view, &hosts, &large),
                    false => estimated(&hosts, &large),
                };
                let mut left: Vec<f64> = view.topology.links().iter().map(|link| link.rate.as_bps_f64()).collect();
                for large in &demands {
                    let Some(pin) = driven.placements.pin_of(large.flow) else { continue };
                    let info = view.flows.get(large.flow).unwrap();
                    let edge = |host: HostIx| view.routes.class_node(view.routes.class_of(host));
                    driven.network.check_path(&pin.path, edge(info.src), edge(info.dst));
                    pin.path.iter().for_each(|link| left[link.ix()] -= large.rate);
                }
                for (link, left) in view.topology.links().iter().zip(&left) {
                    prop_assert!(*left >= -1e-6 * link.rate.as_bps_f64(), "{left} bit/s left");
                }
                for large in demands.iter().filter(|large| driven.placements.pin_of(large.flow).is_none()) {
                    // The nodes that links with capacity reach.
                    let is_usable = |link: &usize| view.alive[*link] && left[*link] >= large.rate * (1.0 + 1e-6);
                    let mut reached = vec![false; view.topology.nodes().len()];
                    reached[large.ends.from.ix()] = true;
                    for _ in 0..reached.len() {
                        for link in (0..left.len()).filter(is_usable) {
                            let info = view.topology.link(LinkIx(link as u32));
                            let is_between = is_switch(&view, info.from) && is_switch(&view, info.to);
                            reached[info.to.ix()] |= is_between && reached[info.from.ix()];
                        }
                    }
                    prop_assert!(!reached[view.routes.class_node(large.ends.to).ix()], "a flow with a path has no pin");
                }
            }
        }
    }
}
