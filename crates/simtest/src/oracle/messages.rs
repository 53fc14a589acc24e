//! Messages: numbered uniquely, answered once, never too many.

use std::collections::{BTreeMap, BTreeSet};

use openflow::{
    Action, ConnectionId, Envelope, ErrorKind, FlowModCommand, FlowModFailed, GroupModFailed, Message, Xid,
};

use crate::report::Oracle;
use crate::world::World;

/// Messages that may wait on one channel: a window of changes, discovery out of every port during the longest stall, polls,
/// and answers.
const WAITING_MAX: usize = 1_500;
/// Messages one event may make the controller send, per switch.
const BURST_PER_SWITCH: usize = 600;

/// Numbers of messages.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    used: BTreeMap<ConnectionId, BTreeSet<Xid>>,
    /// Request that is with a switch now, and whether it has been answered.
    asked: Option<(ConnectionId, Xid, bool)>,
}

impl Numbers {
    pub(crate) fn connected(&mut self, connection: ConnectionId) {
        self.used.insert(connection, BTreeSet::new());
    }
    pub(crate) fn lost(&mut self, connection: ConnectionId) {
        self.used.remove(&connection);
    }
}

fn is_request(message: &Message) -> bool {
    matches!(
        message,
        Message::EchoRequest(_)
            | Message::FeaturesRequest
            | Message::GetConfigRequest
            | Message::MultipartRequest(_)
            | Message::BarrierRequest
            | Message::RoleRequest(_)
            | Message::GetAsyncRequest
    )
}

/// The last part of an answer, or an error.
fn is_answer(message: &Message) -> bool {
    matches!(
        message,
        Message::EchoReply(_)
            | Message::FeaturesReply(_)
            | Message::GetConfigReply(_)
            | Message::MultipartReply { has_more: false, .. }
            | Message::BarrierReply
            | Message::RoleReply(_)
            | Message::GetAsyncReply(_)
            | Message::Error { .. }
    )
}

impl World {
    /// A message of the controller sets out.
    pub(crate) fn oracle_down(&mut self, switch: usize, connection: ConnectionId, envelope: &Envelope) {
        let is_new = match self.oracles.messages.used.get_mut(&connection) {
            // Answers repeat the number of the question.
            Some(_) if matches!(envelope.message, Message::EchoReply(_) | Message::Error { .. }) => true,
            Some(used) => used.insert(envelope.xid),
            None => true,
        };
        if !is_new {
            let number = envelope.xid.0;
            self.fail(Oracle::Messages, || format!("number {number} is used twice towards s{switch}"));
        }
        let waiting = self.switches[switch].channel.down.len();
        if waiting > WAITING_MAX {
            self.fail(Oracle::Messages, || format!("{waiting} messages wait for s{switch}"));
        }
        self.oracle_calm_message(switch, &envelope.message);
    }

    /// A message of a switch sets out.
    pub(crate) fn oracle_up(&mut self, switch: usize, connection: ConnectionId, envelope: &Envelope) {
        if let Message::Error { kind, .. } = &envelope.message {
            self.report.errors += 1;
            let is_full = matches!(
                kind,
                ErrorKind::FlowModFailed(FlowModFailed::TableFull)
                    | ErrorKind::GroupModFailed(GroupModFailed::OutOfGroups)
            );
            if is_full {
                self.switches[switch].full_at = Some(self.now);
            }
        }
        if is_answer(&envelope.message) {
            match &mut self.oracles.messages.asked {
                Some((asker, number, is_answered)) if (*asker, *number) == (connection, envelope.xid) => {
                    if std::mem::replace(is_answered, true) {
                        let number = envelope.xid.0;
                        self.fail(Oracle::Messages, || format!("s{switch} answers number {number} twice"));
                    }
                }
                _ if matches!(envelope.message, Message::Error { .. }) => {}
                _ => {
                    let message = envelope.message.clone();
                    self.fail(Oracle::Messages, || format!("s{switch} sends {message:?} unasked"));
                }
            }
        }
        self.oracle_calm_message(switch, &envelope.message);
    }

    /// A switch gets a message: a request is answered at once.
    pub(crate) fn switch_handles(&mut self, switch: usize, connection: ConnectionId, envelope: Envelope) {
        let number = envelope.xid;
        let is_asking = is_request(&envelope.message);
        self.oracle_missing_port(switch, &envelope.message);
        self.oracles.messages.asked = Some((connection, number, false));
        self.switches[switch].switch.handle(self.now, connection, envelope);
        self.after_switch(switch, None);
        if is_asking && self.oracles.messages.asked == Some((connection, number, false)) {
            self.fail(Oracle::Messages, || format!("s{switch} does not answer number {}", number.0));
        }
        self.oracles.messages.asked = None;
    }

    /// No rule is written for a host at a port that a switch does not have. Ports come and go with a switch's power only, so
    /// that whoever is connected knows them.
    fn oracle_missing_port(&mut self, switch: usize, message: &Message) {
        let Message::FlowMod(change) = message else { return };
        let is_written =
            matches!(change.command, FlowModCommand::Add | FlowModCommand::Modify | FlowModCommand::ModifyStrict);
        let Some((port, Some((cable, _)))) = self.switches[switch].missing.filter(|_| is_written) else { return };
        let leaves = |action: &Action| matches!(action, Action::Output { port: to, .. } if *to == port);
        let is_named = change.match_.in_port == Some(port) || change.instructions.apply.iter().any(leaves);
        if is_named && cable < self.hosts.len() {
            let words = crate::words::flow_mod(change);
            self.fail(Oracle::Messages, || format!("s{switch} is to have a rule for a port it does not have: {words}"));
        }
    }

    /// Whether one event made the controller send too much: then it is not asked further.
    pub(crate) fn oracle_burst(&mut self, count: usize) -> bool {
        let is_too_much = count > BURST_PER_SWITCH * self.switches.len();
        if is_too_much {
            self.fail(Oracle::Messages, || format!("one event made the controller want {count} things"));
        }
        is_too_much
    }
}
