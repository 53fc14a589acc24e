//! OFPT: long flows are placed one by one, using the lengths of a primal-dual approximation; short
//! ones follow proactive routes (mechanisms.md P10; Liu et al.: OFPT: OpenFlow based Parallel
//! Transport in Datacenters, 2016 (F2)).
//!
//! Pairs of edge switches are ordered by their remaining time, shortest first, and so are flows
//! within a pair. Each flow takes the path with the most room on its narrowest link, among equals
//! the shortest one. Placing a flow uses room and makes the links longer. Afterwards, flows that
//! cross an overloaded link are placed again, in several passes.
//!
//! Readings, where the paper is silent or contradicts itself:
//! - One flow at a time. The printed loop continues with a path until its room falls below that of
//!   the fullest path, which overfills it; `batch=printed` keeps this variant for reference.
//! - The demand of a flow is the rate of its host's link, or with `demand=fair` its part of the links
//!   of its two hosts (Hedera's estimate): a host with n flows offers its rate once, not n times. If
//!   its size is unknown, the remaining bytes are assumed equal to the bytes sent.
//! - A flow that starts or ends changes its own path only. Every period everything is recomputed,
//!   and the result replaces the present routes if the total overload is lower (`adopt=always`: in
//!   any case). Among equally good paths a flow keeps its own.
//! - New flows are placed as they are reported, and the rules of flows that change together are sent
//!   together. With `order=mrtf` they are placed and their rules are sent in the printed order
//!   (algorithms 2 and 3). F2 does not say how far apart: a switch gets the rules of a flow when it has
//!   confirmed those of the flow before it.
//! - Short flows of a pair of edge switches (s, d) take path (s + d) mod |P|.
//! - Hosts receive rates only with `provision`: `fair` shares of the path, or `fractional`: the
//!   pair's part in an almost maximum flow (`fptas.rs`).
//! - The paper does not mention acknowledgements. They take the reverse path of their flow, so that
//!   every link has as many of them as of data. On the paths of short flows (`acks=default`) those of
//!   a pair of edge switches share one path. Full links that have twice their part lose packets,
//!   and F2's measurements with links just full (E2.1 with 8 paths, E2.2) are not reproduced.
//! - Background traffic is the load that counters show in excess of the placed flows.
//!
//! Pitfall: the number of considered paths matters much. F2 says 8 in a tree with 16.
//!
//! - Helps: with long flows that hosts announce: each is placed on arrival, on the path with the
//!   most room.
//! - Hurts: with mostly short flows; where hosts have no agents and sizes are unknown; with too few
//!   considered paths (`k`).

mod candidates;
pub mod fptas;
mod link_lengths;

use std::collections::BTreeMap;

use net::{Bandwidth, HostIx, LinkIx, Time};

