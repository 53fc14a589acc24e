//! Packet-ins for virtual addresses: first packets, copies of them, and packets without a serving
//! member.

use balance::server::{Choice, Request};
use core::net::Ipv4Addr;
use net::{FiveTuple, Time};
use openflow::frame::{Unreachable, flags, icmp_type, icmp_unreachable, segment, tcp_reset};
use openflow::headers::protocol;
use openflow::{Action, BufferId, Headers, MacAddr, Message, PacketOut, PortNo, SetField};

use super::MemberState;
use super::connection_table::{Connection, ConnectionState};
use super::pool_state::MemberEntry;
use super::rules::{ConnectionEndpoints, Owner};
use super::spec::{MemberId, Protocol, Refusal, Service};
use crate::controller::{Controller, tuple_of_packet};
use crate::network::SwitchPort;

/// Number of packets sent through the tables after the rules were confirmed, before the rules are
/// sent again. Packets may have been in flight to the controller; if the rules are gone, packets
/// keep coming.
const LATE_MAX: u8 = 64;
/// Shortest time between two transmissions of the same rules: packets in flight before they took
/// effect also come here.
const RESEND_AFTER: Time = Time::from_ms(10);
/// Longest time a packet waits for rules between the client and the member.
const HELD: Time = Time::from_ms(500);
const HELD_MAX: usize = 4_096;
/// Rate limit of rejections per switch: interval, and burst.
const ANSWER_EVERY: Time = Time::from_ms(1);
const ANSWERS_AT_ONCE: u64 = 100;

/// A packet that waits for rules in both directions.
#[derive(Clone, Debug)]
pub(super) struct HeldPacket {
    at: SwitchPort,
    tuple: FiveTuple,
    member: Ipv4Addr,
    data: Vec<u8>,
    pub(super) until: Time,
}

enum PacketAction {
    /// Send it through the tables again: its rules are installed or will be.
    Onward,
    /// Send its rules again, to the switch it came from.
    Again,
    /// Drop it: it keeps coming.
    Drop,
    /// Reset it: its member failed.
    Reset,
    /// Pick another member.
    Anew,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemberChoice {
    Same,
    Member(MemberId),
    Anyone,
    /// None: its member has failed, and its client receives a reset.
    Nobody,
}

impl Controller {
    pub(crate) fn virtual_packet(&mut self, at: SwitchPort, headers: &Headers, data: &[u8]) {
        if is_later_fragment(data) || self.vips.is_virtual(headers.ipv4_src) {
            return;
        }
        if self.config.health_check_address.is_some_and(|checker| checker.ipv4 == headers.ipv4_dst) {
            return self.on_check_reply(at, headers, data);
        }
        let is_error = headers.ip_proto == protocol::ICMP && headers.l4_src != u16::from(icmp_type::ECHO_REQUEST);
        if is_error {
            return; // An ICMP message about a connection, or an unsolicited reply: neither gets a response.
        }
        let tuple = tuple_of_connection(headers);
        let place = (tuple.dst, tuple.protocol, tuple.dst_port);
        let service = self.vips.by_place.get(&place).and_then(|id| self.vips.services.get(id)).cloned();
        let Some(service) = service else { return self.refuse(at, data, Refusal::Reset) };
        let course = match self.vips.connections.get(&tuple).copied() {
            Some(known) => self.action_for(at, &known, data),
            None => PacketAction::Anew,
        };
        match course {
            PacketAction::Onward => self.send_on(at, &tuple, data),
            PacketAction::Again => self.connect(at, &service, tuple, MemberChoice::Same, data),
            PacketAction::Drop => {}
            PacketAction::Reset => {
                if service.protocol != Protocol::Tcp {
                    self.vips.connections.remove(&tuple);
                }
                self.refuse(at, data, Refusal::Reset);
            }
            PacketAction::Anew => {
                let is_new = self.vips.connections.get(&tuple).is_some() || self.vips.waiting.has(&tuple);
                match self.member_choice_for(at, &service, &tuple, data, is_new) {
                    MemberChoice::Nobody => self.refuse(at, data, Refusal::Reset),
                    wish => self.connect(at, &service, tuple, wish, data),
                }
            }
        }
    }

