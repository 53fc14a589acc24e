//! Control channels: first in, first out during a connection, with delay, stalls and connection
//! loss. A lost connection loses all messages that have not arrived.

use std::collections::{BTreeSet, VecDeque};

use control::{Controller, Output};
use net::Time;
use openflow::{ConnectionId, Envelope, FromController, Message, ToController};

use crate::disruptions::Input;
use crate::simulation::{Event, Simulation};

/// Delay of a message above which a channel counts as slow.
const SLOW: Time = Time::from_ms(300);

/// The direction of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Down,
    Up,
}

/// Messages in one direction with their arrival times.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) waiting: VecDeque<(Time, Envelope)>,
    /// The time at which the last one has been processed.
    free: Time,
}

#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) connection: Option<ConnectionId>,
    /// The last connection whose loss the switch has not noticed.
    pub(crate) switch_side: Option<ConnectionId>,
    /// Number of connections so far, which identifies events of earlier ones.
    pub(crate) generation: u32,
    /// Messages in flight, by [`Way`].
    pub(crate) queues: [Queue; 2],
    pub(crate) stalls: u32,
    pub(crate) breaks: u32,
    pub(crate) per_change: Time,
    /// The time since which the channel is open and not stalled.
    pub(crate) good_since: Time,
    /// The last time at which a message was queued for long.
    pub(crate) slow_until: Time,
}

impl Channel {
    pub(crate) fn is_good(&self) -> bool {
        self.connection.is_some() && self.stalls == 0
    }
}

pub(crate) fn is_change(message: &Message) -> bool {
    matches!(message, Message::FlowMod(_) | Message::GroupMod(_))
}

impl Simulation {
    pub(crate) fn connect(&mut self, switch: usize, generation: u32) {
        let state = &mut self.switches[switch];
        let channel = &mut state.channel;
        if channel.generation != generation || channel.connection.is_some() || !state.is_on || channel.breaks > 0 {
            return;
        }
        if self.controller.is_none() {
            return self.after(Time::from_ms(200), Event::Connect { switch, generation });
        }
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(connection, switch);
        channel.generation += 1;
        channel.connection = Some(connection);
        channel.good_since = self.now;
        channel.queues.iter_mut().for_each(|queue| queue.free = self.now);
        let before = channel.switch_side.replace(connection);
        // A switch that opens a connection abandons the previous one.
        if let Some(before) = before {
            state.switch.disconnected(self.now, before);
        }
        state.switch.connected(self.now, connection);
        self.oracles.messages.used.insert(connection, BTreeSet::new());
        // Links that failed undetected in the meantime get their full confirmation time from now
        // on.
        for (cable, _) in self.switches[switch].plugs.clone().into_iter().flatten() {
            if !self.cables[cable].is_usable() {
                self.disturb_cable(cable, self.bounds.hidden + self.bounds.react);
            }
        }
        // The controller has not heard hosts that sent while the switch was disconnected.
        self.mark_disturbed(switch, self.bounds.handshake + self.bounds.host + self.bounds.react);
        self.restore_identity(switch);
        self.tell_controller(Input::Channel(ToController::Connected(connection)));
        self.after_switch(switch, None);
        self.after_controller();
        self.rival_connects(switch);
    }

    /// Marks a switch as disturbed: its control was interrupted or restored, and repair takes this
    /// long.
    pub(crate) fn mark_disturbed(&mut self, switch: usize, lasts: Time) {
        let until = self.now + lasts;
        self.switches[switch].disturbed = self.switches[switch].disturbed.max(until);
        self.disturb_all(until);
    }

    /// Closes the connection of a switch. Each side notices after its delay, and the switch
    /// reconnects then.
    pub(crate) fn lose_connection(&mut self, switch: usize, switch_notices: Time, controller_notices: Option<Time>) {
        let channel = &mut self.switches[switch].channel;
        let Some(connection) = channel.connection.take() else { return };
        channel.generation += 1;
        channel.queues.iter_mut().for_each(|queue| queue.waiting.clear());
        self.oracles.messages.used.remove(&connection);
        self.after(switch_notices, Event::SwitchNotices { switch, connection });
        if let Some(delay) = controller_notices {
            self.after(delay, Event::ControllerNotices { connection });
        }
        self.mark_disturbed(switch, self.bounds.silence + self.bounds.react);
    }

    pub(crate) fn switch_notices(&mut self, switch: usize, connection: ConnectionId) {
        let state = &mut self.switches[switch];
        if state.channel.switch_side == Some(connection) && state.is_on {
            state.channel.switch_side = None;
            state.switch.disconnected(self.now, connection);
            self.after_switch(switch, None);
        }
        let generation = self.switches[switch].channel.generation;
        self.after(Time::from_ms(100), Event::Connect { switch, generation });
    }

    pub(crate) fn controller_notices(&mut self, connection: ConnectionId) {
        if self.controller.is_some() && self.connections.remove(&connection).is_some() {
            self.tell_controller(Input::Channel(ToController::Disconnected(connection)));
            self.after_controller();
        }
    }

    fn send_down(&mut self, connection: ConnectionId, envelope: Envelope) {
        self.report.messages_down += 1;
        if is_change(&envelope.message) {
            self.report.changes += 1;
        }
        let Some(switch) = self.connections.get(&connection).copied() else {
            return self.send_to_impostor(connection, envelope);
        };
        let envelope = Envelope { xid: self.mutate_xid(envelope.xid), ..envelope };
        self.trace_message(">", switch, &envelope);
        self.check_down(switch, connection, &envelope);
        if let Message::FlowMod(rule) = &envelope.message {
            self.observe_pick(rule);
        }
        if self.switches[switch].channel.connection != Some(connection) {
            return; // The connection is already closed.
        }
        for (delay, envelope) in self.mutate_down(switch, envelope) {
            if delay > Time::ZERO {
                self.after(delay, Event::Injected { switch, envelope: Box::new(envelope) });
            } else {
                self.queue(switch, Way::Down, envelope);
            }
        }
    }

