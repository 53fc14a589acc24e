//! Freeway: the equal-cost paths of every pair of edge switches are divided into low-latency ones,
//! over which small flows are hashed, and high-throughput ones, on which the controller places
//! large flows (mechanisms.md P22; ICNP 2014).
//!
//! A counter per link holds the number of low-latency paths that use it; links with a count of 0
//! are for large flows alone. Every period, if at least half of the low-latency paths of a pair are
//! busy, the least loaded high-throughput path becomes one of them, and its large flows move. If at
//! least half are idle, the most idle one becomes a high-throughput path.
//!
//! Readings: F0 gives neither numbers nor the first division: half, rounded in favour of large
//! flows. The lowest ranks are the low-latency paths, so that pairs agree and the kinds do not
//! share links. Each kind keeps a path; a single path has both kinds. Pairs are considered while
//! flows between them are known. At most `paths` per pair are used. Large flows prefer paths whose
//! counters are all 0.
//!
//! - Helps: short flows next to long ones, which get separate paths.
//! - Hurts: where there are few paths to divide; a path that changes its kind moves many flows.

use std::collections::{BTreeMap, BTreeSet};

use net::{Bandwidth, LinkIx, Time};

use super::common::{Dag, Ends, default_routes, divide_all, ends, evenly, rate_of, read_loads, some_paths};
use super::hedera::{DETECT, THRESHOLD, flow_source, is_large, request_reports};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Path, Pin, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("freeway", "Freeway")
    .summary("Keeps some paths of every pair for small flows and places large ones on the others.")
    .source("P22; ICNP 2014; F0")
    .granularity(Granularity::MovableFlow)
    .senses("flow and port counters")
    .params(&[
        THRESHOLD,
        Param::duration("period", "1s").doc("Time between two readings of the counters."),
        Param::number("busy", 0.0..=1.0, "0.5")
            .unit("of capacity")
            .doc("A low-latency path is busy above this utilisation."),
        Param::number("idle", 0.0..=1.0, "0.2")
            .unit("of capacity")
            .doc("A low-latency path is idle below this utilisation."),
        Param::count("paths", 1..=256, "16").unit("paths").doc("Maximum number of paths used per pair."),
        DETECT,
    ])
    .central(|_, params| Box::new(Freeway::new(params)));

struct Freeway {
    threshold: f64,
    period: Time,
    busy: f64,
    idle: f64,
    paths_max: u32,
    source: FlowSource,
    pairs: BTreeMap<Ends, Lanes>,
    /// Number of low-latency paths that use each link.
    low_count: Vec<u32>,
    /// Measured load of each link plus the flows moved in this period, bits per second.
    load: Vec<f64>,
}

/// The paths of a pair and their kinds.
#[derive(Clone, PartialEq, Debug)]
struct Lanes {
    paths: Vec<Path>,
    is_low: Vec<bool>,
}

impl Lanes {
    fn new(paths: Vec<Path>) -> Lanes {
        let low = (paths.len() / 2).max(1);
        Lanes { is_low: (0..paths.len()).map(|path| path < low).collect(), paths }
    }
    fn of_kind(&self, is_low: bool) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.paths.len()).filter(move |path| self.is_low[*path] == is_low)
    }
    fn low_paths(&self) -> Vec<Path> {
        self.of_kind(true).map(|path| self.paths[path].clone()).collect()
    }
}

impl Freeway {
    fn new(params: &Params) -> Freeway {
        Freeway {
            threshold: params.number("threshold"),
            period: params.duration("period").max(Time::from_ms(1)),
            busy: params.number("busy"),
            idle: params.number("idle"),
            paths_max: params.count("paths") as u32,
            source: flow_source(params),
            pairs: BTreeMap::new(),
            low_count: Vec::new(),
            load: Vec::new(),
        }
    }