    fn action_for(&mut self, at: SwitchPort, known: &Connection, data: &[u8]) -> PacketAction {
        let opened = opening(data);
        let is_opening = (known.translated.protocol == protocol::TCP).then_some(opened.is_some());
        let (is_up, is_leaving) = match self.vips.member(known.owner) {
            Some(facts) => {
                // A drained member gets no new connections either, and a client may reuse a port.
                let is_drained = !facts.spec.is_enabled && is_opening == Some(true);
                (facts.state == MemberState::Up, facts.is_removed || is_drained)
            }
            // Its last rule has expired, and the connection continues after all.
            None => (self.has_live_port(known.translated.dst), true),
        };
        match known.stage {
            // The client reuses a port whose rules are installed; only switches that match TCP
            // flags send this packet.
            ConnectionState::Installing | ConnectionState::Installed if opened.is_some() && opened != known.opened => {
                PacketAction::Anew
            }
            ConnectionState::MemberFailed(_) if is_opening == Some(true) => PacketAction::Anew,
            ConnectionState::MemberFailed(_) => PacketAction::Reset,
            // A new connection from a known port must not get a member that is failing or removed.
            ConnectionState::Closed(_) if !is_up || (is_leaving && is_opening != Some(false)) => PacketAction::Anew,
            ConnectionState::Closed(_) => PacketAction::Again,
            _ if known.edge != at.0 => PacketAction::Again,
            ConnectionState::Installing => PacketAction::Onward,
            ConnectionState::Installed if known.late < LATE_MAX => PacketAction::Onward,
            ConnectionState::Installed if self.now >= known.sent.saturating_add(RESEND_AFTER) => PacketAction::Again,
            ConnectionState::Installed => PacketAction::Drop,
        }
    }

    /// Sends the rules of a connection, and its packet after them.
    fn connect(&mut self, at: SwitchPort, service: &Service, tuple: FiveTuple, wish: MemberChoice, data: &[u8]) {
        let refusal = self.vips.pools.get(&service.pool).map_or(Refusal::Reset, |pool| pool.spec.refusal);
        let is_unavailable = self.vips.unavailable.get(&(service.id, at.0)).is_some_and(|until| self.now < *until);
        if is_unavailable || !self.vips.connections.make_room(self.now) {
            return self.refuse(at, data, refusal);
        }
        let before = self.vips.connections.get(&tuple).copied();
        let kept = before.filter(|_| wish == MemberChoice::Same);
        let Some(edge) = self.network.node_of(at.0) else { return };
        let request = Request { tuple, edge, size: None, at: self.now };
        let choice = match (kept, wish) {
            (Some(known), _) => Some(Choice { member: known.owner.member, path: None }),
            (None, MemberChoice::Member(member)) => Some(Choice { member, path: None }),
            _ => self.pick(&request, service),
        };
        if choice.is_none() && self.waits(at, tuple, service.pool, data) {
            return self.forget_connection(&tuple);
        }
        let ends = choice.as_ref().and_then(|choice| match kept {
            Some(known) => self.ends_of_known(&tuple, &known),
            None => self.ends_of_new(tuple, Owner { service: service.id, member: choice.member }, service),
        });
        let written = |ends: &ConnectionEndpoints| self.vips.member(ends.owner).and_then(|facts| facts.mac);
        let mac = ends.and_then(|ends| self.interface_of(ends.member).or_else(|| written(&ends)));
        let (Some(ends), Some(mac)) = (ends, mac) else {
            self.forget_connection(&tuple);
            return self.refuse(at, data, refusal);
        };
        match before.filter(Connection::has_rules) {
            Some(before) if before.edge != at.0 => self.delete_rules_of(&tuple, &before),
            Some(before) if before.owner != ends.owner => self.delete_to_member_rule_of(&tuple, &before),
            _ => {}
        }
        let translated = ends.translated();
        let opened = opening(data).or(kept.and_then(|before| before.opened));
        let mut connection = Connection::new(ends.owner, translated, at.0, mac, self.now, ConnectionState::Installing);
        connection.opened = opened;
        self.vips.connections.begin(tuple, connection);
        self.report_ended_connections();
        if kept.is_some() {
            self.add_removed_member(ends.owner, ends.member, ends.member_port);
            self.report_placed(&tuple, &connection);
        }
        if !self.send_rules(at.0, &ends, mac) {
            self.vips.connections.remove(&tuple);
            return self.refuse(at, data, refusal);
        }
        self.report_flow(&tuple, &connection);
        if let Some(path) = choice.and_then(|choice| choice.path) {
            self.pin_connection(translated, path, edge);
        }
        if kept.is_some() {
            self.try_update_path(&tuple);
        }
        self.send_on(at, &tuple, data);
    }