use self::candidates::{Aim, Choice, Subset};
use self::fptas::Commodity;
use self::link_lengths::LinkLengths;
use super::common::{Dag, Ends, Hosts, default_routes, demand, divide_all, ends, host_rate, measured};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowInfo, FlowSource, NetworkView, Path, Pin,
    Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("ofpt", "OFPT")
    .summary("Places every long flow on the path with the most room; short flows follow fixed routes.")
    .source("P10; F2")
    .granularity(Granularity::MovableFlow)
    .senses("reports of hosts, flow and port counters")
    .params(&[
        Param::count("max_paths", 1..=1024, "16")
            .unit("paths")
            .doc("Maximum number of paths considered per pair of edge switches; F2 prints 8 where the graph has 16."),
        Param::choice("paths", &["first", "spread"], "first").doc(
            "Selection among more paths: the first in port order (k=8: 2 aggregation switches x 4 cores), or \
             spread over all (4 x 2).",
        ),
        Param::number("eps", 0.01..=0.3, "0.1")
            .doc("Accuracy of the approximation; lengths grow by this share of the load."),
        Param::choice("batch", &["single", "printed"], "single")
            .doc("One flow at a time, or the loop as printed, which overfills paths."),
        Param::count("repair", 0..=100, "5")
            .unit("passes")
            .doc("Number of repair passes over flows that cross an overloaded link."),
        Param::count("short", 0..=1_000_000_000_000, "100000").unit("bytes").doc("Bytes above which a flow is long."),
        Param::choice("demand", &["host", "fair"], "host")
            .doc("Demand of a flow: the rate of its host's link, or its fair part of the links of both hosts."),
        Param::duration("period", "5s").doc("Time between two polls, each followed by a full recomputation."),
        Param::choice("order", &["none", "number", "mrtf"], "none").doc(
            "Order of flows that change together: none, by number, or as printed: first those that move, longest \
             remaining time first, then new ones, shortest first. Except with none a switch gets the rules of one \
             flow after the other.",
        ),
        Param::choice("adopt", &["improving", "always"], "improving")
            .doc("Whether a recomputation replaces the present routes only if it reduces the overload."),
        Param::choice("acks", &["default", "pinned"], "pinned").doc(
            "Path of acknowledgements of a long TCP flow: that of short flows, or the reverse of the flow's path.",
        ),
        Param::choice("provision", &["none", "fair", "fractional"], "none").doc(
            "Rates sent to hosts: none, fair shares of paths, or parts in an almost maximum flow (slow beyond \
             some hundred pairs).",
        ),
    ])
    .example("ofpt:max_paths=8")
    .central(|_, params| Box::new(Ofpt::new(params)));

/// The order in which flows are pinned that change together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    None,
    Number,
    /// Most urgent first: F2's algorithm 3.
    Mrtf,
}

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
    is_demand_fair: bool,
    hosts: Hosts,
    period: Time,
    order: Order,
    is_always_adopted: bool,
    acks_follow_path: bool,
    provision: Provision,
    lengths: LinkLengths,
}

type Chosen = BTreeMap<FlowId, Path>;

