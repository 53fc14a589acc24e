//! What a controller does by itself: echoes, probes, polls, periods, and noticing what did not happen.

use balance::central::{FlowSource, Why};
use net::Time;
use openflow::{ConnectionId, DatapathId, FlowSelection, Message, MultipartRequest, PortNo};

use crate::compile::{CLASSIFY, PURPOSE_MASK, Purpose};
use crate::controller::Controller;
use crate::discovery::next_after;
use crate::soft::PollOut;

impl Controller {
    /// When something here is due.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let echoes = self.sessions.values().map(|session| session.poll_timeout(self.config.echo_timeout));
        let is_anyone_there = !self.connections.is_empty();
        let round = self.discovery.next_round().filter(|_| is_anyone_there);
        let timers = [
            round,
            self.expiry_at,
            self.next_poll.filter(|_| is_anyone_there),
            self.next_period,
            self.held.values().copied().min(),
            self.claims.next_due(),
            self.hints.next_due(),
            self.held_answers.next_due(),
            self.next_of_services().filter(|_| is_anyone_there),
        ];
        echoes.chain(timers.into_iter().flatten()).chain(self.gone_at()).min()
    }

    /// Does what is due.
    pub(crate) fn run_timers(&mut self) {
        self.keep_alive();
        self.release_held();
        self.find_gone();
        self.believe_claims();
        self.seek_members();
        self.run_checks();
        self.probe_all();
        self.ask_hinted();
        // Ports may have turned out to be edge ports; rules about them are compared, so nothing is sent in vain.
        self.are_ports_new = true;
        self.poll_counters();
        if let (Some(due), Some(period)) = (self.next_period, self.needs.period)
            && due <= self.now
        {
            self.next_period = Some(next_after(self.now, due, period));
            self.questions.push_back(Why::Period);
        }
    }

    fn keep_alive(&mut self) {
        let connections: Vec<ConnectionId> = self.sessions.keys().copied().collect();
        for connection in connections {
            let Some(session) = self.sessions.get_mut(&connection) else { continue };
            if session.is_silent(self.now, self.config.echo_timeout) {
                self.close(connection);
            } else {
                self.echo(connection);
            }
        }
    }

    /// Asks a switch whether it is there, if that is due.
    pub(crate) fn echo(&mut self, connection: ConnectionId) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        if let Some(echo) = session.echo_due(self.now, self.config.echo_interval) {
            self.send(connection, echo);
        }
    }

    fn release_held(&mut self) {
        let now = self.now;
        let due: Vec<DatapathId> =
            self.held.iter().filter(|(_, at)| **at <= now).map(|(datapath, _)| *datapath).collect();
        for datapath in due {
            self.held.remove(&datapath);
            if let Some(node) = self.network.node_of(datapath) {
                self.fabric.switch(node).is_held = false;
            }
        }
    }

    /// When the next switch that is not connected will count as gone. While none is connected it is the controller that is
    /// cut off.
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
        let is_gone = |(datapath, status): (&DatapathId, &crate::discovery::Status)| {
            let at = status.since.saturating_add(self.config.link_timeout);
            (!status.is_online && at <= self.now).then_some(*datapath)
        };
        let switches: Vec<DatapathId> = self.status.iter().filter_map(is_gone).collect();
        for (_, end) in self.network.host_ends() {
            if switches.contains(&end.0) {
                self.is_network_new |= self.network.set_hosts_alive(end, false);
            }
        }
    }

    fn probe_all(&mut self) {
        let due = self.discovery.round(self.now, self.config.discovery_interval, self.ports.live());
        due.into_iter().for_each(|end| self.probe(end));
    }

    /// A switch will not answer what it was asked.
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
                continue; // Still answering the last one.
            }
            let mut poll = PollOut { xid: None, number: self.next_poll_number, sent: self.now };
            if self.needs.counters && self.needs.flows != FlowSource::None {
                let cookie = self.compiler.cookie(Purpose::Count);
                let selection =
                    FlowSelection { table: CLASSIFY, cookie, cookie_mask: PURPOSE_MASK, ..FlowSelection::all() };
                poll.xid = self.send(connection, Message::MultipartRequest(MultipartRequest::Flow(selection)));
                self.tally.polls += 1;
            }
            self.polls_out.insert(datapath, poll);
            // The answer to this one ends the poll.
            self.send(connection, Message::MultipartRequest(MultipartRequest::Port(PortNo::ANY)));
            self.tally.polls += 1;
        }
    }
}
