//! Hedera: large flows are pinned to separate paths, all others use the default routes
//! (mechanisms.md P08; Al-Fares et al., NSDI 2010). F0's variant is the placer `worst-fit`.
//!
//! Every period: large flows are those that send more than `threshold` of their host's link. `gff`
//! and `sa` estimate their demands, bounded by host links alone, and place these: `gff` each on the
//! first path with room, `sa` by annealing one core per receiver (`anneal.rs`). `worst-fit` uses
//! measured rates and moves each large flow once, to the path with the most room on its narrowest
//! link (`worst_fit.rs`).
//!
//! Readings:
//! - A flow without a path with room uses the default routes, and is tried again next period. The
//!   comparison with capacity is `<=`; otherwise two flows of half the rate could never share a
//!   link.
//! - A placed flow that is no longer large keeps its path but reserves nothing.
//! - With `agents`, a reported flow is large until its counters show otherwise.
//! - A change of links runs a round immediately.
//!
//! Pitfalls: a starved flow measures below the threshold and is not detected. Changes shorter than
//! a period have no effect. With `bookkeeping=none` all flows of a round converge on the single
//! path that was emptiest at its start; with `ties=random` at least on all that were equally empty.
//!
//! - Helps: with long flows that collide under ECMP, in patterns that leave room elsewhere.
//! - Hurts: with flows shorter than a period; with starved flows, whose counters stay below the
//!   threshold.

mod anneal;
mod worst_fit;

use net::{Bandwidth, HostIx, Time};

use self::anneal::Annealer;
use super::common::dag::Search;
use super::common::default_routes;
use super::common::demand;
use super::common::edges::{Ends, host_rate};
use super::common::first_fit::FirstFit;
use super::common::hosts::Hosts;
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, DefaultRoutes, FlowId, FlowInfo, FlowSource,
    NetworkView, Pin, Placements,
};
use crate::dataplane::NO_NEEDS;
use crate::entry::{Build, Entry, Granularity, Platform, Reorders};
use crate::params::{Param, ParamKind, Params};

/// Registry entry, listed in [`crate::registry`].
pub static ENTRY: Entry = Entry {
    name: "hedera",
    title: "Hedera",
    summary: "Finds large flows by their counters and pins them to separate paths.",
    source: "P08; NSDI 2010; F0 (placer worst-fit), F2",
    granularity: Granularity::MovableFlow,
    reorders: Reorders::AtMoves,
    senses: "flow and port counters",
    platforms: &[Platform::Simulator, Platform::OpenFlow],
    params: &[
        Param {
            name: "placer",
            kind: ParamKind::Choice(&["gff", "sa", "worst-fit"]),
            default: "gff",
            unit: "",
            doc: "Global first fit, simulated annealing, or F0's worst fit.",
        },
        THRESHOLD,
        Param {
            name: "period",
            kind: ParamKind::Duration,
            default: "0s",
            unit: "",
            doc: "Time between two rounds; 0s is 5s, or 20s for worst-fit.",
        },
        DETECT,
        Param {
            name: "base",
            kind: ParamKind::Choice(&["auto", "ecmp", "spt"]),
            default: "auto",
            unit: "",
            doc: "Routes of other flows: select groups, or the lowest port at every tie; auto is spt for worst-fit, else ecmp.",
        },
        Param {
            name: "bookkeeping",
            kind: ParamKind::Choice(&["none", "within_round"]),
            default: "none",
            unit: "",
            doc: "Whether worst-fit counts the flows it has moved in this round, or uses the counters unchanged.",
        },
        Param {
            name: "ties",
            kind: ParamKind::Choice(&["first", "random"]),
            default: "first",
            unit: "",
            doc: "Selection of worst-fit among several paths with the most available bandwidth.",
        },
        Param {
            name: "iterations",
            kind: ParamKind::Count { min: 1, max: 1_000_000 },
            default: "1000",
            unit: "",
            doc: "Steps of annealing in a round, and the temperature it begins with.",
        },
        Param {
            name: "cooling",
            kind: ParamKind::Number { min: 0.0, max: 1e6 },
            default: "0",
            unit: "",
            doc: "Factor c / T0 of the acceptance rule of annealing; 0 is 0.5 up to 16 hosts and 1000 beyond.",
        },
    ],
    example: "hedera:placer=sa",
    needs: NO_NEEDS,
    build: Build::Central(|_, params| Box::new(Hedera::new(params))),
};

