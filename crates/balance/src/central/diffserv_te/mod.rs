//! DiffServ-aware traffic engineering: classes of users have bandwidth constraints on every link,
//! and trunks reserve paths within them (RFC 3564, 4124, 4125, 4127; F4, which compares itself with
//! it).
//!
//! A trunk is the traffic of one class type between two edge switches. Its path is the shortest one
//! whose links can all take its bandwidth (constraint-based shortest path). A trunk takes bandwidth
//! from less important ones where it must; these look for other paths. A trunk for which no path is
//! wide enough reserves what its widest path can take. Flows are pinned to the path of their trunk,
//! and agents limit them to its bandwidth.
//!
//! Readings:
//! - Classes are those of the users' addresses (F4 wants "users information to direct their
//!   individual paths over prioritized links"). A controller that counts flows by five-tuples does
//!   not see DSCPs.
//! - Bandwidths follow the traffic: the measured rate times `headroom`, as with auto-bandwidth. A
//!   trunk that reserves within `headroom` of what it wants is left alone.
//! - The setup and holding priority of class type c is 7 - c, so that a higher class preempts a
//!   lower one; with `preemption=off` all have priority 0.
//! - RFC 4127: Russian dolls need preemption, or a low class keeps what a high class is promised.
//! - The least important LSP is preempted first, and of equals the latest.
//! - Agents on hosts report flows and limit them. The simulator limits senders that do not react to
//!   congestion; the control of others shares the links.
//!
//! Pitfall: between two periods new trunks have the default routes and no limit.
//!
//! - Helps: where some users must keep their rate under overload.
//! - Hurts: with Maximum Allocation, bandwidth that a class does not use stays unused (F4 notes
//!   it).

mod classes;
mod reservations;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use net::paths::{self, Metric};
use net::{Bandwidth, LinkIx, NodeIx, Time};

pub use classes::{ClassTable, Constraints};
pub use reservations::{CLASSES, Lsp, Model, Reservations};

use super::common::{ByteCounts, default_routes, ends, is_usable, rate_of};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowSource, NetworkView, Path, Pin, Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::Param;

pub(crate) static ENTRY: Entry = Entry::declare("diffserv-te", "DiffServ-TE")
    .summary("Reserves paths for classes of users within bandwidth constraints, with preemption.")
    .source("RFC 4124, 4125, 4127; F4")
    .granularity(Granularity::MovableFlow)
    .senses("agents' flow reports, flow counters")
    .params(&[
        Param::duration("period", "5s").doc("Time between two adjustments of reservations."),
        Param::class_table("classes", "default=0")
            .doc("Class types 0 to 7 of users by the prefix of their addresses; a higher one is more important."),
        Param::choice("model", &["rdm", "mam"], "rdm").doc(
            "Russian dolls: a constraint limits its class and all higher ones; or maximum allocation: its class alone.",
        ),
        Param::constraints("constraints", "100")
            .unit("% of capacity")
            .doc("Bandwidth constraints of class types 0, 1, …"),
        Param::choice("preemption", &["on", "off"], "on")
            .doc("Whether a higher class takes bandwidth from lower ones."),
        Param::number("headroom", 1.0..=100.0, "1.5")
            .unit("times the measured rate")
            .doc("Bandwidth that a trunk wants, so that one on full links can grow."),
        Param::choice("metric", &["hops", "delay"], "hops").doc("Length of paths."),
    ])
    .example("diffserv-te:classes=10.0.0.0/24=1;default=0,constraints=100;60")
    .central(|_, params| {
        Box::new(DiffServTe {
            period: params.duration("period").max(Time::from_ms(1)),
            classes: params.class_table("classes"),
            model: if params.text("model") == "mam" { Model::MaximumAllocation } else { Model::RussianDolls },
            constraints: params.constraints("constraints"),
            preempts: params.text("preemption") == "on",
            headroom: params.number("headroom"),
            metric: if params.text("metric") == "delay" { Metric::Delay } else { Metric::Hops },
            counts: ByteCounts::default(),
            bytes: BTreeMap::new(),
            reservations: Reservations::new(Model::RussianDolls, &[], Vec::new()),
            established: BTreeMap::new(),
        })
    });

/// The traffic of a class type between two switches.
type Trunk = (NodeIx, NodeIx, usize);

