//! Rules of connections that are found on switches, and that go.

use std::collections::BTreeSet;

use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::{ConnectionId, DatapathId, FlowRemoved, FlowStats, RemovedReason};
use std::cmp::Reverse;

use super::packets::member_port;
use super::pools::MemberFacts;
use super::rules::{Ends, Found, Owner, Way, member_in, written_mac};
use super::spec::Member;
use super::table::{Connection, Stage};
use crate::compile::{PURPOSE_MASK, Purpose};
use crate::controller::Controller;
use crate::install::RuleKey;

impl Controller {
    /// A switch was surveyed: rules of connections are left to it, and taken out of what it was found with. Those that are
    /// right are taken up again; the others are deleted. Connections that should be there and are not are over. The others are
    /// to be looked after ([`Controller::mend_connections`]) when it is known what else there is; whether they lack the
    /// rule of answers.
    pub(crate) fn survey_connections(
        &mut self,
        connection: ConnectionId,
        datapath: DatapathId,
        rules: &mut Vec<FlowStats>,
    ) -> Vec<(FiveTuple, bool)> {
        let cookie = self.compiler.cookie(Purpose::Connect);
        let found: Vec<FlowStats> = rules.extract_if(.., |rule| rule.cookie & PURPOSE_MASK == cookie).collect();
        let (mut forth, mut back) = (BTreeSet::new(), BTreeSet::new());
        // What comes from clients first: the other rules are about these.
        let is_back = |rule: &&FlowStats| {
            self.compiler.connection_of(rule.cookie, &key_of(rule)).is_some_and(|found| found.way.is_back())
        };
        let (answers, questions): (Vec<&FlowStats>, Vec<&FlowStats>) = found.iter().partition(is_back);
        for rule in questions.into_iter().chain(answers) {
            match self.take_up(datapath, rule) {
                Some((tuple, way)) => drop(if way.is_back() { back.insert(tuple) } else { forth.insert(tuple) }),
                None => self.delete_rule(connection, &key_of(rule), rule.cookie),
            }
        }
        let here = self.vips.connections.select(|known| known.edge == datapath && known.has_rules());
        let (standing, gone): (Vec<FiveTuple>, Vec<FiveTuple>) =
            here.into_iter().partition(|tuple| forth.contains(tuple));
        gone.iter().for_each(|tuple| self.vips.connections.set_stage(tuple, Stage::Over(self.now)));
        standing.into_iter().map(|tuple| (tuple, !back.contains(&tuple))).collect()
    }

    /// Sends what connections that were found on a switch lack.
    pub(crate) fn mend_connections(&mut self, connection: ConnectionId, found: Vec<(FiveTuple, bool)>) {
        for (tuple, lacks_back) in found {
            if lacks_back {
                self.send_back(connection, &tuple);
            }
            self.follow_interface(&tuple);
        }
    }

    /// Takes up a rule, if it is right: the connection it is of, and which of its ways.
    fn take_up(&mut self, datapath: DatapathId, rule: &FlowStats) -> Option<(FiveTuple, Way)> {
        let (found, ends) = self.read_rule(rule)?;
        if !self.compiler.is_rule_of(rule, &ends, found.way) {
            return None;
        }
        let (tuple, owner, now) = (ends.tuple, ends.owner, self.now);
        let known = self.vips.connections.get(&tuple).copied();
        let is_elsewhere = |known: Connection| known.has_rules() && (known.edge, known.owner) != (datapath, owner);
        if known.is_some_and(is_elsewhere) || matches!(known.map(|known| known.stage), Some(Stage::Broken(_))) {
            return None;
        }
        if found.way == Way::Forth && known.is_none_or(|known| !known.has_rules()) {
            if !self.vips.connections.make_room(now) || self.vips.connections.is_inner_taken(&ends.inner(), &tuple) {
                return None;
            }
            self.remember_member(ends.owner, ends.member, ends.member_port);
            let mac = written_mac(&rule.instructions).unwrap_or_default();
            let connection = Connection::new(owner, ends.inner(), datapath, mac, now, Stage::Standing);
            self.vips.connections.begin(tuple, connection);
            self.tell_placed(&tuple, &connection);
        }
        if let Some(mac) = written_mac(&rule.instructions) {
            self.vips.connections.edit(&tuple, |connection| connection.mac = mac);
        }
        self.vips.connections.counted(&tuple, found.way.is_back(), rule.bytes);
        Some((tuple, found.way))
    }

