//! Control channels: the sessions of all switches, and the messages to them.
//!
//! Every other part sends through [`Channels`], so that the messages of one connection have one
//! order.

pub(crate) mod close_reason;
pub(crate) mod role;
pub(crate) mod sent;
pub(crate) mod session;

use std::collections::{BTreeMap, VecDeque};

use net::Time;
use openflow::{
    Action, BufferId, ConnectionId, DatapathId, Envelope, FlowMod, FlowModCommand, FlowStats, FromController,
    GroupDescription, Instructions, Match, Message, PacketOut, PortDesc, PortNo, TableId, Xid,
};

use crate::{Config, ControllerStats, EcmpHashing, Event, Output, SwitchPort};
use close_reason::CloseReason;
use role::RoleElection;
use session::{Session, SessionAction, State};

/// Limit on the memory of all table read-backs, in read-backs of the largest size.
const READ_BACKS_AT_ONCE: usize = 4;

/// Capacity kept in the empty output queue. A starting network causes many outputs at once, and no
/// more later.
const OUTPUTS_KEPT: usize = 2_048;

/// Longest time for the echo reply of a connected switch after another connection has presented its
/// datapath id.
const CHALLENGE_TIMEOUT: Time = Time::from_ms(1000);

#[derive(Debug)]
pub(crate) struct Channels {
    pub(crate) sessions: BTreeMap<ConnectionId, Session>,
    /// Connections of the switches that are ready.
    by_switch: BTreeMap<DatapathId, ConnectionId>,
    /// The connection that has each datapath id: ready, or in its table read-back.
    holders: BTreeMap<DatapathId, ConnectionId>,
    /// Connections that present a datapath id which another one has.
    newcomers: BTreeMap<DatapathId, Newcomer>,
    /// Generation of the latest election at each switch, and whether the switch has demoted this
    /// controller since.
    generations: BTreeMap<DatapathId, (u64, bool)>,
    /// Sum of [`Session::read_back_bytes`] over all sessions.
    read_back_bytes: usize,
    /// No echo and no timeout of a session or newcomer is due before this time. Messages only
    /// postpone them, so the walk over all sessions is rare.
    due: Time,
    /// Switches that have disconnected since [`Channels::take_lost`].
    lost: Vec<DatapathId>,
    outputs: VecDeque<Output>,
    pub(crate) tally: ControllerStats,
}

/// A connection that waits until it is known whether the one with its datapath id is alive.
#[derive(Clone, Copy, Debug)]
struct Newcomer {
    connection: ConnectionId,
    until: Time,
}

/// Meaning of a message to the other parts.
#[derive(Debug)]
pub(crate) enum Received {
    /// The session has handled it.
    Nothing,
    /// The switch is ready: its ports, rules and groups are known.
    Ready(ReadBack),
    /// A message of a switch that is ready: counters, packets, errors, ports.
    Message(DatapathId),
    /// The switch has another master, and refuses changes.
    Demoted(DatapathId),
}

/// Result of the table read-back of a switch.
#[derive(Debug)]
pub(crate) struct ReadBack {
    pub(crate) connection: ConnectionId,
    pub(crate) datapath: DatapathId,
    pub(crate) rules: Vec<FlowStats>,
    pub(crate) groups: Vec<GroupDescription>,
    pub(crate) ports: BTreeMap<PortNo, PortDesc>,
    /// Whether foreign rules or groups are missing from the read-back.
    pub(crate) is_partial: bool,
    /// Whether the switch has no groups.
    pub(crate) lacks_groups: bool,
    /// Whether the switch has another master, and refuses changes.
    pub(crate) is_slave: bool,
    pub(crate) manufacturer: Option<String>,
    /// Whether no switch was ready before.
    pub(crate) is_only_switch: bool,
    /// Whether the switch has reconnected before its old connection timed out.
    pub(crate) is_replacement: bool,
}

impl Default for Channels {
    fn default() -> Channels {
        Channels {
            sessions: BTreeMap::new(),
            by_switch: BTreeMap::new(),
            holders: BTreeMap::new(),
            newcomers: BTreeMap::new(),
            generations: BTreeMap::new(),
            read_back_bytes: 0,
            due: Time::MAX,
            lost: Vec::new(),
            outputs: VecDeque::new(),
            tally: ControllerStats::default(),
        }
    }
}

impl Channels {
    /// Starts the session of a new connection with a hello.
    pub(crate) fn open(&mut self, now: Time, config: &Config, connection: ConnectionId) {
        let requests_manufacturer = config.ecmp_hashing == EcmpHashing::Auto || config.uses_extensions;
        let session = Session::new(now, requests_manufacturer);
        self.due = self.due.min(session.poll_timeout(config.echo_timeout));
        self.sessions.insert(connection, session);
        self.send(connection, Session::hello());
    }

