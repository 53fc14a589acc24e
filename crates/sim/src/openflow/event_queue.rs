//! Events of the control plane, ordered by time, and at one time by the order in which they were
//! scheduled.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use balance::central::{AgentCommand, AgentReport};
use balance::server::ServerStats;
use core::net::Ipv4Addr;
use openflow::{ConnectionId, Envelope};

use crate::flows::NEVER;

/// Event of the control plane.
#[derive(Clone, Debug)]
pub(super) enum ControlEvent {
    /// The controller is notified that a switch has connected.
    Connected(u32, ConnectionId),
    /// A message reaches the controller.
    ToController(u32, ConnectionId, Envelope),
    /// A message reaches a switch.
    ToSwitch(u32, ConnectionId, Envelope),
    /// A switch notices that the controller has closed its connection.
    Closed(u32, ConnectionId),
    /// A switch connects, if it can.
    Connect(u32),
    /// A report of an agent reaches the controller.
    Report(AgentReport),
    /// A report of an agent on a server reaches the controller.
    Member(Ipv4Addr, ServerStats),
    /// A command reaches agents.
    Command(AgentCommand),
    /// The timer of a switch expires.
    SwitchTimer(u32),
    /// The timer of the controller expires.
    PlaneTimer,
    /// While booting: a frame reaches the far end of a link.
    Frame(u32, Vec<u8>),
}

#[derive(Debug)]
struct Due {
    at: u64,
    serial: u64,
    event: ControlEvent,
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

/// Queue of pending events.
#[derive(Debug, Default)]
pub(super) struct ControlEventQueue {
    heap: BinaryHeap<Reverse<Due>>,
    serial: u64,
    /// Time of the earliest pending engine event that checks this queue.
    awaited: Option<u64>,
    /// Time of the last event taken, and the number of events taken at that time.
    taken: (u64, u64),
}

/// Events of one moment above which the control plane counts as livelocked.
const MAX_EVENTS_AT_ONCE: u64 = 50_000_000;

impl ControlEventQueue {
    pub(super) fn put(&mut self, at: u64, event: ControlEvent) {
        self.serial += 1;
        self.heap.push(Reverse(Due { at, serial: self.serial, event }));
    }

    /// Returns when the next event is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(due)| due.at)
    }

    /// Takes an event due by `clock`.
    pub(super) fn take(&mut self, clock: u64) -> Option<ControlEvent> {
        if self.next()? > clock {
            return None;
        }
        self.taken = if self.taken.0 == clock { (clock, self.taken.1 + 1) } else { (clock, 1) };
        self.heap.pop().map(|Reverse(due)| due.event)
    }

    /// Returns whether the number of events at one moment shows that they will not end.
    pub(super) fn is_livelocked(&self) -> bool {
        self.taken.1 > MAX_EVENTS_AT_ONCE
    }

    /// Returns the time for which an engine event is needed, unless one is pending in time.
    pub(super) fn needed_event(&mut self) -> Option<u64> {
        let at = self.next()?;
        if self.awaited.is_some_and(|awaited| awaited <= at) {
            return None;
        }
        self.awaited = Some(at);
        Some(at)
    }

    /// Handles an engine event at `clock`.
    pub(super) fn on_engine_event(&mut self, clock: u64) {
        // An event that an earlier one superseded must not change the order of the others.
        if self.awaited.is_some_and(|awaited| awaited <= clock) {
            self.awaited = None;
        }
    }
}

/// Timer of a state machine that returns its next wake-up time: at most one pending event is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeTimer(u64);

impl Default for WakeTimer {
    fn default() -> WakeTimer {
        WakeTimer(NEVER)
    }
}

impl WakeTimer {
    /// Sets the wake-up time to `at`. Returns the time of the event that is needed for it, if one
    /// is.
    pub(super) fn set(&mut self, clock: u64, at: Option<net::Time>) -> Option<u64> {
        let at = at?.as_ps().max(clock);
        if at >= self.0 {
            return None;
        }
        self.0 = at;
        Some(at)
    }

    /// Returns whether the event at `clock` is the valid one.
    pub(super) fn is_valid(&mut self, clock: u64) -> bool {
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

    #[test]
    fn wake_timer_needs_event_only_for_earlier_time() {
        let mut timer = WakeTimer::default();
        assert_eq!(timer.set(0, Some(Time::from_ps(100))), Some(100));
        assert_eq!(timer.set(0, Some(Time::from_ps(150))), None);
        assert_eq!(timer.set(0, Some(Time::from_ps(50))), Some(50));
        assert_eq!(timer.set(0, None), None);
        assert!(timer.is_valid(50));
        assert!(!timer.is_valid(100), "superseded");
        assert_eq!(timer.set(200, Some(Time::from_ps(150))), Some(200), "an overdue time is due now");
    }
}