    /// Divides the paths of all pairs; pairs with unchanged paths keep their division.
    fn lay_out(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        let dag = Dag::new(view);
        let mut before = std::mem::take(&mut self.pairs);
        self.low_count.clear();
        self.low_count.resize(view.topology.links().len(), 0);
        divide_all(view, placements, |pair| {
            let paths = some_paths(dag, pair.ends(), self.paths_max);
            let same = before.remove(&pair.ends()).filter(|lanes| lanes.paths == paths);
            let lanes = same.unwrap_or_else(|| Lanes::new(paths));
            let low = lanes.low_paths();
            low.iter().flat_map(|path| path.iter()).for_each(|link| self.low_count[link.ix()] += 1);
            self.pairs.insert(pair.ends(), lanes);
            low
        });
    }

    fn utilisation(&self, view: &NetworkView<'_>, path: &[LinkIx]) -> f64 {
        path.iter().map(|link| self.load[link.ix()] / rate_of(view, *link)).fold(0.0, f64::max)
    }

    /// Changes the kind of at most one path of a pair, and moves the large flows on it.
    fn adapt(&mut self, view: &NetworkView<'_>, ends: Ends, large: &[(FlowId, f64)], placements: &mut Placements) {
        let Some(lanes) = self.pairs.get(&ends) else { return };
        let by_use = |path: &usize| self.utilisation(view, &lanes.paths[*path]);
        let low: Vec<f64> = lanes.of_kind(true).map(|path| by_use(&path)).collect();
        let is_half = |count: usize| 2 * count >= low.len();
        let least_used = |is_low| lanes.of_kind(is_low).min_by(|a, b| by_use(a).total_cmp(&by_use(b)));
        let is_busy = is_half(low.iter().filter(|used| **used > self.busy).count());
        let is_idle = is_half(low.iter().filter(|used| **used < self.idle).count());
        let changed = match () {
            () if is_busy && lanes.of_kind(false).count() > 1 => least_used(false),
            () if !is_busy && is_idle && low.len() > 1 => least_used(true),
            () => None,
        };
        let Some(changed) = changed else { return };
        let path = lanes.paths[changed].clone();
        let becomes_low = !lanes.is_low[changed];
        for link in path.iter() {
            let count = &mut self.low_count[link.ix()];
            *count = if becomes_low { *count + 1 } else { *count - 1 };
        }
        let lanes = self.pairs.get_mut(&ends).expect("looked up above");
        lanes.is_low[changed] = becomes_low;
        let low = evenly(lanes.low_paths());
        placements.split(ends.from, view.routes.class_node(ends.to), low);
        for (flow, rate) in large {
            if becomes_low && placements.pin_of(*flow).is_some_and(|pin| pin.path == path) {
                path.iter().for_each(|link| self.load[link.ix()] -= rate);
                self.place(view, ends, (*flow, *rate), placements);
            }
        }
    }

    /// Places a large flow on the widest high-throughput path, best without small flows.
    fn place(&mut self, view: &NetworkView<'_>, ends: Ends, (flow, rate): (FlowId, f64), placements: &mut Placements) {
        let Some(lanes) = self.pairs.get(&ends) else { return };
        let left = |path: usize| {
            let left = |link: &LinkIx| rate_of(view, *link) - self.load[link.ix()];
            lanes.paths[path].iter().map(left).fold(f64::INFINITY, f64::min)
        };
        let is_pure = |path: usize| lanes.paths[path].iter().all(|link| self.low_count[link.ix()] == 0);
        let key = |path: usize| (is_pure(path), left(path));
        // The first among equals; the only path if there is a single one.
        let candidates = lanes.of_kind(false).chain((lanes.paths.len() == 1).then_some(0));
        if let Some(path) = candidates.reduce(|best, path| if key(path) > key(best) { path } else { best }) {
            let path = lanes.paths[path].clone();
            path.iter().for_each(|link| self.load[link.ix()] += rate);
            placements.pin(flow, Pin { path, rate: None });
        }
    }

