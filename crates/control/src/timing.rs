//! Timers of the controller: echoes, probes, polls, decision periods, and timeouts.

use balance::central::{DecisionTrigger, FlowSource};
use net::Time;
use openflow::{ConnectionId, DatapathId, FlowSelection, Message, MultipartRequest, PortNo};

use crate::controller::Controller;
use crate::planning::compile::{CLASSIFY, PURPOSE_MASK, Purpose};
use crate::switches::counters::PendingPoll;
use crate::switches::discovery::next_after;
use crate::{CloseReason, Event};

impl Controller {
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let echoes = self.sessions.values().map(|session| session.poll_timeout(self.config.echo_timeout));
        let is_anyone_there = !self.connections.is_empty();
        let round = self.discovery.next_round().filter(|_| is_anyone_there);
        let timers = [
            round,
            self.expiry_at,
            self.damping.next_due().filter(|_| is_anyone_there),
            self.next_poll.filter(|_| is_anyone_there),
            self.next_period,
            self.recovering.values().copied().min(),
            self.host_candidates.next_due(),
            self.host_recovery.next_due(),
            self.pending_arp_replies.next_due(),
            self.next_of_services().filter(|_| is_anyone_there),
        ];
        echoes.chain(timers.into_iter().flatten()).chain(self.gone_at()).min()
    }

    pub(crate) fn run_timers(&mut self) {
        self.keep_alive();
        self.end_recovery_holds();
        self.find_gone();
        self.release_damped();
        self.accept_host_candidates();
        self.probe_unknown_members();
        self.run_checks();
        self.probe_all();
        self.probe_installed_hosts();
        // Ports may have become edge ports. Their rules are compared, so an unchanged port causes
        // no message.
        self.ports_changed = true;
        self.poll_counters();
        if let (Some(due), Some(period)) = (self.next_period, self.needs.period)
            && due <= self.now
        {
            self.next_period = Some(next_after(self.now, due, period));
            self.pending_triggers.push_back(DecisionTrigger::PeriodElapsed);
        }
    }

    fn keep_alive(&mut self) {
        let connections: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for connection in connections {
            let Some(session) = self.sessions.get_mut(&connection) else { continue };
            if session.is_silent(self.now, self.config.echo_timeout) {
                self.event(Event::Closed { connection, reason: CloseReason::Silent });
                self.close(connection);
            } else {
                self.echo(connection);
            }
        }
    }

    /// Sends an echo request to a switch, if one is due.
    pub(crate) fn echo(&mut self, connection: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        if let Some(echo) = session.echo_due(self.now, self.config.echo_interval) {
            self.send(connection, echo);
        }
    }

    fn end_recovery_holds(&mut self) {
        let now = self.now;
        for (datapath, _) in self.recovering.extract_if(.., |_, at| *at <= now) {
            if let Some(node) = self.network.node_of(datapath) {
                self.fabric.switch(node).is_held = false;
            }
        }
    }

    /// Returns when the next disconnected switch will count as gone. While no switch is connected,
    /// the controller itself is cut off.
    fn gone_at(&self) -> Option<Time> {
        if self.connections.is_empty() {
            return None;
        }
        let offline = self.status.values().filter(|status| !status.is_online);
        let due = offline.map(|status| status.since.saturating_add(self.config.link_timeout));
        due.filter(|at| *at > self.now).min()
    }

    fn find_gone(&mut self) {
        let gone = self.discovery.expire(self.now, self.config.link_timeout, &self.status);
        self.links_gone(&gone);
        if self.connections.is_empty() {
            return;
        }
        let is_gone = |(datapath, status): (&DatapathId, &crate::switches::discovery::Status)| {
            let at = status.since.saturating_add(self.config.link_timeout);
            (!status.is_online && at <= self.now).then_some(*datapath)
        };
        let switches: Vec<DatapathId> = self.status.iter().filter_map(is_gone).collect();
        for (_, end) in self.network.host_ends() {
            if switches.contains(&end.0) {
                self.network_changed |= self.network.set_hosts_alive(end, false);
            }
        }
    }

    /// Ends the suppression of ports that have been quiet.
    fn release_damped(&mut self) {
        for datapath in self.damping.release(self.now) {
            if let Some(ports) = self.session_of(datapath).map(|session| session.ports.clone()) {
                self.set_ports(datapath, ports);
            }
        }
    }

    fn probe_all(&mut self) {
        let due = self.discovery.round(self.now, self.config.discovery_interval, self.ports.live());
        due.into_iter().for_each(|end| self.probe(end));
    }

    /// Forgets the polls that a switch will not answer.
    pub(crate) fn forget_polls_of(&mut self, datapath: DatapathId) {
        self.polls_out.remove(&datapath);
        self.forget_round_of(datapath);
    }

    fn poll_counters(&mut self) {
        let Some(due) = self.next_poll.filter(|due| *due <= self.now) else { return };
        self.next_poll = Some(next_after(self.now, due, self.config.poll_interval));
        self.next_poll_number = self.next_poll_number.wrapping_add(1).max(1);
        self.poll_connections();
        if !self.wants_ports() {
            return;
        }
        let connected: Vec<(DatapathId, ConnectionId)> = self.connections.iter().map(|(d, c)| (*d, *c)).collect();
        for (datapath, connection) in connected {
            if self.polls_out.contains_key(&datapath) {
                continue; // It has not answered the previous one yet.
            }
            let mut poll = PendingPoll { xid: None, number: self.next_poll_number, sent: self.now };
            if self.needs.counters && self.needs.flows != FlowSource::None {
                let cookie = self.compiler.cookie(Purpose::Count);
                let selection =
                    FlowSelection { table: CLASSIFY, cookie, cookie_mask: PURPOSE_MASK, ..FlowSelection::all() };
                poll.xid = self.send(connection, Message::MultipartRequest(MultipartRequest::Flow(selection)));
                self.tally.polls += 1;
            }
            self.polls_out.insert(datapath, poll);
            // The reply to this request ends the poll.
            self.send(connection, Message::MultipartRequest(MultipartRequest::Port(PortNo::ANY)));
            self.tally.polls += 1;
        }
    }
}
