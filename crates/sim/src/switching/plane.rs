//! The controller at the far end of the control channels, as the simulator sees it.

use balance::central::{AgentCommand, AgentReport};
use balance::server::ServerStats;
use core::net::Ipv4Addr;
use net::Time;
use openflow::{FromController, ToController};

/// A controller. The simulator carries its messages to the switches and back with delay, and calls
/// it like any driver.
pub trait ControlPlane {
    /// Handles an event on a channel.
    fn handle(&mut self, now: Time, input: ToController);
    /// Handles a report of an agent on a host.
    fn report(&mut self, now: Time, report: AgentReport);
    /// Handles the statistics that an agent on a server reports.
    fn member_reported(&mut self, _now: Time, _address: Ipv4Addr, _facts: ServerStats) {}
    /// Returns the next output.
    fn poll_output(&mut self) -> Option<PlaneOutput>;
    /// Returns when [`ControlPlane::handle_timeout`] must be called next.
    fn poll_timeout(&self) -> Option<Time>;
    /// Runs the timers that are due.
    fn handle_timeout(&mut self, now: Time);
    /// Returns whether all switches have their desired state: nothing is left to send, to confirm,
    /// or to change after a pause.
    fn is_settled(&self) -> bool;
    /// Returns statistics for the outcome.
    fn tally(&self) -> PlaneTally;
}

/// Output of a controller.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum PlaneOutput {
    /// Message to a switch.
    Channel(FromController),
    /// Command to agents on hosts.
    Agents(AgentCommand),
}

/// Work of the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaneTally {
    /// Number of balancer decisions.
    pub decisions: u64,
    /// Number of migrated flows.
    pub moves: u64,
    /// Counter samples equal to the previous ones.
    pub stale_samples: u64,
}
