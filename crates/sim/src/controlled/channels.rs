//! Control channels: FIFO each way with delay and rate; they stall, break, and open again.

use std::collections::{BTreeMap, VecDeque};

use net::Bandwidth;
use openflow::{ConnectionId, Envelope, FromController, ToController, wire_len};

use super::agenda::Item;
use super::{Controlled, time};
use crate::faults::ControlFaults;

/// Which switch each connection belongs to.
#[derive(Debug, Default)]
pub(super) struct Connections {
    stations: BTreeMap<ConnectionId, u32>,
    opened: u32,
}

/// The channel of one switch.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) connection: Option<ConnectionId>,
    /// The controller has closed the connection; the switch does not know yet.
    is_closing: bool,
    /// When the last message to the switch, and from it, will have been sent.
    sent: [u64; 2],
    pub(super) faults: ControlFaults,
    /// What would have arrived while it was stalled.
    stalled: VecDeque<Item>,
}

const DOWN: usize = 0;
const UP: usize = 1;

impl Channel {
    /// When a message sent now arrives.
    fn carry(&mut self, way: usize, clock: u64, bytes: usize, rate: Bandwidth, latency: u64) -> u64 {
        let sent = &mut self.sent[way];
        *sent = clock.max(*sent) + rate.time_for(bytes as u64).as_ps();
        *sent + latency
    }

    fn is_usable(&self) -> bool {
        !self.faults.is_off && !self.faults.is_cut
    }
}