/// Threshold parameter of balancers of large flows.
pub(super) const THRESHOLD: Param = Param {
    name: "threshold",
    kind: ParamKind::Number { min: 0.0, max: 1.0 },
    default: "0.1",
    unit: "of the host's link",
    doc: "Rate above which a flow is large.",
};

/// Parameter that selects the source of large flows.
pub(super) const DETECT: Param = Param {
    name: "detect",
    kind: ParamKind::Choice(&["pairs", "first-packets", "agents"]),
    default: "first-packets",
    unit: "",
    doc: "Source of flows: counters per pair of hosts, first packets sent to the controller, or agents on hosts.",
};

/// Returns the value of [`DETECT`].
pub(super) fn flow_source(params: &Params) -> FlowSource {
    match params.text("detect") {
        "pairs" => FlowSource::Pairs,
        "agents" => FlowSource::Agents,
        _ => FlowSource::FirstPackets,
    }
}

/// Report threshold of agents, bytes. A tenth of a second at a tenth of 10 Gb/s is 12.5 MB; the
/// usual border between short and long flows is below it.
pub(super) const REPORT_THRESHOLD_BYTES: u64 = 100_000;

enum Placer {
    FirstFit,
    Anneal(Annealer),
    WorstFit { is_booked: bool, are_ties_drawn: bool },
}

/// A flow to place.
#[derive(Clone, Copy, Debug)]
struct Large {
    flow: FlowId,
    ends: Ends,
    dst: HostIx,
    /// Rate in bits per second: estimated, or measured for worst-fit.
    rate: f64,
}

struct Hedera {
    placer: Placer,
    threshold: f64,
    period: Time,
    source: FlowSource,
    is_default_spt: bool,
    hosts: Hosts,
    first_fit: FirstFit,
    search: Search,
    /// By link: bits per second used; working memory of worst-fit.
    used: Vec<f64>,
}

impl Hedera {
    fn new(params: &Params) -> Hedera {
        let placer = match params.text("placer") {
            "sa" => Placer::Anneal(Annealer::new(params.count("iterations") as u32, params.number("cooling"))),
            "worst-fit" => Placer::WorstFit {
                is_booked: params.text("bookkeeping") == "within_round",
                are_ties_drawn: params.text("ties") == "random",
            },
            _ => Placer::FirstFit,
        };
        let is_worst_fit = matches!(placer, Placer::WorstFit { .. });
        let period = match params.duration("period") {
            Time::ZERO => Time::from_s(if is_worst_fit { 20 } else { 5 }),
            period => period,
        };
        let is_default_spt = match params.text("base") {
            "auto" => is_worst_fit,
            base => base == "spt",
        };
        Hedera {
            placer,
            threshold: params.number("threshold"),
            period,
            source: flow_source(params),
            is_default_spt,
            hosts: Hosts::default(),
            first_fit: FirstFit::default(),
            search: Search::default(),
            used: Vec::new(),
        }
    }

    fn default_routes(&self, view: &NetworkView<'_>) -> DefaultRoutes {
        if self.is_default_spt { default_routes::first_port(view) } else { default_routes::equal_cost(view) }
    }

    fn round(&mut self, cx: &mut CentralCx<'_>, view: &NetworkView<'_>, placements: &mut Placements) {
        let flows = large_flows(view, &self.hosts, self.threshold, self.source);
        match &mut self.placer {
            Placer::FirstFit => {
                let large = estimated(&self.hosts, &flows);
                first_fit(&mut self.first_fit, view, &large, placements);
            }
            Placer::Anneal(annealer) => annealer.place(cx.rng, view, &estimated(&self.hosts, &flows), placements),
            Placer::WorstFit { is_booked, are_ties_drawn } => {
                let large = measured_flows(view, &self.hosts, &flows);
                let (is_booked, are_ties_drawn) = (*is_booked, *are_ties_drawn);
                let book = worst_fit::WorstFitOptions {
                    reserves_moved: is_booked,
                    is_default_spt: self.is_default_spt,
                    are_ties_drawn,
                };
                worst_fit::place(cx.rng, &mut self.search, view, &large, book, &mut self.used, placements);
            }
        }
    }
}

