//! Installation of the rules of connections: sent, confirmed, rejected.

use std::collections::VecDeque;

use net::{FiveTuple, Time};
use openflow::{ConnectionId, DatapathId, ErrorKind, FlowMod, MacAddr, Message, Xid};

use super::connection_table::Connection;
use super::rules::ConnectionEndpoints;
use super::spec::ServiceId;
use crate::Event;
use crate::controller::Controller;
use crate::planning::compile::Entry;

/// Maximum number of remembered messages about connections on one channel.
const SENT_MAX: usize = 24_576;
/// Time during which a switch that rejected the rules of a service gets none.
const UNAVAILABLE_FOR: Time = Time::from_s(5);
/// Unconfirmed messages about connections on one channel, oldest first.
#[derive(Debug, Default)]
pub(crate) struct PendingInstalls(VecDeque<(Xid, Sent)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Rule(FiveTuple),
    /// Confirms everything before it.
    Barrier(FiveTuple),
}

impl PendingInstalls {
    /// Records a message. Returns the oldest one if the limit is exceeded.
    fn note(&mut self, xid: Xid, sent: Sent) -> Option<(Xid, Sent)> {
        self.0.push_back((xid, sent));
        if self.0.len() > SENT_MAX { self.0.pop_front() } else { None }
    }
    /// Handles a barrier reply. Returns the connection whose rules it confirms, if any.
    fn confirm(&mut self, xid: Xid) -> Option<FiveTuple> {
        let position = self.0.iter().position(|(sent, _)| *sent == xid)?;
        match self.0.drain(..=position).next_back()? {
            (_, Sent::Barrier(tuple)) => Some(tuple),
            (_, Sent::Rule(_)) => None,
        }
    }
    fn refuse(&mut self, xid: Xid) -> Option<FiveTuple> {
        let position = self.0.iter().position(|(sent, what)| *sent == xid && matches!(what, Sent::Rule(_)))?;
        self.0.remove(position).map(|(_, sent)| match sent {
            Sent::Rule(tuple) | Sent::Barrier(tuple) => tuple,
        })
    }
}

impl Controller {
    /// Sends both rules of a connection and a barrier. Returns whether that was possible.
    pub(super) fn send_rules(&mut self, datapath: DatapathId, ends: &ConnectionEndpoints, mac: MacAddr) -> bool {
        let entries = [self.compiler.to_client(ends), self.compiler.to_member(ends, mac)];
        let Some(connection) = self.connections.get(&datapath).copied() else { return false };
        if self.is_any_occupied(datapath, &entries) {
            self.report_occupied(datapath, ends.owner.service);
            return false;
        }
        for entry in entries {
            self.send_rule(connection, &ends.tuple, entry);
        }
        let xid = self.send(connection, Message::BarrierRequest);
        self.vips.connections.sent(&ends.tuple, self.now, xid);
        self.record_sent(connection, xid, Sent::Barrier(ends.tuple));
        true
    }

    pub(super) fn send_rule(&mut self, connection: ConnectionId, tuple: &FiveTuple, (key, wanted): Entry) {
        self.tally.flow_mods += 1;
        let xid = self.send(connection, Message::FlowMod(wanted.into_switch_owned(key)));
        self.record_sent(connection, xid, Sent::Rule(*tuple));
    }

    fn record_sent(&mut self, connection: ConnectionId, xid: Option<Xid>, sent: Sent) {
        if let (Some(xid), Some(session)) = (xid, self.sessions.get_mut(&connection)) {
            let datapath = session.features.map(|features| features.datapath);
            if let (Some((xid, Sent::Barrier(tuple))), Some(datapath)) = (session.connecting.note(xid, sent), datapath)
            {
                self.vips.connections.confirmed(&tuple, datapath, xid); // Too many to wait for.
            }
        }
    }

    /// Returns whether foreign rules occupy the match and priority of any of these rules.
    pub(crate) fn is_any_occupied(&self, datapath: DatapathId, entries: &[Entry]) -> bool {
        let switch = self.installer_of(datapath);
        switch.is_some_and(|switch| entries.iter().any(|(key, _)| switch.foreign.contains(key)))
    }

