//! What lies at the far end of control channels: a controller, as the simulator sees it.

use balance::central::{AgentOrder, AgentReport};
use balance::server::Facts;
use core::net::Ipv4Addr;
use net::Time;
use openflow::{FromController, ToController};

/// A controller. The simulator carries its messages to the switches and back with delay, and calls it like any driver.
pub trait ControlPlane {
    /// Something happened on a channel.
    fn handle(&mut self, now: Time, input: ToController);
    /// An agent on a host tells something.
    fn report(&mut self, now: Time, report: AgentReport);
    /// An agent on a server tells how it does.
    fn member_reported(&mut self, _now: Time, _address: Ipv4Addr, _facts: Facts) {}
    /// What is wanted next.
    fn poll_output(&mut self) -> Option<PlaneOutput>;
    /// When [`ControlPlane::handle_timeout`] wants to be called.
    fn poll_timeout(&self) -> Option<Time>;
    /// Does what is due.
    fn handle_timeout(&mut self, now: Time);
    /// Whether switches have everything that is wanted of them: nothing is left to send, to confirm, or to change after a pause.
    fn is_settled(&self) -> bool;
    /// Figures for the outcome.
    fn tally(&self) -> PlaneTally;
}

/// What a controller wants done.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum PlaneOutput {
    /// On a channel to a switch.
    Channel(FromController),
    /// By agents on hosts.
    Agents(AgentOrder),
}

/// What control has cost the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaneTally {
    /// Times the balancer was asked.
    pub decisions: u64,
    /// Flows moved.
    pub moves: u64,
    /// Counter samples that had not been refreshed.
    pub stale_samples: u64,
}
