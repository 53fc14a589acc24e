//! MicroTE: traffic between edge switches that is predictable for a second is pinned to separate
//! paths; the remaining traffic is spread over the remaining capacity (mechanisms.md P09; Benson et
//! al., CoNEXT 2011).
//!
//! Every epoch, the bytes of each pair of edge switches are compared with their mean over recent
//! epochs; a pair within `delta` of it is predictable. Predictable pairs, largest first, take the
//! path whose busiest link is least busy afterwards. The other pairs with traffic are spread over
//! their paths by the remaining capacity of each.
//!
//! Readings: always the greedy algorithm, not the linear program for small networks. A pair keeps
//! its path unless another is better by `push`. Weights are rounded to sixteenths, so that small
//! changes cause no update. Pairs without traffic use equal-cost routes. Bytes are those of flows
//! between the pair, by counters; the paper counts at a server per rack, here the switch of the
//! source counts. At least three epochs of history are needed.
//!
//! - Helps: with traffic between racks that is predictable for a second.
//! - Hurts: without predictability, where it gains nothing over ECMP, and with epochs longer than
//!   flows.

use std::collections::{BTreeMap, VecDeque};

use net::{LinkIx, Time};

use super::common::{ByteCounts, Dag, Ends, Search, default_routes, rate_of, spread_ranks};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Path, Placements,
    WeightedPath,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("microte", "MicroTE")
    .summary(
        "Places predictable traffic between racks on separate paths and spreads the rest over the remaining \
         capacity.",
    )
    .source("P09; CoNEXT 2011")
    .granularity(Granularity::MovableFlow)
    .senses("flow counters")
    .params(&[
        Param::duration("epoch", "1s").doc("Time between two decisions."),
        Param::count("window", 3..=1000, "10").unit("epochs").doc("Number of epochs in the mean."),
        Param::number("delta", 0.0..=1.0, "0.2")
            .unit("of the mean")
            .doc("Maximum deviation of predictable traffic from its mean."),
        Param::number("push", 0.0..=1.0, "0.05")
            .unit("of capacity")
            .doc("Difference in utilisation required to move a pair."),
        Param::count("paths", 1..=256, "16").unit("paths").doc("Maximum number of paths of an unpredictable pair."),
        Param::choice("detect", &["pairs", "first-packets"], "pairs")
            .doc("Unit of counting: pairs of hosts, or flows whose first packets went to the controller."),
    ])
    .central(|_, params| {
        Box::new(MicroTe {
            epoch: params.duration("epoch").max(Time::from_ms(1)),
            window: params.count("window") as usize,
            delta: params.number("delta"),
            push: params.number("push"),
            paths_max: params.count("paths") as u32,
            source: if params.text("detect") == "pairs" { FlowSource::Pairs } else { FlowSource::FirstPackets },
            counts: ByteCounts::default(),
            history: BTreeMap::new(),
            search: Search::default(),
        })
    });

/// Number of epochs before a pair can be predictable.
const HISTORY_LEAST: usize = 3;

struct MicroTe {
    epoch: Time,
    window: usize,
    delta: f64,
    push: f64,
    paths_max: u32,
    source: FlowSource,
    counts: ByteCounts,
    history: BTreeMap<Ends, History>,
    search: Search,
}

#[derive(Default)]
struct History {
    /// Bytes of this epoch so far.
    current: u64,
    /// Bytes of the previous epochs, oldest first.
    past: VecDeque<u64>,
    /// The path it is pinned to, if it is predictable.
    path: Option<Path>,
}

impl History {
    /// Returns the mean bytes of an epoch if this one is close to it.
    fn predicted(&self, delta: f64) -> Option<f64> {
        let mean = self.past.iter().sum::<u64>() as f64 / self.past.len().max(1) as f64;
        let is_near = (self.current as f64 - mean).abs() <= delta * mean;
        (self.past.len() >= HISTORY_LEAST && mean > 0.0 && is_near).then_some(mean)
    }
    fn turn(&mut self, window: usize) {
        self.past.push_back(std::mem::take(&mut self.current));
        if self.past.len() > window {
            self.past.pop_front();
        }
    }
    fn is_silent(&self) -> bool {
        self.current == 0 && self.past.iter().all(|bytes| *bytes == 0)
    }
}

