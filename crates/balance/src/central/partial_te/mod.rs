//! Traffic engineering where only some switches are controlled (Agarwal, Kodialam, Lakshman:
//! Traffic Engineering in Software Defined Networks, INFOCOM 2013; F4 names it).
//!
//! Legacy switches forward every packet over the first shortest path to its destination. Controlled
//! switches split the traffic of each destination over any of their links, so that the largest
//! utilisation of a link is as low as possible. A path is admissible if it follows the next hops of
//! all legacy switches on it. The shares are found by an approximation scheme (`split.rs`).
//!
//! Readings:
//! - The paper has demands from measurements of the controlled switches. Here the demand of a pair
//!   of edge switches is its measured rate; where a legacy switch is the edge, its flow records
//!   count it.
//! - Traffic to one destination is split alike from all sources, as in the paper: a node has one
//!   set of shares for each destination. Circulations are removed, so that all next hops together
//!   have no loop.
//! - A switch without traffic to a destination has the first shortest path.
//! - Shares are multiples of `1 / quanta`. A new split is adopted if it lowers the largest
//!   utilisation by `gain`, or the sum of the squares of all utilisations where the largest cannot
//!   be lower: each change moves flows.
//!
//! Pitfall: shares hold for many small flows. One large flow is not split.
//!
//! - Helps: on wide-area networks with few controlled switches, where shortest paths leave capacity
//!   unused. With no legacy switch it reaches the optimum within `eps`.
//! - Hurts: with demands that change faster than `period`; longer paths add latency.

mod split;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use net::{LinkIx, NodeIx, Time};

pub use split::{Commodity, Links, Load, Split, split};

use super::common::{PairBytes, default_routes, edges, is_switch, is_usable, quantise, rate_of};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, DefaultRoutes, FlowSource, HopColumn, HopTable,
    NetworkView, NextHop, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("partial-te", "TE in a partial SDN")
    .summary("Splits the traffic of each destination at controlled switches, around legacy ones.")
    .source("INFOCOM 2013 (Agarwal et al.); F4")
    .granularity(Granularity::MovableFlow)
    .senses("flow counters")
    .params(&[
        Param::duration("period", "5s").doc("Time between two computations of shares."),
        Param::number("eps", 0.001..=0.5, "0.05").doc("Relative error of the largest utilisation."),
        Param::count("quanta", 1..=256, "64")
            .doc("Number of equal parts a switch's traffic to a destination is split into."),
        Param::number("gain", 0.0..=0.9, "0.05")
            .doc("Share by which new shares must lower the utilisation, or the old ones stay."),
        Param::choice("detect", &["pairs", "first-packets"], "pairs")
            .doc("Unit of counting: pairs of hosts, or flows whose first packets went to the controller."),
    ])
    .example("partial-te:period=1s,eps=0.02")
    .central(|_, params| {
        Box::new(PartialTe {
            period: params.duration("period").max(Time::from_ms(1)),
            eps: params.number("eps"),
            quanta: params.count("quanta") as u32,
            gain: params.number("gain"),
            source: if params.text("detect") == "pairs" { FlowSource::Pairs } else { FlowSource::FirstPackets },
            bytes: PairBytes::default(),
        })
    });

struct PartialTe {
    period: Time,
    eps: f64,
    quanta: u32,
    gain: f64,
    source: FlowSource,
    bytes: PairBytes,
}

impl PartialTe {
    fn end_period(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        let (counted, seconds) = self.bytes.end_period(view, self.period);
        let mut demands: BTreeMap<NodeIx, Vec<(NodeIx, f64)>> = BTreeMap::new();
        for (ends, bytes) in counted {
            if bytes > 0 && view.routes.path_count(ends.from, ends.to) > 0 {
                let rate = bytes as f64 * 8.0 / seconds;
                demands.entry(view.routes.class_node(ends.to)).or_default().push((ends.from, rate));
            }
        }
        if demands.is_empty() {
            return;
        }
        let links = links(view);
        let commodities = commodities(view, demands);
        let split = split(&links, &commodities, self.eps);
        let table = table(view, &links, &commodities, &split, self.quanta);
        let before =
            placements.default_routes().and_then(|DefaultRoutes::Hops(table)| load(&links, &commodities, table));
        let after = load(&links, &commodities, &table);
        if after.is_some_and(|after| before.is_none_or(|before| after.is_below(&before, self.gain))) {
            placements.set_default_routes(DefaultRoutes::Hops(Arc::new(table)));
        }
    }
}

fn is_legacy(view: &NetworkView<'_>, node: NodeIx) -> bool {
    view.legacy.get(node.ix()).copied().unwrap_or(false)
}

/// Returns the links between switches; dead ones have no capacity.
fn links(view: &NetworkView<'_>) -> Links {
    let ends = view.topology.links().iter().map(|link| (link.from, link.to)).collect();
    let capacity = |link: LinkIx| if is_usable(view, link) { rate_of(view, link) } else { 0.0 };
    Links { ends, capacity: (0..view.topology.links().len() as u32).map(|link| capacity(LinkIx(link))).collect() }
}