    pub(crate) fn receive(
        &mut self,
        now: Time,
        config: &Config,
        connection: ConnectionId,
        envelope: &Envelope,
    ) -> Received {
        let Some(session) = self.sessions.get_mut(&connection) else {
            return Received::Nothing; // The controller closed this connection: later messages are ignored.
        };
        let Envelope { xid, ref message } = *envelope;
        let before = session.read_back_bytes;
        let reaction = session.receive(now, xid, message);
        self.due = self.due.min(session.poll_timeout(config.echo_timeout));
        let (after, features) = (session.read_back_bytes, session.features);
        if after != before {
            self.read_back_bytes = self.read_back_bytes + after - before;
            if self.limit_read_back(config.read_back_bytes_max, connection, after) {
                return Received::Nothing;
            }
        }
        match reaction {
            SessionAction::Nothing => {}
            SessionAction::Send(messages) => messages.into_iter().for_each(|message| {
                self.send(connection, message);
            }),
            SessionAction::Answer(message) => self.push(connection, Envelope { xid, message }),
            SessionAction::Close(reason, last_words) => {
                if let Some(message) = last_words {
                    self.send(connection, message);
                }
                self.event(Event::Closed { connection, reason });
                self.close(connection);
            }
            SessionAction::Identified => self.identified(now, config, connection),
            SessionAction::Alive => self.refuse_newcomer(connection),
            SessionAction::Demoted => {
                let datapath = features.expect("a ready session has features").datapath;
                if let Some((_, was_demoted)) = self.generations.get_mut(&datapath) {
                    *was_demoted = true;
                }
                return Received::Demoted(datapath);
            }
            SessionAction::Ready => return Received::Ready(self.ready(connection)),
            SessionAction::Pass => {
                return Received::Message(features.expect("a ready session has features").datapath);
            }
        }
        Received::Nothing
    }

    /// Handles the datapath id of a connection. If another connection has it, that one is asked
    /// whether it is alive: no connection takes over the id of a connected switch.
    fn identified(&mut self, now: Time, config: &Config, connection: ConnectionId) {
        let datapath = self.sessions[&connection].features.expect("an identified session has features").datapath;
        let Some(holder) = self.holders.get(&datapath).copied() else {
            self.holders.insert(datapath, connection);
            return self.begin_read_back(config, datapath, connection);
        };
        if self.newcomers.contains_key(&datapath) {
            return self.refuse(connection, CloseReason::DatapathInUse { datapath });
        }
        let until = now.saturating_add(CHALLENGE_TIMEOUT);
        self.due = self.due.min(until);
        self.newcomers.insert(datapath, Newcomer { connection, until });
        if let Some(session) = self.sessions.get_mut(&holder) {
            let challenge = session.challenge();
            self.send(holder, challenge);
        }
    }

    fn begin_read_back(&mut self, config: &Config, datapath: DatapathId, connection: ConnectionId) {
        let election = config.requests_mastership.then(|| match self.generations.get(&datapath) {
            Some((generation, was_demoted)) => RoleElection::again(*generation, *was_demoted),
            None => RoleElection::first(),
        });
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        for message in session.begin_read_back(election) {
            self.send(connection, message);
        }
    }

    fn refuse(&mut self, connection: ConnectionId, reason: CloseReason) {
        self.event(Event::Closed { connection, reason });
        self.close(connection);
    }

    /// Refuses the newcomer with the datapath id of a connection that is alive.
    fn refuse_newcomer(&mut self, holder: ConnectionId) {
        let Some(datapath) = self.sessions[&holder].features.map(|features| features.datapath) else { return };
        if let Some(newcomer) = self.newcomers.remove(&datapath) {
            self.refuse(newcomer.connection, CloseReason::DatapathInUse { datapath });
        }
    }

    /// Admits the newcomer with a datapath id, if there is one.
    fn admit_newcomer(&mut self, config: &Config, datapath: DatapathId) {
        if let Some(newcomer) = self.newcomers.remove(&datapath) {
            self.holders.insert(datapath, newcomer.connection);
            self.begin_read_back(config, datapath, newcomer.connection);
        }
    }