impl Controlled<'_> {
    /// A switch opens a connection, unless it has one or cannot.
    pub(super) fn connect(&mut self, clock: u64, ix: u32) {
        let channel = &mut self.stations[ix as usize].channel;
        if channel.connection.is_some() || !channel.is_usable() {
            return;
        }
        self.connections.opened += 1;
        let connection = ConnectionId(self.connections.opened);
        self.connections.stations.insert(connection, ix);
        let latency = if self.is_booting { 0 } else { self.config.latency.as_ps() };
        (channel.connection, channel.is_closing, channel.sent) = (Some(connection), false, [clock; 2]);
        self.agenda.put(clock + latency, Item::Connected(ix, connection));
        self.stations[ix as usize].switch.connected(time(clock), connection);
        self.drain_switch(clock, ix);
    }

    /// A connection breaks: both ends notice.
    fn break_connection(&mut self, clock: u64, ix: u32) {
        let station = &mut self.stations[ix as usize];
        let Some(connection) = station.channel.connection.take() else { return };
        self.connections.stations.remove(&connection);
        self.cost.messages_lost += station.channel.stalled.len() as u64;
        station.channel.stalled.clear();
        let is_known = !station.channel.is_closing;
        if !station.channel.faults.is_off {
            station.switch.disconnected(time(clock), connection);
            self.drain_switch(clock, ix);
        }
        if is_known {
            self.plane.handle(time(clock), ToController::Disconnected(connection));
            self.drain_plane(clock);
        }
    }

    /// A switch says something to the controller.
    pub(super) fn send_up(&mut self, clock: u64, ix: u32, connection: ConnectionId, envelope: Envelope) {
        let bytes = wire_len(&envelope.message);
        self.cost.note_message(self.is_booting, false, &envelope.message, bytes, clock - self.boot_time.min(clock));
        let at = self.arrival(clock, ix, UP, bytes);
        self.agenda.put(at, Item::ToController(ix, connection, envelope));
    }

    /// The controller says something.
    pub(super) fn obey_controller(&mut self, clock: u64, wanted: FromController) {
        match wanted {
            FromController::Message(connection, envelope) => {
                let Some(ix) = self.open_to_controller(connection) else {
                    self.cost.messages_lost += 1;
                    return;
                };
                let bytes = wire_len(&envelope.message);
                let since = clock - self.boot_time.min(clock);
                self.cost.note_message(self.is_booting, true, &envelope.message, bytes, since);
                let at = self.arrival(clock, ix, DOWN, bytes);
                self.agenda.put(at, Item::ToSwitch(ix, connection, envelope));
            }
            FromController::Close(connection) => {
                let Some(ix) = self.open_to_controller(connection) else { return };
                self.stations[ix as usize].channel.is_closing = true;
                let at = self.arrival(clock, ix, DOWN, 0);
                self.agenda.put(at, Item::Closed(ix, connection));
            }
        }
    }

    fn arrival(&mut self, clock: u64, ix: u32, way: usize, bytes: usize) -> u64 {
        if self.is_booting {
            return clock;
        }
        let (rate, latency) = (self.config.bandwidth, self.config.latency.as_ps());
        self.stations[ix as usize].channel.carry(way, clock, bytes, rate, latency)
    }

    /// The switch of a connection that the controller has not closed.
    fn open_to_controller(&self, connection: ConnectionId) -> Option<u32> {
        let ix = *self.connections.stations.get(&connection)?;
        (!self.stations[ix as usize].channel.is_closing).then_some(ix)
    }

    /// The controller learns of a new connection.
    pub(super) fn deliver_connected(&mut self, clock: u64, ix: u32, connection: ConnectionId) {
        if self.is_held(ix, || Item::Connected(ix, connection)) || self.open_to_controller(connection).is_none() {
            return;
        }
        self.plane.handle(time(clock), ToController::Connected(connection));
        self.drain_plane(clock);
    }

    /// A message reaches the controller.
    pub(super) fn deliver_up(&mut self, clock: u64, ix: u32, connection: ConnectionId, envelope: Envelope) {
        if self.open_to_controller(connection).is_none() {
            self.cost.messages_lost += 1;
            return;
        }
        if self.stations[ix as usize].channel.faults.is_stalled {
            let late = Item::ToController(ix, connection, envelope);
            return self.stations[ix as usize].channel.stalled.push_back(late);
        }
        self.plane.handle(time(clock), ToController::Message(connection, envelope));
        self.drain_plane(clock);
    }

    /// A message reaches a switch.
    pub(super) fn deliver_down(&mut self, clock: u64, ix: u32, connection: ConnectionId, envelope: Envelope) {
        let station = &mut self.stations[ix as usize];
        if station.channel.connection != Some(connection) {
            self.cost.messages_lost += 1;
            return;
        }
        if station.channel.faults.is_stalled {
            return station.channel.stalled.push_back(Item::ToSwitch(ix, connection, envelope));
        }
        station.switch.handle(time(clock), connection, envelope);
        self.drain_switch(clock, ix);
    }

    /// A switch learns that its connection was closed; it tries again later.
    pub(super) fn deliver_closed(&mut self, clock: u64, ix: u32, connection: ConnectionId) {
        if self.is_held(ix, || Item::Closed(ix, connection)) {
            return;
        }
        let station = &mut self.stations[ix as usize];
        if station.channel.connection != Some(connection) {
            return;
        }
        station.channel.connection = None;
        self.connections.stations.remove(&connection);
        station.switch.disconnected(time(clock), connection);
        self.drain_switch(clock, ix);
        self.agenda.put(clock + self.config.reconnect_after.as_ps().max(1), Item::Connect(ix));
    }

    /// Whether a channel is stalled and keeps an item until it is not.
    fn is_held(&mut self, ix: u32, item: impl FnOnce() -> Item) -> bool {
        let channel = &mut self.stations[ix as usize].channel;
        if channel.faults.is_stalled {
            channel.stalled.push_back(item());
        }
        channel.faults.is_stalled
    }

    /// Failures of switches, channels or the controller have begun or ended.
    pub(crate) fn look_again(&mut self, now: u64, faults: &[ControlFaults], is_plane_down: bool) {
        let clock = self.clock(now);
        let mut usable = Vec::new();
        for (ix, after) in (0u32..).zip(faults) {
            let before = std::mem::replace(&mut self.stations[ix as usize].channel.faults, *after);
            match (before.is_off, after.is_off) {
                (false, true) => self.switch_off(clock, ix),
                (true, false) => self.switch_on(clock, ix),
                _ => {}
            }
            if after.is_off || after.is_cut {
                self.break_connection(clock, ix);
            } else if before.is_off || before.is_cut {
                usable.push(ix);
            }
            if before.is_stalled && !after.is_stalled {
                let late = std::mem::take(&mut self.stations[ix as usize].channel.stalled);
                late.into_iter().for_each(|item| self.agenda.put(clock, item));
            }
        }
        // Told of the loss of its connections, and then nothing more.
        self.is_plane_down = is_plane_down;
        usable.into_iter().for_each(|ix| self.connect(clock, ix));
        self.drain_plane(clock);
    }
}