impl MicroTe {
    /// Adds the bytes of a flow since its last reading.
    fn count(&mut self, view: &NetworkView<'_>, flow: FlowId) {
        if let Some((ends, bytes)) = self.counts.read(view, flow) {
            self.history.entry(ends).or_default().current += bytes;
        }
    }

    fn end_epoch(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        view.flows.iter().for_each(|(flow, _)| self.count(view, flow));
        let seconds = self.counts.end_period(view, self.epoch);
        let silent: Vec<Ends> =
            self.history.iter().filter(|(_, pair)| pair.is_silent()).map(|(ends, _)| *ends).collect();
        for ends in silent {
            self.history.remove(&ends);
            placements.split(ends.from, view.routes.class_node(ends.to), [].into());
        }
        let mut predictable: Vec<(f64, Ends)> = Vec::new();
        for (ends, pair) in &self.history {
            predictable.extend(pair.predicted(self.delta).map(|bytes| (bytes * 8.0 / seconds, *ends)));
        }
        predictable.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut load = vec![0.0; view.topology.links().len()];
        self.place(view, &predictable, &mut load, placements);
        self.spread(view, &predictable, &load, placements);
        self.history.values_mut().for_each(|pair| pair.turn(self.window));
    }

    /// Places predictable pairs, by rates in bits per second.
    fn place(
        &mut self,
        view: &NetworkView<'_>,
        predictable: &[(f64, Ends)],
        load: &mut [f64],
        placements: &mut Placements,
    ) {
        let dag = Dag::new(view);
        for (rate, ends) in predictable {
            let pair = self.history.get_mut(ends).expect("pairs are taken from it");
            let left = |link: LinkIx| 1.0 - (load[link.ix()] + rate) / rate_of(view, link);
            let Some(best) = self.search.widest(dag, *ends, left) else {
                pair.path = None;
                continue;
            };
            let is_kept = |path: &Path| {
                let is_live = dag.rank_of(*ends, path).is_some();
                is_live && path.iter().map(|link| left(*link)).fold(f64::INFINITY, f64::min) >= best - self.push
            };
            let path = pair.path.take().filter(is_kept).unwrap_or_else(|| self.search.found().into());
            path.iter().for_each(|link| load[link.ix()] += rate);
            pair.path = Some(path.clone());
            placements.split(ends.from, view.routes.class_node(ends.to), [WeightedPath { path, weight: 1 }].into());
        }
    }

    fn spread(
        &mut self,
        view: &NetworkView<'_>,
        predictable: &[(f64, Ends)],
        load: &[f64],
        placements: &mut Placements,
    ) {
        let dag = Dag::new(view);
        let placed: std::collections::BTreeSet<Ends> = predictable.iter().map(|(_, ends)| *ends).collect();
        for (ends, pair) in self.history.iter_mut().filter(|(ends, _)| !placed.contains(ends)) {
            pair.path = None;
            let left = |path: &Path| {
                let left = path.iter().map(|link| rate_of(view, *link) - load[link.ix()]);
                left.fold(f64::INFINITY, f64::min).max(0.0)
            };
            let ranks = spread_ranks(dag.path_count(*ends), self.paths_max);
            let paths: Vec<(f64, Path)> =
                ranks.map(|rank| dag.path(*ends, rank)).map(|path| (left(&path), path)).collect();
            let most = paths.iter().map(|(left, _)| *left).fold(0.0, f64::max);
            let weight = |left: f64| if most > 0.0 { (16.0 * left / most).round() as u16 } else { 1 };
            let weighted = paths.into_iter().map(|(left, path)| WeightedPath { path, weight: weight(left) });
            let weighted = weighted.filter(|path| path.weight > 0).collect();
            placements.split(ends.from, view.routes.class_node(ends.to), weighted);
        }
    }
}

