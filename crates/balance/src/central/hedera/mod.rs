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
//! - F0's CLLBL falls by steps of 20 s, as if one flow of each pair of edge switches moved in a round
//!   (`per_round=edge-pair`), and its first round comes at any time of a period (`phase=random`).
//!
//! Pitfalls: a starved flow measures below the threshold and is not detected. Changes shorter than
//! a period have no effect. With `reservation=none` all flows of a round converge on the single
//! path that was emptiest at its start; with `ties=random` at least on all that were equally empty.
//!
//! - Helps: with long flows that collide under ECMP, in patterns that leave room elsewhere.
//! - Hurts: with flows shorter than a period; with starved flows, whose counters stay below the
//!   threshold.

mod anneal;
mod worst_fit;

use net::{Bandwidth, HostIx, RandomStream, Time};

use self::anneal::Annealer;
use super::common::{Ends, FirstFit, Hosts, Search, default_routes, demand, host_rate};
use super::{
    CentralBalancer, CentralCx, CentralNeeds, DecisionTrigger, FlowId, FlowInfo, FlowSource, NetworkView, Pin,
    Placements,
};
use crate::entry::{Entry, Granularity};
use crate::params::{Param, Params};

pub(crate) static ENTRY: Entry = Entry::declare("hedera", "Hedera")
    .summary("Finds large flows by their counters and pins them to separate paths.")
    .source("P08; NSDI 2010; F0 (placer worst-fit), F2")
    .granularity(Granularity::MovableFlow)
    .senses("flow and port counters")
    .params(&[
        Param::choice("placer", &["gff", "sa", "worst-fit"], "gff")
            .doc("Global first fit, simulated annealing, or F0's worst fit."),
        THRESHOLD,
        Param::duration("period", "0s").doc("Time between two rounds; 0s is 5s, or 20s for worst-fit."),
        DETECT,
        Param::choice("default_routes", &["auto", "ecmp", "spt"], "auto").doc(
            "Routes of other flows: select groups, or the lowest port at every tie; auto is spt for worst-fit, \
             else ecmp.",
        ),
        Param::choice("reservation", &["none", "within_round"], "none").doc(
            "Whether worst-fit reserves the rates of flows that it has moved in this round, or uses the counters \
             alone.",
        ),
        Param::choice("ties", &["first", "random"], "first")
            .doc("Selection of worst-fit among several paths with the most available bandwidth."),
        Param::choice("per_round", &["all", "edge-pair"], "all")
            .doc("Number of flows that worst-fit moves in a round: all, or one for each pair of edge switches."),
        Param::choice("phase", &["start", "random"], "start")
            .doc("First round: a period after the controller is ready, or drawn from that period."),
        Param::count("iterations", 1..=1_000_000, "1000")
            .doc("Steps of annealing in a round, and the temperature it begins with."),
        Param::number("cooling", 0.0..=1e6, "0")
            .doc("Factor c / T0 of the acceptance rule of annealing; 0 is 0.5 up to 16 hosts and 1000 beyond."),
    ])
    .example("hedera:placer=sa")
    .central(|env, params| Box::new(Hedera::new(env.seed, params)));

pub(super) const THRESHOLD: Param =
    Param::number("threshold", 0.0..=1.0, "0.1").unit("of the host's link").doc("Rate above which a flow is large.");

/// Parameter that selects the source of large flows.
pub(super) const DETECT: Param = Param::choice("detect", &["pairs", "first-packets", "agents"], "first-packets")
    .doc("Source of flows: counters per pair of hosts, first packets sent to the controller, or agents on hosts.");

pub(super) fn flow_source(params: &Params) -> FlowSource {
    match params.text("detect") {
        "pairs" => FlowSource::Pairs,
        "agents" => FlowSource::Agents,
        _ => FlowSource::FirstPackets,
    }
}

/// Report threshold of agents, bytes. A tenth of a second at a tenth of 10 Gb/s is 12.5 MB; the
/// usual border between short and long flows is below it.
const REPORT_THRESHOLD_BYTES: u64 = 100_000;

/// Asks the agents on hosts for flows above the threshold, if flows come from agents.
pub(super) fn request_reports(source: FlowSource, placements: &mut Placements) {
    if source == FlowSource::Agents {
        placements.set_report_threshold(REPORT_THRESHOLD_BYTES);
    }
}

enum Placer {
    FirstFit,
    Anneal(Annealer),
    WorstFit { reserves_moved: bool, are_ties_drawn: bool, is_one_per_pair: bool },
}

/// A large flow between different switches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Large {
    pub(super) flow: FlowId,
    pub(super) ends: Ends,
    dst: HostIx,
    /// Rate in bits per second: estimated, or measured for worst-fit.
    pub(super) rate: f64,
}

