//! Central balancers: they see the whole network, as far as it has been measured, and say where traffic should go.
//!
//! A balancer is asked when something happened ([`Why`]) and edits [`Placements`], the *whole* desired forwarding state; it
//! never sees a message or a switch. `control` compiles the state to rules, compares with what is installed and moves flows
//! without loss.

pub mod fdalb;
mod flows;
pub mod freeway;
pub mod hedera;
pub mod microte;
pub mod ofpt;
pub mod parts;
mod pins;
mod placements;
pub mod restless;
pub mod sdn_ecmp;
pub mod sdn_spain;
pub mod sdn_spt;
pub mod sdn_vlb;
pub mod sdn_wcmp;
#[cfg(test)]
pub(crate) mod testing;

pub use flows::{FlowFacts, FlowId, FlowTable};
pub use pins::{Pins, PinsIter};
pub use placements::{Base, Changes, HopTable, NextHop, Path, Pin, Placements, WeightedPath};

use net::{Bandwidth, FiveTuple, Routes, Stream, Time, Topology};

/// How a central balancer learns of flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowSource {
    /// Not at all.
    None,
    /// Every ordered pair of hosts that has sent anything is one flow (ports 0, protocol 0), counted by rules installed
    /// beforehand at the switch of the source: F0's way, right where a pair has one flow at a time.
    Pairs,
    /// The first packet of every flow goes to the controller, which has the switch of the source count the flow from then
    /// on; it has ended when nothing was counted for the idle timeout.
    FirstPackets,
    /// Hosts report flows when they have sent more than [`Placements::report_above`] bytes, and when these end. Sizes are
    /// told where applications know them.
    Agents,
}

/// What a central balancer needs of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CentralNeeds {
    /// How it learns of flows.
    pub flows: FlowSource,
    /// Whether counters of flows and ports are polled: [`FlowFacts::rate`] and [`NetworkView::load`].
    pub counters: bool,
    /// How often it is asked for [`Why::Period`]; `None` for never.
    pub period: Option<Time>,
}

/// What a central balancer is made from.
#[derive(Clone, Copy, Debug)]
pub struct CentralEnv {
    /// Seed of the run, or of the configuration file.
    pub seed: u64,
}

/// Why a central balancer is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The network became known, grew, or links came or went. Placements over dead links have been removed already.
    Network,
    /// Its period is over; counters are as new as they get.
    Period,
    /// A flow was seen for the first time.
    FlowStarted(FlowId),
    /// A flow has ended; its facts and its pin are removed after this call.
    FlowEnded(FlowId),
}

/// What is known of the load of a link.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LinkLoad {
    /// Bits per second over the last two distinct samples of its sender's counters; `None` before there are two.
    pub rate: Option<Bandwidth>,
    /// When the later sample was taken.
    pub at: Time,
}

/// The network as the controller knows it.
///
/// Indices are stable: nodes, links and hosts are only ever added, and what is gone is marked in `alive`. The links of
/// a switch or a host that is gone are dead.
#[derive(Clone, Copy, Debug)]
pub struct NetworkView<'a> {
    /// Now.
    pub now: Time,
    /// Everything ever seen; link rates are configured capacities.
    pub topology: &'a Topology,
    /// Which directed links are believed alive.
    pub alive: &'a [bool],
    /// Shortest paths over live links.
    pub routes: &'a Routes,
    /// Load of each directed link; empty without [`CentralNeeds::counters`].
    pub load: &'a [LinkLoad],
    /// Flows known and not ended.
    pub flows: &'a FlowTable,
}

/// What a central balancer may use besides facts.
#[derive(Debug)]
pub struct CentralCx<'a> {
    /// Its own random stream.
    pub rng: &'a mut Stream,
}

/// A balancer that sees the whole network.
pub trait CentralBalancer: Send {
    /// What it needs; asked once.
    fn needs(&self) -> CentralNeeds;

    /// Edits the desired state for what happened. Called first with [`Why::Network`], before anything else.
    fn decide(&mut self, cx: &mut CentralCx<'_>, view: &NetworkView<'_>, why: Why, placements: &mut Placements);
}

/// What an agent on a host tells the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentReport {
    /// A flow has sent more than the threshold (at once, where that is 0).
    Started {
        /// Which flow.
        tuple: FiveTuple,
        /// Bytes it has sent.
        bytes: u64,
        /// Bytes it will have sent in all, where the application knows.
        size: Option<u64>,
    },
    /// A flow reported before has ended.
    Ended {
        /// Which flow.
        tuple: FiveTuple,
        /// Bytes it sent in all.
        bytes: u64,
    },
}

/// What the controller tells agents on hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentOrder {
    /// All agents: report flows that have sent more than this, bytes.
    ReportAbove(u64),
    /// The agent of its source: send this flow no faster; `None` for no limit.
    Pace {
        /// Which flow.
        tuple: FiveTuple,
        /// Greatest rate on the wire.
        rate: Option<Bandwidth>,
    },
}