    fn forget_connection(&mut self, tuple: &FiveTuple) {
        if let Some(known) = self.vips.connections.remove(tuple).filter(Connection::has_rules) {
            self.delete_to_member_rule_of(tuple, &known);
        }
    }

    /// Picks a member and a path for a new connection. Not the client itself: a switch does not
    /// send a packet back where it came from. Not a member at which its translated tuple would
    /// equal that of another connection of the client.
    fn pick(&mut self, request: &Request, service: &Service) -> Option<Choice> {
        self.update_latencies();
        let has_load = self.wants_ports();
        let Controller { vips, network, flows, load, now, .. } = self;
        let pool = vips.pools.get_mut(&service.pool)?;
        let tuple = &request.tuple;
        let is_out = |facts: &MemberEntry| {
            let spec = &facts.spec;
            let translated = FiveTuple { dst: spec.address, dst_port: member_port(spec.port, service), ..*tuple };
            spec.address == tuple.src || vips.connections.is_translated_taken(&translated, tuple)
        };
        let except: Vec<MemberId> = pool.members.iter().filter(|(_, facts)| is_out(facts)).map(|(id, _)| *id).collect();
        let view = super::view_of(*now, network, flows, if has_load { load } else { &[] });
        pool.pick(request, &except, &view)
    }

    pub(super) fn ends_of(
        &self,
        tuple: FiveTuple,
        owner: Owner,
        member: Ipv4Addr,
        member_port: u16,
    ) -> Option<ConnectionEndpoints> {
        let service = self.vips.services.get(&owner.service)?;
        let (vip_mac, idle_timeout_s) = (service.mac(), service.idle_timeout_s);
        Some(ConnectionEndpoints { tuple, vip_mac, owner, member, member_port, idle_timeout_s })
    }
    pub(super) fn ends_of_known(&self, tuple: &FiveTuple, known: &Connection) -> Option<ConnectionEndpoints> {
        self.ends_of(*tuple, known.owner, known.translated.dst, known.translated.dst_port)
    }
    fn ends_of_new(&self, tuple: FiveTuple, owner: Owner, service: &Service) -> Option<ConnectionEndpoints> {
        let spec = self.vips.member(owner)?.spec;
        self.ends_of(tuple, owner, spec.address, member_port(spec.port, service))
    }
    pub(super) fn interface_of(&self, address: Ipv4Addr) -> Option<MacAddr> {
        Some(self.network.host_at(address)?.known.mac)
    }

    /// Sends a packet through the tables of its switch, when rules lead between client and member
    /// in both directions.
    fn send_on(&mut self, at: SwitchPort, tuple: &FiveTuple, data: &[u8]) {
        let Some(known) = self.vips.connections.get(tuple).copied() else { return };
        self.vips.connections.edit(tuple, |connection| {
            connection.late = if connection.stage == ConnectionState::Installed { connection.late + 1 } else { 0 };
        });
        let (client, member) = (tuple.src, known.translated.dst);
        let has_route = self.are_connected(at, client, member);
        if !has_route && self.vips.held.len() < HELD_MAX {
            let until = self.now.saturating_add(HELD);
            self.vips.held.push(HeldPacket { at, tuple: *tuple, member, data: data.to_vec(), until });
            return;
        }
        self.through_tables(at, tuple, data.to_vec());
    }

