//! Control channels: FIFO in each direction with delay and rate. They can stall, break and reopen.

use std::collections::{BTreeMap, VecDeque};

use openflow::{ConnectionId, Envelope, FromController, ToController, wire_len};

use super::event_queue::ControlEvent;
use super::{Controlled, time};
use crate::links::faults::ControlFaults;

#[derive(Debug, Default)]
pub(super) struct Connections {
    switches: BTreeMap<ConnectionId, u32>,
    opened: u32,
}

#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) connection: Option<ConnectionId>,
    /// Whether the controller has closed the connection and the switch has not noticed yet.
    is_closing: bool,
    /// Times at which the last message to the switch and the last one from it have been sent.
    sent: [u64; 2],
    pub(super) faults: ControlFaults,
    stalled: VecDeque<ControlEvent>,
}

const DOWN: usize = 0;
const UP: usize = 1;

impl Controlled<'_> {
    pub(super) fn connect(&mut self, clock: u64, ix: u32) {
        let channel = &mut self.switches[ix as usize].channel;
        if channel.connection.is_some() || channel.faults.is_off || channel.faults.is_cut {
            return;
        }
        self.connections.opened += 1;
        let connection = ConnectionId(self.connections.opened);
        self.connections.switches.insert(connection, ix);
        let latency = if self.is_booting { 0 } else { self.config.latency.as_ps() };
        (channel.connection, channel.is_closing, channel.sent) = (Some(connection), false, [clock; 2]);
        self.events.put(clock + latency, ControlEvent::Connected(ix, connection));
        self.settled(ix).switch.connected(time(clock), connection);
        self.drain_switch(clock, ix);
    }

    fn break_connection(&mut self, clock: u64, ix: u32) {
        let station = &mut self.switches[ix as usize];
        let Some(connection) = station.channel.connection.take() else { return };
        self.connections.switches.remove(&connection);
        self.cost.record.messages_lost += station.channel.stalled.len() as u64;
        station.channel.stalled.clear();
        let is_known = !station.channel.is_closing;
        if !station.channel.faults.is_off {
            self.settled(ix).switch.disconnected(time(clock), connection);
            self.drain_switch(clock, ix);
        }
        if is_known {
            self.plane.handle(time(clock), ToController::Disconnected(connection));
            self.drain_plane(clock);
        }
    }

    pub(super) fn send_up(&mut self, clock: u64, ix: u32, connection: ConnectionId, envelope: Envelope) {
        let bytes = wire_len(&envelope.message);
        self.cost.note_message(self.is_booting, false, &envelope.message, bytes, clock - self.boot_time.min(clock));
        let at = self.arrival(clock, ix, UP, bytes);
        self.events.put(at, ControlEvent::ToController(ix, connection, envelope));
    }

    pub(super) fn apply_plane_output(&mut self, clock: u64, output: FromController) {
        match output {
            FromController::Message(connection, envelope) => {
                let Some(ix) = self.open_to_controller(connection) else {
                    self.cost.record.messages_lost += 1;
                    return;
                };
                let bytes = wire_len(&envelope.message);
                let since = clock - self.boot_time.min(clock);
                self.cost.note_message(self.is_booting, true, &envelope.message, bytes, since);
                if self.is_booting {
                    // A large network gets millions of messages, which would all wait.
                    self.deliver_down(clock, ix, connection, envelope);
                    return self.deliver_at_once(clock);
                }
                let at = self.arrival(clock, ix, DOWN, bytes);
                self.events.put(at, ControlEvent::ToSwitch(ix, connection, envelope));
            }
            FromController::Close(connection) => {
                let Some(ix) = self.open_to_controller(connection) else { return };
                self.switches[ix as usize].channel.is_closing = true;
                let at = self.arrival(clock, ix, DOWN, 0);
                self.events.put(at, ControlEvent::Closed(ix, connection));
            }
        }
    }

    fn arrival(&mut self, clock: u64, ix: u32, direction: usize, bytes: usize) -> u64 {
        if self.is_booting {
            return clock;
        }
        let sent = &mut self.switches[ix as usize].channel.sent[direction];
        *sent = clock.max(*sent) + self.config.bandwidth.time_for(bytes as u64).as_ps();
        *sent + self.config.latency.as_ps()
    }

    /// Returns the switch of a connection that the controller has not closed.
    fn open_to_controller(&self, connection: ConnectionId) -> Option<u32> {
        let ix = *self.connections.switches.get(&connection)?;
        (!self.switches[ix as usize].channel.is_closing).then_some(ix)
    }

    pub(super) fn deliver_connected(&mut self, clock: u64, ix: u32, connection: ConnectionId) {
        let is_held = self.is_held(ix, || ControlEvent::Connected(ix, connection));
        if !is_held && self.open_to_controller(connection).is_some() {
            self.plane.handle(time(clock), ToController::Connected(connection));
            self.drain_plane(clock);
        }
    }

    pub(super) fn deliver_up(&mut self, clock: u64, ix: u32, connection: ConnectionId, envelope: Envelope) {
        if self.open_to_controller(connection).is_none() {
            self.cost.record.messages_lost += 1;
            return;
        }
        if self.switches[ix as usize].channel.faults.is_stalled {
            let late = ControlEvent::ToController(ix, connection, envelope);
            return self.switches[ix as usize].channel.stalled.push_back(late);
        }
        self.plane.handle(time(clock), ToController::Message(connection, envelope));
        self.drain_plane(clock);
    }

    pub(super) fn deliver_down(&mut self, clock: u64, ix: u32, connection: ConnectionId, envelope: Envelope) {
        let station = &mut self.switches[ix as usize];
        if station.channel.connection != Some(connection) {
            self.cost.record.messages_lost += 1;
            return;
        }
        if station.channel.faults.is_stalled {
            return station.channel.stalled.push_back(ControlEvent::ToSwitch(ix, connection, envelope));
        }
        self.settled(ix).switch.handle(time(clock), connection, envelope);
        self.drain_switch(clock, ix);
    }

    /// Notifies a switch that its connection was closed; it reconnects later.
    pub(super) fn deliver_closed(&mut self, clock: u64, ix: u32, connection: ConnectionId) {
        if self.is_held(ix, || ControlEvent::Closed(ix, connection)) {
            return;
        }
        let station = &mut self.switches[ix as usize];
        if station.channel.connection != Some(connection) {
            return;
        }
        station.channel.connection = None;
        self.connections.switches.remove(&connection);
        self.settled(ix).switch.disconnected(time(clock), connection);
        self.drain_switch(clock, ix);
        self.events.put(clock + self.config.reconnect_after.as_ps().max(1), ControlEvent::Connect(ix));
    }

    /// Returns whether a channel is stalled; an event is then held back until the stall ends.
    fn is_held(&mut self, ix: u32, event: impl FnOnce() -> ControlEvent) -> bool {
        let channel = &mut self.switches[ix as usize].channel;
        if channel.faults.is_stalled {
            channel.stalled.push_back(event());
        }
        channel.faults.is_stalled
    }

    pub(crate) fn apply_faults(&mut self, now: u64, faults: &[ControlFaults], is_plane_down: bool) {
        let clock = self.clock(now);
        let mut usable = Vec::new();
        for (ix, after) in (0u32..).zip(faults) {
            let before = std::mem::replace(&mut self.switches[ix as usize].channel.faults, *after);
            match (before.is_off, after.is_off) {
                (false, true) => self.cost.note_loss(clock, ix, &self.switches[ix as usize].switch.tally()),
                (true, false) => self.switch_on(clock, ix),
                _ => {}
            }
            if after.is_off || after.is_cut {
                self.break_connection(clock, ix);
            } else if before.is_off || before.is_cut {
                usable.push(ix);
            }
            if before.is_stalled && !after.is_stalled {
                let late = std::mem::take(&mut self.switches[ix as usize].channel.stalled);
                late.into_iter().for_each(|event| self.events.put(clock, event));
            }
        }
        // The controller is notified of the loss of its connections, and then of nothing more.
        self.is_plane_down = is_plane_down;
        usable.into_iter().for_each(|ix| self.connect(clock, ix));
        self.drain_plane(clock);
    }
}
