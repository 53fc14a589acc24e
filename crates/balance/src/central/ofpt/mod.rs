//! OFPT: long flows are placed one by one by the lengths of a primal-dual approximation, short ones follow routes installed
//! beforehand (mechanisms.md P10; Liu et al.: OFPT: OpenFlow based Parallel Transport in Datacenters, 2016 (F2)).
//!
//! Pairs of edge switches in the order of their remaining time, least first, and within a pair flows likewise: each goes to
//! the path with the most room on its narrowest link, among equals the one of least length. Placing it takes room and makes
//! the links longer. Afterwards, flows that cross an overloaded link are placed again, a few times over.
//!
//! Readings, where the paper is silent or contradicts itself:
//! - One flow at a time. The printed loop goes on with a path until its room falls below that of the fullest path, which
//!   overfills it; `batch=printed` keeps it for the record.
//! - A flow wants the rate of its host's link. Where its size is unknown, as much again is expected as it has sent.
//! - A flow that starts or ends changes its own path only; everything is computed anew every period, and the outcome
//!   replaces the present routes if less exceeds capacities than now (`adopt=always`: in any case). Where several paths are
//!   equally good, a flow stays on its own.
//! - Short flows of a pair of edge switches (s, d) take path (s + d) mod |P|.
//! - Rates are told to hosts only with `provision`: `fair` shares of the path, or `fractional`: the pair's part in an almost
//!   maximum flow (`fptas.rs`).
//! - The paper does not speak of acknowledgements. They go back along the path of their flow, so that every link has as many of them as
//!   of data. By the short flows' paths (`acks=short`) those of a pair of edge switches share one path: full links that have twice their
//!   part lose packets, and what F2 measured where links are just full (E2.1 with 8 paths, E2.2) does not come out.
//! - Background traffic is what counters show beyond the placed flows.
//!
//! Pitfall: the number of paths considered matters as much as the algorithm. F2 says 8 of a tree with 16.
//!
//! - Helps: with long flows that hosts announce: each is placed as it comes, where there is most room.
//! - Hurts: with mostly short flows; where hosts have no agents and sizes are unknown; with too few paths considered
//!   (`k`).

mod book;
mod candidates;
pub mod fptas;

use std::collections::BTreeMap;

use net::{Bandwidth, LinkIx, Stream, Time};

use self::book::Book;
use self::candidates::{Aim, Choice, Subset};
use self::fptas::Commodity;
use super::parts::base;
use super::parts::dag::Dag;
use super::parts::edges::{Ends, edges, ends, host_rate, measured};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, FlowFacts, FlowId, FlowSource, NetworkView, Path, Pin, Placements,
    WeightedPath, Why,
};
use crate::dataplane::NO_NEEDS;
use crate::params::{Param, ParamKind, Params};
use crate::registry::{Build, Entry, Granularity, Reorders, World};