#[derive(Clone, Copy, Debug)]
struct Long {
    flow: FlowId,
    ends: Ends,
    /// Demand, bits per second.
    weight: f64,
    /// Remaining time at the full demand, s.
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
            is_demand_fair: params.text("demand") == "fair",
            hosts: Hosts::default(),
            period: params.duration("period").max(Time::from_ms(1)),
            order: match params.text("order") {
                "number" => Order::Number,
                "mrtf" => Order::Mrtf,
                _ => Order::None,
            },
            is_always_adopted: params.text("adopt") == "always",
            acks_follow_path: params.text("acks") == "pinned",
            provision: match params.text("provision") {
                "fair" => Provision::Fair,
                "fractional" => Provision::Fractional,
                _ => Provision::None,
            },
            lengths: LinkLengths::default(),
        }
    }

    /// Installs the default routes, and one path per pair for short flows.
    fn install_short(&self, view: &NetworkView<'_>, placements: &mut Placements) {
        default_routes::equal_cost(view, placements);
        placements.set_report_threshold(self.short_bytes);
        placements.set_acks_follow_path(self.acks_follow_path);
        let dag = Dag::new(view);
        divide_all(view, placements, |pair| {
            let count = dag.path_count(pair.ends());
            let nth = (pair.own.0 + pair.to.0) % self.subset.len(count);
            vec![dag.path(pair.ends(), self.subset.rank(count, nth))]
        });
    }

    fn choose(&self, cx: &mut CentralCx<'_>, ends: Ends, current: Option<&Path>) -> Option<Path> {
        let aim = if self.lengths.is_open() { Aim::Room } else { Aim::Cost };
        if let (Aim::Cost, Some(current)) = (aim, current) {
            return Some(current.clone());
        }
        let current = current.map(|path| &path[..]);
        Choice { dag: Dag::new(cx.view), lengths: &self.lengths, subset: self.subset, aim, current }.best(cx.rng, ends)
    }

    /// Returns the link lengths for the present pins; other counted traffic is background.
    fn lengths_of_pins(&self, view: &NetworkView<'_>, placements: &Placements) -> LinkLengths {
        let mut pinned = vec![0.0; view.topology.links().len()];
        for (flow, pin) in placements.pins().iter() {
            let rate = view.flows.get(*flow).and_then(|info| info.rate).map_or(0.0, Bandwidth::as_bps_f64);
            pin.path.iter().for_each(|link| pinned[link.ix()] += rate);
        }
        LinkLengths::new(view, self.eps, |link: LinkIx| (measured(view, link) - pinned[link.ix()]).max(0.0))
    }

    /// Computes the routes of all flows from scratch; also returns their link lengths.
    fn maximise(&mut self, cx: &mut CentralCx<'_>, flows: &[Long], placements: &Placements) -> Chosen {
        let mut routes = BTreeMap::new();
        for pair in in_order(flows) {
            match self.is_batch_printed {
                true => self.place_printed(cx, &pair, placements, &mut routes),
                false => pair.iter().for_each(|long| self.place(cx, long, placements, &mut routes)),
            }
        }
        self.repair(cx, flows, &mut routes);
        routes
    }

    fn place(&mut self, cx: &mut CentralCx<'_>, long: &Long, placements: &Placements, routes: &mut Chosen) {
        let current = placements.pin_of(long.flow).map(|pin| &pin.path);
        if let Some(path) = self.choose(cx, long.ends, current) {
            self.lengths.add(&path, long.weight);
            routes.insert(long.flow, path);
        }
    }

    /// Runs the loop as printed: fills a path until it has less room than the fullest path had.
    fn place_printed(&mut self, cx: &mut CentralCx<'_>, pair: &[Long], placements: &Placements, routes: &mut Chosen) {
        let dag = Dag::new(cx.view);
        let mut queue = pair.iter();
        while let Some(first) = queue.next() {
            let count = dag.path_count(first.ends);
            let mut fullest = f64::INFINITY;
            for nth in 0..self.subset.len(count) {
                dag.walk(first.ends, self.subset.rank(count, nth), |link| {
                    fullest = fullest.min(self.lengths.of_link(link).0);
                });
            }
            self.place(cx, first, placements, routes);
            let Some(path) = routes.get(&first.flow).cloned() else { continue };
            while self.lengths.room_and_cost(&path).0 >= fullest {
                let Some(next) = queue.next() else { break };
                self.lengths.add(&path, next.weight);
                routes.insert(next.flow, path.clone());
            }
        }
    }

    /// Places flows on overloaded links again, unless all are overloaded: then no move helps.
    fn repair(&mut self, cx: &mut CentralCx<'_>, flows: &[Long], routes: &mut Chosen) {
        for _ in 0..self.repair_passes {
            if !self.lengths.is_improvable() {
                return;
            }
            let mut is_changed = false;
            for long in flows {
                let Some(path) = routes.get(&long.flow).filter(|path| self.lengths.is_overloaded(path)).cloned() else {
                    continue;
                };
                self.lengths.remove(&path, long.weight);
                // An equal path lets later passes find improvements that this one cannot.
                let better = self.choose(cx, long.ends, None).unwrap_or_else(|| path.clone());
                self.lengths.add(&better, long.weight);
                is_changed |= better != path;
                routes.insert(long.flow, better);
            }
            if !is_changed {
                return;
            }
        }
    }

    /// Recomputes all routes, and adopts them if they are better.
    fn recompute(&mut self, cx: &mut CentralCx<'_>, flows: &[Long], placements: &mut Placements) {
        let empty = self.lengths_of_pins(cx.view, placements);
        let mut present = empty.clone();
        let mut is_complete = true;
        for long in flows {
            match placements.pin_of(long.flow) {
                Some(pin) => present.add(&pin.path, long.weight),
                None => is_complete = false,
            }
        }
        if is_complete && !self.is_always_adopted && present.overload() == 0.0 {
            self.lengths = present;
            return;
        }
        self.lengths = empty;
        let routes = self.maximise(cx, flows, placements);
        let is_better = self.lengths.overload() < present.overload() * (1.0 - 1e-9);
        if is_complete && !self.is_always_adopted && !is_better {
            self.lengths = present;
            return;
        }
        self.adopt(routes, flows, placements);
    }

    /// Handles link changes: flows that lost their path get another, the others keep their paths.
    fn restore(&mut self, cx: &mut CentralCx<'_>, flows: &[Long], placements: &mut Placements) {
        self.lengths = self.lengths_of_pins(cx.view, placements);
        let mut routes = BTreeMap::new();
        for long in flows {
            if let Some(pin) = placements.pin_of(long.flow) {
                self.lengths.add(&pin.path, long.weight);
                routes.insert(long.flow, pin.path.clone());
            }
        }
        for long in self.unplaced(flows, placements) {
            self.place(cx, &long, placements, &mut routes);
        }
        self.repair(cx, flows, &mut routes);
        self.adopt(routes, flows, placements);
    }

    /// Returns the flows without a path in the order of their placement.
    fn unplaced(&self, flows: &[Long], placements: &Placements) -> Vec<Long> {
        let is_new = |long: &&Long| placements.pin_of(long.flow).is_none();
        let flows: Vec<Long> = flows.iter().filter(is_new).copied().collect();
        match self.order {
            Order::None | Order::Number => flows,
            Order::Mrtf => in_order(&flows).into_iter().flatten().collect(),
        }
    }

    /// Pins flows to their routes; they keep their rates.
    fn adopt(&self, mut routes: Chosen, flows: &[Long], placements: &mut Placements) {
        let mut flows: Vec<(bool, Long)> =
            flows.iter().map(|long| (placements.pin_of(long.flow).is_some(), *long)).collect();
        if self.order == Order::Mrtf {
            flows.sort_by(|(has_path, a), (is_other_old, b)| {
                let times = a.remaining.total_cmp(&b.remaining);
                is_other_old.cmp(has_path).then(if *has_path { times.reverse() } else { times })
            });
        }
        for (_, long) in flows {
            let Some(path) = routes.remove(&long.flow) else { continue };
            let rate = placements.pin_of(long.flow).and_then(|pin| pin.rate);
            self.pin(long.flow, Pin { path, rate }, placements);
        }
    }

    fn pin(&self, flow: FlowId, pin: Pin, placements: &mut Placements) {
        match self.order {
            Order::None => placements.pin(flow, pin),
            Order::Number | Order::Mrtf => placements.pin_in_order(flow, pin),
        }
    }

    fn long_flows(&self, view: &NetworkView<'_>) -> Vec<Long> {
        let mut flows: Vec<Long> = view.flows.iter().filter_map(|(flow, info)| long(view, flow, info)).collect();
        if self.is_demand_fair {
            let pair = |long: &Long| view.flows.get(long.flow).map(|info| (info.src, info.dst));
            let pairs: Vec<(HostIx, HostIx)> = flows.iter().filter_map(pair).collect();
            let (demands, _) = demand::estimate(self.hosts.rates(), &pairs);
            flows.iter_mut().zip(demands).for_each(|(long, demand)| long.weight = demand.rate);
        }
        flows
    }

    fn long(&self, view: &NetworkView<'_>, flow: FlowId) -> Option<Long> {
        if self.is_demand_fair {
            return self.long_flows(view).into_iter().find(|long| long.flow == flow);
        }
        view.flows.get(flow).and_then(|info| long(view, flow, info))
    }

    fn start(&mut self, cx: &mut CentralCx<'_>, long: &Long, placements: &mut Placements) {
        if let Some(path) = self.choose(cx, long.ends, None) {
            self.lengths.add(&path, long.weight);
            let share = self.lengths.fair_share(&path);
            let rate = (self.provision != Provision::None).then(|| rate_of_share(long.weight, share));
            self.pin(long.flow, Pin { path, rate }, placements);
        }
    }

    fn provide(&self, view: &NetworkView<'_>, flows: &[Long], placements: &mut Placements) {
        let share_of_pair = match self.provision {
            Provision::None => return,
            Provision::Fair => BTreeMap::new(),
            Provision::Fractional => fractional_shares(view, flows, self.lengths.left(), self.eps),
        };
        for long in flows {
            let Some(pin) = placements.pin_of(long.flow).cloned() else { continue };
            let share = share_of_pair.get(&long.ends).copied().unwrap_or_else(|| self.lengths.fair_share(&pin.path));
            placements.pin(long.flow, Pin { rate: Some(rate_of_share(long.weight, share)), ..pin });
        }
    }
}