    /// Traces a message, apart from echo requests and replies.
    fn trace_message(&mut self, arrow: &str, switch: usize, envelope: &Envelope) {
        let is_background = matches!(envelope.message, Message::EchoRequest(_) | Message::EchoReply(_));
        if !is_background {
            self.trace(|_| format!("s{switch} {arrow} {}", control::format::envelope(envelope)));
        }
    }

    fn queue(&mut self, switch: usize, way: Way, envelope: Envelope) {
        let traits = &self.plan.switches[switch];
        let channel = &mut self.switches[switch].channel;
        let has_work = way == Way::Down && is_change(&envelope.message);
        let work = if has_work { traits.per_change.max(channel.per_change) } else { Time::ZERO };
        let queue = &mut channel.queues[way as usize];
        queue.free = (self.now + traits.latency).max(queue.free) + traits.per_message + work;
        let (at, generation) = (queue.free, channel.generation);
        if at > self.now + SLOW {
            channel.slow_until = channel.slow_until.max(at);
        }
        queue.waiting.push_back((at, envelope));
        self.schedule(at, Event::Deliver { switch, generation, way });
    }

    fn send_up(&mut self, switch: usize, connection: ConnectionId, envelope: Envelope) {
        if self.switches[switch].channel.connection != Some(connection) {
            // A reply to another controller, or the connection is closed.
            return self.send_to_rival(connection, envelope);
        }
        self.trace_message("<", switch, &envelope);
        self.check_up(switch, connection, &envelope);
        self.report.messages_up += 1;
        for envelope in self.mutate_up(switch, envelope) {
            self.queue(switch, Way::Up, envelope);
        }
    }

    /// Delivers the head of a queue if it is due.
    pub(crate) fn deliver(&mut self, switch: usize, generation: u32, way: Way) {
        let channel = &mut self.switches[switch].channel;
        if channel.generation != generation || channel.stalls > 0 {
            return; // `unstall` reschedules the event.
        }
        let waiting = &mut channel.queues[way as usize].waiting;
        let (Some(connection), Some((at, _))) = (channel.connection, waiting.front()) else { return };
        if *at > self.now {
            return;
        }
        let (_, envelope) = waiting.pop_front().expect("checked above");
        if way == Way::Down {
            return self.switch_handles(switch, connection, envelope);
        }
        self.tell_controller(Input::Channel(ToController::Message(connection, envelope)));
        self.after_controller();
    }

    /// Resumes a channel after a stall: messages that became due arrive now, in order.
    pub(crate) fn unstall(&mut self, switch: usize) {
        let channel = &mut self.switches[switch].channel;
        channel.good_since = self.now;
        let generation = channel.generation;
        for (way, count) in [Way::Down, Way::Up].map(|way| (way, channel.queues[way as usize].waiting.len())) {
            (0..count).for_each(|_| self.schedule(self.now, Event::Deliver { switch, generation, way }));
        }
    }

    pub(crate) fn after_controller(&mut self) {
        if self.disruptions.pause.is_paused() {
            return;
        }
        let mut count = 0;
        while let Some(output) = self.controller.as_mut().and_then(Controller::poll_output) {
            count += 1;
            match output {
                Output::Channel(FromController::Message(connection, envelope)) => self.send_down(connection, envelope),
                Output::Channel(FromController::Close(connection)) => self.controller_closes(connection),
                Output::Agents(order) => self.after(self.plan.agent_latency, Event::AgentCommand(order)),
                Output::Event(event) => {
                    self.trace(|_| format!("controller: {event:?}"));
                    self.record_event(&event);
                }
            }
            if self.check_burst(count) {
                return;
            }
        }
        let Some(next) = self.controller.as_ref().and_then(Controller::poll_timeout) else { return };
        let next = self.mutate_timer(self.time_of_controller(next));
        if next < self.controller_timer {
            self.controller_timer = next;
            self.schedule(next, Event::ControllerTimer);
        }
    }

    fn controller_closes(&mut self, connection: ConnectionId) {
        if self.closes_impostor(connection) {
            return;
        }
        let Some(switch) = self.connections.remove(&connection) else { return };
        self.check_closed(switch, connection);
        if self.switches[switch].channel.connection == Some(connection) {
            let latency = self.plan.switches[switch].latency;
            self.lose_connection(switch, latency, None);
        }
    }

    /// Processes a switch's outputs. Frames are copies of `parent`, if given, or new.
    pub(crate) fn after_switch(&mut self, switch: usize, parent: Option<crate::simulation::Frame>) {
        let mut parent = parent;
        let hops = parent.as_ref().map_or(0, |parent| parent.hops + 1);
        let had_probe = parent.as_ref().is_some_and(|parent| parent.probe.is_some());
        let mut copies = 0;
        while let Some(output) = self.switches[switch].switch.poll_output() {
            match output {
                switch::Output::Message(connection, envelope) => self.send_up(switch, connection, envelope),
                switch::Output::Frame(port, bytes) => {
                    copies += 1;
                    let probe = parent.as_mut().and_then(|parent| parent.probe.take());
                    self.emit(switch, port, crate::simulation::Frame { bytes, probe, hops });
                }
            }
        }
        if let Some(parent) = parent {
            self.check_forwarded(switch, parent, had_probe, copies);
        }
        let state = &mut self.switches[switch];
        let next = state.switch.poll_timeout().unwrap_or(Time::MAX);
        if next < state.timer {
            state.timer = next;
            self.schedule(next, Event::SwitchTimer { switch });
        }
    }
}