    fn ready(&mut self, connection: ConnectionId) -> ReadBack {
        let session = self.sessions.get_mut(&connection).expect("the session that got ready");
        let datapath = session.features.expect("a ready session has features").datapath;
        let mut read_back = ReadBack {
            connection,
            datapath,
            rules: std::mem::take(&mut session.rules),
            groups: std::mem::take(&mut session.groups),
            ports: session.ports.clone(),
            is_partial: session.is_partial,
            lacks_groups: session.lacks_groups,
            is_slave: session.is_slave(),
            manufacturer: session.manufacturer.clone(),
            is_only_switch: self.by_switch.is_empty(),
            is_replacement: false,
        };
        if let Some(election) = &session.election {
            self.generations.insert(datapath, (election.generation(), election.is_slave()));
        }
        if let Some(older) = self.by_switch.insert(datapath, connection) {
            self.event(Event::Closed { connection: older, reason: CloseReason::Replaced });
            self.outputs.push_back(Output::Channel(FromController::Close(older)));
            self.sessions.remove(&older); // Its session was ready: the read-back had ended.
            read_back.is_replacement = true;
        }
        read_back
    }

    /// Limits the memory of table read-backs. It disconnects this switch if it has sent more than
    /// one switch may; if all together hold too much, it disconnects the largest. Returns whether
    /// this switch was disconnected.
    fn limit_read_back(&mut self, limit: usize, connection: ConnectionId, bytes: usize) -> bool {
        let victim = if bytes > limit {
            connection
        } else if self.read_back_bytes > limit.saturating_mul(READ_BACKS_AT_ONCE) {
            let largest = self.sessions.iter().max_by_key(|(_, session)| session.read_back_bytes);
            largest.map_or(connection, |(largest, _)| *largest)
        } else {
            return false;
        };
        if let Some(datapath) = self.sessions[&victim].features.map(|features| features.datapath) {
            self.event(Event::ReadBackTooLarge { datapath, limit_bytes: limit });
        }
        self.close(victim);
        victim == connection
    }

    pub(crate) fn close(&mut self, connection: ConnectionId) {
        if self.sessions.contains_key(&connection) {
            self.outputs.push_back(Output::Channel(FromController::Close(connection)));
            self.disconnected(connection);
        }
    }

    pub(crate) fn disconnected(&mut self, connection: ConnectionId) {
        let Some(session) = self.sessions.remove(&connection) else { return };
        self.read_back_bytes -= session.read_back_bytes;
        let Some(datapath) = session.features.map(|features| features.datapath) else { return };
        if self.newcomers.get(&datapath).is_some_and(|newcomer| newcomer.connection == connection) {
            self.newcomers.remove(&datapath);
            return;
        }
        if self.holders.get(&datapath) == Some(&connection) {
            self.holders.remove(&datapath);
            if let Some(newcomer) = self.newcomers.get_mut(&datapath) {
                (newcomer.until, self.due) = (Time::ZERO, Time::ZERO); // The datapath id is free again.
            }
        }
        if self.by_switch.get(&datapath) == Some(&connection) {
            self.by_switch.remove(&datapath);
            self.lost.push(datapath);
            self.event(Event::SwitchDown(datapath));
        }
    }

    pub(crate) fn take_lost(&mut self) -> Vec<DatapathId> {
        std::mem::take(&mut self.lost)
    }

    /// Sends echo requests that are due, closes silent connections, and admits newcomers whose
    /// datapath id no other connection has shown to have.
    pub(crate) fn keep_alive(&mut self, now: Time, config: &Config) {
        if self.due > now {
            return;
        }
        let due = self.newcomers.iter().filter(|(_, newcomer)| newcomer.until <= now);
        let due: Vec<DatapathId> = due.map(|(datapath, _)| *datapath).collect();
        due.into_iter().for_each(|datapath| self.admit_newcomer(config, datapath));
        let connections: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for connection in connections {
            if self.sessions[&connection].is_silent(now, config.echo_timeout) {
                self.event(Event::Closed { connection, reason: CloseReason::Silent });
                self.close(connection);
            } else {
                self.echo(now, config, connection);
            }
        }
        let newcomers = self.newcomers.values().map(|newcomer| newcomer.until);
        let sessions = self.sessions.values().map(|session| session.poll_timeout(config.echo_timeout));
        self.due = sessions.chain(newcomers).min().unwrap_or(Time::MAX);
    }

    /// Sends an echo request to a switch, if one is due.
    pub(crate) fn echo(&mut self, now: Time, config: &Config, connection: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        if let Some(echo) = session.echo_due(now, config.echo_interval) {
            self.send(connection, echo);
        }
    }

