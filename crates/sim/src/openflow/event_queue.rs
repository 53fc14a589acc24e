//! Events of the control plane, by time and then in the order in which they were scheduled.

use std::collections::BTreeMap;

use balance::central::{AgentCommand, AgentReport};
use balance::server::ServerStats;
use core::net::Ipv4Addr;
use openflow::{ConnectionId, Envelope};

use super::packet_ins::PacketIns;
use crate::timers::WakeTimer;

#[derive(Clone, Debug)]
pub(super) enum ControlEvent {
    Connected(u32, ConnectionId),
    ToController(u32, ConnectionId, Envelope),
    ToSwitch(u32, ConnectionId, Envelope),
    /// A switch notices that the controller has closed its connection.
    Closed(u32, ConnectionId),
    Connect(u32),
    Report(AgentReport),
    Member(Ipv4Addr, ServerStats),
    Command(AgentCommand),
    SwitchTimer(u32),
    /// A host has got no ARP reply about another one.
    AskAgain(u32, u32),
    PlaneTimer,
    /// While booting: a frame reaches the far end of a link.
    Frame(u32, Vec<u8>),
}

#[derive(Debug, Default)]
pub(super) struct ControlEventQueue {
    pending: BTreeMap<(u64, u64), ControlEvent>,
    packet_ins: PacketIns,
    serial: u64,
    /// Time of the earliest pending engine event that checks this queue.
    pub(super) awaited: WakeTimer,
    /// Time of the last event taken, and the number of events taken at that time.
    pub(super) taken: (u64, u64),
}

/// Events of one moment above which the control plane counts as livelocked.
pub(super) const MAX_EVENTS_AT_ONCE: u64 = 50_000_000;

impl ControlEventQueue {
    pub(super) fn put(&mut self, at: u64, event: ControlEvent) {
        self.serial += 1;
        let event = match event {
            ControlEvent::ToController(ix, connection, envelope) => {
                match self.packet_ins.put((at, self.serial), ix, connection, envelope) {
                    Some(envelope) => ControlEvent::ToController(ix, connection, envelope),
                    None => return,
                }
            }
            other => other,
        };
        self.pending.insert((at, self.serial), event);
    }

    fn first(&self) -> Option<(u64, u64)> {
        let other = self.pending.first_key_value().map(|(key, _)| *key);
        other.into_iter().chain(self.packet_ins.next()).min()
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.first().map(|(at, _)| at)
    }

    pub(super) fn take(&mut self, clock: u64) -> Option<ControlEvent> {
        let first = self.first().filter(|(at, _)| *at <= clock)?;
        self.taken = if self.taken.0 == clock { (clock, self.taken.1 + 1) } else { (clock, 1) };
        if self.packet_ins.next() == Some(first) {
            let (ix, connection, envelope) = self.packet_ins.pop()?;
            return Some(ControlEvent::ToController(ix, connection, envelope));
        }
        self.pending.pop_first().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_at_one_time_keep_insertion_order() {
        let mut events = ControlEventQueue::default();
        for (at, switch) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            events.put(at, ControlEvent::Connect(switch));
        }
        assert!(events.take(2).is_none());
        let mut order = Vec::new();
        while let Some(ControlEvent::Connect(switch)) = events.take(5) {
            order.push(switch);
        }
        assert_eq!(order, [1, 3, 0, 2]);
    }
}
