//! Connections to controllers: handshake, roles, asynchronous messages, and dispatch of messages.
//!
//! A connection waits for a hello, is open, or has failed. A message before the hello is refused
//! (`OFPBRC_BAD_VERSION`: no version has been agreed on) and has no effect. A connection without a
//! common version receives an error, and its messages are ignored from then on. The specification
//! requires its closure, which is left to the controller or the driver.

use std::collections::BTreeMap;

use net::Time;
use openflow::{
    AsyncConfig, BadRequest, ConnectionId, ControllerRole, Envelope, ErrorKind, Features, HelloFailed, Message,
    MultipartRequest, PacketInReason, PortReason, RemovedReason, Role, RoleRequestFailed, SwitchConfig,
    SwitchConfigFailed, TableId, TableModFailed, Xid, capability,
};

use crate::checks::CONTROLLER_LEN_MAX;
use crate::monitors::Monitors;
use crate::{Output, Switch};

/// Bitmap of the supported versions: OpenFlow 1.3 only.
const VERSIONS: u32 = 1 << 4;
/// The default asynchronous messages (specification 6.1.1): a slave gets port-status only.
const DEFAULT_ASYNC: AsyncConfig =
    AsyncConfig { packet_in: [0b011, 0], port_status: [0b111, 0b111], flow_removed: [0b1111, 0] };
const DEFAULT_MISS_SEND_LEN: u16 = 128;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    AwaitingHello,
    Open,
    Failed,
}

#[derive(Clone, Debug)]
pub struct Session {
    state: State,
    role: ControllerRole,
    async_config: AsyncConfig,
    config: SwitchConfig,
    pub monitors: Monitors,
}

impl Session {
    fn wants(&self, masks: impl Fn(&AsyncConfig) -> [u32; 2], bit: u32) -> bool {
        let [ruling, slave] = masks(&self.async_config);
        let mask = if self.role == ControllerRole::Slave { slave } else { ruling };
        self.state == State::Open && mask & bit != 0
    }
}

#[derive(Default, Debug)]
pub struct Sessions {
    pub open: BTreeMap<ConnectionId, Session>,
    generation: Option<u64>,
}

impl Sessions {
    fn wanting(&self, masks: impl Fn(&AsyncConfig) -> [u32; 2], bit: u32) -> Vec<ConnectionId> {
        self.open.iter().filter(|(_, session)| session.wants(&masks, bit)).map(|(id, _)| *id).collect()
    }

    pub fn receivers_of_packet_in(&self, reason: PacketInReason) -> Vec<ConnectionId> {
        self.wanting(|config| config.packet_in, 1 << reason as u32)
    }

    fn set_role(&mut self, connection: ConnectionId, request: Role) -> Result<Role, ErrorKind> {
        if matches!(request.role, ControllerRole::Master | ControllerRole::Slave) {
            // Generations wrap around (specification 6.3.5).
            let is_stale = |seen: u64| (request.generation.wrapping_sub(seen) as i64) < 0;
            if self.generation.is_some_and(is_stale) {
                return Err(ErrorKind::RoleRequestFailed(RoleRequestFailed::Stale));
            }
            self.generation = Some(request.generation);
        }
        if request.role == ControllerRole::Master {
            let masters = self.open.values_mut().filter(|session| session.role == ControllerRole::Master);
            masters.for_each(|session| session.role = ControllerRole::Slave);
        }
        let session = self.open.get_mut(&connection);
        let role = session.map_or(ControllerRole::NoChange, |session| {
            if request.role != ControllerRole::NoChange {
                session.role = request.role;
            }
            session.role
        });
        Ok(Role { role, generation: self.generation.unwrap_or(u64::MAX) })
    }
}

impl Switch {
    pub fn connected(&mut self, now: Time, connection: ConnectionId) {
        self.clock.advance(now);
        let session = Session {
            state: State::AwaitingHello,
            role: ControllerRole::Equal,
            async_config: DEFAULT_ASYNC,
            config: SwitchConfig { flags: 0, miss_send_len: DEFAULT_MISS_SEND_LEN },
            monitors: Monitors::default(),
        };
        self.sessions.open.insert(connection, session);
        self.answer(connection, Xid(0), Message::Hello { versions: VERSIONS });
    }

    /// Closes a connection. Entries stay in use ("fail secure mode").
    pub fn disconnected(&mut self, now: Time, connection: ConnectionId) {
        self.clock.advance(now);
        self.sessions.open.remove(&connection);
    }

    pub(crate) fn send_all(&mut self, connections: &[ConnectionId], message: &Message) {
        connections.iter().for_each(|connection| self.answer(*connection, Xid(0), message.clone()));
    }

    pub(crate) fn answer(&mut self, connection: ConnectionId, xid: Xid, message: Message) {
        self.outputs.push_back(Output::Message(connection, Envelope { xid, message }));
    }

    fn refuse(&mut self, connection: ConnectionId, xid: Xid, kind: ErrorKind, data: Vec<u8>) {
        self.tally.errors += 1;
        self.answer(connection, xid, Message::Error { kind, data });
    }

    pub(crate) fn notify_all(&mut self, message: Message) {
        // The only port event of this switch.
        let bit = 1 << PortReason::Modify as u32;
        self.send_all(&self.sessions.wanting(|config| config.port_status, bit), &message);
    }

    pub(crate) fn notify_removed(&mut self, reason: RemovedReason, message: Message) {
        self.send_all(&self.sessions.wanting(|config| config.flow_removed, 1 << reason as u32), &message);
    }