/// Registry entry.
pub static ENTRY: Entry = Entry {
    name: "ofpt",
    title: "OFPT",
    summary: "Places every long flow on the path with the most room; short flows follow fixed routes.",
    source: "P10; F2",
    granularity: Granularity::MovableFlow,
    reorders: Reorders::AtMoves,
    senses: "reports of hosts, flow and port counters",
    worlds: &[World::Simulator, World::OpenFlow],
    params: &[
        Param {
            name: "max_paths",
            kind: ParamKind::Count { min: 1, max: 1024 },
            default: "16",
            unit: "paths",
            doc: "Most paths considered for a pair of edge switches; F2 prints 8 where the graph has 16.",
        },
        Param {
            name: "paths",
            kind: ParamKind::Choice(&["first", "spread"]),
            default: "first",
            unit: "",
            doc: "Which, if there are more: the first in port order (k=8: 2 aggregation switches x 4 cores), or spread \
                  over all (4 x 2).",
        },
        Param {
            name: "eps",
            kind: ParamKind::Number { min: 0.01, max: 0.3 },
            default: "0.1",
            unit: "",
            doc: "Accuracy of the approximation; lengths grow by this share of the load.",
        },
        Param {
            name: "batch",
            kind: ParamKind::Choice(&["single", "printed"]),
            default: "single",
            unit: "",
            doc: "One flow at a time, or the loop as printed, which overfills paths.",
        },
        Param {
            name: "repair",
            kind: ParamKind::Count { min: 0, max: 100 },
            default: "5",
            unit: "passes",
            doc: "Passes over flows that cross an overloaded link.",
        },
        Param {
            name: "short",
            kind: ParamKind::Count { min: 0, max: 1_000_000_000_000 },
            default: "100000",
            unit: "bytes",
            doc: "Flows are long once they have sent more.",
        },
        Param {
            name: "period",
            kind: ParamKind::Duration,
            default: "5s",
            unit: "",
            doc: "Time between two polls, each followed by a full recomputation.",
        },
        Param {
            name: "adopt",
            kind: ParamKind::Choice(&["improving", "always"]),
            default: "improving",
            unit: "",
            doc: "Whether a recomputation replaces the present routes only if less exceeds capacities.",
        },
        Param {
            name: "acks",
            kind: ParamKind::Choice(&["short", "along"]),
            default: "along",
            unit: "",
            doc: "Whether acknowledgements of a long TCP flow go by the short flows' path or back along the flow's own.",
        },
        Param {
            name: "provision",
            kind: ParamKind::Choice(&["none", "fair", "fractional"]),
            default: "none",
            unit: "",
            doc: "Rates told to hosts: none, fair shares of paths, or parts in an almost maximum flow (slow beyond some \
                  hundred pairs).",
        },
    ],
    example: "ofpt:max_paths=8",
    needs: NO_NEEDS,
    build: Build::Central(|_, params| Box::new(Ofpt::new(params))),
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Provision {
    None,
    Fair,
    Fractional,
}

struct Ofpt {
    subset: Subset,
    eps: f64,
    is_batch_printed: bool,
    repair_passes: u32,
    short_bytes: u64,
    period: Time,
    is_always_adopted: bool,
    are_acks_along: bool,
    provision: Provision,
    book: Book,
}

/// A flow to place.
#[derive(Clone, Copy, Debug)]
struct Long {
    flow: FlowId,
    ends: Ends,
    /// What it wants, bits per second.
    weight: f64,
    /// Time it needs from now on, s.
    remaining: f64,
}

impl Ofpt {
    fn new(params: &Params) -> Ofpt {
        Ofpt {
            subset: Subset { paths_max: params.count("max_paths") as u32, is_spread: params.text("paths") == "spread" },
            eps: params.number("eps"),
            is_batch_printed: params.text("batch") == "printed",
            repair_passes: params.count("repair") as u32,
            short_bytes: params.count("short"),
            period: params.duration("period").max(Time::from_ms(1)),
            is_always_adopted: params.text("adopt") == "always",
            are_acks_along: params.text("acks") == "along",
            provision: match params.text("provision") {
                "fair" => Provision::Fair,
                "fractional" => Provision::Fractional,
                _ => Provision::None,
            },
            book: Book::default(),
        }
    }

    /// Base routes, and one path per pair for short flows.
    fn install_short(&self, view: &NetworkView<'_>, placements: &mut Placements) {
        placements.set_base(base::equal_cost(view));
        placements.set_report_above(self.short_bytes);
        placements.set_acks_along(self.are_acks_along);
        let dag = Dag::new(view);
        for (from, own) in edges(view) {
            for (to_node, to) in edges(view).filter(|(_, to)| *to != own) {
                let (ends, count) = (Ends { from, to }, view.routes.path_count(from, to));
                let nth = |len| (own.0 + to.0) % len;
                let path = |count| dag.path(ends, self.subset.rank(count, nth(self.subset.len(count))));
                let paths = (count > 0).then(|| WeightedPath { path: path(count), weight: 1 });
                placements.divide(from, to_node, paths.into_iter().collect());
            }
        }
    }

    fn choose(&self, rng: &mut Stream, view: &NetworkView<'_>, ends: Ends, current: Option<&Path>) -> Option<Path> {
        let aim = if self.book.is_open() { Aim::Room } else { Aim::Cost };
        if let (Aim::Cost, Some(current)) = (aim, current) {
            return Some(current.clone());
        }
        let current = current.map(|path| &path[..]);
        Choice { dag: Dag::new(view), book: &self.book, subset: self.subset, aim, current }.best(rng, ends)
    }

    /// A book of what is pinned now, as counters show the rest.
    fn book_of(&self, view: &NetworkView<'_>, placements: &Placements) -> Book {
        let mut pinned = vec![0.0; view.topology.links().len()];
        for (flow, pin) in placements.pins() {
            let rate = view.flows.get(*flow).and_then(|facts| facts.rate).map_or(0.0, Bandwidth::as_bps_f64);
            pin.path.iter().for_each(|link| pinned[link.ix()] += rate);
        }
        Book::new(view, self.eps, |link: LinkIx| (measured(view, link) - pinned[link.ix()]).max(0.0))
    }

    /// The routes that the algorithm gives, from nothing; also leaves the book of them.
    fn maximise(
        &mut self,
        rng: &mut Stream,
        view: &NetworkView<'_>,
        flows: &[Long],
        placements: &Placements,
    ) -> BTreeMap<FlowId, Path> {
        let mut routes = BTreeMap::new();
        for pair in in_order(flows) {
            match self.is_batch_printed {
                true => self.place_printed(rng, view, &pair, placements, &mut routes),
                false => pair.iter().for_each(|long| self.place(rng, view, long, placements, &mut routes)),
            }
        }
        self.repair(rng, view, flows, &mut routes);
        routes
    }

    fn place(
        &mut self,
        rng: &mut Stream,
        view: &NetworkView<'_>,
        long: &Long,
        placements: &Placements,
        routes: &mut BTreeMap<FlowId, Path>,
    ) {
        let current = placements.pin_of(long.flow).map(|pin| &pin.path);
        if let Some(path) = self.choose(rng, view, long.ends, current) {
            self.book.add(&path, long.weight);
            routes.insert(long.flow, path);
        }
    }

    /// The inner loop as printed: a path is filled until it has less room than the fullest had before.
    fn place_printed(
        &mut self,
        rng: &mut Stream,
        view: &NetworkView<'_>,
        pair: &[Long],
        placements: &Placements,
        routes: &mut BTreeMap<FlowId, Path>,
    ) {
        let dag = Dag::new(view);
        let mut queue = pair.iter();
        while let Some(first) = queue.next() {
            let count = dag.path_count(first.ends);
            let mut fullest = f64::INFINITY;
            for nth in 0..self.subset.len(count) {
                dag.walk(first.ends, self.subset.rank(count, nth), |link| {
                    fullest = fullest.min(self.book.of_link(link).0);
                });
            }
            self.place(rng, view, first, placements, routes);
            let Some(path) = routes.get(&first.flow).cloned() else {
                continue;
            };
            while self.book.room_and_cost(&path).0 >= fullest {
                let Some(next) = queue.next() else {
                    break;
                };
                self.book.add(&path, next.weight);
                routes.insert(next.flow, path.clone());
            }
        }
    }

    /// Places flows again that cross an overloaded link, unless all are: then nothing that is too much could go elsewhere.
    fn repair(
        &mut self,
        rng: &mut Stream,
        view: &NetworkView<'_>,
        flows: &[Long],
        routes: &mut BTreeMap<FlowId, Path>,
    ) {
        for _ in 0..self.repair_passes {
            if !self.book.is_improvable() {
                return;
            }
            let mut is_changed = false;
            for long in flows {
                let Some(path) = routes.get(&long.flow).filter(|path| self.book.is_overloaded(path)).cloned() else {
                    continue;
                };
                self.book.remove(&path, long.weight);
                // Not staying where another path is as good lets later passes find what this one could not.
                let better = self.choose(rng, view, long.ends, None).unwrap_or_else(|| path.clone());
                self.book.add(&better, long.weight);
                is_changed |= better != path;
                routes.insert(long.flow, better);
            }
            if !is_changed {
                return;
            }
        }
    }

    /// Everything anew, if that is better than what is.
    fn recompute(&mut self, rng: &mut Stream, view: &NetworkView<'_>, flows: &[Long], placements: &mut Placements) {
        let empty = self.book_of(view, placements);
        let mut present = empty.clone();
        let mut is_complete = true;
        for long in flows {
            match placements.pin_of(long.flow) {
                Some(pin) => present.add(&pin.path, long.weight),
                None => is_complete = false,
            }
        }
        if is_complete && !self.is_always_adopted && present.overload() == 0.0 {
            self.book = present;
            return;
        }
        self.book = empty;
        let routes = self.maximise(rng, view, flows, placements);
        let is_better = self.book.overload() < present.overload() * (1.0 - 1e-9);
        if is_complete && !self.is_always_adopted && !is_better {
            self.book = present;
            return;
        }
        for (flow, path) in routes {
            let rate = placements.pin_of(flow).and_then(|pin| pin.rate);
            placements.pin(flow, Pin { path, rate });
        }
    }

    /// After links came or went: flows that lost their path get another, the others stay.
    fn restore(&mut self, rng: &mut Stream, view: &NetworkView<'_>, flows: &[Long], placements: &mut Placements) {
        self.book = self.book_of(view, placements);
        let mut routes = BTreeMap::new();
        for long in flows {
            if let Some(pin) = placements.pin_of(long.flow) {
                self.book.add(&pin.path, long.weight);
                routes.insert(long.flow, pin.path.clone());
            }
        }
        for long in flows.iter().filter(|long| placements.pin_of(long.flow).is_none()) {
            self.place(rng, view, long, placements, &mut routes);
        }
        self.repair(rng, view, flows, &mut routes);
        for (flow, path) in routes {
            let rate = placements.pin_of(flow).and_then(|pin| pin.rate);
            placements.pin(flow, Pin { path, rate });
        }
    }

    fn start(&mut self, rng: &mut Stream, view: &NetworkView<'_>, long: &Long, placements: &mut Placements) {
        if let Some(path) = self.choose(rng, view, long.ends, None) {
            self.book.add(&path, long.weight);
            let share = self.book.fair_share(&path);
            let rate = (self.provision != Provision::None).then(|| rate_of_share(long.weight, share));
            placements.pin(long.flow, Pin { path, rate });
        }
    }

    /// Tells every flow its rate.
    fn provide(&self, view: &NetworkView<'_>, flows: &[Long], placements: &mut Placements) {
        let share_of_pair = match self.provision {
            Provision::None => return,
            Provision::Fair => BTreeMap::new(),
            Provision::Fractional => fractional_shares(view, flows, self.book.left(), self.eps),
        };
        for long in flows {
            let Some(pin) = placements.pin_of(long.flow).cloned() else {
                continue;
            };
            let share = share_of_pair.get(&long.ends).copied().unwrap_or_else(|| self.book.fair_share(&pin.path));
            placements.pin(long.flow, Pin { rate: Some(rate_of_share(long.weight, share)), ..pin });
        }
    }
}

impl CentralBalancer for Ofpt {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements) {
        match why {
            Why::Network => {
                self.install_short(view, placements);
                let flows = long_flows(view);
                self.restore(cx.rng, view, &flows, placements);
                self.provide(view, &flows, placements);
            }
            Why::Period => {
                let flows = long_flows(view);
                self.recompute(cx.rng, view, &flows, placements);
                self.provide(view, &flows, placements);
            }
            Why::FlowStarted(flow) => {
                let long = view.flows.get(flow).and_then(|facts| long(view, flow, facts));
                if let Some(long) = long.filter(|long| placements.pin_of(long.flow).is_none()) {
                    self.start(cx.rng, view, &long, placements);
                }
            }
            Why::FlowEnded(flow) => {
                let long = view.flows.get(flow).and_then(|facts| long(view, flow, facts));
                if let (Some(long), Some(pin)) = (long, placements.pin_of(flow)) {
                    self.book.remove(&pin.path, long.weight);
                }
                placements.release(flow);
            }
        }
    }
}