struct Hedera {
    placer: Placer,
    threshold: f64,
    period: Time,
    /// Time until the first round, if not a whole period.
    first_period: Option<Time>,
    source: FlowSource,
    is_default_spt: bool,
    hosts: Hosts,
    first_fit: FirstFit,
    search: Search,
    /// By link: bits per second used; working memory of worst-fit.
    used: Vec<f64>,
}

impl Hedera {
    fn new(seed: u64, params: &Params) -> Hedera {
        let placer = match params.text("placer") {
            "sa" => Placer::Anneal(Annealer::new(params.count("iterations") as u32, params.number("cooling"))),
            "worst-fit" => Placer::WorstFit {
                reserves_moved: params.text("reservation") == "within_round",
                are_ties_drawn: params.text("ties") == "random",
                is_one_per_pair: params.text("per_round") == "edge-pair",
            },
            _ => Placer::FirstFit,
        };
        let is_worst_fit = matches!(placer, Placer::WorstFit { .. });
        let period = match params.duration("period") {
            Time::ZERO => Time::from_s(if is_worst_fit { 20 } else { 5 }),
            period => period,
        };
        let first_period = (params.text("phase") == "random").then(|| {
            let mut draws = RandomStream::new(seed, "hedera phase");
            Time::from_ps(1 + draws.next_below(period.as_ps()))
        });
        let is_default_spt = match params.text("default_routes") {
            "auto" => is_worst_fit,
            routes => routes == "spt",
        };
        Hedera {
            placer,
            threshold: params.number("threshold"),
            period,
            first_period,
            source: flow_source(params),
            is_default_spt,
            hosts: Hosts::default(),
            first_fit: FirstFit::default(),
            search: Search::default(),
            used: Vec::new(),
        }
    }

    fn round(&mut self, cx: &mut CentralCx<'_>, placements: &mut Placements) {
        let view = cx.view;
        let flows = large_flows(view, &self.hosts, self.threshold, self.source);
        match &mut self.placer {
            Placer::FirstFit => {
                let large = estimated(&self.hosts, &flows);
                first_fit(&mut self.first_fit, view, &large, placements);
            }
            Placer::Anneal(annealer) => annealer.place(cx, &estimated(&self.hosts, &flows), placements),
            &mut Placer::WorstFit { reserves_moved, are_ties_drawn, is_one_per_pair } => {
                let large = measured_flows(view, &self.hosts, &flows);
                let is_default_spt = self.is_default_spt;
                let options =
                    worst_fit::WorstFitOptions { reserves_moved, is_default_spt, are_ties_drawn, is_one_per_pair };
                worst_fit::place(cx, &mut self.search, &large, options, &mut self.used, placements);
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

    fn first_period(&self) -> Option<Time> {
        self.first_period
    }

    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements) {
        let view = cx.view;
        match why {
            DecisionTrigger::NetworkChanged => {
                self.hosts = Hosts::new(view);
                match self.is_default_spt {
                    true => default_routes::first_port(view, placements),
                    false => default_routes::equal_cost(view, placements),
                }
                request_reports(self.source, placements);
                if let Placer::Anneal(annealer) = &mut self.placer {
                    annealer.set_network(view);
                }
                self.round(cx, placements);
            }
            DecisionTrigger::PeriodElapsed => self.round(cx, placements),
            DecisionTrigger::FlowStarted(_) => {}
            DecisionTrigger::FlowEnded(flow) => placements.release(flow),
        }
    }
}

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
pub(super) type Known = (FlowId, HostIx, HostIx);

/// Returns the large flows by number; those under one switch have demands too.
pub(super) fn large_flows(view: &NetworkView<'_>, hosts: &Hosts, threshold: f64, source: FlowSource) -> Vec<Known> {
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

/// Returns the large flows between different switches with the demands that their hosts allow.
pub(super) fn estimated(hosts: &Hosts, flows: &[Known]) -> Vec<Large> {
    let pairs: Vec<(HostIx, HostIx)> = flows.iter().map(|(_, src, dst)| (*src, *dst)).collect();
    let (demands, _) = demand::estimate(hosts.rates(), &pairs);
    with_rates(hosts, flows, demands.into_iter().map(|demand| demand.rate))
}

/// Returns the large flows between different switches with their measured rates.
pub(super) fn measured_flows(view: &NetworkView<'_>, hosts: &Hosts, flows: &[Known]) -> Vec<Large> {
    let rate = |flow| view.flows.get(flow).and_then(|info| info.rate).map_or(0.0, Bandwidth::as_bps_f64);
    with_rates(hosts, flows, flows.iter().map(|(flow, ..)| rate(*flow)))
}

/// Returns the flows between different switches, with their rates.
fn with_rates(hosts: &Hosts, flows: &[Known], rates: impl Iterator<Item = f64>) -> Vec<Large> {
    let large = |((flow, src, dst), rate): (&Known, f64)| {
        Some(Large { flow: *flow, ends: hosts.ends(*src, *dst)?, dst: *dst, rate })
    };
    flows.iter().zip(rates).filter_map(large).collect()
}

#[cfg(test)]
mod tests;
