//! The controller at the far end of the control channels, as the simulator sees it.

use balance::central::{AgentCommand, AgentReport};
use balance::server::ServerStats;
use core::net::Ipv4Addr;
use net::Time;
use openflow::{FromController, ToController};

/// A controller. The simulator delays messages between it and the switches, and drives it.
pub trait ControlPlane: Send {
    fn handle(&mut self, now: Time, input: ToController);
    fn report(&mut self, now: Time, report: AgentReport);
    fn member_reported(&mut self, _now: Time, _address: Ipv4Addr, _facts: ServerStats) {}
    /// Notes the time of its clock at simulated time 0, at the end of a boot.
    fn boot_ended(&mut self, _clock: Time) {}
    fn poll_output(&mut self) -> Option<PlaneOutput>;
    fn poll_timeout(&self) -> Option<Time>;
    fn handle_timeout(&mut self, now: Time);
    /// Returns whether nothing is left to send, to confirm, or to change after a pause.
    fn is_settled(&self) -> bool;
    fn tally(&self) -> PlaneTally;
}

#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each an allocation")]
pub enum PlaneOutput {
    Channel(FromController),
    Agents(AgentCommand),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaneTally {
    pub decisions: u64,
    pub moves: u64,
    /// Counter samples equal to the previous ones.
    pub stale_samples: u64,
    /// ARP requests that the controller has answered, and those that it relayed to all edge ports.
    pub arp_answered: u64,
    pub arp_relayed: u64,
    /// Frames of the relayed requests.
    pub arp_copies: u64,
    /// Requests to the directory of an addressing mode: those answered, those refused, and changes.
    pub lookups: u64,
    /// Packets to locations that a switch did not know.
    pub cache_misses: u64,
    pub lookups_refused: u64,
    pub directory_updates: u64,
}