    /// Returns a time before which no echo is due and no echo timeout expires.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        Some(self.due).filter(|due| *due < Time::MAX)
    }

    /// Returns the connection of a switch, or `None` if it is disconnected.
    pub(crate) fn connection_of(&self, datapath: DatapathId) -> Option<ConnectionId> {
        self.by_switch.get(&datapath).copied()
    }
    pub(crate) fn session_of(&self, datapath: DatapathId) -> Option<&Session> {
        self.sessions.get(self.by_switch.get(&datapath)?)
    }
    /// Returns the round trip of the latest echo of a switch.
    pub(crate) fn rtt_of(&self, datapath: DatapathId) -> Option<Time> {
        self.session_of(datapath)?.rtt
    }
    pub(crate) fn connected(&self) -> impl Iterator<Item = (DatapathId, ConnectionId)> {
        self.by_switch.iter().map(|(datapath, connection)| (*datapath, *connection))
    }
    pub(crate) fn is_any_connected(&self) -> bool {
        !self.by_switch.is_empty()
    }
    /// Returns whether every connection has finished its table read-back.
    pub(crate) fn are_all_ready(&self) -> bool {
        self.sessions.values().all(|session| session.state == State::Ready)
    }

    /// Sends a message on a connection. Returns its transaction number, or `None` if the connection
    /// has closed, or if the message is a change and the switch has another master. A switch refuses
    /// changes only of connections that were masters before: on a new one it would accept them.
    pub(crate) fn send(&mut self, connection: ConnectionId, message: Message) -> Option<Xid> {
        let session = self.sessions.get_mut(&connection)?;
        let is_change = matches!(message, Message::FlowMod(_) | Message::GroupMod(_) | Message::PacketOut(_));
        if is_change && session.is_slave() {
            return None;
        }
        let envelope = session.seal(message);
        let xid = envelope.xid;
        self.push(connection, envelope);
        Some(xid)
    }
    fn push(&mut self, connection: ConnectionId, envelope: Envelope) {
        self.outputs.push_back(Output::Channel(FromController::Message(connection, envelope)));
    }
    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }
    pub(crate) fn command(&mut self, command: balance::central::AgentCommand) {
        self.outputs.push_back(Output::Agents(command));
    }
    /// Sends a frame out of a port, if its switch is connected.
    pub(crate) fn packet_out(&mut self, (datapath, port): SwitchPort, data: Vec<u8>) {
        let packet = PacketOut {
            buffer: BufferId::NO_BUFFER,
            in_port: PortNo::CONTROLLER,
            actions: vec![Action::output(port)],
            data,
        };
        self.send_packet(datapath, packet);
    }
    pub(crate) fn send_packet(&mut self, datapath: DatapathId, packet: PacketOut) {
        let Some(connection) = self.connection_of(datapath) else { return };
        if self.send(connection, Message::PacketOut(packet)).is_some() {
            self.tally.packet_outs += 1;
        }
    }

    /// Deletes switch-owned rules by match and cookie on some switches. A barrier follows: other
    /// rules may be sent with the same matches or cookie.
    pub(crate) fn delete_rules(
        &mut self,
        is_meant: impl Fn(DatapathId) -> bool,
        match_: Match,
        cookie: u64,
        cookie_mask: u64,
    ) {
        let add = FlowMod::add(TableId(0), 0, match_, Instructions::default());
        let delete = FlowMod { command: FlowModCommand::Delete, cookie, cookie_mask, ..add };
        let meant: Vec<_> = self.connected().filter(|(datapath, _)| is_meant(*datapath)).collect();
        for (_, connection) in meant {
            if self.send(connection, Message::FlowMod(delete.clone())).is_some() {
                self.tally.flow_mods += 1;
                self.send(connection, Message::BarrierRequest);
            }
        }
    }

    /// Adds a switch whose table read-back has ended.
    #[cfg(test)]
    pub(crate) fn add_ready(&mut self, connection: ConnectionId, datapath: DatapathId) {
        self.sessions.insert(connection, Session::new(Time::ZERO, false));
        self.by_switch.insert(datapath, connection);
    }

    pub(crate) fn output_count(&self) -> usize {
        self.outputs.len()
    }
    pub(crate) fn has_outputs(&self) -> bool {
        !self.outputs.is_empty()
    }
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        if self.outputs.is_empty() && self.outputs.capacity() > OUTPUTS_KEPT {
            self.outputs = VecDeque::new();
        }
        self.outputs.pop_front()
    }
    /// Swaps the pending outputs with the empty queue `outputs`.
    pub(crate) fn swap_outputs(&mut self, outputs: &mut VecDeque<Output>) {
        if outputs.capacity() > OUTPUTS_KEPT {
            *outputs = VecDeque::new();
        }
        std::mem::swap(&mut self.outputs, outputs);
    }
}