    /// The connection a rule says it is of: of a service there is, with the member it names, or with one that was wanted
    /// before. The rule tells all of it.
    pub(super) fn read_rule(&self, rule: &FlowStats) -> Option<(Found, Ends)> {
        let found = self.compiler.connection_of(rule.cookie, &key_of(rule))?;
        let service = self.vips.services.get(&found.owner.service)?;
        let tuple = match found.way {
            Way::Forth => found.tuple,
            Way::Back => FiveTuple { dst: service.address, dst_port: service.port, ..found.tuple.reverse() },
        };
        if (tuple.dst, tuple.protocol, tuple.dst_port) != (service.address, service.protocol.number(), service.port) {
            return None;
        }
        let (member, port) = match found.way {
            Way::Forth => {
                let (address, port) = member_in(rule)?;
                (address, port.unwrap_or(tuple.dst_port))
            }
            Way::Back => (found.tuple.src, found.tuple.src_port),
        };
        let current = self.vips.member(found.owner).filter(|facts| !facts.is_leaving);
        let is_other =
            current.is_some_and(|facts| (facts.spec.address, member_port(facts.spec.port, service)) != (member, port));
        let ends = self.ends_of(tuple, found.owner, member, port).filter(|_| !is_other)?;
        Some((found, ends))
    }

    /// A member that is not wanted any more has connections: it keeps them.
    pub(super) fn remember_member(&mut self, Owner { service, member }: Owner, address: Ipv4Addr, port: u16) {
        let Some(service) = self.vips.services.get(&service) else { return };
        let Some(pool) = self.vips.pools.get_mut(&service.pool) else { return };
        let port = service.protocol.has_ports().then_some(port);
        let spec = Member { id: member, address, port, weight: 0, is_enabled: false };
        let facts = MemberFacts { is_leaving: true, ..MemberFacts::new(spec) };
        pool.members.entry(member).or_insert(facts);
    }

    /// A rule is gone; whether it was one of a connection.
    pub(crate) fn connection_removed(&mut self, datapath: DatapathId, removed: &FlowRemoved) -> bool {
        let key = RuleKey { table: removed.table, priority: Reverse(removed.priority), match_: removed.match_ };
        let Some(found) = self.compiler.connection_of(removed.cookie, &key) else { return false };
        let tuple = match found.way {
            Way::Forth => Some(found.tuple),
            Way::Back => self.vips.connections.find_inner(&found.tuple.reverse()),
        };
        let known = tuple.and_then(|tuple| Some((tuple, *self.vips.connections.get(&tuple)?)));
        let known = known.filter(|(_, known)| (known.owner, known.edge) == (found.owner, datapath));
        let Some((tuple, known)) = known else {
            let connections = &mut self.vips.connections;
            connections.stray_gone(datapath, found.tuple, found.owner, found.way.is_back(), removed.bytes);
            return true;
        };
        self.vips.connections.counter_gone(&tuple, found.way.is_back(), removed.bytes);
        if self.is_of_before(&known, removed) {
            return true;
        }
        match (known.has_rules(), found.way) {
            (true, Way::Forth) => {
                let now = self.now;
                self.vips.connections.set_stage(&tuple, Stage::Over(now));
                self.vips.forget_those_who_left();
            }
            // The client still sends, and may be answered.
            (true, Way::Back) => {
                if let Some(connection) = self.connections.get(&datapath).copied() {
                    self.send_back(connection, &tuple);
                }
            }
            (false, _) => {}
        }
        true
    }

    /// Whether a rule that went is one that stood before those that were sent last: these follow it, or replaced it.
    fn is_of_before(&self, known: &Connection, removed: &FlowRemoved) -> bool {
        let idle_timeout = Time::from_s(u64::from(removed.idle_timeout_s));
        let is_too_soon = self.now < known.sent.saturating_add(idle_timeout);
        let is_ours = known.barrier.is_some(); // Not found by a survey: those may go at any time.
        is_ours && (known.stage == Stage::Sent || (is_too_soon && removed.reason == RemovedReason::IdleTimeout))
    }

    /// Sends the rule of a connection's answers again.
    fn send_back(&mut self, connection: ConnectionId, tuple: &FiveTuple) {
        let Some(known) = self.vips.connections.get(tuple).copied() else { return };
        let Some(ends) = self.ends_of_known(tuple, &known) else { return };
        let back = self.compiler.back(&ends);
        if self.is_any_taken(known.edge, std::slice::from_ref(&back)) {
            // What the client sends could not be answered: it is told instead.
            self.delete_rules_of(tuple, &known);
            self.vips.connections.remove(tuple);
            return self.note_taken(known.edge, known.owner.service);
        }
        self.send_rule(connection, tuple, back);
    }
}

pub(super) fn key_of(rule: &FlowStats) -> RuleKey {
    RuleKey { table: rule.table, priority: Reverse(rule.priority), match_: rule.match_ }
}