/// The reservation of a trunk.
#[derive(Clone, PartialEq, Debug)]
struct Established {
    number: usize,
    path: Path,
    bandwidth: f64,
    /// The rate it wanted when it was established, bits per second.
    wanted: f64,
}

struct DiffServTe {
    period: Time,
    classes: ClassTable,
    model: Model,
    constraints: Constraints,
    preempts: bool,
    headroom: f64,
    metric: Metric,
    counts: ByteCounts,
    /// Bytes of each flow in this period.
    bytes: BTreeMap<FlowId, u64>,
    reservations: Reservations,
    established: BTreeMap<Trunk, Established>,
}

impl DiffServTe {
    fn trunk_of(&self, view: &NetworkView<'_>, flow: FlowId) -> Option<Trunk> {
        let info = view.flows.get(flow)?;
        let ends = ends(view, info)?;
        Some((ends.from, view.routes.class_node(ends.to), self.classes.of(&info.tuple)))
    }

    fn count(&mut self, view: &NetworkView<'_>, flow: FlowId) {
        if let Some((_, bytes)) = self.counts.read(view, flow) {
            *self.bytes.entry(flow).or_default() += bytes;
        }
    }

    fn priority(&self, class: usize) -> usize {
        if self.preempts { CLASSES - 1 - class } else { 0 }
    }

    /// Returns a path of links that `may_use` accepts.
    fn path(
        &self,
        view: &NetworkView<'_>,
        (from, to, _): Trunk,
        may_use: impl Fn(usize) -> bool,
    ) -> Option<Vec<LinkIx>> {
        let topology = view.topology;
        paths::shortest(topology, from, to, self.metric, |link| is_usable(view, link) && may_use(link.ix()))
    }

    /// Establishes trunks with the rates they want, the most important first. Trunks that lose
    /// their bandwidth follow.
    fn establish(&mut self, view: &NetworkView<'_>, wanted: impl IntoIterator<Item = (Trunk, f64)>) {
        let order = |(from, to, class): Trunk, priority: usize| (priority, from, to, class);
        let mut pending: BTreeMap<(usize, NodeIx, NodeIx, usize), f64> =
            wanted.into_iter().map(|(trunk, rate)| (order(trunk, self.priority(trunk.2)), rate)).collect();
        while let Some(((priority, from, to, class), rate)) = pending.pop_first() {
            let trunk = (from, to, class);
            let whole = self.path(view, trunk, |link| self.reservations.fits(link, class, priority, rate));
            let (path, bandwidth) = match whole {
                Some(path) => (path, rate),
                None => {
                    let left = |link: usize| self.reservations.unreserved(link, class, priority);
                    let Some((path, width)) = self.widest(view, trunk, left) else { continue };
                    (path, width)
                }
            };
            let links = path.iter().map(|link| link.ix()).collect();
            let lsp = Lsp { class, setup: priority, hold: priority, bandwidth, links };
            let (number, preempted) = self.reservations.establish(lsp);
            self.established.insert(trunk, Established { number, path: path.into(), bandwidth, wanted: rate });
            for (number, _) in preempted {
                let loser = self.established.iter().find(|(_, known)| known.number == number).map(|(trunk, _)| *trunk);
                let Some(loser) = loser else { continue };
                if let Some(lost) = self.established.remove(&loser) {
                    pending.insert(order(loser, self.priority(loser.2)), lost.wanted);
                }
            }
        }
    }

    /// Returns the path whose narrowest link has most left, and that rate; `None` if nothing is
    /// left.
    fn widest(&self, view: &NetworkView<'_>, trunk: Trunk, left: impl Fn(usize) -> f64) -> Option<(Vec<LinkIx>, f64)> {
        let rates: BTreeSet<u64> = (0..view.topology.links().len()).map(|link| left(link).to_bits()).collect();
        // Bits of floating-point numbers that are not negative are in the order of the numbers.
        let rates: Vec<f64> = rates.into_iter().map(f64::from_bits).filter(|rate| *rate > 1.0).collect();
        let path = |rate: f64| self.path(view, trunk, |link| left(link) >= rate);
        let count = rates.partition_point(|rate| path(*rate).is_some());
        let rate = *rates.get(count.checked_sub(1)?)?;
        Some((path(rate)?, rate))
    }