/// Returns the traffic of each destination, with the next hops of legacy switches.
fn commodities(view: &NetworkView<'_>, demands: BTreeMap<NodeIx, Vec<(NodeIx, f64)>>) -> Vec<Commodity> {
    let nodes = (0..view.topology.nodes().len() as u32).map(NodeIx);
    let of = |(to, demands): (NodeIx, Vec<(NodeIx, f64)>)| {
        let class = view.routes.class_at(to);
        let first = |node: NodeIx| view.routes.next_hops(node, class?).first().copied();
        let only = nodes.clone().map(|node| is_legacy(view, node).then(|| first(node)).flatten()).collect();
        Commodity { to, demands, only }
    };
    demands.into_iter().map(of).collect()
}

/// Returns the next hops of a split: shares where traffic is, the first shortest path elsewhere.
fn table(view: &NetworkView<'_>, links: &Links, commodities: &[Commodity], split: &Split, quanta: u32) -> HopTable {
    let switches: Vec<NodeIx> =
        (0..view.topology.nodes().len() as u32).map(NodeIx).filter(|node| is_switch(view, *node)).collect();
    let column = |(to, class): (NodeIx, net::routes::ClassIx)| {
        let first = |node: NodeIx| view.routes.next_hops(node, class).first().copied();
        let rates = commodities.iter().position(|commodity| commodity.to == to).map(|nth| &split.rates[nth]);
        let single = |node: NodeIx| first(node).map(|link| Arc::from([NextHop { link, weight: 1 }]));
        let hops = |node: NodeIx| -> Option<Arc<[NextHop]>> {
            let out = view.topology.out_links(node);
            let rates: Vec<f64> = out.iter().map(|link| rates.map_or(0.0, |rates| rates[link.ix()])).collect();
            if is_legacy(view, node) || node == to || rates.iter().all(|rate| *rate <= 0.0) {
                return single(node);
            }
            let parts = out.iter().zip(quantise(&rates, quanta)).filter(|(_, parts)| *parts > 0);
            Some(parts.map(|(link, parts)| NextHop { link: *link, weight: parts as u16 }).collect())
        };
        let shares: HopColumn = switches.iter().filter_map(|node| Some((*node, hops(*node)?))).collect();
        let is_safe = order(links, &shares).is_some();
        let shortest = || switches.iter().filter_map(|node| Some((*node, single(*node)?))).collect();
        (to, Arc::new(if is_safe { shares } else { shortest() }))
    };
    edges(view).map(column).collect()
}

/// Returns the nodes of a column so that next hops come later; `None` if there is a loop.
fn order(links: &Links, column: &HopColumn) -> Option<Vec<NodeIx>> {
    let mut before: BTreeMap<NodeIx, u32> = column.rows().iter().map(|(node, _)| (*node, 0)).collect();
    let far = |hop: &NextHop| links.ends[hop.link.ix()].1;
    for hop in column.rows().iter().flat_map(|(_, hops)| hops.iter()) {
        before.entry(far(hop)).and_modify(|count| *count += 1);
    }
    let mut ready: Vec<NodeIx> = before.iter().filter(|(_, count)| **count == 0).map(|(node, _)| *node).collect();
    let mut order = Vec::new();
    while let Some(node) = ready.pop() {
        order.push(node);
        for hop in column.get(node).into_iter().flat_map(|hops| hops.iter()) {
            let Some(count) = before.get_mut(&far(hop)) else { continue };
            *count -= 1;
            if *count == 0 {
                ready.push(far(hop));
            }
        }
    }
    (order.len() == before.len()).then_some(order)
}

/// Returns the load of the links with these next hops; `None` if a destination has none, or a loop.
fn load(links: &Links, commodities: &[Commodity], table: &HopTable) -> Option<Load> {
    let mut rates = vec![0.0; links.capacity.len()];
    for commodity in commodities {
        let column = table.column(commodity.to)?;
        let mut at: BTreeMap<NodeIx, f64> = BTreeMap::new();
        commodity.demands.iter().for_each(|(from, rate)| *at.entry(*from).or_default() += rate);
        for node in order(links, column)? {
            let (Some(rate), Some(hops)) = (at.get(&node).copied(), column.get(node)) else { continue };
            let total: f64 = hops.iter().map(|hop| f64::from(hop.weight)).sum();
            for hop in hops.iter() {
                let part = rate * f64::from(hop.weight) / total;
                rates[hop.link.ix()] += part;
                *at.entry(links.ends[hop.link.ix()].1).or_default() += part;
            }
        }
    }
    Some(Load::new(links, |link| rates[link]))
}

impl CentralBalancer for PartialTe {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                default_routes::first_port(view, placements);
                // Destinations may have new numbers.
                self.bytes.forget_pairs();
            }
            DecisionTrigger::PeriodElapsed => self.end_period(view, placements),
            DecisionTrigger::FlowStarted(flow) => self.bytes.flow_started(flow),
            DecisionTrigger::FlowEnded(flow) => {
                self.bytes.count(view, flow);
                placements.release(flow);
            }
        }
    }
}