    /// Handles a message of a controller. Messages on unknown connections are ignored.
    pub fn handle(&mut self, now: Time, connection: ConnectionId, envelope: Envelope) {
        self.clock.advance(now);
        let Envelope { xid, message } = envelope;
        let Some(session) = self.sessions.open.get_mut(&connection) else { return };
        match (session.state, message) {
            (State::Failed, _) => {}
            (State::AwaitingHello, Message::Hello { versions }) if versions & VERSIONS != 0 => {
                session.state = State::Open
            }
            (State::AwaitingHello, Message::Hello { .. }) => {
                session.state = State::Failed;
                let text = b"this switch speaks OpenFlow 1.3 only".to_vec();
                self.refuse(connection, xid, ErrorKind::HelloFailed(HelloFailed::Incompatible), text);
            }
            // An error is never answered by an error.
            (State::AwaitingHello, Message::Error { .. }) => session.state = State::Failed,
            (State::AwaitingHello, _) => {
                self.refuse(connection, xid, ErrorKind::BadRequest(BadRequest::BadVersion), Vec::new());
            }
            (State::Open, message) => {
                self.cause = Some((connection, xid));
                if let Err(kind) = self.execute(connection, xid, message) {
                    self.refuse(connection, xid, kind, Vec::new());
                }
                self.cause = None;
                self.flush_monitors();
            }
        }
    }

    fn execute(&mut self, connection: ConnectionId, xid: Xid, message: Message) -> Result<(), ErrorKind> {
        let Some(session) = self.sessions.open.get_mut(&connection) else { return Ok(()) };
        if session.role == ControllerRole::Slave && changes_state(&message) {
            return Err(ErrorKind::BadRequest(BadRequest::IsSlave));
        }
        let reply = match message {
            // A second hello has no effect; the others reply to requests never sent.
            Message::Hello { .. } | Message::Error { .. } | Message::EchoReply(_) => return Ok(()),
            Message::EchoRequest(data) => Message::EchoReply(data),
            Message::FeaturesRequest => Message::FeaturesReply(self.features()),
            Message::GetConfigRequest => Message::GetConfigReply(session.config),
            Message::SetConfig(config) => {
                session.config = checked_config(config)?;
                return Ok(());
            }
            Message::PacketOut(packet_out) => return self.packet_out(packet_out),
            Message::FlowMod(flow_mod) => return self.flow_mod(flow_mod),
            Message::GroupMod(_) if !self.config.support.groups => {
                return Err(ErrorKind::BadRequest(BadRequest::BadType));
            }
            Message::GroupMod(group_mod) => return self.group_mod(&group_mod),
            Message::PortMod(port_mod) => return self.port_mod(&port_mod),
            Message::TableMod { table, config } => return self.table_mod(table, config),
            Message::MultipartRequest(request) => return self.multipart(connection, xid, request),
            // Every message is finished before the next one.
            Message::BarrierRequest => Message::BarrierReply,
            Message::RoleRequest(request) => Message::RoleReply(self.sessions.set_role(connection, request)?),
            Message::GetAsyncRequest => Message::GetAsyncReply(session.async_config),
            Message::SetAsync(config) => {
                session.async_config = config;
                return Ok(());
            }
            Message::FlowMonitor(control) => return self.control_monitor(connection, control),
            Message::Experimenter { .. } => return Err(ErrorKind::BadRequest(BadRequest::BadExperimenter)),
            // Only switches send these messages.
            Message::FeaturesReply(_)
            | Message::GetConfigReply(_)
            | Message::PacketIn(_)
            | Message::FlowRemoved(_)
            | Message::PortStatus { .. }
            | Message::MultipartReply { .. }
            | Message::BarrierReply
            | Message::RoleReply(_)
            | Message::GetAsyncReply(_) => return Err(ErrorKind::BadRequest(BadRequest::BadType)),
        };
        self.answer(connection, xid, reply);
        Ok(())
    }

    fn features(&self) -> Features {
        Features {
            datapath: self.config.datapath,
            buffers: self.config.buffers,
            tables: self.config.tables,
            auxiliary: 0,
            capabilities: capability::FLOW_STATS
                | capability::TABLE_STATS
                | capability::PORT_STATS
                | if self.config.support.groups { capability::GROUP_STATS } else { 0 },
        }
    }

    fn table_mod(&self, table: TableId, config: u32) -> Result<(), ErrorKind> {
        let is_table = table == TableId::ALL || table.0 < self.config.tables;
        match (is_table, config) {
            (false, _) => Err(ErrorKind::TableModFailed(TableModFailed::BadTable)),
            (true, 0) => Ok(()),
            (true, _) => Err(ErrorKind::TableModFailed(TableModFailed::BadConfig)),
        }
    }
}

/// Returns whether a slave must not send the message (specification 6.3.4).
fn changes_state(message: &Message) -> bool {
    use Message::{FlowMod, GroupMod, PacketOut, PortMod, TableMod};
    let sets_features =
        |request: &MultipartRequest| matches!(request, MultipartRequest::TableFeatures(tables) if !tables.is_empty());
    matches!(message, PacketOut(_) | FlowMod(_) | GroupMod(_) | PortMod(_) | TableMod { .. })
        || matches!(message, Message::MultipartRequest(request) if sets_features(request))
}

fn checked_config(config: SwitchConfig) -> Result<SwitchConfig, ErrorKind> {
    // Fragments are treated like any packet; dropping and reassembly are not supported.
    if config.flags != 0 {
        return Err(ErrorKind::SwitchConfigFailed(SwitchConfigFailed::BadFlags));
    }
    if config.miss_send_len > CONTROLLER_LEN_MAX && config.miss_send_len != u16::MAX {
        return Err(ErrorKind::SwitchConfigFailed(SwitchConfigFailed::BadLen));
    }
    Ok(config)
}