    /// Sends the packets whose rules are installed now.
    pub(crate) fn release_packets(&mut self) {
        if self.vips.held.is_empty() {
            return;
        }
        let held = std::mem::take(&mut self.vips.held);
        for packet in held {
            if packet.until <= self.now || self.are_connected(packet.at, packet.tuple.src, packet.member) {
                self.through_tables(packet.at, &packet.tuple, packet.data);
            } else {
                self.vips.held.push(packet);
            }
        }
    }

    /// Sends a packet of a connection through the tables of its switch. An opening segment would
    /// return to the controller if the switch matches TCP flags, unless it has the Ethernet address
    /// of the member already.
    fn through_tables(&mut self, (datapath, port): SwitchPort, tuple: &FiveTuple, data: Vec<u8>) {
        let Some(connection) = self.connections.get(&datapath).copied() else { return };
        let switch = self.installer_of(datapath);
        let comes_back = switch.is_some_and(|switch| switch.takes_tcp_flags) && opening(&data).is_some();
        let known = self.vips.connections.get(tuple).filter(|_| comes_back);
        let mut actions: Vec<Action> =
            known.map(|known| Action::SetField(SetField::EthDst(known.mac))).into_iter().collect();
        actions.push(Action::output(PortNo::TABLE));
        let packet = PacketOut { buffer: BufferId::NO_BUFFER, in_port: port, actions, data };
        self.tally.packet_outs += 1;
        self.send(connection, Message::PacketOut(packet));
    }

    /// Rejects a packet of a client, within the rate limit of its switch.
    pub(super) fn refuse(&mut self, at: SwitchPort, data: &[u8], refusal: Refusal) {
        let ip_proto = openflow::frame::parse(data).map_or(0, |headers| headers.ip_proto);
        let answer = match (refusal, ip_proto) {
            (Refusal::Drop, _) => None,
            (Refusal::Reset, protocol::TCP) => tcp_reset(data),
            (Refusal::Reset, protocol::UDP) => icmp_unreachable(data, Unreachable::Port),
            (Refusal::Reset, protocol::ICMP) | (Refusal::Unreachable, _) => icmp_unreachable(data, Unreachable::Host),
            (Refusal::Reset, _) => icmp_unreachable(data, Unreachable::Protocol),
        };
        let Some(answer) = answer else { return };
        let now = self.now;
        if self.vips.answers.entry(at.0).or_default().take(now, ANSWER_EVERY, ANSWERS_AT_ONCE) {
            self.packet_out(at, answer);
        }
    }
}

pub(super) fn member_port(port: Option<u16>, service: &Service) -> u16 {
    if service.protocol.has_ports() { port.unwrap_or(service.port) } else { 0 }
}

/// Returns the five-tuple of a connection. Echoes of a pair of hosts are one connection, since no
/// rule can distinguish them.
fn tuple_of_connection(headers: &Headers) -> FiveTuple {
    let tuple = tuple_of_packet(headers);
    match headers.ip_proto {
        protocol::TCP | protocol::UDP => tuple,
        _ => FiveTuple { src_port: 0, dst_port: 0, ..tuple },
    }
}

fn opening(data: &[u8]) -> Option<u32> {
    let segment = segment(data).ok()??;
    (segment.has(flags::SYN) && !segment.has(flags::ACK)).then_some(segment.seq)
}

/// Returns whether a TCP segment opens a connection; `None` if it is not TCP.
pub(super) fn opens(data: &[u8]) -> Option<bool> {
    segment(data).ok().flatten().map(|_| opening(data).is_some())
}

/// Returns whether an untagged IPv4 packet is a fragment other than the first, which has no ports.
fn is_later_fragment(data: &[u8]) -> bool {
    let offset = data.get(20..22).map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    offset & 0x1fff != 0
}