    fn end_period(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        let flows: Vec<FlowId> = view.flows.iter().map(|(flow, _)| flow).collect();
        flows.iter().for_each(|flow| self.count(view, *flow));
        let seconds = self.counts.end_period(view, self.period);
        let mut members: BTreeMap<Trunk, Vec<(FlowId, f64)>> = BTreeMap::new();
        for (flow, bytes) in std::mem::take(&mut self.bytes) {
            if let Some(trunk) = self.trunk_of(view, flow) {
                members.entry(trunk).or_default().push((flow, bytes as f64 * 8.0 / seconds));
            }
        }
        let total = |flows: &Vec<(FlowId, f64)>| flows.iter().map(|(_, rate)| rate).sum::<f64>();
        let demands: BTreeMap<Trunk, f64> = members.iter().map(|(trunk, flows)| (*trunk, total(flows))).collect();
        let silent = |trunk: &Trunk| demands.get(trunk).is_none_or(|rate| *rate < 1.0);
        let changed = |trunk: &Trunk, known: &Established| {
            let rate = demands[trunk];
            let is_enough = rate * libm::sqrt(self.headroom) <= known.bandwidth;
            let is_excess = rate * self.headroom * self.headroom < known.bandwidth;
            !is_enough || is_excess
        };
        let leave: Vec<Trunk> = self
            .established
            .iter()
            .filter(|(trunk, known)| silent(trunk) || changed(trunk, known))
            .map(|(trunk, _)| *trunk)
            .collect();
        for trunk in leave {
            let number = self.established.remove(&trunk).map(|known| known.number);
            number.and_then(|number| self.reservations.release(number));
        }
        let wanted: Vec<(Trunk, f64)> = demands
            .iter()
            .filter(|(trunk, _)| !silent(trunk) && !self.established.contains_key(*trunk))
            .map(|(trunk, rate)| (*trunk, rate * self.headroom))
            .collect();
        self.establish(view, wanted);
        for (trunk, flows) in &members {
            self.pin_all(*trunk, flows, placements);
        }
    }

    /// Pins the flows of a trunk, with the parts of its bandwidth in proportion to their rates. A
    /// flow without traffic gets a tenth of an equal part, so that it can begin.
    fn pin_all(&self, trunk: Trunk, flows: &[(FlowId, f64)], placements: &mut Placements) {
        let Some(known) = self.established.get(&trunk) else {
            flows.iter().for_each(|(flow, _)| placements.release(*flow));
            return;
        };
        let least = known.bandwidth / flows.len() as f64 / 10.0;
        let weight = |rate: f64| rate.max(least);
        let total: f64 = flows.iter().map(|(_, rate)| weight(*rate)).sum();
        for (flow, rate) in flows {
            let limit = Bandwidth::from_bps((known.bandwidth * weight(*rate) / total) as u64);
            placements.pin(*flow, Pin { path: known.path.clone(), rate: Some(limit) });
        }
    }

    fn network_changed(&mut self, view: &NetworkView<'_>, placements: &mut Placements) {
        default_routes::equal_cost(view, placements);
        let capacity = (0..view.topology.links().len() as u32).map(|link| rate_of(view, LinkIx(link))).collect();
        self.reservations = Reservations::new(self.model, &self.constraints.0, capacity);
        let before = std::mem::take(&mut self.established);
        self.establish(view, before.into_iter().map(|(trunk, known)| (trunk, known.wanted)));
        let pinned: Vec<(FlowId, Option<Bandwidth>)> =
            placements.pins().iter().map(|(flow, pin)| (*flow, pin.rate)).collect();
        for (flow, rate) in pinned {
            let known = self.trunk_of(view, flow).and_then(|trunk| self.established.get(&trunk));
            match known {
                Some(known) => placements.pin(flow, Pin { path: known.path.clone(), rate }),
                None => placements.release(flow),
            }
        }
    }
}

impl CentralBalancer for DiffServTe {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: FlowSource::Agents, counters: true, period: Some(self.period) }
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => self.network_changed(view, placements),
            DecisionTrigger::PeriodElapsed => self.end_period(view, placements),
            DecisionTrigger::FlowStarted(flow) => {
                self.counts.flow_started(flow);
                self.bytes.remove(&flow);
                if let Some(known) = self.trunk_of(view, flow).and_then(|trunk| self.established.get(&trunk)) {
                    placements.pin(flow, Pin { path: known.path.clone(), rate: None });
                }
            }
            DecisionTrigger::FlowEnded(flow) => {
                self.bytes.remove(&flow);
                placements.release(flow);
            }
        }
    }
}
