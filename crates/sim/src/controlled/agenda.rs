//! What is going to happen in the control plane, in order of time and, at one time, in the order it was decided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use balance::central::{AgentOrder, AgentReport};
use balance::server::Facts;
use core::net::Ipv4Addr;
use openflow::{ConnectionId, Envelope};

use crate::flows::NEVER;

/// Something that will happen.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// The controller learns that a switch has connected.
    Connected(u32, ConnectionId),
    /// A message reaches the controller.
    ToController(u32, ConnectionId, Envelope),
    /// A message reaches a switch.
    ToSwitch(u32, ConnectionId, Envelope),
    /// A switch learns that the controller has closed its connection.
    Closed(u32, ConnectionId),
    /// A switch connects, if it can.
    Connect(u32),
    /// A report of an agent reaches the controller.
    Report(AgentReport),
    /// A report of an agent on a server reaches the controller.
    Member(Ipv4Addr, Facts),
    /// An order reaches agents.
    Order(AgentOrder),
    /// A switch may want to be called.
    SwitchTimer(u32),
    /// The controller may want to be called.
    PlaneTimer,
    /// While booting: a frame reaches the far end of a link.
    Frame(u32, Vec<u8>),
}

#[derive(Debug)]
struct Due {
    at: u64,
    serial: u64,
    item: Item,
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Due) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Due>>,
    serial: u64,
    /// Time of the earliest pending event of the engine that will look here.
    awaited: Option<u64>,
    /// Items taken at the time of the last one.
    taken: (u64, u64),
}

/// Items of one moment after which the control plane is taken to go round in circles.
const MOST_AT_ONCE: u64 = 50_000_000;

impl Agenda {
    pub(super) fn put(&mut self, at: u64, item: Item) {
        self.serial += 1;
        self.heap.push(Reverse(Due { at, serial: self.serial, item }));
    }

    /// When the next item is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// Takes an item due by `clock`.
    pub(super) fn take(&mut self, clock: u64) -> Option<Item> {
        if self.next()? > clock {
            return None;
        }
        self.taken = if self.taken.0 == clock { (clock, self.taken.1 + 1) } else { (clock, 1) };
        self.heap.pop().map(|Reverse(due)| due.item)
    }

    /// Whether so much has happened at one moment that it will not end.
    pub(super) fn is_circling(&self) -> bool {
        self.taken.1 > MOST_AT_ONCE
    }

    /// The time an event is needed for, unless one comes in time.
    pub(super) fn wants_event(&mut self) -> Option<u64> {
        let at = self.next()?;
        if self.awaited.is_some_and(|awaited| awaited <= at) {
            return None;
        }
        self.awaited = Some(at);
        Some(at)
    }

    /// An event came at `clock`.
    pub(super) fn event_came(&mut self, clock: u64) {
        // One that an earlier event superseded leaves the order of the others alone.
        if self.awaited.is_some_and(|awaited| awaited <= clock) {
            self.awaited = None;
        }
    }
}

/// One timer of a machine that says when it wants to be called: at most one item that counts is on the agenda.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm(u64);

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm(NEVER)
    }
}

impl Alarm {
    /// The machine wants to be called at `at`: when an item is needed for that.
    pub(super) fn set(&mut self, clock: u64, at: Option<net::Time>) -> Option<u64> {
        let at = at?.as_ps().max(clock);
        if at >= self.0 {
            return None;
        }
        self.0 = at;
        Some(at)
    }

    /// An item came: whether it is the one that counts.
    pub(super) fn rings(&mut self, clock: u64) -> bool {
        let is_current = self.0 <= clock;
        if is_current {
            self.0 = NEVER;
        }
        is_current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Time;

    #[test]
    fn items_of_one_time_keep_their_order() {
        let mut agenda = Agenda::default();
        for (at, switch) in [(5, 0), (3, 1), (5, 2), (3, 3)] {
            agenda.put(at, Item::Connect(switch));
        }
        assert!(agenda.take(2).is_none());
        let mut order = Vec::new();
        while let Some(Item::Connect(switch)) = agenda.take(5) {
            order.push(switch);
        }
        assert_eq!(order, [1, 3, 0, 2]);
    }

    #[test]
    fn an_alarm_needs_an_item_only_for_earlier_times() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.set(0, Some(Time::from_ps(100))), Some(100));
        assert_eq!(alarm.set(0, Some(Time::from_ps(150))), None);
        assert_eq!(alarm.set(0, Some(Time::from_ps(50))), Some(50));
        assert_eq!(alarm.set(0, None), None);
        assert!(alarm.rings(50));
        assert!(!alarm.rings(100), "superseded");
        assert_eq!(alarm.set(200, Some(Time::from_ps(150))), Some(200), "what is overdue is due now");
    }
}