    fn look(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        read_loads(view, &mut self.load);
        let mut active: BTreeSet<Ends> = BTreeSet::new();
        let mut large: BTreeMap<Ends, Vec<(FlowId, f64)>> = BTreeMap::new();
        for (flow, info) in view.flows.iter() {
            let Some(ends) = ends(view, info) else { continue };
            active.insert(ends);
            if placements.pin_of(flow).is_some() || is_large(view, info, self.threshold, self.source) {
                let rate = info.rate.map_or(0.0, Bandwidth::as_bps_f64);
                large.entry(ends).or_default().push((flow, rate));
            }
        }
        for ends in &active {
            let large = large.get(ends).map_or(&[][..], |large| large);
            self.adapt(view, *ends, large, placements);
            for flow in large {
                if placements.pin_of(flow.0).is_none() {
                    self.place(view, *ends, *flow, placements);
                }
            }
        }
    }
}

impl CentralBalancer for Freeway {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                default_routes::equal_cost(view, placements);
                request_reports(self.source, placements);
                self.lay_out(view, placements);
                self.look(view, placements);
            }
            DecisionTrigger::PeriodElapsed => self.look(view, placements),
            DecisionTrigger::FlowStarted(_) => {}
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::testing::{DrivenBalancer, TestNetwork};

    const NETWORK: &str = "leaf-spine:leaves=2,spines=4,hosts_per_leaf=4";

    fn set_load(driven: &mut DrivenBalancer, link: LinkIx, share: f64) {
        let rate = driven.network.topology.link(link).rate.as_bps_f64() * share;
        driven.network.load[link.ix()].rate = Some(Bandwidth::from_bps(rate as u64));
    }

    /// Returns the paths over which the small flows of the first leaf are hashed.
    fn low(driven: &DrivenBalancer) -> Vec<Path> {
        let routes = &driven.network.routes;
        let class = |host| routes.class_node(routes.class_of(net::HostIx(host)));
        driven.placements.splits()[&(class(0), class(4))].iter().map(|path| path.path.clone()).collect()
    }

    fn set_low_loads(driven: &mut DrivenBalancer, share: f64) {
        low(driven).iter().for_each(|path| set_load(driven, path[0], share));
    }

    #[test]
    fn counters_and_kinds_follow_utilisation() {
        let network = TestNetwork::new(NETWORK);
        let mut freeway = Freeway::new(&crate::registry::Spec::parse("freeway").unwrap().params);
        freeway.lay_out(&network.view(), &mut Placements::default());
        // Two of four spines, one cable to and from each leaf: every link has one path of one pair.
        assert_eq!(freeway.low_count.iter().sum::<u32>(), 2 * 2 * 2);
        assert_eq!(freeway.low_count.iter().filter(|count| **count == 1).count(), 8);

        let mut driven = DrivenBalancer::on("freeway", 1, network);
        driven.network.flow(0, 4, None);
        assert_eq!(low(&driven).len(), 2);
        // One of two busy is half: a third path joins; then large flows keep the last one.
        let first = low(&driven)[0][0];
        set_load(&mut driven, first, 0.6);
        driven.period();
        assert_eq!(low(&driven).len(), 3);
        set_low_loads(&mut driven, 0.6);
        driven.period();
        assert_eq!(low(&driven).len(), 3);
        // All idle: one path per period changes back, and one remains.
        set_low_loads(&mut driven, 0.1);
        for expected in [2, 1, 1] {
            driven.period();
            assert_eq!(low(&driven).len(), expected);
        }
    }

    #[test]
    fn large_flows_take_the_emptiest_high_throughput_path_and_move_when_it_changes_kind() {
        let mut driven = DrivenBalancer::new("freeway", 1, NETWORK);
        set_low_loads(&mut driven, 0.3);
        let rate = Bandwidth::from_gbps(4);
        let flows = [driven.network.flow(0, 4, Some(rate)), driven.network.flow(1, 5, Some(rate))];
        driven.period();
        let (a, b) = (driven.pinned(flows[0]).clone(), driven.pinned(flows[1]).clone());
        assert!(a != b && ![&a, &b].into_iter().any(|path| low(&driven).contains(path)));
        // The path of the first becomes a low-latency one, as it carries less.
        set_low_loads(&mut driven, 0.9);
        set_load(&mut driven, a[0], 0.4);
        set_load(&mut driven, b[0], 0.5);
        driven.period();
        assert!(low(&driven).contains(&a));
        assert_eq!((driven.pinned(flows[0]), driven.pinned(flows[1])), (&b, &b));
    }
}