impl CentralBalancer for MicroTe {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.epoch) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                default_routes::equal_cost(view, placements);
                // Paths may be dead, and destinations may have new numbers.
                placements.clear_splits();
                self.history.clear();
            }
            DecisionTrigger::PeriodElapsed => self.end_epoch(view, placements),
            DecisionTrigger::FlowStarted(flow) => self.counts.flow_started(flow),
            DecisionTrigger::FlowEnded(flow) => {
                self.count(view, flow);
                placements.release(flow);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::central::testing::{DrivenBalancer, TestNetwork};

    const LEAF_SPINE: &str = "leaf-spine:leaves=3,spines=2,hosts_per_leaf=2";

    /// Runs epochs in which every flow sends the given number of megabytes.
    fn run(driven: &mut DrivenBalancer, flows: &[(FlowId, u64)], epochs: u32) {
        for _ in 0..epochs {
            driven.network.now += Time::from_s(1);
            for (flow, megabytes) in flows {
                driven.network.flows.get_mut(*flow).unwrap().bytes += megabytes * 1_000_000;
            }
            driven.period();
        }
    }

    fn paths(driven: &DrivenBalancer, flow: FlowId) -> Vec<(Path, u16)> {
        let TestNetwork { routes, flows, .. } = &driven.network;
        let info = flows.get(flow).unwrap();
        let node = |host| routes.class_node(routes.class_of(host));
        let paths = driven.placements.splits().get(&(node(info.src), node(info.dst)));
        paths.iter().flat_map(|paths| paths.iter()).map(|path| (path.path.clone(), path.weight)).collect()
    }

    #[test]
    fn steady_pairs_get_separate_paths_and_others_remaining_capacity() {
        let mut driven = DrivenBalancer::new("microte", 1, LEAF_SPINE);
        // From the first leaf to the others, 4 and 2 Gb/s of 10; back from the second, irregular.
        let [large, small, wild] = [(0, 2), (1, 4), (2, 0)].map(|(src, dst)| driven.network.flow(src, dst, None));
        run(&mut driven, &[(large, 500), (small, 250)], 3);
        assert_eq!(paths(&driven, large).len(), 2, "not enough history: spread");
        run(&mut driven, &[(large, 500), (small, 250)], 1);
        let (a, b) = (paths(&driven, large), paths(&driven, small));
        assert_eq!((a.len(), b.len()), (1, 1));
        assert_ne!(a[0].0[0], b[0].0[0], "different spines");
        // An irregular pair that shares the uplinks with them: 6 and 8 of 10 are left.
        driven.network.flow(0, 3, None);
        for megabytes in [10, 500, 20, 700, 1] {
            run(&mut driven, &[(large, 500), (small, 250), (wild, megabytes)], 1);
        }
        assert_eq!(paths(&driven, large), a, "the same volume stays on the same path");
        assert_eq!(paths(&driven, wild).iter().map(|path| path.1).collect::<Vec<_>>(), [16, 16]);
        // The large pair becomes irregular: it is spread by what the small one leaves: 10 and 8.
        run(&mut driven, &[(large, 5), (small, 250)], 1);
        let mut weights: Vec<u16> = paths(&driven, large).iter().map(|path| path.1).collect();
        weights.sort_unstable();
        assert_eq!(weights, [13, 16]);
    }

    #[test]
    fn idle_pair_returns_to_default_routes() {
        let mut driven = DrivenBalancer::new("microte:window=3", 1, LEAF_SPINE);
        let flow = driven.network.flow(0, 2, None);
        run(&mut driven, &[(flow, 100)], 5);
        assert_eq!(driven.placements.splits().len(), 1);
        run(&mut driven, &[], 5);
        assert!(driven.placements.splits().is_empty());
    }

    #[test]
    fn bytes_of_flows_that_ended_count() {
        let mut driven = DrivenBalancer::new("microte:detect=first-packets", 1, LEAF_SPINE);
        for _ in 0..6 {
            let flow = driven.start(0, 2, 0);
            driven.network.flows.get_mut(flow).unwrap().bytes = 1_000_000;
            driven.end(flow);
            run(&mut driven, &[], 1);
        }
        assert_eq!(driven.splits().next().unwrap().len(), 1, "as predictable as one flow that lasts");
    }
}