impl CentralBalancer for Ofpt {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                self.install_short(view, placements);
                if self.is_demand_fair {
                    self.hosts = Hosts::new(view);
                }
                let flows = self.long_flows(view);
                self.restore(cx, &flows, placements);
                self.provide(view, &flows, placements);
            }
            DecisionTrigger::PeriodElapsed => {
                let flows = self.long_flows(view);
                self.recompute(cx, &flows, placements);
                self.provide(view, &flows, placements);
            }
            DecisionTrigger::FlowStarted(_) if self.order == Order::Mrtf => {
                // The first of the flows that start together places all of them.
                for long in self.unplaced(&self.long_flows(view), placements) {
                    self.start(cx, &long, placements);
                }
            }
            DecisionTrigger::FlowStarted(flow) => {
                if let Some(long) = self.long(view, flow).filter(|long| placements.pin_of(long.flow).is_none()) {
                    self.start(cx, &long, placements);
                }
            }
            DecisionTrigger::FlowEnded(flow) => {
                if let (Some(long), Some(pin)) = (self.long(view, flow), placements.pin_of(flow)) {
                    self.lengths.remove(&pin.path, long.weight);
                }
                placements.release(flow);
            }
        }
    }
}

fn long(view: &NetworkView<'_>, flow: FlowId, info: &FlowInfo) -> Option<Long> {
    let ends = ends(view, info).filter(|ends| view.routes.path_count(ends.from, ends.to) > 0)?;
    let weight = host_rate(view, info.src).min(host_rate(view, info.dst));
    let expected = info.size.map_or(info.bytes, |size| size.saturating_sub(info.bytes));
    let rate = info.rate.map(Bandwidth::as_bps_f64).filter(|rate| *rate > 0.0).unwrap_or(weight);
    Some(Long { flow, ends, weight, remaining: expected as f64 * 8.0 / rate })
}

