//! Messages: unique numbers, one reply per request, never too many.

use std::collections::{BTreeMap, BTreeSet};

use openflow::{
    Action, ConnectionId, Envelope, ErrorKind, FlowModCommand, FlowModFailed, GroupModFailed, Message, MultipartReply,
    Xid,
};

use crate::channel::Way;
use crate::report::Oracle;
use crate::simulation::Simulation;

/// Maximum number of messages queued on one channel: a window of changes, discovery at every port
/// during the longest stall, polls, and replies.
const WAITING_MAX: usize = 1_500;
/// Maximum number of messages that one event may cause, per switch.
const BURST_PER_SWITCH: usize = 600;

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Numbers used towards switches, by open connection.
    pub(crate) used: BTreeMap<ConnectionId, BTreeSet<Xid>>,
    current_request: Option<(ConnectionId, Xid, bool)>,
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

fn is_reply(message: &Message) -> bool {
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

impl Simulation {
    pub(crate) fn check_down(&mut self, switch: usize, connection: ConnectionId, envelope: &Envelope) {
        let is_new = match self.oracles.messages.used.get_mut(&connection) {
            // Replies repeat the number of the request.
            Some(_) if matches!(envelope.message, Message::EchoReply(_) | Message::Error { .. }) => true,
            Some(used) => used.insert(envelope.xid),
            None => true,
        };
        if !is_new {
            let number = envelope.xid.0;
            self.fail(Oracle::Messages, || format!("number {number} is used twice towards s{switch}"));
        }
        let waiting = self.switches[switch].channel.queues[Way::Down as usize].waiting.len();
        if waiting > WAITING_MAX {
            self.fail(Oracle::Messages, || format!("{waiting} messages wait for s{switch}"));
        }
        self.check_quiet_message(switch, &envelope.message);
    }

    pub(crate) fn check_up(&mut self, switch: usize, connection: ConnectionId, envelope: &Envelope) {
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
        if is_reply(&envelope.message) {
            match &mut self.oracles.messages.current_request {
                Some((requester, number, is_replied)) if (*requester, *number) == (connection, envelope.xid) => {
                    if std::mem::replace(is_replied, true) {
                        let number = envelope.xid.0;
                        self.fail(Oracle::Messages, || format!("s{switch} replies twice to number {number}"));
                    }
                }
                _ if matches!(envelope.message, Message::Error { .. }) => {}
                // A flow monitor reports changes without a request.
                _ if matches!(
                    envelope.message,
                    Message::MultipartReply { reply: MultipartReply::FlowMonitor(_), .. }
                ) => {}
                _ => {
                    let message = envelope.message.clone();
                    self.fail(Oracle::Messages, || format!("s{switch} sends {message:?} without a request"));
                }
            }
        }
        self.check_quiet_message(switch, &envelope.message);
    }

    /// Delivers a message to a switch, which must reply to a request immediately.
    pub(crate) fn switch_handles(&mut self, switch: usize, connection: ConnectionId, envelope: Envelope) {
        let number = envelope.xid;
        let needs_reply = is_request(&envelope.message);
        let is_change = crate::channel::is_change(&envelope.message);
        self.check_missing_port(switch, &envelope.message);
        self.oracles.messages.current_request = Some((connection, number, false));
        self.switches[switch].switch.handle(self.now, connection, envelope);
        self.after_switch(switch, None);
        let is_refused = self.oracles.messages.current_request == Some((connection, number, true));
        if is_change && !is_refused {
            self.check_mastership(switch);
        }
        if needs_reply && self.oracles.messages.current_request == Some((connection, number, false)) {
            self.fail(Oracle::Messages, || format!("s{switch} does not reply to number {}", number.0));
        }
        self.oracles.messages.current_request = None;
    }

    /// Checks that no rule names a host port that a switch does not have. Ports change only while a
    /// switch has no power, so the controller of a connected switch knows them.
    fn check_missing_port(&mut self, switch: usize, message: &Message) {
        let Message::FlowMod(change) = message else { return };
        let is_written =
            matches!(change.command, FlowModCommand::Add | FlowModCommand::Modify | FlowModCommand::ModifyStrict);
        let Some((port, Some((cable, _)))) = self.switches[switch].missing.filter(|_| is_written) else { return };
        let leaves = |action: &Action| matches!(action, Action::Output { port: to, .. } if *to == port);
        let is_named = change.match_.in_port == Some(port) || change.instructions.apply.iter().any(leaves);
        if is_named && cable < self.hosts.len() {
            let words = control::format::flow_mod(change);
            self.fail(Oracle::Messages, || format!("s{switch} gets a rule for a port it does not have: {words}"));
        }
    }

    /// Returns whether one event caused too many messages; the controller is then not polled
    /// further.
    pub(crate) fn check_burst(&mut self, count: usize) -> bool {
        let is_too_much = count > BURST_PER_SWITCH * self.switches.len();
        if is_too_much {
            self.fail(Oracle::Messages, || format!("one event caused {count} outputs of the controller"));
        }
        is_too_much
    }
}
