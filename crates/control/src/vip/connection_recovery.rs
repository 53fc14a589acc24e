//! Recovery of connections from rules found on switches, and removal of their rules.

use std::collections::BTreeSet;

use core::net::Ipv4Addr;
use net::FiveTuple;
use openflow::{ConnectionId, DatapathId, FlowRemoved, FlowStats};

use super::connection_table::{Connection, ConnectionState};
use super::first_packets::member_port;
use super::pool_state::MemberEntry;
use super::rules::{ConnectionEndpoints, Owner, ParsedRule, member_in, written_mac};
use super::spec::Member;
use super::{Parts, VipService};
use crate::updater::compile::{Compiler, PURPOSE_MASK, Purpose};

/// A rule of a connection in a table read-back.
enum FoundRule {
    ToMember(FiveTuple),
    ToClient(FiveTuple),
    /// It translates packets of a connection's former member, and idles out. To delete it would change
    /// decisions that Open vSwitch has cached, and the client may get this member again.
    FormerReturn,
    Wrong,
}

impl VipService {
    /// Handles the table read-back of a switch: removes the rules of connections from it, since the
    /// switch owns them. Correct rules are recovered, others are deleted, and connections whose
    /// rules are missing have closed. Returns the recovered connections, and whether they lack the
    /// return rule; [`VipService::repair_connections`] must be called when the rest of the
    /// read-back is known.
    pub(crate) fn recover_connections(
        &mut self,
        on: &mut Parts<'_>,
        connection: ConnectionId,
        datapath: DatapathId,
        rules: &mut Vec<FlowStats>,
    ) -> Vec<(FiveTuple, bool)> {
        let cookie = on.updater.compiler.cookie(Purpose::Connect);
        let found: Vec<FlowStats> = rules.extract_if(.., |rule| rule.cookie & PURPOSE_MASK == cookie).collect();
        let (mut to_member, mut to_client) = (BTreeSet::new(), BTreeSet::new());
        // Rules for packets from clients first: the others refer to them.
        let is_to_client = |rule: &&FlowStats| {
            on.updater.compiler.connection_of(rule.cookie, &(*rule).into()).is_some_and(|found| found.is_to_client)
        };
        let (to_clients, to_members): (Vec<&FlowStats>, Vec<&FlowStats>) = found.iter().partition(is_to_client);
        for rule in to_members.into_iter().chain(to_clients) {
            match self.recover_rule(on, datapath, rule) {
                FoundRule::ToMember(tuple) => _ = to_member.insert(tuple),
                FoundRule::ToClient(tuple) => _ = to_client.insert(tuple),
                FoundRule::FormerReturn => {}
                FoundRule::Wrong => self.delete_rule(on, connection, &rule.into(), rule.cookie),
            }
        }
        let here = self.connections.select(|known| known.edge == datapath && known.has_rules());
        let (installed, gone): (Vec<FiveTuple>, Vec<FiveTuple>) =
            here.into_iter().partition(|tuple| to_member.contains(tuple));
        gone.iter().for_each(|tuple| self.connections.set_stage(tuple, ConnectionState::Closed(on.cx.now)));
        installed.iter().for_each(|tuple| self.connections.recovered(tuple));
        installed.into_iter().map(|tuple| (tuple, !to_client.contains(&tuple))).collect()
    }

    /// Sends the missing rules of connections found on a switch.
    pub(crate) fn repair_connections(
        &mut self,
        on: &mut Parts<'_>,
        connection: ConnectionId,
        found: Vec<(FiveTuple, bool)>,
    ) {
        for (tuple, lacks_back) in found {
            if lacks_back {
                self.send_return_rule(on, connection, &tuple);
            }
            self.update_interface(on, &tuple);
        }
    }

    /// Recovers a rule, if it is correct.
    fn recover_rule(&mut self, on: &mut Parts<'_>, datapath: DatapathId, rule: &FlowStats) -> FoundRule {
        let Some((found, ends)) = self.read_rule(on.updater.compiler, rule) else { return FoundRule::Wrong };
        if !on.updater.compiler.is_rule_of(rule, &ends, found.is_to_client) {
            return FoundRule::Wrong;
        }
        let (tuple, owner, now) = (ends.tuple, ends.owner, on.cx.now);
        let known = self.connections.get(&tuple).copied();
        match known {
            Some(known) if matches!(known.stage, ConnectionState::MemberFailed(_)) => return FoundRule::Wrong,
            Some(known) if known.has_rules() && known.edge != datapath => return FoundRule::Wrong,
            Some(known) if known.has_rules() && known.owner != owner => {
                return if found.is_to_client { FoundRule::FormerReturn } else { FoundRule::Wrong };
            }
            _ => {}
        }
        if !found.is_to_client && known.is_none_or(|known| !known.has_rules()) {
            if !self.connections.make_room(now) || self.connections.is_translated_taken(&ends.translated(), &tuple) {
                return FoundRule::Wrong;
            }
            self.add_removed_member(ends.owner, ends.member, ends.member_port);
            let mac = written_mac(&rule.instructions).unwrap_or_default();
            let connection = Connection::new(owner, ends.translated(), datapath, mac, now, ConnectionState::Installed);
            self.connections.begin(tuple, connection);
            self.report_placed(on, &tuple, &connection);
        }
        if let Some(mac) = written_mac(&rule.instructions) {
            self.connections.edit(&tuple, |connection| connection.mac = mac);
        }
        self.connections.counted(&tuple, found.is_to_client, rule.bytes);
        if found.is_to_client { FoundRule::ToClient(tuple) } else { FoundRule::ToMember(tuple) }
    }

