//! Flow monitors (EXT-187), as Open vSwitch has them; see `openflow::flow_monitor`.
//!
//! Changes of rules are collected while a message or another event is handled, and sent at its end:
//! before the barrier reply, and those of one flow-mod in one message.

use std::collections::BTreeMap;

use openflow::flow_monitor::monitor_error;
use openflow::{
    BadRequest, ConnectionId, ErrorKind, FlowChange, FlowEvent, FlowMonitorControl, FlowMonitorFlags,
    FlowMonitorRequest, FlowUpdate, Instructions, Message, MultipartReply, TableId, Xid,
};

use crate::key::Pattern;
use crate::session::Session;
use crate::table::Entry;
use crate::{Switch, checks};

#[derive(Clone, Debug)]
pub struct Monitor {
    request: FlowMonitorRequest,
    pattern: Pattern,
}

/// The monitors of a connection.
#[derive(Clone, Default, Debug)]
pub struct Monitors {
    by_id: BTreeMap<u32, Monitor>,
    /// Updates that the current event caused.
    updates: Vec<FlowUpdate>,
    has_abbreviated: bool,
    /// Version of the switch when the updates were paused.
    paused_at: Option<u64>,
}

impl Monitor {
    fn covers(&self, table: TableId, entry: &Entry, before: Option<&Instructions>) -> bool {
        let FlowMonitorRequest { table: wanted, out_port, .. } = self.request;
        (wanted == TableId::ALL || wanted == table)
            && (entry.sends_to(out_port) || before.is_some_and(|before| before.sends_to(out_port)))
            && self.pattern.covers(&entry.pattern())
    }
}

/// Returns whether the flags ask for this event.
fn includes(flags: FlowMonitorFlags, event: FlowEvent) -> bool {
    match event {
        FlowEvent::Added => flags.add,
        FlowEvent::Deleted(_) => flags.delete,
        FlowEvent::Modified => flags.modify,
    }
}

fn update(event: FlowEvent, table: TableId, entry: &Entry, has_instructions: bool) -> FlowUpdate {
    let instructions =
        if has_instructions { Instructions::clone(&entry.instructions) } else { Instructions::default() };
    FlowUpdate::Full(FlowChange {
        event,
        table,
        priority: entry.priority,
        idle_timeout_s: entry.idle_timeout_s,
        hard_timeout_s: entry.hard_timeout_s,
        cookie: entry.cookie,
        match_: entry.match_(),
        instructions,
    })
}

impl Monitors {
    fn covering<'a>(
        &'a self,
        table: TableId,
        entry: &'a Entry,
        before: Option<&'a Instructions>,
    ) -> impl Iterator<Item = FlowMonitorFlags> + 'a {
        let covering = self.by_id.values().filter(move |monitor| monitor.covers(table, entry, before));
        covering.map(|monitor| monitor.request.flags)
    }

    /// Notes a change. `own` is the transaction id if this connection caused it.
    fn note(
        &mut self,
        event: FlowEvent,
        (table, entry): (TableId, &Entry),
        before: Option<&Instructions>,
        own: Option<Xid>,
    ) {
        // During a pause only deletions of rules that were reported before it are reported.
        let is_deletion = matches!(event, FlowEvent::Deleted(_));
        if self.paused_at.is_some_and(|paused_at| !is_deletion || entry.serial > paused_at) {
            return;
        }
        let wanted: Vec<FlowMonitorFlags> =
            self.covering(table, entry, before).filter(|flags| includes(*flags, event)).collect();
        if wanted.is_empty() {
            return;
        }
        match own {
            Some(xid) if self.paused_at.is_none() && !wanted.iter().any(|flags| flags.own) => {
                if !self.has_abbreviated {
                    self.updates.push(FlowUpdate::Abbreviated(xid));
                    self.has_abbreviated = true;
                }
            }
            _ => self.updates.push(update(event, table, entry, wanted.iter().any(|flags| flags.instructions))),
        }
    }
}

impl Switch {
    /// Starts all monitors of a request or none, and replies with the current rules.
    pub(crate) fn add_monitors(
        &mut self,
        by: ConnectionId,
        xid: Xid,
        requests: &[FlowMonitorRequest],
    ) -> Result<(), ErrorKind> {
        let Some(session) = self.sessions.open.get(&by) else { return Ok(()) };
        if !self.config.support.flow_monitors {
            return Err(ErrorKind::BadRequest(BadRequest::BadExperimenter));
        }
        let mut added = BTreeMap::new();
        for request in requests {
            let FlowMonitorFlags { add, delete, modify, .. } = request.flags;
            if !(add || delete || modify) {
                return Err(monitor_error::BAD_FLAGS);
            }
            if request.table != TableId::ALL && request.table.0 >= self.config.tables {
                return Err(ErrorKind::BadRequest(BadRequest::BadTableId));
            }
            checks::match_(&request.match_, &self.ports, self.config.supports_tcp_flags)?;
            let monitor = Monitor { request: *request, pattern: Pattern::of(&request.match_) };
            let is_known = session.monitors.by_id.contains_key(&request.id);
            if is_known || added.insert(request.id, monitor).is_some() {
                return Err(monitor_error::MONITOR_EXISTS);
            }
        }
        let initial = Monitors { by_id: added.clone(), ..Monitors::default() };
        let updates = self.current(|_, flags| flags.initial.then_some(FlowEvent::Added), &initial);
        if let Some(session) = self.sessions.open.get_mut(&by) {
            session.monitors.by_id.extend(added);
        }
        self.in_parts(by, xid, updates, MultipartReply::FlowMonitor)
    }