/// Runs global first fit (P08.2): flows with a path keep it; others take the first one with room.
fn first_fit(first_fit: &mut FirstFit, view: &NetworkView<'_>, large: &[Large], placements: &mut Placements) {
    first_fit.begin(view);
    for large in large {
        if let Some(pin) = placements.pin_of(large.flow) {
            first_fit.take(&pin.path, large.rate);
        }
    }
    placements.reserve_pins(view.flows.capacity());
    for large in large {
        if placements.pin_of(large.flow).is_some() {
            continue;
        }
        if let Some(path) = first_fit.place(view.routes, large.ends, large.rate) {
            placements.pin(large.flow, Pin { path: path.into(), rate: None });
        }
    }
}

impl CentralBalancer for Hedera {
    fn needs(&self) -> CentralNeeds {
        CentralNeeds { flows: self.source, counters: true, period: Some(self.period) }
    }

    fn decide(
        &mut self,
        cx: &mut CentralCx<'_>,
        view: &NetworkView<'_>,
        why: DecisionTrigger,
        placements: &mut Placements,
    ) {
        match why {
            DecisionTrigger::NetworkChanged => {
                self.hosts = Hosts::new(view);
                placements.set_default_routes(self.default_routes(view));
                if self.source == FlowSource::Agents {
                    placements.set_report_threshold(REPORT_THRESHOLD_BYTES);
                }
                if let Placer::Anneal(annealer) = &mut self.placer {
                    annealer.set_network(view);
                }
                self.round(cx, view, placements);
            }
            DecisionTrigger::PeriodElapsed => self.round(cx, view, placements),
            DecisionTrigger::FlowStarted(_) => {}
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

/// Returns whether a flow sends more than `threshold` of its host's link.
pub(super) fn is_large(view: &NetworkView<'_>, info: &FlowInfo, threshold: f64, source: FlowSource) -> bool {
    exceeds(info, threshold * host_rate(view, info.src), source)
}

fn exceeds(info: &FlowInfo, threshold_bps: f64, source: FlowSource) -> bool {
    match info.rate.map(Bandwidth::as_bps_f64) {
        Some(rate) => rate > threshold_bps,
        None => source == FlowSource::Agents,
    }
}

/// A flow with its source and destination hosts.
type Known = (FlowId, HostIx, HostIx);

/// Returns the large flows in the order of their numbers, including those between hosts of one
/// switch, which have demands too.
fn large_flows(view: &NetworkView<'_>, hosts: &Hosts, threshold: f64, source: FlowSource) -> Vec<Known> {
    let mut flows = Vec::with_capacity(view.flows.len());
    for (flow, info) in view.flows.iter() {
        let (Some(rate), Some(_)) = (hosts.rates().get(info.src.ix()), hosts.rates().get(info.dst.ix())) else {
            continue;
        };
        if exceeds(info, threshold * rate, source) {
            flows.push((flow, info.src, info.dst));
        }
    }
    flows
}

/// Returns those flows that have a choice of paths, with estimated demands.
fn estimated(hosts: &Hosts, flows: &[Known]) -> Vec<Large> {
    let pairs: Vec<(HostIx, HostIx)> = flows.iter().map(|(_, src, dst)| (*src, *dst)).collect();
    let (demands, _) = demand::estimate(hosts.rates(), &pairs);
    let with_demand = flows.iter().zip(demands);
    let placed = |((flow, src, dst), demand): (&Known, demand::Demand)| {
        Some(Large { flow: *flow, ends: hosts.ends(*src, *dst)?, dst: *dst, rate: demand.rate })
    };
    with_demand.filter_map(placed).collect()
}

/// Returns those flows that have a choice of paths, with measured rates.
fn measured_flows(view: &NetworkView<'_>, hosts: &Hosts, flows: &[Known]) -> Vec<Large> {
    let rate = |flow| view.flows.get(flow).and_then(|info| info.rate).map_or(0.0, Bandwidth::as_bps_f64);
    let with_rate = |(flow, src, dst): &Known| {
        Some(Large { flow: *flow, ends: hosts.ends(*src, *dst)?, dst: *dst, rate: rate(*flow) })
    };
    flows.iter().filter_map(with_rate).collect()
}

#[cfg(test)]
mod tests;
