//! A second controller instance with the same owner, as after a mistaken start of another daemon.

use std::collections::BTreeMap;

use control::{Controller, Output};
use net::Time;
use openflow::{ConnectionId, Envelope, FromController, ToController};

use super::Event;
use crate::channel::Way;
use crate::report::Oracle;
use crate::simulation::{Event as SimulationEvent, Simulation, datapath_of};

/// Number added to the incarnation for the key of a rival.
const RIVALS: u32 = 1 << 16;
/// Time after the end of a rival until the first instance is restarted.
const RESTART: Time = Time::from_ms(500);

pub(super) struct Rival {
    controller: Controller,
    connections: BTreeMap<ConnectionId, usize>,
    timer: Time,
    since: Time,
}

impl Simulation {
    pub(super) fn begin_rival(&mut self) {
        if self.controller.is_none() || self.disruptions.rival.is_some() {
            return;
        }
        let controller = self.new_controller(self.incarnation + RIVALS);
        let connections = BTreeMap::new();
        self.disruptions.rival = Some(Rival { controller, connections, timer: Time::MAX, since: self.now });
        self.report.rivals += 1;
        (0..self.switches.len()).for_each(|switch| self.rival_connects(switch));
        self.disturb_by_rival();
        self.after_rival();
    }

    /// Connects a switch that is reached to the rival, if it is not.
    pub(crate) fn rival_connects(&mut self, switch: usize) {
        let Some(rival) = &mut self.disruptions.rival else { return };
        if !self.switches[switch].is_reached() || rival.connections.values().any(|at| *at == switch) {
            return;
        }
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        rival.connections.insert(connection, switch);
        rival.controller.handle(self.now, ToController::Connected(connection));
        self.switches[switch].switch.connected(self.now, connection);
        self.after_switch(switch, None);
        self.after_rival();
    }

    /// Exempts what a second instance and the change to it cause.
    fn disturb_by_rival(&mut self) {
        let bounds = &self.bounds;
        let lasts = bounds.silence + bounds.hidden + bounds.handshake + bounds.host + bounds.react;
        (0..self.switches.len()).for_each(|switch| {
            self.services.off.insert(switch, self.now);
            self.mark_disturbed(switch, lasts);
        });
        self.services.restarted = Some(self.now);
        self.allow_anything_until(self.now + lasts + self.bounds.checked);
    }

    fn after_rival(&mut self) {
        let now = self.now;
        while let Some(output) = self.disruptions.rival.as_mut().and_then(|rival| rival.controller.poll_output()) {
            match output {
                Output::Channel(FromController::Message(connection, envelope)) => {
                    self.send_rival(connection, Way::Down, envelope);
                }
                Output::Channel(FromController::Close(connection)) => self.close_rival(connection),
                Output::Agents(_) | Output::Event(_) => {}
            }
        }
        let Some(rival) = &mut self.disruptions.rival else { return };
        if let Some(next) = rival.controller.poll_timeout().filter(|next| *next < rival.timer) {
            rival.timer = next.max(now);
            self.schedule(next, SimulationEvent::Disruption(Event::RivalTimer));
        }
    }

    fn close_rival(&mut self, connection: ConnectionId) {
        let switch = self.disruptions.rival.as_mut().and_then(|rival| rival.connections.remove(&connection));
        if let Some(switch) = switch {
            self.switches[switch].switch.disconnected(self.now, connection);
        }
    }

    fn send_rival(&mut self, connection: ConnectionId, way: Way, envelope: Envelope) {
        let Some(switch) = self.rival_switch(connection) else { return };
        let traits = &self.plan.switches[switch];
        let delay = traits.latency + traits.per_message;
        let envelope = Box::new(envelope);
        self.after(delay, SimulationEvent::Disruption(Event::Rival { connection, way, envelope }));
    }

    fn rival_switch(&self, connection: ConnectionId) -> Option<usize> {
        self.disruptions.rival.as_ref()?.connections.get(&connection).copied()
    }

    /// Passes a message of a switch to the rival, if the connection is the rival's.
    pub(crate) fn send_to_rival(&mut self, connection: ConnectionId, envelope: Envelope) {
        self.send_rival(connection, Way::Up, envelope);
    }

    pub(super) fn rival_message(&mut self, connection: ConnectionId, way: Way, envelope: Envelope) {
        let Some(switch) = self.rival_switch(connection) else { return };
        let arrow = if way == Way::Down { ">" } else { "<" };
        self.trace(|_| format!("rival: s{switch} {arrow} {}", control::format::envelope(&envelope)));
        if way == Way::Down {
            self.switches[switch].switch.handle(self.now, connection, envelope);
            return self.after_switch(switch, None);
        }
        let now = self.now;
        let Some(rival) = &mut self.disruptions.rival else { return };
        rival.controller.handle(now, ToController::Message(connection, envelope));
        self.after_rival();
    }

    pub(super) fn rival_timer(&mut self) {
        let now = self.now;
        let Some(rival) = self.disruptions.rival.as_mut().filter(|rival| rival.timer <= now) else { return };
        rival.timer = Time::MAX;
        rival.controller.handle_timeout(now);
        self.after_rival();
    }

    /// Closes the rival's connection to a switch that loses power.
    pub(crate) fn rival_loses(&mut self, switch: usize) {
        let Some(rival) = &self.disruptions.rival else { return };
        let lost = rival.connections.iter().find(|(_, at)| **at == switch).map(|(connection, _)| *connection);
        let Some(connection) = lost else { return };
        self.close_rival(connection);
        let now = self.now;
        if let Some(rival) = &mut self.disruptions.rival {
            rival.controller.handle(now, ToController::Disconnected(connection));
            self.after_rival();
        }
    }

    pub(super) fn end_rival(&mut self) {
        let Some(rival) = self.disruptions.rival.take() else { return };
        for (connection, switch) in rival.connections {
            self.switches[switch].switch.disconnected(self.now, connection);
            self.after_switch(switch, None);
        }
        self.disturb_by_rival();
        if self.controller.is_some() {
            // The first instance does not fight for the switches that it has lost, and may not know
            // yet that it has: its operator restarts it.
            self.stop_controller();
            let starts = SimulationEvent::Disruption(Event::ControllerStarts);
            self.after(RESTART, starts);
            self.allow_anything_until(self.now + RESTART + self.bounds.silence);
        }
    }

    /// Checks that a switch does not accept changes of both instances: it has accepted one of the
    /// first instance.
    pub(crate) fn check_mastership(&mut self, switch: usize) {
        let Some(rival) = &self.disruptions.rival else { return };
        let is_connected = rival.connections.values().any(|at| *at == switch);
        // An instance that connects again may take over, which the other one notices at its next
        // discovery packet.
        let since = rival.since.max(self.switches[switch].channel.good_since);
        let is_early = self.now <= since + self.bounds.handshake + self.bounds.healed;
        let is_master = rival
            .controller
            .inspect()
            .switches()
            .any(|at| at.datapath == datapath_of(switch) && at.connection.is_some() && !at.is_slave);
        if is_connected && is_master && !is_early {
            self.fail(Oracle::Mastership, || format!("s{switch} accepts changes of two controller instances"));
        }
    }
}