/// Groups flows by pair: pairs by the sum of their remaining times, flows by their own.
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

/// Returns the share of its demand that each pair gets in an almost maximum flow.
fn fractional_shares(view: &NetworkView<'_>, flows: &[Long], left: &[f64], eps: f64) -> BTreeMap<Ends, f64> {
    let commodities = commodities(flows.iter().map(|long| (long.ends, long.weight)));
    let routed = fptas::max_flow(Dag::new(view), left, &commodities, eps);
    commodities.iter().zip(routed).map(|(commodity, routed)| (commodity.ends, routed / commodity.demand)).collect()
}

/// Returns the sums of demands by pair.
fn commodities(demands: impl Iterator<Item = (Ends, f64)>) -> Vec<Commodity> {
    let mut by_pair: BTreeMap<Ends, f64> = BTreeMap::new();
    demands.for_each(|(ends, demand)| *by_pair.entry(ends).or_default() += demand);
    by_pair.into_iter().map(|(ends, demand)| Commodity { ends, demand }).collect()
}

/// Returns a rate of at least one bit per second: a flow with rate zero would never end.
fn rate_of_share(weight: f64, share: f64) -> Bandwidth {
    Bandwidth::from_bps(((weight * share) as u64).max(1))
}

#[cfg(test)]
mod tests;