/// All flows that have something to choose.
fn long_flows(view: &NetworkView<'_>) -> Vec<Long> {
    view.flows.iter().filter_map(|(flow, facts)| long(view, flow, facts)).collect()
}

fn long(view: &NetworkView<'_>, flow: FlowId, facts: &FlowFacts) -> Option<Long> {
    let ends = ends(view, facts).filter(|ends| view.routes.path_count(ends.from, ends.to) > 0)?;
    let weight = host_rate(view, facts.src).min(host_rate(view, facts.dst));
    let expected = facts.size.map_or(facts.bytes, |size| size.saturating_sub(facts.bytes));
    let rate = facts.rate.map(Bandwidth::as_bps_f64).filter(|rate| *rate > 0.0).unwrap_or(weight);
    Some(Long { flow, ends, weight, remaining: expected as f64 * 8.0 / rate })
}

/// Flows by pair: pairs by the sum of their remaining times, flows by theirs.
fn in_order(flows: &[Long]) -> Vec<Vec<Long>> {
    let mut by_pair: BTreeMap<Ends, Vec<Long>> = BTreeMap::new();
    flows.iter().for_each(|long| by_pair.entry(long.ends).or_default().push(*long));
    let mut pairs: Vec<(f64, Vec<Long>)> = by_pair
        .into_values()
        .map(|mut pair| {
            pair.sort_by(|a, b| a.remaining.total_cmp(&b.remaining));
            (pair.iter().map(|long| long.remaining).sum(), pair)
        })
        .collect();
    pairs.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// The share of its demand that each pair gets in an almost maximum flow.
fn fractional_shares(view: &NetworkView<'_>, flows: &[Long], left: &[f64], eps: f64) -> BTreeMap<Ends, f64> {
    let mut demands: BTreeMap<Ends, f64> = BTreeMap::new();
    flows.iter().for_each(|long| *demands.entry(long.ends).or_default() += long.weight);
    let commodities: Vec<Commodity> =
        demands.iter().map(|(ends, demand)| Commodity { ends: *ends, demand: *demand }).collect();
    let routed = fptas::max_flow(Dag::new(view), left, &commodities, eps);
    commodities.iter().zip(routed).map(|(commodity, routed)| (commodity.ends, routed / commodity.demand)).collect()
}

/// At least one bit per second: a rate of zero would never end.
fn rate_of_share(weight: f64, share: f64) -> Bandwidth {
    Bandwidth::from_bps(((weight * share) as u64).max(1))
}

#[cfg(test)]
mod tests;
