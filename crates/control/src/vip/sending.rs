//! Rules of connections on their way: sent, confirmed, refused.

use std::collections::VecDeque;

use net::{FiveTuple, Time};
use openflow::{ConnectionId, DatapathId, ErrorKind, FlowMod, MacAddr, Message, Xid};

use super::rules::Ends;
use super::spec::ServiceId;
use super::table::Connection;
use crate::Event;
use crate::compile::Entry;
use crate::controller::Controller;

/// Messages about connections under way on one channel that are remembered.
const SENT_MAX: usize = 24_576;
/// A switch that would not have the rules of a service is not asked again before.
const UNAVAILABLE_FOR: Time = Time::from_s(5);
/// Messages about connections under way on one channel, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Connecting(VecDeque<(Xid, Sent)>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    Rule(FiveTuple),
    /// Everything before is done.
    Barrier(FiveTuple),
}

impl Connecting {
    /// The oldest is forgotten where there are too many.
    fn note(&mut self, xid: Xid, sent: Sent) -> Option<(Xid, Sent)> {
        self.0.push_back((xid, sent));
        if self.0.len() > SENT_MAX { self.0.pop_front() } else { None }
    }
    /// A barrier was answered: the connection whose rules are there, if it was about one.
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
    /// Sends both rules of a connection and a barrier; whether that could be done.
    pub(super) fn send_rules(&mut self, datapath: DatapathId, ends: &Ends, mac: MacAddr) -> bool {
        let entries = [self.compiler.back(ends), self.compiler.forth(ends, mac)];
        let Some(connection) = self.connections.get(&datapath).copied() else { return false };
        if self.is_any_taken(datapath, &entries) {
            self.note_taken(datapath, ends.owner.service);
            return false;
        }
        for entry in entries {
            self.send_rule(connection, &ends.tuple, entry);
        }
        let xid = self.send(connection, Message::BarrierRequest);
        self.vips.connections.sent(&ends.tuple, self.now, xid);
        self.note_sent(connection, xid, Sent::Barrier(ends.tuple));
        true
    }

    pub(super) fn send_rule(&mut self, connection: ConnectionId, tuple: &FiveTuple, (key, wanted): Entry) {
        let message = Message::FlowMod(FlowMod {
            cookie: wanted.cookie,
            idle_timeout_s: wanted.idle_timeout_s,
            flags: crate::soft::TELLS,
            ..FlowMod::add(key.table, key.priority.0, key.match_, wanted.instructions)
        });
        self.tally.flow_mods += 1;
        let xid = self.send(connection, message);
        self.note_sent(connection, xid, Sent::Rule(*tuple));
    }

    fn note_sent(&mut self, connection: ConnectionId, xid: Option<Xid>, sent: Sent) {
        if let (Some(xid), Some(session)) = (xid, self.sessions.get_mut(&connection)) {
            let datapath = session.features.map(|features| features.datapath);
            if let (Some((xid, Sent::Barrier(tuple))), Some(datapath)) = (session.connecting.note(xid, sent), datapath)
            {
                self.vips.connections.confirmed(&tuple, datapath, xid); // Too many to wait for: it is taken for granted.
            }
        }
    }

    pub(super) fn is_any_taken(&self, datapath: DatapathId, entries: &[Entry]) -> bool {
        let switch = self.network.node_of(datapath).and_then(|node| self.fabric.switches.get(&node));
        switch.is_some_and(|switch| switch.has_foreign() && entries.iter().any(|(key, _)| switch.is_foreign(key)))
    }

    /// Deletes both rules of a connection, if its switch is there; otherwise the survey will.
    pub(super) fn delete_rules_of(&mut self, tuple: &FiveTuple, known: &Connection) {
        let Some(connection) = self.connections.get(&known.edge).copied() else { return };
        let Some(ends) = self.ends_of_known(tuple, known) else { return };
        let (key, wanted) = self.compiler.back(&ends);
        self.delete_rule(connection, &key, wanted.cookie);
        self.delete_forth_of(tuple, known);
    }

    /// The same, of what comes from the client alone: what the member may still send is from the virtual address until that rule idles
    /// out.
    pub(super) fn delete_forth_of(&mut self, tuple: &FiveTuple, known: &Connection) {
        let Some(connection) = self.connections.get(&known.edge).copied() else { return };
        let Some(ends) = self.ends_of_known(tuple, known) else { return };
        let (key, wanted) = self.compiler.forth(&ends, MacAddr::default());
        self.delete_rule(connection, &key, wanted.cookie);
    }

    pub(super) fn delete_rule(&mut self, connection: ConnectionId, key: &crate::install::RuleKey, cookie: u64) {
        let delete =
            FlowMod { cookie, cookie_mask: u64::MAX, ..FlowMod::delete_strict(key.table, key.priority.0, key.match_) };
        self.tally.flow_mods += 1;
        self.send(connection, Message::FlowMod(delete));
    }

    /// A barrier was answered; whether it was one of a connection.
    pub(crate) fn connection_confirmed(&mut self, connection: ConnectionId, datapath: DatapathId, xid: Xid) -> bool {
        let session = self.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.connecting.confirm(xid)) else { return false };
        self.vips.connections.confirmed(&tuple, datapath, xid);
        true
    }

    /// A switch refused what was sent under a number; whether that was a rule of a connection.
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
            self.blame(at, known.owner.service, error, "the switch would not have its rule");
        }
        true
    }

    /// A switch would not have rules of a service: clients there are told that nobody serves, for a while.
    fn blame(&mut self, datapath: DatapathId, service: ServiceId, error: ErrorKind, why: &str) {
        let until = self.now.saturating_add(UNAVAILABLE_FOR);
        self.vips.unavailable.insert((service, datapath), until);
        let seconds = UNAVAILABLE_FOR.as_s_f64();
        self.tell_refused(datapath, service, error, &format!("is not available here for {seconds} s: {why}"));
    }

    /// A rule of someone else is where one of a connection would go: that connection cannot be served, others can.
    pub(super) fn note_taken(&mut self, datapath: DatapathId, service: ServiceId) {
        let error = ErrorKind::FlowModFailed(openflow::FlowModFailed::Overlap);
        let why = "cannot serve a connection here: the place of its rule is taken by another controller's";
        self.tell_refused(datapath, service, error, why);
    }

    /// Tells it once for a while.
    fn tell_refused(&mut self, datapath: DatapathId, service: ServiceId, error: ErrorKind, what: &str) {
        let until = self.now.saturating_add(UNAVAILABLE_FOR);
        let told = self.vips.told.get(&(service, datapath));
        if told.is_none_or(|told| *told <= self.now) {
            self.vips.told.insert((service, datapath), until);
            let words = format!("virtual service {} {what}", service.0);
            self.event(Event::Refused { datapath, error, words });
        }
    }
}
