//! Peers that present the datapath id of a switch, complete the handshake and answer everything.

use std::collections::BTreeMap;

use net::Time;
use openflow::{ConnectionId, Envelope, Message, ToController};
use switch::Switch;

use super::{Event, Input};
use crate::channel::Way;
use crate::mutants::Mutant;
use crate::report::Oracle;
use crate::simulation::{Event as SimulationEvent, Simulation};

const LATENCY: Time = Time::from_us(200);
/// Time until a refused impostor connects again.
const RETRY: Time = Time::from_ms(300);
/// Longest time for the echo reply of a switch after another peer has presented its datapath id, as
/// the controller has it, less the delays of slow switches.
const CHALLENGE: Time = Time::from_ms(500);

pub(super) type Impostors = BTreeMap<ConnectionId, Impostor>;

pub(super) struct Impostor {
    action: usize,
    /// The switch whose datapath id it presents.
    switch: usize,
    peer: Switch,
    since: Time,
}

impl Simulation {
    pub(super) fn connect_impostor(&mut self, action: usize, switch: usize) {
        let again = SimulationEvent::Disruption(Event::ImpostorConnects { action, switch });
        if self.controller.is_none() || self.disruptions.pause.is_paused() {
            return self.after(RETRY, again);
        }
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let mut peer = Switch::new(self.switches[switch].config.clone());
        peer.connected(self.now, connection);
        self.disruptions.impostors.insert(connection, Impostor { action, switch, peer, since: self.now });
        if !self.answers_since(switch, self.now) {
            self.disruptions.impersonated.insert(switch);
        }
        self.report.impostors += 1;
        self.tell_controller(Input::Channel(ToController::Connected(connection)));
        self.after_impostor(connection);
        self.after_controller();
    }

    fn after_impostor(&mut self, connection: ConnectionId) {
        let Some(impostor) = self.disruptions.impostors.get_mut(&connection) else { return };
        // Its frames go nowhere.
        let messages: Vec<Envelope> = std::iter::from_fn(|| impostor.peer.poll_output())
            .filter_map(|output| match output {
                switch::Output::Message(_, envelope) => Some(envelope),
                switch::Output::Frame(..) => None,
            })
            .collect();
        for envelope in messages {
            self.send_impostor(connection, Way::Up, envelope);
        }
    }

    fn send_impostor(&mut self, connection: ConnectionId, way: Way, envelope: Envelope) {
        let envelope = Box::new(envelope);
        self.after(LATENCY, SimulationEvent::Disruption(Event::Impostor { connection, way, envelope }));
    }

    /// Passes a message of the controller to an impostor, if the connection is one of an impostor.
    pub(crate) fn send_to_impostor(&mut self, connection: ConnectionId, envelope: Envelope) {
        let Some(impostor) = self.disruptions.impostors.get(&connection) else { return };
        let (switch, since) = (impostor.switch, impostor.since);
        self.trace(|_| format!("impostor of s{switch} > {}", control::format::envelope(&envelope)));
        self.check_impostor(switch, since, &envelope.message);
        self.send_impostor(connection, Way::Down, envelope);
    }

    /// Checks that no impostor of a switch that answers is used as that switch.
    fn check_impostor(&mut self, switch: usize, since: Time, message: &Message) {
        let is_use = matches!(message, Message::FlowMod(_) | Message::GroupMod(_) | Message::PacketOut(_));
        if is_use && self.answers_since(switch, since) {
            let words = control::format::message(message);
            self.fail(Oracle::Admission, || format!("an impostor of the connected switch s{switch} gets {words}"));
        }
    }

    /// Returns whether a switch was connected and ready before this time, and has answered in time
    /// since then. In a pause of the controller no handshake goes on.
    pub(crate) fn answers_since(&self, switch: usize, since: Time) -> bool {
        let state = &self.switches[switch];
        let channel = &state.channel;
        let latency = self.plan.switches[switch].latency;
        state.is_reached()
            && self.disruptions.pause.handled_at(channel.good_since) + self.bounds.handshake < since
            && channel.slow_until + CHALLENGE < since
            && latency * 4 < CHALLENGE
    }

    pub(super) fn impostor_message(&mut self, connection: ConnectionId, way: Way, envelope: Envelope) {
        let Some(impostor) = self.disruptions.impostors.get_mut(&connection) else { return };
        if way == Way::Down {
            impostor.peer.handle(self.now, connection, envelope);
            return self.after_impostor(connection);
        }
        let (switch, is_identified) = (impostor.switch, matches!(envelope.message, Message::FeaturesReply(_)));
        self.trace(|_| format!("impostor of s{switch} < {}", control::format::envelope(&envelope)));
        let real = self.switches[switch].channel.connection;
        if let Some(real) = real.filter(|_| is_identified && self.injector.mutant == Some(Mutant::AdmitsNewcomers)) {
            self.tell_controller(Input::Channel(ToController::Disconnected(real)));
        }
        self.tell_controller(Input::Channel(ToController::Message(connection, envelope)));
        self.after_controller();
    }

    /// Handles that the controller closes a connection. Returns whether it is one of an impostor.
    pub(crate) fn closes_impostor(&mut self, connection: ConnectionId) -> bool {
        let Some(impostor) = self.disruptions.impostors.remove(&connection) else { return false };
        let Impostor { action, switch, .. } = impostor;
        self.after(RETRY, SimulationEvent::Disruption(Event::ImpostorConnects { action, switch }));
        true
    }

    pub(super) fn end_impostor(&mut self, action: usize, switch: usize) {
        let is_its = |(_, impostor): &(&ConnectionId, &Impostor)| impostor.action == action;
        let connections: Vec<ConnectionId> =
            self.disruptions.impostors.iter().filter(is_its).map(|(connection, _)| *connection).collect();
        for connection in connections {
            self.disruptions.impostors.remove(&connection);
            self.tell_controller(Input::Channel(ToController::Disconnected(connection)));
        }
        if !self.answers_since(switch, self.now) {
            // It may have been admitted: the switch is used again when it has reconnected.
            let lasts = Time::from_s(2) + self.bounds.hidden + self.bounds.handshake + self.bounds.host;
            self.mark_disturbed(switch, lasts + self.bounds.react);
        }
        if self.switches[switch].is_reached() {
            self.restore_identity(switch);
        }
        self.after_controller();
    }

    /// Handles that a switch is connected: the controller compares its rules with the desired ones,
    /// unless an impostor keeps it out.
    pub(crate) fn restore_identity(&mut self, switch: usize) {
        let is_free = !self.disruptions.impostors.values().any(|impostor| impostor.switch == switch);
        if is_free && self.disruptions.impersonated.remove(&switch) {
            let lasts = self.bounds.silence + self.bounds.handshake + self.bounds.react;
            self.disruptions.loops_until = self.disruptions.loops_until.max(self.now + lasts);
        }
    }

    /// Ends the connections of all impostors to a controller that ends.
    pub(crate) fn forget_impostors(&mut self) {
        for (_, impostor) in std::mem::take(&mut self.disruptions.impostors) {
            let Impostor { action, switch, .. } = impostor;
            self.after(RETRY, SimulationEvent::Disruption(Event::ImpostorConnects { action, switch }));
        }
    }
}