    /// Returns the connection that a rule describes, if its service exists and its member exists or
    /// existed. The rule alone determines the connection.
    pub(super) fn read_rule(&self, compiler: Compiler, rule: &FlowStats) -> Option<(ParsedRule, ConnectionEndpoints)> {
        let found = compiler.connection_of(rule.cookie, &rule.into())?;
        let service = self.services.get(&found.owner.service)?;
        let tuple = match found.is_to_client {
            false => found.tuple,
            true => FiveTuple { dst: service.address, dst_port: service.port, ..found.tuple.reverse() },
        };
        if (tuple.dst, tuple.protocol, tuple.dst_port) != (service.address, service.protocol.number(), service.port) {
            return None;
        }
        let (member, port) = match found.is_to_client {
            false => {
                let (address, port) = member_in(rule)?;
                (address, port.unwrap_or(tuple.dst_port))
            }
            true => (found.tuple.src, found.tuple.src_port),
        };
        let current = self.member(found.owner).filter(|facts| !facts.is_removed);
        let is_other =
            current.is_some_and(|facts| (facts.spec.address, member_port(facts.spec.port, service)) != (member, port));
        let ends = self.ends_of(tuple, found.owner, member, port).filter(|_| !is_other)?;
        Some((found, ends))
    }

    pub(super) fn add_removed_member(&mut self, Owner { service, member }: Owner, address: Ipv4Addr, port: u16) {
        let Some(service) = self.services.get(&service) else { return };
        let Some(pool) = self.pools.get_mut(&service.pool) else { return };
        let port = service.protocol.has_ports().then_some(port);
        let spec = Member { id: member, address, port, weight: 0, is_enabled: false };
        let facts = MemberEntry { is_removed: true, ..MemberEntry::new(spec) };
        pool.members.entry(member).or_insert(facts);
    }

    /// Handles the removal of a rule. Returns whether it was one of a connection.
    pub(crate) fn connection_removed(
        &mut self,
        on: &mut Parts<'_>,
        datapath: DatapathId,
        removed: &FlowRemoved,
    ) -> bool {
        let Some(found) = on.updater.compiler.connection_of(removed.cookie, &removed.into()) else { return false };
        let Some((tuple, known)) = self.connections.of_rule(datapath, &found) else {
            let connections = &mut self.connections;
            connections.stray_gone(datapath, found.tuple, found.owner, found.is_to_client, removed.bytes);
            return true;
        };
        self.connections.counter_gone(&tuple, found.is_to_client, removed.bytes);
        if Self::is_of_before(&known) {
            return true;
        }
        match (known.has_rules(), found.is_to_client) {
            (true, false) => {
                let now = on.cx.now;
                self.connections.set_stage(&tuple, ConnectionState::Closed(now));
                self.forget_removed_members();
            }
            // The client still sends, and may receive replies.
            (true, true) => {
                if let Some(connection) = on.cx.channels.connection_of(datapath) {
                    self.send_return_rule(on, connection, &tuple);
                }
            }
            (false, _) => {}
        }
        true
    }

    /// Returns whether a removed rule is older than the rules sent last: these follow it, or
    /// replaced it. A switch reports an older rule before it confirms the later ones. Times prove
    /// nothing: the clock of the controller may leave out a pause of the process.
    fn is_of_before(known: &Connection) -> bool {
        let is_ours = known.barrier.is_some(); // Not recovered from a switch: recovered ones may expire at any time.
        is_ours && known.stage == ConnectionState::Installing
    }

    /// Sends the return rule of a connection again.
    fn send_return_rule(&mut self, on: &mut Parts<'_>, connection: ConnectionId, tuple: &FiveTuple) {
        let Some(known) = self.connections.get(tuple).copied() else { return };
        let Some(ends) = self.ends_of_known(tuple, &known) else { return };
        let Some(to_client) = on.updater.compiler.to_client(&ends) else { return };
        if on.is_any_occupied(known.edge, std::slice::from_ref(&to_client)) {
            // Packets of the client could not be answered: reject them instead.
            self.delete_rules_of(on, tuple, &known);
            self.connections.remove(tuple);
            return self.report_occupied(on, known.edge, known.owner.service);
        }
        self.send_rule(on, connection, tuple, to_client);
    }
}