    /// Returns updates about the current rules that the monitors cover, with the event that
    /// `event_of` gives to a rule and the flags of a monitor.
    fn current(
        &self,
        event_of: impl Fn(&Entry, FlowMonitorFlags) -> Option<FlowEvent>,
        monitors: &Monitors,
    ) -> Vec<FlowUpdate> {
        let mut updates = Vec::new();
        for (id, table) in self.tables.iter().enumerate() {
            let id = TableId(id as u8);
            for entry in table.select(|_| true).into_iter().filter_map(|slot| table.get(slot)) {
                let covering: Vec<FlowMonitorFlags> = monitors.covering(id, entry, None).collect();
                let Some(event) = covering.iter().find_map(|flags| event_of(entry, *flags)) else { continue };
                updates.push(update(event, id, entry, covering.iter().any(|flags| flags.instructions)));
            }
        }
        updates
    }

    pub(crate) fn control_monitor(&mut self, by: ConnectionId, control: FlowMonitorControl) -> Result<(), ErrorKind> {
        if !self.config.support.flow_monitors {
            return Err(ErrorKind::BadRequest(BadRequest::BadExperimenter));
        }
        let FlowMonitorControl::Cancel(id) = control else {
            return Err(ErrorKind::BadRequest(BadRequest::BadExpType));
        };
        let monitors = self.sessions.open.get_mut(&by).map(|session| &mut session.monitors);
        let removed = monitors.and_then(|monitors| monitors.by_id.remove(&id));
        removed.map(drop).ok_or(monitor_error::UNKNOWN_MONITOR)
    }

    /// Notes a change of an entry for all monitors; `before` are instructions that it no longer has.
    pub(crate) fn note_change(
        sessions: &mut BTreeMap<ConnectionId, Session>,
        cause: Option<(ConnectionId, Xid)>,
        event: FlowEvent,
        (table, entry): (TableId, &Entry),
        before: Option<&Instructions>,
    ) {
        for (connection, session) in sessions.iter_mut().filter(|(_, session)| !session.monitors.by_id.is_empty()) {
            let own = cause.filter(|(by, _)| by == connection).map(|(_, xid)| xid);
            session.monitors.note(event, (table, entry), before, own);
        }
    }

    /// Sends the noted changes to the connections whose monitors cover them.
    pub(crate) fn flush_monitors(&mut self) {
        let mut pending = Vec::new();
        for (connection, session) in &mut self.sessions.open {
            session.monitors.has_abbreviated = false;
            if !session.monitors.updates.is_empty() {
                pending.push((*connection, std::mem::take(&mut session.monitors.updates)));
            }
        }
        for (connection, updates) in pending {
            // The connection is open: sending cannot fail.
            let _ = self.in_parts(connection, Xid(0), updates, MultipartReply::FlowMonitor);
        }
    }

    /// Pauses or resumes the updates of a connection, as a switch does whose peer reads too slowly.
    /// After the pause everything that changed is reported.
    pub fn pause_monitors(&mut self, now: net::Time, connection: ConnectionId, is_paused: bool) {
        self.clock.advance(now);
        let version = self.changed();
        let Some(session) = self.sessions.open.get_mut(&connection) else { return };
        if session.monitors.by_id.is_empty() || session.monitors.paused_at.is_some() == is_paused {
            return;
        }
        if is_paused {
            session.monitors.paused_at = Some(version);
            return self.answer(connection, Xid(0), Message::FlowMonitor(FlowMonitorControl::Paused));
        }
        let Some(paused_at) = session.monitors.paused_at.take() else { return };
        let monitors = session.monitors.clone();
        let event_of = |entry: &Entry, flags: FlowMonitorFlags| {
            let is_newer = entry.serial > paused_at || entry.usage().modified_serial > paused_at;
            (is_newer && (flags.initial || flags.add))
                .then_some(FlowEvent::Added)
                .or_else(|| (is_newer && flags.modify).then_some(FlowEvent::Modified))
        };
        let updates = self.current(event_of, &monitors);
        if !updates.is_empty() {
            // The connection is open: sending cannot fail.
            let _ = self.in_parts(connection, Xid(0), updates, MultipartReply::FlowMonitor);
        }
        self.answer(connection, Xid(0), Message::FlowMonitor(FlowMonitorControl::Resumed));
    }
}
