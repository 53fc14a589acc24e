//! Central balancers: they read the state of the whole network and set the forwarding state.
//!
//! The controller calls a balancer for each [`DecisionTrigger`]. The balancer edits [`Placements`],
//! the *whole* desired forwarding state, and never handles a message or a switch. `control`
//! compiles the state to rules, compares it with the installed state and migrates flows without
//! loss.

pub mod b4;
pub mod central_te;
pub mod common;
pub mod diffserv_te;
pub mod fdalb;
mod flows;
pub mod freeway;
pub mod hedera;
mod hop_table;
pub mod laberio;
pub mod microte;
pub mod ofpt;
pub mod partial_te;
mod pins;
mod placements;
pub mod random_moves;
pub mod sdn_ecmp;
pub mod sdn_spain;
pub mod sdn_spt;
pub mod sdn_vlb;
pub mod sdn_wcmp;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod timed_move;

pub use flows::{FlowId, FlowInfo, FlowTable};
pub use hop_table::{HopColumn, HopTable, NextHop};
pub use pins::Pins;
pub use placements::{Changes, DefaultRoutes, Path, Pin, Placements, WeightedPath};

use net::{Bandwidth, FiveTuple, RandomStream, Routes, Time, Topology};

/// The source of a central balancer's knowledge of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowSource {
    /// The balancer does not use flows.
    None,
    /// Every ordered pair of hosts with traffic is one flow (ports 0, protocol 0). Proactive rules
    /// at the switch of the source count it. F0 works like this; it is exact if a pair has one flow
    /// at a time.
    Pairs,
    /// The first packet of every flow goes to the controller, which makes the switch of the source
    /// count the flow. The flow has ended when nothing was counted for the idle timeout.
    FirstPackets,
    /// Hosts report flows that have sent more than [`Placements::report_threshold_bytes`] bytes,
    /// and the ends of these flows. Reports contain sizes that applications know in advance.
    Agents,
}

/// The data a central balancer needs from the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CentralNeeds {
    /// The source of flows.
    pub flows: FlowSource,
    /// Whether flow and port counters are polled: [`FlowInfo::rate`], [`NetworkView::load`].
    pub counters: bool,
    /// Interval of [`DecisionTrigger::PeriodElapsed`]; `None` for never.
    pub period: Option<Time>,
}

/// Constructor arguments of a central balancer.
#[derive(Clone, Copy, Debug)]
pub struct CentralEnv {
    /// Seed of the run, or of the configuration file.
    pub seed: u64,
}

/// The reason for a call of a central balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecisionTrigger {
    /// The network or its links changed. Placements over dead links are already removed.
    NetworkChanged,
    /// Its period has elapsed, and all counters have been polled.
    PeriodElapsed,
    /// The controller received the first report of a flow.
    FlowStarted(FlowId),
    /// A flow has ended; its information and its pin are removed after this call.
    FlowEnded(FlowId),
}

/// The measured load of a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkLoad {
    /// Rate over the last two distinct samples of the sender's counters; `None` before them.
    pub rate: Option<Bandwidth>,
    /// Time of the later sample.
    pub at: Time,
}

/// The network as the controller knows it.
///
/// Indices are stable: nodes, links and hosts are only ever added, and removed ones are dead in
/// `alive`. All links of a removed switch or host are dead.
#[derive(Clone, Copy, Debug)]
pub struct NetworkView<'a> {
    /// Time of the call.
    pub now: Time,
    /// Everything ever discovered; link rates are configured capacities.
    pub topology: &'a Topology,
    /// Whether each directed link is considered live.
    pub alive: &'a [bool],
    /// Shortest paths over live links.
    pub routes: &'a Routes,
    /// Load of each directed link; empty without [`CentralNeeds::counters`].
    pub load: &'a [LinkLoad],
    /// Known flows that have not ended.
    pub flows: &'a FlowTable,
    /// Whether each node is a legacy switch, by node: it takes no rules, and forwards over the first
    /// shortest path by port. Empty if none is; a node past the end is none.
    pub legacy: &'a [bool],
}

/// The context of a decision.
#[derive(Debug)]
pub struct CentralCx<'a> {
    /// The random stream of this balancer.
    pub rng: &'a mut RandomStream,
    /// The network, its load and its flows.
    pub view: &'a NetworkView<'a>,
}

/// A balancer with a view of the whole network.
pub trait CentralBalancer: Send {
    /// Returns the data it needs; called once.
    fn needs(&self) -> CentralNeeds;

    /// Returns the time from the first decision to the first [`DecisionTrigger::PeriodElapsed`]; `None`
    /// for a whole period.
    fn first_period(&self) -> Option<Time> {
        None
    }

    /// Edits the desired state for a trigger. The first call has
    /// [`DecisionTrigger::NetworkChanged`].
    fn decide(&mut self, cx: &mut CentralCx<'_>, why: DecisionTrigger, placements: &mut Placements);
}

/// A report of an agent on a host to the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum AgentReport {
    /// A flow has sent more than the threshold (with a threshold of 0, the flow has started).
    Started {
        /// The five-tuple of the flow.
        tuple: FiveTuple,
        /// Bytes sent so far.
        bytes: u64,
        /// Total size in bytes, if the application knows it in advance.
        size: Option<u64>,
    },
    /// A reported flow has ended.
    Ended {
        /// The five-tuple of the flow.
        tuple: FiveTuple,
        /// Bytes sent in total.
        bytes: u64,
    },
}

/// A command of the controller to agents on hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentCommand {
    /// For all agents: report flows that have sent more than this number of bytes.
    SetReportThreshold(u64),
    /// For the agent of the flow's source: the maximum rate of this flow; `None` for no limit.
    SetRateLimit {
        /// The five-tuple of the flow.
        tuple: FiveTuple,
        /// Maximum rate on the wire.
        rate: Option<Bandwidth>,
    },
}
