//! Installation of the rules of connections: sent, confirmed, rejected.

use net::{FiveTuple, Time};
use openflow::{ConnectionId, DatapathId, ErrorKind, FlowMod, MacAddr, Message, Xid};

use super::connection_table::Connection;
use super::rules::ConnectionEndpoints;
use super::spec::ServiceId;
use super::{Parts, VipService};
use crate::Event;
use crate::channels::sent::Install;
use crate::updater::compile::Entry;

/// Time during which a switch that rejected the rules of a service gets none.
const UNAVAILABLE_FOR: Time = Time::from_s(5);
impl VipService {
    /// Sends the rules of a connection and a barrier. Returns whether that was possible.
    pub(super) fn send_rules(
        &mut self,
        on: &mut Parts<'_>,
        datapath: DatapathId,
        ends: &ConnectionEndpoints,
        mac: MacAddr,
    ) -> bool {
        let to_client = on.updater.compiler.to_client(ends);
        let entries: Vec<Entry> = to_client.into_iter().chain([on.updater.compiler.to_member(ends, mac)]).collect();
        let Some(connection) = on.cx.channels.connection_of(datapath) else { return false };
        if on.is_any_occupied(datapath, &entries) {
            self.report_occupied(on, datapath, ends.owner.service);
            return false;
        }
        for entry in entries {
            self.send_rule(on, connection, &ends.tuple, entry);
        }
        let xid = on.cx.channels.send(connection, Message::BarrierRequest);
        self.connections.sent(&ends.tuple, on.cx.now, xid);
        self.record_sent(on, connection, xid, Install::Barrier(ends.tuple));
        true
    }

    pub(super) fn send_rule(
        &mut self,
        on: &mut Parts<'_>,
        connection: ConnectionId,
        tuple: &FiveTuple,
        (key, wanted): Entry,
    ) {
        on.cx.channels.tally.flow_mods += 1;
        let xid = on.cx.channels.send(connection, Message::FlowMod(wanted.into_switch_owned(key)));
        self.record_sent(on, connection, xid, Install::Rule(*tuple));
    }

    fn record_sent(&mut self, on: &mut Parts<'_>, connection: ConnectionId, xid: Option<Xid>, sent: Install) {
        if let (Some(xid), Some(session)) = (xid, on.cx.channels.sessions.get_mut(&connection)) {
            let datapath = session.features.map(|features| features.datapath);
            if let (Some((xid, Install::Barrier(tuple))), Some(datapath)) =
                (session.connecting.note(xid, sent), datapath)
            {
                self.connections.confirmed(&tuple, datapath, xid); // Too many to wait for.
            }
        }
    }

    /// Deletes both rules of a connection, if its switch is connected; otherwise the table
    /// read-back does.
    pub(super) fn delete_rules_of(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple, known: &Connection) {
        let Some(connection) = on.cx.channels.connection_of(known.edge) else { return };
        let Some(ends) = self.ends_of_known(tuple, known) else { return };
        if let Some((key, wanted)) = on.updater.compiler.to_client(&ends) {
            self.delete_rule(on, connection, &key, wanted.cookie);
        }
        self.delete_to_member_rule_of(on, tuple, known);
    }

    /// Deletes the rule for packets of the client only: packets of the member stay translated until
    /// that rule idles out.
    pub(super) fn delete_to_member_rule_of(&mut self, on: &mut Parts<'_>, tuple: &FiveTuple, known: &Connection) {
        let Some(connection) = on.cx.channels.connection_of(known.edge) else { return };
        let Some(ends) = self.ends_of_known(tuple, known) else { return };
        let (key, wanted) = on.updater.compiler.to_member(&ends, MacAddr::default());
        self.delete_rule(on, connection, &key, wanted.cookie);
    }

    pub(super) fn delete_rule(
        &mut self,
        on: &mut Parts<'_>,
        connection: ConnectionId,
        key: &crate::updater::store::RuleKey,
        cookie: u64,
    ) {
        let delete =
            FlowMod { cookie, cookie_mask: u64::MAX, ..FlowMod::delete_strict(key.table, key.priority.0, key.match_) };
        on.cx.channels.tally.flow_mods += 1;
        on.cx.channels.send(connection, Message::FlowMod(delete));
    }

    /// Handles a barrier reply. Returns whether it confirmed the rules of a connection.
    pub(crate) fn connection_confirmed(
        &mut self,
        on: &mut Parts<'_>,
        connection: ConnectionId,
        datapath: DatapathId,
        xid: Xid,
    ) -> bool {
        let session = on.cx.channels.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.connecting.confirm(xid)) else { return false };
        self.connections.confirmed(&tuple, datapath, xid);
        true
    }

    /// Handles the rejection of a message. Returns whether it was a rule of a connection.
    pub(crate) fn connection_refused(
        &mut self,
        on: &mut Parts<'_>,
        connection: ConnectionId,
        at: DatapathId,
        xid: Xid,
        error: ErrorKind,
    ) -> bool {
        let session = on.cx.channels.sessions.get_mut(&connection);
        let Some(tuple) = session.and_then(|session| session.connecting.refuse(xid)) else { return false };
        if let Some(known) = self.connections.get(&tuple).copied().filter(|known| known.edge == at) {
            self.delete_rules_of(on, &tuple, &known);
            self.connections.remove(&tuple);
            self.suspend_service(on, at, known.owner.service, error, "the switch rejected its rule");
        }
        true
    }

    /// Handles a switch that rejects rules of a service: its clients are rejected for a while.
    fn suspend_service(
        &mut self,
        on: &mut Parts<'_>,
        datapath: DatapathId,
        service: ServiceId,
        error: ErrorKind,
        why: &str,
    ) {
        let until = on.cx.now.saturating_add(UNAVAILABLE_FOR);
        self.unavailable.insert((service, datapath), until);
        let seconds = UNAVAILABLE_FOR.as_s_f64();
        self.report_rejection(
            on,
            datapath,
            service,
            error,
            &format!("is not available at this switch for {seconds} s: {why}"),
        );
    }

    /// Reports a foreign rule in place of one of a connection: that connection cannot be served,
    /// others can.
    pub(super) fn report_occupied(&mut self, on: &mut Parts<'_>, datapath: DatapathId, service: ServiceId) {
        let error = ErrorKind::FlowModFailed(openflow::FlowModFailed::Overlap);
        let why = "cannot serve a connection at this switch: a rule of another controller has its match and priority";
        self.report_rejection(on, datapath, service, error, why);
    }

    /// Reports a rejection, at most once per interval.
    fn report_rejection(
        &mut self,
        on: &mut Parts<'_>,
        datapath: DatapathId,
        service: ServiceId,
        error: ErrorKind,
        what: &str,
    ) {
        let until = on.cx.now.saturating_add(UNAVAILABLE_FOR);
        let reported = self.reported.get(&(service, datapath));
        if reported.is_none_or(|reported| *reported <= on.cx.now) {
            self.reported.insert((service, datapath), until);
            let message = format!("virtual service {} {what}", service.0);
            on.cx.channels.event(Event::SwitchError { datapath, error, message });
        }
    }
}