    /// Deletes both rules of a connection, if its switch is connected; otherwise the table
    /// read-back does.
    pub(super) fn delete_rules_of(&mut self, tuple: &FiveTuple, known: &Connection) {
        let Some(connection) = self.connections.get(&known.edge).copied() else { return };
        let Some(ends) = self.ends_of_known(tuple, known) else { return };
        let (key, wanted) = self.compiler.to_client(&ends);
        self.delete_rule(connection, &key, wanted.cookie);
        self.delete_to_member_rule_of(tuple, known);
    }

    /// Deletes the rule for packets of the client only: packets of the member stay translated until
    /// that rule idles out.
    pub(super) fn delete_to_member_rule_of(&mut self, tuple: &FiveTuple, known: &Connection) {
        let Some(connection) = self.connections.get(&known.edge).copied() else { return };
        let Some(ends) = self.ends_of_known(tuple, known) else { return };
        let (key, wanted) = self.compiler.to_member(&ends, MacAddr::default());
        self.delete_rule(connection, &key, wanted.cookie);
    }

    pub(super) fn delete_rule(&mut self, connection: ConnectionId, key: &crate::rules::store::RuleKey, cookie: u64) {
        let delete =
            FlowMod { cookie, cookie_mask: u64::MAX, ..FlowMod::delete_strict(key.table, key.priority.0, key.match_) };
        self.tally.flow_mods += 1;
        self.send(connection, Message::FlowMod(delete));
    }

    /// Handles a barrier reply. Returns whether it confirmed the rules of a connection.
    pub(crate) fn connection_confirmed(&mut self, connection: ConnectionId, datapath: DatapathId, xid: Xid) -> bool {
        let session = self.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.connecting.confirm(xid)) else { return false };
        self.vips.connections.confirmed(&tuple, datapath, xid);
        true
    }

    /// Handles the rejection of a message. Returns whether it was a rule of a connection.
    pub(crate) fn connection_refused(
        &mut self,
        connection: ConnectionId,
        at: DatapathId,
        xid: Xid,
        error: ErrorKind,
    ) -> bool {
        let session = self.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.connecting.refuse(xid)) else { return false };
        if let Some(known) = self.vips.connections.get(&tuple).copied().filter(|known| known.edge == at) {
            self.delete_rules_of(&tuple, &known);
            self.vips.connections.remove(&tuple);
            self.suspend_service(at, known.owner.service, error, "the switch rejected its rule");
        }
        true
    }

    /// Handles a switch that rejects rules of a service: its clients are rejected for a while.
    fn suspend_service(&mut self, datapath: DatapathId, service: ServiceId, error: ErrorKind, why: &str) {
        let until = self.now.saturating_add(UNAVAILABLE_FOR);
        self.vips.unavailable.insert((service, datapath), until);
        let seconds = UNAVAILABLE_FOR.as_s_f64();
        self.report_rejection(
            datapath,
            service,
            error,
            &format!("is not available at this switch for {seconds} s: {why}"),
        );
    }

    /// Reports a foreign rule in place of one of a connection: that connection cannot be served,
    /// others can.
    pub(super) fn report_occupied(&mut self, datapath: DatapathId, service: ServiceId) {
        let error = ErrorKind::FlowModFailed(openflow::FlowModFailed::Overlap);
        let why = "cannot serve a connection at this switch: a rule of another controller has its match and priority";
        self.report_rejection(datapath, service, error, why);
    }

    /// Reports a rejection, at most once per interval.
    fn report_rejection(&mut self, datapath: DatapathId, service: ServiceId, error: ErrorKind, what: &str) {
        let until = self.now.saturating_add(UNAVAILABLE_FOR);
        let reported = self.vips.reported.get(&(service, datapath));
        if reported.is_none_or(|reported| *reported <= self.now) {
            self.vips.reported.insert((service, datapath), until);
            let message = format!("virtual service {} {what}", service.0);
            self.event(Event::SwitchError { datapath, error, message });
        }
    }
}
